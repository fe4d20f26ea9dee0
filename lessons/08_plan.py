# %% [markdown]
# You have a model and a laptop, or a free CPU runtime. Somewhere there are a T4, an L4 and an A100, and all you want to know before you
# pay is: will it fit, how long will it take, and what will it cost? Most people find out by renting the machine and watching the notebook
# die. This lesson answers all three beforehand, from your own code, on whatever you have in front of you. And since anybody can make
# predictions, each kind is held against something measured: here where that is possible, by others where it is not. Where nobody has measured yet, the text says so.

# %%
# @title Imports { display-mode: "form" }
import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from colab_helpers import benchmark, facts, hardware, memory, plan, published

from colab_lessons import exercises, figures, models, reference
from colab_lessons.predictions import guessed
from colab_helpers.plan import accuracy, command

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SECONDS = None
ROWS = None
DEEP = None
STEPS = None
HOURS = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
SECONDS = SECONDS or (0.1 if FAST else 1.0)  # time budget of one measurement
ROWS = ROWS or 8  # sequences in a batch
SMALL = models.GPTConfig(block_size=128, n_embd=64 if FAST else 256, n_head=4, n_layer=2 if FAST else 4)  # what this machine will run
DEEP = DEEP or (4 if FAST else 24)  # layers of the one that it times without building it
GPT2 = models.GPTConfig(vocab_size=50_257, block_size=1024, n_embd=768, n_head=12, n_layer=2 if FAST else 12)
SEVEN = models.GPTConfig(vocab_size=32_000, block_size=2048, n_embd=4096, n_head=32, n_layer=2 if FAST else 32)  # 7 billion parameters
STEPS = STEPS or 100_000  # of the training that is planned, and its deadline
HOURS = HOURS or 30

# %%
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
chips = hardware.catalogue()
device

# %% [markdown] tags=["minutes-10", "short-9"]
# ## A rehearsal
#
# Here is an ordinary step: a GPT, a loss, AdamW. It has no hooks for planning. (`where` is a device. Besides the CPU and the
# GPU, PyTorch has one called `meta`, whose tensors have a shape and no data; you will need it for models that are too large to build.)

# %%
def job(config, where):
    with torch.device(where):
        model = models.GPT(config)

    def loss(rows):
        at = "cpu" if where == "meta" else where  # numbers for meta's networks: a rehearsal makes them fake
        tokens = torch.randint(config.vocab_size, (rows, config.block_size + 1), device=at)
        guesses = model(tokens[:, :-1])
        return F.cross_entropy(guesses.flatten(0, 1), tokens[:, 1:].flatten())

    return model, loss, torch.optim.AdamW(model.parameters())


# %% [markdown]
# `plan.trace_step` runs it with *fake tensors*. They have a shape, a format and a device, and no numbers inside; PyTorch uses them itself
# when it compiles. A matrix product of two of them takes no time and gives a third one of the right shape. So the whole step can run,
# backward pass, optimiser and all, while somebody takes notes.

# %%
model, loss, optimizer = job(SMALL, device)
work = plan.trace_step(model, loss, ROWS, optimizer)
work

# %% [markdown]
# (The parts add up to more than the peak: they are not all there at the same moment.) Now run it for real, and let `memory.track` watch.
#
# **Predict.** By how many per cent was the rehearsed peak wrong?

# %%
off_by = None  # @param {type:"number"}

# %%
def step():
    loss(ROWS).backward()
    optimizer.step()
    optimizer.zero_grad()


step()  # the first step makes the optimiser's state
state = [list(entry.values()) for entry in optimizer.state.values()]
with memory.track(device, known=[list(model.parameters()), state]) as meter:
    step()
peak_off = 100 * (work.footprint.peak / meter.peak - 1)
f"rehearsed {work.footprint.peak / 2**20:.1f} MiB, measured {meter.peak / 2**20:.1f} MiB: {peak_off:+.2f} %{guessed(off_by, ' %')}"

