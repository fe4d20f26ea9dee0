"""Answers to the puzzles of lesson 13, right and wrong: kernels for numba's simulator.

Most wrong ones are the right one with a few words changed, so what is wrong with them can be read.
"""

import inspect

import numpy as np
from numba import cuda, float32


def changed(kernel, *swaps):
    """Return `kernel` with parts of its text replaced: pairs of what stands there and what shall."""
    source = inspect.getsource(kernel)
    for old, new in swaps:
        assert old in source, old
        source = source.replace(old, new)
    names = dict(globals())
    exec(source, names)
    return names[kernel.__name__]


def nothing(x, out):
    return ...


def guarded(x, out):
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[i, j] + 1


unguarded = changed(
    guarded, ("    if i < out.shape[0] and j < out.shape[1]:\n        out", "    out")
)
half_guarded = changed(guarded, (" and j < out.shape[1]", ""))
too_guarded = changed(guarded, ("out.shape[0] and", "out.shape[0] - 1 and"))
below_each_other = changed(guarded, ("j, i = cuda", "i, j = cuda"))
doubled = changed(guarded, ("x[i, j] + 1", "x[i, j] * 2"))
read_first = changed(
    guarded, ("    if i", "    found = x[i, j]\n    if i"), ("= x[i, j] + 1", "= found + 1")
)


def all_of_them(x, out):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = x[i, j] + 1


def along_rows(x, out):
    i, j = cuda.blockIdx.x, cuda.threadIdx.x
    out[i, j] = x[i, j]


def down_columns(x, out):
    i, j = cuda.threadIdx.x, cuda.blockIdx.x
    out[i, j] = x[i, j]


def transposed(x, out):
    shared = cuda.shared.array((32, 32), float32)
    j, i = cuda.threadIdx.x, cuda.threadIdx.y
    shared[i, j] = x[i, j]
    cuda.syncthreads()
    out[i, j] = shared[j, i]


transposed_racing = changed(transposed, ("    cuda.syncthreads()\n", ""))


def transposed_slowly(x, out):
    j, i = cuda.threadIdx.x, cuda.threadIdx.y
    out[j, i] = x[i, j]


def transposed_from_columns(x, out):
    j, i = cuda.threadIdx.x, cuda.threadIdx.y
    out[i, j] = x[j, i]


def copied(x, out):
    j, i = cuda.threadIdx.x, cuda.threadIdx.y
    out[i, j] = x[i, j]


def transposed_beyond(x, out):
    j, i = cuda.threadIdx.x, cuda.threadIdx.y
    out[i + 1, j] = x[i, j]


def tiled(a, b, c):
    x = cuda.shared.array((8, 8), float32)
    y = cuda.shared.array((8, 8), float32)
    j, i = cuda.grid(2)
    tj, ti = cuda.threadIdx.x, cuda.threadIdx.y
    n, total = a.shape[0], float32(0)
    for start in range(0, n, 8):
        x[ti, tj] = a[i, start + tj] if i < n and start + tj < n else float32(0)
        y[ti, tj] = b[start + ti, j] if j < n and start + ti < n else float32(0)
        cuda.syncthreads()
        for k in range(8):
            total += x[ti, k] * y[k, tj]
        cuda.syncthreads()
    if i < n and j < n:
        c[i, j] = total


_BARRIER = "        cuda.syncthreads()\n"
_LAST = "            total += x[ti, k] * y[k, tj]\n"
_INSIDE_A, _INSIDE_B = "i < n and start + tj < n", "j < n and start + ti < n"
without_guard = changed(
    tiled,
    (f" if {_INSIDE_A} else float32(0)", ""),
    (f" if {_INSIDE_B} else float32(0)", ""),
    ("    if i < n and j < n:\n        c", "    c"),
)
with_holes = changed(  # who has no number of its own doesn't load, and what was there before stays
    tiled,
    (
        f"x[ti, tj] = a[i, start + tj] if {_INSIDE_A} else float32(0)",
        f"if {_INSIDE_A}:\n            x[ti, tj] = a[i, start + tj]",
    ),
    (
        f"y[ti, tj] = b[start + ti, j] if {_INSIDE_B} else float32(0)",
        f"if {_INSIDE_B}:\n            y[ti, tj] = b[start + ti, j]",
    ),
)
without_barriers = changed(tiled, (_BARRIER, ""))
one_barrier = changed(tiled, (_LAST + _BARRIER, _LAST))
waiting_in_a_branch = changed(tiled, (_BARRIER, f"        if i < n and j < n:\n    {_BARRIER}"))


def from_memory(a, b, c):
    j, i = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total


def one_writes_all(x, out):
    j, i = cuda.grid(2)
    if i == 0 and j == 0:
        for k in range(30):
            out[k // 6, k % 6] = x[k // 6, k % 6] + 1


def inverse(largest, total, block):
    new = max(largest, block.max())
    factor = np.exp(new - largest) if np.isfinite(largest) else 1.0
    return new, total * factor + np.exp(block - new).sum()


def exp_above_zero(largest, total, block):
    new = max(largest, block.max())
    if not np.isfinite(largest):
        return new, np.exp(block - new).sum()
    return new, (total + np.exp(block - largest).sum()) * np.exp(largest - new)


def one_pass(largest, total, block):
    new = max(largest, block.max())
    return new, total * np.exp(largest - new) + np.exp(block - new).sum()


def uncorrected(largest, total, block):
    new = max(largest, block.max())
    return new, total + np.exp(block - new).sum()


def overflowing(largest, total, block):
    return max(largest, block.max()), total + np.exp(block).sum()


def last_block(largest, total, block):
    return block.max(), np.exp(block - block.max()).sum()


def forgetting(largest, total, block):
    new = max(largest, block.max())
    return new, np.exp(block - new).sum()
