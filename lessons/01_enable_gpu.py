# %%
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from colab_helpers import benchmark, facts, figures, hardware, runtime
from colab_helpers.lessons import exercises, models, reference

# %% tags=["parameters"]
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SECONDS_PER_POINT = 0.3  # time budget of one measurement; the repeat count follows from it
GPT_SECONDS = 10  # time budget for the training steps near the end

# %% [markdown]
# ## Where are you, and on what?
#
# The card above has looked at the machine from outside. Now ask from inside: first Python, then the
# framework that will use the chip.

# %%
place = runtime.describe()
place.platform_name, place.accelerator

# %%
found = torch.accelerator.is_available()
device = torch.accelerator.current_accelerator() if found else torch.device("cpu")
device

# %% [markdown]
# That picks `cuda`, `mps` or whatever else PyTorch can use here, and `cpu` if there is nothing.
# Everything below runs on `device`, so the same lesson works on every machine.

# %% [markdown]
# ## Get a GPU
#
# This notebook asks Colab for a T4 by itself. If the card shows none, this is the way; then run from
# the top.

# %% tags=["nbval-check-output"]
facts.quote("switch-runtime", "request-not-guarantee", "no-backend")

# %% [markdown]
# ## Three kinds of processor
#
# Call a *lane* what does one multiplication at a time. A CPU has a few fast ones, made to finish one
# thing after another. A GPU has thousands of slower ones. A TPU is a field of multipliers that can do
# little else.
#
# **Predict.** How many lanes does a T4 have for each lane of your CPU? (The results you see in a
# notebook that you just opened are another machine's: *Edit > Clear all outputs* hides them.)

# %%
lanes_per_lane = 1000  # @param {type:"integer"}

# %%
chips = hardware.catalogue()
inventory = hardware.list_devices()
cpu = inventory.cpu
figures.lanes(cpu, [chips["T4"], chips["v5e"]])

# %%
f"{chips['T4'].lanes / cpu.lanes:,.0f} lanes for one of yours; you said {lanes_per_lane:,}"

# %% [markdown]
# More lanes do not make one step faster. They make thousands of *equal, independent* steps happen at
# once. (fp32, fp16, bf16: numbers in 32 or 16 bits. FLOP/s: operations a second.) Two races show what
# that means.

# %% [markdown]
# ## Race 1: where lanes win
#
# The product of two n × n matrices is n² sums of n products each: 2n³ operations, independent enough
# for any number of lanes. But handing work over costs time, whatever its size.
#
# **Predict.** From which n on does the second contender win?

# %%
prediction = 1024  # @param {type:"slider", min:16, max:2048, step:16}

# %%
def multiply(n, device):
    a = torch.randn(n, n, device=device)
    return lambda: a @ a


# %% [markdown]
# With a GPU, the matrices already lie in its memory; what the journey costs is lesson 03. Without one,
# the race is between one core of your CPU and two: a worker thread gets half of the rows. It has to be
# woken up, so here too handing over costs time.

# %%
worker = ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,))


