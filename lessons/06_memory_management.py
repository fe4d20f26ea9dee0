# %%
import gc
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import psutil
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from colab_helpers import benchmark, facts, figures, hardware, memory, precision, runtime
from colab_helpers.lessons import data, exercises, models, reference, replay
from colab_helpers.lessons.predictions import said

replay.watch("06_memory_management")  # cells that need what is missing show recorded results
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # for the JAX part, see there
measured = {}

# %% tags=["parameters"]
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
ROWS = 16  # sequences in a batch
BUDGET_MIB = 100  # memory to stay within, on a CPU; an accelerator gets 40 times as much

# %% [markdown]
# ## Where does it go?
#
# A model in training holds four things: *parameters*, one *gradient* for each, the *optimiser's state* (what it
# remembers of earlier steps), and the *activations* that the backward pass will need.
#
# **Predict.** Adam, float32. How many bytes for each parameter, without activations?

# %%
bytes_a_parameter = None  # @param {type:"integer"}

# %% [markdown]
# A GPT like the one of lesson 01, smaller on a CPU. `memory.track` counts the bytes of live tensors: on CUDA
# it asks PyTorch's *allocator*, the part that hands out memory; elsewhere it watches every tensor be born and
# die.

# %%
found = torch.accelerator.is_available()
inventory = hardware.list_devices()
chip = inventory.main if found else inventory.cpu
device = torch.accelerator.current_accelerator() if found else torch.device("cpu")
small = {"context": 64, "width": 64 if FAST else 128, "heads": 4, "layers": 2 if FAST else 4}
config = models.GPTConfig(**small) if device.type == "cpu" or FAST else models.GPTConfig()
budget = BUDGET_MIB * 2**20 * (1 if device.type == "cpu" else 40) // ((4 if device.type == "cpu" else 10) if FAST else 1)


def loss_of(rows):
    ids = torch.randint(config.vocabulary, (rows, config.context), device=device)
    return F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())


layer = nn.Linear(8, 8, device=device)  # a GPU's maths library takes a workspace, once
(layer(torch.ones(8, 8, device=device)) @ layer.weight).sum().backward()

# %%
model = optimizer = loss = layer = None
with memory.track(device) as meter:
    model = models.GPT(config).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    live = [meter.live]
    loss = loss_of(ROWS)
    live.append(meter.live)
    loss.backward()
    live.append(meter.live)
    optimizer.step()
    live.append(meter.live)
born = dict(zip(("activations", "gradients", "optimiser state"), np.diff(live)))
born["gradients"] += born["activations"]  # the backward pass lets the activations go
moments = ("model", "after forward", "after backward", "after step")
{name: f"{count / 1e6:.2f} MB" for name, count in zip(moments, live)}

# %% [markdown]
# ## Predicted and measured
#
# Parameters: 4 bytes each in float32. Gradients: as many. Adam: two more numbers for each. Activations follow
# no such rule, so `memory.footprint` rehearses your step with PyTorch's *fake tensors*: they have shapes and no
# data, so nothing is computed and nothing is allocated, and every byte can be counted beforehand.

# %%
with memory.track(device) as meter:
    predicted = memory.footprint(model, loss_of, ROWS, optimizer)
measured["rehearsal_left"] = reference.Value(meter.live, "B", "left behind by the rehearsal")
found = {"parameters": live[0], **born}
rows = {name: {"predicted": b, "measured": found[name]} for name, b in predicted.parts.items()}
off = max(abs(row["predicted"] / row["measured"] - 1) for row in rows.values())
a_parameter = sum(b for n, b in found.items() if n != "activations") / model.parameter_count
measured["parts_off"] = reference.Value(100 * off, "%", "off at most: parts of the memory, predicted")
measured["bytes_a_parameter"] = reference.Value(a_parameter, "bytes", "a parameter, with Adam")
figures.grouped(
    rows, unit="B", hollow=("predicted",),
    title=f"{a_parameter:.1f} bytes a parameter{said(bytes_a_parameter)}; {off:.1%} off at most",
)

