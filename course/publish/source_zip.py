"""A zip of the working tree, and notebooks that install the helper from it.

On Colab a setup cell installs the helper from the repository's address. Here an archive is made of
the working tree, and the cell is pointed at it.
"""

from __future__ import annotations

import os
import subprocess
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from colab_helpers import _atomic_files
from course.config import Course, CourseError, Lesson
from course.write import assemble

#: Folders that commands make, where there is no git to say so.
_GENERATED = ("__pycache__", "node_modules")
_GENERATED_AT_TOP = ("build", "dist")


def zip_repository(root: Path, path: Path) -> None:
    """Zip the working tree as the repository's host does: tracked or new files below one folder.

    Without git, in an unpacked zip, or in a checkout of somebody else: every file but made ones.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as bundle:
        for file in files(root):
            bundle.write(file, f"course-main/{file.relative_to(root)}")


def zip_files(path: Path, contents: Mapping[str, bytes]) -> Path:
    """Zip `contents`, by their names, at `path`: byte for byte the same for the same contents."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in contents.items():
            info = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            bundle.writestr(info, content)
    return path


def files(root: Path, new: bool = True) -> list[Path]:
    """Return the files that belong to the repository, in order; `new` ones count where git knows."""
    return sorted(file for file in _tracked(root, new) or _walk(root) if file.is_file())


def write_notebook(course: Course, lesson: Lesson, address: str, path: Path) -> None:
    """Build the learner's notebook at `path`; its setup cell installs from `address`.

    Raises `CourseError` where the setup cell does not name the published address.
    """
    notebook = assemble.build(course, lesson)
    [set_up] = [cell for cell in notebook.cells if "set-up" in assemble.tags_of(cell)]
    if course.repository.helper not in set_up.source:
        raise CourseError(f"The setup cell does not name {course.repository.helper}.")
    set_up.source = set_up.source.replace(course.repository.helper, address)
    _atomic_files.write(path, assemble.dumps(notebook))


def _tracked(root: Path, new: bool) -> list[Path]:
    """The files that git knows or would know; none where it does not answer."""
    command = ["git", "ls-files", "-z", "--cached"]
    command += ["--others", "--exclude-standard"] if new else []
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    except OSError:
        return []
    return [root / name for name in done.stdout.split("\0") if name] if not done.returncode else []


def _walk(root: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(root):
        here = Path(place)
        folders[:] = [name for name in folders if not _is_generated(here / name, root)]
        yield from (here / name for name in names if not name.endswith((".part", ".pyc")))


def _is_generated(folder: Path, root: Path) -> bool:
    """A folder that commands make: an environment, a cache, what was built."""
    hidden = folder.name.startswith(".") and folder.name not in (".github", ".ci")
    at_top = folder.parent == root and folder.name in _GENERATED_AT_TOP
    return hidden or at_top or folder.name in _GENERATED or (folder / "pyvenv.cfg").exists()
