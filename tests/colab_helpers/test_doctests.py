"""The examples in the docstrings run, and each parameter is named."""

import doctest
import importlib
import inspect
import pkgutil
import re

import pytest

import colab_helpers
import course

MODULES = [
    module.name
    for package in (colab_helpers, course)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not module.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0


def functions():
    """Every public function and method of the helper, with all that its docstrings say of it."""
    for info in pkgutil.walk_packages(colab_helpers.__path__, "colab_helpers."):
        parts = info.name.split(".")
        # A check takes a state, a judge an answer: their modules say what that is.
        if any(part.startswith(("_", "lesson_")) for part in parts) or "checks" in parts:
            continue
        for name, thing in vars(importlib.import_module(info.name)).items():
            if name.startswith("_") or getattr(thing, "__module__", None) != info.name:
                continue
            if inspect.isfunction(thing):
                yield f"{info.name}.{name}", thing, thing.__doc__ or ""
            elif inspect.isclass(thing):
                for method, function in vars(thing).items():
                    if inspect.isfunction(function) and not method.startswith("_"):
                        told = f"{function.__doc__} {thing.__doc__}"
                        yield f"{info.name}.{name}.{method}", function, told


FUNCTIONS = list(functions())


@pytest.mark.parametrize(
    ("name", "function", "told"), FUNCTIONS, ids=[name for name, *_ in FUNCTIONS]
)
def test_every_parameter_is_named_in_the_docstring(name, function, told):
    wanted = [p for p in inspect.signature(function).parameters if p not in ("self", "cls")]
    missing = [parameter for parameter in wanted if not re.search(rf"\b{parameter}\b", told)]
    assert missing == [], name
