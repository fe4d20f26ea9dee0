# %%
import os
import re
import shutil
import subprocess
import sys

import torch

from colab_helpers import benchmark, facts, figures, hardware, runtime
from colab_helpers.lessons import exercises, reference

# %% tags=["parameters"]
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SECONDS_PER_POINT = 1.0  # time budget of one measurement

# %%
found = torch.accelerator.is_available()
device = torch.accelerator.current_accelerator() if found else torch.device("cpu")
inventory = hardware.list_devices()
machine = inventory.cpu if device.type == "cpu" else inventory.main  # what PyTorch computes on
budget = 0.05 if FAST else SECONDS_PER_POINT
device

# %% [markdown]
# ## The printout everybody pastes
#
# `nvidia-smi` asks the driver. Without a GPU you read one that a Colab T4 printed; the first line
# says which you are looking at.

# %%
recorded = facts.printout("nvidia-smi-t4")
smi = shutil.which("nvidia-smi")
done = subprocess.run([smi], capture_output=True, text=True, timeout=30) if smi else None
own = done is not None and done.returncode == 0
printout = done.stdout if own else recorded.text
print("This machine:" if own else f"Recorded: {recorded.source}", printout, sep="\n")

# %% [markdown]
# Read it line by line:
#
# | you see | it means |
# |---|---|
# | `Driver Version` | the program that runs the chip: part of the machine, nothing that `pip` changes |
# | `CUDA Version` | the newest CUDA this *driver* fully supports, not what is installed; newer drivers print `CUDA UMD Version` |
# | `Name` | the chip |
# | `Temp`, `Perf` | degrees; P0 is the fastest state, a higher number rests |
# | `Pwr:Usage/Cap` | watts now, watts allowed |
# | `Memory-Usage` | used and total, in MiB (2²⁰ bytes) |
# | `GPU-Util` | share of time in which *something* ran, however small |
# | `Processes` | who holds memory; in a container often empty |

# %%
readings = {
    name: re.search(rf"(\d+){unit}\s*/\s*(\d+){unit}", printout)
    for name, unit in {"MiB used": "MiB", "watts used": "W"}.items()
}
{name: " of ".join(found.groups()) if found else "not said" for name, found in readings.items()}

# %% [markdown]
# ## One memory, three sizes
#
# The shop's "16 GB" of a T4 are memory chips of 16 GiB. One part in sixteen goes to check bits that
# repair errors (ECC). `nvidia-smi` shows the rest, in MiB.
#
# **Predict.** What does it show?

# %%
prediction = 16000  # @param {type:"integer"}

# %% tags=["nbval-check-output"]
GIB = 2**30
left = 16 * GIB * 15 / 16
print(f"{left / 2**20:.0f} MiB = {left / GIB:.2f} GiB = {left / 1e9:.2f} GB; you said {prediction}")
facts.quote("t4-memory")

# %% [markdown]
# MiB and GiB are powers of two, MB and GB powers of ten: 5 and 7 % apart. PyTorch shows least: the
# driver keeps a share for itself. More than PyTorch shows you cannot have.

# %% [markdown]
# ## The same numbers from a program
#
# A printout is for eyes. Programs ask NVML, the library below `nvidia-smi`, through the package
# `nvidia-ml-py`.

# %%
def ask_nvml():
    import pynvml  # in the package nvidia-ml-py

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return pynvml.nvmlDeviceGetName(handle), f"{memory.total / 2**20:.0f} MiB"


try:
    nvml_says = ask_nvml()
except Exception as error:  # no package, no driver, or no GPU
    nvml_says = f"{type(error).__name__}: {error}"
nvml_says

# %% [markdown]
# `hardware.list_devices` asks NVML and, if that fails, `nvidia-smi`, where there is a driver; the PCI
# bus for TPUs; and always the CPU.

# %%
print(*inventory.devices, *inventory.problems, sep="\n")

# %% [markdown]
# ## What the frameworks see
#
# A GPU in `nvidia-smi` is not yet a GPU in PyTorch: the build has to fit the driver. Ask each
# framework itself.

# %%
{
    "version": torch.__version__,
    "built for CUDA": torch.version.cuda,
    "sees": str(device),
    "GiB": torch.cuda.get_device_properties(0).total_memory / GIB if device.type == "cuda" else None,
}

# %% [markdown]
# TensorFlow is asked in a process of its own, so that two frameworks don't share one GPU here.

# %%
question = "import tensorflow as tf; print(tf.__version__, tf.config.list_physical_devices())"
quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
if "tensorflow" in runtime.describe().frameworks:
    asked = subprocess.run(
        [sys.executable, "-c", question], capture_output=True, text=True, env=quiet, timeout=120
    )
    tensorflow_sees = asked.stdout.strip() or f"no answer: {asked.stderr[-200:]}"
