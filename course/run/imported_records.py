"""Records of lessons that ran on another machine."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import nbformat

from course.config import CourseError
from course.run import execute


def records(path: Path) -> Iterator[tuple[str, dict]]:
    """Yield (name, record) from a folder of executed notebooks, or from an archive's `records/`.

    Records are plain data. Raises `CourseError` where `path` is neither.
    """
    if path.is_dir():
        for notebook in sorted(path.glob("*.ipynb")):
            found = execute.records(nbformat.read(notebook, as_version=4))
            yield from ((notebook.name, data) for data in found if data.get("kind") == "record")
        return
    try:
        with tarfile.open(path) as archive:
            names = [name for name in archive.getnames() if name.startswith("records/")]
            for name in sorted(names):
                file = archive.extractfile(name)
                if file is not None:
                    yield name, json.load(file)
    except (OSError, tarfile.TarError, ValueError) as error:
        raise CourseError(f"{path} is no folder of notebooks, and no archive: {error}.") from error
