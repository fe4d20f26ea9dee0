# %%
# @title Imports { display-mode: "form" }
import os
import statistics
import time

import torch
from torch.nn import functional as F

from colab_helpers import benchmark, chip_rates, dated_facts, hardware, published_results

from colab_lessons import crossover, exercises, figures, models, reference
from colab_lessons.predictions import guessed  # adds what you predicted to a title

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SIZES = None
CROWDS = None
LAYERS = None
BATCH = None
PORTION = None
REPEATS = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
SIZES = SIZES or [2**k for k in range(4, 10 if FAST else 12)]  # of the matrices
CROWDS = CROWDS or [10**k for k in range(5 if FAST else 8)]  # how many numbers advance at once
LAYERS = LAYERS or (1 if FAST else 6)  # of the GPT
BATCH = BATCH or (2 if FAST else 64)  # texts in a training step
PORTION = PORTION or (1 if FAST else 16)  # of them that go through at once
REPEATS = REPEATS or (1 if FAST else 3)  # timed training steps

# %% [markdown] tags=["minutes-4"]
# ## Is it on?
#
# This notebook asks Colab for a T4, a small NVIDIA GPU that's free when one is available. See what you got. `nvidia-smi` is
# NVIDIA's own tool, and PyTorch is the library that will use the chip.

# %%
# !nvidia-smi 2>/dev/null || echo "nvidia-smi finds no NVIDIA GPU on this machine."

# %%
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
device

# %% [markdown]
# If it says `cpu`, choose *Runtime > Change runtime type > T4 GPU > Save*. If a T4 is free, Colab gives you another machine. Files and variables of
# this one are gone then, so run the notebook from the top.
#
# Remember the line that set `device`. Code that says `device="cuda"` crashes on a machine without an NVIDIA GPU. Code that asks
# first runs anywhere, only slower. Nothing in this notebook needs a GPU, so stay if you don't get one.

# %% tags=["nbval-check-output"]
# @title What Colab promises, and what it costs { display-mode: "form" }
dated_facts.quote("no-backend", "session-length", "end-session")

# %% [markdown] tags=["minutes-3"]
# ## A few fast lanes, or thousands of slow ones
#
# We'll call any unit that does one multiplication at a time a *lane*. NVIDIA says *CUDA core*, and CPU makers say *SIMD lane*. Your CPU has a
# few dozen quick ones. A T4 has 2,560 slower ones.

# %%
# @title Draw the lanes { display-mode: "form" }
cpu, t4_sheet = hardware.list_devices().cpu, hardware.catalog()["T4"]
figures.simd_lanes(cpu, [t4_sheet], title=f"A T4 has {t4_sheet.fp32_lanes:,} lanes, your CPU at least {cpu.fp32_lanes}")

# %% [markdown]
# More lanes never make one calculation faster. They let thousands of independent ones happen at once. So a GPU helps once there's enough to do at
# once. You're about to measure how much is enough.

# %% [markdown] tags=["minutes-4"]
# ## Time it honestly
#
# Everything in this course rests on one small skill, which is timing a piece of code without fooling yourself. It takes ten lines.

# %%
torch.set_num_threads(1)  # one core of the CPU: on a shared machine a second one makes timings jump


def seconds(work, place="cpu", repeats=20):  # work is a function without arguments
    times = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        work()
        if str(place) != "cpu":
            torch.accelerator.synchronize()  # a GPU returns before it's done, so wait for it
        times.append(time.perf_counter() - start)
    return times[1:]  # the first call loads, compiles and allocates: it's the warm-up


# %%
a = torch.rand(1024, 1024)
times = seconds(lambda: a @ a)
f"best {1000 * min(times):.1f} ms, usually {1000 * statistics.median(times):.1f} ms"

# %% [markdown]
# Two numbers, because you share this machine. The minimum shows what the chip can do, and the median shows what you get.
# When they're far apart, something else got in the way, often somebody else on your core. From here on we take the minimum.
#
# And why `synchronize`? Because a GPU's calls return before the work is done. Stop the clock too early, and a T4 seems to do more than it can. Lesson
# 03 shows that.

# %% [markdown] tags=["minutes-10"]
# ## The race
#
# Multiply two n × n matrices. That's 2n³ operations, and they can all be shared out among lanes. A GPU should win easily.
#
# It does, once n is large enough. But every call to a GPU costs some microseconds before the first multiplication happens. We call
# that a *kernel launch*, and for a small matrix it takes longer than the whole job takes on a CPU.
#
# **Predict.** At what size does the GPU start to win?

