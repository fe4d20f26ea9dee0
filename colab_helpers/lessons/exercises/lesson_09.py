"""The judges of lesson 09."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from colab_helpers.lessons.exercises import NotYet, choices, exercise, number

_STEPS = 12


@exercise(
    "09.missing",
    hint="Look at the six pictures again. Which of the pieces decides whether weights change at all?",
)
def missing(answer: Mapping[str, Any]) -> str:
    """The piece that was forgotten, from what it does to a curve."""
    choices(
        answer,
        {"A": "optimizer", "B": "scaler", "C": "position"},
        {
            ("A", "scheduler"): "a schedule that warms up again begins with small steps.",
            ("A", "scaler"): "a scaler only skips steps: nothing jumps.",
            ("B", "scheduler"): "a small learning rate still changes the weights.",
            ("B", "optimizer"): "without its averages it steps at once, and too far.",
            ("C", "random"): "that decides on dropout, not on which pictures come.",
            ("C", "noise"): "that changes pictures, not which ones come.",
        },
    )
    return "Two of them you would see in the curve. The third one only a count finds."


@exercise(
    "09.minutes", hint="Young's formula, with both times in seconds; then turn it into minutes."
)
def minutes(answer: float) -> str:
    """The interval by Young's formula, in minutes."""
    given = number(answer)
    if 19 <= given <= 21:
        return "20 minutes: 3.3 % of the time goes into saving, and as much into doing again."
    if 1190 <= given <= 1210:
        raise NotYet("Those are the seconds: how many minutes?")
    if 14.1 <= given <= 14.2:
        raise NotYet("The 2 below the root is missing.")
    if 2.5 <= given <= 2.7:
        raise NotYet("Five hours in seconds are 18,000: all times in the same unit.")
    raise NotYet("The root of twice the cost times the time between, both in seconds.")


class _Store:
    """Keeps the last number, as a store of checkpoints would."""

    def __init__(self) -> None:
        self.kept: int | None = None

    def save(self, step: int) -> None:
        self.kept = step

    def newest(self) -> int | None:
        return self.kept


class _Died(Exception):
    """The machine is gone."""


def _steps_taken(run: Callable, dies_at: int) -> list[int]:
    """Run until the machine dies after `dies_at` steps were done, then resume; return the steps taken."""
    store = _Store()
    taken: list[int] = []
    died: set[int] = set()

    def take(step: int) -> None:
        if len(taken) == dies_at and dies_at not in died:
            died.add(dies_at)
            raise _Died
        taken.append(step)

    try:
        run(store, take, _STEPS)
    except _Died:
        run(store, take, _STEPS)
    return taken


@exercise(
    "09.off_by_one",
    hint="After step 0 one step is done. Which number says so, and where does range begin with it?",
)
def off_by_one(answer: Callable) -> str:
    """Whether a loop takes each step once, wherever it is interrupted."""
    if answer(_Store(), lambda step: None, _STEPS) is ...:
        raise NotYet("run_mended returns the dots. Replace them.")
    for dies_at in range(_STEPS):
        taken = _steps_taken(answer, dies_at)
        if taken == list(range(_STEPS)):
            continue
        when = f"Interrupted after {dies_at} step{'s' if dies_at != 1 else ''}"
        twice = sorted({step for step in taken if taken.count(step) > 1})
        never = sorted(set(range(_STEPS)) - set(taken))
        if twice:
            raise NotYet(f"{when}, it takes step {twice[0]} twice.")
        if never:
            raise NotYet(f"{when}, it never takes step {never[0]}.")
        raise NotYet(f"{when}, it takes steps that nobody asked for.")
    return f"Interrupted at {_STEPS} places, each step taken exactly once."