# %% [markdown] tags=["minutes-10", "short-8"]
# Bytes follow from shapes alone, so the two have to agree, and on a CPU both are counted in the same way. On a GPU the measured side is CUDA's own
# counter, an independent check. Time does not follow from shapes, and here it gets interesting.
#
# ## Where would the time go?
#
# The rehearsal noted every operation with its *FLOP* (multiplications and additions) and the bytes it reads and writes:

# %%
for name, (calls, flop, moved) in work.families().items():
    print(f"{name:>12}: {calls:4} calls, {100 * flop / work.flop:5.1f} % of the FLOP, {100 * moved / work.moved:5.1f} % of the bytes")

# %% [markdown]
# Matrix products do practically all of the arithmetic. "The rest" is additions, activation functions, norms and the optimiser: it computes next
# to nothing, and moves most of the bytes.
#
# To turn that into seconds on *this* machine, `plan.time_alone` takes each kind of call, makes tensors of its shapes, and times it
# alone. Calls that are equal are timed once: a GPT's layers are all alike.

# %%
expected = plan.time_alone(work, budget=SECONDS)
expected

# %% [markdown]
# Add it all up, and there is a prediction. Does the clock agree?

# %%
seconds = benchmark.measure(step, budget=2 * SECONDS).median
time_off = 100 * (seconds / expected.planned - 1)
f"planned {1000 * expected.planned:.0f} ms, measured {1000 * seconds:.0f} ms: {time_off:+.0f} %"

# %% [markdown]
# Shared machines drift, and so may your result when you run both cells again. What the sum cannot see is what operations do to each other. A
# result that is still in the cache makes the real step faster; memory that must first be allocated, and caches that others have
# filled, make it slower.
#
# Now imagine the same step on GPUs that multiply hundreds of times as fast. Two things are different there: products run in fp16, and the optimiser takes all
# weights in one go (`foreach=True`), with far fewer calls.

# %%
def half(some_loss):
    def run(rows):
        with torch.autocast("cpu", dtype=torch.float16):  # where fake tensors believe they are
            return some_loss(rows)

    return run


same, same_loss, same_optimizer = job(SMALL, "meta")
in_half = plan.trace_step(same, half(same_loss), ROWS, same_optimizer, foreach=True)
call = published.get("call-eager")
print(in_half)
f"{in_half.calls} calls; each takes PyTorch about {1e6 * call.value:.1f} µs ({call.credit})"

# %% [markdown]
# **Predict.** Here the products take most of the time. What per cent do they take on an H100?

# %%
products_share = None  # @param {type:"slider", min:0, max:100, step:5}

# %%
by_machine = {"here, measured": expected.families()}
for key in ("T4", "H100"):
    parts = plan.ceilings(in_half, chips[key])  # what its two limits allow, kind by kind
    waiting = max(0, in_half.calls * call.value - sum(parts.values()))  # for PyTorch's next call
    by_machine[f"{key}, at best"] = parts | {"waiting for calls": waiting}

# %%
shares = {}
for name, parts in by_machine.items():
    total = sum(parts.values())
    shares[name] = {part: 100 * parts.get(part, 0) / total for part in ("matmuls", "attention", "the rest", "waiting for calls")}
    print(f"{name:>15}: {1000 * total:6.2f} ms")
here, on_h100 = shares["here, measured"]["matmuls"], shares["H100, at best"]["matmuls"]
figures.grouped(shares, unit="%", title=f"Products take {here:.0f} % of the time here, {on_h100:.0f} % on an H100{guessed(products_share, ' %')}")

# %% [markdown] tags=["minutes-5", "short-0"]
# In so small a step, every operation on a T4 waits for memory, the products too: they stand left
# of the ridge, where bytes and not FLOP are the limit (lesson 02), and a faster multiplier helps nobody. An H100 moves the bytes ten times as fast, and now waits for something else: for
# PyTorch's next call. (Calls are made while the GPU works, so only what they take beyond that is waiting.) Compare the two totals: the H100 is hardly faster. That is why a small model on a large GPU disappoints, and why fusing calls (`torch.compile`, lesson 03) helps it most.
#
# ## A model that you never build
#
# Equal layers are timed once. So what does it cost to time a model that is many times as deep?
#
# **Predict.** A GPT of 24 layers instead of 4: how many times as long does the *timing* take?

