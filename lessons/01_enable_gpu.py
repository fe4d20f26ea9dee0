# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
import os

FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SIZES = None
CROWDS = None
LAYERS = None
SEQUENCES = None
REPEATS = None
CHARACTERS = None

# %% tags=["sizes"]
# @title Imports, and the lesson's own sizes { display-mode: "form" }
import math
import re
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import torch
from torch.nn import functional as F

from colab_helpers import chip_rates, hardware, published_results

from colab_lessons import crossover, exercises, figures, models, reference, scoreboard, shakespeare, training
from colab_lessons.claims import holds  # says so where a sentence of the text isn't true on your machine
from colab_lessons.predictions import guessed  # adds what you predicted to a title

SIZES = SIZES or [2**k for k in range(4, 10 if FAST else 12)]  # of the matrices
CROWDS = CROWDS or [round(10 ** (k / 2)) for k in range(9 if FAST else 15)]  # elements that advance at once
LAYERS = LAYERS or (1 if FAST else 6)  # of the GPT
SEQUENCES = SEQUENCES or (2 if FAST else 32)  # in a batch
REPEATS = REPEATS or (1 if FAST else 3)  # timed training steps
CHARACTERS = CHARACTERS or (30 if FAST else 300)  # that the trained model writes

# %% [markdown] tags=["minutes-4"]
# ## Is there a GPU?
#
# Colab lends you a machine to run your notebook on, and most of its machines have no GPU. This notebook asks for one with a T4, a small NVIDIA GPU
# that costs nothing when one is available. NVIDIA's own tool will tell you whether you got it.

# %%
# !nvidia-smi 2>/dev/null || echo "nvidia-smi finds no NVIDIA GPU on this machine."

# %% [markdown]
# If that printed a table, you have a GPU, and lesson 02 goes through the table line by line. If it didn't and you'd like one, choose *Runtime >
# Change runtime type > T4 GPU > Save*. Colab then gives you a different machine, so you lose the files and variables on this one and have to run the
# notebook again from the top. You can also stay. Every cell below runs on a CPU, and where a GPU would change the picture, you'll see what to expect
# from a T4.

# %%
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
device

# %% [markdown]
# PyTorch's word for a chip that it can compute on, other than the CPU, is *accelerator*. `cuda` is a GPU from NVIDIA (or AMD); `mps` is the one in a
# Mac. Code that asks first, as this line does, runs on all of them, and on a plain CPU too. (A TPU needs another way, which lesson 05 shows.) Code
# that hard-codes `"cuda"` stops with an error on a machine without an NVIDIA GPU.
#
# Free GPUs are rationed by how much you've used lately, so when you've finished, give yours back with *Runtime > Disconnect and delete runtime*.

# %% [markdown] tags=["minutes-8"]
# ## The job
#
# Your first job for a GPU is to train a small language model on Shakespeare. This is what it reads:

# %% tags=["nbval-check-output"]
text = shakespeare.load()  # one small integer per character
print(f"{len(text):,} characters, {len(shakespeare.CHARACTERS)} different ones. For example:\n")
print(shakespeare.decode(text[835_421:835_730]))

# %% [markdown]
# The model is a GPT, a *transformer* that looks at up to 256 characters and predicts which one comes next. It has about ten million *parameters*, the
# numbers that training adjusts. That's tiny, but it's built the way the large ones are.
#
# Training repeats one step over and over. A *batch* of 32 sequences goes through the model, and the *loss* says how badly the next characters were
# predicted. Then every parameter is nudged in the direction that lowers the loss.

# %%
def batch(sequences, place):
    starts = torch.randint(len(text) - 256, (sequences, 1))
    chunk = text[starts + torch.arange(257)].long().to(place)  # (sequences, 257)
    return chunk[:, :-1], chunk[:, 1:]  # what the model sees, and what it should say: one place further on


def training_step(place):
    model = models.GPT(models.GPTConfig(n_layer=LAYERS)).to(place)  # the parameters live where the work is done
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        ids, targets = batch(SEQUENCES, place)  # (32, 256) each
        logits = model(ids)  # (32, 256, 96): a score for each possible character
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()  # in which direction does each parameter lower the loss?
        optimizer.step()  # take a small step in that direction
        optimizer.zero_grad()
        return loss

    return step


