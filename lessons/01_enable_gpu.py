# %%
# @title Imports { display-mode: "form" }
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch.nn import functional as F

from colab_helpers import benchmark, facts, hardware, published, runtime

from colab_lessons import exercises, figures, models, reference
from colab_lessons.predictions import guessed  # adds what you predicted to a title

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SECONDS = None
SIZES = None
CHAINS = None
MEGABYTES = None
LAYERS = None
BATCH = None
GPT_SECONDS = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
SECONDS = SECONDS or (0.05 if FAST else 0.3)  # time budget of one measurement; the repeat count follows from it
SIZES = SIZES or [2**k for k in range(4, 10 if FAST else 12)]  # of the matrices
CHAINS = CHAINS or [10**k for k in range(6 if FAST else 7)]  # how many chains grow at once
MEGABYTES = MEGABYTES or (8 if FAST else 64)  # of the file
LAYERS = LAYERS or (1 if FAST else 6)  # of the GPT
BATCH = BATCH or (1 if FAST else 32)
GPT_SECONDS = GPT_SECONDS or (0.5 if FAST else 10)

# %% [markdown] tags=["minutes-2"]
# ## Which machine are you on?
#
# The card above summed up the machine. Ask for yourself: first Python, then PyTorch, the framework that will use the chip.

# %%
place = runtime.describe()
place.platform_name, place.accelerator

# %%
has_accelerator = torch.accelerator.is_available()
device = torch.accelerator.current_accelerator() if has_accelerator else torch.device("cpu")
device, torch.cuda.get_device_name() if torch.cuda.is_available() else "no NVIDIA GPU"

# %% [markdown] tags=["minutes-3"]
# That picks `cuda` (NVIDIA), `mps` (Apple) or whatever else PyTorch can use here, and `cpu` if there is nothing.
# Everything below runs on `device`, so the same lesson works on every machine.
#
# ## Get a GPU
#
# This notebook asks Colab for a T4 by itself. If the card above shows no GPU, do this, then run the notebook from the top.

# %% tags=["nbval-check-output"]
facts.quote("switch-runtime", "request-not-guarantee", "no-backend")

# %% [markdown] tags=["minutes-5"]
# ## A few fast lanes, or thousands of slow ones
#
# Let us call whatever does one multiplication at a time a *lane*. (NVIDIA says *CUDA core*, CPU makers say *SIMD
# lane*; a TPU simply has multipliers.) A CPU has tens of them, or a few hundred: very quick ones, built to finish one thing after
# another. A GPU has thousands of slower ones. A TPU has one or a few huge fields of multipliers that can do little else.
#
# The names in the picture: a T4 is NVIDIA's small data-centre GPU of 2018, free on Colab; the L4, A100 and H100 that you meet later
# are newer and larger; v5e is one of Google's TPUs. fp32 and bf16 are numbers of 32 and 16 bits; a TFLOP/s is 10¹² operations per second.
#
# **Predict.** How many lanes does a T4 have for each lane of your CPU? Type a number, or leave it empty and just
# look. (What you see in a notebook that you have just opened comes from another machine: *Edit > Clear all outputs*
# hides it.)

# %%
lanes_per_lane = None  # @param {type:"integer"}

# %%
chips = hardware.catalogue()
inventory = hardware.list_devices()
cpu = inventory.cpu
lanes = chips["T4"].lanes / cpu.lanes
figures.lanes(cpu, [chips["T4"], chips["v5e"]], title=f"A T4 has about {lanes:,.0f} lanes for each of yours{guessed(lanes_per_lane)}")

# %% [markdown] tags=["minutes-10"]
# One square is one lane, and every chip gets the same area. (The v5e's 65,536 are too small to draw apart. On Colab two "cores"
# may be two names of one, and then you have half as many lanes as it says here.) Besides these lanes a T4 has *tensor cores*, small fields
# of multipliers for 16-bit numbers: on paper eight times as fast, and the subject of lesson 07. But more lanes do not make a single step
# any faster. They let thousands of equal, independent steps happen at once. Two races show what that means.
#
# ## Race 1: where lanes win
#
# The product of two n × n matrices has n² entries, and each is a sum of n products. That is 2n³ operations, and any number
# of lanes can share them. But handing work over takes time too, whatever its size. So small products lose.
#
# If you have a GPU, it races your CPU. The matrices already lie in its memory; lesson 03 measures what it costs to get
# them there. If not, one core of your CPU races two: a second *thread*, a stream of work of its own, gets
# half of the rows and has to be woken up first. That hand-over is as real as a GPU's, and often dearer; and the most it can pay is about a factor of two.
#
# **Predict.** From which size n on does the second contender win: two cores against one, or the GPU against the CPU?

