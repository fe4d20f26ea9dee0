"""The timer: warm up, wait, repeat, and say how sure the result is."""

from __future__ import annotations

import contextlib
import gc
import inspect
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from colab_helpers import _units
from colab_helpers._rich_display import error_text
from colab_helpers.benchmark.synchronization import synchronize

BLOCK_SECONDS = 1e-3  # a block of calls this long makes the clock's own steps negligible
NEGLIGIBLE = 0.01  # share of a block that waiting may take
MIN_BLOCKS = 5  # below this a median means little
MIN_ROUNDS = 10  # of a comparison: with half as many, its interval hides a fifth
BATCHES = 20  # of a comparison with many rounds
NEGLIGIBLE_DIFFERENCE = 0.02  # a ratio this near to 1 is not called a difference
SLOW_BLOCKS = 2  # ... unless a single warm call outlasts the budget
WARM_CALLS = 3  # compiling, and what a second call may add, such as capturing a graph
MAX_WARM_UP_CALLS = 20  # a function that gets faster for ever is timed as it is then
MAX_CALLS = 10**7  # in a block; a clock that has not advanced by then is broken
LONG_CALL = 0.1  # seconds; beside such a call no wait counts
NOISY = 0.1  # the spread from which a result is reported as noisy


@dataclass(frozen=True, repr=False)
class Measurement:
    """How long one call takes.

    Attributes:
        times: Seconds per call for each timed block, in the order measured.
        calls: Calls per block.
        name: What was measured, for messages.
        warning: Why the result may be wrong; "" if nothing is known to be.

    >>> Measurement((1.0, 2.0, 1.0))
    1.00 s ± 25% (median of 3 × 1 calls; noisy: measure again, with nothing else running)
    """

    times: tuple[float, ...]
    calls: int = 1
    name: str = ""
    warning: str = ""

    @property
    def median(self) -> float:
        """Median time per call, in seconds."""
        return statistics.median(self.times)

    @property
    def best(self) -> float:
        """Fastest time per call, in seconds; the figure that other load affects least."""
        return min(self.times)

    @property
    def quartiles(self) -> tuple[float, float]:
        """First and third quartile of the times per call, in seconds."""
        if len(self.times) < 2:
            return self.times[0], self.times[0]
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return low, high

    @property
    def spread(self) -> float:
        """Half the interquartile range, as a fraction of the median."""
        low, high = self.quartiles
        return (high - low) / 2 / self.median if self.median > 0 else math.inf

    @property
    def noisy(self) -> bool:
        """Whether the blocks differ so much that another run may give a different result."""
        return self.spread >= NOISY

    def __str__(self) -> str:
        noise = "; noisy: measure again, with nothing else running" if self.noisy else ""
        noise += f"; {self.warning}" if self.warning else ""
        return (
            f"{_units.format_duration(self.median)} ± {100 * self.spread:.0f}% "
            f"(median of {len(self.times)} × {self.calls} calls{noise})"
        )

    __repr__ = __str__


