"""The examples in the docstrings run."""

import doctest
import importlib
import pkgutil

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


def test_public_functions_of_the_helper_have_examples_or_tests():
    assert len(MODULES) > 12
