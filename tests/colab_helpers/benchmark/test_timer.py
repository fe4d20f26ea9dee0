import gc
import itertools
import math
import pickle
import time
from concurrent.futures import Future

import numpy as np
import pytest

from colab_helpers import benchmark
from tests.simulated import AsynchronousDevice


@pytest.mark.parametrize("waiting", [5e-6, 10e-6, 20e-6, 40e-6])
@pytest.mark.parametrize("work", [5e-6, 20e-6, 100e-6, 500e-6])
def test_what_waiting_costs_is_not_counted_as_work(work, waiting):
    device = AsynchronousDevice(work, waiting)
    assert device.measure(budget=0.1).median == pytest.approx(work, rel=0.03)
    assert device.measure(budget=2e-3).median == pytest.approx(work, rel=0.03)  # too short to grow


def test_a_block_is_a_hundred_times_as_long_as_waiting():
    device = AsynchronousDevice(10e-6, waiting=1e-3)
    found = device.measure(budget=5)
    assert 0.1 <= found.calls * found.median < 0.2  # of 5 seconds it could have taken one


def test_a_timer_that_forgets_to_synchronize_is_caught():
    device = AsynchronousDevice()
    found = benchmark.measure(
        device.launch, budget=0.01, sync=lambda result: None, clock=device.clock
    )
    assert (
        found.median < device.work / 10
    )  # it measured the launch only: this is what wrong looks like


@pytest.mark.parametrize("slow", [(5.0,), (5.0, 0.15), (1.0, 1.0), (4.0, 1.9, 0.9, 0.4)])
def test_compiling_is_neither_counted_nor_paid_from_the_budget(slow):
    device = AsynchronousDevice()

    def compiles_first():
        device.now += dict(enumerate(slow)).get(device.calls, 0)
        device.launch()

    found = device.measure(compiles_first, budget=0.5)
    assert max(found.times) < 0.0021
    assert found.calls * sum(found.times) == pytest.approx(0.5, abs=0.01)


def test_waiting_is_measured_after_compiling_too():
    device = AsynchronousDevice(5e-6, waiting=40e-6)

    def compiles_first():
        device.now += 5.0 * (device.calls == 0)
        device.launch()

    assert device.measure(compiles_first, budget=0.1).median == pytest.approx(5e-6, rel=0.03)


def test_an_output_is_let_go_before_the_next_is_made():
    alive = most = 0

    class Output:
        def __init__(self):
            nonlocal alive, most
            alive += 1
            most = max(most, alive)

        def __del__(self):
            nonlocal alive
            alive -= 1

    benchmark.measure(Output, budget=0.02)
    assert (most, alive) == (1, 0)


def test_a_clock_that_stands_still_is_told():
    with pytest.raises(ValueError, match="clock did not advance"):
        benchmark.measure(lambda: None, clock=lambda: 0.0)
    ticks = iter(range(12))  # ... or stops later
    with pytest.raises(ValueError, match="clock did not advance"):
        benchmark.measure(lambda: None, budget=10, clock=lambda: float(next(ticks, 12)))


def test_a_noisy_result_says_so():
    calm = benchmark.Measurement((1.0, 1.0, 1.0, 1.05, 1.0))
    noisy = benchmark.Measurement((1.0, 1.3, 1.0, 1.6, 1.0))
    assert not calm.noisy and "noisy" not in str(calm)
    assert noisy.noisy and "noisy: measure again" in str(noisy)
    edge = benchmark.Measurement((0.9, 0.9, 1.0, 1.1, 1.1))
    assert edge.spread == pytest.approx(0.1)
    assert repr(noisy) == str(noisy) and len(repr(noisy)) < 110


def test_short_calls_are_grouped_and_long_ones_are_not():
    device = AsynchronousDevice()
    device.work = 10e-6
    short = device.measure(budget=0.1)
    assert short.calls * short.median >= 1e-3
    device.work = 0.1
    long = device.measure(budget=0.5)
    assert long.calls == 1


def test_real_time_is_close_to_the_truth():
    found = benchmark.measure(lambda: time.sleep(0.02), budget=0.3)
    assert 0.02 <= found.median < 0.03 and len(found.times) >= 5


@pytest.mark.parametrize(
    "budget", [0, -1, float("nan"), float("inf"), "1", None, [], pytest.param(10**400, id="huge")]
)
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
    assert str(found).startswith("3.00 s ± 33% (median of 5 × 1 calls; noisy")


def test_a_wait_that_is_dear_for_the_budget_is_said():
    device = AsynchronousDevice(1e-9, waiting=2e-3, launching=25e-9)
    found = device.measure(budget=0.01)
    assert "give a larger budget" in found.warning and found.warning in str(found)
    assert device.now < 0.1
    assert not AsynchronousDevice(1e-3, waiting=10e-6).measure(budget=0.1).warning


