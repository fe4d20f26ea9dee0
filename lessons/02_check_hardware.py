# %%
# @title Imports { display-mode: "form" }
import os
import re
import shutil
import subprocess
import time

import torch

from colab_helpers import chip_throughput, platform_facts, hardware, published_results

from colab_lessons import browser_gpu_report, exercises, figures, measurements
from colab_lessons.predictions import your_prediction  # adds what you predicted to a title

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
NUMBERS = None
SIZE = None
LARGEST = None
CHAINS = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
NUMBERS = NUMBERS or 2 ** (22 if FAST else 26)  # so many that no cache holds them
SIZE = SIZE or (512 if FAST else 2048)  # of the matrices
LARGEST = LARGEST or (24 if FAST else 29)  # the largest sum has two to this power bytes
CHAINS = CHAINS or ([1, 8, 16] if FAST else [1, 2, 4, 8, 16])  # multiply-adds per element
CHAINS += [] if FAST or not torch.cuda.is_available() else [32, 64, 128, 256]  # a GPU's ridge lies further right

# %% [markdown] tags=["minutes-6"]
# ## Two speed limits
#
# A chip can only work on numbers that have arrived. So it has two speed limits, one for computing and one for moving bytes. Measure both.
#
# A job takes at least the longer of operations ÷ FLOP/s and bytes ÷ (bytes per second).
#
# A *matmul*, the product of two n × n matrices, takes n multiplications and n additions for each of its n² results, so 2n³ operations. One
# floating-point operation per second is one FLOP/s. Flipping the sign of every element in place reads each byte and writes it back, so it moves
# twice the bytes of the array.

# %%
torch.set_num_threads(1)  # one core of the CPU: on a shared machine a second one makes timings jump
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")


def seconds(work, repeats=5):  # lesson 01's timer
    times = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        work()
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()
        times.append(time.perf_counter() - start)
    return times[1:]


# %%
a, b = torch.rand(2, SIZE, SIZE, device=device)
x, y = torch.rand(2, NUMBERS, device=device) / 2
out = torch.empty_like(x)

peak = 2 * SIZE**3 / min(seconds(lambda: a @ b, repeats=40))
bandwidth = 2 * x.nbytes / min(seconds(x.neg_, repeats=10))  # in place: read, and written back
print(f"computing {peak / 1e9:,.0f} GFLOP/s, moving {bandwidth / 1e9:,.1f} GB/s")

# %%
added = NUMBERS / min(seconds(lambda: torch.add(x, y, out=out)))
print(f"adding two vectors: {added / 1e9:,.2f} GFLOP/s, {added / peak:.1%} of the matmul's speed")

# %% [markdown]
# There's nothing wrong with the addition. It moves 12 bytes for a single operation, two elements in and one out, so the memory sets its pace, while
# the matmul reuses each element about 2,000 times once it has arrived.
#
# What matters is therefore how many operations you do per byte, which is called the *arithmetic intensity*. The addition does 1/12. The matmul does
# 2n³ operations on 3 · 4n² bytes, which is n/6, or 341 for n = 2048.

# %% [markdown]
# ### What a write costs
#
# A copy, too, reads an array and writes one, but into different memory. Most CPUs read a line of memory before they overwrite it, even if nobody
# needs what was there, so a copy may really move three arrays. The in-place pass shows which count is right on your machine: it has no such hidden
# read.

# %%
copied = x.nbytes / min(seconds(lambda: out.copy_(x), repeats=10))  # bytes of one array, per second
for arrays in (2, 3):
    print(f"the copy counted as {arrays} arrays: {arrays * copied / 1e9:,.1f} GB/s, {arrays * copied / bandwidth:.0%} of the pass in place")

# %% [markdown] tags=["minutes-9"]
# ## Trace the roof
#
# Next, raise the intensity step by step. This function does k multiply-adds on every element before it writes it back, in place. Each element costs
# 8 bytes, 4 to read and 4 to write, and 2k operations.
#
# `torch.compile` turns it into one loop, so that nothing is written in between. It takes a few seconds for each k. On a CPU we also allow it to
# merge a multiplication and the addition after it into the one instruction that the chip has for both, as the library's matmul does.


