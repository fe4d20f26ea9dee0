"""What this machine's files say of an error: the path, the disk, a file that hides a package."""

from __future__ import annotations

import contextlib
import difflib
import errno
import functools
import itertools
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType

from colab_doctor.diagnosis.base import Diagnosis, Failure, frames, module_of, text_of
from colab_doctor.diagnosis.installed import installed, is_own
from colab_doctor.notebook.imports import colab_brings
from colab_helpers import _traces as traces
from colab_helpers import _units
from colab_helpers._distributions import distribution
from colab_helpers._units import GIB

_MOST_NAMES = 2000  # of a folder that are looked through
_FEW = 6  # names that are all told
_FULL = GIB  # less free than that is named
#: How libraries name a path that they look for themselves: numpy.loadtxt, Keras, torch.save.
_LOADTXT = re.compile(r"^(\S{1,300}) not found\.$")
_KERAS = re.compile(r"File not found: filepath=(\S{1,300}?)\. ")
_FOLDER = re.compile(r"Parent directory (\S{1,300}) does not exist")
_DRIVES = (traces.DRIVE, "/content/gdrive")  # the second is that of many older notebooks


def of_files(failure: Failure) -> Iterator[Diagnosis]:
    """Yield, for `failure`, where a path ends, which disk is full, which own file hides a package."""
    for error in failure.chain:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            yield from _answered(functools.partial(_full, error))
        elif isinstance(error, AttributeError | ImportError):
            yield from _hidden(error)
        elif paths := _paths(error):
            yield from _answered(functools.partial(_ends, paths))


def _answered(look: Callable[[], Iterable[Diagnosis]]) -> list[Diagnosis]:
    """What a look at files finds; nothing where they do not answer soon, as on a Drive that has dropped."""
    found: list[list[Diagnosis]] = []

    def ask() -> None:
        with contextlib.suppress(Exception):  # a thread would print it into the notebook
            found.append(list(look()))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(2 * traces.ANSWER_WITHIN)
    return found[0] if found else []


def _paths(error: BaseException) -> list[str]:
    """Paths of which an error says that one is not there."""
    if isinstance(error, FileNotFoundError) and isinstance(error.filename, str | os.PathLike):
        named = [os.fspath(each) for each in (error.filename, error.filename2) if each is not None]
        return [each for each in named if isinstance(each, str)]
    text = text_of(error)
    if isinstance(error, RuntimeError) and (folder := _FOLDER.search(text)):
        return [f"{folder[1]}/…"]
    if not isinstance(error, FileNotFoundError | ValueError):
        return []
    loadtxt = _LOADTXT.search(text) if isinstance(error, FileNotFoundError) else None
    match = loadtxt or _KERAS.search(text)
    return [match[1]] if match else []


def _ends(paths: list[str]) -> Iterator[Diagnosis]:
    """Where the first path ends that is not there."""
    away = [path for path in paths if is_on_a_drive(path) or not os.path.lexists(path)]
    if away:
        yield from _missing(away[0])


def is_on_a_drive(path: str) -> str:
    """Return the mount point of a Drive that a path is below; "" for others. No file is looked at.

    `path` may be relative to the current folder.

    >>> is_on_a_drive("/content/drive/MyDrive/data.csv")
    '/content/drive'
    """
    whole = Path(os.path.normpath(traces.working_folder() / path))
    return next((each for each in _DRIVES if Path(each) in [whole, *whole.parents]), "")


def _missing(path: str) -> Iterator[Diagnosis]:
    """How far a path leads, and which names there are like the one that is missing."""
    if re.match(r"https?://|s3://|gs://", path):
        yield _told("That's a web address; `open` reads files.", "Download it first: `!wget URL`.")
        return
    if path.startswith("~"):
        yield _told("`open` does not expand `~`.", f'`os.path.expanduser("{path}")` does.')
        return
    whole = Path(os.path.normpath(traces.working_folder() / path))
    if drive := is_on_a_drive(path):
        answer = traces.drive(Path(drive))
        if answer != "mounted":
            yield _without_drive(drive, answer)
            return
    there = next((parent for parent in whole.parents if parent.is_dir()), None)
    if there is None:
        return
    first, last = whole.relative_to(there).parts[0], whole.name
    fix = "Correct the path, or run the cell again that should have made the file."
    if first != last:
        fix = f"To write there: `os.makedirs({str(whole.parent)!r}, exist_ok=True)`. To read: {fix}"
    yield _told(f"The folder `{there}` has no `{first}`.{_like(first, last, there)}", fix)