else:
    tensorflow_sees = "TensorFlow is not installed here"
tensorflow_sees

# %% [markdown]
# ## Three CUDA versions, and cuDNN
#
# CUDA names three things here: what the driver can run, which compiler (`nvcc`, part of the
# *toolkit*) is installed, what the framework was built with. The first and the third have to fit.
# cuDNN is NVIDIA's library of network layers.

# %%
header = re.search(r"CUDA(?: UMD)? Version: *([\d.]+)", printout)
nvcc = shutil.which("nvcc")
compiler = subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout if nvcc else ""
release = re.search(r"release ([\d.]+)", compiler)
versions = {
    "driver supports": (header.group(1) if header else "?") + ("" if own else " (recorded T4)"),
    "toolkit (nvcc)": release.group(1) if release else "not installed",
    "PyTorch built for": torch.version.cuda or "CPU only",
    "cuDNN": torch.backends.cudnn.version() or "not in this build",
}
print(*(f"{name:>18}: {version}" for name, version in versions.items()), sep="\n")

# %% tags=["nbval-check-output"]
facts.quote("cuda-versions", "cuda-compatibility")

# %% [markdown]
# Try the rule: change both versions, foresee the answer, run.

# %% tags=["nbval-check-output"]
driver = "12.4"  # @param ["11.8", "12.4", "12.8", "13.0"]
built_for = "12.8"  # @param ["11.8", "12.4", "12.8", "13.0"]
major_of_driver, major_of_build = int(driver.split(".")[0]), int(built_for.split(".")[0])
"runs" if major_of_build <= major_of_driver else "driver too old"

# %% [markdown]
# The driver is not all: a framework also loads CUDA's *libraries*. PyTorch's packages bring their own.
# TensorFlow's may look for those of the machine, and find another version.

# %% tags=["nbval-check-output"]
facts.quote("tensorflow-cuda")

# %% [markdown]
# ## The CPU beside it
#
# The CPU feeds the GPU, so look at it too. A thread is a stream of work; a core does work. What a cloud
# calls a vCPU is often half a core: two of them take turns.
#
# **Predict.** With twice as many threads as cores, how many times faster than one thread?

# %%
foreseen_gain = 4.0  # @param {type:"number"}

# %%
cores = inventory.cpu.cores
powers_of_two = [2**k for k in range(cores.bit_length())]
counts = sorted({*powers_of_two, cores, 2 * cores})
a = torch.randn(1024, 1024)
default = torch.get_num_threads()
scaling = {}
for count in counts:
    torch.set_num_threads(count)
    scaling[count] = benchmark.measure(lambda: a @ a, budget=budget)
torch.set_num_threads(default)

# %%
gain = [scaling[1].median / scaling[count].median for count in counts]
figures.lines(
    counts, {"measured": gain}, ideal={"one core a thread": [min(n, cores) for n in counts]},
    title=f"{2 * cores} threads on {cores} cores: {gain[-1]:.1f} times (you said {foreseen_gain:g})",
    xlabel="threads", ylabel="times faster than one thread",
)

# %% [markdown]
# More threads than cores only take turns. Now memory and disk: the two that end a session without
# asking.

# %%
place = runtime.describe()
print(f"RAM  {place.ram_available / GIB:6.1f} of {place.ram_total / GIB:6.1f} GiB free")
print(f"disk {place.disk_free / GIB:6.1f} of {place.disk_total / GIB:6.1f} GiB free")
facts.quote("disk-used")

# %% [markdown]
# ## What a teraflop is
#
# Count the operations, time them, divide. A product of two n × n matrices takes n multiplications
# and n additions for each of its n² numbers: 2n³.
#
# **Predict.** How much of its best speed does your chip reach at n = 64?

# %%
share_at_64 = 0.5  # @param {type:"slider", min:0, max:1, step:0.05}

# %%
sizes = [64, 256, 1024] if FAST else [64, 256, 1024, 2048] + [8192] * (device.type != "cpu")
flops = {}
for n in sizes:
    a = torch.randn(n, n, device=device)
    flops[n] = 2 * n**3 / benchmark.measure(lambda: a @ a, budget=budget).median

# %%
peak = max(flops.values())
chip = machine.chip
sheet = {f"n = {n}": chip.peak["fp32"] for n in sizes} if chip and "fp32" in chip.peak else None
figures.bars(
    {f"n = {n}": value for n, value in flops.items()}, unit="FLOP/s", limits=sheet,
    title=f"At n = 64 you get {flops[64] / peak:.0%} of the best (you said {share_at_64:.0%})",
)