# %%
gpu_wins_from = None  # @param {type:"integer"}

# %%
places = {"one CPU core": torch.device("cpu")}
if device.type != "cpu":
    places["your GPU"] = device

race = {name: [] for name in places}
for n in SIZES:
    for name, place in places.items():
        a = torch.rand(n, n, device=place)  # made where it's used; lesson 03 is about moving
        race[name].append(min(seconds(lambda: a @ a, place)))

# %% [markdown]
# No GPU here? Then race an *expected* T4. It pays for the launch, and then for its arithmetic or its memory traffic, whichever takes
# longer. Others have measured the last two. The launch is an estimate, and it's a wide one, so you'll see a band. Its data sheet promises 8.1
# TFLOP/s, by the way. On Colab a T4 sustains half of that.

# %%
t4 = chip_rates.rates("T4")
speed, bandwidth = t4["fp32"].value, t4["memory"].value
low, high = (
    [launch + max(2 * n**3 / speed, 3 * 4 * n**2 / bandwidth) for n in SIZES] for launch in (t4["launch"].low, t4["launch"].high)
)
print(f"{speed / 1e12:.1f} TFLOP/s, {bandwidth / 1e9:.0f} GB/s, a launch {1e6 * t4['launch'].low:.0f} to {1e6 * t4['launch'].high:.0f} µs")
print(*(f"{name}: {t4[name]}" for name in ("fp32", "memory", "launch")), sep="\n")

# %%
# @title Draw the race { display-mode: "form" }
mine = race["one CPU core"]
rivals = [race["your GPU"]] if "your GPU" in race else [low, high]
found = sorted({float(f"{c:.2g}") for c in (crossover.crossover(SIZES, mine, end) for end in rivals) if c})
between = " to ".join(f"{c:,.0f}" for c in found) or "no size here"
rival = "Your GPU" if "your GPU" in race else "A T4, expected,"
figures.race(
    SIZES, race, bands={} if "your GPU" in race else {"a T4, expected": (low, high)}, shade=found, prediction=gpu_wins_from,
    xlabel="matrix size n", ylabel="time for one product",
    title=f"{rival} overtakes one CPU core at n = {between}{guessed(gpu_wins_from)}",
)

# %% [markdown]
# Follow the blue line. From n = 128 on it climbs by about a factor of eight whenever n doubles, because there's eight times as much to do.
# A GPU's line starts flat. Down there its time is all launch and no arithmetic. They cross where the CPU's whole job takes as long as one call to the GPU.
#
# Remember that crossing when a GPU disappoints you. A small network on a small batch sits to the left of it. Give it more work at once.

# %% [markdown] tags=["minutes-9"]
# ## A crowd
#
# How much more? Take a hundred steps in which each needs the result of the one before. That can't be shared out. But you can advance many
# numbers side by side, in one *tensor*, which is PyTorch's array. The formula is a toy model of a population, and any other would do.


# %%
def advance(x, scratch):
    for _ in range(100):
        torch.mul(x, x, out=scratch)  # x², into memory that is already there
        x.sub_(scratch).mul_(3.7)  # x becomes 3.7 · (x - x²)


# %% [markdown]
# **Predict.** How many times longer does it take to advance a thousand numbers than one?

# %%
thousand_takes = None  # @param {type:"number"}

# %%
crowd = {name: {} for name in places}
for n in CROWDS:
    for name, place in places.items():
        x = torch.rand(n, device=place)
        scratch = torch.empty_like(x)
        crowd[name][n] = seconds(lambda: advance(x, scratch), place, 20 if n < 10**6 else 3)

# %%
# @title Draw the crowd { display-mode: "form" }
# 300 launches queue up while the memory works: 28 bytes for each number and step. The longer of the two counts.
ends = [[max(300 * launch, 100 * 28 * n / bandwidth) for n in CROWDS] for launch in (t4["launch"].low, t4["launch"].high)]
ratio = benchmark.Ratio.of(crowd["one CPU core"][1000], crowd["one CPU core"][1])
figures.race(
    CROWDS, {name: [*map(min, times.values())] for name, times in crowd.items()}, bands={} if "your GPU" in crowd else {"a T4, expected": ends},
    xlabel="numbers that advance side by side", ylabel="time for 100 steps",
    title=f"On one core a thousand numbers take {ratio} as long as one{guessed(thousand_takes, '×')}",
)