# %%
times_as_long = None  # @param {type:"number"}

# %%
took, foretold = {}, {}
for layers in (SMALL.n_layer, DEEP):
    never_built, its_loss, its_optimizer = job(dataclasses.replace(SMALL, n_layer=layers), "meta")  # no memory for the weights either
    rehearsed = plan.trace_step(never_built, its_loss, ROWS, its_optimizer)
    start = time.perf_counter()
    foretold[layers] = plan.time_alone(rehearsed, "cpu", budget=SECONDS).seconds
    benchmark.synchronize()  # the clock waits for whatever is still running
    took[layers] = time.perf_counter() - start

# %%
longer, slower = (of[DEEP] / of[SMALL.n_layer] for of in (took, foretold))
f"timed in {took[DEEP]:.1f} s, {longer:.1f} times as long{guessed(times_as_long)}; the step should take {slower:.1f} times as long"

# %% [markdown]
# Now build the deep one after all, and run it.

# %%
built, its_loss, its_optimizer = job(dataclasses.replace(SMALL, n_layer=DEEP), "cpu")


def deep_step():
    its_loss(ROWS).backward()
    its_optimizer.step()
    its_optimizer.zero_grad()


measured_deep = benchmark.measure(deep_step, budget=2 * SECONDS).median
f"predicted {1000 * foretold[DEEP]:,.0f} ms, measured {1000 * measured_deep:,.0f} ms"

# %% [markdown] tags=["minutes-4", "short-2"]
# Each prediction is a single sum of timings, and on a shared machine such a sum
# can be off by half. Noise only lengthens a timing: when it matters, time again, and believe the smaller one.
#
# ## How good is that?
#
# One hit proves little. In a clone of this course, `make accuracy` tries nine networks with two optimisers and keeps the table. This is what it
# found, on the machines that it has seen so far. At 1 the step took as long as planned, at 1.2 a fifth longer.

# %%
trials = accuracy.trials()
within = sum(0.8 <= trial.time_ratio <= 1.25 for trial in trials)
figures.bars(
    {f"{trial.network}, {trial.optimizer}": trial.time_ratio for trial in trials},
    unit="times", claims={"within 25 %": (0.8, 1.25)},
    title=f"Time of a step, measured over planned: {within} of {len(trials)} within 25 %",
)

# %%
close = [trial for trial in trials if abs(trial.peak_off) < 1]
f"peak: {len(close)} of {len(trials)} within 1 % of the allocator's own count; the others are {', '.join(sorted({t.network for t in trials} - {t.network for t in close}))}: oneDNN's buffers"

# %% [markdown] tags=["minutes-9", "short-7"]
# ## A chip that you do not have
#
# You cannot time an operation on a chip that is not here. But others have measured its two limits (lesson 02), FLOP per second and bytes per
# second. An operation takes about the longer of the two times. Add them up, and there is an estimate for a step that runs call by call.
# How long real runs took, others have published. Rehearse *their* networks, and compare. A factor of 1 would be perfect.
#
# **Predict.** By what factor did ResNet-50's training in fp16 take longer on an A100 than this sum?

# %%
times_the_ceilings = None  # @param {type:"number"}

# %%
runs = accuracy.runs()
factors = {f"{run.what}, {run.chip}": run.factor for run in runs}
resnet = next(run for run in runs if run.row == "resnet-a100-training")
figures.bars(
    factors, unit="×", paper=factors,
    title=f"{len(runs)} published runs: {min(factors.values()):.1f} to {max(factors.values()):.1f} times that sum; ResNet-50 in fp16, {resnet.factor:.1f}{guessed(times_the_ceilings)}",
)

# %%
for run in runs:
    print(f"{run.chip:>7}, {run.what:26}: {1000 * run.ceilings:5.1f} ms by that sum, {1000 * run.measured:5.1f} measured ({published.get(run.row).source})")