# %% [markdown]
# A tera is 10¹². The T4's data sheet says 8.1 TFLOP/s in float32: a limit that no program reaches, and
# n = 64 does not come near.

# %% [markdown]
# ## What bandwidth is
#
# Copy, count the bytes read *and* written, divide. On a CPU small arrays stay in its *cache*, a small
# fast memory; on a GPU small copies are over before they got going, and middling ones stay in its cache (an L4's
# has 48 MB). Large ones show the memory, so its limit is drawn beside those alone.

# %%
megabytes = [1, 16, 64] if FAST else [1, 4, 16, 64, 256] + [1024] * (device.type != "cpu")
copied = {}
for size in megabytes:
    source = torch.ones(size * 10**6 // 4, device=device)
    target = torch.empty_like(source)
    seconds = benchmark.measure(lambda: target.copy_(source), budget=budget).median
    copied[size] = 2 * size * 1e6 / seconds

# %%
bandwidth = copied[megabytes[-1]]
sheet = {f"{size} MB": chip.bandwidth for size in megabytes if size >= 256} if chip else None
figures.bars(
    {f"{size} MB": value for size, value in copied.items()}, unit="B/s", limits=sheet,
    title=f"Large copies move {bandwidth / 1e9:.0f} GB/s, 1 MB moves {copied[1] / 1e9:.0f} GB/s",
)

# %% [markdown]
# ## The roofline
#
# Two ceilings: how fast you compute, and how fast the numbers arrive. Which one you hit depends on
# the operations you do for each byte you move: the *arithmetic intensity*. A float32 has 4 bytes;
# `a + b` reads two and writes one, so 12 bytes for one addition.

# %%
N = 1024 if FAST else 2048
A, B, v = torch.randn(N, N, device=device), torch.randn(N, N, device=device), torch.randn(N, device=device)
tall = torch.randn(8 * N, N, device=device)  # too large for the cache
a, b, out = tall.flatten(), torch.randn_like(tall).flatten(), torch.empty_like(tall).flatten()
numbers = tall.numel()
workloads = {  # name: (call, operations, bytes moved)
    "a + b": (lambda: torch.add(a, b, out=out), numbers, 12 * numbers),
    "A @ v": (lambda: tall @ v, 2 * numbers, 4 * numbers),
    "A @ B": (lambda: A @ B, 2 * N**3, 12 * N**2),
}

# %% [markdown]
# **Predict.** Which of the three is held back by memory, not by arithmetic?

# %%
held_back = "a + b"  # @param ["a + b", "A @ v", "A @ B", "a + b and A @ v", "all three"]

# %%
points = {}
for name, (call, operations, moved) in workloads.items():
    seconds = benchmark.measure(call, budget=budget).median
    points[name] = operations / moved, operations / seconds

# %%
t4 = hardware.catalogue()["T4"]
peak = max(peak, points["A @ B"][1])  # a measured ceiling is the best of all runs
roofs = [figures.Roof(reference.short_name(machine), peak, bandwidth, measured=True)]
roofs.append(figures.Roof("T4 in fp32", t4.peak["fp32"], t4.bandwidth))
if chip and chip is not t4 and "fp32" in chip.peak:
    roofs.append(figures.Roof(f"{chip.key} in fp32", chip.peak["fp32"], chip.bandwidth))
ridge = peak / bandwidth
limited = [name for name, (intensity, _) in points.items() if intensity < ridge]
figures.roofline(
    roofs, points,
    title=f"Held back by memory: {' and '.join(limited)} (you said {held_back})",
)

# %% [markdown]
# Left of the bend a faster chip does not help, faster memory does. Right of it the other way round.
# The bend itself is the *ridge*.

# %%
print(f"ridge here: {ridge:.0f} FLOP a byte")
print(f"on a T4: {t4.ridge('fp32'):.0f} in fp32, {t4.ridge('fp16'):.0f} in fp16")

# %% [markdown]
# ## The chips side by side
#
# Numbers come in formats: fp32 has 32 bits; tf32, bf16 and fp16 keep fewer, fp8 has 8; int8 and int4
# are whole numbers. Fewer bits, more speed; lesson 07 shows the price. Each chip in its best format
# for training, from its data sheet ("with sparsity" halved; ≈: not printed there, inferred).

# %%
sheets = [sheet for sheet in hardware.catalogue().values() if sheet.where in ("free", "paid")]
sheets.sort(key=lambda sheet: sheet.peak[sheet.best_format])
peaks = {
    f"{'≈ ' * (sheet.confidence == 'L')}{sheet.key} in {sheet.best_format}": sheet.peak[sheet.best_format]
    for sheet in sheets
}
factor = max(peaks.values()) / min(peaks.values())
figures.bars(
    peaks, paper=peaks, unit="FLOP/s",
    title=f"On paper, Colab's chips differ by a factor of {factor:.0f}",
)

# %% tags=["nbval-check-output"]
for sheet in sheets:
    print(f"{sheet.key:8} {sheet.memory / 1e9:4.0f} GB {sheet.bandwidth / 1e9:6.0f} GB/s  "
          f"ridge {sheet.ridge():4.0f} FLOP/byte  native: {', '.join(sheet.native)}")

# %% [markdown]
# Old tutorials speak of K80, P100 and V100. Colab had them once. Read their numbers with that in
# mind.

# %% tags=["nbval-check-output"]
for sheet in hardware.catalogue().values():
    if sheet.where == "history":
        best = f"{sheet.peak[sheet.best_format] / 1e12:g} TFLOP/s in {sheet.best_format}"
        print(f"{sheet.key:5} {sheet.year}  {sheet.memory / 1e9:.0f} GB  {best}")

# %% [markdown]
# ## And a TPU?
#
# A TPU shows itself on the PCI bus, where looking costs nothing. `nvidia-smi` knows nothing of it;
# `tpu-info` is the tool, and JAX the framework.

# %%
print({hex(device): name for device, name in runtime.TPU_PCI_DEVICES.items()})
print("TPU here:", place.tpu or "none")
facts.quote("one-process-a-tpu", "no-tensorflow-on-tpu")

# %% [markdown]
# So look, don't touch, from a second process. In *this* process JAX may have the TPU. Without one it
# says what it found instead.

# %%
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leave the GPU's memory alone
if "jax" in place.frameworks:
    import jax

    try:
        jax_sees = jax.devices()
    except RuntimeError as error:  # another notebook has the TPU
        jax_sees = str(error)
else:
    jax_sees = "JAX is not installed here"
jax_sees

# %% [markdown]
# ## Exercises
#
# ### 1 · Bytes of a tensor
# A batch of 64 colour images, 224 by 224 pixels, in float32: how many MiB?

# %% tags=["exercise"]
mib = ...  # shape (64, 3, 224, 224)
### BEGIN SOLUTION
mib = 64 * 3 * 224 * 224 * 4 / 2**20
### END SOLUTION
exercises.check("02.tensor_bytes", mib)

# %% [markdown]
# ### 2 · What limits it?
# On a T4 in float32 (ridge: 25 FLOP a byte): `"compute"` or `"bandwidth"`? A product of two n × n
# matrices does 2n³ operations on 3 · 4n² bytes.

# %% tags=["exercise"]
limit = {"a * b + c": ..., "sum(a * b)": ..., "A @ B, n = 64": ..., "A @ B, n = 4096": ...}
### BEGIN SOLUTION
limit = dict(zip(limit, ["bandwidth", "bandwidth", "bandwidth", "compute"]))
### END SOLUTION
exercises.check("02.limits", limit)

# %% [markdown]
# ### 3 · Read a stranger's machine
# Somebody asks for help and pastes this.

# %% tags=["nbval-check-output"]
print(facts.printout("nvidia-smi-stranger"))

# %% [markdown]
# How many MiB are not in use? Which process (its PID) holds memory? Is the CUDA 13.0 toolkit installed
# there: `"yes"`, `"no"` or `"cannot tell"`?

# %% tags=["exercise"]
reading = {"MiB not in use": ..., "PID": ..., "CUDA 13.0 toolkit": ...}
### BEGIN SOLUTION
reading = {"MiB not in use": 23034 - 7532, "PID": 3485, "CUDA 13.0 toolkit": "cannot tell"}
### END SOLUTION
exercises.check("02.read_smi", reading)

# %% [markdown]
# ## What you measured

# %%
reference.record(
    "02_check_hardware", FAST, device=machine,
    thread_gain=reference.Value(max(gain), "×", f"most gained by threads, on {cores} cores"),
    flops=reference.Value(peak, "FLOP/s", "best speed in float32"),
    share=reference.Value(100 * flops[64] / peak, "%", "share of it at n = 64"),
    bandwidth=reference.Value(bandwidth, "B/s", f"copying {megabytes[-1]} MB"),
    ridge=reference.Value(ridge, "FLOP/byte", "the ridge of this machine"),
    speeds=reference.series(sizes, flops.values(), "FLOP/s", "n × n product"),
    copies=reference.series([m * 1e6 for m in megabytes], copied.values(), "B/s", "copy"),
)

# %% [markdown]
# ## What comes next
#
# You know the machine and its ceilings. The next lesson moves work onto it, and measures what the
# moving costs.
