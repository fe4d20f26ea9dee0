# %% tags=["parameters"]
# @title Sizes you can change: None means the lesson's own { display-mode: "form" }
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
import random
import re
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import torch
from torch.nn import functional as F

from colab_helpers import chip_throughput, hardware, published_results

from colab_lessons import browser_gpu_report, crossover, exercises, figures, measurements, models, scoreboard, shakespeare, training
from colab_lessons.claims import holds  # says so where a sentence of the text isn't true on your machine
from colab_lessons.predictions import your_prediction  # adds what you predicted to a title

SIZES = SIZES or [2**k for k in range(4, 10 if FAST else 12)]  # of the matrices
CROWDS = CROWDS or [round(10 ** (k / 2)) for k in range(9 if FAST else 15)]  # elements that advance at once
LAYERS = LAYERS or (1 if FAST else 6)  # of the GPT
SEQUENCES = SEQUENCES or (2 if FAST else 32)  # in a batch
REPEATS = REPEATS or (1 if FAST else 3)  # timed training steps
CHARACTERS = CHARACTERS or (30 if FAST else 300)  # that the trained model writes
threads = torch.get_num_threads()  # of the CPU

# %% [markdown] tags=["minutes-2"]
# ## Is there a GPU?
#
# Colab lends you a machine to run your notebook on, and by default that machine has no GPU. This notebook asks for one with a T4, a small NVIDIA GPU
# that you get free of charge when one is available. NVIDIA's own tool shows whether you got one.

# %%
# !nvidia-smi 2>/dev/null || echo "nvidia-smi finds no NVIDIA GPU on this machine."

# %% [markdown]
# If that printed a table, you have a GPU, and lesson 02 goes through the table line by line. If it didn't, and you'd like a GPU, choose *Runtime >
# Change runtime type > T4 GPU > Save*. Colab then gives you a different machine, so you lose the files and variables on this one and have to run the
# notebook again from the top. Or stay where you are: every cell below also runs on a CPU.

# %%
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
device

# %% [markdown]
# An *accelerator* is any chip other than the CPU that PyTorch can compute on. (Colab's TPUs need an extra package and don't show up here.) The name
# `cuda` means a GPU from NVIDIA (or AMD); `mps` means the GPU in a Mac. Code that checks first, as the cell above does, runs on all of them, and on a
# plain CPU, too. Code that hard-codes `"cuda"` stops with an error wherever there's no such GPU.

# %% [markdown] tags=["minutes-8"]
# ## The job
#
# Here's a first job for a GPU: train a small language model on Shakespeare. This is what the model reads:

# %% tags=["nbval-check-output"]
text = shakespeare.load()  # one small integer per character
print(f"{len(text):,} characters, from a vocabulary of {len(shakespeare.CHARACTERS)}. For example:\n")
print(shakespeare.decode(text[835_421:835_730]))

# %% [markdown]
# The model is a GPT, a *transformer* that looks at up to 256 characters and predicts the next one. It has nearly eleven million *parameters*, the
# numbers that training adjusts. It's tiny, but it's built the way the large ones are.
#
# Training repeats one step over and over. A *batch* of 32 sequences goes through the model, and the *loss* measures how badly the next characters
# were predicted. Then every parameter is nudged in the direction that lowers the loss. This is *gradient descent*; the optimizer below, AdamW,
# refines it.

# %%
def batch(sequences, device):
    starts = torch.randint(len(text) - 256, (sequences, 1))  # a random place in the text for each
    chunk = text[starts + torch.arange(257)].long().to(device)  # (sequences, 257)
    return chunk[:, :-1], chunk[:, 1:]  # inputs and targets: the same text, shifted by one


def training_step(device):
    model = models.GPT(models.GPTConfig(n_layer=LAYERS)).to(device)  # the parameters live where the work is done
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        ids, targets = batch(SEQUENCES, device)  # (32, 256) each
        logits = model(ids)  # (32, 256, 96): a score for each possible character
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()  # the gradient: how does the loss change with each parameter?
        optimizer.step()  # a small change of each parameter that should lower it
        optimizer.zero_grad()
        return loss

    return model, step


