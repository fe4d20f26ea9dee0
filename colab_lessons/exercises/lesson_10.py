"""The checks of lesson 10's exercises."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from colab_helpers import benchmark
from colab_lessons.exercises.judging import Wrong, close, exercise, field, filled, number


@exercise("10.pairs", hint="Which one call turns a whole tensor into a list?")
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
    before, after = (
        benchmark.measure(functools.partial(work, logits, targets), budget=0.1).best
        for work in (slow, answer)
    )
    return f"The same pairs in {1e3 * after:.1f} ms instead of {1e3 * before:.1f}."


@exercise("10.waits", hint="If nothing is pending and the GPU is idle, who is late?")
def waits(answer: Mapping[str, Any]) -> str:
    """Which of three programs CUDA graphs help, which a faster GPU, and which nobody can tell."""
    found = {key: str(field(answer, key)).strip().upper() for key in _HELPED}
    for key, why in _HELPED.items():
        if found[key] != why[0]:
            raise Wrong(f"{key}: {why[1]}")
    return "A GPU that waits for launches, one that never waits, and one with a full queue and nothing to do."


@exercise("10.exposed", hint="How long is the GPU busy with NCCL's kernels, and without them?")
def exposed(answer: Callable) -> str:
    """The microseconds in which only NCCL's kernels run, among three streams that overlap."""
    spans = [  # name, start, duration
        ("gemm", 0, 40), ("ncclKernel_AllReduce", 30, 50), ("ncclKernel_AllReduce", 60, 30),
        ("gemm", 70, 5), ("Memcpy HtoD", 95, 10), ("ncclDevKernel_Send", 200, 20),
    ]  # fmt: skip
    gpu = [{"name": name, "ts": start, "dur": took} for name, start, took in spans]
    found = number(answer(gpu, 0, 210))
    if close(found, 100):
        raise Wrong("Where NCCL overlaps with other work, or with itself, count the time once.")
    if close(found, 65):
        raise Wrong("Count only what lies between start and end.")
    if not close(found, 55):
        raise Wrong(
            "Time in which NCCL runs and nothing else does: 55 µs on the events of this check."
        )
    return "55 µs. The rest of NCCL's time is hidden behind other work."


_HELPED = {  # the program, and what to think of
    "CUDA graphs": (
        "R",
        "They replay launches without Python. Where is the GPU waiting for those?",
    ),
    "a faster GPU": ("P", "It helps where the GPU is the one that is waited for."),
    "can't say": ("Q", "Look for kernels that were launched long before, on a GPU that idles."),
}