# %%
crossing_at = None  # @param {type:"integer"}

# %%
def multiply(n, place):
    a = torch.randn(n, n, device=place)
    return lambda: a @ a


def multiply_there(n, place):
    a = torch.randn(n, n, device=place)

    def product():
        result = a @ a
        benchmark.synchronize()  # until the result is there
        return result

    return product


# %%
# @title The second core: a thread that takes half of the rows { display-mode: "form" }
second_core = ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,))


def multiply_in_halves(n, place):
    a = torch.randn(n, n, device=place)
    top, bottom = a[: n // 2], a[n // 2 :]

    def both():
        handed_over = second_core.submit(torch.matmul, top, a)
        return bottom @ a, handed_over.result()

    return both


# %%
if device.type == "cpu":
    contenders = {"one core": multiply, "two cores": multiply_in_halves}
else:
    contenders = {"CPU": multiply, "GPU": multiply_there}
first, second = contenders

# %% [markdown]
# `benchmark.measure` warms up, waits until the device is done, and repeats until its time budget is used up, but at least a few times. Lesson
# 03 shows what goes wrong without that.

# %%
threads = torch.get_num_threads()
torch.set_num_threads(1 if device.type == "cpu" else threads)  # so that one core is one core
race = {name: [] for name in contenders}
for n in SIZES:
    for name, prepare in contenders.items():
        work = prepare(n, device if name == "GPU" else "cpu")
        race[name].append(benchmark.measure(work, budget=SECONDS))
torch.set_num_threads(threads)

# %%
times = {name: [one.median for one in results] for name, results in race.items()}
crossing = benchmark.crossover(SIZES, times[first], times[second])
finding = f"faster from about n = {float(f'{crossing:.2g}'):.0f} on" if crossing else "never faster here"
f"{second}: {finding}"

# %% [markdown]
# Now compare with others. The dashed line is what a T4's data sheet allows: 2n³ operations at its peak in fp32. No T4
# gets below it, and for small n none gets near it, because a data sheet leaves out the hand-over. So add one. People have measured how long
# a small call to a GPU takes, and the best speed that a T4 on Colab reaches in such products. From these two numbers follows the other broken line, a T4 as
# you may expect it. (Waiting for each result adds a few microseconds more.)

# %%
def operations(n):
    return 2 * n**3


call = published.get("call-eager").value  # seconds
best = published.get("matmul-t4-formats").points["fp32"]  # operations a second
expected_t4 = [call + operations(n) / best for n in SIZES]
wins = benchmark.crossover(SIZES, times[first], expected_t4)
verdict = f"faster from about n = {wins:.0f} on" if wins else "never faster here"
f"{1e6 * call:.1f} µs a call and {best / 1e12:.1f} TFLOP/s: against {first}, such a T4 is {verdict}"

# %% [markdown]
# Hollow marks are GPUs that other people have measured; the caption says who. (Of the two numbers behind the T4's line, the speed was measured on Colab's T4, by
# zzc0721/torch-performance-test-data; the time of a call is from pytorch/pytorch #114860, on a GPU that is not named.) Both axes are logarithmic: each gridline up is ten times the time.

# %%
theirs = [published.get(f"matmul-{name}-fp32").taking(operations) for name in ("l4", "a100", "h100")]
figures.race(
    SIZES, times, xlabel="matrix size n", crossing=crossing, prediction=crossing_at, published=theirs,
    limits={"T4, data-sheet limit": [operations(n) / chips["T4"].peak["fp32"] for n in SIZES], "T4, as expected": expected_t4},
    title=f"{second[0].upper() + second[1:]} against {first}: {finding}{guessed(crossing_at)}",
)

# %%
h100 = theirs[-1]
ratios = {n: seconds / h100.points[n] for n, seconds in zip(SIZES, times[second]) if n in h100.points}
print(*(f"At n = {n} an H100 is {ratio:,.0f} times as fast as {second}." for n, ratio in ratios.items()), sep="\n")
print(f"At n = {SIZES[-1]} the T4 that you may expect is {times[first][-1] / expected_t4[-1]:,.0f} times as fast as {first}.")

# %% [markdown] tags=["minutes-7"]
# Left of the crossing you pay for the hand-over; right of it, you are paid for the lanes. (Hardly anybody is paid in full: a CPU's lanes
# are faster than a T4's, and a T4 reaches about half of its peak.) For large n the curves run
# roughly in parallel, because everybody has the same 2n³ operations to do: the vertical distance between two of them is
# the ratio of their speeds. Two cores should be twice as fast as one. Sometimes they are faster
# than that, since two cores also have two caches, and on Colab's CPU they often gain little, since its two "vCPUs" can be
# one core with two names. At n = 1024 even an A100 is far from its best: such a product is too small to fill it. And up to n = 2048 an L4
# beats it in plain fp32, where its data sheet promises 30 TFLOP/s against 19.5. What an A100 is made for comes in lesson 07.
#
# ## Race 2: one chain, many chains
#
# The second race separates the price of calling from that of computing. Take a chain of steps in which each needs the one before. This one is the
# *logistic map*, a toy model of a population that grows and starves. One chain cannot be shared out. But you can grow many
# side by side: put many numbers into one *tensor*, PyTorch's array, and each step advances them all.
#
# **Predict.** Suppose that a tensor with one chain takes a second. How many seconds does a tensor with ten thousand take?

# %%
times_as_long = None  # @param {type:"number"}

# %%
STEPS = 100


def grow(x):
    for _ in range(STEPS):
        x = 3.7 * x * (1 - x)  # each step waits for the last one
    return x


# %%
seconds = {}
for n in CHAINS:
    x = torch.rand(n, device=device)
    seconds[n] = benchmark.measure(lambda: grow(x), budget=SECONDS).median
alone = benchmark.measure(lambda: grow(0.5), budget=SECONDS).median  # a plain Python number
many = max(1, seconds[10**4] / seconds[1])  # below 1 is noise

# %%
figures.lines(
    CHAINS, {f"tensor on {device}": [*seconds.values()]}, log=True, units=("", "s"),
    xlabel="chains at once", ylabel="time for all of them",
    ideal={"one after another, in Python": [alone * n for n in CHAINS]},
    title=f"10,000 chains take {many:.1f} times as long as one{guessed(times_as_long)}",
)

# %%
f"one chain: {seconds[1] / alone:,.0f} times slower than plain Python; 10,000 at once: {alone * 10**4 / seconds[10**4]:,.0f} times faster for each"

# %% [markdown] tags=["minutes-3"]
# The flat part is the price of a *call*: Python hands each operation to PyTorch, and that takes a few microseconds
# whether it is for one number or for a thousand. A single chain pays nothing but that price, so plain Python beats it
# by far. Only when the computing takes longer than the calling does the curve begin to rise. A GPU's calls cost more, and
# it has so many more lanes, and so much faster memory, that its curve stays flat for longer.
#
# ## When reading is the bottleneck
#
# Reading is the CPU's work. If half of your time goes there, an infinitely fast GPU only doubles your
# overall speed. That is Amdahl's law, which is from 1967. Here you read a file of 64 MB, and add its numbers up. (The file has only just been
# written, so it comes from memory. A first read from a disk is slower still.)
#
# **Predict.** If adding up took no time at all, how many times as fast would the whole be?

# %%
at_best = None  # @param {type:"number"}

# %%
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "numbers.bin"
    path.write_bytes(torch.rand(MEGABYTES * 10**6 // 4).numpy().tobytes())
    reading = benchmark.measure(path.read_bytes, budget=SECONDS).median
    numbers = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.float32)
computing = benchmark.measure(lambda: numbers.to(device).sum(), budget=SECONDS).median

# %%
amdahl = (reading + computing) / reading
print(f"reading {1000 * reading:.1f} ms, adding up {1000 * computing:.1f} ms{', with the copy to the GPU' if has_accelerator else ''}")
print(f"If adding up took no time at all, the whole would be {amdahl:.2f} times as fast{guessed(at_best)}.")

# %% [markdown] tags=["minutes-7"]
# That last number is all that any chip, at any price, can give you here. If it is close to 1, then reading is what
# takes the time, and a GPU would spend its own time waiting. Work it out before you pay for one. What helps instead: read once and keep the
# data in memory, or read ahead while the chip computes (lessons 03 and 04).
#
# ## How long do 1,000 training steps take?
#
# Take a small GPT: a network that predicts the next piece of a text, with ten million *parameters*, the numbers that
# it learns. Do not run the thousand. Run a few, and multiply.

# %%
config = models.GPTConfig(n_layer=LAYERS)
model = models.GPT(config).to(device)
flops = models.training_flops(config, BATCH)  # forward and back
speed = operations(SIZES[-1]) / times[second][-1]  # the best of race 1, at its largest size
f"{model.parameter_count:,} parameters; {flops / 1e12:.2f} TFLOP a step; in race 1 you did {speed / 1e12:.2f} TFLOP/s"

# %% [markdown]
# **Predict.** How many minutes do 1,000 steps take on this machine? You have two numbers to go by.

# %%
minutes = None  # @param {type:"number"}

# %% [markdown]
# One step: predict the next *token* (a piece of text; here, random numbers will do) at every position, compare, go
# back through the network, and correct its parameters a little.

# %%
tokens = torch.randint(config.vocab_size, (BATCH, config.block_size + 1), device=device)
optimizer = torch.optim.AdamW(model.parameters())


def step():
    optimizer.zero_grad()  # forget the last step's corrections
    guesses = model(tokens[:, :-1])
    loss = F.cross_entropy(guesses.flatten(0, 1), tokens[:, 1:].flatten())  # rows and positions alike
    loss.backward()  # which way is less loss?
    optimizer.step()  # AdamW takes a small step that way
    return loss


# %%
one_step = benchmark.measure(step, budget=GPT_SECONDS, name="one GPT step")
one_step

# %% [markdown]
# A few steps are enough on a machine that keeps its pace, for every step does the same work. The ± says how well yours keeps it. (A T4 does not always:
# at 70 watts it lowers its clock after a while, and a long run comes out slower than a short one.) Multiply, and
# call the result what it is: an estimate.

# %%
here = 1000 * one_step.median
sheets = {"T4": ("fp32", "fp16"), "A100-40": ("bf16",)}
limits = {
    f"{key}, limit in {number_format}": 1000 * flops / chips[key].peak[number_format]
    for key, formats in sheets.items()
    for number_format in formats
}

# %%
a100 = published.get("gpt-a100").share(1000 / 5000 * BATCH / 64)  # theirs: 5,000 steps of 64 rows
figures.bars(
    {f"this machine, {device}": here, **limits}, paper=limits, unit="s", log=True,
    published={"a real A100, in bf16": a100},
    title=f"1,000 steps take about {here / 60:,.0f} minutes here{guessed(minutes)}",
)

# %% [markdown] tags=["minutes-1"]
# Grey circles are limits from data sheets: floors, not forecasts. How far a measurement lies above its circle shows what was wasted. The diamond is
# the same network on a real A100, run by someone else in 16-bit numbers and with a compiler; here it is scaled to your batch, as if half the rows took half the time. By its configuration, about a third
# of its time went into evaluation: 8,400 passes forward beside 5,000 steps. Even so it stays far from
# its limit, and is still hundreds of times as fast as a small CPU. Anyone who quotes such a ratio should name four things: the network, the
# batch, the chip, and the number format.
#
# ## And if you have no GPU?
#
# Then it is slower, not broken, unless your code insists on a GPU.
#
# ### WRONG: insist
#
# Without an NVIDIA GPU this line would stop the notebook. Here the error is caught and shown.

# %%
try:
    insisted = torch.zeros(2, device="cuda").device
except (RuntimeError, AssertionError) as error:
    insisted = f"{type(error).__name__}: {str(error).splitlines()[0]}"
insisted

# %% [markdown]
# ("Torch not compiled with CUDA enabled" means a PyTorch for CPUs only. On a machine that has an NVIDIA GPU it says that the wrong one is installed.)
#
# ### RIGHT: ask, and fall back

# %%
there = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
torch.zeros(2, device=there).device

# %% [markdown] tags=["minutes-1"]
# ## What it costs
#
# Some machines are free, and none is guaranteed. Units count only if you pay. These figures carry a date because they change.

# %% tags=["nbval-check-output"]
facts.machine_table()

# %% tags=["nbval-check-output"]
facts.quote("free-tier", "session-length", "compute-units", "end-session", "free-rules")

# %% [markdown] tags=["minutes-5"]
# ## Exercises
#
# ### 1 · Read the race
#
# At the largest size, what is the second contender's speed-up over the first? `race[first]` and `race[second]`
# hold one measurement for each size, and each of them has a `.median`, in seconds.

# %% tags=["exercise"]
speedup = ...
### BEGIN SOLUTION
speedup = race[first][-1].median / race[second][-1].median  # time before, divided by time after
### END SOLUTION
exercises.check("01.speedup", speedup, race=race)

# %% [markdown]
# ### 2 · Predict a crossing on paper
#
# Suppose that handing over costs 50 µs. One contender does 100 GFLOP/s (10⁹ operations per second), the other 400.
# From which n on does the second one win?

# %% tags=["exercise"]
hand_over, slow, fast = 50e-6, 100e9, 400e9
n = ...
### BEGIN SOLUTION
# They are level where the time that the faster one saves has paid for the hand-over:
# hand_over + 2n³/fast = 2n³/slow
n = (hand_over / (2 / slow - 2 / fast)) ** (1 / 3)
### END SOLUTION
exercises.check("01.crossover", n, hand_over=hand_over, slow=slow, fast=fast)

# %% [markdown]
# ### 3 · Choose a runtime
#
# Replace the dots by `"CPU"`, `"T4"`, `"A100"` or `"v5e-1"`. Two hints: a T4 computes in fp32 and fp16, an A100 in
# bf16 as well, a v5e in bf16; and this GPT is written in plain PyTorch, which a TPU does not run as it stands.

# %% tags=["exercise"]
choice = {
    "clean a table with pandas": ...,
    "train the GPT of this lesson, free of charge": ...,
    "simulate 10,000 days, each from the day before": ...,
    "run (not train) a 30 GB model in bf16": ...,
    "train a JAX model in bf16 on big batches, free of charge": ...,
}
### BEGIN SOLUTION
choice = {
    "clean a table with pandas": "CPU",  # pandas does not use a GPU by itself
    "train the GPT of this lesson, free of charge": "T4",
    "simulate 10,000 days, each from the day before": "CPU",  # one chain: a single lane at work
    "run (not train) a 30 GB model in bf16": "A100",  # the T4 and the v5e have 16 GB, a free CPU machine 12.7
    "train a JAX model in bf16 on big batches, free of charge": "v5e-1",
}
### END SOLUTION
exercises.check("01.runtimes", choice)

# %% [markdown]
# ### 4 · Open task: halve the time
#
# `slowly` grows 2,000 chains, one after another. Write `quickly`: the same answer, in half the time or less. The check
# runs both and compares their results. (This map is chaotic: a rounding error in the eighth digit takes over after some fifty of the hundred
# steps. So mind the number format: Python's numbers have 64 bits, and a tensor's 32 unless you say otherwise.)

# %% tags=["exercise"]
def slowly(starts):
    return [grow(x) for x in starts]


def quickly(starts):  # a list of numbers in, a list of numbers out
    return ...


### BEGIN SOLUTION
def quickly(starts):
    return grow(torch.tensor(starts, dtype=torch.float64)).tolist()  # all of them in one tensor


### END SOLUTION
exercises.check("01.quickly", quickly, slowly=slowly)

# %% [markdown] tags=["minutes-1"]
# ## Three things to take away

# %%
takeaways = {
    "More lanes win where work is large": f"{second} against {first}, {finding}.",
    "The call is what costs": f"10,000 chains in one tensor took {many:.1f} times as long as one.",
    "Estimate before you wait": f"1,000 steps of a GPT would take about {here / 60:,.0f} minutes on this machine.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %% [markdown]
# Your numbers, and beside them those of other machines that have been recorded, where there are any:

# %%
# @title Put predictions beside results { display-mode: "form" }
guess = reference.Prediction
predicted = {
    "lanes_per_lane": guess(lanes_per_lane, lanes, "×"),
    "crossing_at": guess(crossing_at, crossing),
    "times_as_long": guess(times_as_long, many, "×"),
    "at_best": guess(at_best, amdahl, "×"),
    "minutes": guess(minutes, here / 60, "min"),
}

# %%
# @title Keep them as a record { display-mode: "form" }
pair = "cores" if device.type == "cpu" else "gpu"
faster = times[first][-1] / times[second][-1]
value = reference.Value
reference.record(
    "01_enable_gpu", FAST, device=cpu if device.type == "cpu" else inventory.main, predicted=predicted,
    **{
        f"{pair}_crossing": value(crossing or 0, "", f"size from which {second} beat {first} (0: at none)"),
        f"{pair}_speedup": value(faster, "×", f"speed of {second}, {first} being 1, at n = {SIZES[-1]}"),
    },
    many_chains=value(many, "×", "time of 10,000 chains, one chain being 1"),
    lone_chain=value(seconds[1] / alone, "×", "time of one chain in a tensor, plain Python being 1"),
    amdahl=value(amdahl, "×", "most that computing faster can gain, when a file is read first"),
    gpt_1000_steps=value(here, "s", f"1,000 GPT steps, batch {BATCH} (estimate)"),
    **{
        f"matmul, {name}": reference.series(SIZES, each, "s", f"n × n product, {name}")
        for name, each in times.items()
    },
)

# %% [markdown] tags=["minutes-0"]
# ## What comes next
#
# You know *that* a chip wins, and from which size. The next lesson looks inside: what is this chip, how much can it do at
# most, and how close do you get?