# %% [markdown]
# The line is flat for a thousandfold. Down there you don't pay for arithmetic, you pay for 300 calls, and a call costs the same
# for one number as for a thousand.
#
# The GPU's line stays flat for longer, but it lies higher, because its calls cost more. So it takes a larger crowd before
# the GPU wins. On the right, memory sets the pace. A T4 moves 240 GB/s, and one core far less. Your line jumps where the numbers
# outgrow its caches, which is lesson 02's subject.
#
# That's what a GPU is for. It doesn't do things faster, it does more things at the same time.

# %% [markdown] tags=["minutes-9"]
# ## A thousand training steps
#
# Now for a real job. Here's a small GPT, a network that predicts the next piece of a text. It has ten million *parameters*, the
# numbers that training adjusts. One training step looks at a batch of 64 texts and improves the parameters a little. To save memory, we feed 16 texts at a
# time and add up their gradients.

# %%
config = models.GPTConfig(n_layer=LAYERS)


def training(place):
    model = models.GPT(config).to(place)
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(config.vocab_size, (BATCH, config.block_size + 1), device=place)  # any text will do

    def step():
        for part in tokens.split(PORTION):
            logits = model(part[:, :-1])  # (texts, tokens, vocab_size)
            loss = F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten())
            (loss * len(part) / BATCH).backward()  # in which direction does the loss fall?
        optimizer.step()  # go there
        optimizer.zero_grad()

    return step


# %% [markdown]
# How long do 1,000 of these take? You can know before you run one. Training a language model costs about six operations per parameter
# and token. Two are the multiplication and the addition in the forward pass. The backward pass needs two such products, one for the gradients of the parameters
# and one for those of the input, and 2 + 4 is 6. Divide by the operations that your machine did per second in the race.

# %%
parameters = sum(p.numel() for p in models.GPT(config).parameters())
flop = 6 * parameters * BATCH * config.block_size
matmul_speed = {name: 2 * SIZES[-1] ** 3 / times[-1] for name, times in race.items()}  # operations a second
estimate = {name: 1000 * flop / speed for name, speed in matmul_speed.items()}
print(f"{parameters:,} parameters, {flop / 1e9:,.0f} GFLOP a step")
print(*(f"{name}: {time / 60:,.1f} minutes for 1,000 steps" for name, time in estimate.items()), sep="\n")

# %% [markdown]
# **Predict.** That estimate assumes that training runs as fast as the matrix product. What percentage of that speed will it really reach?

# %%
percent_of_speed = None  # @param {type:"number"}

# %%
measured = {name: 1000 * min(seconds(training(place), place, REPEATS)) for name, place in places.items()}
share = {name: estimate[name] / measured[name] for name in places}
print(*(f"{name}: {time / 60:,.1f} minutes by a few steps, {share[name]:.0%} of its matmul speed" for name, time in measured.items()), sep="\n")

# %%
# @title Compare the machines { display-mode: "form" }
by_others = published_results.get("gpt-a100").share(1000 / 5000) if not FAST else None  # 5,000 steps, same batch, nearly the same network
rows = {f"{name}, {what}": times[name] for name in places for what, times in (("by the rule", estimate), ("measured", measured))}
rows |= {} if device.type == "cuda" else {"a T4 in fp32, by the rule": 1000 * flop / speed}
rows |= {"an A100 in bf16, by the rule": 1000 * flop / chip_rates.rates("A100-40")["bf16"].value}
rows |= {"an A100 in bf16, published": by_others.value} if by_others else {}
last = [*places][-1]
figures.contenders(
    rows, unit="s", xlabel="time for 1,000 training steps", credit=[by_others] if by_others else [],
    title=f"Training runs at {share[last]:.0%} of the matmul speed of {last}{guessed(percent_of_speed, ' %')}",
)

# %% [markdown]
# One division told you most of it before you started. The rule leaves out attention's own products, about a tenth here, and everything that
# isn't a product, such as softmax, normalization and the optimizer. Lesson 02 shows why those are slow for how little they compute.
#
# So read the rule as the best case, and the faster the chip, the further off it is. The A100 ran in bf16, a 16-bit format in which it does about 230
# TFLOP/s. The rule gives it under five seconds, and the published run took about 36, a third of it for evaluation. Multiplication explains five of them.