@dataclass(frozen=True)
class Ratio:
    """A speed-up: `value`, and `low` to `high`, its confidence interval at 98%.

    Attributes:
        value: The trimmed mean of the rounds' ratios.
        low: The lower end of the interval.
        high: The upper end.
    """

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, slow: Sequence[float], fast: Sequence[float]) -> Ratio:
        """Return how many times longer `slow` took than `fast`, from times measured in the same rounds.

        From forty rounds on, neighboring rounds form batches of a twentieth of all rounds, and the fastest
        times of a batch make its ratio: on a busy machine disturbances last longer than a round. A fifth of
        the ratios is left out at each end. Fewer than five have no end to spare, and one has no interval: 0
        to infinity. Source: Tukey and McLaughlin, "Less vulnerable confidence and significance procedures for
        location based on a single sample", Sankhya A 25 (1963), here for the logarithms of the ratios.

        Args:
            slow: Seconds per call, one for each round.
            fast: The same for the contender that should win.

        Raises:
            ValueError: A list is empty, or one of the two took no measurable time.

        >>> for slow in ([3.0, 3.01, 3.0], [3.2, 4.0, 3.6, 3.4, 3.9], [1.0, 1.01, 1.0], [0.9, 1.6, 1.1]):
        ...     print(Ratio.of(slow, [1.0] * len(slow)))
        3.0×
        2.45 to 5.36×
        about 1×
        0.36 to 3.8×
        """
        if not (slow and fast and min(fast) > 0 and min(slow) > 0):
            raise ValueError("Too fast to measure. Give it more work per call, or more repeats.")
        rounds = min(len(slow), len(fast))
        size = max(1, rounds // BATCHES)
        starts = range(0, rounds - size + 1, size)
        logs = sorted(math.log(min(slow[i : i + size]) / min(fast[i : i + size])) for i in starts)
        if len(logs) < 2:
            return cls(math.exp(logs[0]), 0.0, math.inf)
        center, half = _trimmed_interval(logs)
        return cls(*(math.exp(min(log, 700)) for log in (center, center - half, center + half)))

    @property
    def is_significant(self) -> bool:
        """Whether the speed-up can be told from 1×.

        The whole interval is more than 2% away from 1, so of 100 comparisons of equal work at most two say
        so. A difference under 2% doesn't count: where code sits in memory can cause that much.
        """
        return self.low > 1 + NEGLIGIBLE_DIFFERENCE or self.high < 1 / (1 + NEGLIGIBLE_DIFFERENCE)

    def __str__(self) -> str:
        """Round to what the interval allows: 3.2×, about 3×, about 1×, or the interval where it is wide.

        >>> print(Ratio(1.4, 1.03, 1.9), Ratio(1.04, 1.03, 1.049), Ratio(15, 10, 22))
        1.03 to 1.9× 1.04× 10 to 22×
        """
        spread = (self.high - self.low) / 2
        if not self.is_significant:
            near = self.low > 1 / 1.1 and self.high < 1.1
            return "about 1×" if near else f"{self.low:.2g} to {self.high:.2g}×"
        if spread < 0.05 * self.value:
            text = _units.format_ratio(self.value)
            return text if text != "1.0×" else f"{self.value:.3g}×"
        rounded = round(self.value, -round(math.log10(spread)))
        if spread > 0.35 * self.value or rounded == 1:  # 1 would read as no difference
            return f"{self.low:.3g} to {self.high:.3g}×"
        return f"about {rounded:,g}×"


def _trimmed_interval(values: Sequence[float]) -> tuple[float, float]:
    """The 20% trimmed mean of sorted `values`, at least two, and half its interval at 98%."""
    count = len(values)
    cut = count // 5
    kept = values[cut : count - cut]
    pulled = [kept[0]] * cut + list(kept) + [kept[-1]] * cut  # winsorized
    squares = statistics.variance(pulled) * (count - 1)
    error = math.sqrt(squares / (len(kept) * (len(kept) - 1)))
    return statistics.fmean(kept), _t_quantile(len(kept) - 1) * error


def _t_quantile(freedom: int) -> float:
    """The 99% quantile of Student's t: 1% are beyond it on each side."""
    few = (31.821, 6.965, 4.541, 3.747, 3.365, 3.143, 2.998, 2.896, 2.821)
    if freedom <= len(few):
        return few[freedom - 1]
    z = statistics.NormalDist().inv_cdf(0.99)  # then the terms of Abramowitz and Stegun 26.7.5
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )


class MeasurementError(RuntimeError):
    """The function under test raised. `partial` holds what was measured before, or None."""

    def __init__(self, message: str, partial: Measurement | None):
        super().__init__(message)
        self.partial = partial

    def __reduce__(self) -> tuple:  # so that it passes between processes
        return type(self), (str(self), self.partial)


