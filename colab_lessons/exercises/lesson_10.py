"""The judges of lesson 10."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from colab_lessons.exercises import NotYet, close, exercise, field, number

#: Calls that a quick sum of columns may make.
_CALLS = 5
#: A step's dearest calls lie close together: one of so many is right.
_DEAREST = 10


@exercise(
    "10.reading",
    hint="Compare the MB that it made with the MB of the result: rows × numbers × bytes.",
)
def reading(answer: Mapping[str, Any]) -> str:
    """The disease in a profile, and the size of the result that was wanted."""
    disease, size = str(field(answer, "disease")).strip().lower(), number(field(answer, "MB"))
    wrong = {
        "rows": "Count the calls: there are few.",
        "optimizer": "There is no optimizer in it.",
        "growing": "Nothing is copied again and again: each call is there once or twice.",
        "data": "It waits for nothing.",
    }
    if disease in wrong:
        raise NotYet(wrong[disease])
    if disease != "pairs":
        raise NotYet("Choose one of the five words.")
    if not abs(size - 0.262) <= 0.02:
        raise NotYet("512 rows of 128 numbers, with 4 bytes each: how many million bytes?")
    return (
        "A table of zeros and ones, 64 times as large as the result. `numbers[wanted]` makes none."
    )


@exercise("10.gain", hint="What stays as it is? And of two that run at once, which one counts?")
def gain(answer: Mapping[str, Any]) -> str:
    """Milliseconds of a step whose loading is quicker, or hidden."""
    faster, beside = (number(field(answer, key)) for key in ("four times faster", "beside it"))
    if faster == 25:
        raise NotYet("Only the 60 ms of loading get shorter, not the whole step.")
    if not close(faster, 55):
        raise NotYet("40 ms stay as they are, and 60 become a quarter.")
    if beside == 40:
        raise NotYet("The training takes 40 ms, but the next batch takes 60 to come.")
    if not close(beside, 60):
        raise NotYet("Two that run at once take as long as the slower one.")
    return "Hiding it leaves 60 ms, making it quicker 55. Do both, and 40 are left."


@exercise("10.columns", hint="A sum has a dimension along which it adds up.")
def columns(answer: Callable, sums: Callable) -> str:
    """Whether the sums of columns are the same, with few calls: they are counted."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Calls(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, call, types, args=(), kwargs=None):
            self.count += 1
            return call(*args, **(kwargs or {}))

    matrix = torch.rand(64, 48, generator=torch.Generator().manual_seed(0))
    with Calls() as calls:
        found = answer(matrix)
    if found is ...:
        raise NotYet("quick returns the dots. Replace them.")
    if not isinstance(found, torch.Tensor) or found.shape != (48,):
        raise NotYet("A tensor with one number for each column is wanted.")
    if not torch.allclose(found, sums(matrix), atol=1e-4):
        raise NotYet("The numbers differ from those of sums.")
    if calls.count > _CALLS:
        raise NotYet(f"The numbers are right, but it makes {calls.count} calls. {_CALLS} will do.")
    return f"The same numbers with {calls.count} call{'s' if calls.count > 1 else ''}."


@exercise("10.mine", hint="Call table(profiled(mine)), and take the name in the first row.")
def mine(answer: str, calls: Callable) -> str:
    """The call with most time of its own in the learner's step: `calls` profiles it once more."""
    if not isinstance(answer, str):
        raise NotYet("A name is wanted, as text.")
    events = calls()
    dearest = sorted(
        events, key=lambda event: -max(event.self_cpu_time_total, event.self_device_time_total)
    )[:_DEAREST]
    names = [event.key for event in dearest]
    if answer.strip() not in names:
        raise NotYet(f"Here {' and '.join(names[:2])} take most time. Profile it again.")
    total = sum(event.self_cpu_time_total for event in events) or 1
    share = dearest[names.index(answer.strip())].self_cpu_time_total
    return f"{answer.strip()} takes {share / total:.0%} of the CPU's time in it."
