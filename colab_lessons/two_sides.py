"""A queue whose both sides are written down: what Python did meanwhile, and what the device."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch

from colab_helpers import benchmark


class Queue:
    """Work for a device, done in order while Python goes on; `sides` tells who was busy when.

    A thread takes the work, runs it and waits for the device, so that the end of each piece is known. On
    a CPU that thread, with one core, is the device.

    >>> queue = Queue()
    >>> queue.python("prepare", lambda: None)
    >>> queue.launch("compute", lambda: 1 + 1).result()
    2
    >>> [what for _, _, what in queue.sides["Python"]]
    ['prepare']
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,))
        self._start = time.perf_counter()
        self.sides: dict[str, list[tuple[float, float, str]]] = {"Python": [], "device": []}

    def python(self, what: str, work: Callable[[], Any]) -> Any:
        """Do something on Python's side, and return its result. `what` names it."""
        return self._noted("Python", what, work)

    def launch(self, what: str, work: Callable[[], Any]) -> Future:
        """Hand `work` to the device's side and return at once. `what` names it."""
        return self._thread.submit(self._noted, "device", what, lambda: self._done(work))

    @property
    def seconds(self) -> float:
        """From the queue's start to its last end."""
        return max((end for spans in self.sides.values() for _, end, _ in spans), default=0.0)

    def _done(self, work: Callable[[], Any]) -> Any:
        result = work()
        benchmark.synchronize(result)
        return result

    def _noted(self, side: str, what: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter() - self._start
        result = work()
        self.sides[side].append((start, time.perf_counter() - self._start, what))
        return result