# %% [markdown] tags=["minutes-5"]
# ## Exercises
#
# ### 1 · What does a call cost?
#
# With one number, 300 calls took `alone` seconds. How many microseconds is that per call?

# %% tags=["exercise"]
alone = min(crowd["one CPU core"][1])
microseconds = ...
### BEGIN SOLUTION
microseconds = 1e6 * alone / 300  # with one number the arithmetic is free, so this is the call
### END SOLUTION
exercises.check("01.call", microseconds, alone=alone)

# %% [markdown]
# ### 2 · Predict a crossing on paper
#
# A launch costs 50 µs. A CPU does 100 GFLOP/s and a GPU 4 TFLOP/s. At what n does the GPU start to win?

# %% tags=["exercise"]
launch, slow, fast = 50e-6, 100e9, 4e12
n = ...
### BEGIN SOLUTION
# They are level where launch + 2n³/fast = 2n³/slow.
n = (launch / (2 / slow - 2 / fast)) ** (1 / 3)
### END SOLUTION
exercises.check("01.crossover", n, launch=launch, slow=slow, fast=fast)

# %% [markdown]
# ### 3 · Plan a training
#
# You want to train a GPT-2 of 124 million parameters on 100 million tokens. How many hours does that take on one core here, and how many
# on the T4 of the race? Use the bare rule.

# %% tags=["exercise"]
hours_here, hours_t4 = ..., ...
### BEGIN SOLUTION
hours_here = 6 * 124e6 * 100e6 / matmul_speed["one CPU core"] / 3600
hours_t4 = 6 * 124e6 * 100e6 / t4["fp32"].value / 3600
### END SOLUTION
exercises.check("01.plan", (hours_here, hours_t4), here=matmul_speed["one CPU core"], t4=t4["fp32"].value)

# %% [markdown]
# ### 4 · Open task, halve the time
#
# `slowly` advances 2,000 numbers, one after another. Write `quickly`, which returns the same list in half the time or less. These
# steps amplify rounding errors, so call `grow` itself, and mind that tensors have 32 bits unless you ask for `torch.float64`.


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
# ## Three things to take away

# %%
takeaways = {
    "Small work loses on a GPU": f"{'your GPU' if 'your GPU' in race else 'an expected T4'} overtakes one CPU core at n = {between}.",
    "A call costs the same for one number and for a thousand": f"{ratio}.",
    "6 × parameters × tokens ÷ matmul speed is the best case": f"training reaches {share[last]:.0%} of it on {last}.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess = reference.Value, reference.Prediction
reference.record(
    "01_enable_gpu", FAST, device=cpu if device.type == "cpu" else hardware.list_devices().main,
    predicted={
        "gpu_wins_from": guess(gpu_wins_from, found[0] if found else None),
        "thousand_takes": guess(thousand_takes, ratio.value, "×"),
        "percent_of_speed": guess(percent_of_speed, 100 * share[last], "%"),
    },
    crossing_low=value(found[0] if found else 0, "", "n at which a GPU overtakes one CPU core, at the earliest"),
    crossing_high=value(found[-1] if found else 0, "", "the same, at the latest"),
    thousand=value(ratio.value, "×", "time to advance 1,000 numbers, one number being 1"),
    call=value(min(crowd[last][1]) / 300, "s", "one call, on one number"),
    peak=value(matmul_speed[last], "FLOP/s", "best speed of a large product in fp32"),
    gpt_rule=value(estimate[last], "s", f"1,000 GPT steps, batch {BATCH}, by the rule of six"),
    gpt_measured=value(measured[last], "s", "the same, from a few steps"),
    gpt_share=value(100 * share[last], "%", "of the matmul speed reached in training"),
    race=reference.series(SIZES, race[last], "s", "n × n product"),
)

# %% [markdown] tags=["minutes-0"]
# ## Keep this, and what comes next
#
# ```python
# import time, torch
#
# device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
#
# def seconds(work, place=device, repeats=20):
#     times = []
#     for _ in range(1 + repeats):
#         start = time.perf_counter()
#         work()
#         if str(place) != "cpu":
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
# `colab_helpers.benchmark.measure` is the same timer with a time budget instead of a number of repeats.
#
# You know when a GPU wins. How fast can it possibly be, and what stops it? Lesson 02 measures that.