step = training_step(device)
print(*(f"step {i}: loss {step().item():.2f}" for i in (1, 2, 3)), sep="\n")
print(f"Guessing uniformly among {len(shakespeare.CHARACTERS)} characters would give a loss of {math.log(len(shakespeare.CHARACTERS)):.2f}.")

# %% [markdown]
# A card like the T4 has its own memory, and PyTorch wants everything that an operation uses to be there. `.to(place)` copies it: the parameters once,
# and each batch as it comes. If you forget either one, PyTorch stops with `Expected all tensors to be on the same device`, an error that you're
# likely to meet soon.
#
# After three steps the model still knows next to nothing. We've run 1,000 for you, on two CPU cores, and saved the weights. Here is what that model
# generates:

# %%
trained = models.trained()
written = training.sample(trained, prompt="ROMEO:\n", count=CHARACTERS)
print(written)

# %%
# @title How many of these are words? { display-mode: "form" }
known = set(re.findall("[A-Za-z']+", shakespeare.read()))
words = re.findall("[A-Za-z']+", written.removeprefix("ROMEO:"))[:-1]  # the last one may be cut off
right = sum(word in known for word in words) / len(words)
print(f"{right:.0%} of these {len(words)} words occur in the text that it learned from.")
holds(right, 0.75, 1, "Most of the words are real.", fast=FAST)

# %% [markdown]
# It makes no sense, but it's laid out like a play, and most of the words are real. All the model was ever asked to do was predict the next character.
# How long would your machine need to get that far?
#
# **Predict.** You've just watched three steps run. How many minutes would 1,000 of them take if the CPU of this machine had only one core?

# %%
minutes_on_one_core = None  # @param {type:"number"}

# %% [markdown] tags=["minutes-8"]
# ## The wrong clock, and the right one
#
# Before you time a model, time something that you can check. When you multiply two n × n matrices, each of the n² elements of the result takes n
# multiplications and n additions. That makes 2n³ floating-point operations, or *FLOPs*: about two billion for n = 1024. Divide that by the time it
# took, and you have a speed, in *FLOP/s*.

# %%
a = torch.rand(1024, 1024, device=device)
if device.type == "cpu":
    stream = ThreadPoolExecutor(1)  # a thread that works through a queue, standing in for a GPU
    launch, wait = lambda: stream.submit(torch.matmul, a, a), lambda: stream.submit(int).result()
else:
    launch, wait = lambda: a @ a, torch.accelerator.synchronize

launch(), wait()  # once, untimed
start = time.perf_counter()
for _ in range(10):
    launch()
returned = time.perf_counter() - start
wait()
finished = time.perf_counter() - start
for when, took in {"the last call returned": returned, "the work was done": finished}.items():
    print(f"Clock stopped when {when}: {1000 * took:,.2f} ms for ten matmuls, or {10 * 2 * 1024**3 / took / 1e12:,.2f} TFLOP/s.")

# %%
# @title Check { display-mode: "form" }
holds(10 * 2 * 1024**3 / returned, 8.1e12, math.inf, "The first line claims more than a T4 can do at most.", fast=FAST)

# %% [markdown]
# The data sheet of a T4 promises 8.1 TFLOP/s at most for *fp32*, the 32-bit floating-point numbers that PyTorch uses by default, and even a chip far
# larger than a T4 couldn't do what the first line says. The division is right, but the clock was stopped too early.
#
# Work on a GPU is *asynchronous*. PyTorch adds each operation to a queue, called a *stream*, and returns while the GPU is still busy with earlier
# ones. If you stop the clock there, you've timed the request. To time the work, you have to *synchronize*, which means to wait until the queue is
# empty. Anything that needs the result waits as well: the `.item()` that read the loss did. (On a CPU, PyTorch's own calls return when they're done.
# There the cell uses a queue and a worker thread, which fool the clock in the same way.)
#
# The cell avoids a second trap by calling `launch` once before it starts the clock. A first call pays for things that later ones reuse, such as
# loading code onto the GPU and allocating memory. The untimed call is a *warm-up*, and a warm-up and a wait make an honest timer:

# %%
def seconds(work, place, repeats=5):
    """Times of `work()` in seconds, after one call that isn't timed."""
    times = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        work()
        if place.type != "cpu":
            torch.accelerator.synchronize()
        times.append(time.perf_counter() - start)
    return times[1:]


