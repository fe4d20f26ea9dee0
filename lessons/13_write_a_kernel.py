# %%
# @title Imports { display-mode: "form" }
import inspect
import logging
import os
import re

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # kernels run in numba's simulator; it's read once, before numba is imported
logging.disable(logging.WARNING)  # what libraries say while they load

import numpy as np
import torch
from torch.nn import functional as F

from colab_helpers import benchmark, expected, hardware

from colab_lessons import exercises, figures, kernels, reference, replay

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
TILE = None
SIZES = None
TOKENS = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
TILE = TILE or (8 if FAST else 16)  # threads along each side of a block
SIZES = SIZES or ((16, 32) if FAST else (16, 32, 48))  # of matrices that the simulator multiplies
TOKENS = TOKENS or (512 if FAST else 2048)  # that attend to each other

# %%
replay.watch("13_write_a_kernel")  # cells that need what is missing show recorded results
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
gpu = device.type == "cuda"
t4 = expected.rates("T4")  # as others measured it
kernels.find_triton()
os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"  # a multiplication and an addition may become one fma
os.environ["TRITON_INTERPRET"] = "0" if gpu else "1"  # without a GPU, Triton's kernels run in its interpreter

# %% [markdown] tags=["minutes-9", "short-7"]
# ## One function, many threads
#
# A *kernel* is a function that a GPU runs thousands of times at once. Each run is a *thread*, and threads come in *blocks* of a size that you choose. All get the same arguments. The only thing that differs is a number, and `cuda.grid(1)` returns it. So each thread asks "who am I?", and takes the element with that number.
#
# Let's double ten numbers in blocks of four. We run it in numba's simulator, which needs no GPU, and watch who writes what.

# %%
# needs: numba
from numba import cuda, float32


def double(x, out):
    i = cuda.grid(1)  # the number of the block × threads in a block + the number within the block
    out[i] = 2 * x[i]


x = np.arange(10, dtype=np.float32)
_, out = kernels.launch(double, 3, 4, x, np.zeros(10, np.float32))  # 3 blocks of 4 threads
print(out.array)
print("outside:", *(f"thread {access.thread[0]} of block {access.block[0]}, cell {access.cell[0]}" for access in out.outside), sep="\n  ")

# %%
# @title Draw who wrote what { display-mode: "form" }
# needs: numba
figures.writers(out, title="Ten cells, twelve threads: two write where nothing is theirs")

# %% [markdown]
# Each color is a block, and the number is the thread in it. Three blocks of four are twelve threads, and the array has ten cells. The red ones write behind its end. The simulator stops them and tells you. A GPU doesn't: it overwrites whatever lies there, or ends the program some time later with `illegal memory access`. So nearly every kernel begins with a guard.

# %%
# needs: numba
def double(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]


_, out = kernels.launch(double, 3, 4, x, np.zeros(10, np.float32))
print(len(out.outside), "writes outside")

# %% [markdown] tags=["minutes-9", "short-7"]
# ## Neighbors read neighbors
#
# Threads don't run alone. 32 of them form a *warp*, which carries out each instruction together. When they read, memory answers in pieces of 32 bytes, called *sectors*. That's eight numbers of 4 bytes.
#
# Here a warp reads one row of a 32 × 32 matrix, and then one column.
#
# **Predict.** A row of 32 numbers takes four sectors. How many does a column take?

# %%
sectors_for_a_column = None  # @param {type:"integer"}

# %%
# needs: numba
def read_a_row(a, out):
    k = cuda.threadIdx.x
    out[k] = a[5, k]


def read_a_column(a, out):
    k = cuda.threadIdx.x
    out[k] = a[k, 5]


a = np.random.default_rng(0).random((32, 32), dtype=np.float32)
row, _ = kernels.launch(read_a_row, 1, 32, a, np.zeros(32, np.float32))
column, _ = kernels.launch(read_a_column, 1, 32, a, np.zeros(32, np.float32))
print(f"a row: {row.sectors} sectors, {32 * row.sectors} bytes. A column: {column.sectors} sectors, {32 * column.sectors:,} bytes")

# %%
# @title Draw what came along { display-mode: "form" }
# needs: numba
guess = f" (you said {sectors_for_a_column})" if sectors_for_a_column else ""
figures.sectors({"a row": row, "a column": column}, title=f"32 numbers each, but the column brings {column.sectors} sectors along{guess}")

