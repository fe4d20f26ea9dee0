"""The judges of lesson 13: they run kernels in numba's simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from colab_lessons import cuda_simulator
from colab_lessons.exercises.judging import Wrong, exercise, filled

_RUNS = 3  # a race may be right once
_SIZE = 20  # not a multiple of the tile of 8
_READS = 1600  # of a matrix; without tiles there are 8,000


@exercise("13.guard", hint="cuda.grid(2) returns two numbers. Which of them may write?")
def guard(answer: Callable) -> str:
    """Whether each number of a matrix is written once, by neighbors along a row, and nothing outside."""
    x = np.arange(30, dtype=np.float32).reshape(5, 6)
    read, out = _launched(answer, (2, 2), (4, 4), x, np.full((5, 6), -7, np.float32))
    if not out.writes and not out.outside:
        raise Wrong("Nobody has written anything.")
    for verb, watched in {"writes to": out, "reads": read}.items():
        if watched.outside:
            access = watched.outside[0]
            raise Wrong(
                f"Thread {access.thread} of block {access.block} {verb} {access.cell}, and there are 5 "
                "rows and 6 columns. Guard both numbers, before anything else."
            )
    written = {access.cell for access in out.writes}
    if len(written) < out.size:
        missing = min(set(np.ndindex(5, 6)) - written)
        raise Wrong(f"Nobody writes to {missing}. Does the guard keep out too many?")
    if len({(access.block, access.thread) for access in out.writes}) < len(out.writes):
        raise Wrong("Some threads write to several cells. Let each thread write to one.")
    if len(out.writes) > out.size:
        raise Wrong("Several threads write to the same cell. Let each thread write to one.")
    if not np.array_equal(out.array, x + 1):
        raise Wrong("Each number should be larger by 1.")
    threads = {access.thread: access.cell for access in out.writes if access.block == (0, 0)}
    if threads.get((1, 0)) != (0, 1):
        raise Wrong(
            "The numbers are right, but neighboring threads write down a column: not coalesced."
        )
    return "30 cells, each written once, and nothing outside."


@exercise(
    "13.transpose", hint="Leave the rows in shared memory, wait, and take a column from there."
)
def transpose(answer: Callable) -> str:
    """Whether a matrix is turned round, and warps read and write along rows."""
    random, right = np.random.default_rng(0), 0
    for _ in range(_RUNS):
        x = random.random((32, 32), dtype=np.float32)
        read, out = _launched(answer, 1, (32, 32), x.copy(), np.zeros((32, 32), np.float32))
        if not out.writes and not out.outside:
            raise Wrong("Nobody has written anything.")
        if read.outside or out.outside:
            access = (read.outside or out.outside)[0]
            raise Wrong(f"Thread {access.thread} goes to {access.cell}, outside of the matrix.")
        if np.array_equal(out.array, x):
            raise Wrong("That's a copy. out[i, j] should be x[j, i].")
        for verb, sectors in {"reads": read.sectors, "writes": out.sectors_of(out.writes)}.items():
            if sectors > 4 * 32:
                raise Wrong(f"A warp {verb} {sectors / 32:.0f} sectors on average. Rows take 4.")
        right += np.array_equal(out.array, x.T)
    if right == _RUNS:
        return f"Right in {_RUNS} runs, with 4 sectors for each warp, in and out."
    raise Wrong(
        f"Right in {right} of {_RUNS} runs. Does anybody read before others have written, or is an index "
        "the wrong way round?"
    )


@exercise(
    "13.tiles", hint="What lies outside counts as 0. Only the last write needs i and j inside."
)
def tiles(answer: Callable) -> str:
    """Whether a tiled product is right for a size that isn't a multiple of the tile."""
    random, right = np.random.default_rng(0), 0
    for _ in range(_RUNS):
        x, y = random.random((2, _SIZE, _SIZE), dtype=np.float32)
        empty = np.full((_SIZE, _SIZE), -7, np.float32)
        a, b, c = _launched(answer, (3, 3), (8, 8), x, y, empty)
        if not c.writes and not c.outside:
            raise Wrong("Nobody has written anything to c.")
        for name, watched in {"a": a, "b": b, "c": c}.items():
            if watched.outside:
                access = watched.outside[0]
                raise Wrong(f"Thread {access.thread} of block {access.block} goes outside {name}.")
        most = max(len(a.reads), len(b.reads))
        if most > _READS:
            raise Wrong(f"Right or wrong, it reads a matrix {most:,} times. Tiles need 1,200.")
        right += np.allclose(c.array, x @ y, atol=1e-4)
    if right == _RUNS:
        return f"Right in {_RUNS} runs, and each number is read once for each block."
    if right:
        raise Wrong(f"Right in {right} of {_RUNS} runs: a race. Do all threads wait twice?")
    raise Wrong(
        "The numbers are wrong. Do all threads fill their place in the tile, with 0 if need be, and do "
        "all wait twice?"
    )


def _launched(kernel: Callable, blocks: Any, threads: Any, *arrays: np.ndarray) -> Any:
    try:
        return cuda_simulator.launch(kernel, blocks, threads, *arrays)
    except cuda_simulator.BarrierError as reason:
        raise Wrong(str(reason)) from None


@exercise(
    "13.softmax", hint="The old total was made with the old largest: how much too large is it?"
)
def softmax(answer: Callable) -> str:
    """Whether a running softmax survives numbers that grow, shrink and are huge."""
    for numbers in ([4, 3, 2, 1], [1, 2, 3, 4], [0, 1, 5000, 5001], [5000, 5001, 5002, 5003]):
        x = np.array(numbers, dtype=float)
        state: Any = (-np.inf, 0.0)
        for block in (x[:2], x[2:]):
            with np.errstate(all="ignore"):
                state = answer(*state, block.copy())
            filled(state, "update")
            if not hasattr(state, "__len__") or len(state) != 2:
                raise Wrong("Return two numbers: the largest, and the sum.")
        _one_pass(float(state[0]), float(state[1]), x)
    return "One pass, and numbers of 5,000 don't overflow."


def _one_pass(top: float, total: float, x: np.ndarray) -> None:
    """Complain about what a running softmax found for `x`, which came in two halves."""

    def means(*parts: float) -> bool:
        return abs(total - sum(parts)) <= 1e-5 * sum(parts)

    first, second = x[:2], x[2:]
    if top != x.max():
        raise Wrong(f"The largest of {x.tolist()} came out as {top:g}. Compare old and new.")
    right, old, new = np.exp(x - top).sum(), np.exp(first - first.max()).sum(), np.exp(second - top)
    if means(right):
        return
    with np.errstate(over="ignore"):
        if means(old * np.exp(top - first.max()), new.sum()):
            raise Wrong("The old sum became larger. It should shrink: exp(old - new).")
        if not np.isfinite(total) or means(np.exp(x).sum()):
            raise Wrong("exp of a large number overflows. Subtract the new largest first.")
    if means(old, new.sum()):
        raise Wrong("The old sum still refers to the old largest. Multiply it.")
    raise Wrong(f"The sum for {x.tolist()} should be {right:.3f}, and {total:.3f} came out.")
