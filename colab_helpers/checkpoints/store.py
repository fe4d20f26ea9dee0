"""A folder of atomic, verified checkpoints.

Each checkpoint is one file, named after its step, size and checksum, so that a truncated or modified file
is easy to detect:

    step-000000120-10485760-1f2e3d4c5b6a7988.pt
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import TypeVar

from colab_helpers import _atomic_files, _units, runtime
from colab_helpers.checkpoints.drive_copies import Copier

_NAME = re.compile(r"step-(\d{9,})-(\d+)-([0-9a-f]{16})(\.[.\w]+)")
_DRIVE = Path(runtime.DRIVE)
_REST = 300  # seconds from one copy to Drive to the next
_T = TypeVar("_T")


class CheckpointError(Exception):
    """A checkpoint cannot be used. The message says what was found and what to do; nothing was deleted."""


class CheckpointWarning(UserWarning):
    """Something is wrong with a checkpoint, and the work goes on without it."""


class UnreadableError(CheckpointError):
    """A file matches its name and still cannot be read; the one before it may be readable."""


@dataclass(frozen=True, order=True)
class CheckpointFile:
    """A checkpoint file, as its name describes it; `problem` compares that with its contents.

    `written` is when, in seconds since 1970: of two files of one step the later one is the newer. `bytes` is
    the size, `digest` the first 16 hexadecimal digits of the SHA-256.
    """

    step: int
    written: float
    bytes: int
    digest: str
    path: Path

    def problem(self) -> str:
        """Return what is wrong with the file; "" if size and checksum match. Reads the whole file."""
        try:
            size = self.path.stat().st_size
            if size != self.bytes:
                return (
                    f"{self.path.name} has {_size(size)} of {_size(self.bytes)}: it was cut off while it "
                    "was written or copied"
                )
            if _digest(self.path) != self.digest:
                return f"{self.path.name} was changed after it was written: its checksum does not match"
        except OSError as error:
            return f"{self.path.name} cannot be read: {_reason(error)}"
        return ""


@dataclass(frozen=True)
class SaveResult:
    """The result of a save. `path` is None if it failed, and `problem` says why.

    `seconds` are those of writing, syncing and the checksum, without a copy to Drive. If the local file was
    written and an earlier copy failed, `problem` describes that.
    """

    step: int
    path: Path | None
    bytes: int
    seconds: float
    problem: str = ""

    def __str__(self) -> str:
        if self.path is None:
            return f"step {self.step} was NOT saved: {self.problem}"
        text = f"step {self.step}: {_size(self.bytes)} in {_units.format_duration(self.seconds)}"
        return f"{text}, in {self.path.parent} ({self.problem})" if self.problem else text


@dataclass(frozen=True)
class ResumeResult:
    """Where to resume: the number of steps that are done, 0 for a fresh start, and the file."""

    step: int
    path: Path | None

    def __str__(self) -> str:
        if self.path is None:
            return "no checkpoint here: a fresh start"
        return f"{self.step} steps are done, by {self.path.name}"


class Store:
    """A folder of atomic checkpoints, of which the newest `keep` are kept.

    `folder` is created if it is missing, but not its parents, since that would hide a missing mount. It
    is for one run alone. Raises `CheckpointError` where it cannot be used at all, and ValueError for `keep`
    below 1; with 1, there is nothing to fall back on if the newest file is corrupt.

    On a mounted Drive, or with a `local` folder on the machine's own disk, checkpoints are written there
    first. The newest is then copied in the background, over the older of two files in `folder`: nothing is
    deleted there, since what is deleted on Drive still counts. `local` defaults to a folder
    of its own in the temporary directory. Drive caches each file and uploads it later, so copies to
    Drive start at least `min_seconds_between_copies` apart (300 by default), at the first save after that:
    a file then stays untouched for ten minutes before it is overwritten. End with `wait()` and
    `drive.flush_and_unmount()`.

    >>> import tempfile
    >>> store = Store(tempfile.mkdtemp())
    >>> saved = store.write(120, ".txt", lambda path: path.touch())
    >>> [(found.step, found.bytes) for found in store.files()]
    [(120, 0)]
    """

    def __init__(
        self,
        folder: str | Path,
        keep: int = 2,
        local: str | Path | None = None,
        min_seconds_between_copies: float | None = None,
    ):
        if keep < 1:
            raise ValueError(
                f"keep must be at least 1, so that the newest checkpoint is kept (got {keep})."
            )
        self.keep = keep
        self.folder = _ready(Path(folder))
        self._mount = _mount_of(self.folder)
        self._rejected: set[Path] = set()
        self._latest: dict[
            str, int
        ] = {}  # by suffix: the last step written, at first the highest in the folder
        on_drive = self.folder.is_relative_to(_DRIVE)
        if local is None and on_drive:
            local = _local_folder(self.folder)
        rest = min_seconds_between_copies
        if rest is None:
            rest = _REST if on_drive else 0
        self.local = _ready(Path(local)) if local else None
        self._copier = (
            Copier(self.folder, self._older, self._gone, _reason, self._rejected, rest)
            if local
            else None
        )

    def write(self, step: int, suffix: str, writer: Callable[[Path], object]) -> SaveResult:
        """Write a checkpoint of `step` with `writer(path)`, rename it into place, and return the outcome.

        The file is written beside the others under a name that `files` does not see, flushed to the disk,
        read again for its checksum, and renamed. A process that is killed meanwhile leaves the older ones as
        they were. `suffix`, such as ".pt", says what is in it. A disk that is full, read-only
        or gone does not raise: you get a `CheckpointWarning`, and the result says what happened. The same
        goes for a failed copy of the previous checkpoint. Errors that are not the disk's are raised, and
        ValueError for a step below 0 or a suffix without its dot. A warning comes once where the folder has a
        later step: it is another run's, or this one has gone back, and `read` would take the later.
        """
        whole = isinstance(step, Integral) and not isinstance(step, bool)
        if not whole or step < 0 or not re.fullmatch(r"(\.\w+)+", suffix):
            raise ValueError(
                f"step must be 0 or a positive integer and suffix a file extension such as '.pt' "
                f"(got step={step!r}, suffix={suffix!r})."
            )
        start = time.perf_counter()
        self._warn_of_later_step(step, suffix)
        problem = "" if self.local else self._gone()
        path, size = None, 0
        if not problem:
            try:
                path = self._write(self.local or self.folder, step, suffix, writer)
                size = path.stat().st_size
            except OSError as error:
                problem = f"{self.local or self.folder}: {_reason(error)}"
        if path is None:
            self._warn(f"Step {step} was not saved. {problem}. Older checkpoints are as they were.")
        elif self._copier:
            problem = self._uncopied()
            self._copier.send(path, suffix)
        return SaveResult(step, path, size, time.perf_counter() - start, problem)

    def wait(self) -> None:
        """Wait until the newest checkpoint is in `folder`, or warn that it could not be copied."""
        if self._copier:
            self._copier.wait()
            self._uncopied()

    def files(self, suffix: str = "") -> list[CheckpointFile]:
        """Return the checkpoints of both folders, the newest first, without opening any.

        `suffix` limits the list to one kind. Of one step, the local file comes first. Raises
        `CheckpointError` where the folder is gone and there is no local file either.
        """
        try:
            here = list(_files_in(self.local, suffix)) if self.local else []
            problem = self._gone()
            there = [] if problem else list(_files_in(self.folder, suffix))
        except OSError as error:
            raise CheckpointError(f"{self.folder} cannot be listed: {_reason(error)}.") from error
        if problem and not here:
            raise CheckpointError(
                f"{problem}. Nothing was resumed: training would restart from step 0."
            )
        kept = [*here, *there]
        return sorted(kept, key=lambda one: (one.step, one in here, one.written), reverse=True)

    def read(self, suffix: str, reader: Callable[[Path], _T]) -> tuple[CheckpointFile, _T] | None:
        """Return the newest intact checkpoint and what `reader(path)` returns for it; None if there is none.

        Each that is not whole gets a `CheckpointWarning`, and the one before it is tried. `suffix` is as
        in `write`. Raises `CheckpointError` where there are files and none is whole: to begin from the
        start is then your decision. Errors of `reader` are raised.
        """
        problems = []
        files = self.files(suffix)
        for found in files:
            problem = found.problem()
            if not problem:
                try:
                    result = reader(found.path)
                    self._warn_of_emptied_folder(found, files)
                    return found, result
                except UnreadableError as error:
                    problem = str(error)
            self._rejected.add(found.path)
            self._latest.clear()  # what is highest now has to be looked up
            self._warn(f"{problem}. Looking for an earlier one.")
            problems.append(problem)
        if problems:
            raise CheckpointError(
                f"Every checkpoint in {self.folder} is incomplete or corrupt: {'; '.join(problems)}. Restore "
                "one from a copy, or start over in an empty folder. Nothing was deleted."
            )
        return None

    def _write(
        self, folder: Path, step: int, suffix: str, writer: Callable[[Path], object]
    ) -> Path:
        with _atomic_files.private_folder(
            folder
        ) as part:  # writers have unfinished files of their own
            file = part / f"state{suffix}"
            writer(file)
            with file.open("rb+") as handle:
                os.fsync(handle.fileno())
            target = folder / f"step-{step:09d}-{file.stat().st_size}-{_digest(file)}{suffix}"
            file.replace(target)
            _atomic_files.flush_folder(folder)
        self._rejected.discard(target)
        with contextlib.suppress(OSError):  # the new one is safe: one too many does no harm
            self._prune(folder, target, suffix)
        return target

    def _warn_of_later_step(self, step: int, suffix: str) -> None:
        """A `CheckpointWarning`, once, where resuming would not take this step but a later one."""
        if suffix not in self._latest:  # once, since listing a Drive takes time
            with contextlib.suppress(CheckpointError):  # a folder that is gone is told of elsewhere
                there = [one.step for one in self.files(suffix) if one.path not in self._rejected]
                self._latest[suffix] = max(there, default=-1)
        latest = self._latest.get(suffix, -1)
        self._latest[suffix] = step  # and no second warning for the steps after this one
        if latest > step:
            self._warn(
                f"Step {step} is being saved beside step {latest}, which was there before, and resuming "
                "would take the latter. Use an empty folder for a new run, or delete the later files"
                + (f", in {self.local} too." if self.local else ".")
            )

    def _warn_of_emptied_folder(self, found: CheckpointFile, files: list[CheckpointFile]) -> None:
        """A `CheckpointWarning` where only the local folder has a checkpoint: it may be an older run's."""
        if {one.path.parent for one in files} == {self.local} and not self._gone():
            self._warn(
                f"{self.folder} has no checkpoint, so {found.path.name} was taken from {self.local}. If you "
                "emptied the former to begin anew, delete the latter, too."
            )

    def _prune(self, folder: Path, newest: Path, suffix: str) -> None:
        """Remove all of this kind that are older than the `keep` newest ones that seem to be whole."""
        kept = 1
        for one in sorted(_files_in(folder, suffix), reverse=True):
            if one.path == newest:
                continue
            if kept >= self.keep:
                one.path.unlink(missing_ok=True)
            elif one.path not in self._rejected and one.path.stat().st_size == one.bytes:
                kept += 1

    def _older(self, suffix: str) -> list[Path]:
        """The files in `folder`, spoilt ones first, then the oldest."""
        found = _files_in(self.folder, suffix)
        return [
            one.path for one in sorted(found, key=lambda one: (one.path not in self._rejected, one))
        ]

    def _uncopied(self) -> str:
        """Say, and warn, what went wrong with the last copy."""
        problem = self._copier.problem if self._copier else ""
        if problem:
            self._warn(
                f"{problem}. The newest checkpoint is on this machine only, in {self.local}."
            )
        return problem

    def _gone(self) -> str:
        """Return why the folder is gone, because a mount dropped or it was removed; "" if it is there."""
        remount = "If it is on Drive: drive.mount('/content/drive', force_remount=True)"
        if not self._mount.is_mount():
            return f"{self._mount} is no longer mounted, and {self.folder} was on it. {remount}"
        try:
            self.folder.stat()
        except OSError as error:
            return f"{self.folder} is gone ({_reason(error)}). {remount}"
        return ""

    @staticmethod
    def _warn(text: str) -> None:
        warnings.warn(text, CheckpointWarning, stacklevel=4)


