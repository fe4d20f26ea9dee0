"""The checks of lesson 10's exercises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from colab_lessons.exercises import Wrong, close, exercise, field, filled, number

#: A step's longest operators are close together: one of so many is right.
_LONGEST = 10


@exercise("10.gap", hint="Sort the spans by start, and keep track of the latest end so far.")
def gap(answer: Callable, /) -> str:
    """The start and length of the longest stretch without a span, found in lists that trip simple answers."""
    for spans, start, end, wanted, why in _GAPS:
        found = filled(answer([*spans], start, end), "longest_gap")
        at, length = (number(part) for part in found)
        if not (close(length, wanted[1]) and close(at, wanted[0])):
            raise Wrong(
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


@exercise("10.waits", hint="Where kernels start at once and the GPU idles, who is late?")
def waits(answer: Mapping[str, Any]) -> str:
    """Which of three programs CUDA graphs help, which a faster GPU, and which nobody can tell."""
    found = {key: str(field(answer, key)).strip().upper() for key in _HELPED}
    for key, why in _HELPED.items():
        if found[key] != why[0]:
            raise Wrong(f"{key}: {why[1]}")
    return "A GPU that waits for launches, one that never waits, and one with a full queue and nothing to do."


_HELPED = {  # the program, and what to think of
    "CUDA graphs": (
        "R",
        "They replay launches without Python. Where is the GPU waiting for those?",
    ),
    "a faster GPU": ("P", "It helps where the GPU is the one that is waited for."),
    "can't say": ("Q", "Look for kernels that were launched long before, on a GPU that idles."),
}


@exercise(
    "10.mine", hint="Call show(profiled(mine)), and take the first name that begins with aten::."
)
def mine(answer: str, events: Callable) -> str:
    """An operator with much self time in the learner's step, which `events` profiles once more."""
    if not isinstance(answer, str):
        raise Wrong("A name is wanted, as text.")
    known = [event for event in events() if event.key.startswith("aten::")]
    known.sort(key=lambda event: -max(event.self_cpu_time_total, event.self_device_time_total))
    names = [event.key for event in known[:_LONGEST]]
    if answer.strip() not in names:
        raise Wrong(f"Here {' and '.join(names[:2])} have the most. Profile it again.")
    total = sum(event.self_cpu_time_total for event in known) or 1
    share = known[names.index(answer.strip())].self_cpu_time_total
    return f"{answer.strip()} takes {share / total:.0%} of the operators' time on the CPU."
