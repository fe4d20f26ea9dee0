"""Digests of stored outputs: whether they are those of the run that made them.

`make notebooks` writes, beside the notebooks, a digest of each cell's outputs. A number, a record or a
picture that was changed by hand no longer fits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from colab_helpers import _atomic_files
from course.config import Course, CourseError, Lesson, Repository


def path(course: Course) -> Path:
    """The file with the digests of all stored outputs."""
    return course.root / "notebooks" / "outputs.json"


def save(course: Course, lesson: Lesson, digests: dict[str, str]) -> None:
    """Write the digests of a lesson's outputs: key of a cell -> digest."""
    try:
        earlier = _read(course)
    except CourseError:  # in conflict, say: this run makes its own part anew
        earlier = {}
    text = json.dumps({**earlier, lesson.slug: digests}, indent=1, sort_keys=True)
    _atomic_files.write(path(course), text + "\n")


def load(course: Course, lesson: Lesson) -> dict[str, str]:
    """Return the digests of a lesson's outputs; none before its first run."""
    return _read(course).get(lesson.slug, {})


def digest(cell: NotebookNode, own: Repository) -> str:
    """Return the digest of a cell's outputs. The course's own addresses don't count: forks have theirs."""
    text = json.dumps(cell.outputs, sort_keys=True).replace(own.url, "").replace(own.site, "")
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read(course: Course) -> dict[str, dict[str, str]]:
    if not path(course).exists():
        return {}
    try:
        found = json.loads(path(course).read_text("utf-8"))
        return {slug: dict(cells) for slug, cells in found.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise CourseError(
            f"notebooks/{path(course).name} cannot be read ({error}). Restore it (git checkout), or run "
            "`make notebooks`."
        ) from error


def pictures(outputs: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return every figure among the outputs of cells as (PNG in base64, alt text), in order."""
    return [
        (o["data"]["image/png"].replace("\n", ""), _alt_text(o))
        for o in outputs
        if isinstance(o.get("data"), Mapping) and isinstance(o["data"].get("image/png"), str)
    ]


def _alt_text(output: Mapping[str, Any]) -> str:
    metadata = output.get("metadata")
    image = metadata.get("image/png") if isinstance(metadata, Mapping) else None
    return str(image.get("alt", "")) if isinstance(image, Mapping) else ""
