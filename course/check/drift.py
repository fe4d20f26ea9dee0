"""Colab's package lists against those tested, and the lessons that feel a change.

Compares a runtime's present package list (what `pip freeze` prints there) with the versions that the
course was tested against, in `colab_helpers/runtime_images.toml`. A lesson is at risk when something it
imports is gone, moved by a major version, or fell below what the course needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packaging.version import Version

from colab_helpers import runtime_images
from colab_helpers._import_names import canonicalize_name, distribution_name
from course.config import Course, CourseError

#: What every lesson uses, through the helper or the notebook itself.
_EVERYWHERE = ("ipython", "ipykernel", "matplotlib", "numpy")
#: Below these the lessons do not work.
_MIN_VERSIONS = {"torch": "2.6", "keras": "3", "jax": "0.4.34", "numpy": "1.26", "ipython": "7.34"}


class NoListError(CourseError):
    """Colab's lists could not be read: nothing is known about drift."""

    exit_code = 2


@dataclass(frozen=True)
class Change:
    """One package that differs: versions ("" where absent), the lessons that use it, and the risk."""

    package: str
    old: str
    new: str
    lessons: tuple[str, ...]
    risk: str = ""

    def __str__(self) -> str:
        moved = f"{self.package} {self.old or 'absent'} -> {self.new or 'absent'}"
        used = f"; used by {', '.join(self.lessons)}" if self.lessons else ""
        return f"{moved}{used}" + (f"; AT RISK: {self.risk}" if self.risk else "")


def tested_versions(runtime: str) -> dict[str, str]:
    """Return the versions that the course was tested against, by normalized name."""
    table = runtime_images.images()[runtime_images.LATEST].runtimes
    if runtime not in table:
        raise CourseError(f"No runtime {runtime}. There are: {', '.join(table)}.")
    return {canonicalize_name(name): version for name, version in table[runtime].items()}


def detect_runtime(versions: Mapping[str, str]) -> str:
    """Say whose list this is, from what only one runtime has.

    >>> detect_runtime({"libtpu": "0.0.21"}), detect_runtime({"torch": "2.11.0+cu130"})
    ('tpu', 'gpu')
    """
    if "libtpu" in versions:
        return "tpu"
    return "gpu" if "+cu" in versions.get("torch", "") else "cpu"


def download(runtime: str) -> str:
    """Return Colab's present list of a runtime. Raises `NoListError` in words without a network."""
    try:
        return runtime_images.fetch_list(runtime)
    except OSError as error:
        raise NoListError(
            f"Colab's list could not be read ({error}). Save {runtime_images.list_address(runtime)} and run "
            "`make drift FREEZE=that-file`."
        ) from error


def compare(course: Course, old: Mapping[str, str], new: Mapping[str, str]) -> list[Change]:
    """Return what differs among the packages that the course touches, risks first."""
    users = _lessons_by_package(course)
    changes = [
        Change(
            name,
            old.get(name, ""),
            new.get(name, ""),
            users.get(name, ()),
            _risk(name, old, new) if name in users else "",
        )
        for name in sorted({*old, *(users.keys() & new.keys())})
        if old.get(name) != new.get(name)
    ]
    return sorted(changes, key=lambda change: (not change.risk, change.package))


def report(changes: Sequence[Change], runtime: str) -> str:
    """Return the lines to print, or to open an issue with."""
    risks = sum(bool(change.risk) for change in changes)
    head = f"{runtime} runtime: {len(changes)} of the course's packages changed, {risks} at risk."
    return "\n".join([head, *(f"- {change}" for change in changes)])


def _risk(name: str, old: Mapping[str, str], new: Mapping[str, str]) -> str:
    if name not in new:
        return "it is gone"
    if name not in old:
        return ""
    before, now = Version(old[name]), Version(new[name])
    if now < Version(_MIN_VERSIONS.get(name, "0")):
        return f"the course needs {_MIN_VERSIONS[name]} or newer"
    if before.major != now.major:
        return "a major version moved"
    # Before 1.0 the second number is the one that breaks things, jax's excepted: it moves monthly.
    monthly = name in ("jax", "jaxlib", "libtpu")
    if before.major == 0 and not monthly and before.minor != now.minor:
        return "a version below 1.0 moved"
    return ""


def _lessons_by_package(course: Course) -> dict[str, tuple[str, ...]]:
    """Distribution -> the lessons that import it."""
    users: dict[str, list[str]] = {}
    for lesson in course.lessons:
        for name in (*lesson.packages, *lesson.optional):
            users.setdefault(canonicalize_name(distribution_name(name)), []).append(lesson.slug[:2])
    everyone = tuple(lesson.slug[:2] for lesson in course.lessons)
    return {name: tuple(found) for name, found in users.items()} | dict.fromkeys(
        _EVERYWHERE, everyone
    )
