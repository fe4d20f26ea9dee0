# %%
# @title Imports { display-mode: "form" }
import logging
import os
import re

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # kernels run in numba's simulator; it's read once, before numba is imported
logging.disable(logging.WARNING)  # what libraries say while they load

import numpy as np
import torch
from torch.nn import functional as F

from colab_helpers import benchmark, chip_throughput, hardware, memory, published_results

from colab_lessons import browser_gpu_report, cuda_simulator, exercises, figures, measurements, recorded_outputs, scoreboard

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
TILE = None
SIZE = None
TOKENS = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
TILE = TILE or (8 if FAST else 32)  # threads along each side of a block
SIZE = SIZE or (16 if FAST else 64)  # of matrices that the simulator multiplies
TOKENS = TOKENS or (256 if FAST else 2048)  # that attend to each other

# %%
# @title Look where we are { display-mode: "form" }
recorded_outputs.watch("13_write_a_kernel")  # cells that need what is missing show recorded results
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
gpu = device.type == "cuda"
compiles = gpu and torch.backends.cuda.is_built()
cuda_simulator.find_triton(interpret=not compiles)  # without a GPU, Triton's kernels run in its interpreter, on the CPU
place = device if compiles else torch.device("cpu")

# %% [markdown] tags=["minutes-5"]
# ## One function, many threads
#
# A *kernel* is a function that a GPU runs thousands of times at once. Each run is a *thread*, and threads come in *blocks* of a size that you
# choose. All get the same arguments. The only thing that differs is a number, which `cuda.grid(1)` returns, and each thread takes the element with
# its number.
#
# To begin with, double ten numbers in blocks of four. `cuda.jit` makes a kernel of the function, and square brackets say how many blocks and
# threads start. It runs in numba's simulator, which needs no GPU. `cuda_simulator.watch` wraps the arrays, so that they note who reads and writes what.

# %%
# needs: numba
from numba import cuda, float32


@cuda.jit
def double(x, out):
    i = cuda.grid(1)  # the number of the block × threads in a block + the number within the block
    out[i] = 2 * x[i]


# %%
# needs: numba
x, out = cuda_simulator.watch(np.arange(10, dtype=np.float32), np.zeros(10, np.float32))
double[3, 4](x, out)  # 3 blocks of 4 threads
print(out.array)
for access in out.outside:
    print(f"outside: thread {access.thread[0]} of block {access.block[0]} wrote to cell {access.cell[0]}")

# %%
# @title Draw who wrote what { display-mode: "form" }
# needs: numba
figures.writers(out, title="Ten cells, twelve threads: two write past the end")

# %% [markdown]
# Each color is a block, and the number is the thread in it. Three blocks of four are twelve threads, and the array has ten cells. The red ones
# write past its end. The cell catches and lists them, where numba's simulator alone would stop with an `IndexError`. A GPU does neither: it
# overwrites whatever lies there, or ends the program some time later with `illegal memory access`. So nearly every kernel begins with a guard.

# %%
# needs: numba
@cuda.jit
def double(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]


# %%
# needs: numba
x, out = cuda_simulator.watch(np.arange(10, dtype=np.float32), np.zeros(10, np.float32))
double[3, 4](x, out)
print(len(out.outside), "writes outside")

# %% [markdown] tags=["minutes-5"]
# ## Neighbors read neighbors
#
# Threads don't run alone. 32 of them form a *warp*, and they normally carry out each instruction together. When they read, memory answers in pieces
# of 32 bytes, called *sectors*. That's eight numbers of 4 bytes.
#
# Here a warp reads one row of a 32 × 32 matrix, and then one column.
#
# **Predict.** A row of 32 numbers takes four sectors. How many does a column take?

# %%
sectors_for_a_column = None  # @param {type:"integer"}

# %%
# needs: numba
@cuda.jit
def read_a_row(a, out):
    k = cuda.threadIdx.x
    out[k] = a[5, k]


@cuda.jit
def read_a_column(a, out):
    k = cuda.threadIdx.x
    out[k] = a[k, 5]


