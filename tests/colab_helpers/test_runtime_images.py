"""Versions of packages, compared as packages mean them."""

import itertools

import pytest
from packaging.version import Version

from colab_helpers import runtime_images

VERSIONS = """
    0.9.9 1.10 1.10.0 1.26.4 2.0.0b3 2.5.1 2.6 2.6.0 2.6.0rc1 2.6.1 2.6.1.dev2 2.9.0a0 2.10 2.11.0+cu130
    2.11 3
""".split()


@pytest.mark.parametrize(("one", "other"), list(itertools.product(VERSIONS, VERSIONS)))
def test_versions_are_in_the_order_of_packaging(one, other):
    public = [Version(version.split("+")[0]) for version in (one, other)]
    assert runtime_images.is_older(one, other) == (public[0] < public[1])