def measure(
    function: Callable[[], Any],
    *,
    budget: float = 0.5,
    name: str = "",
    sync: Callable[[Any], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Measurement:
    """Time `function()` for `budget` seconds, after a warm-up.

    The timer stops only when the work is done. The cost of waiting is measured, and a block has enough calls
    for it to be negligible. The warm-up takes three calls or more, until a call is no longer twice as fast
    as the one before it. There are at least five blocks, or two if a single warm call outlasts the budget.

    Args:
        function: What to time; it is called without arguments.
        budget: Seconds to spend after the warm-up.
        name: What is measured, for messages.
        sync: Called with a result, it waits until the device has finished; by default `synchronize`, which
            knows PyTorch, TensorFlow and JAX.
        clock: Returns the time in seconds.

    Returns:
        The seconds per call of each block.

    Raises:
        ValueError: The budget is not positive, or the clock does not advance.
        MeasurementError: `function` raised; the error's `partial` holds what was measured before.

    >>> measure(lambda: sum(range(1000)), budget=0.01).median < 0.01
    True
    """
    seconds = _positive(budget)
    run = _Run(function, sync or synchronize, clock)
    with _gc_disabled(), _named(name, run):
        run.fill(seconds)
    return Measurement(tuple(run.times), run.calls, name, run.warning)


@contextlib.contextmanager
def _gc_disabled() -> Iterator[None]:
    """Collect garbage now, and keep the collector off in the block: a collection would count as work."""
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@contextlib.contextmanager
def _named(name: str, run: _Run) -> Iterator[None]:
    """Wrap exceptions with the function's name and the partial measurement."""
    try:
        yield
    except _ClockError:
        raise ValueError(
            f"The clock did not advance in {MAX_CALLS:,} calls. Pass one that returns seconds, such as "
            "time.perf_counter."
        ) from None
    except Exception as error:
        partial = Measurement(tuple(run.times), run.calls, name) if run.times else None
        # contextlib swallows a RuntimeError whose cause is a StopIteration.
        cause = None if isinstance(error, StopIteration) else error
        raise MeasurementError(_failure(name, error, partial), partial) from cause


def compare(
    functions: Mapping[str, Callable[[], Any]],
    *,
    budget: float = 0.5,
    sync: Callable[[Any], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Measurement]:
    """Time several functions in rounds, A B C C B A, so that a disturbance affects all of them.

    There are at least ten rounds, however long they take.

    On a shared machine, use one thread (`torch.set_num_threads(1)`): two that wait for each other on a busy
    core can take a thousand times as long.

    Args:
        functions: What to time, by name; each is called without arguments.
        budget: Seconds per function, after the warm-up.
        sync: As in `measure`.
        clock: As in `measure`.

    Returns:
        A measurement per function, in the order of `functions`.

    Raises:
        ValueError: The budget is not positive, or the clock does not advance.
        MeasurementError: A function raised.

    >>> found = compare({"few": lambda: sum(range(9)), "many": lambda: sum(range(9999))}, budget=0.01)
    >>> speedup(found["many"], found["few"]).value > 10
    True
    """
    seconds = _positive(budget)
    runs = {
        name: _Run(function, sync or synchronize, clock) for name, function in functions.items()
    }
    with _gc_disabled():
        for name, run in runs.items():
            with _named(name, run):
                run.prepare(seconds, MIN_ROUNDS)
        deadline, order = clock() + seconds * len(runs), list(runs.items())
        rounds = 0
        while rounds < MIN_ROUNDS or clock() < deadline:
            rounds += 1
            order.reverse()  # who comes second finds warmer caches, or a busier machine
            for name, run in order:
                with _named(name, run):
                    run.repeat()
    return {name: Measurement(tuple(r.times), r.calls, name, r.warning) for name, r in runs.items()}


def speedup(slow: Measurement, fast: Measurement) -> Ratio:
    """Return how many times faster `fast` is than `slow`.

    Args:
        slow: A result of `compare`.
        fast: Another result of the same `compare`.

    Raises:
        ValueError: One of the two took no measurable time.

    >>> print(speedup(Measurement((3.0, 3.01, 3.0)), Measurement((1.0, 1.0, 1.0))))
    3.0×
    """
    return Ratio.of(slow.times, fast.times)


class _ClockError(Exception):
    """The clock does not advance."""


class _LazyError(TypeError):
    """The function under test returned before it computed anything."""


class _Run:
    """One measurement while it is made: seconds a call in `times`, and the calls of a block."""

    def __init__(
        self, function: Callable[[], Any], wait: Callable[[Any], None], clock: Callable[[], float]
    ):
        self.function, self.wait, self.clock = function, wait, clock
        self.times: list[float] = []
        self.warm: list[float] = []
        self.waiting = 0.0
        self.calls = 1
        self.warning = ""

    def fill(self, budget: float) -> None:
        """Warm up, choose the calls of a block, and time blocks until the budget is used."""
        if self.prepare(budget) >= budget:
            self.times += self.warm[-SLOW_BLOCKS:]  # waited for one by one: blocks of one call
            return
        deadline = self.clock() + budget
        while len(self.times) < MIN_BLOCKS or self.clock() < deadline:
            self.repeat()

    def prepare(self, budget: float, blocks: int = MIN_BLOCKS) -> float:
        """Warm up, choose the calls of a block so that `blocks` fit; return the seconds of a warm call."""
        self.warm = self._warm_up()
        if self.warm[-1] < budget:
            self.waiting = self._cost_of_waiting() if self.warm[-1] < LONG_CALL else 0.0
            self._grow(max(BLOCK_SECONDS, self.waiting / NEGLIGIBLE), budget / blocks)
        return self.warm[-1]

    def repeat(self) -> None:
        """Time one block."""
        taken, waiting = self._block(), self.waiting
        # Where the budget kept blocks short, waiting still counts, and is taken off.
        own = taken - waiting if waiting > NEGLIGIBLE * taken else taken
        self.times.append(max(own, 0.0) / self.calls)
        if taken <= 0:
            raise _ClockError
        if waiting > taken / 2:
            self.warning = "waiting for the device took most of it: give a larger budget"

    def _warm_up(self) -> list[float]:
        """Seconds of each warm-up call. The last ones are warm: they no longer get much faster."""
        start = self.clock()
        result = self.function()
        _check_computed(result)
        self.wait(result)
        taken = [self.clock() - start]
        del result
        taken += [self._block() for _ in range(WARM_CALLS - 1)]
        while taken[-1] <= taken[-2] / 2 and len(taken) < MAX_WARM_UP_CALLS:
            taken.append(self._block())
        return taken

    def _cost_of_waiting(self) -> float:
        """Seconds that waiting takes where the work is done, reading the clock included."""
        result = self.function()
        self.wait(result)
        costs = []
        for _ in range(2 * MIN_BLOCKS):
            start = self.clock()
            self.wait(result)
            costs.append(self.clock() - start)
        return statistics.median(costs)

    def _grow(self, target: float, most: float) -> None:
        """Put more calls into a block until it takes `target` seconds, or would exceed `most`."""
        taken, wanted = self._block(), min(target, most)
        while taken < wanted:
            if self.calls >= MAX_CALLS:
                if taken <= 0:
                    raise _ClockError
                return
            # One wait is in `taken` however many calls: a short block tells little of a long one.
            factor = min(10.0, 1.2 * wanted / taken) if taken > 0 else 10.0
            self.calls = max(self.calls + 1, math.ceil(self.calls * factor))
            taken = self._block()

    def _block(self) -> float:
        """Seconds of one block. Outputs are let go before the next call makes its own."""
        function = self.function
        start = self.clock()
        for _ in range(self.calls - 1):
            function()
        self.wait(function())
        return self.clock() - start


def _check_computed(result: Any) -> None:
    """Raise `_LazyError` for a result that hasn't been computed yet."""
    if inspect.iscoroutine(result):
        result.close()  # or Python complains that nobody awaited it
        raise _LazyError(
            "returned a coroutine, which runs only when awaited. Time asyncio.run(function())."
        )
    if isinstance(result, Future):
        raise _LazyError("returned a Future, which isn't done yet. Time function().result().")
    if inspect.isasyncgen(result) or isinstance(result, Iterator):
        kind = type(result).__name__.replace("_", " ")
        article = "an" if kind[0] in "aeiou" else "a"
        raise _LazyError(
            f"returned {article} {kind}, which computes only when read. Time a function that reads it."
        )


def _positive(budget: Any) -> float:
    try:
        seconds = float(budget) if not isinstance(budget, str) else math.nan
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not (seconds > 0 and math.isfinite(seconds)):
        raise ValueError(
            f"budget must be a positive number of seconds, such as 0.5 (got {str(budget)[:40]!r})."
        )
    return seconds


def _failure(name: str, error: Exception, partial: Measurement | None) -> str:
    what = name or "The function under test"
    if isinstance(error, _LazyError):
        return f"{what} {error}"
    if isinstance(error, StopIteration):
        kept = f" Measured before that: {partial}; it is in .partial." if partial else ""
        return f"{what} raised StopIteration: its iterator ran out. Make the iterator inside.{kept}"
    kept = (
        f"Measured before that: {partial}; it is in .partial."
        if partial
        else "Nothing was measured before that: call it once outside measure() to see why."
    )
    return f"{what} raised {error_text(error).rstrip('.')}. {kept}"
