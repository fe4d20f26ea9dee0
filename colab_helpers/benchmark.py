"""How long does this take, honestly?

Work handed to an accelerator runs on after the call returns, so a clock has to wait for it. The
first calls pay for compiling and for filling caches, so they are not counted. One run says nothing
about the next, so there are many, and you see their median and spread. A time budget, not a repeat
count, decides how many: the same cell is right on a laptop and on an H100.
"""

from __future__ import annotations

import gc
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from colab_helpers import _units

BLOCK_SECONDS = 1e-3  # a block of calls this long makes the clock's own cost negligible
MIN_BLOCKS = 5  # below this a median means little
SLOW_BLOCKS = 2  # ... unless a single call outlasts the budget


@dataclass(frozen=True)
class Measurement:
    """How long one call takes: seconds a call for each timed block, in the order measured.

    `calls` is the number of calls in a block.
    """

    times: tuple[float, ...]
    calls: int = 1
    name: str = ""

    @property
    def median(self) -> float:
        """Median seconds a call."""
        return statistics.median(self.times)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The seconds a call that a quarter, and three quarters, of the blocks stay below."""
        if len(self.times) < 2:
            return self.times[0], self.times[0]
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return low, high

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a fraction of the median."""
        low, high = self.quartiles
        return (high - low) / 2 / self.median

    def __str__(self) -> str:
        return (
            f"{_units.seconds(self.median)} ± {100 * self.spread:.0f} % "
            f"(median of {len(self.times)} × {self.calls} calls)"
        )

    def to_dict(self) -> dict:
        """Return plain data, ready for JSON."""
        low, high = self.quartiles
        return {"median": self.median, "low": low, "high": high, "blocks": len(self.times)}


class MeasurementError(RuntimeError):
    """The function under test raised. `partial` holds what was measured before, or None."""

    def __init__(self, message: str, partial: Measurement | None):
        super().__init__(message)
        self.partial = partial


def measure(
    function: Callable[[], Any],
    *,
    budget: float = 0.5,
    name: str = "",
    sync: Callable[[Any], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Measurement:
    """Time `function()` until `budget` seconds are used, after warming up.

    The clock stops only when the work is done: `sync(result)` waits for it. By default that is
    `synchronize` below, which knows PyTorch, TensorFlow and JAX. A call that outlasts
    the budget is still timed twice. Raises `ValueError` for a budget that is not positive, and
    `MeasurementError`, with what was measured so far, when `function` raises.

    >>> measure(lambda: sum(range(1000)), budget=0.01).median < 0.01
    True
    """
    if not (budget > 0 and math.isfinite(budget)):
        raise ValueError(f"budget is {budget!r}: give a positive number of seconds, such as 0.5.")
    wait = sync or synchronize
    timed: list[float] = []
    calls = 1

    def block() -> float:
        start = clock()
        for _ in range(calls):
            result = function()
        wait(result)
        return clock() - start

    collecting = gc.isenabled()
    gc.collect()
    gc.disable()  # a collection in the middle of a block would be counted as work
    try:
        deadline = clock() + budget
        first = block()  # pays for compiling and for cold caches: not counted
        second = block()
        calls = _calls_a_block(block, second)
        if calls == 1:
            timed.append(second)
        least = MIN_BLOCKS if first + second * MIN_BLOCKS < 2 * budget else SLOW_BLOCKS
        while len(timed) < least or clock() < deadline:
            timed.append(block() / calls)
    except Exception as error:
        partial = Measurement(tuple(timed), calls, name) if timed else None
        raise MeasurementError(_failure(name, error, partial), partial) from error
    finally:
        if collecting:
            gc.enable()
    return Measurement(tuple(timed), calls, name)


def _calls_a_block(block: Callable[[], float], one_call: float) -> int:
    """How many calls make a block long enough for the clock."""
    return 1 if one_call >= BLOCK_SECONDS else math.ceil(BLOCK_SECONDS / max(one_call, 1e-8))


def _failure(name: str, error: Exception, partial: Measurement | None) -> str:
    what = name or "The function under test"
    kept = (
        f"Measured before that: {partial}; it is in .partial."
        if partial
        else ("Nothing was measured before that: call it once outside measure() to see why.")
    )
    return f"{what} raised {type(error).__name__}: {error}. {kept}"


def synchronize(result: Any = None) -> None:
    """Wait until all work handed to any accelerator so far is done.

    Looks only at frameworks that are already imported. JAX has no queue to wait for, so there it
    waits for `result` (an array or a tree of arrays). Sources: torch.accelerator.synchronize,
    tf.test.experimental.sync_devices, jax.block_until_ready.
    """
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "accelerator"):
        _synchronize_torch(torch)
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None and _has_tensorflow_gpu(tensorflow):
        tensorflow.test.experimental.sync_devices()
    jax = sys.modules.get("jax")
    if jax is not None and result is not None:
        jax.block_until_ready(result)


def _synchronize_torch(torch: Any) -> None:
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()


def _has_tensorflow_gpu(tensorflow: Any) -> bool:
    return bool(tensorflow.config.list_physical_devices("GPU"))


def crossover(
    sizes: Sequence[float], first: Sequence[float], second: Sequence[float]
) -> float | None:
    """Return the size from which on `second` (seconds) stays faster than `first`, or None.

    Between two sizes the curves are taken as straight on log-log axes. A curve that never wins at
    the largest size has no crossover.

    >>> round(crossover([1, 10, 100], [1, 10, 100], [10, 10, 10]))
    10
    """
    if not len(sizes) == len(first) == len(second):
        raise ValueError("crossover needs one time a size for both contenders.")
    lead = [math.log(b / a) for a, b in zip(first, second, strict=True)]  # below 0: second wins
    if lead[-1] > 0:
        return None
    last_loss = max((i for i, value in enumerate(lead) if value > 0), default=None)
    if last_loss is None:
        return float(sizes[0])
    share = lead[last_loss] / (lead[last_loss] - lead[last_loss + 1])
    low, high = math.log(sizes[last_loss]), math.log(sizes[last_loss + 1])
    return float(math.exp(low + share * (high - low)))
