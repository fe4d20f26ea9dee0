"""Which shared library was looked for in vain, and which are on this machine?"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from colab_helpers.doctor.clues.clue import Clue, Raised, frames, module_of
from colab_helpers.doctor.clues.installed import Package, installed, is_of_packages, package, update

_LIBRARY = r"(lib[\w+-]{1,60}\.so[\d.]{0,12})"
_MISSING = re.compile(
    rf"{_LIBRARY}[:'\"]{{0,2}} {{0,2}}(?:cannot open shared object|(?:is )?not found)"
    rf"|(?:Could not load (?:dynamic )?library|Unable to load any of \{{) ?['\"]?{_LIBRARY}"
)
_SYMBOL = re.compile(r"packages/(\w{1,60})[\w./-]{0,200}\.so: undefined symbol: (\S{1,300})")
#: How names of PyTorch's own C++ code begin.
_PYTORCH = re.compile(r"^_Z[A-Za-z]{0,6}(3c10|2at|5torch)|c10|torch")
#: Below a folder of packages, and below /: where libraries of CUDA lie.
_IN_PACKAGES = ("nvidia/*/lib", "torch/lib", "*_libs")
_ON_MACHINES = (
    "usr/local/cuda*/lib64",
    "usr/lib/*-linux-gnu",
    "usr/lib64-nvidia",
    "usr/lib/wsl/lib",
)


def clues(raised: Raised) -> Iterator[Clue]:
    """Yield where the library of `raised` is, which others there are, and what it was compiled for."""
    if not raised.chain:  # it is from elsewhere
        return
    if symbol := _SYMBOL.search(raised.text):
        yield from _compiled_for_another(symbol, raised)
    elif missing := _MISSING.search(raised.text):
        yield from _looked_for((missing[1] or missing[2]).rstrip("."), raised)


def _looked_for(name: str, raised: Raised) -> Iterator[Clue]:
    """A library by its name: in a folder where nobody looks, in another version, or not here."""
    stem = name.partition(".so")[0]
    there = sorted(
        {file.name: file for folder in folders() for file in folder.glob(f"{stem}.so*")}.items()
    )
    exact = dict(there).get(name)
    asker = _asker(raised)
    if exact is not None:
        yield Clue(
            raised.known or "cuda-library-missing",
            f"`{name}` is here, in `{exact.parent}`, a folder that is not searched.",
            f'Before the import: `import ctypes; ctypes.CDLL("{exact}")`; for a program of its own: '
            f"`LD_LIBRARY_PATH={exact.parent}:$LD_LIBRARY_PATH` before its name. A framework that "
            "brings the library loads it too: import that first.",
        )
    elif there:
        others = ", ".join(f"`{other}`" for other, _ in there[:4])
        who = f"{asker} was" if asker else "What asks for it was"
        way = f"{update(asker)}: " if asker else ""
        yield Clue(
            raised.known or "cuda-library-missing",
            f"There is no `{name}` here; there is {others}. {who} built for another version.",
            f"{way}it has to be a build for the version that is here; {raised.restart}.",
        )


def _compiled_for_another(symbol: re.Match[str], raised: Raised) -> Iterator[Clue]:
    """A package whose compiled part asks PyTorch for a name that this PyTorch does not have."""
    asker, torch = package(symbol[1]), installed("torch")
    if asker is None or torch is None or asker == torch or not _PYTORCH.search(symbol[2]):
        return
    plain = torch.version.partition("+")[0]
    yield Clue(
        raised.known or "extension-mismatch",
        f"{asker} was compiled for another PyTorch than {torch}, which is installed.",
        f"Take a build of {asker.name} for PyTorch {plain}: its release page, or its index, lists "
        f"them. {raised.restarting} after it. To compile it here takes a compiler for CUDA, and "
        "long.",
    )


def folders(root: Path = Path("/")) -> Iterator[Path]:
    """Yield folders in which libraries lie; `root` stands for /."""
    named = os.environ.get("LD_LIBRARY_PATH", "").split(":") if root == Path("/") else []
    yield from (Path(name) for name in named if name and Path(name).is_dir())
    for pattern in _ON_MACHINES:
        yield from root.glob(pattern)
    for entry in filter(is_of_packages, sys.path):
        for pattern in _IN_PACKAGES:
            yield from Path(entry).glob(pattern)


def _asker(raised: Raised) -> Package | None:
    """The package in which the library was wanted."""
    for frame in (frame for error in raised.chain for frame in frames(error)):
        if is_of_packages(frame.f_code.co_filename):
            return package(module_of(frame))
    return None
