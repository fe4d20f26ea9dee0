"""The Python that runs the helper in the reader's browser, so that nothing is sent anywhere."""

from __future__ import annotations

from pathlib import Path

from colab_helpers import _atomic_files
from course import npm
from course.config import Course
from course.publish import source_zip

#: Of the package, what a page loads; the rest is for Node and for editors.
_FILES = (
    "pyodide.mjs",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "python_stdlib.zip",
    "pyodide-lock.json",
)
#: Parts of the helper that pages do not use.
_LEFT_OUT = ("figures", "__pycache__")


def provide(course: Course, site: Path, cache: Path) -> None:
    """Put Python and the helper into `site`, a built site; what is fetched is kept in `cache`.

    Raises `CourseError` where npm is missing, or hands out something else than before.
    """
    place = site / "_static" / "pyodide"
    place.mkdir(parents=True, exist_ok=True)
    for name, content in npm.files(npm.PYODIDE, _FILES, cache).items():
        _atomic_files.write(place / name, content)
    _pack(course, site / "_static" / "colab_helpers.zip")


def _pack(course: Course, path: Path) -> None:
    """Zip the helper, byte for byte the same for the same files."""
    files = [
        file
        for package in ("colab_helpers", "colab_doctor")
        for file in sorted((course.root / package).rglob("*"))
        if file.suffix in (".py", ".toml", ".json", ".typed")
    ]
    used = [file for file in files if not set(_LEFT_OUT) & set(file.relative_to(course.root).parts)]
    source_zip.zip_files(
        path, {str(file.relative_to(course.root)): file.read_bytes() for file in used}
    )