# %%
# needs: numba
row, column, out = cuda_simulator.watch(np.zeros((32, 32), np.float32), np.zeros((32, 32), np.float32), np.zeros(32, np.float32))
read_a_row[1, 32](row, out)
read_a_column[1, 32](column, out)
needed = {}
for name, a in {"a row": row, "a column": column}.items():
    addresses = [4 * (32 * i + j) for i, j in (access.cell for access in a.reads)]  # in bytes: the rows lie one after the other
    needed[name] = len({address // 32 for address in addresses})
    print(f"{name}: {len(addresses)} numbers, {needed[name]} sectors, {32 * needed[name]:,} bytes")

# %%
# @title Draw what came along { display-mode: "form" }
# needs: numba
guess = f" (you said {sectors_for_a_column})" if sectors_for_a_column else ""
figures.sectors({"a row": row, "a column": column}, title=f"32 numbers each, but the column takes {needed['a column']} sectors{guess}")

# %% [markdown]
# The dark numbers were wanted, the light ones came along. Both warps got 32 numbers, and the column moved eight times as many bytes for them. A GPU
# that waits for memory then takes up to eight times as long, if nobody uses the light numbers while a cache still holds them. Which thread reads
# which number is your choice, and often it costs nothing to choose well. Neighboring threads should read neighboring numbers. The field calls that
# *coalesced*.
#
# How much is it on a real chip? [This page](https://colab-accelerator-course.github.io/colab-accelerator-course/gpu.html) reads a matrix both ways on your own computer's GPU. Paste the line it gives you
# below. We ran its kernels on an H100.

# %%
# @title Your own GPU, if you like { display-mode: "form" }
mine = ""  # @param {type:"string"}
browser = browser_gpu_report.read(mine)

# %%
# @title Draw both ways { display-mode: "form" }
h100 = scoreboard.job_record("nvidia-h100")["webgpu"]
both = {"an H100, recorded": (h100["rows"], h100["columns"])} | ({"your GPU, measured": (browser.rows, browser.columns)} if browser else {})
longer = [f"{rows / columns:.1f}× as long on {chip.partition(',')[0]}" for chip, (rows, columns) in both.items()]
figures.dot_plot(
    {f"{chip}: along {way}": speed for chip, speeds in both.items() for way, speed in zip(("a row", "a column"), speeds)}, unit="B/s",
    xlabel="numbers read, in bytes per second", title=f"Reading along a column takes {', '.join(longer)}",
)

# %% [markdown]
# On the H100 it isn't eight times. The likely reason: while one warp has its column, others want the columns beside it, and find them in a cache.

# %% [markdown] tags=["minutes-9"]
# ## Wait for each other
#
# How do 256 threads add up 256 numbers? In pairs. 128 threads add one number each to their own, then 64 do, then 32, and after eight steps the sum
# is there. For this they need a place where all can read and write: *shared memory*, a small and fast store that each block has for itself. And
# they have to wait, since no thread may read a number before another one has written it. `cuda.syncthreads()` is that barrier.

# %%
# needs: numba
@cuda.jit
def add_up(x, out):
    i = cuda.threadIdx.x
    shared = cuda.shared.array(256, float32)
    shared[i] = x[i]
    cuda.syncthreads()
    step = 128
    while step > 0:
        if i < step:
            shared[i] += shared[i + step]
        cuda.syncthreads()  # all sums of this step, before anybody starts the next
        step //= 2
    if i == 0:
        out[0] = shared[0]


# %%
# needs: numba
numbers, out = np.arange(256, dtype=np.float32), np.zeros(1, np.float32)
add_up[1, 256](numbers, out)
print(f"{out[0]:,.0f}, and NumPy says {numbers.sum():,.0f}")

# %% [markdown]
# **Predict.** Now leave out the second barrier, and run it five times. What comes out?

# %%
without_barrier = None  # @param ["the right sum", "the same wrong sum each time", "wrong sums that differ"]

# %%
# needs: numba
@cuda.jit
def add_up_racing(x, out):
    i = cuda.threadIdx.x
    shared = cuda.shared.array(256, float32)
    shared[i] = x[i]
    cuda.syncthreads()
    step = 128
    while step > 0:
        if i < step:
            shared[i] += shared[i + step]
        step //= 2
    if i == 0:
        out[0] = shared[0]


# %%
# needs: numba
raced = []
for _ in range(5):
    add_up_racing[1, 256](numbers, out)
    raced.append(float(out[0]))
outcome = "the right sum" if set(raced) == {numbers.sum()} else "the same wrong sum each time" if len(set(raced)) == 1 else "wrong sums that differ"
print(*(f"{one:,.0f}" for one in raced), sep="   ")
print(f"{outcome}{f' (you said {without_barrier})' if without_barrier else ''}")

# %% [markdown]
# Some threads were already in the next step while others hadn't finished this one. Which thread gets there first varies from run to run, so the
# result does too, and nothing raises an error. That's a *race*.
#
# The simulator mixes threads more than a GPU does. There the 32 threads of a warp mostly keep together, though nothing guarantees it, and warps
# overtake each other. The kernel may be right many times before it's wrong, which is worse, because then it passes your tests. `compute-sanitizer
# --tool racecheck` finds it.

# %% [markdown] tags=["minutes-12", "short-9"]
# ## A product in tiles
#
# A real kernel follows. Each thread computes one element of `a @ b`, from a row of `a` and a column of `b`. The first two versions differ in one
# line: which of the thread's two indices selects the row. The sizes are multiples of the block, so there's no guard.

# %%
# needs: numba
@cuda.jit
def across(a, b, c):
    i, j = cuda.grid(2)  # the first number differs between neighbors: here the row
    total = float32(0)
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    c[i, j] = total


@cuda.jit
def along(a, b, c):
    j, i = cuda.grid(2)  # here the column
    total = float32(0)
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    c[i, j] = total


# %% [markdown]
# Both read each number many times: all threads of a row want the same row of `a`. The third version reads it once for the block. All threads
# together load a *tile* of each matrix into shared memory, one number each. They wait, and multiply from there. Then come the next two tiles.

# %%
# needs: numba
@cuda.jit
def tiled(a, b, c):
    x = cuda.shared.array((TILE, TILE), float32)
    y = cuda.shared.array((TILE, TILE), float32)
    j, i = cuda.grid(2)
    tj, ti = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], TILE):
        x[ti, tj] = a[i, start + tj]  # this thread's share of the tiles
        y[ti, tj] = b[start + ti, j]
        cuda.syncthreads()  # the tiles are complete
        for k in range(TILE):
            total += x[ti, k] * y[k, tj]
        cuda.syncthreads()  # nobody needs them any more
    c[i, j] = total


