"""How does a notebook get the helper of this working tree, not the published one?

On Colab a set-up cell installs the helper from the repository's archive. Here that archive is made of
the working tree, and the cell is pointed at it.
"""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import nbformat

from course.build import assemble
from course.table import Course, CourseError, Lesson


def zip_repository(root: Path, path: Path) -> None:
    """Zip the working tree as the repository's host does: tracked or new files below one folder."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=True, cwd=root,
    ).stdout.split("\0")  # fmt: skip
    with zipfile.ZipFile(path, "w") as bundle:
        for name in filter(None, names):
            if (root / name).exists():
                bundle.write(root / name, f"course-main/{name}")


def write_notebook(course: Course, lesson: Lesson, archive: str, path: Path) -> None:
    """Build the learner's notebook at `path`; its set-up cell installs from the address `archive`.

    Raises `CourseError` where the set-up cell does not name the published archive.
    """
    notebook = assemble.build(course, lesson)
    [set_up] = [cell for cell in notebook.cells if "set-up" in cell.metadata.get("tags", [])]
    if course.repository.archive not in set_up.source:
        raise CourseError(f"The set-up cell does not name {course.repository.archive}.")
    set_up.source = set_up.source.replace(course.repository.archive, archive)
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