# %% [markdown] tags=["minutes-9", "short-7"]
# Hatched, since the sum is a figure on paper. Most of these runs are NVIDIA's own, tuned code, and yours may take longer. The last one is an estimate: its authors write
# "about 3 minutes" for 5,000 steps, with evaluations and a minute of compiling in it. So a plan gives a range, from the smallest to the largest factor seen on that chip, plus the time of
# PyTorch's calls. All of it is an estimate, not checked on a card.
#
# ## Ask Colab's machines
#
# Now ask all of them at once. Say that you train for 100,000 steps, and take a model that is large enough to need a GPU: GPT-2, 16 rows of 1,024 tokens.
#
# Begin on the back of an envelope. Weights, gradients and AdamW's state take 16 bytes for each parameter. Each row adds the results of twelve layers and, for the loss, 1,024 × 50,257 numbers, several times over.
# And a training step takes six operations for each parameter and token: two forward, four backward.

# %%
large, large_loss, adam = job(GPT2, "meta")
by_hand = 6 * large.parameter_count * 16 * GPT2.block_size
print(f"{large.parameter_count:,} parameters: {16 * large.parameter_count / 1e9:.1f} GB before the first row")
print(f"{by_hand / 1e12:.1f} TFLOP a step: {by_hand / chips['T4'].peak['fp16']:.2f} s on a T4, if it reached its data sheet")
colabs = [chip for chip in chips.values() if chip.where in ("free", "paid")]
print("Colab has:", ", ".join(f"{chip.key} {chip.memory / 1e9:.0f} GB" for chip in colabs))

# %% [markdown]
# **Predict.** GPT-2, 16 rows of 1,024 tokens, products in fp16: on which of Colab's chips does a step fit?

# %%
fits_on = None  # @param ["all", "all but one", "all but two", "A100 and larger", "none"]

# %%
start = time.perf_counter()
big = plan.trace_step(large, half(large_loss), 16, adam, foreach=True)
benchmark.synchronize()
took_big = time.perf_counter() - start
table = plan.estimates(big)
print(command.show(big, table, STEPS), f"(rehearsed in {took_big:.1f} s)", sep="\n")

# %% [markdown]
# The rehearsal finds a little more to compute than the envelope, since attention has products of its own; and it takes far longer than the envelope's 0.19 s, since most operations wait for memory. "Up to" is what PyTorch would hold on to at the worst moment: the rehearsal's tensors, handed out by the rules of CUDA's own allocator, which
# rounds, splits and keeps (lesson 06), and three things that a rehearsal cannot see. They are named, with who says so:

# %% tags=["nbval-check-output"]
for term in plan.overheads():
    print(f"{term.what}: {term.bytes / 1e6:.0f} MB ({term.source}, {term.seen})")

# %% [markdown] tags=["minutes-6", "short-5"]
# Still unknown is the workspace that convolutions and attention take for a moment, since each card has kernels of its own. Leave a tenth free. And be warned: on a CPU such
# bytes agree with what is measured, but nobody has yet held this table against a real GPU.
#
# ## Which machine, then?
#
# A machine burns units by the hour. These are rates that users have reported; for the H100 and the v6e we found none, so they stay out of the choice.

# %% tags=["nbval-check-output"]
for offer in table:
    if offer.units_per_hour and offer.chip.kind == "GPU":
        print(f"{offer.choice:20} {offer.units_per_hour:.2f} units an hour{', or free, if you get one' if offer.free else ''}")

# %% [markdown]
# For the choice the slow end of each range counts, for the deadline as for the price. We compare only GPUs, since
# a PyTorch loop would have to be rewritten for a TPU (lesson 05).
#
# **Predict.** You want 100,000 steps within 30 hours. Which machine costs least?

# %%
your_choice = None  # @param ["T4 GPU", "L4 GPU", "A100 GPU", "A100 GPU, High-RAM", "G4 GPU"]

