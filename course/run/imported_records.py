"""Records of lessons that ran on another machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nbformat

from course.config import CourseError
from course.run import execute


def records(folder: Path) -> Iterator[tuple[str, dict]]:
    """Yield (name, record) from a folder of executed notebooks.

    Records are plain data. Raises `CourseError` where `folder` is none.
    """
    if not folder.is_dir():
        raise CourseError(f"{folder} is no folder of notebooks.")
    for notebook in sorted(folder.glob("*.ipynb")):
        found = execute.records(nbformat.read(notebook, as_version=4))
        yield from ((notebook.name, data) for data in found if data.get("kind") == "record")
