"""The checks of lesson 16's exercises."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from colab_lessons.exercises.judging import Wrong, close, exercise, field, filled, number, shown

_ALL_HEADS, _FEW_HEADS = 4096 * 524_288 / 1e9, 4096 * 131_072 / 1e9  # GB


@exercise(
    "16.caches",
    hint="Per token and layer: keys and values, each with heads × 128 elements of 2 bytes.",
)
def caches(answer: Mapping[str, Any]) -> str:
    """The GB of a cache with 32 heads, and with 8."""
    every, few = (number(field(answer, key)) for key in ("32 heads", "8 heads"))
    if close(every, _ALL_HEADS / 2, 0.001):
        raise Wrong("Half of it: there are keys and values, and each element has 2 bytes.")
    if close(every, _ALL_HEADS / 32, 0.001):
        raise Wrong("That's one layer. There are 32.")
    if close(every, 1e9 * _ALL_HEADS, 0.001):
        raise Wrong("Those are bytes. A GB has 10⁹.")
    if not close(every, _ALL_HEADS, 0.02):
        raise Wrong("Tokens × 2 (keys and values) × layers × heads × 128 × 2 bytes.")
    if not close(few, _FEW_HEADS, 0.02):
        raise Wrong("The cache is proportional to the number of key and value heads.")
    return "2.1 GB against 0.54: four times as many conversations fit."


@exercise(
    "16.compute_bound",
    hint="b users: 2 × weights × b FLOP, 2 × weights + b × cache bytes. When do both take the same time?",
)
def compute_bound(answer: Callable) -> str:
    """From how many users on a decode step is compute-bound; infinity where it never is."""
    filled(answer(8e9, 1e7, 4e13, 2.4e11), "compute_bound_from")
    for case in ((8e9, 1e7, 4e13, 2.4e11), (1e9, 1e6, 1e14, 1e12), (8e9, 0.0, 4e13, 2.4e11)):
        found, right = number(answer(*case)), _crossing(*case)
        if case[1] and close(found, _crossing(case[0], 0.0, *case[2:]), 0.01):
            raise Wrong("That leaves the caches out: each user adds one to the memory traffic.")
        if close(found, right / 2, 0.01) or close(found, 2 * right, 0.01):
            raise Wrong("Off by two: 2 operations per weight and user, and 2 bytes per weight.")
        if not close(found, right, 0.01):
            raise Wrong(f"For {case} it should be {right:.4g}; yours returned {shown(found)}.")
    endless = answer(8e9, 6e8, 4e13, 2.4e11)
    if not isinstance(endless, float | int) or endless != math.inf:
        raise Wrong(
            "With a cache of 600 MB per user on this chip, memory grows faster than arithmetic: "
            'return float("inf").'
        )
    return "Long conversations never turn compute-bound, however many there are."


def _crossing(weights: float, cache: float, speed: float, bandwidth: float) -> float:
    return (2 * weights / bandwidth) / (2 * weights / speed - cache / bandwidth)


@exercise(
    "16.admit",
    hint="What happens to a request that needs more than `room`, and to those behind it?",
)
def admit(answer: Callable) -> str:
    """Whether requests that never fit are refused, and the others admitted in order."""
    filled(answer([10], 100, 100), "admissible")
    cases: tuple[tuple[list, int, int, list, list, str], ...] = (
        ([300, 20, 30], 50, 200, [20, 30], [300], "One that needs more than all the room is refused."),
        ([150, 20], 50, 200, [], [], "A large one that fits later mustn't be overtaken."),
        ([20, 40], 50, 200, [20], [], "What was admitted isn't free any more."),
        ([50], 50, 200, [50], [], "One that fits exactly fits."),
        ([200, 300], 200, 200, [200], [300], "All the room may go to one request."),
    )  # fmt: skip
    for waiting, free, room, admitted, refused, words in cases:
        given = answer(list(waiting), free, room)
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise Wrong("Return two lists: the admitted and the refused.")
        if [[*part] for part in given] != [admitted, refused]:
            raise Wrong(
                f"{words} For admissible({waiting}, {free}, {room}) expected {(admitted, refused)}; "
                f"yours returned {shown(given)}."
            )
    return "Nobody waits for what can't happen, and nobody jumps the queue."