# %%
model, step = training_step(device)
for i in (1, 2, 3):
    start = time.perf_counter()
    loss = step().item()
    print(f"step {i}: loss {loss:.2f}, {time.perf_counter() - start:.2g} s")
print(f"Guessing uniformly among {len(shakespeare.CHARACTERS)} characters would give a loss of {math.log(len(shakespeare.CHARACTERS)):.2f}.")

# %% [markdown]
# A GPU like the T4 has its own memory. For an operation to run on the GPU, its *tensors* (PyTorch's word for arrays) have to be in that memory.
# `.to(device)` copies tensors there: the parameters once, and each batch as it's drawn. If you forget either one, PyTorch stops with `Expected all
# tensors to be on the same device`.
#
# After three steps the model knows next to nothing. We've run 1,000 steps for you on two CPU cores and saved the parameters, also called *weights*.
# Here's what that model writes:

# %%
trained = models.trained()
written = training.sample(trained, prompt="ROMEO:\n", count=CHARACTERS)
print(written)

# %%
# @title How many of these are words? { display-mode: "form" }
known = set(re.findall("[A-Za-z']+", shakespeare.read()))
words = re.findall("[A-Za-z']+", written.removeprefix("ROMEO:"))[:-1]  # the last one may be cut off
right = sum(word in known for word in words) / len(words)
print(f"{right:.0%} of these {len(words)} words appear in the training text.")
holds(right, 0.75, 1, "Most of the words are real.", fast=FAST)

# %% [markdown]
# It makes no sense, but it's laid out like a play, and most of the words are real. All the model was ever asked to do was predict the next character.
#
# **Predict.** You've seen how long three steps take on all of this machine's cores, or on its GPU. How many minutes would 1,000 steps take on a
# single CPU core? (Machines differ in their number of cores, so this course compares everything with a single core.)

# %%
minutes_on_one_core = None  # @param {type:"number"}

# %% [markdown] tags=["minutes-7"]
# ## The wrong clock, and the right one
#
# Before you time a model, time something simpler. When you multiply two n × n matrices (a *matmul*), each of the n² elements of the result takes n
# multiplications and n additions. That makes 2n³ floating-point operations, or *FLOPs*: about two billion for n = 1,024. Divide that by the time it
# took, and you have the speed in *FLOP/s*.
#
# Below, `launch()` starts `a @ a`, and `wait()` returns once everything launched so far has finished. On a GPU, a call may return before its work is
# done. On a CPU it doesn't, so if you have no GPU, a second thread plays its part: it takes matmuls from a queue while your code goes on.

# %%
a = torch.rand(1024, 1024, device=device)
if device.type == "cpu":
    queue = ThreadPoolExecutor(1)  # one thread, which works through its queue


def launch():
    return queue.submit(torch.matmul, a, a) if device.type == "cpu" else a @ a


def wait():
    return queue.submit(int).result() if device.type == "cpu" else torch.accelerator.synchronize()  # int() waits for its turn

# %%
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
holds(finished / returned, 1.5, math.inf, "The clock that stops early claims a much higher speed than the chip reaches.", fast=FAST)

# %% [markdown]
# The division is right both times, but the first clock was stopped too early. It took credit for work that hadn't been done yet.
#
# Work on a GPU is *asynchronous*. PyTorch adds each operation to a queue, called a *stream*, and returns while the GPU is still busy with earlier
# ones. If you stop the clock there, you've timed the request. To time the work, you have to *synchronize*: wait until the queue is empty. Anything
# that needs the value on the CPU waits, too, like the `.item()` that read the loss.
#
# The cell also calls `launch` once before it starts the clock, because the first call pays for setup that later calls reuse. That untimed call is a
# *warm-up*. Put the warm-up and the wait together, and you have an honest timer:

# %%
def seconds(work, device, repeats=5):
    """How many seconds each of `repeats` calls of `work()` takes, after a warm-up."""
    times = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        work()
        if device.type != "cpu":
            torch.accelerator.synchronize()
        times.append(time.perf_counter() - start)
    return times[1:]


# %% [markdown]
# When you compare speeds, take the smallest of these times, because other programs can slow yours down but hardly speed it up. When you want to know
# how long you'll wait, take the median.
#
# Now time the job on a single core.

