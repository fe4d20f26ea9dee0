"""A device whose speed is known, for judging a timer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from colab_helpers import benchmark


class AsynchronousDevice:
    """A device with its own clock: calls return at once, the work goes on until somebody waits.

    All in seconds: `work` of one call, `waiting` for each wait, `launching` for each call.
    """

    def __init__(self, work: float = 2e-3, waiting: float = 0.0, launching: float = 2e-6):
        self.work, self.waiting, self.launching = work, waiting, launching
        self.now = 0.0
        self.busy_until = 0.0
        self.calls = 0

    def clock(self) -> float:
        """The time on this device's own clock."""
        return self.now

    def launch(self) -> None:
        """Hand over the work of one call."""
        self.calls += 1
        self.now += self.launching
        self.busy_until = max(self.now, self.busy_until) + self.work

    def wait(self, result: Any = None) -> None:
        """Wait until all of it is done."""
        self.now = max(self.now, self.busy_until) + self.waiting

    def measure(
        self, function: Callable[[], Any] | None = None, budget: float = 0.5
    ) -> benchmark.Measurement:
        """Time `function`, or one call, by this device's clock."""
        return benchmark.measure(
            function or self.launch, budget=budget, sync=self.wait, clock=self.clock
        )
