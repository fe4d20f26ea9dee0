"""The checks of lesson 10's exercises."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from colab_lessons.exercises import Wrong, exercise, field, filled

#: A step's longest operators are close together: one of so many is right.
_LONGEST = 10


@exercise(
    "10.pairs", hint="Put targets and guesses side by side in one tensor, then call tolist()."
)
def pairs(answer: Callable, slow: Callable) -> str:
    """Whether the answer returns what `slow` does, from (rows, length, characters), without `.item()`."""
    import torch
    from torch.profiler import profile

    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(4, 8, 96, generator=generator)
    targets = torch.randint(96, (4, 8), generator=generator)
    with profile() as watched:
        found = filled(answer(logits, targets), "pairs_of")
    if not isinstance(found, list) or [tuple(row) for row in found] != slow(logits, targets):
        raise Wrong(
            "It should return a list with (target, first, second, third guess) per position."
        )
    if read := sum(event.count for event in watched.key_averages() if event.key == "aten::item"):
        raise Wrong(f"It still reads {read} values one by one.")
    logits, targets = (
        logits.repeat(8, 4, 1),
        targets.repeat(8, 4),
    )  # as many as in the lesson's step
    took = [_fastest(pairs_of, logits, targets) for pairs_of in (slow, answer)]
    return f"The same pairs in {1e3 * took[1]:.1f} ms instead of {1e3 * took[0]:.1f}."


def _fastest(work: Callable, *args: Any) -> float:
    """Seconds of the fastest of three calls."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        work(*args)
        times.append(time.perf_counter() - start)
    return min(times)


@exercise("10.waits", hint="If kernels start immediately and the GPU is still idle, who is late?")
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
