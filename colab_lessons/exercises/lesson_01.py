"""The checks of lesson 01's exercises."""

from __future__ import annotations

import time
from collections.abc import Callable

from colab_lessons.exercises.judging import Wrong, close, exercise, filled, number, require_speedup

_SETUP, _WORK = 0.05, 0.01  # seconds


class _Queue:
    """Work that is done while somebody waits for it; the first call costs more."""

    def __init__(self) -> None:
        self.pending, self.cost = 0.0, _SETUP

    def launch(self) -> None:
        self.pending += self.cost
        self.cost = _WORK

    def wait(self) -> None:
        time.sleep(self.pending)
        self.pending = 0.0


@exercise(
    "01.clock",
    hint="Replace the dots. What has to happen before you start the clock, and what before you stop it?",
)
def clock(answer: Callable) -> str:
    """Whether a timer waits for the work, and leaves the first call out."""
    queue = _Queue()
    taken = filled(answer(queue.launch, queue.wait), "timed")
    taken = number(taken)
    if taken < 0.9 * _WORK:
        raise Wrong("Too short: the clock stopped before the work was done. Wait first.")
    if taken > _SETUP:
        raise Wrong(
            "Too long: that includes the setup. Launch once, and wait, before you start the clock."
        )
    return f"{1000 * taken:.0f} ms, and the work takes {1000 * _WORK:.0f}."


@exercise(
    "01.crossing",
    hint="Write down both times, 2n³/slow and overhead + 2n³/fast, set them equal, and solve for n.",
)
def crossing(answer: Callable, core: float, h100: float) -> str:
    """Whether a function finds the matrix size where two chips tie; both speeds in FLOP/s."""
    overhead, slow, fast = 20e-6, 50e9, 200e9
    cubed = overhead / (2 / slow - 2 / fast)
    given = number(filled(answer(overhead, slow, fast), "crossing"))
    if close(given, cubed):
        raise Wrong("That is n³. Take the cube root.")
    if close(given, (overhead * slow / 2) ** (1 / 3)):
        raise Wrong("The GPU's arithmetic takes time, too: add 2n³/fast to its overhead.")
    if close(given, (2 * cubed) ** (1 / 3)):
        raise Wrong("A matmul has 2n³ operations, not n³.")
    if not close(given, cubed ** (1 / 3)):
        raise Wrong("Does 2n³/slow equal overhead + 2n³/fast at your n?")
    here = answer(18e-6, core, h100)
    return f"With 18 µs of overhead, an H100 would overtake this core at n = {here:.0f}."


@exercise("01.quickly", hint="Replace the dots. What does grow() do with a tensor of many numbers?")
def quickly(answer: Callable, slowly: Callable) -> str:
    """Whether a function gives the same chains in half the time: both are run and timed here."""
    starts = [0.1 + 0.8 * i / 2000 for i in range(2000)]
    filled(answer(starts[:3]), "quickly")
    expected, given = slowly(starts), answer(starts)
    if hasattr(given, "tolist"):
        given = given.tolist()
    if len(given) != len(expected):
        raise Wrong(f"{len(expected)} numbers go in; {len(given)} come out.")
    if any(abs(number(x) - y) > 1e-6 for x, y in zip(given, expected, strict=True)):
        raise Wrong(
            "The numbers differ. This map makes a rounding error 1.4 times as large, a hundred times "
            "over, so it takes grow() itself and 64 bits to follow the slow version: dtype=torch.float64 "
            "(on an Apple GPU, leave the tensor on the CPU)."
        )
    gain = require_speedup(
        lambda: slowly(starts), lambda: answer(starts), "put all chains in one tensor."
    )
    return f"{gain}, for the same chains."
