# %%
# @title Imports { display-mode: "form" }
import os
import re
import shutil
import subprocess

import torch

from colab_helpers import benchmark, facts, hardware, published, runtime

from colab_lessons import exercises, figures, reference
from colab_lessons.predictions import guessed

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SECONDS = None
SIZES = None
LARGER = None
LARGEST = None
BY = None
N = None
TIMES = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
SECONDS = SECONDS or (0.05 if FAST else 0.5)  # time budget of one measurement
SIZES = SIZES or ([64, 256, 1024] if FAST else [64, 128, 256, 512, 1024, 2048])  # of matrices
LARGER = ([] if FAST else [4096, 8192]) if LARGER is None else LARGER  # on a GPU, which needs them to get up to speed
LARGEST = LARGEST or (26 if FAST else 28)  # the largest data set has two to this power bytes; step
BY = BY or (2 if FAST else 1)
N = N or (1024 if FAST else 2048)  # of the roofline's matrices; the tall one has so many times the rows
TIMES = TIMES or (8 if FAST else 32)

# %%
has_accelerator = torch.accelerator.is_available()
device = torch.accelerator.current_accelerator() if has_accelerator else torch.device("cpu")
inventory = hardware.list_devices()
machine = inventory.cpu if device.type == "cpu" else inventory.main  # what PyTorch computes on
chip, t4 = machine.chip, hardware.catalogue()["T4"]
print(*inventory.devices, *inventory.problems, sep="\n")

# %% [markdown] tags=["minutes-8"]
# ## The printout that everybody pastes
#
# Ask for help anywhere, and you are told to run `nvidia-smi`. It asks the *driver*, the program that runs the chip. If you have no
# GPU, you will read one that a T4 on Colab printed; the first line says which of the two you are looking at.
#
# A T4 is sold with 16 GB. **Predict.** How many MiB does `nvidia-smi` show for it?

# %%
mib_shown = None  # @param {type:"integer"}

# %%
recorded = facts.printout("nvidia-smi-t4")
smi = shutil.which("nvidia-smi")
done = subprocess.run([smi], capture_output=True, text=True, timeout=30) if smi else None
own = done is not None and done.returncode == 0
printout = done.stdout if own else recorded.text
print("This machine:" if own else f"Recorded: {recorded.source}", printout, sep="\n")

# %% [markdown]
# Read these lines:
#
# | you see | it means |
# |---|---|
# | `Driver Version` | the program that runs the chip: a part of the machine, which `pip` cannot change; newer drivers print `KMD Version` |
# | `CUDA Version` | the newest CUDA that this *driver* supports, not what is installed; newer drivers print `CUDA UMD Version` |
# | `Temp`, `Perf` | degrees Celsius; P0 is the fastest state, higher numbers are slower, and at P8 the chip rests |
# | `Pwr:Usage/Cap` | watts now, and watts allowed: at 70 watts a T4 lowers its clock |
# | `Memory-Usage` | used and total, in MiB (2²⁰ bytes) |
# | `Volatile Uncorr. ECC` | a number, however small, says that *ECC* is on: check bits that find errors in memory and repair most of them; more below |
# | `GPU-Util` | the share of time in which *something* ran, however small: 100 % says little |
# | `Processes` | who holds memory; inside a container it is often empty |
#
# The other fields can wait.

# %%
GIB = 2**30
shown = int(re.search(r"/\s*(\d+)MiB", recorded.text)[1]) * 2**20
f"a T4 shows {shown / 2**20:.0f} MiB = {shown / GIB:.2f} GiB = {shown / 1e9:.2f} GB{guessed(mib_shown)}"

# %% tags=["nbval-check-output"]
facts.quote("t4-memory")

# %% [markdown] tags=["minutes-10"]
# On a T4 the memory chips hold 16 GiB, but one part in sixteen goes to ECC's check bits. The rest can be written in three ways,
# because MiB and GiB are powers of two while MB and GB are powers of ten. PyTorch shows less
# again, since the driver keeps a share for itself.
#
# ## What is a teraflop?
#
# Count the operations, time them, divide. Each of the n² numbers in the product of two n × n matrices takes n
# multiplications and n additions, so 2n³ in all. "Tera" is 10¹². A floating-point operation per second is one FLOP/s. And where does a
# data sheet get its number? A T4 has 2,560 lanes, each of which multiplies and adds once in a cycle, at 1.59 GHz: 2,560 × 2 × 1.59 · 10⁹ is 8.1 TFLOP/s.
#
# `benchmark.measure` calls a function again and again until its time budget is used up, waits each time until the chip is done, and takes the median.
#
# **Predict.** What percentage of its best speed does your chip reach at n = 64?