def multiply_in_halves(n, device):
    a = torch.randn(n, n, device=device)
    top, bottom = a[: n // 2], a[n // 2 :]

    def both():
        handed_over = worker.submit(torch.matmul, top, a)
        return bottom @ a, handed_over.result()

    return both


# %%
if device.type == "cpu":
    contenders = {"one core": (multiply, "cpu"), "two cores": (multiply_in_halves, "cpu")}
else:
    contenders = {"CPU": (multiply, "cpu"), "GPU": (multiply, device)}
first, second = contenders  # their names

# %% [markdown]
# `benchmark.measure` warms up, waits until the device is done, and repeats until its time budget is
# used. Lesson 03 shows what goes wrong without that.

# %%
threads = torch.get_num_threads()
if device.type == "cpu":
    torch.set_num_threads(1)  # so that one core is one core

budget = 0.05 if FAST else SECONDS_PER_POINT
sizes = [2**k for k in range(4, 10 if FAST else 12)]
race = {name: [] for name in contenders}
for n in sizes:
    for name, (prepare, place_of_work) in contenders.items():
        race[name].append(benchmark.measure(prepare(n, place_of_work), budget=budget))
torch.set_num_threads(threads)

# %%
medians = {name: [result.median for result in results] for name, results in race.items()}
crossing = benchmark.crossover(sizes, medians[first], medians[second])
f"{second}: faster from n = {crossing:.0f} on" if crossing else f"{second}: never faster here"

# %% [markdown]
# The dashed line is no measurement. It is what the T4's data sheet allows: 2n³ operations at its
# peak in fp32. No T4 gets below it. Grey curves, if any, were recorded on other machines.

# %%
limit = {"T4, data-sheet limit": [2 * n**3 / chips["T4"].peak["fp32"] for n in sizes]}
recorded = {
    f"{name} ({record.label})": (curve.x, curve.y)
    for record in reference.load("01_enable_gpu")
    if record.device != reference.short_name(cpu)
    for name, curve in record.series.items()
}
finding = f"faster from n = {crossing:.0f} on" if crossing else "never faster here"
figures.race(
    sizes, medians, title=f"{second[0].upper()}{second[1:]}: {finding}", xlabel="matrix size n", limits=limit, recorded=recorded,
    crossing=crossing, prediction=prediction,
)

# %% [markdown]
# Left of the crossing (estimated between two sizes) you pay for handing over; right of it you are paid
# for the lanes. No crossing on Colab's CPU? Its two vCPUs are often one core that takes turns.

# %% [markdown]
# ## Race 2: what more lanes cannot speed up
#
# Here each step needs the one before: extra lanes have nothing to do. And a *tensor*, PyTorch's
# array, is handed to PyTorch anew in each step.
#
# **Predict.** How many times slower than a plain Python number is the tensor?

# %%
times_slower = 2  # @param {type:"integer"}

# %%
STEPS = 1_000


def grow(x):
    for _ in range(STEPS):
        x = 3.7 * x * (1 - x)  # each step waits for the last
    return x


# %%
growth = {
    "Python float": benchmark.measure(lambda: grow(0.5), budget=budget),
    "tensor, CPU": benchmark.measure(lambda: grow(torch.tensor(0.5)), budget=budget),
}
if device.type != "cpu":
    on_device = torch.tensor(0.5, device=device)
    growth[f"tensor, {device}"] = benchmark.measure(lambda: grow(on_device), budget=budget)

# %%
chain = {name: result.median for name, result in growth.items()}
last = list(chain)[-1]
slower = chain[last] / chain["Python float"]
figures.bars(
    chain, unit="s",
    title=f"A chain of steps: {last} takes {slower:.0f} times as long (you said {times_slower})",
)

# %% [markdown]
# Most of that is the price of a call, paid 3,000 times for one operation each. A GPU makes each
# call dearer, not cheaper.

# %% [markdown]
# ## What waits for a file
#
# Reading is the CPU's work. If half of your time goes there, an infinitely fast GPU makes the whole
# only twice as fast: that is Amdahl's law (1967). The file below was just written, so it comes from
# memory; a first read from a disk is slower still.

# %%
megabytes = 8 if FAST else 64
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "numbers.bin"
    path.write_bytes(os.urandom(megabytes * 10**6))
    reading = benchmark.measure(path.read_bytes, budget=budget)
    numbers = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
numbers = numbers.to(device)
computing = benchmark.measure(lambda: numbers.sum(), budget=budget)

# %%
whole = reading.median + computing.median
amdahl = whole / reading.median
print(f"read {reading}\ncompute {computing}")
print(f"If computing took no time at all, the whole would be {amdahl:.1f} times as fast.")

# %% [markdown]
# That number is all that a faster chip can give you here. Find it out before you pay for one.

# %% [markdown]
# ## The headline: how long do 1,000 training steps take?
#
# Take a small GPT, a network that foretells the next piece of a text, with about ten million
# parameters (numbers that it learns). Don't run the thousand: run a few, and multiply.

# %%
config = models.GPTConfig()
model = models.GPT(config).to(device)
f"{model.parameter_count:,} parameters"

# %% [markdown]
# **Predict.** Minutes for 1,000 steps on this machine?

# %%
minutes = 30  # @param {type:"number"}

# %% [markdown]
# One step: foretell the next token (a piece of text, here a random number) at every place, compare, go
# back through the network, correct its parameters.

# %%
BATCH = 1 if FAST else 32
tokens = torch.randint(config.vocabulary, (BATCH, config.context + 1), device=device)
optimizer = torch.optim.AdamW(model.parameters())


def step():
    optimizer.zero_grad()
    guesses = model(tokens[:, :-1])
    loss = torch.nn.functional.cross_entropy(guesses.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()  # in which direction is less loss?
    optimizer.step()  # a small step there
    return loss


# %%
one_step = benchmark.measure(step, budget=1 if FAST else GPT_SECONDS, name="GPT step")
print(one_step)

# %% [markdown]
# A few steps are enough: every step does the same work. Multiply, and write down that it is an
# estimate. The operations of a step, divided by a chip's peak, give its limit. And an old claim is
# drawn: "an hour or more on a CPU, 2 to 5 minutes on a GPU".

# %%
flops = models.training_flops(config, BATCH)
here = 1000 * one_step.median
limits = {
    f"{key}, limit in {number_format}": 1000 * flops / chips[key].peak[number_format]
    for key in ("T4", "A100-40")
    for number_format in ("fp32", "fp16")
}

# %%
figures.bars(
    {f"this machine, {device}": here, **limits}, paper=limits, unit="s", log=True,
    claims={"claimed\nfor GPUs": (120, 300), "claimed\nfor CPUs": (3600, float("inf"))},
    title=f"1,000 steps take {here / 60:,.1f} minutes here (you said {minutes:g})",
)

# %% [markdown]
# Hollow marks are limits from data sheets, not measurements: real runs take a multiple of them.
# Whether the claim holds depends on network, batch and chip; so name all three when you make one.

# %% [markdown]
# ## And if you have no GPU?
#
# Then it is slower, not broken, unless the code insists.
#
# ### WRONG: insist
# Without an NVIDIA GPU this line would stop the notebook; here the error is caught and shown.

# %%
try:
    insisted = torch.zeros(2, device="cuda").device
except (RuntimeError, AssertionError) as error:
    insisted = f"{type(error).__name__}: {str(error).splitlines()[0]}"
insisted

# %% [markdown]
# ### RIGHT: ask, and fall back

# %%
best = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
torch.zeros(2, device=best).device

# %% [markdown]
# ## What it costs
#
# Some machines are free, none is guaranteed. The figures come with a date because they change.

# %% tags=["nbval-check-output"]
facts.machine_table()

# %% tags=["nbval-check-output"]
facts.quote("free-tier", "session-length", "compute-units", "end-session", "free-rules")

# %% [markdown]
# ## Exercises
#
# ### 1 · Read the race
# How many times faster than the first is the second contender, at the largest size? (Below 1 means:
# slower.) `race[first][-1].median` is the first one's time there, in seconds.

# %% tags=["exercise"]
speedup = ...  # one line: the first one's time divided by the second one's
### BEGIN SOLUTION
speedup = race[first][-1].median / race[second][-1].median
### END SOLUTION
exercises.check("01.speedup", speedup, race=race)

# %% [markdown]
# ### 2 · Predict a crossing on paper
# Suppose handing over costs 50 µs, one contender does 100 GFLOP/s (10⁹ operations a second), the
# other 400. From which n on does the second one win?

# %% tags=["exercise"]
hand_over, slow, fast = 50e-6, 100e9, 400e9
n = ...  # solve hand_over + 2n³/fast = 2n³/slow
### BEGIN SOLUTION
n = (hand_over / (2 / slow - 2 / fast)) ** (1 / 3)
### END SOLUTION
exercises.check("01.crossover", n, hand_over=hand_over, slow=slow, fast=fast)

# %% [markdown]
# ### 3 · Choose a runtime
# Replace the dots by `"CPU"`, `"T4"`, `"A100"` or `"v5e-1"`. The T4 computes in fp32 and fp16, A100 and
# v5e also in bf16. A TPU's framework is JAX; this GPT is in PyTorch.

# %% tags=["exercise"]
choice = {
    "clean a table with pandas": ...,
    "train the GPT of this lesson, free of charge": ...,
    "simulate 10,000 days, each from the day before": ...,
    "run (not train) a 30 GB model in bf16": ...,
    "train a JAX model in bf16 on big batches, free of charge": ...,
}
### BEGIN SOLUTION
choice = dict(zip(choice, ["CPU", "T4", "CPU", "A100", "v5e-1"]))
### END SOLUTION
exercises.check("01.runtimes", choice)

# %% [markdown]
# ## What you measured
#
# Your numbers, beside those recorded on reference machines.

# %%
pair = "cores" if device.type == "cpu" else "gpu"
reference.record(
    "01_enable_gpu", FAST, device=cpu if device.type == "cpu" else inventory.main,
    **{
        f"{pair}_crossing": reference.Value(crossing or 0, "", f"{second}: faster from n = (0: never)"),
        f"{pair}_speedup": reference.Value(
            medians[first][-1] / medians[second][-1], "×", f"{second} against {first}, n = {sizes[-1]}"
        ),
    },
    chain=reference.Value(slower, "×", f"longer: a chain of steps, {last} against Python"),
    amdahl=reference.Value(amdahl, "×", "most you can gain by computing faster, file included"),
    gpt_1000_steps=reference.Value(here, "s", f"1,000 GPT steps, batch {BATCH} (estimate)"),
    **{
        f"matmul, {name}": reference.series(sizes, times, "s", f"n × n product, {name}")
        for name, times in medians.items()
    },
)

# %% [markdown]
# ## What comes next
#
# You know *that* a chip wins and from where on. The next lesson looks inside: what is this chip, what
# is the most it can do, and how close do you get?
