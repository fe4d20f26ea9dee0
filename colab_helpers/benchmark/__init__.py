"""Timing that waits for the device, warms up, and states its spread.

Work handed to an accelerator runs on after the call returns, so a clock has to wait for it. The
first calls pay for compiling and for filling caches, so they are not counted. One run says nothing
about the next, so there are many, and you see their median and spread. A time budget, not a repeat
count, decides how many: the same cell is right on a laptop and on an H100.
"""

from __future__ import annotations

from colab_helpers.benchmark.synchronization import synchronize
from colab_helpers.benchmark.timer import (
    Measurement,
    MeasurementError,
    Ratio,
    compare,
    measure,
    speedup,
)

__all__ = [
    "Measurement",
    "MeasurementError",
    "Ratio",
    "compare",
    "measure",
    "speedup",
    "synchronize",
]