# %% [markdown]
# ## The worst moment
#
# What counts is the highest point. Watch a whole step.

# %%
def training_step(optimizer, rows):
    optimizer.zero_grad()  # sets gradients to None: their bytes are free
    loss_of(rows).backward()
    optimizer.step()


optimizer.zero_grad()
with memory.track(device, known=[model, optimizer]) as meter:
    meter.mark("forward")
    loss = loss_of(ROWS)
    meter.mark("backward")
    loss.backward()
    meter.mark("step")
    optimizer.step()
off = predicted.peak / meter.peak - 1
figures.timeline(
    meter.timeline(), meter.marks,
    title=f"Peak {meter.peak / 1e6:.1f} MB; predicted {predicted.peak / 1e6:.1f} MB ({off:+.1%})",
)

# %% [markdown]
# The forward pass piles activations up, the backward pass takes them away and leaves gradients. The peak stands
# where both meet. The same for other optimisers:

# %%
makers = {
    "SGD": lambda: torch.optim.SGD(model.parameters(), 0.01),
    "SGD with momentum": lambda: torch.optim.SGD(model.parameters(), 0.01, momentum=0.9),
    "Adam": lambda: torch.optim.Adam(model.parameters()),
}
rows = {}
for name, make in makers.items():
    optimizer = make()
    training_step(optimizer, 2)  # the first step makes the state
    optimizer.zero_grad()
    guess = memory.footprint(model, loss_of, ROWS, optimizer).peak
    with memory.track(device, known=[model, optimizer]) as meter:
        training_step(optimizer, ROWS)
    rows[name] = {"predicted": guess, "measured": meter.peak}
off = max(abs(row["predicted"] / row["measured"] - 1) for row in rows.values())
measured["peak_off"] = reference.Value(100 * off, "%", "off at most: peak of a step, predicted")
figures.grouped(rows, unit="B", hollow=("predicted",), title=f"Peak of a step: {off:.1%} off at most")

# %% [markdown]
# ## What is the largest batch?
#
# With few rows the optimiser's step is the peak. With more, the activations are, and the peak grows by the
# same amount with each row. Measure three batches, draw the line, and read off which batch meets your budget.

# %%
def peak_of(rows):
    optimizer.zero_grad()
    with memory.track(device, known=[model, optimizer]) as meter:
        training_step(optimizer, rows)
    return meter.peak


batches = (8, 12, 16)
peaks = [peak_of(rows) for rows in batches]
a_row, fixed = np.polyfit(batches, peaks, 1)
promised = int((budget - fixed) / a_row)
f"{a_row / 1e6:.2f} MB a row, {fixed / 1e6:.1f} MB without rows: {promised} rows in {budget / 1e6:.0f} MB"

# %% [markdown]
# Now test the promise. `memory.largest_batch` tries, under a budget that raises PyTorch's own
# `OutOfMemoryError`: doubling first, then halving the gap. (CUDA's allocator reserves memory in pieces, so there
# a few rows may lie between.)

# %%
optimizer.zero_grad()
fits = memory.largest_batch(
    lambda rows: training_step(optimizer, rows), budget, device, known=[model, optimizer]
)
optimizer.zero_grad()
measured["batch_promised"] = reference.Value(promised, "", "rows that fit, by the line")
measured["batch_found"] = reference.Value(fits, "", "rows that fit, tried")
assert fits > 0, "not even one row fits: raise BUDGET_MIB"
x = [*batches, fits]
figures.lines(
    x, {"measured": [*(p / 1e6 for p in peaks), peak_of(fits) / 1e6]},
    ideal={"the line": [(fixed + a_row * rows) / 1e6 for rows in x], "budget": [budget / 1e6] * 4},
    title=f"The line promises {promised} rows; {fits} fit", xlabel="rows", ylabel="peak, MB",
)

# %% [markdown]
# ## What really frees
#
# Live tensors are one view. The driver, or the operating system, has another: it sees what the process holds.
# **Predict.** 64 MiB are in a tensor with two names, 64 MiB in an object that points at itself. Which call
# frees the second 64 MiB?