# %%
# needs: numba
def run(kernel, n):
    a, b = np.random.default_rng(0).random((2, n, n), dtype=np.float32)
    a, b, c = cuda_simulator.watch(a, b, np.zeros((n, n), np.float32))
    kernel[(n // TILE, n // TILE), (TILE, TILE)](a, b, c)
    assert np.allclose(c.array, a.array @ b.array, atol=1e-3)
    return a, b


asked = {name: run(kernel, SIZE) for name, kernel in {"across": across, "along": along, "tiled": tiled}.items()}

# %%
# @title Draw the first read of a warp { display-mode: "form" }
# needs: numba
figures.sectors({f"{name}, {matrix}": array for name in ("across", "along") for matrix, array in zip("ab", asked[name])}, title="A warp's first read: the corner of a, and of b")

# %% [markdown]
# With 32 × 32 threads in a block, a warp is one row of them. In `across` neighboring threads take neighboring rows: 32 sectors of `a`, but only one
# of `b`, which all share. `along` needs one sector of `a` and four of `b`. Both need that in *each* step of their loop. `tiled` needs four and
# four, but only once for 32 steps.
#
# **Predict.** How many times fewer bytes does `tiled` ask for than `across`?

# %%
fewer_bytes = None  # @param {type:"number"}

# %%
# needs: numba
moved = {name: cuda_simulator.traffic(pair) for name, pair in asked.items()}
per_step = {name: count / SIZE**3 for name, count in moved.items()}  # bytes for each of n³ multiplications
fewer = per_step["across"] / per_step["tiled"]
for name, count in moved.items():
    print(f"{name:>7}: {count:,} bytes read, that's {per_step[name]:g} for each multiplication")
guess = f" (you said {fewer_bytes:g})" if fewer_bytes else ""
print(f"tiles: {fewer:.0f} times fewer{guess}")

# %% [markdown]
# Swapping two letters is a factor of nearly seven, and tiles ask global memory for about twenty times less again (what they read from shared memory
# isn't counted). The multiplications are the same. [Simon Boehm timed these three](https://siboehm.com/articles/22/CUDA-MMM) in CUDA, with the same
# 32 × 32 threads, on an A6000.

# %%
# @title What others measured { display-mode: "form" }
boehm = published_results.get("sgemm-a6000")
names = ("across", "along", "tiled", "NVIDIA's library")
figures.bars(dict(zip(names, boehm.y)), unit="FLOP/s", title="4,092 × 4,092 on an A6000, measured by Simon Boehm, 2022")

# %%
# needs: numba
for name, speed in zip(("across", "along", "tiled"), boehm.y):
    seconds = 2 * 4092**3 / speed
    print(f"{name:>7}: {1e3 * seconds:3.0f} ms, and asks for {per_step[name] * 4092**3 / seconds / 1e12:.1f} TB in a second")

# %% [markdown]
# From `across` to `along` we count 6.6 times fewer bytes, and he measured 6.4 times the speed. Two explanations fit. In the first, both are fed by
# caches at the 5 TB/s of the last lines (an A6000's memory delivers 0.77 by its data sheet), and that was the limit. In the second, it's the
# lookups: one load of `across` touches 32 cache lines and one of `along` only a few, and a cache can look up only so many at a time. A profiler's
# counters on that card could tell them apart.
#
# From `along` to `tiled` we count twenty times fewer, and he measured 1.5 times the speed. So requests aren't the limit of `tiled`. Each
# multiplication still reads two numbers from shared memory. The library is eight times faster than that. Its threads compute many numbers of the
# result each, and keep what they need in registers. It's the same idea once more: fetch a number once, and use it often.

# %%
# @title On your GPU: the same three kernels, compiled and timed { display-mode: "form" }
if gpu and "cuda" in globals():
    try:
        for name, duration in cuda_simulator.time_on_gpu([across, along, tiled], size=4096, tile=32).items():
            print(f"{name:>7}: {2e-9 * 4096**3 / duration:,.0f} GFLOP/s on your GPU")
    except RuntimeError as error:
        print(f"numba couldn't compile for this GPU: {error}")
    one = torch.rand(4096, 4096, device=device)
    print(f"PyTorch: {2e-9 * 4096**3 / benchmark.measure(lambda: one @ one).best:,.0f} GFLOP/s")
else:
    print("There's no GPU here, so there's nothing to time: the simulator's seconds say nothing about a GPU.")

# %% [markdown] tags=["minutes-12", "short-10"]
# ## The same in Triton
#
# A compiler can place the barriers, fill shared memory, and decide which thread reads what. In Triton you write what a *block* does, with whole
# tiles as values. `tl.program_id` says which tile of the result is yours. `tl.arange(0, tile)` is 0, 1, 2 and so on, all at once. `[:, None]` makes
# a column of it and `[None, :]` a row, and a pointer plus both is a whole tile of addresses. What has to be known when it's compiled is a
# `tl.constexpr`.

# %%
# needs: triton
import triton
import triton.language as tl


@triton.jit
def multiply(a, b, c, n: tl.constexpr, tile: tl.constexpr):
    rows = tl.program_id(0) * tile + tl.arange(0, tile)
    columns = tl.program_id(1) * tile + tl.arange(0, tile)
    total = tl.full((tile, tile), 0.0, tl.float32)
    for start in range(0, n, tile):
        k = start + tl.arange(0, tile)
        x = tl.load(a + rows[:, None] * n + k[None, :])  # a tile: (tile, tile)
        y = tl.load(b + k[:, None] * n + columns[None, :])
        total = tl.dot(x, y, total, input_precision="ieee")  # exact float32; an A100 would take TF32 otherwise
    tl.store(c + rows[:, None] * n + columns[None, :], total)


# %%
# needs: triton
a, b = torch.rand(2, 128, 128, device=place)
c = torch.empty(128, 128, device=place)
multiply[(4, 4)](a, b, c, n=128, tile=32)  # 4 × 4 blocks
print(f"largest difference to PyTorch: {(c - a @ b).abs().max().item():.0e}")

# %% [markdown]
# No thread appears in it. Who loads which number, and when to wait, is the compiler's choice. So what does it choose? You can look, for any NVIDIA
# chip, because a compiler needs no GPU. It writes *PTX*, NVIDIA's portable assembly. A T4 is `sm_75`, an A100 `sm_80`. Both have tensor cores,
# which multiply small matrices with one instruction, `mma`. Without them, it's `fma`: one multiplication and one addition.
#
# **Predict.** For which of them does Triton use the tensor cores, if the numbers are fp16?

# %%
tensor_cores = None  # @param ["both", "only the A100", "only the T4", "neither"]

# %%
# needs: triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction


def ptx(capability):
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "n": "constexpr", "tile": "constexpr"}
    source = ASTSource(JITFunction(multiply.fn), types, {"n": 128, "tile": 32})
    return triton.compile(source, target=GPUTarget("cuda", capability, 32)).asm["ptx"]  # 32 threads in a warp


# %%
# needs: triton
found = {}
for chip, capability in {"T4": 75, "A100": 80}.items():
    lines = [line.strip() for line in ptx(capability).splitlines()]
    found[chip] = {word: [line for line in lines if line.startswith(word)] for word in ("mma.sync", "fma.rn.f32")}
    print(f"{chip}: {len(found[chip]['mma.sync'])} mma, {len(found[chip]['fma.rn.f32'])} fma in the loop, for example")
    print("   ", re.sub(r"\s+", " ", max(found[chip].values(), key=len)[0]))
uses = [chip for chip, words in found.items() if words["mma.sync"]]
answer = {2: "both", 0: "neither"}.get(len(uses), f"only the {uses[0]}" if uses else "")
print(f"tensor cores: {answer}{f' (you said {tensor_cores})' if tensor_cores else ''}")
t4 = chip_throughput.rates("T4")  # as others measured it
print(f"PyTorch's own products on a T4, measured by others: {t4['fp16'].value / 1e12:.0f} TFLOP/s with fp16, {t4['fp32'].value / 1e12:.0f} with fp32")

# %% [markdown]
# A warp carries out both. Each of the block's four warps runs these. An `mma` makes 2,048 multiplications at once, an `fma` 32. So the 4 `mma` in
# the A100's loop do what 256 `fma` do for the T4, although a T4's tensor cores can do fp16, too. [Triton dropped
# them](https://github.com/triton-lang/triton/pull/5066) for all chips before the A100, in November 2024, and promises to support only those from
# the A100 on.
#
# PyTorch's own matmuls come from NVIDIA's cuBLAS, which uses them. On a T4, therefore, expect a Triton kernel with an fp16 matmul in it to be
# several times slower than the plain call. One that only adds or scales loses nothing. Checking it takes a minute and needs no GPU.
#
# For TPUs there's *Pallas*. You declare which tile each step of a grid receives. Its interpreter runs here.

# %%
# needs: jax
import jax
from jax import numpy as jnp
from jax.experimental import pallas as pl


# %%
# needs: jax
def tile_product(x, y, out):  # (128, 256) and (256, 128) -> (128, 128)
    out[...] = x[...] @ y[...]


by_pallas = pl.pallas_call(
    tile_product,
    grid=(2, 2),
    in_specs=[pl.BlockSpec((128, 256), lambda i, j: (i, 0)), pl.BlockSpec((256, 128), lambda i, j: (0, j))],
    out_specs=pl.BlockSpec((128, 128), lambda i, j: (i, j)),
    out_shape=jax.ShapeDtypeStruct((256, 256), jnp.float32),
    interpret=True,
)
p, q = jax.random.uniform(jax.random.key(0), (2, 256, 256))
print(f"four tiles of the result, equal to jnp's: {bool(jnp.allclose(by_pallas(p, q), p @ q))}")

# %% [markdown] tags=["minutes-5", "short-0"]
# ## Attention without its table
#
# Why write kernels at all, if libraries have them? Because some of the largest gains come from never storing a result in between. Attention
# compares all tokens with all tokens, and the *score matrix* has n² entries. The softmax seems to need a whole row of it, first the largest, then
# the sum.
#
# It doesn't, if you read the row in blocks. Keep the largest number so far, and the sum of `exp(x - largest)`. When a larger one comes, the old sum
# is too large by a known factor: multiply it by `exp(largest - new)`, which is below 1, and continue. The same factor corrects the result so far.
# One pass is enough, therefore, and no row is ever complete.

# %%
def attend(q, k, v, block=64):
    largest = torch.full((len(q), 1), -torch.inf, device=q.device)
    total = torch.zeros(len(q), 1, device=q.device)
    out = torch.zeros_like(q)  # (queries, head_dim)
    for start in range(0, len(k), block):
        scores = q @ k[start : start + block].T / q.shape[1] ** 0.5  # (queries, block)
        new = torch.maximum(largest, scores.amax(1, keepdim=True))
        weights, correct = torch.exp(scores - new), torch.exp(largest - new)
        total = total * correct + weights.sum(1, keepdim=True)
        out = out * correct + weights @ v[start : start + block]
        largest = new
    return out / total


# %%
def with_matrix(q, k, v):
    return (q @ k.T / q.shape[1] ** 0.5).softmax(1) @ v  # (queries, keys) in between


# %%
q, k, v = torch.randn(3, TOKENS, 64, device=device)
peaks, seconds = {}, {}
for name, way in {"with the matrix": with_matrix, "without it": attend}.items():
    with memory.track(device) as tracker:
        way(q, k, v)
    peaks[name], seconds[name] = tracker.peak, benchmark.measure(lambda: way(q, k, v), budget=0.3).best
    print(f"{name:>15}: {peaks[name] / 1e6:5.1f} MB beside q, k and v, {1e3 * seconds[name]:.3g} ms")
table_gap = (attend(q, k, v) - F.scaled_dot_product_attention(q[None], k[None], v[None])[0]).abs().max().item()
smaller = peaks["with the matrix"] / peaks["without it"]
print(f"{smaller:.1f} times less memory; largest difference to PyTorch's: {table_gap:.0e}")

# %% [markdown]
# Twice as many tokens make the score matrix four times as large, and the rest only twice. That's the idea of
# [FlashAttention](https://arxiv.org/abs/2205.14135). Its kernel keeps each block of scores on the chip, so it's also faster on a GPU: it waits for
# fewer bytes. Written in PyTorch, as here, each line still writes its block to memory and launches kernels of its own. You gain memory, and whether
# you pay with time depends on the chip.

# %% [markdown] tags=["minutes-6"]
# ## Puzzles
#
# Three kernels and a formula to write. The simulator runs the kernels, with `@cuda.jit` above them or without. If you like these, Sasha Rush's [GPU
# Puzzles](https://github.com/srush/GPU-Puzzles) has fourteen more.
#
# ### 1 · A matrix and a guard
#
# Add 1 to each number of a matrix with 5 rows and 6 columns. Blocks have 4 × 4 threads, and there are enough of them. Let neighboring threads write
# neighboring numbers of a row.

# %% tags=["exercise"]
# needs: numba
def add_one(x, out):
    return ...


### BEGIN SOLUTION
def add_one(x, out):
    j, i = cuda.grid(2)  # the first number is that of neighboring threads
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[i, j] + 1


### END SOLUTION
exercises.check("13.guard", add_one)

# %%
# @title Draw what your threads wrote { display-mode: "form" }
# needs: numba
_, out = cuda_simulator.launch(add_one, (2, 2), (4, 4), np.zeros((5, 6), np.float32), np.zeros((5, 6), np.float32))
figures.writers(out, title="Puzzle 1: which thread (x, y) wrote each number")

# %% [markdown]
# ### 2 · Turn it round
#
# `slow_transpose` reads rows, so it has to write columns: 32 sectors for each warp. Write `transpose` with one block of 32 × 32 threads so that it
# reads rows *and* writes rows. Shared memory has no sectors, but on a GPU give each of its rows 33 places instead of 32. Then the numbers of a
# column lie in different *banks* and can be read at once.

# %%
# needs: numba
def slow_transpose(x, out):
    j, i = cuda.threadIdx.x, cuda.threadIdx.y
    out[j, i] = x[i, j]


# %% tags=["exercise"]
# needs: numba
def transpose(x, out):
    return ...


### BEGIN SOLUTION
def transpose(x, out):
    shared = cuda.shared.array((32, 33), float32)  # 33: no two numbers of a column share a bank
    j, i = cuda.threadIdx.x, cuda.threadIdx.y
    shared[i, j] = x[i, j]
    cuda.syncthreads()
    out[i, j] = shared[j, i]


### END SOLUTION
exercises.check("13.transpose", transpose)

# %%
# @title Draw what your first warp writes { display-mode: "form" }
# needs: numba
ways = {"slow_transpose": slow_transpose, "your transpose": transpose}
written = {name: cuda_simulator.launch(way, 1, (32, 32), np.zeros((32, 32), np.float32), np.zeros((32, 32), np.float32))[1] for name, way in ways.items()}
figures.sectors(written, book="writes", title="Puzzle 2: one warp's first write")

# %% [markdown]
# ### 3 · Tiles with a guard
#
# Make `tiled` work for square matrices of any size. The check multiplies 20 × 20 with blocks of 8 × 8 threads, so some threads have no number of
# their own. They still have to load, or the tiles have holes, and they have to reach each barrier.

# %% tags=["exercise"]
# needs: numba
def tiled_with_guard(a, b, c):  # tiles of 8 × 8
    return ...


### BEGIN SOLUTION
def tiled_with_guard(a, b, c):
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


### END SOLUTION
exercises.check("13.tiles", tiled_with_guard)

# %% [markdown]
# ### 4 · A softmax in one pass
#
# Write the step: given the largest number and the sum of `exp(x - largest)` so far, and a new block of numbers, return both for all numbers
# together. Don't compute `exp` of anything above 0.

# %% tags=["exercise"]
def update(largest, total, block):  # block: a NumPy array
    return ...


### BEGIN SOLUTION
def update(largest, total, block):
    new = max(largest, block.max())
    return new, total * np.exp(largest - new) + np.exp(block - new).sum()


### END SOLUTION
exercises.check("13.softmax", update)

# %% [markdown] tags=["minutes-1"]
# ## Three things to take away

# %%
longer = seconds["without it"] / seconds["with the matrix"]
takeaways = {"Write less down": f"attention without its matrix took {1 / smaller:.0%} of the memory, and in plain PyTorch {longer:.1f} times as long."}
if "per_step" in globals():
    takeaways["Neighbors read neighbors"] = f"a row of 32 numbers takes {needed['a row']} sectors, a column {needed['a column']}."
    takeaways["Wait before you read"] = f"one missing barrier, and in the simulator 0 + 1 + … + 255 was {', '.join(f'{one:,.0f}' for one in raced)}."
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess, inventory = measurements.Value, measurements.Prediction, hardware.list_devices()
values = {
    "table_gap": value(table_gap, "", "attention without its table against PyTorch's"),
    "less_memory": value(smaller, "×", "peak of attention with its table against without"),
}
guesses = {}
if "per_step" in globals():
    values |= {
        "row": value(needed["a row"], "", "sectors for a row of 32"),
        "column": value(needed["a column"], "", "sectors for a column of 32"),
        "raced": value(sum(one == numbers.sum() for one in raced), "", "sums right of 5, without a barrier"),
        "across": value(per_step["across"], "", "bytes asked for by each multiplication, neighbors in a column"),
        "along": value(per_step["along"], "", "… neighbors in a row"),
        "tiled": value(per_step["tiled"], "", "… in tiles"),
    }
    guesses |= {
        "sectors_for_a_column": guess(sectors_for_a_column, needed["a column"]),
        "without_barrier": guess(without_barrier, outcome),
        "fewer_bytes": guess(fewer_bytes, fewer),
    }
if "uses" in globals():
    values |= {f"mma_{chip.lower()}": value(len(words["mma.sync"]), "", f"tensor core instructions for {chip}") for chip, words in found.items()}
    guesses["tensor_cores"] = guess(tensor_cores, answer)
measurements.record("13_write_a_kernel", FAST, device=inventory.main, predicted=guesses, **values)

# %% [markdown] tags=["minutes-0"]
# ## Keep this, and what comes next
#
# ```python
# import torch, triton, triton.language as tl  # on a GPU
#
#
# @triton.jit
# def softmax(x, out, n: tl.constexpr, B: tl.constexpr):  # a row for each program
#     row, i = tl.program_id(0), tl.arange(0, B)
#     v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))  # the guard
#     e = tl.exp(v - tl.max(v, 0))
#     tl.store(out + row * n + i, e / tl.sum(e, 0), mask=i < n)
#
#
# x = torch.rand(1000, 700, device="cuda")
# out = torch.empty_like(x)
# softmax[(1000,)](x, out, n=700, B=1024)  # B: the next power of two
# torch.testing.assert_close(out, x.softmax(1))
# ```
#
# You can say now what each thread does, count what a kernel asks for, and read what a compiler made of it.
