"""Ending a loop between two steps when it is told to stop."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Any


class StopRequest:
    """Notes SIGTERM, and Ctrl-C or "Interrupt execution", for the loop inside to end at its own time.

    In the block, look at `asked` after each step, save, and leave the loop. A second request is not held
    back. Works in the main thread, where Python receives signals, and raises ValueError in others; SIGKILL
    cannot be noted by anybody.

    >>> with StopRequest() as stop:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     stop.asked
    True
    """

    def __init__(self) -> None:
        self.asked, self._owner = False, 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        self.asked, self._owner = False, os.getpid()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._put_back()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        self._put_back()  # the second one acts at once
        if os.getpid() != self._owner:  # a child that was forked inside has no loop to end
            signal.raise_signal(number)

    def _put_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
