"""What do this machine's files say of an error: the path, the disk, a name of one's own?"""

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

from colab_helpers import _traces as traces
from colab_helpers import _units
from colab_helpers._units import GIB
from colab_helpers.doctor.clues.clue import Clue, Raised, frames, module_of, text_of
from colab_helpers.doctor.clues.installed import installed, is_own
from colab_helpers.doctor.imports import distribution
from colab_helpers.doctor.missing import brought
from colab_helpers.doctor.problems import way_out

_MOST_NAMES = 2000  # of a folder that are looked through
_FEW = 6  # names that are all told
_FULL = GIB  # less free than that is named
#: How libraries name a path that they look for themselves: numpy.loadtxt, Keras, torch.save.
_LOADTXT = re.compile(r"^(\S{1,300}) not found\.$")
_KERAS = re.compile(r"File not found: filepath=(\S{1,300}?)\. ")
_FOLDER = re.compile(r"Parent directory (\S{1,300}) does not exist")
_DRIVES = (traces.DRIVE, "/content/gdrive")  # the second is that of many older notebooks


def clues(raised: Raised) -> Iterator[Clue]:
    """Yield, for `raised`, where a path ends, which disk is full, which own file hides a package."""
    for error in raised.chain:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            yield from _answered(functools.partial(_full, error))
        elif isinstance(error, AttributeError | ImportError):
            yield from _hidden(error)
        elif paths := _paths(error):
            yield from _program(paths[0], error, raised.platform) or _answered(
                functools.partial(_ends, paths)
            )


def _answered(look: Callable[[], Iterable[Clue]]) -> list[Clue]:
    """What a look at files finds; nothing where they do not answer soon, as on a Drive that has dropped."""
    found: list[list[Clue]] = []

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


def _ends(paths: list[str]) -> Iterator[Clue]:
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


def _program(path: str, error: BaseException, platform: str) -> list[Clue]:
    """A program that was to be started, and is not there."""
    started = next((frame for frame in frames(error) if module_of(frame) == "subprocess"), None)
    if "/" in path or started is None or str(started.f_locals.get("cwd")) == path:
        return []
    if path == "nvidia-smi":
        return [
            Clue(
                "no-accelerator",
                f"This machine has no `{path}`: no NVIDIA driver, and so no GPU.",
                way_out("no-accelerator", platform),
            )
        ]
    if " " in path:
        return [
            Clue(
                "no-such-file",
                f"`{path}` was taken as the name of one program.",
                f"Pass its words one by one, `subprocess.run({path.split()!r})`, or add `shell=True`.",
            )
        ]
    return [
        Clue(
            "no-such-file",
            f"`{path}` is a program, and none of that name is on this machine's `PATH`.",
            "Install the package that provides it, with `%pip` or `!apt-get`; then `!which "
            f"{path}` has to find it.",
        )
    ]


def _missing(path: str) -> Iterator[Clue]:
    """How far a path leads, and which names there are like the one that is missing."""
    if re.match(r"https?://|s3://|gs://", path):
        yield _told(
            "That is a web address, and `open` reads files.", "Download it first: `!wget ADDRESS`."
        )
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
    parts = whole.relative_to(there).parts
    if re.search(r"[\t\n\r\\]", path):
        yield _told(
            f"The path {path!r} has a backslash, or what Python makes of one (`\\t` is a tab).",
            'Write it with `/`, which works on every system, or as `r"…"`.',
        )
        return
    stands = "" if Path(path).is_absolute() else " The path is relative to the current folder."
    seen = f"The folder `{there}` exists, but has no `{parts[0]}`.{_like(parts, there)}{stands}"
    if len(parts) > 1:
        remedy = (
            f"To write there, make the folder first: `os.makedirs({str(whole.parent)!r}, "
            "exist_ok=True)`. To read, correct the path, or run the cell again that should have "
            "made it."
        )
    else:
        remedy = (
            "Correct the path. If an earlier cell should have made the file, run that cell again "
            "and read what it prints."
        )
    yield _told(seen, remedy)


def _like(parts: tuple[str, ...], folder: Path) -> str:
    """Which names a folder has instead of the first of these, and where the last one lies below it."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in itertools.islice(entries, _MOST_NAMES))
    if near := _near(parts[0], names):
        return f" It does have {' and '.join(f'`{name}`' for name in near)}: did you mean that?"
    remote = str(folder).startswith((*_DRIVES, "/kaggle"))  # each look goes over the network
    below = [] if remote else [name for name in names[:50] if (folder / name / parts[-1]).is_file()]
    if below:
        return f" There is one in `{folder / below[0]}`."
    if not names:
        return " It is empty."
    told = ", ".join(f"`{name}`" for name in names)
    return (
        f" It has {told}."
        if len(names) <= _FEW
        else f" It has {len(names)} other files and folders."
    )


def _near(name: str, names: list[str]) -> list[str]:
    """Names that differ by a letter or two, by case, or by what ends them."""
    same = [each for each in names if each.lower() == name.lower()]
    stem = Path(name).stem.lower()
    of_stem = [each for each in names if stem and Path(each).stem.lower() == stem]
    like = difflib.get_close_matches(name, names, 2, 0.75)
    return list(dict.fromkeys([*same, *of_stem, *like]))[:2]


def _without_drive(drive: str, answer: str) -> Clue:
    mount = f'from google.colab import drive; drive.mount("{drive}")'
    if answer.startswith("does not"):
        again = mount.replace('")', '", force_remount=True)')
        return Clue("drive-dropped", f"Google Drive does not answer at `{drive}`.", f"`{again}`")
    return _told(f"Google Drive is not mounted at `{drive}`.", f"In a cell before: `{mount}`")


def _full(error: OSError) -> Iterator[Clue]:
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
        yield Clue(
            "shared-memory",
            f"There is {small}, which is memory that processes share.",
            "`num_workers=0` in the DataLoader, or a container with a larger `--shm-size`.",
        )
    elif free:
        yield Clue(
            "little-disk",
            f"Little is free: {small}.",
            "`!du -h --max-depth=2 . 2>/dev/null | sort -h | tail -20` shows what fills the "
            "current folder; delete what you can do without. For `/tmp` alone: `import tempfile; "
            "tempfile.tempdir = FOLDER`.",
        )


def _hidden(error: AttributeError | ImportError) -> Iterator[Clue]:
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
    known = top in sys.stdlib_module_names or top in brought("gpu")
    if not known and not installed(distribution(top)):
        return
    path = Path(str(place))
    folder = path.parent.parent if path.name == "__init__.py" else path.parent
    searched_first = {traces.working_folder(), Path(sys.path[0] or ".").resolve()}
    if folder.resolve() in searched_first and "site-packages" not in path.parts:
        yield Clue(
            "broken-install",
            f"`{path}` was imported instead of the real `{top}`: yours has the same name.",
            "Give it another name, and restart the session.",
            leaves_no_other=True,
        )


def _told(seen: str, remedy: str) -> Clue:
    return Clue("no-such-file", seen, remedy)