# %%
cpu = torch.device("cpu")
torch.set_num_threads(1)  # one core
chips = {"one CPU core": cpu} | ({} if device.type == "cpu" else {"your GPU": device})

steps = {name: seconds(training_step(chip)[1], chip, REPEATS) for name, chip in chips.items()}
job = {name: 1000 * statistics.median(times) for name, times in steps.items()}
print(*(f"{name}: {time / 60:,.3g} minutes for 1,000 steps, extrapolated from {REPEATS} steps" for name, time in job.items()), sep="\n")
if minutes_on_one_core is not None:
    print(f"You said {minutes_on_one_core:g} minutes.")

# %% [markdown] tags=["minutes-6"]
# ## When does a GPU win?
#
# Nearly all the arithmetic in a training step is in matmuls, and the elements of a matmul's result don't depend on one another. They can all be
# computed at the same time, given enough arithmetic units. NVIDIA calls these units *CUDA cores*, and each does one *fused multiply-add*, two FLOPs,
# per clock cycle. (A CPU core is far more than one such unit: its vector instructions do dozens of FLOPs per cycle, at a higher clock rate.) These
# are rates for *fp32*, the 32-bit floating-point format that PyTorch uses by default.

# %%
n = SIZES[-1]
matmul_speed = {}  # FLOP/s
for name, chip in chips.items():
    b = torch.rand(n, n, device=chip)
    matmul_speed[name] = 2 * n**3 / min(seconds(lambda: b @ b, chip, repeats=20))
print(*(f"{name}: {speed / 1e9:,.0f} GFLOP/s at n = {n:,}" for name, speed in matmul_speed.items()), sep="\n")

# %%
# @title Compare with an H100 and a T4 { display-mode: "form" }
t4, sheet = chip_throughput.rates("T4"), hardware.catalog()["T4"]
recorded = scoreboard.job_record("nvidia-h100")["lesson_01"]  # what this lesson measured on an H100
h100_matmul = 2 * 2048**3 / recorded["matmul"]["2048"]
print(f"an H100, our run: {round(h100_matmul / 1e9, -2):,.0f} GFLOP/s at n = 2,048")
print(f"a T4: {sheet.fp32_lanes:,} CUDA cores × 2 FLOPs × 1.59 GHz = {sheet.fp32_lanes * 2 * 1.59:,.0f} GFLOP/s peak; {t4['fp32'].value / 1e9:,.0f} measured with PyTorch ({published_results.get('matmul-t4-formats').credit})")
cublas = published_results.get("sgemm-t4-gcp")
print(f"another T4, NVIDIA's cuBLAS library alone: up to {max(cublas.y) / 1e9:,.0f} GFLOP/s ({cublas.credit})")

# %% [markdown]
# The estimates below use the lower of the two measured speeds, so a T4 of yours may be faster.
#
# The computer in front of you probably has a GPU, too. To add it to the comparison, open [The GPU in front of
# you](https://colab-accelerator-course.github.io/colab-accelerator-course/gpu.html), copy the line it gives you, and paste it into the field below.

# %%
# @title Your own GPU, if you like { display-mode: "form" }
mine = ""  # @param {type:"string"}
browser = browser_gpu_report.read(mine)

# %% [markdown]
# A function that many threads execute in parallel on a GPU is called a *kernel*. However small the matrix, PyTorch has to *launch* a kernel, and you
# have to wait for it to finish. So every call has a fixed cost, its *overhead*: Python, PyTorch, the *kernel launch* itself, and the wait. For a
# small matrix, that's nearly all of the time. On our H100, the overhead is 16 to 20 µs.
#
# **Predict.** At what n does an H100 start to beat this core? (If you have a GPU, predict for yours.)

# %%
gpu_wins_from = None  # @param {type:"integer"}

# %%
best = {name: {SIZES[-1]: 2 * SIZES[-1] ** 3 / matmul_speed[name]} for name in chips}  # the largest was measured above, and is again
for _ in range(3):  # rounds: a slow moment of this machine spoils one, and the fastest time counts
    for n in SIZES:
        for name, chip in chips.items():
            b = torch.rand(n, n, device=chip)
            best[name][n] = min(*seconds(lambda: b @ b, chip, repeats=7), best[name].get(n, math.inf))