# %%
per_cent_at_64 = None  # @param {type:"number"}

# %%
speeds, sizes = {}, SIZES + LARGER * (device.type != "cpu")
for n in sizes:
    a = torch.randn(n, n, device=device)
    speeds[n] = 2 * n**3 / benchmark.measure(lambda: a @ a, budget=SECONDS).median
peak = max(speeds.values())

# %%
others = [published.get(f"matmul-{name}-fp32") for name in ("l4", "a100", "h100")]
wide = sorted({*sizes, *(n for row in others for n in row.points)})
figures.lines(
    wide, {machine.short_name: [speeds.get(n, float("nan")) for n in wide]}, doubling=True, log_y=True, units=("", "FLOP/s"),
    xlabel="matrix size n", ylabel="speed in fp32", published=others,
    ideal={"T4, data-sheet limit": [t4.peak["fp32"]] * len(wide)},
    title=f"At n = 64 you get {100 * speeds[64] / peak:.0f} % of your best speed{guessed(per_cent_at_64, ' %')}",
)

# %% [markdown]
# Small products never get up to speed: starting the work takes longer than doing it. A GPU has more lanes to fill, so it mostly
# needs larger products than a CPU: at n = 1024, an A100 reaches half of its best. A curve may fall again: yours where the matrices outgrow a cache, the L4's perhaps because
# it may use no more than 72 watts. And a T4? Somebody has measured one on Colab:

# %%
on_colab = published.get("matmul-t4-formats")
for name, speed in on_colab.points.items():
    sheet = f"of {t4.peak[name] / 1e12:g} on its data sheet" if name in t4.peak else "and its data sheet does not mention it"
    print(f"T4, {name}: {speed / 1e12:5.1f} TFLOP/s, {sheet}")
print(f"[{on_colab.credit}]")

# %% [markdown] tags=["minutes-9"]
# Half of the data sheet in fp32, two thirds in fp16: probably its 70 watts. What happens to bf16 is a story for lesson 07.
#
# ## What is bandwidth?
#
# Numbers have to arrive before anything can be done with them. So copy some, count the bytes that were read *and*
# written, and divide by the time. Do it for small and for large amounts. Between the cores and the large memory lie *caches*, small and fast memories;
# a CPU has two or three, each larger and slower than the one before.
#
# **Predict.** On your CPU, how many times as fast is the fastest copy as the largest one?

# %%
times_as_fast = None  # @param {type:"number"}

