"""What holds for every module: arrows point down, rooms stay small, data is frozen."""

import dataclasses
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import colab_doctor
import colab_helpers
import colab_lessons
import course

ROOT = Path(__file__).parents[1]
PACKAGES = (colab_helpers, colab_doctor, colab_lessons, course)
#: They are filled while something runs.
GROWING = {
    "colab_helpers.runtime.log_noise.LogNoise",
    "course.run.lessons.Ran",
    "colab_helpers.memory.allocator.Block",
    "colab_helpers.memory.allocator.Count",
}
#: The packages from top to bottom: each may use those below it.
USES = {
    "course": {"colab_helpers", "colab_doctor", "colab_lessons"},
    "colab_lessons": {"colab_helpers", "colab_doctor"},
    "colab_doctor": {"colab_helpers"},
    "colab_helpers": set(),
}
#: The rooms of `course`, from top to bottom.
ROOMS = ("site", "classroom", "gpu", "check", "run", "publish", "write", "fake_gpu", "table")
#: The most lines of Python at which a newcomer reads a package in an afternoon.
MOST = {"colab_helpers": 8000, "colab_doctor": 3800, "course": 9000}


def files(package):
    return sorted((ROOT / package).rglob("*.py"))


def imports(path, pattern):
    return set(re.findall(rf"(?m)^\s*(?:from|import) {pattern}", path.read_text("utf-8")))


@pytest.mark.parametrize("package", USES)
def test_a_package_uses_only_what_lies_below(package):
    for path in files(package):
        if "static" in path.parts or "denied" in path.parts:  # these run elsewhere
            continue
        used = imports(path, r"(course|colab_\w+)\b") - {package}
        assert used <= USES[package], path


def test_inside_course_arrows_point_down_too():
    for path in files("course"):
        room = path.relative_to(ROOT / "course").parts[0]
        if room not in ROOMS or "denied" in path.parts:
            continue
        named = imports(path, r"course\.(\w+)") | imports(path, r"course import (\w+)")
        above = {other for other in named & {*ROOMS} if ROOMS.index(other) < ROOMS.index(room)}
        assert not above, (path, above)


@pytest.mark.parametrize("package", MOST)
def test_a_package_stays_small(package):
    assert (
        sum(len(path.read_text("utf-8").splitlines()) for path in files(package)) <= MOST[package]
    )


def test_no_module_has_outgrown_its_room():
    counts = {
        path: len(path.read_text("utf-8").splitlines()) for name in USES for path in files(name)
    }
    assert {str(path.relative_to(ROOT)): n for path, n in counts.items() if n > 525} == {}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_data_cannot_be_changed(package):
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if info.name.endswith("__main__"):
            continue
        for thing in vars(importlib.import_module(info.name)).values():
            if not inspect.isclass(thing) or thing.__module__ != info.name:
                continue
            if dataclasses.is_dataclass(thing):
                full = f"{info.name}.{thing.__qualname__}"
                assert thing.__dataclass_params__.frozen != (full in GROWING), full


@pytest.mark.parametrize("package", USES)
def test_a_module_says_in_a_statement_what_it_does(package):
    for path in files(package):
        text = path.read_text("utf-8")
        if text.strip() and not path.name.startswith("__init__"):
            first = text.lstrip().partition("\n")[0]
            assert first.startswith('"""'), path
            assert not first.rstrip('"').endswith("?"), path