race = {name: [times[n] for n in SIZES] for name, times in best.items()}
matmul_speed = {name: 2 * SIZES[-1] ** 3 / times[-1] for name, times in race.items()}
core = matmul_speed["one CPU core"]

# %%
# @title Plot time against matrix size { display-mode: "form" }
# An estimated T4: overhead, then arithmetic or memory traffic, whichever takes longer. The overhead is one launch and one wait, as in `seconds`.
overhead = t4["launch"].low + 4e-6, t4["launch"].high + 10e-6
expected = [[extra + max(2 * n**3 / t4["fp32"].value, 3 * 4 * n**2 / t4["memory"].value) for n in SIZES] for extra in overhead]
core_times = race["one CPU core"]
gpu = "your GPU" if "your GPU" in race else "an H100, our run"
drawn = race if "your GPU" in race else race | {gpu: [recorded["matmul"].get(str(n), math.nan) for n in SIZES]}
found = crossover.crossover(SIZES, core_times, drawn[gpu])
on_t4 = [c for c in (crossover.crossover(SIZES, core_times, times) for times in expected) if c]
at = f"{found:.2g}" if found else "no size here"
there = {"your browser's GPU": [browser.matmuls[n] for n in SIZES]} if browser and {*SIZES} <= {*browser.matmuls} else {}
figures.loglog(
    SIZES, drawn | there, bands={} if "your GPU" in race else {"a T4, estimated": tuple(expected)}, shade=[found] if found else [], prediction=gpu_wins_from,
    xlabel="matrix size n", ylabel="time for one matmul, fp32",
    title=f"{gpu[0].upper() + gpu[1:].partition(',')[0]} overtakes one CPU core at n = {at}{your_prediction(gpu_wins_from)}",
)

# %%
# @title What the figure says { display-mode: "form" }
print(f"A {SIZES[0]} × {SIZES[0]} matmul takes {1e6 * drawn[gpu][0]:.0f} µs on {gpu.partition(',')[0]}, nearly all of it overhead. At n = {SIZES[-1]:,}, the GPU is {core_times[-1] / drawn[gpu][-1]:.0f}× as fast as the core.")
if on_t4 and "your GPU" not in race:
    print(f"The band is our estimate for a T4: {1e6 * overhead[0]:.0f} to {1e6 * overhead[1]:.0f} µs of overhead, then arithmetic at the speed measured with PyTorch (too optimistic for small matrices). The T4 should overtake the core somewhere between n = {min(on_t4):.0f} and n = {max(on_t4):.0f}, and be {t4['fp32'].value / core:.0f}× as fast at n = {max(SIZES):,}.")
if browser:
    print(f"Your browser's GPU ({browser.name}) takes {1e6 * browser.trip:,.0f} µs to return any result at all, since the browser passes each call on to another process." + ("" if there else f" Not drawn: it was measured at n = {', '.join(map(str, browser.matmuls))}."))
holds(found or math.nan, 30, 1000, "The GPU overtakes one core between n = 30 and n = 1000.", fast=FAST)

# %% [markdown]
# On the left, the GPU is *launch-bound*: nearly all of its time is overhead, and a GPU twice as fast would finish no sooner. That's where its line is
# flat. The core's line rises about eightfold per doubling, once n is large enough to keep the core busy. So the two lines cross. Toward the right, a
# chip becomes *compute-bound*, limited by its arithmetic. The core is compute-bound from n = 128 or so; the H100, only at the far right.
#
# If you had to copy the matrices to the GPU first, the crossover would move to a larger n. If you launch many matmuls and wait only once, as a
# network does, the GPU wins from a smaller n.
#
# If a GPU ever disappoints you, ask which side of the crossover you're on. Most of our job is well to the right: in the forward pass, nearly all the
# arithmetic is matmuls of a matrix with 8,192 rows (32 sequences of 256) and one that's at least 384 × 384. A small network with a small batch is on
# the left. What helps there is more work per launch, such as a larger batch.

# %% [markdown] tags=["minutes-5"]
# ## How much parallel work is enough?
#
# A matmul is ideal work for a GPU. Now try something less convenient: a chain of a hundred steps, in which each step needs the result of the one
# before it. No number of arithmetic units can shorten such a chain, but you can *vectorize*: advance many chains together, as the elements of one
# tensor.

