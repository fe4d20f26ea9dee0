"""Atomic file writes: a new file beside the old one, then a rename.

An interruption, such as Ctrl-C, a full disk or a power cut, leaves the old file in place.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

_PART = ".part"
HOST = re.sub(r"\W", "", platform.node())  # process numbers are a machine's own
_DAY = 86_400  # seconds


def write(path: str | Path, content: str | bytes) -> Path:
    """Write `content` to `path`, as UTF-8 if it is text, and return the path. Raises OSError.

    The folder is made where it is missing; permissions of a file that is replaced are kept.
    """
    target = Path(path).resolve()  # a link is kept, and what it points at is replaced
    target.parent.mkdir(parents=True, exist_ok=True)
    clear_parts(target.parent)
    mine = f"{HOST}-{os.getpid()}-{threading.get_ident()}"
    beside = target.with_name(f".{target.name[:40]}.{mine}{_PART}")  # bytes count, not characters
    try:
        with beside.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, beside)
        beside.replace(target)
        flush_folder(target.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    return Path(path)


def clear_parts(folder: Path) -> None:
    """Remove what was left unfinished in `folder`.

    What dead processes of this host left goes at once, what other hosts left after a day.
    """
    for part in folder.glob(f".*{_PART}"):
        if part.is_file() and _is_left(part, part.name.removesuffix(_PART).rpartition(".")[2]):
            with contextlib.suppress(OSError):
                part.unlink()


def _is_left(part: Path, writer: str) -> bool:
    """Whether `part` is ours, "host-pid-…" as its `writer`, and stale: its process dead, or a day old."""
    host, _, pid = writer.rpartition("-")[0].rpartition("-")
    if not (host and pid.isdecimal()):  # somebody else's file
        return False
    if host == HOST:
        return not pid_exists(int(pid))
    with contextlib.suppress(OSError):  # gone meanwhile
        return time.time() - part.stat().st_mtime > _DAY
    return False


@contextlib.contextmanager
def private_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder in `folder`, for unfinished files; it is deleted at the end.

    Stale folders are removed first, by the rule of `clear_parts`. Raises OSError.
    """
    for part in folder.glob(f"{_PART}-*"):
        if _is_left(part, part.name.removeprefix(f"{_PART}-")):
            shutil.rmtree(part, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=f"{_PART}-{HOST}-{os.getpid()}-", dir=folder))
    try:
        yield part
    finally:
        shutil.rmtree(part, ignore_errors=True)


def flush_folder(folder: Path) -> None:
    """Fsync `folder`, so that new names in it survive a crash; no error where that is unsupported."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def pid_exists(pid: int) -> bool:
    """Say whether a process of this number is there, or may be."""
    if os.name == "nt":  # there, signal 0 would be Ctrl-C
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # no system has numbers as large as the latter
        return False
    except OSError:  # it belongs to another user
        return True
    return True