# %% [markdown]
# The dark numbers were wanted, the light ones came along. Both warps got 32 numbers, and the column moved eight times as many bytes for them. A GPU that waits for memory is then up to eight times slower. Which thread reads which number is your choice, and it costs nothing to choose well. Neighboring threads should read neighboring numbers. The field calls that *coalesced*.

# %% [markdown] tags=["minutes-10", "short-8"]
# ## Wait for each other
#
# How do 64 threads add up 64 numbers? In pairs. 32 threads add one number each to their own, then 16 do, then 8, and after six steps the sum is there. For this they need a place where all can read and write: *shared memory*, a small and fast store that each block has for itself. And they have to wait, since a thread may only read what another one has already written. `cuda.syncthreads()` is that barrier.

# %%
# needs: numba
def add_up(x, out):
    i = cuda.threadIdx.x
    shared = cuda.shared.array(64, float32)
    shared[i] = x[i]
    cuda.syncthreads()
    step = 32
    while step > 0:
        if i < step:
            shared[i] += shared[i + step]
        cuda.syncthreads()  # all sums of this step, before anybody starts the next
        step //= 2
    if i == 0:
        out[0] = shared[0]


numbers = np.arange(64, dtype=np.float32)
_, out = kernels.launch(add_up, 1, 64, numbers, np.zeros(1, np.float32))
print(f"{out.array[0]:.0f}, and NumPy says {numbers.sum():.0f}")

# %% [markdown]
# **Predict.** Now leave out the second barrier, and run it five times. What comes out?

# %%
without_barrier = None  # @param ["the right sum", "the same wrong sum each time", "another wrong sum each time"]

# %%
# needs: numba
def add_up_racing(x, out):
    i = cuda.threadIdx.x
    shared = cuda.shared.array(64, float32)
    shared[i] = x[i]
    cuda.syncthreads()
    step = 32
    while step > 0:
        if i < step:
            shared[i] += shared[i + step]
        step //= 2
    if i == 0:
        out[0] = shared[0]


raced = [float(kernels.launch(add_up_racing, 1, 64, numbers, np.zeros(1, np.float32))[1].array[0]) for _ in range(5)]
print(*raced)

# %% [markdown]
# Some threads were already in the next step while others hadn't finished this one. Who comes first is luck, so the answer is luck too, and no error tells you. That's a *race*. On a GPU it's worse, because a race may be right a thousand times before it's wrong once. `compute-sanitizer --tool racecheck` finds them there.

# %% [markdown] tags=["minutes-12", "short-10"]
# ## A product in tiles
#
# Now a real kernel. Each thread computes one number of `a @ b`, from a row of `a` and a column of `b`. The first two versions differ in one line: which of the thread's two numbers is the row.

# %%
# needs: numba
def across(a, b, c):
    i, j = cuda.grid(2)  # neighboring threads: neighboring rows
    total = 0.0
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    c[i, j] = total


def along(a, b, c):
    j, i = cuda.grid(2)  # neighboring threads: neighboring columns
    total = 0.0
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    c[i, j] = total


# %% [markdown]
# Both read each number many times: all threads of a row want the same row of `a`. The third version reads it once for the block. All threads together load a *tile* of each matrix into shared memory, wait, and multiply from there.

# %%
# needs: numba
def tiled(a, b, c):
    x = cuda.shared.array((TILE, TILE), float32)
    y = cuda.shared.array((TILE, TILE), float32)  # on its own line: the simulator takes two on one line for the same
    j, i = cuda.grid(2)
    tj, ti = cuda.threadIdx.x, cuda.threadIdx.y
    total = 0.0
    for start in range(0, a.shape[1], TILE):
        x[ti, tj] = a[i, start + tj]
        y[ti, tj] = b[start + ti, j]
        cuda.syncthreads()  # the tile is complete
        for k in range(TILE):
            total += x[ti, k] * y[k, tj]
        cuda.syncthreads()  # nobody needs it any more
    c[i, j] = total


# %% [markdown]
# **Predict.** For a product of two 32 × 32 matrices with tiles of 16 × 16, how many times fewer bytes does `tiled` ask for than `across`?

# %%
fewer_bytes = None  # @param {type:"number"}

