"""Packages of npm, fetched once and accepted only with the tested hash."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from course.config import Course, CourseError


@dataclass(frozen=True)
class Package:
    """A package in one version: `integrity` is what npm says of it, `purpose` says what for."""

    name: str
    version: str
    integrity: str
    purpose: str

    @property
    def file(self) -> str:
        """The name of its archive."""
        return f"{self.name}-{self.version}.tgz"


#: CPython compiled for browsers (MPL 2.0).
PYODIDE = Package(
    "pyodide",
    "314.0.7",
    "sha512-0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A==",
    "the Python that runs in readers' browsers. Install Node.js, then `make site` again; or "
    "`make site PYTHON_PAGES=no`, whose doctor and planner then say that they are not there",
)
#: Slides in a browser (MIT).
REVEAL = Package(
    "reveal.js",
    "6.0.2",
    "sha512-JYIg5D9aoxoaLeb84O+OvAwsKWdIavVgEDScxtYEXFCT6t6TQrhNtSgogcjdCpdLsWglhJn3zyE3fUOwiH5KEg==",
    "what turns slides. Install Node.js, then `make slides` again",
)


def cache(course: Course) -> Path:
    """Return the folder in which what was fetched is kept."""
    return course.root / "build" / "fetched"


def files(package: Package, names: Iterable[str], cache: Path) -> dict[str, bytes]:
    """Return files of `package` by their names; its archive is fetched once and kept in `cache`.

    Raises `CourseError` where npm is missing, hands out something else than was tested, or a file is not
    in it.
    """
    archive = cache / package.file
    if not archive.exists() or not _matches_integrity(package, archive):
        _fetch(package, archive)
    found = {}
    with tarfile.open(archive) as bundle:
        for name in names:
            try:
                member = bundle.extractfile(f"package/{name}")
            except KeyError:
                member = None
            if member is None:
                raise CourseError(f"{package.file} has no file {name}.")
            found[name] = member.read()
    return found


def _fetch(package: Package, archive: Path) -> None:
    npm, named = shutil.which("npm"), f"{package.name}@{package.version}"
    if npm is None:
        raise CourseError(f"npm is needed once, to fetch {named}: {package.purpose}.")
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        done = subprocess.run(
            [npm, "pack", "--silent", named], cwd=folder, capture_output=True, text=True
        )
        found = list(Path(folder).glob("*.tgz"))
        if done.returncode or len(found) != 1:
            raise CourseError(f"npm could not fetch {named}: {done.stderr.strip()[:500]}")
        if not _matches_integrity(package, found[0]):
            raise CourseError(
                f"npm's {named} is not the file that was tested: its hash differs. Nothing of it is used."
            )
        found[0].replace(archive)


def _matches_integrity(package: Package, archive: Path) -> bool:
    digest = hashlib.sha512(archive.read_bytes()).digest()
    return f"sha512-{base64.b64encode(digest).decode()}" == package.integrity
