"""Which packages are installed here, and what does each say that it needs?"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from colab_helpers.doctor.imports import distribution, normal
from colab_helpers.doctor.missing import NAMESPACES


@dataclass(frozen=True)
class Package:
    """A distribution that is installed: its name as pip knows it, and its version."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def package(module: str) -> Package | None:
    """Return the distribution that a module comes from; None for Python's own, or none that is known.

    `module` is a name as imported.

    >>> package("json.decoder") is None
    True
    """
    top = module.partition(".")[0]
    if not top or top in sys.stdlib_module_names or top == "__main__":
        return None
    if top in NAMESPACES:  # shared by many: its own name says nothing
        return installed(distribution(module)) if distribution(module) != top else None
    file = getattr(sys.modules.get(top), "__file__", None)
    if file and not is_of_packages(file):  # a module of one's own, by a package's name
        return None
    return installed(distribution(module)) or installed(top) or _of_module(top)


def is_of_packages(path: str) -> bool:
    """Say whether a file belongs to what was installed, and not to somebody's own code; `path` is its path.

    >>> is_of_packages("/content/project/model.py")
    False
    """
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(path).parts)


def installed(name: str) -> Package | None:
    """Return the distribution of that name; None where it is not installed, or by half.

    >>> installed("no such package") is None
    True
    """
    try:
        found = metadata.distribution(name)
        return Package(normal(found.metadata["Name"] or name), found.version)
    except Exception:  # not installed under that name, or by half
        return None


def _of_module(top: str) -> Package | None:
    return next(filter(None, map(installed, _by_module().get(top, ()))), None)


@functools.cache
def _by_module() -> dict[str, list[str]]:
    """Module -> distributions; reads the list of files of each, which takes a while."""
    return dict(metadata.packages_distributions())


def needs(asker: Package, extras: bool = False) -> Iterator[tuple[Package, str]]:
    """Yield (package, versions) that a package asks for here, where what is installed is none of them.

    `asker` is one that is installed; `extras`: also what it asks for only where that is wanted. Nothing,
    where nothing reads such lines: neither packaging nor pip.
    """
    try:
        Requirement = _requirement()  # noqa: N806
    except ImportError:
        return
    for line in metadata.requires(asker.name) or []:
        each = Requirement(line)
        optional = "extra ==" in str(each.marker)
        if each.marker and not each.marker.evaluate({"extra": ""}) and not (extras and optional):
            continue
        there = installed(each.name)
        if there and not each.specifier.contains(there.version, prereleases=True):
            yield there, str(each.specifier)


def forget() -> None:
    """Look again from now on: something may have been installed."""
    _by_module.cache_clear()


def _requirement() -> Any:
    """The class that reads what a package says it needs: packaging's, of which pip brings a copy."""
    try:
        module = importlib.import_module("packaging.requirements")
    except ImportError:
        module = importlib.import_module("pip._vendor.packaging.requirements")
    return module.Requirement