# %% [markdown]
# When you compare speeds, take the smallest of these times. Other programs share this machine, and nearly everything they do makes yours slower, so
# the minimum is the least disturbed. When you want to know how long you'll wait, the median is more honest.
#
# How long will the job take? We time it on one core, because on a shared machine the second one makes timings jump.

# %%
cpu = torch.device("cpu")
torch.set_num_threads(1)  # one core
places = {"one CPU core": cpu} | ({} if device.type == "cpu" else {"your GPU": device})

steps = {name: seconds(training_step(place), place, REPEATS) for name, place in places.items()}
job = {name: 1000 * statistics.median(times) for name, times in steps.items()}
print(*(f"{name}: {time / 60:,.0f} minutes for 1,000 steps, extrapolated from {REPEATS}" for name, time in job.items()), sep="\n")
if minutes_on_one_core is not None:
    print(f"You said {minutes_on_one_core:g} minutes.")

# %% [markdown]
# That's the price of a model that is tiny by today's standards. The rest of this lesson asks where the time goes, and how much of it a GPU would
# save.

# %% [markdown] tags=["minutes-9"]
# ## When does a GPU win?
#
# Nearly all the arithmetic in that step is matrix multiplication, *matmul* for short, and the elements of a matmul's result don't depend on one
# another. They can all be computed at the same time, given enough arithmetic units. NVIDIA calls them *CUDA cores*, and each does a multiplication
# and an addition per clock cycle.

# %%
t4, sheet = chip_rates.rates("T4"), hardware.catalog()["T4"]
n = SIZES[-1]
a = torch.rand(n, n)
core = 2 * n**3 / min(seconds(lambda: a @ a, cpu))
print(f"a T4: {sheet.fp32_lanes:,} CUDA cores × 2 FLOPs × 1.59 GHz = {sheet.fp32_lanes * 2 * 1.59e9 / 1e12:.1f} TFLOP/s at most, {t4['fp32'].value / 1e12:.1f} measured ({published_results.get('matmul-t4-formats').credit})")
print(f"this core: {core / 1e9:,.0f} GFLOP/s, measured at n = {n:,}")

# %% [markdown]
# A program that many threads run at once, spread over these units, is called a *kernel*. Calling PyTorch and having it *launch* a kernel costs
# microseconds, however small the matrix is, and waiting for the end costs a few more. Together they're the call's *overhead*.
#
# **Predict.** Say that the overhead is 20 µs. At what n does the T4 start to beat this core? To a first approximation, the two speeds above are all
# you need: 2n³ ÷ core = overhead + 2n³ ÷ T4.

# %%
gpu_wins_from = None  # @param {type:"integer"}

# %%
race = {name: [] for name in places}
for n in SIZES:
    for name, place in places.items():
        a = torch.rand(n, n, device=place)
        race[name].append(min(seconds(lambda: a @ a, place, repeats=20)))

# An expected T4: overhead, then arithmetic or memory traffic, whichever takes longer. The overhead is one launch and one wait, as in `seconds`.
overhead = t4["launch"].low + 4e-6, t4["launch"].high + 10e-6
expected = [[extra + max(2 * n**3 / t4["fp32"].value, 3 * 4 * n**2 / t4["memory"].value) for n in SIZES] for extra in overhead]

# %%
# @title Draw the race { display-mode: "form" }
mine = race["one CPU core"]
rivals = [race["your GPU"]] if "your GPU" in race else expected
found = sorted({float(f"{c:.2g}") for c in (crossover.crossover(SIZES, mine, rival) for rival in rivals) if c})
between = " to ".join(f"{c:,.0f}" for c in found) or "no size here"
rival = "Your GPU overtakes" if "your GPU" in race else "A T4 should overtake"
figures.race(
    SIZES, race, bands={} if "your GPU" in race else {"a T4, expected": tuple(expected)}, shade=found, prediction=gpu_wins_from,
    xlabel="matrix size n", ylabel="time for one matmul",
    title=f"{rival} one CPU core at n = {between}{guessed(gpu_wins_from)}",
)

# %%
# @title What the figure says { display-mode: "form" }
if "your GPU" in race:
    fastest = 2 * SIZES[-1] ** 3 / race["your GPU"][-1]
    print(f"A matmul of 16 × 16 takes your GPU {1e6 * race['your GPU'][0]:.0f} µs, nearly all of it overhead. At n = {SIZES[-1]:,} it's {mine[-1] / race['your GPU'][-1]:.0f}× as fast as the core.")
