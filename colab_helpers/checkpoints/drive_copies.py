"""Background copies to a mounted Drive: the newest file overwrites the older of two copies.

What is deleted on Drive goes to its trash and still counts against the quota. So nothing is deleted here: a
slot is renamed to "unfinished", overwritten, and given its new name.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from colab_helpers import _atomic_files

#: Number of files kept per suffix: one is whole while the other is overwritten.
SLOTS = 2


class Copier:
    """Copies files into `folder`, one at a time and always the newest; intermediate files are skipped.

    A copy begins at least `min_seconds_between_copies` after the one before, so that Drive can send a file
    before it is overwritten; `wait` does not wait for that. `older(suffix)` gives the files of a kind in
    `folder`, the one to overwrite first; those in `rejected` are corrupt. `reason(error)` puts an OSError
    into words, `gone()` says why the folder cannot be used, "" where it can.
    """

    def __init__(
        self,
        folder: Path,
        older: Callable[[str], Sequence[Path]],
        gone: Callable[[], str],
        reason: Callable[[OSError], str],
        rejected: set[Path],
        min_seconds_between_copies: float = 0,
    ):
        self._folder, self._older, self._gone, self._reason = folder, older, gone, reason
        self._min_seconds, self._begun = min_seconds_between_copies, -min_seconds_between_copies
        self._lock = threading.Lock()
        self._rejected = rejected
        self._next: dict[str, Path] = {}  # by suffix
        self._thread: threading.Thread | None = None
        #: What went wrong with the last copy, "" where nothing did.
        self.problem = ""

    def send(self, path: Path, suffix: str) -> None:
        """Have `path` copied, now or at the first `send` or `wait` after the interval; return at once."""
        self._start({suffix: path}, due=time.monotonic() - self._begun >= self._min_seconds)

    def wait(self) -> None:
        """Wait until the newest file of each kind has been copied, or could not be."""
        while thread := self._start({}, due=True):
            thread.join()

    def _start(self, newest: dict[str, Path], due: bool) -> threading.Thread | None:
        """Begin a copy if one is due; return the thread that copies, or None where nothing is left."""
        with (
            self._lock
        ):  # or the thread could end, with a newer file waiting, before it is looked at
            self._next |= newest
            if self._thread is not None and not self._thread.is_alive():
                self._thread = None
            if due and self._thread is None and self._next:
                self._begun = time.monotonic()
                self._thread = threading.Thread(target=self._work, name="checkpoint copies")
                self._thread.start()
            return self._thread

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._next:
                    self._thread = None
                    return
                suffix = next(iter(self._next))  # the oldest: none waits forever behind another
                path = self._next.pop(suffix)
            try:
                self.problem = self._gone()
                if not self.problem:
                    self._copy(path, suffix)
            except OSError as error:
                if path.exists() or suffix not in self._next:  # else a newer one has pushed it out
                    self.problem = f"{self._folder}: {self._reason(error)}"
            if self._min_seconds:  # what came meanwhile has its turn later
                with self._lock:
                    self._thread = None
                return

    def _copy(self, path: Path, suffix: str) -> None:
        target = self._folder / path.name
        with path.open("rb") as source:
            same = target.exists() and target.stat().st_size == path.stat().st_size
            if same and target not in self._rejected:
                return
            slot = self._slot(target, suffix)
            with slot.open("r+b" if slot.exists() else "wb") as file:
                shutil.copyfileobj(source, file, 2**20)
                file.truncate()
                file.flush()
                os.fsync(file.fileno())
            slot.replace(target)
            self._rejected.discard(target)
            _atomic_files.flush_folder(self._folder)

    def _slot(self, target: Path, suffix: str) -> Path:
        """The file to overwrite, under a name that says that it is not whole."""
        unfinished = self._folder / f"unfinished{suffix}"
        if target.exists():
            target.replace(unfinished)
        elif not unfinished.exists():
            whole = self._older(suffix)
            if len(whole) >= SLOTS:
                whole[0].replace(unfinished)
        return unfinished