# %%
gpus = [offer for offer in table if offer.chip.kind == "GPU"]
best = plan.cheapest(gpus, STEPS, deadline=HOURS)
figures.ranges(
    {offer.choice: offer.hours(STEPS) for offer in table}, unit="h", xlabel=f"hours for {STEPS:,} steps",
    out=[offer.choice for offer in table if not offer.fits], limit=(f"{HOURS} hours", HOURS),
    title=f"Cheapest that meets the deadline: {best.choice if best else 'none'}{guessed(your_choice)}",
)

# %%
unit = facts.machine_table().dollars_per_unit
for offer in (offer for offer in table if offer.fits and offer.units(STEPS)):
    few, many = offer.units(STEPS)
    print(f"{offer.choice:20} {few:6.1f} to {many:6.1f} units, {unit * few:5.2f} to {unit * many:5.2f} dollars")

# %% tags=["nbval-check-output"]
facts.quote("compute-units")

# %% [markdown] tags=["minutes-4", "short-0"]
# Both the L4 and the A100 would be in time. An hour on the A100 costs three times what one on the L4 does, and still the whole job costs no more there, since it finishes in a quarter of the time. The two
# ranges overlap, so call the price a draw and the time a win. Compare the price of jobs, not of hours.
#
# ## How many rows?
#
# The usual way to find the largest batch is to try until it crashes. From here you can ask for a chip that you have never touched.
#
# **Predict.** How many rows of 1,024 tokens does GPT-2 take on a T4, in fp16?

# %%
rows_on_t4 = None  # @param {type:"integer"}

# %%
most = plan.largest_batch(lambda rows: plan.trace_step(large, half(large_loss), rows, adam, foreach=True), chips["T4"])
f"on a T4: {most} rows{guessed(rows_on_t4)}"

# %% [markdown]
# That is the most, with nothing to spare: before it gives up, the allocator empties its cache, and our simulated one does the same.
# Take a tenth fewer. But we wanted sixteen. The simplest way out is two parts of eight rows with their gradients added up (lesson 06): it fits, and adds no FLOP. So the T4 was never out, if two or three free
# sessions and checkpoints (lesson 09) will do. Another way is activation
# checkpointing, which keeps only what goes into each layer, and computes the rest again:

# %%
def checkpointed(rows):
    tokens = torch.randint(GPT2.vocab_size, (rows, GPT2.block_size + 1))
    x = large.tokens(tokens[:, :-1]) + large.positions(torch.arange(GPT2.block_size))
    for block in large.blocks:
        x = checkpoint(block, x, use_reentrant=False)
    guesses = large.norm(x) @ large.tokens.weight.T
    return F.cross_entropy(guesses.flatten(0, 1), tokens[:, 1:].flatten())


# %%
thrifty = plan.trace_step(large, half(checkpointed), 16, adam, foreach=True)
[on_t4] = plan.estimates(thrifty, ["T4"])
saved = 100 * (1 - thrifty.footprint.peak / big.footprint.peak)
more = 100 * (thrifty.flop / big.flop - 1)
f"16 rows with checkpointing: {on_t4.up_to / 2**30:.1f} of {on_t4.has / 2**30:.1f} GiB; {saved:.0f} % less memory, {more:.0f} % more FLOP"

# %% [markdown] tags=["minutes-5"]
# It fits now, but not with a tenth to spare. Computing all layers again would be a third more FLOP. It is less because the product with the large vocabulary is not repeated, and because PyTorch stops a layer's second run
# as soon as it has what the backward pass needs. And it saves less than you might hope. With so large a vocabulary it is not the layers that fill the card: the loss wants 50,257
# numbers for every token, several times over, and checkpointing the layers cannot touch those.
#
# ## Seven billion parameters
#
# The question that everybody asks. Build the model on the device `meta`, where weights take nothing, and rehearse it whole. (How long GPT-2 took,
# with 12 layers, stands below its table. This one has 32, far wider.)
#
# **Predict.** How many seconds does the rehearsal of a whole 7 B training step take on the machine before you?

# %%
rehearsal_seconds = None  # @param {type:"number"}

# %%
with torch.device("meta"):
    seven = models.GPT(SEVEN).half()
optimizers = {
    "run it": None,  # no training: forward only
    "train it, SGD": torch.optim.SGD(seven.parameters()),
    "train it, AdamW": torch.optim.AdamW(seven.parameters()),
}