def _like(first: str, last: str, folder: Path) -> str:
    """Which names a folder has instead of the first part, and where the last one lies below it."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in itertools.islice(entries, _MOST_NAMES))
    if near := _near(first, names):
        return f" Did you mean {' or '.join(f'`{name}`' for name in near)}?"
    remote = str(folder).startswith((*_DRIVES, "/kaggle"))  # each look goes over the network
    below = [] if remote else [name for name in names[:50] if (folder / name / last).is_file()]
    if below:
        return f" There is one in `{folder / below[0]}`."
    if len(names) > _FEW:
        return f" It has {len(names)} other files and folders."
    return f" It has {', '.join(f'`{name}`' for name in names)}." if names else " It is empty."


def _near(name: str, names: list[str]) -> list[str]:
    """Names that differ by a letter or two, by case, or by what ends them."""
    same = [each for each in names if each.lower() == name.lower()]
    stem = Path(name).stem.lower()
    of_stem = [each for each in names if stem and Path(each).stem.lower() == stem]
    like = difflib.get_close_matches(name, names, 2, 0.75)
    return list(dict.fromkeys([*same, *of_stem, *like]))[:2]


def _without_drive(drive: str, answer: str) -> Diagnosis:
    mount = f'from google.colab import drive; drive.mount("{drive}")'
    if answer.startswith("does not"):
        again = mount.replace('")', '", force_remount=True)')
        return Diagnosis(
            "drive-dropped", f"Google Drive does not answer at `{drive}`.", f"`{again}`"
        )
    return _told(f"Google Drive is not mounted at `{drive}`.", f"In a cell before: `{mount}`")


def _full(error: OSError) -> Iterator[Diagnosis]:
    """Which of the disks that are written to is full."""
    shared = any("multiprocessing" in module_of(frame) for frame in frames(error))
    named = [error.filename] if isinstance(error.filename, str) else []
    places = [*named, str(traces.working_folder()), "/tmp", *(["/dev/shm"] if shared else [])]
    free, least = {}, _FULL / 10 if shared else _FULL
    for place in map(Path, places):
        folder = next((each for each in (place, *place.parents) if each.is_dir()), None)
        if folder is not None and (left := shutil.disk_usage(folder).free) < least:
            free[str(folder)] = left
    small = ", ".join(f"{_units.gib(size)} in `{place}`" for place, size in free.items())
    if list(free) == ["/dev/shm"]:
        yield Diagnosis(
            "shared-memory",
            f"There is {small}, which is memory that processes share.",
            "`num_workers=0` in the DataLoader, or a container with a larger `--shm-size`.",
        )
    elif free:
        yield Diagnosis(
            "little-disk",
            f"Little is free: {small}.",
            "`!du -h --max-depth=2 . 2>/dev/null | sort -h | tail -20` shows what fills this folder.",
        )


def _hidden(error: AttributeError | ImportError) -> Iterator[Diagnosis]:
    """A file of one's own that has the name of a package, and is imported in its place."""
    if isinstance(error, AttributeError):
        of, name = error.obj, ""
    else:
        name = (error.name or "").partition(".")[0]
        of = sys.modules.get(name)
    if isinstance(of, ModuleType):
        folders = getattr(of, "__path__", ())  # of one without __init__.py, all that there is
        top, place = of.__name__, getattr(of, "__file__", None) or next(iter(folders), "")
    else:  # it failed while it imported itself
        files = (frame.f_code.co_filename for frame in frames(error))
        top, place = name, next((file for file in files if Path(file).stem == name), "")
    if not place or not top or "." in top or is_own(top):
        return
    known = top in sys.stdlib_module_names or top in colab_brings("gpu")
    if not known and not installed(distribution(top)):
        return
    path = Path(str(place))
    folder = path.parent.parent if path.name == "__init__.py" else path.parent
    searched_first = {traces.working_folder(), Path(sys.path[0] or ".").resolve()}
    if folder.resolve() in searched_first and "site-packages" not in path.parts:
        yield Diagnosis(
            "broken-install",
            f"`{path}` was imported instead of the real `{top}`: yours has the same name.",
            "Give it another name, and restart the session.",
            replaces=True,
        )


def _told(observation: str, fix: str) -> Diagnosis:
    return Diagnosis("no-such-file", observation, fix)
