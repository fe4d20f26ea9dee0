"""The examples in the docstrings run, and each parameter is named."""

import doctest
import importlib
import inspect
import pkgutil
import re

import pytest

import colab_doctor
import colab_helpers
import colab_lessons
import course

PACKAGES = (colab_helpers, colab_doctor, colab_lessons, course)


def modules(package):
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not info.name.endswith("__main__"):
            yield importlib.import_module(info.name)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_examples_run(package):
    for module in modules(package):
        assert doctest.testmod(module).failed == 0, module.__name__


def functions(module):
    """Every public function and method of a module, with all that its docstrings say of it."""
    for name, thing in vars(module).items():
        if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(thing):
            yield name, thing, thing.__doc__ or ""
        elif inspect.isclass(thing):
            for method, function in vars(thing).items():
                if inspect.isfunction(function) and not method.startswith("_"):
                    yield f"{name}.{method}", function, f"{function.__doc__} {thing.__doc__}"


@pytest.mark.parametrize("package", PACKAGES[:2], ids=lambda package: package.__name__)
def test_every_parameter_is_named_in_the_docstring(package):
    for module in modules(package):
        parts = module.__name__.split(".")
        # A check takes a state: its package says what that is.
        if any(part.startswith("_") for part in parts) or "checks" in parts:
            continue
        for name, function, told in functions(module):
            wanted = [p for p in inspect.signature(function).parameters if p not in ("self", "cls")]
            missing = [
                parameter for parameter in wanted if not re.search(rf"\b{parameter}\b", told)
            ]
            assert missing == [], f"{module.__name__}.{name}"