# %%
frees_the_cycle = None  # @param ["del holder", "gc.collect()", "empty_cache()"]

# %%
class Holder:
    def __init__(self):
        self.tensor = torch.ones(2**24, device=device)
        self.me = self  # a cycle: counting references never reaches zero


def seen_from_outside():
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info()
        return total - free
    return psutil.Process().memory_info().rss


def look(step):
    views[step] = meter.live, seen_from_outside()


# %%
big = alias = holder = None
memory.release()
gc.disable()  # Python collects cycles when it likes; here only you decide
views = {}
with memory.track(device) as meter:
    big = torch.ones(2**24, device=device)
    alias, holder = big, Holder()
    look("start")
    del big
    look("del big")
    del alias
    look("del alias")
    del holder
    look("del holder")
    gc.collect()
    look("gc.collect()")
    torch.cuda.empty_cache()  # does nothing where there is no CUDA
    look("empty_cache()")
gc.enable()

# %%
freed = dict(zip([*views][1:], -np.diff([*views.values()], axis=0)))
rows = {
    step: {"live tensors": max(0, int(live)), "seen from outside": max(0, int(outside))}
    for step, (live, outside) in freed.items()
}
cycle = max(("del holder", "gc.collect()", "empty_cache()"), key=lambda s: freed[s][0])
measured["freed_by_gc"] = reference.Value(float(freed["gc.collect()"][0]), "B", "freed by gc.collect()")
figures.grouped(rows, unit="B", title=f"{cycle} frees the cycle{said(frees_the_cycle)}")

# %% [markdown]
# `del` takes a name away; the last one frees the tensor. A cycle needs `gc.collect()`. On CUDA the allocator
# keeps freed blocks for the next tensor (*reserved* memory), so the driver sees no change before
# `empty_cache()`, which frees nothing that is alive. On a CPU, blocks this large usually go straight back.
#
# ## Out of memory
#
# Provoke it. The budget stands in for a full card, and the error is PyTorch's own.
#
# ### WRONG: recover inside `except`

