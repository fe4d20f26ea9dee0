"""Answers to the puzzles of lesson 13, right and wrong: kernels for numba's simulator."""

import numpy as np
from numba import cuda, float32


def nothing(x, out):
    return ...


def guarded(x, out):
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[i, j] + 1


def unguarded(x, out):
    j, i = cuda.grid(2)
    out[i, j] = x[i, j] + 1


def half_guarded(x, out):
    j, i = cuda.grid(2)
    if i < out.shape[0]:
        out[i, j] = x[i, j] + 1


def too_guarded(x, out):
    j, i = cuda.grid(2)
    if i < out.shape[0] - 1 and j < out.shape[1]:
        out[i, j] = x[i, j] + 1


def below_each_other(x, out):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[i, j] + 1


def all_of_them(x, out):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = x[i, j] + 1


def doubled(x, out):
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[i, j] * 2


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


def transposed_slowly(x, out):
    j, i = cuda.threadIdx.x, cuda.threadIdx.y
    out[j, i] = x[i, j]


def transposed_from_columns(x, out):
    j, i = cuda.threadIdx.x, cuda.threadIdx.y
    out[i, j] = x[j, i]


def transposed_racing(x, out):
    shared = cuda.shared.array((32, 32), float32)
    j, i = cuda.threadIdx.x, cuda.threadIdx.y
    shared[i, j] = x[i, j]
    out[i, j] = shared[j, i]


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


def without_guard(a, b, c):
    x = cuda.shared.array((8, 8), float32)
    y = cuda.shared.array((8, 8), float32)
    j, i = cuda.grid(2)
    tj, ti = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[0], 8):
        x[ti, tj] = a[i, start + tj]
        y[ti, tj] = b[start + ti, j]
        cuda.syncthreads()
        for k in range(8):
            total += x[ti, k] * y[k, tj]
        cuda.syncthreads()
    c[i, j] = total


def with_holes(a, b, c):
    """Threads without a number of their own don't load, so the tile keeps what was there before."""
    x = cuda.shared.array((8, 8), float32)
    y = cuda.shared.array((8, 8), float32)
    j, i = cuda.grid(2)
    tj, ti = cuda.threadIdx.x, cuda.threadIdx.y
    n, total = a.shape[0], float32(0)
    for start in range(0, n, 8):
        if i < n and start + tj < n:
            x[ti, tj] = a[i, start + tj]
        if j < n and start + ti < n:
            y[ti, tj] = b[start + ti, j]
        cuda.syncthreads()
        for k in range(8):
            total += x[ti, k] * y[k, tj]
        cuda.syncthreads()
    if i < n and j < n:
        c[i, j] = total


def without_barriers(a, b, c):
    x = cuda.shared.array((8, 8), float32)
    y = cuda.shared.array((8, 8), float32)
    j, i = cuda.grid(2)
    tj, ti = cuda.threadIdx.x, cuda.threadIdx.y
    n, total = a.shape[0], float32(0)
    for start in range(0, n, 8):
        x[ti, tj] = a[i, start + tj] if i < n and start + tj < n else float32(0)
        y[ti, tj] = b[start + ti, j] if j < n and start + ti < n else float32(0)
        for k in range(8):
            total += x[ti, k] * y[k, tj]
    if i < n and j < n:
        c[i, j] = total


def from_memory(a, b, c):
    j, i = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total


def waiting_in_a_branch(a, b, c):
    """Threads without a number of their own never wait."""
    x = cuda.shared.array((8, 8), float32)
    y = cuda.shared.array((8, 8), float32)
    j, i = cuda.grid(2)
    tj, ti = cuda.threadIdx.x, cuda.threadIdx.y
    n, total = a.shape[0], float32(0)
    for start in range(0, n, 8):
        x[ti, tj] = a[i, start + tj] if i < n and start + tj < n else float32(0)
        y[ti, tj] = b[start + ti, j] if j < n and start + ti < n else float32(0)
        if i < n and j < n:
            cuda.syncthreads()
            for k in range(8):
                total += x[ti, k] * y[k, tj]
            cuda.syncthreads()
    if i < n and j < n:
        c[i, j] = total


def one_barrier(a, b, c):
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
    if i < n and j < n:
        c[i, j] = total


def read_first(x, out):
    j, i = cuda.grid(2)
    found = x[i, j]
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = found + 1


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
