"""The judges of lesson 10."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from colab_lessons.exercises import NotYet, close, done, exercise, field, number

#: Calls that a quick sum of columns may make.
_CALLS = 5
#: A step's longest operators are close together: one of so many is right.
_LONGEST = 10


@exercise("10.gap", hint="Sort the spans by start, and keep track of the latest end so far.")
def gap(answer: Callable, /) -> str:
    """The start and length of the longest stretch without a span, found in lists that trip simple answers."""
    for spans, start, end, wanted, why in _GAPS:
        found = done(answer([*spans], start, end), "longest_gap")
        at, length = (number(part) for part in found)
        if not (close(length, wanted[1]) and close(at, wanted[0])):
            raise NotYet(
                f"For {spans} between {start} and {end} it says {at:g} and {length:g}. {why}"
            )
    return "Also where spans overlap, come in no order, or leave the end blank."


_GAPS = (  # spans, start, end, (gap's start, its length), what to think of
    ([(0, 2), (5, 1), (6, 4)], 0, 10, (2, 3), "Nothing runs from 2 to 5."),
    ([(6, 4), (0, 2), (5, 1)], 0, 10, (2, 3), "They come in no order."),
    ([(0, 9), (1, 1), (12, 8)], 0, 20, (9, 3), "One that began earlier may end later."),
    ([(4, 1), (5, 3)], 0, 10, (0, 4), "It may be blank before the first one."),
    ([(0, 3)], 0, 10, (3, 7), "It may be blank after the last one."),
)


@exercise(
    "10.gain", hint="What stays the same? And when two things run at once, which one sets the time?"
)
def gain(answer: Mapping[str, Any]) -> str:
    """Milliseconds of a step whose loading is quicker, or hidden."""
    faster, beside = (number(field(answer, key)) for key in ("four times as fast", "in parallel"))
    if faster == 25:
        raise NotYet("Only the 60 ms of loading get shorter, not the whole step.")
    if not close(faster, 55):
        raise NotYet("40 ms stay as they are, and 60 become a quarter.")
    if beside == 40:
        raise NotYet("The training takes 40 ms, but the next batch takes 60 to come.")
    if not close(beside, 60):
        raise NotYet("Two that run at once take as long as the slower one.")
    return "Hiding it leaves 60 ms, making it quicker 55. Do both, and 40 are left."


@exercise("10.columns", hint="`sum` takes the dimension to sum over.")
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
    done(found, "quick")
    if not isinstance(found, torch.Tensor) or found.shape != (48,):
        raise NotYet("A tensor with one number for each column is wanted.")
    if not torch.allclose(found, sums(matrix), atol=1e-4):
        raise NotYet("The numbers differ from those of sums.")
    if calls.count > _CALLS:
        raise NotYet(f"The numbers are right, but it makes {calls.count} calls. {_CALLS} will do.")
    return f"The same numbers with {calls.count} call{'s' if calls.count > 1 else ''}."


@exercise(
    "10.mine", hint="Call show(profiled(mine)), and take the first name that begins with aten::."
)
def mine(answer: str, events: Callable) -> str:
    """An operator with much self time in the learner's step, which `events` profiles once more."""
    if not isinstance(answer, str):
        raise NotYet("A name is wanted, as text.")
    known = [event for event in events() if event.key.startswith("aten::")]
    known.sort(key=lambda event: -max(event.self_cpu_time_total, event.self_device_time_total))
    names = [event.key for event in known[:_LONGEST]]
    if answer.strip() not in names:
        raise NotYet(f"Here {' and '.join(names[:2])} have the most. Profile it again.")
    total = sum(event.self_cpu_time_total for event in known) or 1
    share = known[names.index(answer.strip())].self_cpu_time_total
    return f"{answer.strip()} takes {share / total:.0%} of the operators' time on the CPU."
