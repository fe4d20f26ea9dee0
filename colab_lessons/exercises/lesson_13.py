"""The judges of lesson 13: they run kernels in numba's simulator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from colab_lessons import kernels
from colab_lessons.exercises import NotYet, exercise

_RUNS = 6  # a race may be right once


@exercise("13.guard", hint="cuda.grid(2) returns two numbers. Which of them may write?")
def guard(answer: Callable) -> str:
    """Whether each number of a matrix is written once, by neighbors along a row, and nothing outside."""
    x = np.arange(30, dtype=np.float32).reshape(5, 6)
    _, out = kernels.launch(answer, (2, 2), (4, 4), x, np.full((5, 6), -7, np.float32))
    if not out.writes and not out.outside:
        raise NotYet("Nobody has written anything.")
    if out.outside:
        access = out.outside[0]
        raise NotYet(
            f"Thread {access.thread} of block {access.block} writes to {access.cell}, and there are 5 "
            "rows and 6 columns. Guard both numbers."
        )
    written = {access.cell for access in out.writes}
    if len(written) < out.size:
        missing = min(set(np.ndindex(5, 6)) - written)
        raise NotYet(f"Nobody writes to {missing}. Does the guard keep out too many?")
    if len(out.writes) > out.size:
        raise NotYet("Several threads write to the same cell. Let each thread write to one.")
    if not np.array_equal(out.array, x + 1):
        raise NotYet("Each number should be larger by 1.")
    first = [access.cell for access in out.writes if access.block == (0, 0)]
    threads = {access.thread: access.cell for access in out.writes if access.block == (0, 0)}
    if threads.get((1, 0)) != (0, 1):
        raise NotYet("The numbers are right, but neighboring threads write below each other.")
    return f"30 cells, each written once; {len(first)} by the first block."


@exercise("13.copy", hint="Threads of a warp differ in threadIdx. Which index should it be?")
def copy(answer: Callable) -> str:
    """Whether a copy is right, and its warps read and write along rows."""
    x = np.random.default_rng(0).random((32, 32), dtype=np.float32)
    read, out = kernels.launch(answer, 32, 32, x.copy(), np.zeros((32, 32), np.float32))
    if not np.array_equal(out.array, x):
        raise NotYet("It isn't a copy any more. Only change which index is which.")
    sectors = read.sectors / 32
    if sectors > 4:
        raise NotYet(f"Right, but each warp asks for {sectors:.0f} sectors. It reads down a column.")
    return f"{sectors:.0f} sectors for each warp, instead of 32."


@exercise("13.largest", hint="As add_up, with max instead of a sum. Where must all wait?")
def largest(answer: Callable) -> str:
    """Whether 64 threads find the largest number, whoever comes first."""
    random, right = np.random.default_rng(0), 0
    for run in range(_RUNS):
        x = -1 - random.random(64, dtype=np.float32) * (run + 1)  # all below zero
        watched, out = kernels.launch(answer, 1, 64, x, np.full(1, 99, np.float32))
        if not out.writes and not out.outside:
            raise NotYet("Nobody has written anything to out.")
        if out.outside or watched.outside:
            access = (out.outside or watched.outside)[0]
            raise NotYet(f"Thread {access.thread[0]} goes outside an array, to {access.cell[0]}.")
        if len(watched.reads) > 64:
            raise NotYet("Some threads read x again. Once each, then work in shared memory.")
        found = float(out.array[0])
        if found == 0:
            raise NotYet("0 came out, and all numbers were below zero. What did it start from?")
        right += found == float(x.max())
    if not right:
        raise NotYet(f"Wrong in all {_RUNS} runs. Is it max, and does anybody read too early?")
    if right < _RUNS:
        raise NotYet(f"Right in {right} of {_RUNS} runs: a race. Who reads before others have written?")
    return f"Right in {_RUNS} runs, with one read of memory for each thread."


@exercise("13.softmax", hint="The old total was made with the old largest: how much too large is it?")
def softmax(answer: Callable) -> str:
    """Whether a running softmax survives numbers that grow, shrink and are huge."""
    for numbers in ([4.0, 3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0], [5000.0, 5001.0, 5002.0, 5003.0]):
        x = np.array(numbers)
        state = (-np.inf, 0.0)
        for block in (x[:2], x[2:]):
            with np.errstate(all="ignore"):
                state = answer(*state, block)
            if state is ...:
                raise NotYet("update returns the dots. Replace them.")
            if not isinstance(state, tuple) or len(state) != 2:
                raise NotYet("Return two numbers: the largest, and the sum.")
        top, total = float(state[0]), float(state[1])
        _one_pass(top, total, x)
    return "One pass, and numbers of 5,000 don't overflow."


def _one_pass(top: float, total: float, x: np.ndarray) -> None:
    """Complain about what a running softmax found for `x`, which came in two halves."""

    def means(*parts: float) -> bool:
        return abs(total - sum(parts)) <= 1e-9 * sum(parts)

    first, second = x[:2], x[2:]
    if top != x.max():
        raise NotYet(f"The largest of {x.tolist()} came out as {top:g}. Compare old and new.")
    if means(np.exp(x - x.max()).sum()):
        return
    with np.errstate(over="ignore"):
        if not np.isfinite(total) or means(np.exp(x).sum()):
            raise NotYet("exp of a large number overflows. Subtract the new largest first.")
    if means(np.exp(first - first.max()).sum(), np.exp(second - x.max()).sum()):
        raise NotYet("The old sum still refers to the old largest. Multiply it.")
    right = np.exp(x - x.max()).sum()
    raise NotYet(f"The sum for {x.tolist()} should be {right:.3f}, and {total:.3f} came out.")