else:
    even = [(extra * t4["fp32"].value / 2) ** (1 / 3) for extra in overhead]
    print(f"The band is a T4 that needs {1e6 * overhead[0]:.0f} to {1e6 * overhead[1]:.0f} µs to launch a kernel and wait for it (our estimate) and then computes at its published speed.")
    print(f"Overhead and arithmetic take the same time between n = {even[0]:.0f} and {even[1]:.0f}. At n = {SIZES[-1]:,} the T4 is {mine[-1] / expected[0][-1]:.0f}× as fast as the core.")
small, on_paper = 2 * 64**3 / mine[SIZES.index(64)], (20e-6 / (2 / core - 2 / t4["fp32"].value)) ** (1 / 3)
print(f"On paper, 20 µs give n = {on_paper:.0f}. But at n = 64 the core reaches {small / 1e9:.0f} of its {core / 1e9:.0f} GFLOP/s, so it loses earlier.")
holds(found[-1] if found else math.nan, 30, 1000, "The GPU overtakes one core between n = 30 and n = 1000.", fast=FAST)

# %% [markdown]
# On the left, the GPU is *launch-bound*: all of its time is overhead, and a GPU twice as fast would finish no sooner. The core's time climbs nearly
# eightfold whenever n doubles, once n is large enough to keep it busy, so somewhere the two must meet. On the far right the GPU is bound by its
# arithmetic as well, and the distance between the lines is the ratio of the two speeds.
#
# If a GPU ever disappoints you, ask which side of the crossover you're on. A small network with a small batch is on the left. Give the GPU more work
# per launch there: a larger batch, for instance.

# %% [markdown] tags=["minutes-7"]
# ## How much is enough?
#
# A matmul is ideal work for a GPU. Take something less convenient: a chain of a hundred steps, each of which needs the result of the one before. No
# number of arithmetic units shortens such a chain, but you can *vectorize*, which means to advance many chains together as the elements of one
# *tensor*, PyTorch's array. The formula is the *logistic map*, a toy model of a population.

# %%
def advance(x, scratch):
    for _ in range(100):
        torch.mul(x, x, out=scratch)  # x², into memory that is already there
        x.sub_(scratch).mul_(3.7)  # x becomes 3.7 · (x - x²)


# %% [markdown]
# **Predict.** On one core, how many times as long do a thousand elements take as one?

# %%
thousand_takes = None  # @param {type:"number"}

# %%
crowd = {name: {n: [] for n in CROWDS} for name in places}
for _ in range(3):  # rounds, so that a slow moment of this machine doesn't fall on one size alone
    for n in CROWDS:
        for name, place in places.items():
            x = torch.rand(n, device=place)
            scratch = torch.empty_like(x)
            crowd[name][n] += seconds(lambda: advance(x, scratch), place, repeats=10 if n < 10**5 else 1)

# %%
# @title Draw the chains { display-mode: "form" }
# An expected T4: 300 launches and one wait, while the memory moves 28 bytes per element and step. The longer of the two counts.
ends = [
    [max(300 * launch + wait, 100 * 28 * n / t4["memory"].value) for n in CROWDS]
    for launch, wait in ((t4["launch"].low, 4e-6), (t4["launch"].high, 10e-6))
]
alone = [*map(min, crowd["one CPU core"].values())]
ratio = alone[CROWDS.index(1000)] / alone[0]
others = [[*map(min, crowd["your GPU"].values())]] if "your GPU" in crowd else ends
passed = [crossover.crossover(CROWDS, alone, other) for other in others]
enough = " to ".join(f"{float(f'{n:.1g}'):,.0f}" for n in passed if n) or "no such number of"
holds(ratio, 0.8, 2, "A thousand elements take hardly longer than one.", fast=FAST)
figures.race(
    CROWDS, {name: [*map(min, times.values())] for name, times in crowd.items()}, bands={} if "your GPU" in crowd else {"a T4, expected": ends},
    xlabel="elements that advance side by side", ylabel="time for 100 steps",
    title=f"A thousand elements take one core {ratio:.1f}× as long as one{guessed(thousand_takes, '×')}\n{rival} it at {enough} elements",
)

