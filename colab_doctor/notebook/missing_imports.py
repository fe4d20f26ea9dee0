"""Imports that Colab lacks and the notebook doesn't install."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Iterator

from colab_doctor.notebook.cells import Cell
from colab_doctor.notebook.name_resolution import uses
from colab_helpers._data_files import load_toml
from colab_helpers._import_names import canonicalize_name, distribution_name

#: What may bring modules from anywhere, in Python and in shell lines: then nothing can be said.
_FROM_PYTHON = re.compile(
    r"sys\.path|%%writefile|%cd|os\.chdir|PYTHONPATH|import_module|\.extract|unpack_archive|subprocess|\bsystem\("
)
_FROM_SHELL = re.compile(
    r"git\+|\bgit\s{1,9}clone|install\s.{0,90}(-r|-e|\.)(\s|$)|setup\.py|\.whl|\.zip|\.tar"
    r"|requirements|conda|mamba|\bwget\b|\bcurl\b|uv (sync|run)"
)
_INSTALLED = re.compile(r"install\s{1,9}(.{1,2000})")
#: What stands among the names: where to look for packages, and where the output goes.
_NO_PACKAGE = re.compile(
    r"(?<!\S)(-i|-f|--(extra-)?index-url|--find-links)[ =]\s{0,9}\S{1,500}|\d?>{1,2}\s{0,9}&?\S{1,500}"
)
#: Import names whose modules come with several distributions, or with Colab itself.
NAMESPACES = {
    "google",
    "azure",
    "nvidia",
    "mpl_toolkits",
    "opentelemetry",
    "ruamel",
    "sphinxcontrib",
    "backports",
}


def missing(read: Iterable[Cell], runtime: str = "gpu") -> Iterator[tuple[str, int, int]]:
    """Yield (module, cell, line), from 1, of imports that would fail on a fresh Colab machine.

    `read` are the cells; `runtime` is "cpu", "gpu" or "tpu". What stands behind a guard is left out, and
    all of it where the notebook brings modules from files or repositories.
    """
    read = list(read)
    commands = "\n".join(command for cell in read for _, command in cell.commands)
    if _FROM_SHELL.search(commands) or _FROM_PYTHON.search("\n".join(cell.text for cell in read)):
        return
    there = colab_brings(runtime)
    if _installed(read) - there:  # what else that brings along cannot be told from here
        return
    seen: set[str] = set()
    for cell in read:
        for tree in cell.trees:
            for use in uses(tree, {}):
                first = use.name.partition(".")[0]
                if use.kind == "name" and not use.guarded and first not in seen:
                    seen.add(first)
                    if not _is_there(use.name, there):
                        yield first, cell.number, use.line


def distributions(read: Iterable[Cell]) -> set[str]:
    """Return the normal names of packages that may bring what a notebook imports.

    `read` are its cells; guarded imports count.
    """
    trees = (tree for cell in read for tree in cell.trees)
    names = {use.name for tree in trees for use in uses(tree, {}) if use.kind == "name"}
    return {
        canonicalize_name(each)
        for name in names
        for each in (
            name.partition(".")[0],
            distribution_name(name),
            distribution_name(name.partition(".")[0]),
        )
    }


def _is_there(module: str, there: set[str]) -> bool:
    first = module.partition(".")[0]
    if first in sys.stdlib_module_names or first in NAMESPACES:
        return True
    return bool(
        {
            canonicalize_name(first),
            canonicalize_name(distribution_name(module)),
            canonicalize_name(distribution_name(first)),
        }
        & there
    )


def _installed(read: Iterable[Cell]) -> set[str]:
    """Names of the notebook's own install lines."""
    found: set[str] = set()
    for cell in read:
        for _, command in cell.commands:
            if match := _INSTALLED.search(command.replace("\n", " ")):
                words = re.split(r"[\s,;&|]{1,9}", _NO_PACKAGE.sub(" ", match[1]))
                found |= {
                    canonicalize_name(re.split(r"[=<>~!\[@]", w.strip("'\""))[0])
                    for w in words
                    if w and w[0] != "-"
                }
    return found


@functools.cache
def colab_brings(runtime: str) -> set[str]:
    """Return the packages of Colab's image, by their normal names; `runtime` is "cpu", "gpu" or "tpu".

    >>> "scikit-learn" in colab_brings("cpu")
    True
    """
    shipped = load_toml("colab_doctor", "colab_packages.toml")[runtime]
    return {*shipped, "google-colab", "colab-helpers", "ipython", "ipykernel"}