# %%
optimizer.zero_grad()
with memory.track(device, budget, known=[model, optimizer]) as meter:
    start = meter.live
    try:
        training_step(optimizer, 4 * fits)
    except torch.OutOfMemoryError as error:
        message, held = str(error), meter.live - start
        try:
            training_step(optimizer, max(1, 9 * fits // 10))  # a batch that fits
            retry = "worked"
        except torch.OutOfMemoryError:
            retry = "ran out again"
measured["held_inside"] = reference.Value(held, "B", "still held inside except")
measured["retry_wrong"] = reference.Value(float(retry == "worked"), "", "retries that work inside except")
print(message)
f"{held / 1e6:.1f} MB still held; a batch that fits {retry}"

# %% [markdown]
# Read the message: what was asked for, what was free (on a GPU, what was *allowed*: that is our budget). While you are in `except`, the error holds a traceback,
# the traceback holds the frames of every function on the way, and they hold your tensors.
#
# ### RIGHT: leave `except`, then recover

# %%
optimizer.zero_grad()
worked = 0
with memory.track(device, budget, known=[model, optimizer]) as meter:
    start = meter.live
    for _ in range(5):
        failed = False
        try:
            training_step(optimizer, 4 * fits)
        except torch.OutOfMemoryError:
            failed = True  # behind this line the error is gone, and the frames with it
        optimizer.zero_grad()
        memory.release()  # cycles, and cached blocks on CUDA
        assert failed and meter.live == start, "bytes are missing"
        training_step(optimizer, max(1, 9 * fits // 10))
        worked += 1
        optimizer.zero_grad()
    left = meter.live - start
measured["left_after"] = reference.Value(left, "B", "left behind after five recoveries")
measured["retry_right"] = reference.Value(worked / 5, "", "retries that work outside except")
f"{worked} of 5 recovered; {left} bytes left behind"

# %% [markdown]
# ## A leak
#
# ### WRONG: keep losses with their graph
#
# A loss remembers how it was computed, and that holds every activation until `backward` or until it dies.

# %%
def evaluate(keep, batches=4):
    with memory.track(device) as meter:
        losses = []
        for _ in range(batches):
            losses.append(keep(loss_of(ROWS)))
        return meter.live


leaking = evaluate(keep=lambda loss: loss)
f"{leaking / 1e6:.1f} MB held by 4 numbers"

# %% [markdown]
# ### RIGHT: keep numbers, and build no graph where none is needed

# %%
with torch.no_grad():
    held = evaluate(keep=lambda loss: loss.item())
measured["leak"] = reference.Value(leaking, "B", "held by four losses with their graphs")
measured["no_leak"] = reference.Value(held, "B", "held by four numbers")
f"{held} bytes held"

# %% [markdown]
# ## Accumulate gradients
#
# Several small batches, one step: nearly the peak of a small batch (the gradients stay in between), and the
# gradient of the big one. If you do it right.

# %%
split = data.digits()
x, y = (torch.tensor(rows[:100], device=device) for rows in (split.x_train, split.y_train))


def classifier(norm):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), norm, nn.ReLU(), nn.Linear(32, 10)).to(device)


# %%
def accumulated(model, x, y, sizes, share):
    model.zero_grad()
    for part_x, part_y in zip(x.split(sizes), y.split(sizes)):
        loss = F.cross_entropy(model(part_x), part_y)
        (loss * share(len(part_x))).backward()  # gradients add up
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def gap(norm, sizes, share):
    big = accumulated(classifier(norm), x, y, [len(x)], lambda rows: 1)
    gap = accumulated(classifier(norm), x, y, sizes, share) - big
    return float(torch.linalg.vector_norm(gap) / torch.linalg.vector_norm(big))


# %% [markdown]
# ### WRONG: divide by the number of parts, and keep BatchNorm
#
# The parts differ in size, so a plain mean of their losses is not the mean over rows. And BatchNorm normalises each
# part by its own rows.

# %%
sizes = [40, 40, 20]
plain_mean = gap(nn.LayerNorm(32), sizes, lambda rows: 1 / len(sizes))
batch_norm = gap(nn.BatchNorm1d(32), sizes, lambda rows: rows / len(x))
measured["mean_wrong"] = reference.Value(plain_mean, "", "gap: accumulated with a plain mean")
measured["norm_wrong"] = reference.Value(batch_norm, "", "gap: accumulated with BatchNorm")
f"gap to the big batch: {plain_mean:.1%} (plain mean), {batch_norm:.1%} (BatchNorm)"

# %% [markdown]
# ### RIGHT: weigh by rows, normalise each row by itself

# %%
right = gap(nn.LayerNorm(32), sizes, lambda rows: rows / len(x))
measured["accumulated_right"] = reference.Value(right, "", "gap: accumulated, weighed by rows")
assert right < 1e-5
f"gap to the big batch: {right:.0e}"

# %% [markdown]
# ## Ways out, and their price
#
# *Checkpointing* saves a block's input only, and computes the block again in the backward pass. *Offloading* puts
# activations elsewhere: into host RAM from a GPU, onto disk from a CPU.

# %%
def loss_with_checkpoints(rows):
    ids = torch.randint(config.vocabulary, (rows, config.context), device=device)
    x = model.tokens(ids) + model.positions(torch.arange(config.context, device=device))
    for block in model.blocks:
        x = checkpoint(block, x, use_reentrant=False)
    logits = model.norm(x) @ model.tokens.weight.T
    return F.cross_entropy(logits.flatten(0, 1), ids.flatten())


# %%
def to_disk(tensor):
    path = Path(shelf.name, f"{next(numbers)}.pt")
    torch.save(tensor.detach().clone(), path)
    return path


shelf, numbers = tempfile.TemporaryDirectory(), iter(range(10**9))  # goes with the session
if device.type == "cuda":
    offload = torch.autograd.graph.save_on_cpu(pin_memory=True)
else:
    offload = torch.autograd.graph.saved_tensors_hooks(to_disk, torch.load)

# %% [markdown]
# **Predict.** Which way out saves most memory here?

# %%
saves_most = None  # @param ["half the batch", "accumulate", "checkpoint", "offload", "16 bits"]

# %%
def accumulate(rows):
    for _ in range(2):
        (loss_of(rows // 2) / 2).backward()


def offloaded(rows):
    with offload:
        loss = loss_of(rows)
    loss.backward()


ways = {
    "plain": lambda: loss_of(ROWS).backward(),
    "half the batch": lambda: loss_of(ROWS // 2).backward(),
    "accumulate": lambda: accumulate(ROWS),
    "checkpoint": lambda: loss_with_checkpoints(ROWS).backward(),
    "offload": lambda: offloaded(ROWS),
    "16 bits": lambda: loss_of(ROWS).backward(),  # on a model turned into a 16-bit format
}

# %%
advice, price = precision.advise(chip).format, {}
for name, way in ways.items():
    if name == "16 bits":
        model.to(torch.float16 if advice == "fp16" else torch.bfloat16)
    model.zero_grad()
    with memory.track(device, known=model) as meter:
        way()
    seconds = benchmark.measure(way, budget=0.05 if FAST else 1.0).median
    price[name] = {"peak memory": meter.peak, "time": seconds}
    model.zero_grad()
model.float()

# %%
rows = {
    name: {kind: 100 * row[kind] / price["plain"][kind] for kind in row} for name, row in price.items()
}
best = min((name for name in rows if name != "plain"), key=lambda name: rows[name]["peak memory"])
saved, extra = 100 - rows["checkpoint"]["peak memory"], rows["checkpoint"]["time"] - 100
between = price["accumulate"]["peak memory"] - price["half the batch"]["peak memory"]
measured["kept_between"] = reference.Value(between, "B", "more at the peak: accumulating, for the gradients")
measured["checkpoint_saved"] = reference.Value(saved, "%", "of the peak saved by checkpointing")
measured["checkpoint_price"] = reference.Value(extra, "%", "more time with checkpointing")
figures.grouped(rows, unit="%", title=f"Saves most here: {best}{said(saves_most)}")

# %% [markdown]
# 16 bits halve most tensors; whether that is fast depends on the chip, which is lesson 07.
#
# The optimiser's state is a way out too. Adafactor keeps sums of rows and columns; 8-bit Adam keeps one byte
# for each number, in packages that are not here.

# %%
state = {}
for name, make in {**makers, "Adafactor": lambda: torch.optim.Adafactor(model.parameters())}.items():
    other = make()
    training_step(other, 2)
    state[name] = memory.tensor_bytes(other) / model.parameter_count
state["8-bit Adam"] = 2.0
measured["adafactor"] = reference.Value(state["Adafactor"], "bytes", "of state a parameter: Adafactor")
figures.bars(
    state, unit="bytes", paper=("8-bit Adam",),
    title=f"State for each parameter: Adam {state['Adam']:.1f} B, Adafactor {state['Adafactor']:.2f} B",
)

# %% [markdown]
# ## Other frameworks, one at a time
#
# Two frameworks in one process each want the GPU for themselves. What each takes at its start:

# %% tags=["nbval-check-output"]
facts.quote("tensorflow-growth", "jax-preallocation", "expandable-segments")

# %%
# needs: tensorflow
with runtime.quiet():
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    before = psutil.Process().memory_info().rss
    block = tf.ones((2**24,))
    taken = psutil.Process().memory_info().rss - before
if gpus:
    taken = tf.config.experimental.get_memory_info("GPU:0")["current"]
f"a tensor of {2**26 / 1e6:.0f} MB took {taken / 1e6:.0f} MB ({'GPU' if gpus else 'process'})"

# %% [markdown]
# JAX knows what a compiled step will take before it runs. *Donating* the old weights and momentum lets the new ones
# take their place; some of that comes back as temporary room.

# %%
# needs: jax
os.environ["JAX_PLATFORMS"] = "cpu"  # one framework at a time: PyTorch has the accelerator
import jax
import jax.numpy as jnp


def step(weights, momentum, x):
    gradient = jax.grad(lambda w: jnp.tanh(x @ w).sum())(weights)
    momentum = 0.9 * momentum + gradient
    return weights - 0.1 * momentum, momentum


def planned_bytes(**options):
    w, x = jnp.ones((1024, 1024)), jnp.ones((64, 1024))
    plan = jax.jit(step, **options).lower(w, w, x).compile().memory_analysis()
    total = plan.argument_size_in_bytes + plan.output_size_in_bytes + plan.temp_size_in_bytes
    return total - plan.alias_size_in_bytes


kept, donated = planned_bytes(), planned_bytes(donate_argnums=(0, 1))
measured["donated"] = reference.Value(kept - donated, "B", "saved by donating the old weights, planned")
f"plan: {kept / 1e6:.1f} MB; donated: {donated / 1e6:.1f} MB"

# %% [markdown]
# ## Host RAM and disk
#
# When RAM runs out, there is no error to catch: the session ends. A file that is larger than RAM can be read
# piece by piece, as a *memory map*.

# %%
def rss():
    return psutil.Process().memory_info().rss


with tempfile.TemporaryDirectory() as place:
    path = Path(place, "rows.npy")
    np.save(path, np.ones((2**14, 2**10), np.float32))
    size, taken = path.stat().st_size, {}
    for name, mode in {"read whole": None, "memory map": "r"}.items():
        before = rss()
        file = np.load(path, mmap_mode=mode)
        batch = file[:64].sum()
        taken[name] = max(0, rss() - before)
        del file
ram, disk = psutil.virtual_memory(), shutil.disk_usage(Path.cwd())
print(f"RAM {ram.available / 1e9:.1f} GB free; disk {disk.free / 1e9:.0f} GB free")
figures.bars(taken, unit="B", title=f"RAM taken by a file of {size / 1e6:.0f} MB, 64 rows used")

# %% [markdown]
# ## Exercises
#
# ### 1 · Will it fit?
#
# GPT-2 small has 124,439,808 parameters. Float32, Adam. How many GiB (2**30 bytes) for everything except
# activations?

# %% tags=["exercise"]
gib_with_adam = ...
### BEGIN SOLUTION
gib_with_adam = 124_439_808 * (4 + 4 + 8) / 2**30
### END SOLUTION
exercises.check("06.adam_bytes", gib_with_adam)

# %% [markdown]
# ### 2 · Find the leak
#
# Memory grows with each epoch. Which line is it, and what should stand there instead?
#
# ```
# 1  for x, y in validation:
# 2      loss = loss_function(model(x), y)
# 3      history.append(loss)
# 4  print(len(history))
# ```

# %% tags=["exercise"]
leak = {"line": ..., "instead": ...}  # instead: one line of code
### BEGIN SOLUTION
leak = {"line": 3, "instead": "history.append(loss.item())"}
### END SOLUTION
exercises.check("06.leak", leak)

# %% [markdown]
# ### 3 · Make the batch fit
#
# 14.5 GiB are free. Without rows the peak is 3.0 GiB, each row adds 0.11 GiB, and the recipe wants batches of
# 256. How many rows fit at once, and into how many parts do you split a batch?

# %% tags=["exercise"]
plan = {"rows": ..., "parts": ...}
### BEGIN SOLUTION
plan = {"rows": int((14.5 - 3.0) / 0.11), "parts": -(-256 // int((14.5 - 3.0) / 0.11))}
### END SOLUTION
exercises.check("06.fit", plan)

# %% [markdown]
# ## What you measured

# %%
reference.record("06_memory_management", FAST, device=chip, **measured)

# %% [markdown]
# ## What comes next
#
# One way out saves memory and can be the fastest of all, on the right chip: fewer bits.