def read(rows):  # any number that depends on all weights will do for a loss
    return seven(torch.zeros(rows, SEVEN.block_size, dtype=torch.long)).float().logsumexp(-1).mean()


# %%
whole, rehearsal_took = {}, {}
for name, optimizer in optimizers.items():
    start = time.perf_counter()
    whole[name] = plan.trace_step(seven, read, 1, optimizer, foreach=True)
    benchmark.synchronize()
    rehearsal_took[name] = time.perf_counter() - start
took_seven = rehearsal_took["train it, AdamW"]
f"{seven.parameter_count / 1e9:.1f} billion parameters: {took_seven:.1f} s for a rehearsal{guessed(rehearsal_seconds)}"

# %%
cards = ("T4", "L4", "A100-40", "A100-80", "G4")
for name, use in whole.items():
    verdicts = ", ".join(f"{offer.chip.key} {'fits' if offer.fits else 'no'}" for offer in plan.estimates(use, cards))
    print(f"{name:>16}: {use.footprint.peak / 2**30:5.1f} GiB of tensors; {verdicts}")

# %% [markdown] tags=["minutes-4", "short-0"]
# All in 16 bits, AdamW's state included, which is less than anybody should train with (lesson 07). Weights, gradients and state are four times
# what the weights alone need, and the optimiser, which takes all weights in one go, adds a fifth copy for a moment: with AdamW none of the T4, the L4 and the
# small A100 holds it. Hence LoRA and 4 bits, whose bytes you counted in lesson 06.
#
# ## In a terminal
#
# All of this is one command, for any file with a function that returns a model, a loss and an optimiser. It runs your file, so plan what you
# would run.

# %%
FILE = """
import torch
from torch import nn

def job():
    model = nn.Sequential(nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 10))
    loss = lambda rows: nn.functional.cross_entropy(model(torch.rand(rows, 784)), torch.randint(10, (rows,)))
    return model, loss, torch.optim.AdamW(model.parameters())
"""

# %%
with tempfile.TemporaryDirectory() as folder:
    Path(folder, "train.py").write_text(FILE)
    words = "plan train.py:job --rows 256 --steps 10000 --chips T4 L4 --deadline 1".split()
    told = subprocess.run([sys.executable, "-m", "colab_helpers", *words], cwd=folder, capture_output=True, text=True)
print(told.stdout or told.stderr)

# %% [markdown] tags=["minutes-7", "short-0"]
# ## Exercises
#
# ### 1 · What does the rule forget?
#
# "Training takes 16 bytes for each parameter" (AdamW, float32) is wrong for most networks. Which part does it leave out, and what does
# that part grow with? Answer with two words: one of `"parameters"`, `"gradients"`, `"optimiser state"`, `"activations"`, and one of `"rows"`,
# `"learning rate"`, `"steps"`.

# %% tags=["exercise"]
forgotten = {"part": ..., "grows with": ...}
### BEGIN SOLUTION
forgotten = {"part": "activations", "grows with": "rows"}  # 16 = weight 4, gradient 4, AdamW's two numbers 8
### END SOLUTION
exercises.check("08.forgotten", forgotten)

# %% [markdown]
# ### 2 · Two rehearsals are enough
#
# A step takes 5.0 GiB with 8 rows and 8.2 GiB with 16. How many rows fit into 14.4 GiB?

# %% tags=["exercise"]
rows = ...
### BEGIN SOLUTION
each = (8.2 - 5.0) / 8  # GiB for a row; what remains stands there without any row
rows = int((14.4 - (5.0 - 8 * each)) / each)
### END SOLUTION
exercises.check("08.rows", rows)

# %% [markdown]
# ### 3 · The cheapest in time
#
# Every hour is paid for in units here, the T4's too. A job takes 10 hours on a T4 (1.2 units an hour), 6 on an L4 (1.7) and 2 on an A100 (5.4). Which one burns fewest units when it must be
# done in 12 hours? In 8? In 3? Answer with chips.