def _ready(folder: Path) -> Path:
    """The folder, made if need be, and tried by writing a file."""
    folder = folder.resolve()
    if folder.is_relative_to(_DRIVE) and not _DRIVE.is_mount():
        raise CheckpointError(
            f"{_DRIVE} is not mounted: anything written to {folder} would be lost with the runtime. "
            "Mount it first, or give another folder."
        )
    try:
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise CheckpointError(f"{folder} cannot hold checkpoints: {_reason(error)}.") from error
    return folder


def _local_folder(folder: Path) -> Path:
    """A folder on the machine's own disk for what goes to `folder`, the same whenever you ask."""
    place = hashlib.sha256(str(folder).encode()).hexdigest()[:8]
    path = Path(tempfile.gettempdir(), "checkpoints")
    return _ready(path) / f"{folder.name}-{place}"


def _files_in(folder: Path, suffix: str) -> Iterator[CheckpointFile]:
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if (match := _NAME.fullmatch(path.name)) and suffix in ("", match[4]):
            with contextlib.suppress(OSError):  # removed meanwhile, or a link to itself
                yield CheckpointFile(
                    int(match[1]), path.stat().st_mtime, int(match[2]), match[3], path
                )


def check_compatible(
    path: Path, what: str, there: Mapping[str, str], here: Mapping[str, str], hint: str = ""
) -> None:
    """Raise `CheckpointError` if the file at `path` belongs to a different `what`, such as "model".

    `there` and `here` are the shapes in the file and in the program, by name; `hint` ends the message.
    """
    odd = [key for key in sorted({*there, *here}) if there.get(key) != here.get(key)]
    if odd:
        more = f", and {len(odd) - 1} more differ" if len(odd) > 1 else ""
        raise CheckpointError(
            f"{path.name} is from a different {what}: {odd[0]} is {there.get(odd[0], 'missing')} in the "
            f"checkpoint and {here.get(odd[0], 'missing')} now{more}. Nothing was loaded.{hint}"
        )


def _mount_of(folder: Path) -> Path:
    while not folder.is_mount():
        folder = folder.parent
    return folder


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _reason(error: OSError) -> str:
    known = {
        errno.ENOSPC: "the disk is full",
        errno.EDQUOT: "the storage quota is used up",
        errno.EROFS: "it is read-only",
        errno.EACCES: "no permission to write or read there",
        errno.ENOENT: "no such folder or file",
        errno.ENOTCONN: "the mount has dropped",
        errno.EIO: "the disk or the mount fails",
    }
    return known.get(error.errno or 0, error.strerror or str(error))


def _size(count: int) -> str:
    return _units.format_si(count, "B") if count >= 1000 else f"{count} B"