# %% [markdown]
# On the left, even the CPU has an overhead. Python calls PyTorch 300 times, and each call costs about as much for a thousand elements as for one. A
# GPU's calls cost more, so it starts higher and stays flat longer, and it needs a larger tensor to win.
#
# On the right, time grows with the tensor, because every step reads and writes all of it. The core's line gets steeper still where the tensor
# outgrows its cache. That's the subject of lesson 02.
#
# A GPU doesn't do any one thing faster. It does many things at once, and it's up to you to give it many.

# %% [markdown] tags=["minutes-8"]
# ## How long will it take?
#
# Back to the job. You can estimate its time on any machine without running a step. A language model reads *tokens*, which here are characters. In the
# *forward pass*, nearly every parameter takes part in one multiplication and one addition per token. The *backward pass* does that twice more: once
# to pass the gradient on to the layer before, and once for the gradients of the parameters. That makes about six FLOPs per parameter per token, a
# rule that's often written as 6ND.

# %%
parameters = models.GPT(models.GPTConfig(n_layer=LAYERS)).parameter_count
tokens = 1000 * SEQUENCES * 256
flops = 6 * parameters * tokens
matmul_speed = {name: 2 * SIZES[-1] ** 3 / times[-1] for name, times in race.items()}  # FLOP/s, from the race
estimate = {name: flops / speed for name, speed in matmul_speed.items()}
print(f"6 × {parameters:,} × {tokens:,} = {flops:.1e} FLOPs")
print(*(f"{name}: {estimate[name] / 60:,.1f} minutes at {speed / 1e9:,.0f} GFLOP/s" for name, speed in matmul_speed.items()), sep="\n")

# %% [markdown]
# **Predict.** Training isn't all matmul. What percentage of the core's matmul speed does it reach?

# %%
percent_of_speed = None  # @param {type:"number"}

# %%
share = {name: estimate[name] / (1000 * min(steps[name])) for name in places}  # both at their best
h100 = 1000 * scoreboard.job_record("nvidia-h100")["steps"]["as written"]["seconds_waiting_each_step"]
h100_rule = flops / chip_rates.rates("H100")["fp32"].value
print(*(f"{name}: {part:.0%} of its matmul speed" for name, part in share.items()), sep="\n")
print(f"an H100, recorded by us: {scoreboard.FLOPS / chip_rates.rates('H100')['fp32'].value / h100:.0%} of the matmul speed that others measured")

# %%
# @title Compare the machines { display-mode: "form" }
rows = {f"{name}, {what}": times[name] for name in places for what, times in (("estimated", estimate), ("measured", job))}
rows |= {} if device.type == "cuda" else {"a T4, estimated": flops / t4["fp32"].value}
rows |= {"an H100, estimated": h100_rule}
rows |= {} if FAST else {"an H100, recorded by us": h100}
last = [*places][-1]
holds(100 * share["one CPU core"], 50, 100, "On a CPU, matmuls are the larger part of the time.", fast=FAST)
figures.contenders(
    rows, unit="s", xlabel="time for 1,000 training steps",
    title=f"On {last}, training reaches {share[last]:.0%} of matmul speed{guessed(percent_of_speed, '%')}",
)

# %% [markdown]
# One division gives you the right order of magnitude. The estimate is a best case, because the rule leaves things out: attention's own matmuls, which
# add about a tenth here, and everything that isn't a matmul, such as softmax, normalization, and the optimizer. On the core, the matmuls are still
# most of the time. On the H100, whose profile comes with the course, they're little more than half of it, because it's so much faster at them than at
# everything else, and because it waits for Python.
#
# What is that rest, and could you get rid of it? Lessons 02, 03 and 10 are about little else.

# %% [markdown] tags=["minutes-5", "short-0"]
# ## Exercises
#
# ### 1 · Predict a crossover on paper
#
# The overhead of a call is 50 µs. A CPU does 100 GFLOP/s and a GPU 4 TFLOP/s. At what n does the GPU start to win?

# %% tags=["exercise"]
launch, slow, fast = 50e-6, 100e9, 4e12
n = ...
### BEGIN SOLUTION
# The times are equal where launch + 2n³/fast = 2n³/slow.
n = (launch / (2 / slow - 2 / fast)) ** (1 / 3)
### END SOLUTION
exercises.check("01.crossover", n, launch=launch, slow=slow, fast=fast)

# %% [markdown]
# ### 2 · Plan a training run
#
# You want to train the GPT-2 with 124 million parameters on 100 million tokens. How many hours does that take on one core of this machine, and how
# many on a T4 in fp32? Use the bare rule, and the speeds in `matmul_speed["one CPU core"]` and `t4["fp32"].value`.

