"""With which Python do pages run the helper in the reader's browser, so that nothing is sent anywhere?"""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

from colab_helpers import _files
from course.table import Course, CourseError

#: Pyodide, CPython compiled for browsers (MPL 2.0), as npm has it; the hash is npm's "integrity".
VERSION = "314.0.7"
INTEGRITY = "sha512-0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A=="
#: Of the package, what a page loads; the rest is for Node and for editors.
_FILES = (
    "pyodide.mjs",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "python_stdlib.zip",
    "pyodide-lock.json",
)
#: Parts of the helper that pages do not use.
_LEFT_OUT = ("lessons", "figures", "stand_in", "__pycache__")


def provide(course: Course, site: Path, cache: Path) -> None:
    """Put Python and the helper into `site`, a built site; what is fetched is kept in `cache`.

    Raises `CourseError` where npm is missing, or hands out something else than before.
    """
    package = cache / f"pyodide-{VERSION}.tgz"
    if not package.exists() or not _is_right(package):
        _fetch(package)
    place = site / "_static" / "pyodide"
    place.mkdir(parents=True, exist_ok=True)
    with tarfile.open(package) as archive:
        for name in _FILES:
            member = archive.extractfile(f"package/{name}")
            if member is None:
                raise CourseError(f"{package.name} has no file {name}.")
            _files.write(place / name, member.read())
    _pack(course, site / "_static" / "colab_helpers.zip")


def _fetch(package: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise CourseError(
            "npm is needed once, to fetch Pyodide: the Python that runs in readers' browsers. Install "
            "Node.js, then `make site` again; or `make site PYTHON_PAGES=no`, whose doctor and planner "
            "then say that they are not there."
        )
    package.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=package.parent) as folder:
        done = subprocess.run(
            [npm, "pack", "--silent", f"pyodide@{VERSION}"],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        found = list(Path(folder).glob("*.tgz"))
        if done.returncode or len(found) != 1:
            raise CourseError(f"npm could not fetch pyodide@{VERSION}: {done.stderr.strip()[:500]}")
        if not _is_right(found[0]):
            raise CourseError(
                f"npm's pyodide@{VERSION} is not the file that was tested: its hash differs. Nothing of it "
                "is used."
            )
        found[0].replace(package)


def _is_right(package: Path) -> bool:
    digest = hashlib.sha512(package.read_bytes()).digest()
    return f"sha512-{base64.b64encode(digest).decode()}" == INTEGRITY


def _pack(course: Course, path: Path) -> None:
    """Zip the helper, byte for byte the same for the same files."""
    root = course.root / "colab_helpers"
    files = [p for p in sorted(root.rglob("*")) if p.suffix in (".py", ".toml", ".json", ".typed")]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            if not set(_LEFT_OUT) & set(file.relative_to(root).parts):
                info = zipfile.ZipInfo(str(file.relative_to(course.root)), (2026, 1, 1, 0, 0, 0))
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, file.read_bytes())
