"""Which packages are installed here, and what each says that it needs."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from colab_doctor.notebook.missing_imports import NAMESPACES
from colab_helpers._import_names import canonicalize_name, distribution_name

#: Packages whose releases are tied to one PyTorch release.
_TIED = ("torchvision", "torchaudio", "torchtext", "torchcodec", "xformers", "torch-xla")


@dataclass(frozen=True)
class Package:
    """A distribution that is installed: its name as pip knows it, and its version."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def package_of_module(module: str) -> Package | None:
    """Return the distribution that a module comes from; None for Python's own, or none that is known.

    `module` is a name as imported.

    >>> package_of_module("json.decoder") is None
    True
    """
    top = module.partition(".")[0]
    if not top or top in sys.stdlib_module_names or top == "__main__":
        return None
    if top in NAMESPACES:  # shared by many: its own name says nothing
        name = distribution_name(".".join(module.split(".")[:2]))
        return installed(name) if name != distribution_name(top) else None
    file = getattr(sys.modules.get(top), "__file__", None)
    if file and not is_of_packages(file):  # a module of one's own, by a package's name
        return None
    return installed(distribution_name(module)) or installed(top) or _of_module(top)


def is_of_packages(path: str) -> bool:
    """Say whether a file belongs to what was installed, and not to somebody's own code; `path` is its path.

    >>> is_of_packages("/content/project/model.py")
    False
    """
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(path).parts)


def installed(name: str) -> Package | None:
    """Return the distribution of that name; None where it is not installed, or only partially.

    >>> installed("no such package") is None
    True
    """
    try:
        found = metadata.distribution(name)
        return Package(canonicalize_name(found.metadata["Name"] or name), found.version)
    except Exception:  # not installed under that name, or only partially
        return None


def _of_module(top: str) -> Package | None:
    return next(filter(None, map(installed, _by_module().get(top, ()))), None)


@functools.cache
def _by_module() -> dict[str, list[str]]:
    """Module -> distributions; reads the list of files of each, which takes a while."""
    return dict(metadata.packages_distributions())


def unmet_requirements(asker: Package) -> Iterator[tuple[Package, str]]:
    """Yield each installed dependency whose version violates `asker`'s requirement, with the requirement.

    `asker` is an installed package. Yields nothing without packaging and pip, which read requirements.
    """
    for line in metadata.requires(asker.name) or []:
        each = _read(line)
        if each is None or (each.marker and not each.marker.evaluate({"extra": ""})):
            continue
        there = installed(each.name)
        if there and not each.specifier.contains(there.version, prereleases=True):
            yield there, str(each.specifier)


def satisfies(there: Package, versions: str) -> bool:
    """Say whether an installed package is one of those `versions`; True where nothing can tell.

    `versions` as pip writes them: ">=2.0,<3"; `there` is the package.

    >>> satisfies(Package("numpy", "1.26.4"), ">=2.0")
    False
    """
    wanted = _read(f"{there.name}{versions}")
    return wanted is None or wanted.specifier.contains(there.version, prereleases=True)


def update(asker: Package) -> str:
    """Return how a package is brought up to date, as part of a sentence; `asker` is one that is installed.

    What is tied to a release of PyTorch would bring another PyTorch along, and what came from a repository is
    not pip's to update.

    >>> update(Package("no-such-package", "1"))
    '`%pip install -U no-such-package`'
    """
    if asker.name in _TIED:
        return f"Install the {asker.name} that was released together with this PyTorch"
    if _is_from_elsewhere(asker.name):
        return f"Update {asker.name} where it came from (a repository or a folder)"
    return f"`%pip install -U {asker.name}`"


def _is_from_elsewhere(name: str) -> bool:
    """Whether a distribution came from a folder or a repository, and not from the index."""
    try:
        return bool(metadata.distribution(name).read_text("direct_url.json"))
    except metadata.PackageNotFoundError:
        return False


def forget() -> None:
    """Clear the cache: something may have been installed."""
    _by_module.cache_clear()


def _read(line: str) -> Any:
    """What a line of requirements says; None if it cannot be read, or nothing here reads such lines."""
    try:
        return _requirement()(line)
    except Exception:  # some packages have lines that the standard does not allow
        return None


def _requirement() -> Any:
    """The class that reads what a package says it needs: packaging's, of which pip brings a copy."""
    found = find_spec("packaging")  # not somebody's own file of that name
    if found is not None and is_of_packages(found.origin or ""):
        return importlib.import_module("packaging.requirements").Requirement
    return importlib.import_module("pip._vendor.packaging.requirements").Requirement
