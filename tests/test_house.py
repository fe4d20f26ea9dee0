"""What holds for every module of both packages."""

import dataclasses
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import colab_helpers
import course

ROOT = Path(__file__).parents[1]
MODULES = [
    module.name
    for package in (colab_helpers, course)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not module.name.endswith("__main__")
]
#: They are filled while something runs.
GROWING = {
    "colab_helpers.runtime.chatter.Chatter",
    "course.run.lessons.Ran",
    "colab_helpers.memory.allocator.Block",
    "colab_helpers.memory.allocator.Count",
}


def dataclasses_of(name):
    for thing in vars(importlib.import_module(name)).values():
        if inspect.isclass(thing) and dataclasses.is_dataclass(thing) and thing.__module__ == name:
            yield thing


@pytest.mark.parametrize("name", MODULES)
def test_data_cannot_be_changed(name):
    for thing in dataclasses_of(name):
        full = f"{name}.{thing.__qualname__}"
        assert thing.__dataclass_params__.frozen != (full in GROWING), full


def test_no_module_has_outgrown_its_room():
    long = {
        str(path.relative_to(ROOT)): count
        for folder in ("colab_helpers", "course")
        for path in (ROOT / folder).rglob("*.py")
        if (count := len(path.read_text("utf-8").splitlines())) > 350
    }
    assert long == {}


def test_an_arrow_points_down_only():
    """colab_helpers uses nothing of ours; its tools nothing of the lessons' floor, but for the records'."""
    for path in (ROOT / "colab_helpers").rglob("*.py"):
        text = path.read_text("utf-8")
        assert "from course" not in text and "import course" not in text, path
        if "lessons" not in path.relative_to(ROOT).parts:
            assert "colab_helpers.lessons" not in text, path
