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
    "01.plan",
    hint="6 × parameters × tokens operations, divided by operations a second, is seconds.",
)
def plan(answer: tuple[float, float], here: float, t4: float) -> str:
    """Hours to train 124 M parameters on 100 M tokens, here and on a T4; both speeds in FLOP/s."""
    flop = 6 * 124e6 * 100e6
    right = flop / here / 3600, flop / t4 / 3600
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise Wrong("Two numbers are wanted: hours here, and hours on a T4.")
    given = number(answer[0]), number(answer[1])
    if all(close(a, b) for a, b in zip(given, right, strict=True)):
        return f"{right[0]:,.0f} hours here, {right[1]:.1f} on a T4, at best."
    if all(close(a, 3600 * b) for a, b in zip(given, right, strict=True)):
        raise Wrong("Those are seconds. Divide by 3,600.")
    if all(close(a, b / 3) for a, b in zip(given, right, strict=True)):
        raise Wrong(
            "That is the forward pass alone: two operations. The backward pass costs four more."
        )
    if all(close(a, b) for a, b in zip(given, right[::-1], strict=True)):
        raise Wrong("The other way round: this machine first.")
    if close(given[0], right[0]):
        raise Wrong("Here is right. For the T4 divide by its own speed, t4['fp32'].value.")
    raise Wrong("Work out 6 × 124e6 × 100e6 operations, and divide by each machine's speed.")


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