# %%
# needs: numba
def counted(kernel, n):
    a, b = np.random.default_rng(0).random((2, n, n), dtype=np.float32)
    *inputs, c = kernels.launch(kernel, (n // TILE, n // TILE), (TILE, TILE), a, b, np.zeros((n, n), np.float32))
    assert np.allclose(c.array, a @ b, atol=1e-3)
    return kernels.traffic(inputs)


moved = {kernel.__name__: [counted(kernel, n) for n in SIZES] for kernel in (across, along, tiled)}
per_step = {name: found[-1] / SIZES[-1] ** 3 for name, found in moved.items()}  # bytes for each of n³ multiplications
fewer = per_step["across"] / per_step["tiled"]
for name, found in moved.items():
    print(f"{name:>7}: " + ", ".join(f"{count:,} bytes for n = {n}" for n, count in zip(SIZES, found)) + f": {per_step[name]:g} n³")

# %%
# @title Turn bytes into time { display-mode: "form" }
# needs: numba
needed = {name: each * 4096**3 / t4["memory"].value for name, each in per_step.items()} | {"arithmetic alone": 2 * 4096**3 / t4["fp32"].value}
guess = f" (you said {fewer_bytes:g})" if fewer_bytes else ""
figures.bars(needed, unit="s", log=True, title=f"{fewer:.0f} times fewer bytes with tiles{guess}; 4,096³ on a T4, if no cache helped")

# %% [markdown]
# The three kernels multiply the same numbers equally often. They differ in what they ask memory for. One swapped letter is a factor of about four, and tiles are another eight.
#
# The bars turn bytes into time for a T4 and matrices of 4,096. Caches catch many of the repeated reads, so a real T4 is faster than the upper bars. Even the tiles wait longer for memory than for the arithmetic. Real libraries let each thread compute many numbers, from tiles of 128 and more: a tile's bytes grow with its edge, its work with its area.

# %%
# @title On a GPU: the same three kernels, compiled and timed { display-mode: "form" }
if gpu and "cuda" in globals():
    for name, seconds in kernels.time_on_gpu([across, along, tiled], size=1024, tile=16).items():
        print(f"{name:>7}: {1e3 * seconds:.2f} ms on your GPU, 1,024 × 1,024")
    one = torch.rand(1024, 1024, device=device)
    print(f"PyTorch: {1e3 * benchmark.measure(lambda: one @ one).best:.2f} ms")
else:
    print("There's no GPU here, so there's nothing to time: the simulator's seconds say nothing about a GPU.")

# %% [markdown] tags=["minutes-13", "short-9"]
# ## The same in Triton
#
# Barriers, shared memory and who reads what are work for a compiler. In Triton you write what a *block* does, with whole tiles as values. Here's the tiled product again.

# %%
# needs: triton
import triton
import triton.language as tl


@triton.jit
def multiply(a, b, c, n: tl.constexpr, T: tl.constexpr):
    rows = tl.program_id(0) * T + tl.arange(0, T)
    columns = tl.program_id(1) * T + tl.arange(0, T)
    total = tl.full((T, T), 0.0, tl.float32)
    for start in range(0, n, T):
        k = start + tl.arange(0, T)
        x = tl.load(a + rows[:, None] * n + k[None, :])  # a tile: (T, T)
        y = tl.load(b + k[:, None] * n + columns[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total)


a, b = torch.rand(2, 128, 128, device=device)
c = torch.empty(128, 128, device=device)
multiply[(4, 4)](a, b, c, n=128, T=32)
print(f"largest difference to PyTorch: {(c - a @ b).abs().max().item():.0e}")

# %% [markdown]
# No thread appears in it. Who loads which number, and when to wait, is the compiler's choice. So what does it choose? You can look, for any NVIDIA chip, because a compiler needs no GPU. It writes *PTX*, NVIDIA's portable assembly. A T4 is `sm_75`, an A100 `sm_80`. Both have tensor cores, which multiply small matrices with one instruction, `mma`. Without them, it's `fma`: one multiplication and one addition.
#
# **Predict.** For which of them does Triton use the tensor cores, if the numbers are fp16?

# %%
tensor_cores = None  # @param ["both", "only the A100", "only the T4", "neither"]

# %%
# needs: triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction


def ptx(capability, dtype="fp16"):
    types = {"a": f"*{dtype}", "b": f"*{dtype}", "c": "*fp32", "n": "constexpr", "T": "constexpr"}
    source = ASTSource(JITFunction(multiply.fn), types, {"n": 128, "T": 32})
    return triton.compile(source, target=GPUTarget("cuda", capability, 32)).asm["ptx"]


found = {}
for chip, capability in {"T4": 75, "A100": 80}.items():
    lines = [line.strip() for line in ptx(capability).splitlines()]
    found[chip] = {word: [line for line in lines if line.startswith(word)] for word in ("mma.sync", "fma.rn.f32")}
    print(f"{chip}: {len(found[chip]['mma.sync'])} mma, {len(found[chip]['fma.rn.f32'])} fma, for example")
    print("   ", re.sub(r"\s+", " ", max(found[chip].values(), key=len)[0]))
print(f"measured on a T4: products of fp16 {t4['fp16'].value / 1e12:.0f} TFLOP/s with tensor cores, of fp32 {t4['fp32'].value / 1e12:.0f} without")
uses = [chip for chip, words in found.items() if words["mma.sync"]]

# %% [markdown]
# For the A100 a few `mma`, each for a whole warp. For the T4 hundreds of `fma`, although its tensor cores can do fp16. [Triton dropped them](https://github.com/triton-lang/triton/pull/5066) for all chips before the A100, in November 2024. PyTorch's own products come from cuBLAS, which uses them. So on your T4, a Triton kernel with a product in it can be ten times slower than the plain call. One that only adds or scales loses nothing.
#
# TPUs have a language like this, too. *Pallas* describes which tile each step of a grid sees. Its interpreter runs here.

# %%
# needs: jax
import jax
from jax import numpy as jnp
from jax.experimental import pallas as pl


def tile_product(x, y, out):  # (32, 128) and (128, 32) -> (32, 32)
    out[...] = x[...] @ y[...]


by_pallas = pl.pallas_call(
    tile_product,
    grid=(4, 4),
    in_specs=[pl.BlockSpec((32, 128), lambda i, j: (i, 0)), pl.BlockSpec((128, 32), lambda i, j: (0, j))],
    out_specs=pl.BlockSpec((32, 32), lambda i, j: (i, j)),
    out_shape=jax.ShapeDtypeStruct((128, 128), jnp.float32),
    interpret=True,
)
p, q = jax.random.uniform(jax.random.key(0), (2, 128, 128))
print(f"largest difference to jnp: {jnp.abs(by_pallas(p, q) - p @ q).max():.0e}")

# %% [markdown] tags=["minutes-10", "short-0"]
# ## Attention without its table
#
# Why write kernels at all, if libraries have them? Because the largest gain comes from not writing something down. Attention compares all tokens with all tokens, and the table of scores has n² entries. The softmax needs a whole row of it, first the largest, then the sum. Or does it?
#
# Read the row in blocks. Keep the largest number so far, and the sum of `exp(x - largest)`. When a larger one comes, the old sum is too large by a known factor. Multiply it, and go on. The same factor corrects the result so far. So one pass is enough, and no row is ever complete.

# %%
def attend(q, k, v, block=64):
    largest = torch.full((len(q), 1), -torch.inf, device=q.device)
    total = torch.zeros(len(q), 1, device=q.device)
    out = torch.zeros_like(q)  # (queries, head_dim)
    for start in range(0, len(k), block):
        scores = q @ k[start : start + block].T / q.shape[1] ** 0.5  # (queries, block): all that's ever written down
        new = torch.maximum(largest, scores.amax(1, keepdim=True))
        weights, correct = torch.exp(scores - new), torch.exp(largest - new)
        total = total * correct + weights.sum(1, keepdim=True)
        out = out * correct + weights @ v[start : start + block]
        largest = new
    return out / total


q, k, v = torch.randn(3, TOKENS, 64, device=device)
table_gap = (attend(q, k, v) - F.scaled_dot_product_attention(q[None], k[None], v[None])[0]).abs().max().item()
print(f"largest difference to PyTorch: {table_gap:.0e}")
print(f"the whole table: {4 * TOKENS**2 / 1e6:.1f} MB. A block of it: {4 * TOKENS * 64 / 1e6:.2f} MB, {TOKENS // 64} times less")

# %% [markdown]
# That's *FlashAttention*. As a kernel it keeps the block of scores in shared memory, and the table never reaches the GPU's memory. In PyTorch, as here, it saves memory but no time: each line still reads and writes its block.

# %% [markdown] tags=["minutes-11", "short-3"]
# ## Puzzles
#
# Four kernels to write. The simulator runs them, and the figure shows what your threads did.
#
# ### 1 · A matrix and a guard
#
# Add 1 to each number of a matrix with 5 rows and 6 columns. Blocks have 4 × 4 threads, and there are enough of them. Let neighboring threads write neighboring numbers of a row.

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
_, out = kernels.launch(add_one, (2, 2), (4, 4), np.zeros((5, 6), np.float32), np.zeros((5, 6), np.float32))
figures.writers(out, title="Puzzle 1: which thread (x, y) wrote each number")

# %% [markdown]
# ### 2 · Turn it round
#
# `slow_copy` copies a matrix of 32 × 32 with 32 blocks of one warp. Each warp asks for 32 sectors. Write `copy` so that 4 are enough.

# %%
# needs: numba
def slow_copy(x, out):
    i, j = cuda.threadIdx.x, cuda.blockIdx.x
    out[i, j] = x[i, j]


# %% tags=["exercise"]
# needs: numba
def copy(x, out):
    return ...


### BEGIN SOLUTION
def copy(x, out):
    i, j = cuda.blockIdx.x, cuda.threadIdx.x
    out[i, j] = x[i, j]


### END SOLUTION
exercises.check("13.copy", copy)

# %%
# @title Draw what your first warp reads { display-mode: "form" }
# needs: numba
ways = {"slow_copy": slow_copy, "your copy": copy}
read = {name: kernels.launch(way, 32, 32, np.zeros((32, 32), np.float32), np.zeros((32, 32), np.float32))[0] for name, way in ways.items()}
figures.sectors(read, title="Puzzle 2: one warp's first read")

# %% [markdown]
# ### 3 · The largest of 64
#
# Write a kernel for one block of 64 threads that leaves the largest of 64 numbers in `out[0]`. `add_up` shows the way.

# %% tags=["exercise"]
# needs: numba
def largest_of(x, out):
    return ...


### BEGIN SOLUTION
def largest_of(x, out):
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


### END SOLUTION
exercises.check("13.largest", largest_of)

# %% [markdown]
# ### 4 · A softmax in one pass
#
# Write the step: given the largest number and the sum of `exp(x - largest)` so far, and a new block of numbers, return both for all numbers together. Don't compute `exp` of anything above 0.

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
takeaways = {"Write less down": f"attention needs {TOKENS // 64} times less memory if its table never exists as a whole."}
if "per_step" in globals():
    takeaways["Neighbors read neighbors"] = f"a column asked for {column.sectors} sectors and a row for {row.sectors}; with tiles a product asked for {fewer:.0f} times fewer bytes."
    takeaways["Wait before you read"] = f"one missing barrier, and 64 numbers added up to {', '.join(f'{one:.0f}' for one in raced)} instead of {numbers.sum():.0f}."
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess, inventory = reference.Value, reference.Prediction, hardware.list_devices()
values, guesses = {"table_gap": value(table_gap, "", "attention without its table against PyTorch's")}, {}
if "per_step" in globals():
    values |= {
        "row": value(row.sectors, "", "sectors for a row of 32"),
        "column": value(column.sectors, "", "sectors for a column of 32"),
        "raced": value(sum(one == numbers.sum() for one in raced), "", "sums right of 5, without a barrier"),
        "across": value(per_step["across"], "n³", "bytes of a product, neighbors in a column"),
        "along": value(per_step["along"], "n³", "… neighbors in a row"),
        "tiled": value(per_step["tiled"], "n³", "… in tiles"),
    }
    guesses |= {
        "sectors_for_a_column": guess(sectors_for_a_column, column.sectors),
        "without_barrier": guess(without_barrier, "another wrong sum each time"),
        "fewer_bytes": guess(fewer_bytes, fewer),
    }
if "uses" in globals():
    values |= {f"mma_{chip.lower()}": value(len(words["mma.sync"]), "", f"tensor core instructions for {chip}") for chip, words in found.items()}
    guesses["tensor_cores"] = guess(tensor_cores, {2: "both", 0: "neither"}.get(len(uses), f"only the {uses[0]}" if uses else ""))
reference.record("13_write_a_kernel", FAST, device=inventory.main, predicted=guesses, **values)

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
# You know now what a GPU runs, and you can read what a compiler made of your code.