# %%
def chain(x, k):
    y = x
    for _ in range(k):
        y = y * x + 0.1
    x.copy_(y)


fused = torch.compile(chain, dynamic=False)

# %%
# @title Is there a compiler? { display-mode: "form" }
torch._dynamo.config.recompile_limit = 64
x.uniform_(0, 0.5)
try:
    from torch._inductor.config import cpp

    cpp.enable_floating_point_contract_flag = "fast"  # multiply and add in one instruction
    fused(x[:64].clone(), 1)
except Exception as error:  # no C++ compiler, or no Triton
    print(f"No compiler here ({type(error).__name__}): the chain runs operation by operation, and lies below its roof.")
    fused = chain

# %% [markdown]
# **Predict.** How many times as long do eight multiply-adds per element take as one?

# %%
eight_take = None  # @param {type:"number"}

# %%
taken, points = {}, []
for k in CHAINS:
    taken[k] = seconds(lambda: fused(x, k))
    points.append((2 * k / 8, 2 * k * NUMBERS / min(taken[k])))  # FLOP per byte, FLOP per second

# %% [markdown]
# If you have a line from [the page that measures your own computer's GPU](https://colab-accelerator-course.github.io/colab-accelerator-course/gpu.html), paste it below, and you'll see its
# roof, too.

# %%
# @title Your own GPU, if you like { display-mode: "form" }
mine = ""  # @param {type:"string"}
browser = browser_gpu_report.read(mine)

# %%
# @title Draw the roof { display-mode: "form" }
ratio, chip = min(taken[8]) / min(taken[1]), "one CPU core" if device.type == "cpu" else "your GPU"
t4 = chip_throughput.rates("T4")
figures.roofline(
    {chip: (peak, bandwidth)} | ({"your browser's GPU": (browser.flops, browser.copy)} if browser else {}), dashed={} if device.type == "cuda" else {"a T4, expected": (t4["fp32"].value, t4["memory"].value)},
    points=points, names={f"{SIZE}² matmul": (SIZE / 6, peak)},
    title=f"Eight multiply-adds take {ratio:.1f}× as long as one{your_prediction(eight_take, '×')}",
)

# %% [markdown]
# Follow the points from the left. They climb the slope that the pass in place measured, because each element has to be fetched anyway, and further
# operations on it cost little until the arithmetic takes as long as the fetching. From there the points bend towards the flat part, which the
# matmul drew.
#
# On a CPU core the loop stays below the matmul, whose library was tuned for the chip by hand. On an H100 we saw it come out above.
#
# The slope meets the flat part at the *ridge*. One division tells you where it is.

# %%
ridge = peak / bandwidth
print(f"here: {peak / 1e9:,.0f} GFLOP/s ÷ {bandwidth / 1e9:,.1f} GB/s = {ridge:.1f} FLOP per byte")
print(f"a T4, expected: {t4['fp32'].value / 1e12:.1f} TFLOP/s ÷ {t4['memory'].value / 1e9:.0f} GB/s = {t4.ridge('fp32'):.0f} in fp32, {t4.ridge('fp16'):.0f} in fp16")

# %% [markdown]
# Left of the ridge, code that streams through main memory can't get above the slope. It's *memory-bound*, and fewer bytes help. Right of it code is
# *compute-bound*, and better use of the chip helps.
#
# The roof also tells you when something is wrong, if you compare what you get with what's possible. Below, a vector is multiplied by a number in
# five ways. Which of them have something to fix?