# %%
def advance(x, scratch):
    for _ in range(100):
        torch.mul(x, x, out=scratch)  # x², into a preallocated buffer
        x.sub_(scratch).mul_(3.7)  # x becomes 3.7 · (x - x²)


# %% [markdown]
# **Predict.** On one core, by what factor does the time grow from one element to a thousand?

# %%
thousand_takes = None  # @param {type:"number"}

# %%
crowd = {}
for name, chip in chips.items():
    rounds = []
    for _ in range(3):  # each size's fastest time counts: the others may include a slow moment of this machine
        taken = {}
        for n in random.sample(CROWDS, len(CROWDS)):  # in random order, so that no size always runs after the same one
            x = torch.rand(n, device=chip)
            scratch = torch.empty_like(x)
            taken[n] = min(seconds(lambda: advance(x, scratch), chip, repeats=min(100, 1 + 10**7 // n)))
        rounds.append(taken)
    crowd[name] = {n: min(taken[n] for taken in rounds) for n in CROWDS}
torch.set_num_threads(threads)  # all cores again

# %%
# @title Plot time against number of elements { display-mode: "form" }
# An estimated T4: 300 launches and one wait, while the memory moves 28 bytes per element and step. The longer of the two counts.
ends = [
    [max(300 * launch + wait, 100 * 28 * n / t4["memory"].value) for n in CROWDS]
    for launch, wait in ((t4["launch"].low, 4e-6), (t4["launch"].high, 10e-6))
]
alone = [*crowd["one CPU core"].values()]
ratio = crowd["one CPU core"][min(CROWDS, key=lambda n: abs(n - 1000))] / alone[0]
curves = {name: [*taken.values()] for name, taken in crowd.items()}
curves |= {} if "your GPU" in crowd else {gpu: [recorded["chain"].get(str(n), math.nan) for n in CROWDS]}
passed = crossover.crossover(CROWDS, alone, curves[gpu])
enough = f"overtakes the core at {float(f'{passed:.2g}'):,.0f}" if passed else "never overtakes the core"
flat = max(n for n, took in zip(CROWDS, curves[gpu]) if not took > 1.2 * curves[gpu][0])
holds(ratio, 0.85, 1.3, "A thousand elements take barely longer than one.", fast=FAST)
figures.loglog(
    CROWDS, curves, bands={} if "your GPU" in crowd else {"a T4, estimated": ends},
    shade=[passed] if passed else [], xlabel="number of elements", ylabel="time for 100 iterations",
    title=f"On one core, 1,000 elements take {ratio:.1f}× as long as one{your_prediction(thousand_takes, '×')}\n{gpu[0].upper() + gpu[1:].partition(',')[0]}'s time is flat up to {float(f'{flat:.1g}'):,.0f}; it {enough}",
)

# %% [markdown]
# At the left end, even the CPU's time is nearly all overhead: Python calls PyTorch 300 times, and each call costs about as much for a thousand
# elements as for one. Each call to a GPU costs more, so the GPU's line starts higher, but it stays flat much longer. Once moving the elements takes
# longer than the call, the time grows with their number. Such work is *memory-bound*.
#
# How much parallel work is enough? Here, the H100 needs tens of thousands of elements to beat one core, and millions before an operation takes longer
# than its launch.

# %% [markdown] tags=["minutes-8"]
# ## How long will it take?
#
# Back to the job. You can estimate its time from a single number, the machine's matmul speed, without running a step.
#
# In the *forward pass*, nearly every parameter takes part in one multiplication and one addition per *token* (here, a character). The *backward pass*
# does twice that work: once for the gradients with respect to each layer's inputs, and once for those with respect to its parameters. That makes
# about six FLOPs per parameter per token. So training N parameters on D tokens costs about 6ND FLOPs. This is the *6ND rule*.

# %%
parameters = models.GPT(models.GPTConfig(n_layer=LAYERS)).parameter_count
tokens = 1000 * SEQUENCES * 256
flops = 6 * parameters * tokens
estimate = {name: flops / speed for name, speed in matmul_speed.items()}
print(f"6 × {parameters:,} × {tokens:,} = {flops:.1e} FLOPs")
print(*(f"{name}: {estimate[name] / 60:,.1f} minutes at {speed / 1e9:,.0f} GFLOP/s" for name, speed in matmul_speed.items()), sep="\n")

# %% [markdown]
# The time that you measured earlier was longer. Training isn't all matmul, so it reaches only a fraction of the core's matmul speed.
#
# **Predict.** What percentage of its matmul speed does an H100 reach while training? (If you have a GPU, predict for yours.)

# %%
percent_of_speed = None  # @param {type:"number"}

# %%
share = {name: estimate[name] / job[name] for name in chips}
h100 = 1000 * scoreboard.job_record("nvidia-h100")["steps"]["as written"]["seconds_waiting_each_step"]
h100_rule = flops / h100_matmul
share["an H100, our run"] = scoreboard.FLOPS / h100_matmul / h100
print(*(f"{name}: {part:.0%} of its matmul speed" for name, part in share.items()), sep="\n")

# %%
# @title Compare the machines { display-mode: "form" }
rows = {f"{name}, {what}": times[name] for name in chips for what, times in (("estimated", estimate), (f"measured, from {REPEATS} step{'s' * (REPEATS > 1)}", job))}
best = flops / t4["fp32"].value
rows |= {} if device.type == "cuda" else {"a T4, estimated": best if FAST else (best, best * h100 / h100_rule)}
rows |= {"an H100, estimated": h100_rule}
rows |= {} if FAST else {"an H100, our run, from 60 steps": h100}
last, guessed = [*chips][-1], "your GPU" if "your GPU" in chips else "an H100, our run"
holds(share["one CPU core"], 0.46, 1, "The estimate is within a factor of about two.", fast=FAST)
figures.dot_plot(
    rows, unit="s", xlabel="time for 1,000 training steps, fp32",
    title=f"On {guessed.partition(',')[0]}, training reaches {share[guessed]:.0%} of its matmul speed{your_prediction(percent_of_speed, '%')}",
)

# %% [markdown]
# One division gets you within a factor of about two. The estimate is a best case, because the rule leaves things out: attention's own matmuls, and
# everything that isn't a matmul, such as softmax, normalization, and the optimizer. A step takes 22 ms on the H100. When we profiled it (lesson 10),
# matmuls filled a little more than half of that time, and other kernels nearly a quarter. For the rest, the GPU waited for Python.
#
# And it's a best case only for *fp32*. With 16-bit numbers, a GPU's *tensor cores* multiply many times as fast (lesson 07).
#
# If you have a GPU, check the box to train a model of your own. On a T4, that should take a few minutes.

# %%
train_all_steps = False  # @param {type:"boolean"}

if train_all_steps:
    model, step = training_step(device)
    start = time.perf_counter()
    for i in range(1000):
        loss = step()
        if i % 100 == 0:
            print(f"step {i}: loss {loss.item():.2f}")
    print(f"loss {loss.item():.2f} after {(time.perf_counter() - start) / 60:.1f} minutes")  # .item() waits
    print(training.sample(model, count=CHARACTERS))

# %% [markdown] tags=["minutes-7"]
# ## Exercises
#
# ### 1 · Write an honest timer
#
# `launch()` puts work into a queue and returns, and `wait()` returns when the queue is empty. The first `launch` also pays for some setup. Write a
# function `timed` that returns how many seconds one launch's work takes, not counting the setup.

# %% tags=["exercise"]
def timed(launch, wait):
    return ...


### BEGIN SOLUTION
def timed(launch, wait):
    launch()  # the warm-up
    wait()
    start = time.perf_counter()
    launch()
    wait()
    return time.perf_counter() - start


### END SOLUTION
exercises.check("01.clock", timed)

# %% [markdown]
# ### 2 · Where do two lines cross?
#
# You can estimate a crossover without a race. Suppose that a matmul on the GPU takes `overhead` seconds, plus the time for its arithmetic at `fast`
# FLOP/s, while the core's overhead is negligible and its speed is `slow` FLOP/s. Write a function that returns the n at which both take the same
# time. The check tries it with this core and an H100, and you can compare the result with the figure.

# %% tags=["exercise"]
def crossing(overhead, slow, fast):
    return ...


### BEGIN SOLUTION
def crossing(overhead, slow, fast):
    return (overhead / (2 / slow - 2 / fast)) ** (1 / 3)  # 2n³/slow = overhead + 2n³/fast


### END SOLUTION
exercises.check("01.crossing", crossing, core=core, h100=h100_matmul)

# %% [markdown]
# ### 3 · Halve the time
#
# `slowly` advances 2,000 chains, one after another. Write `quickly`, which returns the same list in half the time or less. Each step amplifies
# rounding errors, so call `grow` as it is, and give it a tensor of `torch.float64`, the precision of a Python number.


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

# %% [markdown] tags=["minutes-2"]
# ## The scoreboard
#
# Your own times are extrapolated from a few steps, and the H100's from 60. We haven't timed the job on a T4. The low end of its range is what
# training would take at full matmul speed, and the high end at 49% of it, as on the H100.

# %%
own = {name if name != "your GPU" else f"your GPU, {hardware.list_devices().main.short_name}": time for name, time in job.items()}
board = scoreboard.show("01", own)
board

# %%
takeaways = {
    "Synchronize before you stop the clock": "otherwise you've timed the request, not the work.",
    "Very small jobs run slower on a GPU": f"below n = {at}, one CPU core beats {gpu.partition(',')[0]}.",
    "6 × parameters × tokens ÷ matmul speed is a best case": "in fp32, training reaches " + " and ".join(f"{part:.0%} of {name.partition(',')[0]}'s" for name, part in share.items()) + " matmul speed.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")
ratio_h100, t4_gains = job["one CPU core"] / h100, job["one CPU core"] / board.rows[2].high
print(f"On this job, an H100 is about {float(f'{ratio_h100:.1g}'):.0f} times as fast as one core. If a T4 reached the same share of its matmul speed as the H100, it would be about {t4_gains:.0f} times as fast.")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess = measurements.Value, measurements.Prediction
measurements.record(
    "01_enable_gpu", FAST, device=hardware.list_devices().cpu if device.type == "cpu" else hardware.list_devices().main,
    predicted={
        "minutes_on_one_core": guess(minutes_on_one_core, job["one CPU core"] / 60, "min"),
        "gpu_wins_from": guess(gpu_wins_from, found),
        "thousand_takes": guess(thousand_takes, ratio, "×"),
        "percent_of_speed": guess(percent_of_speed, 100 * share[guessed], "%"),
    },
    wrong_clock_matmul=value(finished / returned, "×", "apparent speedup when the clock stops too early"),
    crossing=value(found or 0, "", "crossover n, GPU against one core (an H100, our run, if there is no GPU)"),
    thousand=value(ratio, "×", "time for 1,000 elements, relative to one"),
    call=value(crowd[last][CROWDS[0]] / 300, "s", "one call, on one element"),
    peak=value(matmul_speed[last], "FLOP/s", "speed of the largest matmul, in fp32"),
    job_rule=value(estimate[last], "s", "1,000 steps of the job by the 6ND rule"),
    job_measured=value(job[last], "s", "1,000 steps of the job, extrapolated from a few"),
    job_share=value(100 * share[last], "%", "share of the matmul speed that training reaches"),
)

# %% [markdown] tags=["minutes-0"]
# ## A timer to keep, and what comes next
#
# ```python
# import time, torch
#
# device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
#
# def seconds(work, repeats=5):
#     times = []
#     for _ in range(1 + repeats):  # the first call is the warm-up
#         start = time.perf_counter()
#         work()
#         if device.type != "cpu":
#             torch.accelerator.synchronize()
#         times.append(time.perf_counter() - start)
#     return times[1:]
#
# a = torch.rand(2048, 2048, device=device)
# matmul_speed = 2 * 2048**3 / min(seconds(lambda: a @ a))
#
# def best_case_hours(parameters, tokens):  # in fp32
#     return 6 * parameters * tokens / matmul_speed / 3600
# ```
#
# You can now say when a GPU wins, and estimate the shortest time that a training run could take in fp32. What keeps a chip from reaching it? Lesson
# 02 finds out.
#
# If you have one of Colab's free GPUs, give it back when you've finished, with *Runtime > Disconnect and delete runtime*. The more you've used
# lately, the less Colab gives you.
