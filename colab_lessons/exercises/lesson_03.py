"""The checks of lesson 03's exercises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from colab_lessons.exercises.judging import (
    Wrong,
    close,
    exercise,
    filled,
    number,
    require_speedup,
    right_lines,
)

_PIXELS = 60_000 * 28 * 28


@exercise(
    "03.move_less", hint="Which of the two formats crosses with fewer bytes? Where do you convert?"
)
def move_less(answer: float) -> str:
    """MB that cross for one epoch when uint8 pixels are sent and converted on the device."""
    given = number(answer)
    if close(given, _PIXELS / 1e6):
        return (
            f"{_PIXELS / 1e6:.1f} MB. x.to(device).float() / 255 is a quarter of the other order."
        )
    if close(given, 4 * _PIXELS / 1e6):
        raise Wrong("That is float32: four bytes a pixel. Convert after the move, not before.")
    if close(given, _PIXELS / 2**20):
        raise Wrong("That is in MiB (2**20). Here MB means 10**6 bytes.")
    if close(given, 8 * _PIXELS / 1e6):
        raise Wrong("That is in Mbit, or float64. A uint8 is one byte.")
    if close(given, 0):
        raise Wrong("Something has to cross once. What is the least?")
    raise Wrong("60,000 × 28 × 28 pixels, one byte each, divided by 10**6.")


@exercise(
    "03.amdahl",
    hint="Write down the time of one round before, and after. Which part does the GPU touch?",
)
def amdahl(answer: float) -> str:
    """Speed-up of a loop that waits 60 ms and trains 20 ms, when training is ten times faster."""
    given, right = number(answer), 80 / 62
    if close(given, right):
        return "1.29×. The waiting stays, so fix the input pipeline before you rent a GPU."
    if close(given, 10):
        raise Wrong("Only the training is ten times faster. The waiting isn't.")
    if close(given, 62 / 80):
        raise Wrong("That is the new time over the old. Turn it round.")
    if close(given, 80 / 60):
        raise Wrong("That's an infinitely fast GPU. This one still trains for 2 ms.")
    if close(given, 80 / 8):
        raise Wrong("You made the waiting faster too.")
    raise Wrong("Before: 60 + 20 ms. After: 60 + 2 ms.")


_WHY_WAITS = {
    3: "line 3: .item() needs the number now.",
    5: "line 5: `if` needs True or False, so the loss must be known.",
    7: "line 7: .cpu() copies the result, and it must be there to be copied.",
}
_WHY_NOT = {
    1: "line 1 only adds work to the queue.",
    2: "line 2 only adds work to the queue.",
    4: "line 4 keeps a tensor; nobody asks for its value.",
    6: "line 6 only adds work to the queue.",
}


@exercise(
    "03.hidden_stops",
    hint="A line waits when Python needs a value: a number, a True or False, an array in CPU memory.",
)
def hidden_stops(answer: Any) -> str:
    """The lines of a training loop that wait for the device."""
    right_lines(answer, _WHY_WAITS, _WHY_NOT)
    return "Three stops a step. Collect losses as tensors and ask once an epoch."


@exercise(
    "03.quick_loop",
    hint="Replace the dots. How often does the slow loop ask the device for a number? How often must it? "
    "(float32 keeps seven figures; a sum of so many numbers wants more.)",
)
def quick_loop(answer: Callable, slow: Callable, pieces: Sequence) -> str:
    """Whether a function gives the same sum in half the time: both are run and timed here."""
    given = filled(answer(pieces), "quick_loop")
    expected = slow(pieces)
    if not close(number(given), expected):
        raise Wrong(f"The slow loop finds {expected:,.0f}, yours {number(given):,.0f}.")
    advice = "make few large operations of the many small ones, and wait once."
    gain = require_speedup(lambda: slow(pieces), lambda: answer(pieces), advice)
    return f"{gain}, for the same number."