# %%
def copy_speeds(place):
    speeds = {}
    for k in range(14, LARGEST, BY):
        source = torch.ones(2**k // 4, device=place)
        target = torch.empty_like(source)
        seconds = benchmark.measure(lambda: target.copy_(source), budget=SECONDS / 2).median
        speeds[2 * 2**k] = 2 * 2**k / seconds  # bytes of both -> bytes per second
    return speeds


copied = {"CPU, copying": copy_speeds("cpu")}
if device.type != "cpu":
    copied[f"{machine.short_name}, copying"] = copy_speeds(device)

# %%
on_cpu = copied["CPU, copying"]
span = max(on_cpu.values()) / on_cpu[max(on_cpu)]
figures.lines(
    [*on_cpu], {name: [*speed.values()] for name, speed in copied.items()}, log=True, units=("B", "B/s"),
    xlabel="bytes in use", ylabel="bandwidth", published=[published.get("stairs-a100"), published.get("stairs-h200")],
    title=f"The CPU's fastest copy is {span:.1f} times as fast as its largest{guessed(times_as_fast)}",
)

# %% [markdown]
# On the left you see the price of a call again. Where the curve is highest, source and target fit into a cache; the cliffs are where they
# outgrow one. On the right you have reached the memory itself. GPUs have the same cliff, at ten to a hundred
# times the speed and more. The hollow curves come from one long GPU program that only reads. Time copies on a GPU of your own, as above, and the price
# of each call hides most of the cliff. An A100 reads 5.4 TB/s from its cache of 40 MB (the cliff begins before it is full), and 1.7 TB/s from
# its memory; an H200 doubles both. So a benchmark that copies 1 MB says nothing about memory. And a program
# that works on pieces small enough for the cache runs as if on a faster chip.
#
# How far away is a number? This is how long an A100 waits for a single one, by where it lies:

# %%
waits = published.get("latency-a100")
places = {"in the multiprocessor's own cache": 30, "in the cache of the whole chip": 2016, "in memory": 340388}
for where, kib in places.items():
    cycles = waits.points[1024 * kib]
    print(f"{where:>34}: {cycles:4.0f} clock cycles, {1000 * cycles / 1410:4.0f} ns")
print(f"{'[' + waits.credit + ']':>34}")

# %% [markdown] tags=["minutes-9"]
# More than five hundred cycles for a single number. (A *multiprocessor* is a group of lanes with a cache of its own; an A100
# has 108 of them.) A GPU does not avoid that wait. It keeps thousands of other threads at hand, streams of work that are
# ready to go on, and works on those meanwhile. That is why it wants so much to do at once.
#
# ## The roofline
#
# You have two ceilings now: how fast you compute, and how fast the numbers arrive. Which one you hit depends on how many
# operations you do for each byte that you move, the *arithmetic intensity*. Work one out by hand. `a + b`, a sum of two long lists, reads two
# float32 numbers and writes one: 12 bytes for one addition, or 1/12 of an operation for each byte. If memory delivers 48 GB/s, you get 4 billion
# additions a second, however fast the chip could add.
#
# Draw speed over intensity, and the two ceilings make a roof: a slope where memory sets the limit, and a flat part where computing does. The bend
# between them is the *ridge*. Left of it an operation is *memory-bound*, right of it *compute-bound*. Four workloads: `a + b`; `A @ v`, a large
# matrix times a vector; `A @ B`, the product of two large matrices; and `small A @ B`, the same for n = 32.

# %%
A, B, v = (torch.randn(*shape, device=device) for shape in ((N, N), (N, N), (N,)))
small = torch.randn(32, 32, device=device)
tall = torch.randn(TIMES * N, N, device=device)  # the A of A @ v: too large for any cache
a, b, out = tall.flatten(), torch.randn_like(tall).flatten(), torch.empty_like(tall).flatten()
count = tall.numel()
workloads = {  # name: (call, operations, bytes moved)
    "a + b": (lambda: torch.add(a, b, out=out), count, 12 * count),  # two read and one written, 4 bytes each
    "A @ v": (lambda: tall @ v, 2 * count, 4 * count),  # each number read once, used twice
    "small A @ B": (lambda: small @ small, 2 * 32**3, 12 * 32**2),  # each number used n times
    "A @ B": (lambda: A @ B, 2 * N**3, 12 * N**2),
}

# %% [markdown]
# First the roof. Its slope is the best of several ways to move bytes. (A plain copy is not always the fastest: a CPU reads the
# target's old contents before it overwrites them, and nobody counts those. A sum may be held back by its additions.)

# %%
streams = {"copy": (lambda: out.copy_(a), 8), "read": (lambda: a.sum(), 4), "in place": (lambda: out.mul_(1.0), 8)}
moved_at = {name: each * count / benchmark.measure(call, budget=SECONDS).median for name, (call, each) in streams.items()}
bandwidth = max(moved_at.values())
print(*(f"{name:>8}: {rate / 1e9:.1f} GB/s" for name, rate in moved_at.items()), sep="\n")
f"{peak / 1e9:.0f} GFLOP/s and {bandwidth / 1e9:.0f} GB/s: the ridge is at {peak / bandwidth:.1f} operations a byte"

# %% [markdown]
# **Predict.** Which of the four lie left of the ridge?

# %%
held_back = None  # @param ["a + b", "a + b and A @ v", "a + b and A @ v and small A @ B", "all of them"]

# %%
points = {}
for name, (call, operations, moved) in workloads.items():
    seconds = benchmark.measure(call, budget=SECONDS).median
    points[name] = operations / moved, operations / seconds
bandwidth = max(bandwidth, *(points[name][1] / points[name][0] for name in ("a + b", "A @ v")))  # a ceiling is the best of all runs
peak = max(peak, points["A @ B"][1])
ridge = peak / bandwidth

# %%
roofs = [figures.Roof(machine.short_name, peak, bandwidth, measured=True)]
sheets = {"T4": t4} | ({chip.key: chip} if chip and "fp32" in chip.peak else {})
roofs += [figures.Roof(f"{name} in fp32", sheet.peak["fp32"], sheet.bandwidth) for name, sheet in sheets.items()]
limited = " and ".join(name for name, (intensity, _) in points.items() if intensity < ridge)
figures.roofline(roofs, points, title=f"Left of the ridge: {limited}{guessed(held_back)}")

# %%
for name, (intensity, speed) in points.items():
    roof = min(peak, intensity * bandwidth)
    print(f"{name:>11}: {intensity:6.2f} operations a byte, {speed / roof:4.0%} of its roof")

# %% [markdown]
# A point near the slope waits for numbers: a chip that computes faster does not help it at all, faster memory does. Near the
# flat part, only faster arithmetic helps. And a point far below its roof is held back by neither. `small A @ B` is such a one: starting it takes
# longer than doing it. Left of the ridge says which roof is lower, not that you reach it: if `A @ v` hangs low on your machine, an ill-suited routine or too few
# threads could be the reason. So ask three questions of slow code: does it wait for memory, for computing, or for being started? How far a point hangs
# below its roof is the most that you can gain with the same bytes. (Move fewer bytes, and the point shifts to the right, under a higher roof: exercise 4.) And the ridge moves with the chip:

# %%
print(f"ridge here: {ridge:.0f} operations for each byte")
print(f"on a T4: {t4.ridge('fp32'):.0f} in fp32, {t4.ridge('fp16'):.0f} in fp16")

# %% [markdown] tags=["minutes-2", "short-0"]
# Two hundred operations for every byte, on a T4 in fp16. Hardly anything but large matrix products and convolutions does that much. A
# GPU that waits for its memory counts as busy all the same: 100 % utilisation is no proof of speed.
#
# ## The chips side by side
#
# Numbers come in formats: fp32 has 32 bits; tf32, bf16 and fp16 keep fewer, fp8 has 8, and int8 and int4 are whole
# numbers. Fewer bits, more speed, where a chip has units for them; lesson 07 shows the price. Here is each of Colab's chips in its best format for
# training, from its data sheet, hence hatched. (≈ means: not printed there, but inferred.)

# %%
sheets = [sheet for sheet in hardware.catalogue().values() if sheet.where in ("free", "paid")]
sheets.sort(key=lambda sheet: sheet.peak[sheet.best_format])
peaks = {f"{'≈ ' * (sheet.confidence == 'L')}{sheet.key} in {sheet.best_format}": sheet.peak[sheet.best_format]
         for sheet in sheets}
factor = max(peaks.values()) / min(peaks.values())
figures.bars(peaks, paper=peaks, unit="FLOP/s", title=f"On paper, Colab's chips differ by a factor of {factor:.0f}")

# %% tags=["nbval-check-output"]
for sheet in sheets:
    print(f"{sheet.key:8} {sheet.memory / 1e9:4.0f} GB {sheet.bandwidth / 1e9:6.0f} GB/s  "
          f"ridge {sheet.ridge():4.0f} FLOP/byte  native: {', '.join(name for name in sheet.native if 'int' not in name)}")

# %% [markdown]
# FLOP/s are half of the story. Look at the third column: the L4, twice as fast on paper and the better chip by far, has *slower* memory than the T4.
# Whatever is memory-bound gains nothing from the change, unless the L4's larger cache helps.
#
# Old tutorials speak of the K80, the P100 and the V100. Colab had them once; read their numbers with that in mind.

# %% tags=["nbval-check-output"]
for sheet in hardware.catalogue().values():
    if sheet.where == "history":
        best = f"{sheet.peak[sheet.best_format] / 1e12:g} TFLOP/s in {sheet.best_format}"
        print(f"{sheet.key:5} {sheet.year}  {sheet.memory / 1e9:.0f} GB  {best}")

# %% [markdown] tags=["minutes-2", "short-0"]
# ## The CPU beside it
#
# The CPU feeds the GPU, so look at it too. A *thread* is a stream of work, and a *core* runs it. What a cloud calls
# a vCPU is often one of two threads that share a core and its lanes.
#
# **Predict.** With twice as many threads as cores, how many times as fast as with one thread?

# %%
gain_of_threads = None  # @param {type:"number"}

# %%
cores = inventory.cpu.cores
counts = sorted({*(2**k for k in range(cores.bit_length())), cores, 2 * cores})
square, default, scaling = torch.randn(1024, 1024), torch.get_num_threads(), {}
for threads in counts:
    torch.set_num_threads(threads)
    scaling[threads] = benchmark.measure(lambda: square @ square, budget=SECONDS).median
torch.set_num_threads(default)

# %%
gain = [scaling[1] / scaling[threads] for threads in counts]
" · ".join(f"{threads} thread{'s' * (threads > 1)}: {times:.2f} times" for threads, times in zip(counts, gain)) + guessed(gain_of_threads)

# %% [markdown]
# Beyond one thread per core there is nothing to gain in arithmetic, and often something to lose: threads then take turns, and wait for each
# other at the end of each piece. Two cores seldom give exactly two: they share memory and clock, and may share one physical core between them; or, the other
# way, each brings a cache of its own. Less than one means that somebody else is using a core: run the cell again. Two more things that a session can run out of
# are memory and disk:

# %%
place = runtime.describe()
print(f"RAM  {place.ram_available / GIB:6.1f} of {place.ram_total / GIB:6.1f} GiB free")
print(f"disk {place.disk_free / GIB:6.1f} of {place.disk_total / GIB:6.1f} GiB free")
facts.quote("disk-used")

# %% [markdown] tags=["minutes-3"]
# ## When it breaks: which versions have to match
#
# A GPU in `nvidia-smi` is not yet a GPU in PyTorch. "CUDA" names three things: what the driver can run, which compiler
# (`nvcc`, part of the *toolkit*) is installed, and what a framework was built with. To run, only the first and the third have to
# fit: the major number of `CUDA Version` in `nvidia-smi` must be at least that of the build. (The toolkit matters when you compile an extension yourself. It can lie on a
# machine without any GPU.) cuDNN is NVIDIA's library of layers for neural networks.
#
# | you read | the cause | what helps |
# |---|---|---|
# | `The NVIDIA driver on your system is too old` | the build is for a newer CUDA than the driver knows | a framework built for an older CUDA |
# | `no kernel image is available for execution on the device` | the build has no code for a chip this old, or this new | a build that names your chip |
# | `Torch not compiled with CUDA enabled` | a PyTorch for CPUs only | install the build for GPUs, restart |

# %%
header = re.search(r"CUDA(?: UMD)? Version: *([\d.]+)", printout)
nvcc = shutil.which("nvcc")
compiler = subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout if nvcc else ""
release = re.search(r"release ([\d.]+)", compiler)
versions = {
    "driver supports": (header.group(1) if header else "?") if own else "no driver here",
    "toolkit (nvcc)": release.group(1) if release else "not installed",
    "PyTorch built for": torch.version.cuda or "CPU only",
    "cuDNN": torch.backends.cudnn.version() or "not in this build",
}
print(*(f"{name:>18}: {version}" for name, version in versions.items()), sep="\n")

# %% tags=["nbval-check-output"]
facts.quote("cuda-versions", "cuda-compatibility", "tensorflow-cuda")

# %% [markdown]
# Try the rule: choose two versions, say what will happen, and run.

# %% tags=["nbval-check-output"]
driver = "12.4"  # @param ["11.8", "12.4", "12.8", "13.0"]
built_for = "13.0"  # @param ["11.8", "12.4", "12.8", "13.0"]
major_of_driver, major_of_build = int(driver.split(".")[0]), int(built_for.split(".")[0])
"runs" if major_of_build <= major_of_driver else "driver too old"

# %% [markdown]
# (Within one major version an older driver runs a newer build, but may lack some of its features.)
#
# A printout is made for people. Programs ask NVML, the library below `nvidia-smi`, through the package `nvidia-ml-py`:

# %%
def ask_nvml():
    import pynvml  # that is how nvidia-ml-py is imported

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return pynvml.nvmlDeviceGetName(handle), f"{memory.total / 2**20:.0f} MiB"


try:
    nvml_says = ask_nvml()
except Exception as error:  # no package, no driver, or no GPU
    nvml_says = f"{type(error).__name__}: {error}"
nvml_says

# %%
{
    "NVML": nvml_says,
    "PyTorch": str(device),
    "GiB": torch.cuda.get_device_properties(0).total_memory / GIB if device.type == "cuda" else None,
}

# %% [markdown] tags=["minutes-1", "short-0"]
# ## And a TPU?
#
# You can spot a TPU on the PCI bus without starting it. `nvidia-smi` knows nothing of it: `tpu-info` is its
# tool, and JAX the framework that was made for it.

# %%
print("TPU here:", place.tpu or "none")
facts.quote("one-process-a-tpu", "no-tensorflow-on-tpu")

# %% [markdown] tags=["minutes-5"]
# ## Exercises
#
# ### 1 · Bytes of a tensor
#
# A batch of 64 colour images of 224 by 224 pixels, in float32: how many MiB is that?

# %% tags=["exercise"]
mib = ...  # its shape is (64, 3, 224, 224)
### BEGIN SOLUTION
mib = 64 * 3 * 224 * 224 * 4 / 2**20  # numbers, times 4 bytes each, in units of 2²⁰ bytes
### END SOLUTION
exercises.check("02.tensor_bytes", mib)

# %% [markdown]
# ### 2 · Which roof is lower?
#
# On a T4 in float32, whose ridge is at 25 operations per byte: which roof is above it, `"compute"` or `"bandwidth"`? The product of two n × n
# matrices does 2n³ operations on 3 · 4n² bytes. Take each line as done in one pass, with nothing stored in between.

# %% tags=["exercise"]
limit = {"a * b + c": ..., "sum(a * b)": ..., "A @ B, n = 128": ..., "A @ B, n = 4096": ...}
### BEGIN SOLUTION
limit = {
    "a * b + c": "bandwidth",  # 2 operations, 16 bytes
    "sum(a * b)": "bandwidth",  # 2 operations, 8 bytes
    "A @ B, n = 128": "bandwidth",  # n/6 operations for each byte: 21
    "A @ B, n = 4096": "compute",  # n/6 again: 683
}
### END SOLUTION
exercises.check("02.limits", limit)

# %% [markdown]
# ### 3 · Read a stranger's machine
#
# Somebody asks for help, and pastes this.

# %% tags=["nbval-check-output"]
print(facts.printout("nvidia-smi-stranger"))

# %% [markdown]
# How many MiB are not in use? Which process (its PID) holds memory? Is the CUDA 13.0 toolkit installed there: `"yes"`,
# `"no"` or `"cannot tell"`?

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
# ### 4 · Open task: go over memory less often
#
# `many_passes` makes sixty passes over the array. Write `fewer_passes`: the same numbers, in half the time or less, on the
# CPU. The check runs both. There is more than one way.

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
    for piece in result.split(2**16):  # 256 kB: all twenty rounds happen in the cache
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
    "Speed needs size": f"at n = 64 you got {100 * speeds[64] / peak:.0f} % of your best, {peak / 1e9:,.0f} GFLOP/s.",
    "Caches flatter benchmarks": f"the fastest copy was {span:.1f} times as fast as the largest.",
    "Two ceilings, one ridge": f"below {ridge:.0f} operations per byte, memory is the lower ceiling of this machine.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Put predictions beside results { display-mode: "form" }
guess = reference.Prediction
predicted = {
    "mib_shown": guess(mib_shown, shown / 2**20, "MiB"),
    "per_cent_at_64": guess(per_cent_at_64, 100 * speeds[64] / peak, "%"),
    "times_as_fast": guess(times_as_fast, span, "×"),
    "held_back": guess(held_back, "all of them" if limited.count(" and ") == 3 else limited),
    "gain_of_threads": guess(gain_of_threads, gain[-1], "×"),
}

# %%
# @title Keep them as a record { display-mode: "form" }
value = reference.Value
reference.record(
    "02_check_hardware", FAST, device=machine, predicted=predicted,
    flops=value(peak, "FLOP/s", "best speed in float32"),
    share=value(100 * speeds[64] / peak, "%", "of that speed reached at n = 64"),
    bandwidth=value(bandwidth, "B/s", "best bandwidth of large data"),
    stairs=value(span, "×", "speed of the CPU's fastest copy, its largest being 1"),
    ridge=value(ridge, "FLOP/byte", "the ridge: operations for each byte where both ceilings meet"),
    thread_gain=value(max(gain), "×", f"best speed with several threads on {cores} cores, one being 1"),
    speeds=reference.series(sizes, speeds.values(), "FLOP/s", "n × n product"),
    copies=reference.series(on_cpu, on_cpu.values(), "B/s", "copying on the CPU, by bytes in use"),
)

# %% [markdown] tags=["minutes-0"]
# ## What comes next
#
# You know the machine and its ceilings. The next lesson moves work onto it, and measures what the moving costs.
