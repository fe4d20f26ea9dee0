"""Releases of the helper, so that setup cells install exactly one version.

`prepare` writes version, address and hash into the tree; committed and tagged, the workflow builds the
same wheel again, checks that all agree, and publishes it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from packaging.version import Version

from colab_helpers import _atomic_files
from course.config import Course, CourseError, Release
from course.publish import retarget, source_zip
from course.write import assemble, generated_sections

#: What one wheel holds: all that a notebook may import.
PACKAGES = ("colab_helpers", "colab_doctor", "colab_lessons")
#: Every file in a wheel has this date (2020-01-01), so that the same tree gives the same bytes.
EPOCH = "1577836800"


@dataclass(frozen=True)
class Wheel:
    """A built wheel: its file name, its bytes, and their SHA-256."""

    name: str
    content: bytes

    @property
    def sha256(self) -> str:
        """The hash that a setup cell asks for."""
        return hashlib.sha256(self.content).hexdigest()


def build_wheel(root: Path, version: str = "") -> Wheel:
    """Build the helper of the tree below `root`, as `version` if given; the tree is not changed."""
    from hatchling.builders.wheel import WheelBuilder

    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "tree"
        _copy(root, copy)
        if version:
            own = copy / "colab_helpers" / "__init__.py"
            own.write_text(_with_version(own.read_text("utf-8"), version), "utf-8")
        with mock.patch.dict(os.environ, SOURCE_DATE_EPOCH=EPOCH):
            [made] = WheelBuilder(str(copy)).build(directory=scratch, versions=["standard"])
        return Wheel(Path(made).name, _uncompressed(Path(made)))


def _uncompressed(wheel: Path) -> bytes:
    """The same wheel without compression, whose bytes would differ from one zlib to another."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(wheel) as packed, zipfile.ZipFile(buffer, "w") as plain:
        for entry in packed.infolist():
            content = packed.read(entry)
            entry.compress_type = zipfile.ZIP_STORED
            plain.writestr(entry, content)
    return buffer.getvalue()


def prepare(course: Course, version: str) -> list[Path]:
    """Write a release into the tree and its wheel into dist/; return the files that changed.

    All is made before the first file is written, and `pyproject.toml` is written last: stopped in the
    middle, the same command ends the work. Raises `CourseError` for what is no version, or an older one.
    """
    _check_version(version, course)
    _check_tag(course.root, version)
    wheel = build_wheel(course.root, version)
    release = Release(version, wheel.sha256)
    there = dataclasses.replace(course.repository, version=version, release=release)
    released = dataclasses.replace(course, repository=there)
    own = course.root / "colab_helpers" / "__init__.py"
    texts = {own: _with_version(own.read_text("utf-8"), version)}
    texts |= retarget.notebooks(released)
    texts |= generated_sections.render(released)
    project = course.root / "pyproject.toml"
    texts[project] = _with_release(project.read_text("utf-8"), release)
    _atomic_files.write(course.root / "dist" / wheel.name, wheel.content)
    return assemble.write_all(texts)


def problems(course: Course, tag: str = "") -> list[str]:
    """Say where tag, version, hash and setup cells of a release do not agree."""
    repository, found = course.repository, []
    release = repository.release
    if release is None:
        return ["Nothing is released from here yet: make release VERSION=…"]
    if tag and tag != release.tag:
        found.append(f"The tag is {tag}, and pyproject.toml names {release.tag}.")
    if release.version != repository.version:
        found.append(f"The helper is {repository.version}, and the release {release.version}.")
    elif (built := build_wheel(course.root).sha256) != release.sha256:
        found.append(
            f"The helper's wheel has the SHA-256 {built}, and the release {release.sha256}: the helper "
            "changed. Give it a new version: make release VERSION=…"
        )
    found += [
        f"{lesson.slug}: its setup cell installs something else. Run `make build`."
        for lesson in course.lessons
        if repository.helper not in course.notebook(lesson).read_text("utf-8")
    ]
    return found


def _check_version(version: str, course: Course) -> None:
    now = course.repository.version
    if not re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}", version):
        raise CourseError(f"VERSION={version}: write three numbers, as in VERSION=1.2.0.")
    if Version(version) < Version(now):
        raise CourseError(f"VERSION={version} is older than the helper's present version, {now}.")


def _check_tag(root: Path, version: str) -> None:
    """A tag that is there has been published: its bytes must not change."""
    command = ["git", "-C", str(root), "rev-parse", "--quiet", "--verify", f"refs/tags/v{version}"]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError:
        return
    if done.returncode == 0:
        raise CourseError(f"There is a tag v{version} already: give the next VERSION.")


def _copy(root: Path, copy: Path) -> None:
    """Copy what a wheel is made of, tracked files only."""
    for file in source_zip.files(root, new=False):
        inside = file.relative_to(root)
        if inside.parts[0] in (*PACKAGES, "LICENSE", "pyproject.toml"):
            target = copy / inside
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
            target.chmod(0o644)


def _with_version(text: str, version: str) -> str:
    return re.sub(r'(?m)^__version__ = "[^"]*"$', f'__version__ = "{version}"', text)


def _with_release(text: str, release: Release) -> str:
    line = f'release = {{ version = "{release.version}", sha256 = "{release.sha256}" }}\n'
    text = re.sub(r"(?m)^release = .*\n", "", text)
    return re.sub(r"(?m)^(branch = .*\n)", lambda m: m[1] + line, text)
