"""The checks of lesson 09's exercises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from colab_lessons.exercises.judging import Wrong, choices, exercise, filled, number


@exercise(
    "09.missing",
    hint="One jumps, one stands still at first, one hardly moves. What decides on each?",
)
def missing(answer: Mapping[str, Any]) -> str:
    """The piece that was forgotten, from what it does to a loss."""
    choices(
        answer,
        {"A": "optimizer", "B": "scaler", "C": "scheduler"},
        {
            ("A", "scheduler"): "a schedule that warms up again begins with small steps.",
            ("A", "scaler"): "a scaler only skips steps: nothing jumps.",
            ("B", "scheduler"): "a small learning rate still changes the weights, a little.",
            ("B", "optimizer"): "without its averages it steps at once, and too far.",
            ("C", "scaler"): "then the first few losses would stay at the value it resumed with.",
            ("C", "position"): "other pictures at the full learning rate would move it more.",
            ("C", "random"): "that decides on dropout: it would look like luck.",
            ("C", "noise"): "that changes the pictures: it would look like luck.",
        },
    )
    return "These three you can see. The other three hide inside luck."


@exercise(
    "09.interval",
    hint="Young's formula, with both times in seconds. And how long does a copy take?",
)
def interval(answer: float) -> str:
    """The interval by Young's formula, or the time of a copy where that is longer, in seconds."""
    given = number(answer)
    if 719 <= given <= 780:
        return "Young says 9 minutes, but a file that has not arrived must not be overwritten."
    if 530 <= given <= 540:
        raise Wrong("So says Young. But the copy before it is still on its way then.")
    if 378 <= given <= 381:
        raise Wrong("The 2 below the root is missing, and a copy takes longer than that.")
    if 8.9 <= given <= 12:
        raise Wrong("Those are minutes, or hours are below the root. Seconds are wanted.")
    raise Wrong("The root of twice the cost times the time between, in seconds; and a copy?")


def _put_back(run: Any, state: Mapping[str, Any]) -> None:
    """Give a fresh run the state, as a checkpoint does."""
    for name, kept in state.items():
        part: Any = getattr(run, name, None)
        if hasattr(part, "load_state_dict"):
            part.load_state_dict(kept)
        elif hasattr(part, "set_state"):
            part.set_state(kept)
        else:
            setattr(run, name, kept)


def _found(run: Any) -> dict[str, Any]:
    """Everything that a step changes, as plain numbers."""
    return {
        "model": [p.tolist() for p in run.model.parameters()],
        "average": [p.tolist() for p in run.average.parameters()],
        "optimizer": str(run.optimizer.state_dict()["state"]),
        "generator": run.generator.get_state().tolist(),
        "best": run.best,
    }


def _fresh(run_class: Callable, seed: int) -> Any:
    import torch

    torch.manual_seed(seed)
    return run_class()


@exercise(
    "09.keep", hint="What does `step` change? Five attributes. And does `state_dict` return copies?"
)
def keep(answer: Callable, run_class: Callable) -> str:
    """Whether a state holds all that a run changes, and is a copy: kept, put back and compared."""
    run = _fresh(run_class, 0)
    for _ in range(5):
        run.step()
    state, wanted = answer(run), _found(run)
    filled(state, "keep")
    if not isinstance(state, Mapping):
        raise Wrong("A dict is wanted: the name of each attribute, and its state.")
    for _ in range(5):
        run.step()
    resumed = _fresh(run_class, 1)
    _put_back(resumed, state)
    found = _found(resumed)
    missing = [name for name in wanted if name not in state]
    if missing:
        raise Wrong(f"{len(missing)} of five attributes would begin anew. One is {missing[0]}.")
    changed = [name for name in wanted if found[name] != wanted[name]]
    if changed:
        raise Wrong(
            f"The state of {changed[0]} is not that of the moment when it was kept: it went on with the run. "
            "Keep a copy."
        )
    for _ in range(5):
        resumed.step()
    if _found(resumed) != _found(run):
        raise Wrong("It resumes, and then goes another way than the uninterrupted run.")
    return "Kept, put back, and the same to the last bit five steps later."