# %% tags=["exercise"]
choice = {"12 hours": ..., "8 hours": ..., "3 hours": ...}
### BEGIN SOLUTION
choice = {
    "12 hours": "L4",  # 10.2 units; the T4 burns 12, the A100 10.8
    "8 hours": "L4",  # the T4 is too slow now
    "3 hours": "A100",  # the only one in time, and hardly dearer
}
### END SOLUTION
exercises.check("08.cheapest", choice)

# %% [markdown]
# ### 4 · Open task: half the peak
#
# `hungry` returns the loss of a network, an `nn.Sequential` of six wide blocks and a last layer. Write `modest`: the same loss and the same gradients for the same rows, with at
# most half of what the rehearsal says `hungry` needs beyond the weights. The check rehearses both.

# %% tags=["exercise"]
def hungry(network, x, y):
    return F.cross_entropy(network(x), y)


def modest(network, x, y):
    return ...


### BEGIN SOLUTION
def modest(network, x, y):
    *blocks, last = network
    for block in blocks:
        x = checkpoint(block, x, use_reentrant=False)  # keeps what goes in, and computes the rest again
    return F.cross_entropy(last(x), y)


### END SOLUTION
exercises.check("08.modest", modest, hungry=hungry)

# %% [markdown] tags=["minutes-2"]
# ## Three things to take away

# %%
takeaways = {
    "Bytes follow from shapes": f"the rehearsed peak was {abs(peak_off):.1g} % off, and nothing was computed for it.",
    "Two measured limits tell a lot": f"published runs took {min(run.factor for run in runs):.1f} to {max(run.factor for run in runs):.1f} times what they allow, operation by operation.",
    "Price jobs, not hours": f"for {STEPS:,} steps of GPT-2 within {HOURS} hours the plan says: {best.choice if best else 'none'}.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Put predictions beside results { display-mode: "form" }
guess = reference.Prediction
predicted = {
    "off_by": guess(off_by, abs(peak_off), "%"),
    "products_share": guess(products_share, on_h100, "%"),
    "times_as_long": guess(times_as_long, longer, "×"),
    "times_the_ceilings": guess(times_the_ceilings, resnet.factor, "×"),
    "fits_on": guess(fits_on, {0: "all", 1: "all but one", 2: "all but two", len(table): "none"}.get(sum(not offer.fits for offer in table), "A100 and larger")),
    "your_choice": guess(your_choice, best.choice if best else "none"),
    "rows_on_t4": guess(rows_on_t4, most),
    "rehearsal_seconds": guess(rehearsal_seconds, took_seven, "s"),
}

# %%
# @title Keep them as a record { display-mode: "form" }
value = reference.Value
reference.record(
    "08_plan", FAST, device=hardware.list_devices().cpu if device.type == "cpu" else hardware.list_devices().main, predicted=predicted,
    peak_off=value(abs(peak_off), "%", "off: the rehearsed peak of a GPT's step"),
    time_ratio=value(seconds / expected.planned, "×", "measured time of that step, the planned being 1"),
    products_here=value(here, "%", "of its time in matrix products"),
    timing_longer=value(longer, "×", f"time to time {DEEP} layers, {SMALL.n_layer} being 1"),
    step_longer=value(slower, "×", "time of their steps"),
    least_factor=value(min(run.factor for run in runs), "×", "published runs over what two limits allow, the best"),
    most_factor=value(max(run.factor for run in runs), "×", "the same, the slowest"),
    products_h100=value(on_h100, "%", "the same on an H100, fp16, as expected on paper"),
    rows_on_t4=value(most, "", "rows of GPT-2 that fit on a T4, fp16"),
    checkpoint_saved=value(saved, "%", "of the peak saved by checkpointing, 16 rows"),
    seven_seconds=value(took_seven, "s", "to rehearse a step of 7 billion parameters"),
    seven_peak=value(whole["run it"].footprint.peak, "B", "tensors of running them, 16 bits"),
)

# %% [markdown] tags=["minutes-0"]
# ## What comes next
#
# You know where your job fits, and what it costs. It may run for hours, and a Colab session promises none of them.
