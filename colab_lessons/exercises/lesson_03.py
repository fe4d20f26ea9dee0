"""The judges of lesson 03."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from colab_lessons.exercises import (
    NotYet,
    close,
    exercise,
    half_the_time,
    items,
    number,
    told_of,
)

_PIXELS = 60_000 * 28 * 28


@exercise(
    "03.beside",
    hint="Where do the model's weights live? next(model.parameters()).device. Then move x there.",
)
def beside(answer: Callable[[Any, Any], Any]) -> str:
    """A function (model, x) that returns x on the model's device; tried on two devices."""
    import torch

    if not callable(answer):
        raise NotYet("A function is wanted here: def beside(model, x).")
    x = torch.ones(2, 3)
    for place in ("cpu", "meta"):  # meta: a device that is everywhere, and is not the CPU
        model = torch.nn.Linear(3, 3, device=place)
        try:
            moved = answer(model, x)
        except Exception as error:  # the learner's own code: whatever it raises is told
            raise NotYet(
                f"With a model on {place!r} it fails: {told_of(error)}. Did you name a device?"
            ) from None
        _judge_place(moved, model, place, x)
    return "It follows the model wherever that lives."


def _judge_place(moved: Any, model: Any, place: str, x: Any) -> None:
    if moved is None:
        raise NotYet("The function returns nothing: x.to(…) gives a new tensor, so return it.")
    if next(model.parameters()).device.type != place:
        raise NotYet(
            "You moved the model. Move x to it: it is smaller, and the caller's model stays."
        )
    device = getattr(moved, "device", None)
    if getattr(device, "type", None) != place:
        raise NotYet(f"With a model on {place!r} you returned {device}. Use the model's device.")
    if moved.shape != x.shape:
        raise NotYet("Return x itself, moved, not what the model makes of it.")


@exercise(
    "03.move_less",
    hint="Which of the two formats crosses with fewer bytes? Where do you convert?",
)
def move_less(answer: float) -> str:
    """MB that cross for one epoch when uint8 pixels are sent and converted on the device."""
    given = number(answer)
    if close(given, _PIXELS / 1e6):
        return (
            f"{_PIXELS / 1e6:.1f} MB. x.to(device).float() / 255 is a quarter of the other order."
        )
    if close(given, 4 * _PIXELS / 1e6):
        raise NotYet("That is float32: four bytes a pixel. Convert after the move, not before.")
    if close(given, _PIXELS / 2**20):
        raise NotYet("That is in MiB (2**20). Here MB means 10**6 bytes.")
    if close(given, 8 * _PIXELS / 1e6):
        raise NotYet("That is in Mbit, or float64. A uint8 is one byte.")
    if close(given, 0):
        raise NotYet("Something has to cross once. What is the least?")
    raise NotYet("60,000 × 28 × 28 pixels, one byte each, divided by 10**6.")


_STOPS = {3, 5, 7}
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
    given = {int(line) for line in items(answer)}
    for line in sorted(given - _STOPS):
        raise NotYet(f"Not {_WHY_NOT.get(line, f'line {line}: there is none.')}")
    for line in sorted(_STOPS - given):
        raise NotYet(f"One is missing. Think of {_WHY_WAITS[line]}")
    return "Three stops a step. Collect losses as tensors and ask once an epoch."


@exercise(
    "03.quick_loop",
    hint="Replace the dots. How often does the slow loop ask the device for a number? How often must it? "
    "(float32 keeps seven figures; a sum of so many numbers wants more.)",
)
def quick_loop(answer: Callable, slow: Callable, pieces: Sequence) -> str:
    """Whether a function gives the same sum in half the time: both are run and timed here."""
    given = answer(pieces)
    if given is ...:
        raise NotYet("quick_loop returns the dots. Replace them.")
    expected = slow(pieces)
    if not close(number(given), expected):
        raise NotYet(f"The slow loop finds {expected:,.0f}, yours {number(given):,.0f}.")
    advice = "make few large operations of the many small ones, and wait once."
    gain = half_the_time(lambda: slow(pieces), lambda: answer(pieces), advice)
    return f"{gain}, for the same number."