# %%
column = torch.rand(NUMBERS // 1024, 1024, device=device).T  # the same numbers, stored the other way round
row, wide = torch.empty_like(column, memory_format=torch.contiguous_format), x.double()
wider = torch.empty_like(wide)
tasks = {  # name: (work, bytes in and out), one operation per element
    "in place": (lambda: x.mul_(1), 8 * NUMBERS),
    "into another vector": (lambda: torch.mul(x, 2, out=out), 8 * NUMBERS),
    "in 64 bits": (lambda: torch.mul(wide, 2, out=wider), 16 * NUMBERS),
    "transposed": (lambda: torch.mul(column, 2, out=row), 8 * NUMBERS),
    "1,000 at a time, into another": (lambda: [torch.mul(x[i : i + 1000], 2, out=out[i : i + 1000]) for i in range(0, NUMBERS - 1000, 1000)], 8 * NUMBERS),
}
for name, (work, moved) in tasks.items():
    taken_here = min(seconds(work))
    print(f"{name:>29}: {moved / bandwidth / taken_here:4.0%} of what is possible")

# %% [markdown]
# The nearer to 100%, the less there is to gain. Writing into another vector pays the hidden read, if your chip has one. In 64 bits the work takes
# longer but wastes no more, because there are twice the bytes to move. The transposed one strides through memory and uses a small part of what each
# fetch brings. The last one spends its time on calls.
#
# Utilization can't tell you any of this. A core that waits for memory counts as busy, and `GPU-Util` shows 100% while something, anything, runs.

# %% [markdown] tags=["minutes-5"]
# ## The memory hierarchy
#
# Between the cores and the main memory are *caches*, which are small, fast memories. What fits in one can be read again quickly. To see them, sum
# the same vector again and again, and make it longer.
#
# **Predict.** How many times as fast, per element, is the best length as the longest?

# %%
times_faster = None  # @param {type:"number"}

# %%
stairs = {}
for bits in range(19, LARGEST + 1):
    numbers = torch.ones(2**bits // 4)
    stairs[2**bits] = [taken / 2**bits for taken in seconds(numbers.sum, repeats=15)]  # seconds per byte

# %%
# @title Draw the memory hierarchy { display-mode: "form" }
fastest = min(stairs[max(stairs)]) / min(map(min, stairs.values()))
figures.lines(
    [*stairs], {"one CPU core": [1 / min(taken) for taken in stairs.values()]}, log=True, units=("B", "B/s"),
    xlabel="size of the vector", ylabel="bytes read per second", published=[published_results.get("stairs-a100")],
    title=f"The fastest sum runs at {fastest:.1f}× the speed of the longest{your_prediction(times_faster, '×')}",
)

# %% [markdown]
# The line falls where the vector outgrows a cache. At the right end you see how fast one core *reads* main memory; the pass in place above also
# wrote, which a core can do at the same time. The hollow curve is a whole A100, whose source is in the legend. It drops threefold around the 40 MB
# of its cache.
#
# A benchmark of 1 MB therefore measures a cache, and work cut into cache-sized pieces runs faster, which exercise 4 tries.
#
# This is how long one thread of an A100 waits for an element.

# %%
waits = published_results.get("latency-a100")
for where, kib in {"its own cache": 30, "the whole chip's cache": 2016, "memory": 340388}.items():
    print(f"{where:>22}: {waits.points[1024 * kib]:4.0f} clock cycles")
print(f"[{waits.credit}]")

# %% [markdown]
# A GPU doesn't shorten that wait, which is called *latency*. It hides it: while some threads wait, others run, and that is why it needs thousands
# of them.

# %% [markdown] tags=["minutes-1"]
# ## Five chips under one roof
#
# These are five of Colab's chips in 16-bit formats, where an element takes two bytes. Solid lines are measurements, dashed ones the data sheets.
# The memory speeds of the L4 and the v5e are estimates.

# %%
# @title Draw the chips { display-mode: "form" }
formats = {"T4": "fp16", "L4": "bf16", "A100-40": "bf16", "H100": "bf16", "v5e": "bf16"}
rates, sheets = {key: chip_throughput.rates(key) for key in formats}, hardware.catalog()
names = {key: key.replace("-40", ", 40 GB") for key in formats}
figures.roofline(
    {names[key]: (rates[key][f].value, rates[key]["memory"].value) for key, f in formats.items()},
    dashed={names[key]: (sheets[key].peak[f], sheets[key].bandwidth) for key, f in formats.items()},
    marks={"adding\ntwo vectors": 1 / 6, "an LLM writes\none sequence": 1, "an LLM writes\n64 sequences": 64, "2048²\nmatmuls": 2048 / 3},
    title=f"H100 against T4: {rates['H100']['memory'].value / rates['T4']['memory'].value:.0f}× for one sequence, {rates['H100']['bf16'].value / rates['T4']['fp16'].value:.0f}× for large matmuls",
)

# %% [markdown]
# Pick your work on the horizontal axis and go up. An LLM that writes one sequence reads every weight, two bytes, for a multiplication and an
# addition. That's 1 FLOP per byte, where only bandwidth counts. With 64 sequences each weight is used 64 times. The large matmuls of a training
# step are far to the right, where the peak counts, although lesson 01 showed that a whole step reaches only a part of it.
#
# Before you compare the peaks of two chips, find your work on the axis, and compare the chips there.

# %% [markdown] tags=["minutes-6"]
# ## The printout that everybody pastes
#
# If you ask for help anywhere, you're told to run `nvidia-smi`. It asks the *driver*, the program that runs the chip. If you have no GPU, you'll
# read one that a T4 on Colab printed.
#
# **Predict.** A T4 is sold with 16 GB. How many MiB does `nvidia-smi` show for it?

# %%
mib_shown = None  # @param {type:"integer"}

# %%
recorded = platform_facts.console_output("nvidia-smi-t4")
smi = shutil.which("nvidia-smi")
done = subprocess.run([smi], capture_output=True, text=True, timeout=30) if smi else None
own = done is not None and done.returncode == 0
print("This machine:" if own else f"Recorded: {recorded.source}", done.stdout if own else recorded.text, sep="\n")

# %% [markdown]
# | you see | it means |
# |---|---|
# | `Driver Version` | part of the machine. `pip` can't change it |
# | `CUDA Version` | the newest CUDA that this *driver* supports, not what is installed |
# | `Temp`, `Perf` | degrees Celsius, and the state of the chip. P0 is the fastest, P8 is idle |
# | `Pwr:Usage/Cap` | watts now, and watts allowed. At 70 watts a T4 lowers its clock |
# | `Memory-Usage` | used and total, in MiB, which are 2²⁰ bytes |
# | `Volatile Uncorr. ECC` | memory errors that *ECC*, the check bits, could not repair. It should be 0. `Off` means that ECC is switched off, `N/A` that the chip has none |
# | `GPU-Util` | the share of time in which *something* ran, however small |
# | `Processes` | who holds memory. Inside a container it's often empty |

# %%
shown = int(re.search(r"/\s*(\d+)MiB", recorded.text)[1])
sold = 16 * 2**10  # the memory chips hold 16 GiB
f"shown: {shown:,} MiB of {sold:,}; one part in {sold / (sold - shown):.0f} is missing{your_prediction(mib_shown)}"

# %% [markdown]
# One part in sixteen is what ECC's check bits take on this memory, so 15 GiB are left of 16. PyTorch shows 14.6 to 14.75 GiB, because the driver
# keeps a share for itself, and how much differs from driver to driver.

# %% [markdown] tags=["minutes-7"]
# ## Exercises
#
# ### 1 · At least how long?
#
# A T4 copies 240 GB/s. At least how many milliseconds does it take to multiply a vector of 50 million float32 elements by 2 and write the result to
# another vector?

# %% tags=["exercise"]
milliseconds = ...
### BEGIN SOLUTION
milliseconds = 1000 * 50e6 * (4 + 4) / 240e9  # 4 bytes in and 4 out; the multiplications are free
### END SOLUTION
exercises.check("02.at_least", milliseconds)

# %% [markdown]
# ### 2 · What limits it on a T4?
#
# In float32 a T4 computes 4.2 TFLOP/s, moves 240 GB/s and needs about 10 µs to start a piece of work, a *kernel launch*. Which of the three takes
# longest for each line, `"compute"`, `"bandwidth"` or `"launch"`? An n × n matmul does 2n³ operations on 12n² bytes. The vectors have 10 million
# elements.

# %% tags=["exercise"]
limit = {"a + b": ..., "A @ B, n = 128": ..., "A @ B, n = 4096": ...}
### BEGIN SOLUTION
limit = {
    "a + b": "bandwidth",  # 120 MB take 500 µs; 10 million additions 2.4
    "A @ B, n = 128": "launch",  # memory 0.8 µs, arithmetic 1.0, the launch 10
    "A @ B, n = 4096": "compute",  # 683 FLOP per byte, far right of the ridge at 17
}
### END SOLUTION
exercises.check("02.limits", limit)

# %% [markdown]
# ### 3 · Read a stranger's machine
#
# A user asks for help, and pastes this.

# %% tags=["nbval-check-output"]
print(platform_facts.console_output("nvidia-smi-stranger"))

# %% [markdown]
# How many MiB are not in use? Which process (its PID) holds memory? Is the CUDA 13.0 toolkit installed there: `"yes"`, `"no"` or `"cannot tell"`?

# %% tags=["exercise"]
reading = {"MiB not in use": ..., "PID": ..., "CUDA 13.0 toolkit": ...}
### BEGIN SOLUTION
reading = {
    "MiB not in use": 23034 - 7532,
    "PID": 3485,
    "CUDA 13.0 toolkit": "cannot tell",  # the printout names what the driver supports
}
### END SOLUTION
exercises.check("02.read_smi", reading)

# %% [markdown]
# ### 4 · Open task, make fewer passes over memory
#
# `many_passes` makes sixty passes over the array. Write `fewer_passes`, which returns the same numbers in half the time or less on the CPU. There
# is more than one way.

# %% tags=["exercise"]
numbers = torch.rand(2**22)


def many_passes(x):
    for _ in range(20):
        x = torch.sqrt(x * x + 0.01)
    return x


def fewer_passes(x):  # a tensor in, a tensor out
    return ...


### BEGIN SOLUTION
def fewer_passes(x):
    result = x.clone()
    for piece in result.split(2**16):  # 256 KiB: all twenty rounds happen in the cache
        for _ in range(20):
            piece.mul_(piece).add_(0.01).sqrt_()  # in place: no new memory
    return result
    # Or think first. Twenty rounds of sqrt(x² + 0.01) are one: torch.sqrt(x * x + 0.2), three passes.


### END SOLUTION
exercises.check("02.fewer_passes", fewer_passes, many_passes=many_passes, numbers=numbers)

# %% [markdown] tags=["minutes-1"]
# ## Three things to take away

# %%
takeaways = {
    "Bytes cost more than operations": f"eight multiply-adds per element took {ratio:.1f}× as long as one.",
    "A small benchmark measures a cache": f"the fastest sum ran at {fastest:.1f}× the speed of the longest.",
    "Peak ÷ bandwidth is the ridge": f"below {ridge:.1f} FLOP per byte no code that streams through memory reaches the peak of {chip}.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
inventory = hardware.list_devices()
value, guess = measurements.Value, measurements.Prediction
measurements.record(
    "02_check_hardware", FAST, device=inventory.cpu if device.type == "cpu" else inventory.main,
    predicted={
        "eight_take": guess(eight_take, ratio, "×"),
        "times_faster": guess(times_faster, fastest, "×"),
        "mib_shown": guess(mib_shown, shown, "MiB"),
    },
    peak=value(peak, "FLOP/s", "best speed of a large matmul in fp32"),
    bandwidth=value(bandwidth, "B/s", "large vector changed in place, read and written"),
    copied=value(2 * copied, "B/s", "copy of a large vector, counted as two arrays"),
    ridge=value(ridge, "FLOP/byte", "the ridge"),
    added=value(100 * added / peak, "%", "of the matmul's speed reached by an addition"),
    eight=value(ratio, "×", "time of eight multiply-adds per element, one being 1"),
    stairs=value(fastest, "×", "speed of the CPU's fastest sum, its longest being 1"),
    roof=measurements.series([i for i, _ in points], [rate for _, rate in points], "FLOP/s", "chains over FLOP per byte"),
)

# %% [markdown] tags=["minutes-0"]
# ## Keep this, and what comes next
#
# ```python
# import torch
# # seconds() is lesson 01's timer, device is where you compute
#
# a = torch.rand(2048, 2048, device=device)
# x = torch.rand(2**26, device=device)
# peak = 2 * 2048**3 / min(seconds(lambda: a @ a))
# bandwidth = 2 * x.nbytes / min(seconds(x.neg_))  # in place: read, and written back
#
# def share_of_possible(work, operations, bytes_moved):
#     possible = min(peak, operations / bytes_moved * bandwidth)
#     return operations / min(seconds(work)) / possible
# ```
#
# You know your machine and its two limits. Lesson 03 moves work onto it, and finds out why the GPU waits.
