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
    i, j = cuda.blockIdx.x, cuda.threadIdx.x
    out[j, i] = x[i, j]


def largest(x, out):
    i = cuda.threadIdx.x
    shared = cuda.shared.array(64, float32)
    shared[i] = x[i]
    cuda.syncthreads()
    step = 32
    while step > 0:
        if i < step:
            shared[i] = max(shared[i], shared[i + step])
        cuda.syncthreads()
        step //= 2
    if i == 0:
        out[0] = shared[0]


def racing(x, out):
    i = cuda.threadIdx.x
    shared = cuda.shared.array(64, float32)
    shared[i] = x[i]
    cuda.syncthreads()
    step = 32
    while step > 0:
        if i < step:
            shared[i] = max(shared[i], shared[i + step])
        step //= 2
    if i == 0:
        out[0] = shared[0]


def smallest(x, out):
    i = cuda.threadIdx.x
    shared = cuda.shared.array(64, float32)
    shared[i] = x[i]
    cuda.syncthreads()
    if i == 0:
        found = shared[0]
        for k in range(64):
            found = min(found, shared[k])
        out[0] = found


def from_zero(x, out):
    i = cuda.threadIdx.x
    shared = cuda.shared.array(64, float32)
    shared[i] = x[i]
    cuda.syncthreads()
    if i == 0:
        found = 0.0
        for k in range(64):
            found = max(found, shared[k])
        out[0] = found


def from_memory(x, out):
    if cuda.threadIdx.x == 0:
        found = x[0]
        for k in range(64):
            found = max(found, x[k])
        out[0] = found


def beyond(x, out):
    i = cuda.threadIdx.x
    out[i] = x[i]


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
