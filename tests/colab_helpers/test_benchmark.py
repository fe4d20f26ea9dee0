import gc
import math
import time

import pytest

from colab_helpers import benchmark


class AsynchronousDevice:
    """A device with its own clock: calls return at once, the work goes on until somebody waits."""

    LAUNCH, WORK = 10e-6, 2e-3  # seconds

    def __init__(self):
        self.now = 0.0
        self.busy_until = 0.0
        self.calls = 0

    def clock(self):
        return self.now

    def launch(self):
        self.calls += 1
        self.now += self.LAUNCH
        self.busy_until = max(self.now, self.busy_until) + self.WORK

    def wait(self, result=None):
        self.now = max(self.now, self.busy_until)


def test_asynchronous_work_is_timed_whole():
    device = AsynchronousDevice()
    found = benchmark.measure(device.launch, budget=1, sync=device.wait, clock=device.clock)
    assert found.median == pytest.approx(device.WORK, rel=0.02)


def test_a_timer_that_forgets_to_synchronise_is_caught():
    device = AsynchronousDevice()
    found = benchmark.measure(
        device.launch, budget=0.01, sync=lambda result: None, clock=device.clock
    )
    assert (
        found.median < device.WORK / 10
    )  # it measured the launch only: this is what wrong looks like


def test_warm_up_is_not_counted():
    device = AsynchronousDevice()

    def first_call_compiles():
        if device.calls == 0:
            device.now += 5.0
        device.launch()

    found = benchmark.measure(first_call_compiles, budget=6, sync=device.wait, clock=device.clock)
    assert max(found.times) < 0.01


def test_short_calls_are_grouped_and_long_ones_are_not():
    device = AsynchronousDevice()
    device.WORK = 10e-6
    short = benchmark.measure(device.launch, budget=0.1, sync=device.wait, clock=device.clock)
    assert short.calls > 10 and short.calls * short.median >= benchmark.BLOCK_SECONDS / 2
    device.WORK = 0.1
    long = benchmark.measure(device.launch, budget=0.5, sync=device.wait, clock=device.clock)
    assert long.calls == 1


def test_budget_bounds_the_time_used():
    device = AsynchronousDevice()
    device.WORK = 1.0
    benchmark.measure(device.launch, budget=0.1, sync=device.wait, clock=device.clock)
    assert device.calls == 1 + benchmark.SLOW_BLOCKS  # warm-up, and the least that is timed


def test_real_time_is_close_to_the_truth():
    found = benchmark.measure(lambda: time.sleep(0.02), budget=0.3)
    assert 0.02 <= found.median < 0.03 and len(found.times) >= 5


@pytest.mark.parametrize("budget", [0, -1, float("nan"), float("inf")])
def test_a_budget_that_is_not_positive_is_refused(budget):
    with pytest.raises(ValueError, match="positive number of seconds"):
        benchmark.measure(lambda: None, budget=budget)


def test_a_function_that_raises_keeps_what_was_measured():
    device = AsynchronousDevice()

    def breaks_later():
        if device.calls == 20:
            raise RuntimeError("out of memory")
        device.launch()

    with pytest.raises(
        benchmark.MeasurementError, match=r"product raised RuntimeError: out of"
    ) as caught:
        benchmark.measure(
            breaks_later, budget=1, name="product", sync=device.wait, clock=device.clock
        )
    assert len(caught.value.partial.times) > 10
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert gc.isenabled()


def test_a_function_that_raises_at_once_says_so():
    with pytest.raises(benchmark.MeasurementError, match="Nothing was measured") as caught:
        benchmark.measure(lambda: 1 / 0)
    assert caught.value.partial is None


def test_numbers_of_a_measurement():
    found = benchmark.Measurement((1.0, 2.0, 3.0, 4.0, 5.0))
    assert (found.median, found.quartiles, found.spread) == (3.0, (2.0, 4.0), pytest.approx(1 / 3))
    assert benchmark.Measurement((2.0,)).spread == 0
    assert str(found) == "3.00 s ± 33 % (median of 5 × 1 calls)"


def test_synchronize_waits_for_jax():
    jax = pytest.importorskip("jax")
    benchmark.synchronize(jax.numpy.ones(3))


def test_crossover_between_two_sizes():
    sizes = [1, 10, 100, 1000]
    line, flat = [1, 10, 100, 1000], [50, 50, 50, 50]
    assert benchmark.crossover(sizes, line, flat) == pytest.approx(50)
    assert benchmark.crossover(sizes, flat, line) is None
    assert benchmark.crossover(sizes, flat, [1, 1, 1, 1]) == 1
    with pytest.raises(ValueError, match="one time a size"):
        benchmark.crossover(sizes, line, [1])


def test_crossover_counts_from_the_last_loss():
    times = [10, 10, 10, 10]
    wobbly = [5, 20, 20, 5]
    assert benchmark.crossover([1, 2, 4, 8], times, wobbly) == pytest.approx(math.sqrt(4 * 8))