# %% tags=["exercise"]
hours_here, hours_t4 = ..., ...
### BEGIN SOLUTION
hours_here = 6 * 124e6 * 100e6 / matmul_speed["one CPU core"] / 3600
hours_t4 = 6 * 124e6 * 100e6 / t4["fp32"].value / 3600
### END SOLUTION
exercises.check("01.plan", (hours_here, hours_t4), here=matmul_speed["one CPU core"], t4=t4["fp32"].value)

# %% [markdown]
# ### 3 · Open task, halve the time
#
# `slowly` advances 2,000 chains, one after another. Write `quickly`, which returns the same list in half the time or less. These steps amplify
# rounding errors, so call `grow` itself rather than rewriting its formula, and remember that floating-point tensors have 32 bits unless you ask for
# `torch.float64`.


# %% tags=["exercise"]
def grow(x):
    for _ in range(100):
        x = 3.7 * x * (1 - x)
    return x


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
# ## The scoreboard
#
# Here is the job as it stands, with your own numbers where you measured them. A T4 gets a range: the best case, and the share of it that an H100
# reaches.

# %%
scoreboard.show("01", {} if FAST else {name if name != "your GPU" else f"your GPU, {hardware.list_devices().main.short_name}": time for name, time in job.items()})

# %%
takeaways = {
    "Wait for the work before you stop the clock": f"{'your GPU' if 'your GPU' in race else 'a worker thread'} seemed {finished / returned:,.0f}× as fast as it was.",
    "Small jobs run slower on a GPU": f"{'your GPU overtakes' if 'your GPU' in race else 'a T4 should overtake'} one CPU core at n = {between}.",
    "6 × parameters × tokens ÷ matmul speed is the shortest possible time": f"on {last}, training reaches {share[last]:.0%} of matmul speed.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess = reference.Value, reference.Prediction
reference.record(
    "01_enable_gpu", FAST, device=hardware.list_devices().cpu if device.type == "cpu" else hardware.list_devices().main,
    predicted={
        "minutes_on_one_core": guess(minutes_on_one_core, job["one CPU core"] / 60, "min"),
        "gpu_wins_from": guess(gpu_wins_from, found[0] if found else None),
        "thousand_takes": guess(thousand_takes, ratio, "×"),
        "percent_of_speed": guess(percent_of_speed, 100 * share[last], "%"),
    },
    wrong_clock_matmul=value(finished / returned, "×", "how fast work seems when the clock doesn't wait, its true speed being 1"),
    crossing_low=value(found[0] if found else 0, "", "n at which a GPU (a T4 expected, where there is none) overtakes one CPU core, at the earliest"),
    crossing_high=value(found[-1] if found else 0, "", "n at which it does, at the latest"),
    thousand=value(ratio, "×", "time for 1,000 elements, one element being 1"),
    call=value(min(crowd[last][1]) / 300, "s", "one call, on one element"),
    peak=value(matmul_speed[last], "FLOP/s", "best speed of a large matmul in fp32"),
    job_rule=value(estimate[last], "s", "1,000 steps of the job by the rule of six"),
    job_measured=value(job[last], "s", "1,000 steps of the job, extrapolated from a few"),
    job_share=value(100 * share[last], "%", "share of the matmul speed that training reaches"),
)

# %% [markdown] tags=["minutes-0"]
# ## Keep this timer, and what comes next
#
# ```python
# import time, torch
#
# device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
#
# def seconds(work, place=device, repeats=5):
#     times = []
#     for _ in range(1 + repeats):  # the first call is the warm-up
#         start = time.perf_counter()
#         work()
#         if place.type != "cpu":
#             torch.accelerator.synchronize()
#         times.append(time.perf_counter() - start)
#     return times[1:]
#
# a = torch.rand(2048, 2048, device=device)
# matmul_speed = 2 * 2048**3 / min(seconds(lambda: a @ a))
#
# def best_case_hours(parameters, tokens):
#     return 6 * parameters * tokens / matmul_speed / 3600
# ```
#
# `colab_helpers.benchmark.measure` does the same with more care: it warms up until the times settle, and says how sure it is.
#
# You can now say when a GPU wins and how long a training run takes at best. What keeps a chip from reaching that best case? Lesson 02 measures it.
