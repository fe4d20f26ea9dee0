"""What do this machine's files say of an error: the path, the disk, a name of one's own?"""

from __future__ import annotations

import difflib
import errno
import itertools
import os
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType

from colab_helpers import _traces as traces
from colab_helpers import _units
from colab_helpers._units import GIB
from colab_helpers.doctor.clues.clue import Clue, Raised, frames, module_of
from colab_helpers.doctor.imports import distribution

_MOST_NAMES = 2000  # of a folder that are looked through
_FULL = GIB  # less free than that is named


def clues(raised: Raised) -> Iterator[Clue]:
    """Yield, for `raised`, where a path ends, which disk is full, which own file hides a package."""
    for error in raised.chain:
        if isinstance(error, FileNotFoundError) and isinstance(error.filename, str | os.PathLike):
            yield from _program(error) or _missing(Path(error.filename))
        elif isinstance(error, OSError) and error.errno == errno.ENOSPC:
            yield from _full(error)
        elif isinstance(error, ModuleNotFoundError):
            yield from _elsewhere((error.name or "").partition(".")[0])
        elif isinstance(error, AttributeError | ImportError):
            yield from _hidden(error)


def _program(error: FileNotFoundError) -> list[Clue]:
    """A program that was to be started, and is not there."""
    name = str(error.filename)
    if "/" in name or all(module_of(frame) != "subprocess" for frame in frames(error)):
        return []
    return [
        Clue(
            "no-such-file",
            f"`{name}` is a program, and none of that name is on this machine's `PATH`.",
            f"Install what brings it, with `%pip` or `!apt-get`; then `!which {name}` has to find it.",
        )
    ]


def _missing(path: Path) -> Iterator[Clue]:
    """How far a path leads, and which names there are like the one that is missing."""
    whole = path if path.is_absolute() else traces.working_folder() / path
    if Path(traces.DRIVE) in [whole, *whole.parents]:
        answer = traces.drive()
        if answer != "mounted":
            yield Clue(
                "drive-dropped" if answer.startswith("does not") else "no-such-file",
                f"Google Drive is not there: {traces.DRIVE} {answer or 'is empty'}.",
                "Run the cell with `drive.mount` again.",
            )
            return
    there = next((parent for parent in whole.parents if parent.is_dir()), None)
    if there is None:
        return
    missing = whole.relative_to(there).parts[0]
    with os.scandir(there) as entries:
        names = [entry.name for entry in itertools.islice(entries, _MOST_NAMES)]
    near = _near(missing, names)
    has = (
        f"it has {' and '.join(f'`{name}`' for name in near)}" if near else
        f"it has {len(names)} other names" if names else "it is empty"
    )  # fmt: skip
    stands = (
        ""
        if path.is_absolute()
        else f" The path is relative; this session stands in `{Path.cwd()}`."
    )
    yield Clue(
        "no-such-file",
        f"`{there}` is there, and in it is no `{missing}`: {has}.{stands}",
        "Correct the path, or run the cell again that should have made it, and read what that prints.",
    )


def _near(name: str, names: list[str]) -> list[str]:
    """Names that differ by a letter or two, by case, or by what ends them."""
    same = [each for each in names if each.lower() == name.lower()]
    stem = Path(name).stem.lower()
    of_stem = [each for each in names if stem and Path(each).stem.lower() == stem]
    like = difflib.get_close_matches(name, names, 2, 0.75)
    return list(dict.fromkeys([*same, *of_stem, *like]))[:2]


def _full(error: OSError) -> Iterator[Clue]:
    """Which of the disks that are written to is full."""
    named = [error.filename] if isinstance(error.filename, str) else []
    free = {}
    for place in (*named, str(traces.working_folder()), "/tmp", "/dev/shm"):
        folder = next((each for each in (Path(place), *Path(place).parents) if each.is_dir()), None)
        if folder is not None and shutil.disk_usage(folder).free < _FULL:
            free[str(folder)] = shutil.disk_usage(folder).free
    if not free:
        return
    small = ", ".join(f"{_units.gib(size)} in `{place}`" for place, size in free.items())
    if list(free) == ["/dev/shm"]:
        yield Clue(
            "shared-memory",
            f"There is {small}, which is memory that processes share.",
            "`num_workers=0` in the DataLoader, or a container with a larger `--shm-size`.",
        )
        return
    yield Clue(
        "little-disk",
        f"Little is free: {small}.",
        "`!du -xh / --max-depth=3 2>/dev/null | sort -h | tail -20` shows what fills it; delete that. For "
        "`/tmp` alone: `%env TMPDIR=/content` before the cell.",
    )


def _hidden(error: AttributeError | ImportError) -> Iterator[Clue]:
    """A file of one's own that has the name of a package, and is imported in its place."""
    of = error.obj if isinstance(error, AttributeError) else sys.modules.get(error.name or "")
    if not isinstance(of, ModuleType) or not getattr(of, "__file__", None):
        return
    path, top = Path(str(of.__file__)), of.__name__.partition(".")[0]
    folder = path.parent.parent if path.name == "__init__.py" else path.parent
    if "." in of.__name__ or not (top in sys.stdlib_module_names or _is_installed(top)):
        return
    started_in = {traces.working_folder(), Path(sys.path[0] or ".").resolve()}
    if folder.resolve() in started_in and "site-packages" not in path.parts:
        yield Clue(
            "broken-install",
            f"`{top}` was read from `{path}`: that file of yours hides the real `{top}`.",
            "Give the file another name, delete `__pycache__` beside it, and restart the session.",
        )


def _elsewhere(top: str) -> Iterator[Clue]:
    """A package that is on this machine, for another Python than the one that runs this session."""
    if not top or top in sys.modules:
        return
    ours = {Path(entry).resolve() for entry in sys.path if entry}
    roots = (Path("/usr/local/lib"), Path.home() / ".local/lib", Path("/opt"),
             traces.working_folder() / ".venv/lib", Path("/content/.venv/lib"))  # fmt: skip
    folders = (
        folder
        for root in roots
        for pattern in (
            "python3*/site-packages",
            "python3*/dist-packages",
            "*/lib/python3*/site-packages",
        )
        for folder in root.glob(pattern)
    )
    for folder in folders:
        if folder.resolve() not in ours and (
            (folder / top).is_dir() or (folder / f"{top}.py").is_file()
        ):
            yield Clue(
                "another-python",
                f"`{top}` is in `{folder}`, and this session's Python ({sys.executable}, "
                f"{sys.version_info.major}.{sys.version_info.minor}) does not look there.",
                f"`%pip install {distribution(top)}`: with % it goes where this session looks.",
            )
            return


def _is_installed(top: str) -> bool:
    try:
        metadata.distribution(distribution(top))
    except metadata.PackageNotFoundError:
        return False
    return True