def test_functions_are_compared_in_turns_so_that_a_disturbance_meets_all():
    now, order = [0.0], []

    def takes(name, seconds):
        def call():
            order.append(name)
            now[0] += seconds

        return call

    found = benchmark.compare(
        {"slow": takes("slow", 0.03), "fast": takes("fast", 0.01)},
        budget=1, sync=lambda result: None, clock=lambda: now[0],
    )  # fmt: skip
    rounds = list(zip(order[-20::2], order[-19::2], strict=True))  # one call a block
    assert all(set(pair) == {"slow", "fast"} for pair in rounds)
    assert all(one == other[::-1] for one, other in itertools.pairwise(rounds))
    assert len(found["slow"].times) == len(found["fast"].times)
    assert benchmark.speedup(found["slow"], found["fast"]).value == pytest.approx(3)


@pytest.mark.parametrize(
    ("slow", "said", "significant"),
    [
        ((3.0, 3.01, 3.0), "3.0×", True),
        ((2.8, 3.0, 3.4, 3.9, 3.3, 3.1), "about 3×", True),
        ((190.0, 200.0, 240.0, 180.0, 210.0, 260.0), "about 200×", True),
        ((1.01, 1.0, 0.99, 1.0, 1.01), "about 1×", False),
        ((0.5, 1.0, 3.0), "0.03 to 43×", False),
        ((3.0,), "0 to inf×", False),  # one round tells nothing of the next
    ],
)
def test_a_ratio_says_no_more_than_its_rounds_allow(slow, said, significant):
    ratio = benchmark.Ratio.of(slow, [1.0] * len(slow))
    assert (str(ratio), ratio.is_significant) == (said, significant)
    assert ratio.low <= ratio.value <= ratio.high


def jittered(rng, rounds, spread):
    """Seconds that jump by `spread`, and now and then by much more, as on a shared machine."""
    return np.exp(rng.normal(0, spread, rounds) + (rng.random(rounds) < 0.1) * rng.exponential(0.5))


@pytest.mark.parametrize("rounds", [3, 5, 10, 25, 100])
@pytest.mark.parametrize("spread", [0.02, 0.1, 0.3])
def test_of_a_hundred_comparisons_of_equal_work_two_at_most_see_a_difference(rounds, spread):
    rng = np.random.default_rng(rounds)
    of = [
        benchmark.Ratio.of(list(jittered(rng, rounds, spread)), list(jittered(rng, rounds, spread)))
        for _ in range(1500)
    ]
    wrong = sum(ratio.is_significant for ratio in of)
    assert wrong <= 0.02 * len(of) + 3 * math.sqrt(0.02 * len(of))
    assert all(ratio.low <= ratio.value <= ratio.high for ratio in of)


@pytest.mark.parametrize(("rounds", "spread"), [(10, 0.03), (25, 0.08), (100, 0.1)])
def test_a_fifth_more_time_is_found(rounds, spread):
    rng = np.random.default_rng(1)
    of = [
        benchmark.Ratio.of(
            list(1.2 * jittered(rng, rounds, spread)), list(jittered(rng, rounds, spread))
        )
        for _ in range(500)
    ]
    assert sum(ratio.is_significant and ratio.value > 1 for ratio in of) >= 0.9 * len(of)


async def awaited():
    """Do nothing, later."""


async def streamed():
    yield 1


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (
            lambda: (i**2 for i in range(10**6)),
            "returned a generator, .* Time a function that reads it",
        ),
        (awaited, "returned a coroutine, .* asyncio.run"),
        (streamed, "returned an async generator"),
        (lambda: map(str, range(9)), "returned a map"),
        (lambda: next(iter(())), "StopIteration: its iterator ran out"),
    ],
)
@pytest.mark.parametrize("way", ["measure", "compare"])
def test_work_that_was_not_done_is_not_timed(work, said, way):
    with pytest.raises(benchmark.MeasurementError, match=said):
        if way == "measure":
            benchmark.measure(work, budget=0.01, name="mine")
        else:
            benchmark.compare({"mine": work}, budget=0.01)


def test_nothing_is_faster_than_a_call_that_took_no_measurable_time():
    with pytest.raises(ValueError, match="more repeats"):
        benchmark.speedup(benchmark.Measurement((1.0,)), benchmark.Measurement((0.0, 0.0)))


def test_an_error_passes_between_processes_and_has_one_full_stop():
    def late():
        raise ValueError("too late.")

    with pytest.raises(
        benchmark.MeasurementError, match=r"ValueError: too late\. Nothing"
    ) as caught:
        benchmark.measure(late)
    assert pickle.loads(pickle.dumps(caught.value)).partial is None


@pytest.mark.parametrize("lazy", [lambda: itertools.chain([1]), Future, lambda: enumerate("a")])
def test_what_computes_later_is_not_timed(lazy):
    with pytest.raises(benchmark.MeasurementError, match=r"returned an? "):
        benchmark.measure(lazy)
