# %%
# @title Imports { display-mode: "form" }
import gc
import os
import tempfile
import warnings
from pathlib import Path

import numpy as np
import psutil
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from colab_helpers import benchmark, facts, hardware, memory, precision, published, runtime
from colab_lessons import data, exercises, figures, models, reference, replay
from colab_lessons.predictions import guessed

replay.watch("06_memory_management")  # cells that need what is missing show recorded results
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # for the JAX part, see there

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SECONDS = None
TURNS = None
ROWS = None
BUDGET = None
LARGE_BUDGET = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
SECONDS = SECONDS or (0.05 if FAST else 1.0)  # time budget of one measurement, and turns that may share it
TURNS = TURNS or (1 if FAST else 5)
ROWS = ROWS or 16  # sequences in a batch
SMALL = models.GPTConfig(block_size=64, n_embd=64 if FAST else 128, n_head=4, n_layer=2 if FAST else 4)  # for a CPU
LARGE = SMALL if FAST else models.GPTConfig()  # for an accelerator
BUDGET = BUDGET or (25e6 if FAST else 100e6)  # bytes to stay within, for each
LARGE_BUDGET = LARGE_BUDGET or (400e6 if FAST else 4e9)

# %%
has_accelerator = torch.accelerator.is_available()
device = torch.accelerator.current_accelerator() if has_accelerator else torch.device("cpu")
config, budget = (SMALL, BUDGET) if device.type == "cpu" else (LARGE, LARGE_BUDGET)
device

# %% [markdown] tags=["minutes-10"]
# ## Where does it go?
#
# A model in training holds four things: its *parameters*; a *gradient* for each of them; the *optimiser's state*, which is
# what it remembers of earlier steps; and the *activations*, the intermediate results that the backward pass will need.
#
# On a GPU, four lines of PyTorch tell you how much memory that is. Learn them by heart: they work in any notebook.
#
# ```
# torch.cuda.reset_peak_memory_stats()
# torch.cuda.memory_allocated()        # bytes in live tensors, now
# torch.cuda.max_memory_allocated()    # and at the worst moment since the reset
# torch.cuda.memory_reserved()         # what PyTorch holds for them; more below
# ```
#
# `memory.track` reads the same counters. Without a GPU it counts every tensor's creation and release, so that this lesson works
# everywhere. With a GPU, see whether the two agree:

# %%
on_cuda = device.type == "cuda"
before = torch.cuda.memory_allocated() if on_cuda else 0
with memory.track(device) as meter:
    block = torch.ones(10**6, device=device)
    now = torch.cuda.memory_allocated() - before if on_cuda else "no CUDA here"
    counted = meter.live
del block
f"memory.track: {counted:,} bytes; torch.cuda: {now}"

# %% [markdown]
# (A million numbers of 4 bytes. On a GPU PyTorch rounds up to multiples of 512, so there both say 4,000,256. And a word on units: MB
# and GB count in powers of ten; MiB and GiB, which PyTorch's messages use, in powers of two.) Now build a small GPT, like that of
# lesson 01, and watch the first two steps of its training.
#
# **Predict.** Float32, and Adam, which keeps two averages for each parameter. How many bytes for each parameter, without activations?

# %%
bytes_per_parameter = None  # @param {type:"integer"}

# %%
# @title A batch of random text, and a GPU's maths library warmed up { display-mode: "form" }
def loss_of(rows):
    ids = torch.randint(config.vocab_size, (rows, config.block_size), device=device)
    return F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())


layer = nn.Linear(8, 8, device=device)  # the library takes a workspace, once
(layer(torch.ones(8, 8, device=device)) @ layer.weight).sum().backward()
model = optimizer = loss = layer = None

# %%
live = {}
with memory.track(device) as meter:
    meter.mark("model")
    model = models.GPT(config).to(device)
    live["parameters"] = meter.live
    optimizer = torch.optim.Adam(model.parameters())
    for step in (1, 2):
        meter.mark(f"forward {step}")
        loss = loss_of(ROWS)
        live[f"forward {step}"] = meter.live
        meter.mark(f"backward {step}")
        loss.backward()
        live[f"backward {step}"] = meter.live
        meter.mark(f"step {step}")
        optimizer.step()
        live[f"step {step}"] = meter.live
        meter.mark("zero_grad")
        optimizer.zero_grad()  # sets gradients to None: their bytes are free

# %%
parameters = live["parameters"]
gradients = live["backward 1"] - parameters
state = live["step 1"] - live["backward 1"]
per_parameter = (parameters + gradients + state) / model.parameter_count
figures.timeline(
    meter.timeline(), meter.marks,
    title=f"{per_parameter:.1f} bytes for each of {model.parameter_count:,} parameters{guessed(bytes_per_parameter)}; {meter.peak / 1e6:.0f} MB at the peak",
)

# %% [markdown] tags=["minutes-10"]
# Read it from left to right. The parameters are a step that stays. The forward pass piles activations up; the backward pass takes them away
# again and leaves gradients. The first `optimizer.step()` adds two more numbers for each parameter, for good: that is Adam. From then on
# each step looks like the second hump, and its top is what must fit. Four bytes for the parameter, eight for
# Adam, and four for the gradient until `zero_grad` drops it: 16, on any chip, as long as everything is float32 and every parameter is trained. The activations follow no such rule, and neither does a fifth thing: *temporaries*, which an operation
# makes and drops again (the ripples).
#
# ## Predict the peak
#
# "16 bytes per parameter" is what people quote. How far does it get you? And is there something better? PyTorch can rehearse a step with
# *fake tensors*, which have a shape but no data: nothing is computed, nothing is allocated, and every byte can be counted.
# `memory.footprint` does that. (PyTorch's own name for such a rehearsal is `FakeTensorMode`.) Try both on six very different networks, with 16 rows each:

# %%
# @title Networks to choose from { display-mode: "form" }
class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.again, self.out = nn.Linear(784, 784), nn.Linear(784, 10)

    def forward(self, x):
        return self.out(self.again(self.again(x).relu()).relu())


def text(vocabulary, layers):
    return models.GPT(models.GPTConfig(block_size=64, n_embd=128, n_head=4, n_layer=layers, vocab_size=vocabulary))


def images(channels):
    blocks = []
    for entering, leaving in zip((3, *channels), channels):
        blocks += [nn.Conv2d(entering, leaving, 3, padding=1), nn.BatchNorm2d(leaving), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*blocks, nn.Flatten(), nn.LazyLinear(10))


def wide(width):
    return nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))


# %%
# @title Six of them, each with a forward pass over some rows { display-mode: "form" }
networks = {  # name: (make it, shape of one row, size of its vocabulary or 0)
    "wide, few rows": (lambda: wide(2048), (784,), 0),
    "images, BatchNorm": (lambda: images((16, 32, 64)), (3, 32, 32), 0),
    "a layer used twice": (Twice, (784,), 0),
    "GPT": (lambda: text(96, 4), (64,), 96),
    "GPT, 16,000 tokens": (lambda: text(16_000, 2), (64,), 16_000),
    "GPT, one layer": (lambda: text(96, 1), (64,), 96),
}


def prepare(make, shape, vocabulary):
    network = make().to(device)
    row = torch.randint(vocabulary, shape) if vocabulary else torch.rand(shape)
    network(row[None].to(device))  # makes lazy layers

    def forward(rows):
        x = row.to(device).expand(rows, *shape)
        found = network(x)
        wanted = torch.zeros(found.shape[:-1], dtype=torch.long, device=device)
        return F.cross_entropy(found.flatten(0, -2), wanted.flatten())

    return network, forward


for name, recipe in networks.items():
    print(f"{name:>18}: {sum(p.numel() for p in prepare(*recipe)[0].parameters()):>9,} parameters, one row has {recipe[1]}")

# %% [markdown]
# **Predict.** For how many of the six is "16 bytes per parameter" within 20 % of the truth?

# %%
within_a_fifth = None  # @param {type:"integer"}

# %%
def train_step(forward, rows, optimizer):
    forward(rows).backward()
    optimizer.step()
    optimizer.zero_grad()


# %%
off, left_by_rehearsals = {}, 0
for name, recipe in networks.items():
    network, forward = prepare(*recipe)
    adam = torch.optim.Adam(network.parameters())
    train_step(forward, 2, adam)  # the first step makes Adam's state
    with memory.track(device) as meter:
        rehearsed = memory.footprint(network, forward, ROWS, adam).peak
    left_by_rehearsals += meter.live
    with memory.track(device, known=[network, adam]) as meter:
        train_step(forward, ROWS, adam)
    rule = 16 * sum(p.numel() for p in network.parameters())
    off[name] = {"16 bytes per parameter": rule / meter.peak, "rehearsed": rehearsed / meter.peak}

# %%
good = sum(abs(row["16 bytes per parameter"] - 1) < 0.2 for row in off.values())
exact = sum(abs(row["rehearsed"] - 1) < 0.01 for row in off.values())
figures.ratios(
    off, one="what was measured", xlabel="predicted peak, in multiples of the measured one",
    title=f"Within 20 %: the rule, {good} of 6{guessed(within_a_fifth)}. Within 1 %: the rehearsal, {exact} of 6",
)

# %% [markdown] tags=["minutes-9", "short-0"]
# The rule counts parameters, gradients and Adam's state. Even where parameters dominate ("wide"), Adam's temporaries come on top; where
# activations do, as with images, or with a large vocabulary (each position gets a score for every token), the rule promises a
# fraction of what you need. The rehearsal sees all of it, and it needs no GPU: you can ask on your laptop. (Without one, both sides count the same allocations, so they agree to within a few bytes.) For a GPU, leave a margin: its
# own kernels can want other temporaries, CUDA itself takes a few hundred MB, and the allocator rounds.
#
# ## What is the largest batch?
#
# Once the activations set the peak of a step, it grows by the same amount with each row. So measure three batches, draw the line through them, and
# read off which batch meets your budget.

# %%
def training_step(rows):
    optimizer.zero_grad()
    loss_of(rows).backward()
    optimizer.step()


def peak_of(rows):
    optimizer.zero_grad()
    with memory.track(device, known=[model, optimizer]) as meter:
        training_step(rows)
    return meter.peak


batches = (8, 12, 16)
peaks = [peak_of(rows) for rows in batches]
per_row, fixed = np.polyfit(batches, peaks, 1)
promised = int((budget - fixed) / per_row)
f"{per_row / 1e6:.2f} MB per row, {fixed / 1e6:.1f} MB without rows: {promised} rows in {budget / 1e6:.0f} MB"

# %% [markdown]
# (Less without rows than 16 bytes for each parameter? At the top of the hump the gradients are hardly there yet, so about 12 bytes count.) Now test the promise. `memory.largest_batch` tries, under a budget that raises PyTorch's own `OutOfMemoryError`: it doubles until that
# happens, then halves the gap. (On a GPU memory is handed out in large pieces, so the promise may be off by a few rows.)

# %%
optimizer.zero_grad()
fits = memory.largest_batch(training_step, int(budget), device, known=[model, optimizer])
optimizer.zero_grad()
assert fits > 0, "not even one row fits: raise the budget"
x = [*batches, fits]
figures.lines(
    x, {"measured": [*(p / 1e6 for p in peaks), peak_of(fits) / 1e6]},
    ideal={"the line": [(fixed + per_row * rows) / 1e6 for rows in x], "budget": [budget / 1e6] * 4},
    title=f"The line promises {promised} rows; {fits} fit", xlabel="rows", ylabel="peak, MB",
)

# %% [markdown] tags=["minutes-9", "short-5"]
# Three small measurements, and you know where the wall is without running into it.
#
# ## What really frees memory
#
# Live tensors are one view. The operating system, or the GPU's driver, has another: what the process *holds*. Two tensors of 64 MiB:
# one has two names; the other sits in an object that points at itself.
#
# **Predict.** `del holder`, `gc.collect()`, `empty_cache()`: which call frees the second tensor, the one in the cycle?

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
views, big, alias, holder = {}, None, None, None
memory.release()
gc.disable()  # Python collects cycles when it likes; here only you decide
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
print(f"{'':>14}  live tensors   seen from outside")
for call, (inside, outside) in freed.items():
    print(f"{call:>14}  {inside / 2**20:8.0f} MiB   {max(0, outside) / 2**20:8.0f} MiB freed")
cycle = max(("del holder", "gc.collect()", "empty_cache()"), key=lambda call: freed[call][0])
f"{cycle} frees the cycle{guessed(frees_the_cycle)}"

# %% [markdown]
# `del` takes a *name* away; when the last one goes, so does the tensor. A cycle waits for `gc.collect()`. On CUDA the right column stays
# at zero until `empty_cache()`, for a reason that comes next.
#
# Notebooks add a trap of their own. The value of a cell's last line is kept under `_`, and in `Out`, for as long as the session lives.

# %%
torch.zeros(2**24, device=device)[:3]  # a view of three numbers, you would think

# %%
shown = [value for value in globals().get("Out", {}).values() if isinstance(value, torch.Tensor)]
kept = max((value.untyped_storage().nbytes() for value in shown), default=0)
del shown
f"`Out` kept {kept / 2**20:.0f} MiB alive"

# %% [markdown] tags=["minutes-10", "short-9"]
# Three numbers on the screen, 64 MiB in memory: the view holds the whole tensor. End such cells with a number, a string or a semicolon. What is already kept stays until
# you restart: Colab's IPython (7.34) keeps a second reference to each output, so even `%reset -f out` frees nothing there.
#
# ## The allocator that never gives back
#
# Asking the driver for memory is slow, so PyTorch asks for large *segments*, cuts *blocks* out of them, and keeps what you free
# for the next tensor. That is why `nvidia-smi` (lesson 02) shows more than your tensors need. Here is a model of the allocator, on an imaginary card
# of 200 MiB, so that you can look inside. (The rules are those of PyTorch 2.13; sizes are made small.)
#
# Nine batches of growing size come one after the other: 12, 14, 16 … 28 MiB. Each is freed before the next one.
#
# **Predict.** How many MiB does the allocator hold in the end?

# %%
mib_held = None  # @param {type:"integer"}

# %%
MIB = 2**20
growing = range(12, 30, 2)  # MiB
moments = {}
for order, sizes in {"small batches first": growing, "the largest first": growing[::-1]}.items():
    card = memory.Allocator(200 * MIB)
    for size in sizes:
        batch = card.take(size * MIB)
        card.give(batch)  # del batch
    moments[order] = card.segments()
held = {order: sum(size for segment in segments for size, _ in segment) // MIB for order, segments in moments.items()}

# %%
figures.blocks(
    moments, capacity=200 * MIB,
    title=f"Nothing in use, and {held['small batches first']} MiB held{guessed(mib_held)}; with the largest first, {held['the largest first']}",
)

# %% [markdown]
# Hatched means free, and framed means held. A batch that is a little larger than all before fits into no segment, so a new one is
# made, again and again. With the largest first, one segment serves all. Batches of texts of different lengths cause this: let the first be
# the longest, or pad. (When the card is full, the allocator itself gives all free segments back and tries again. So `empty_cache()` seldom cures an error of yours; it helps others
# on the same card.)
#
# So growing batches cost retries, and look alarming in `nvidia-smi`. It becomes an error when something alive sits in each segment. Fill a card of 100 MiB with blocks of 4 MiB, then free every second one. (For tensors of 1 to 10 MiB PyTorch asks for 20 MiB at a time; larger ones get a
# segment of their own.)

# %%
card = memory.Allocator(100 * MIB)
blocks = [card.take(4 * MIB) for _ in range(25)]
full = card.segments()
for block in blocks[::2]:
    card.give(block)
free = sum(size for segment in card.segments() for size, state in segment if state == "free") / MIB
figures.blocks({"full": full, "half freed": card.segments()}, capacity=100 * MIB, title=f"{free:.0f} MiB are free, in pieces of 4")

# %% [markdown]
# **Predict.** Will a tensor of 10 MiB fit?

# %%
will_fit = None  # @param ["yes", "no"]

# %%
fitted, message = "yes", ""
try:
    card.take(10 * MIB)
except Exception as error:
    fitted, message = "no", str(error)
print(message.partition("See documentation")[0])
f"does a tensor of 10 MiB fit, with {free:.0f} MiB free? {fitted}{guessed(will_fit)}"

# %% [markdown]
# That is *fragmentation*: enough memory, in pieces that are too small. The message is in PyTorch's words, and you will meet it. Read it like this:
#
# | it says | it means |
# |---|---|
# | Tried to allocate | the one tensor that was too much. Small? Then the card is full, and many things filled it |
# | total capacity … of which … is free | what the driver has left. Your own process holds most of the rest, and perhaps another one |
# | allocated by PyTorch | your live tensors. Close to the capacity? Then your model or your batch is too large |
# | reserved by PyTorch but unallocated | the hatched part. Large? Then it is fragmentation |
# | expandable_segments | segments that can grow, which helps the growing batches above. Before `import torch`: `os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"` |
#
# And this is what a real one said, on Colab's T4:

# %%
row = published.get("full-t4")
print(f"{row.conditions}\n[{row.credit}]")

# %% [markdown] tags=["minutes-7"]
# The card was simply full: 14.55 of 14.75 GiB are live tensors, and there is hardly anything to tidy up.
#
# ## Out of memory
#
# Now run out for real. The budget stands in for a full card, and the error is PyTorch's.
#
# ### WRONG: recover inside `except`

# %%
optimizer.zero_grad()
with memory.track(device, int(budget), known=[model, optimizer]) as meter:
    start = meter.live
    try:
        training_step(4 * fits)
    except torch.OutOfMemoryError:
        held_inside = meter.live - start
        try:
            training_step(max(1, 9 * fits // 10))  # a batch that fits, a little below the limit
            retry = "worked"
        except torch.OutOfMemoryError:
            retry = "ran out again"
f"{held_inside / 1e6:.1f} MB still held; a batch that fits {retry}"

# %% [markdown]
# While you are in `except`, the error holds a *traceback*, the traceback holds the frames of all functions on the way, and they
# hold your tensors. An error that nobody catches is worse, and you will meet it more often: the cell stops, IPython keeps the last traceback for its debugger, and the
# card stays full when you run the next cell. Let another error take its place (`1/0` in a cell of its own will do), then `gc.collect()`. `memory.release()` does both.
#
# ### RIGHT: leave `except`, then recover

# %%
def step_or_not(rows):
    try:
        training_step(rows)
    except torch.OutOfMemoryError:
        return False  # after the except block the error is gone, and the frames with it
    return True


optimizer.zero_grad()
recovered = 0
with memory.track(device, int(budget), known=[model, optimizer]) as meter:
    start = meter.live
    for _ in range(5):
        failed = not step_or_not(4 * fits)
        optimizer.zero_grad()
        memory.release()  # cycles, and cached blocks on CUDA
        if failed and meter.live == start and step_or_not(max(1, 9 * fits // 10)):
            recovered += 1
        optimizer.zero_grad()
    left_behind = meter.live - start
f"{recovered} of 5 recovered; {left_behind} bytes left behind"

# %% [markdown] tags=["minutes-2"]
# ## A leak
#
# ### WRONG: keep losses with their graph
#
# A loss remembers how it was computed, and that holds every activation until `backward`, or until the loss dies.

# %%
def evaluate(keep, batches=4):
    with memory.track(device) as meter:
        losses = []
        for _ in range(batches):
            losses.append(keep(loss_of(ROWS)))
        return meter.live


leaking = evaluate(keep=lambda loss: loss)
f"{leaking / 1e6:.1f} MB held by 4 losses"

# %% [markdown]
# ### RIGHT: keep numbers

# %%
not_leaking = evaluate(keep=lambda loss: loss.item())
f"{not_leaking} bytes held"

# %% [markdown]
# (In an evaluation, also write `with torch.no_grad():` around it. Then no graph is built in the first place, and the peak is lower.)

# %% [markdown] tags=["minutes-4", "short-0"]
# ## Accumulate gradients
#
# If the batch that you want does not fit, run it in parts and let the gradients add up: nearly the peak of a part, and the
# gradient of the whole. If you do it right.

# %%
split = data.digits()
x, y = (torch.tensor(rows[:100], device=device) for rows in (split.x_train, split.y_train))


def gradient(norm, sizes, weight):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 32), norm, nn.ReLU(), nn.Linear(32, 10)).to(device)
    for part_x, part_y in zip(x.split(sizes), y.split(sizes)):
        (weight(len(part_x)) * F.cross_entropy(network(part_x), part_y)).backward()  # adds up
    return torch.cat([p.grad.flatten() for p in network.parameters()])


def gap(norm, weight):
    whole = gradient(norm(32), [100], lambda rows: 1)
    parts = gradient(norm(32), [40, 40, 20], weight)
    return float(torch.linalg.vector_norm(parts - whole) / torch.linalg.vector_norm(whole))


# %% [markdown]
# ### WRONG: divide by the number of parts when they differ in size, or keep BatchNorm
#
# The parts differ in size, so a plain mean of their losses is not the mean over rows. And BatchNorm normalises each part by its
# own rows only.

# %%
plain_mean, batch_norm = gap(nn.LayerNorm, lambda rows: 1 / 3), gap(nn.BatchNorm1d, lambda rows: rows / 100)
f"gap to the gradient of the whole: {plain_mean:.1%} (plain mean), {batch_norm:.1%} (BatchNorm)"

# %% [markdown]
# ### RIGHT: weight by rows, normalise each row by itself
#
# Here that means `LayerNorm`. In a network that somebody else has trained, freeze BatchNorm with `.eval()`, or live with the gap. For texts, weight by tokens.

# %%
weighed = gap(nn.LayerNorm, lambda rows: rows / 100)
f"gap to the gradient of the whole: {weighed:.0e}"

# %% [markdown] tags=["minutes-6", "short-0"]
# ## Ways out, and their price
#
# *Checkpointing* keeps a block's input only, and computes the block again in the backward pass. *Offloading* puts activations
# elsewhere: from a GPU into the host's memory, from a CPU onto disk. *Autocast* computes in 16 bits (lesson 07).
#
# **Predict.** Which way lowers the peak most here?

# %%
saves_most = None  # @param ["half the batch", "accumulate", "checkpoint", "offload", "autocast"]

# %%
def loss_with_checkpoints(rows):
    ids = torch.randint(config.vocab_size, (rows, config.block_size), device=device)
    x = model.tokens(ids) + model.positions(torch.arange(config.block_size, device=device))
    for block in model.blocks:
        x = checkpoint(block, x, use_reentrant=False)
    logits = model.norm(x) @ model.tokens.weight.T
    return F.cross_entropy(logits.flatten(0, 1), ids.flatten())


def accumulate(rows):
    for _ in range(2):
        (loss_of(rows // 2) / 2).backward()  # equal parts


# %%
# @title Offloading: to the host from a GPU, to disk from a CPU; and autocast in this chip's format { display-mode: "form" }
warnings.filterwarnings("ignore", message="at::frobenius_norm")  # PyTorch's own Adafactor causes it on Apple GPUs
shelf, numbers = tempfile.TemporaryDirectory(), iter(range(10**9))  # goes with the session


def to_disk(tensor):
    path = Path(shelf.name, f"{next(numbers)}.pt")
    torch.save(tensor.detach().clone(), path)
    return path


def offloaded(rows):
    with torch.autograd.graph.save_on_cpu(pin_memory=True) if on_cuda else torch.autograd.graph.saved_tensors_hooks(to_disk, torch.load):
        loss = loss_of(rows)
    loss.backward()


inventory = hardware.list_devices()
chip = inventory.cpu if device.type == "cpu" else inventory.main
short = torch.float16 if precision.advise(chip).format == "fp16" else torch.bfloat16


def in_16_bits(rows):
    with torch.autocast(device.type, dtype=short):
        loss = loss_of(rows)
    loss.backward()


# %%
ways = {  # name: (what to run, rows it gets through)
    "plain": (lambda: loss_of(ROWS).backward(), ROWS),
    "half the batch": (lambda: loss_of(ROWS // 2).backward(), ROWS // 2),
    "accumulate": (lambda: accumulate(ROWS), ROWS),
    "checkpoint": (lambda: loss_with_checkpoints(ROWS).backward(), ROWS),
    "offload": (lambda: offloaded(ROWS), ROWS),
    "autocast": (lambda: in_16_bits(ROWS), ROWS),
}

# %%
highest, rounds = {}, []
for name, (way, _) in ways.items():
    model.zero_grad()
    with memory.track(device, known=[model, optimizer]) as meter:
        way()
    highest[name] = meter.peak
for _ in range(TURNS):  # in turns: a machine that slows down for a while slows all of them
    rounds.append([benchmark.measure(way, budget=SECONDS / TURNS).median / rows for way, rows in ways.values()])
model.zero_grad()
times = np.median([np.divide(one, one[0]) for one in rounds], axis=0)  # against plain
relative = {name: (100 * time, 100 * highest[name] / highest["plain"]) for name, time in zip(ways, times)}

# %%
print(f"{'way out':>15}  peak saved   time per row")
for name, (seconds, peak) in sorted(relative.items(), key=lambda item: item[1][1]):
    print(f"{name:>15}  {100 - peak:8.0f} %  {round(seconds - 100):+11} %")
best = min((name for name in ways if name != "plain"), key=lambda name: relative[name][1])
figures.trade(
    relative, xlabel="time for each row, plain = 100 %", ylabel="peak memory, plain = 100 %",
    title=f"Lowest peak: {best}{guessed(saves_most)}",
)

# %% [markdown]
# This table is for your machine; another will rank them differently. In the picture, far down and far left is good. Half the batch saves less than half, because parameters and Adam's state do not shrink; it changes the training unless you accumulate,
# and accumulating keeps the gradients alive in between; on a GPU, both cost time once a part is too small to fill it. Checkpointing saves a lot, and in theory
# costs a third more time, since each block runs forward twice. (Differences below ten per cent are noise on a shared machine.) Offloading, to disk here and over PCIe on a GPU, is the last resort. What
# autocast gains depends on the chip: lesson 07.
#
# The optimiser is a way out too. How much state does each one keep? (The price: they train differently, so the learning rate has to be found anew. Adam with a state of 8 bits, from
# `bitsandbytes`, keeps 2 bytes.)

# %%
makers = {
    "SGD": lambda: torch.optim.SGD(model.parameters(), 0.01),
    "SGD with momentum": lambda: torch.optim.SGD(model.parameters(), 0.01, momentum=0.9),
    "Adam": lambda: torch.optim.Adam(model.parameters()),
    "Adafactor": lambda: torch.optim.Adafactor(model.parameters()),  # sums of rows and columns only
}
state_bytes = {}
for name, make in makers.items():
    optimizer = make()
    training_step(2)
    state_bytes[name] = memory.tensor_bytes(optimizer) / model.parameter_count
print(*(f"{name:>18}: {count:.2f} bytes per parameter" for name, count in state_bytes.items()), sep="\n")

# %% [markdown] tags=["minutes-9", "short-0"]
# ## Does a 7 B model fit on a T4?
#
# Everybody asks. Build one on the device `meta`, which takes no memory, and count. *LoRA* freezes the model and trains two thin
# matrices beside each layer, of rank 16 here; *4 bits* (NF4) stores the frozen weights with a scale of 4 bytes for every 64 of them.
#
# **Predict.** Training all of it, LoRA on 16 or 4 bits, running it in 16, 8 or 4 bits: which of these fit on a T4, activations not counted?

# %%
fits_on_t4 = None  # @param ["all", "all but training all of it", "only what uses 4 or 8 bits", "none"]

# %%
with torch.device("meta"):
    seven = models.GPT(models.GPTConfig(vocab_size=32_000, block_size=2048, n_embd=4096, n_head=32, n_layer=32))
n, linear = seven.parameter_count, [m for m in seven.modules() if isinstance(m, nn.Linear)]
rank, trained = 16, 16  # of an adapter; bytes for each parameter that Adam trains
adapters = sum(rank * (m.in_features + m.out_features) for m in linear)
needs = {
    "train all of it, Adam": trained * n,
    "LoRA on 16 bits": 2 * n + trained * adapters,
    "LoRA on 4 bits": (0.5 + 4 / 64) * n + trained * adapters,
    "run it in 16 bits": 2 * n,
    "run it in 8 bits": n,
    "run it in 4 bits": (0.5 + 4 / 64) * n,
}
f"{n / 1e9:.1f} billion parameters, {adapters / 1e6:.0f} million of LoRA, no memory taken"

# %%
falcon = published.get("falcon-7b-memory")
theirs = {f"Falcon 7 B, run in {name}": falcon.at(name) for name in falcon.points}
theirs["Llama 2 7 B, LoRA on 4 bits"] = published.get("llama-7b-lora-memory")
sheets = hardware.catalogue()
cards = {key.removesuffix("-40"): sheets[key].memory for key in ("T4", "L4", "A100-40", "H100")}
small = [name for name, size in needs.items() if size < sheets["T4"].memory]
answer = {6: "all", 5: "all but training all of it", 0: "none"}.get(len(small), "only what uses 4 or 8 bits")
figures.bars(
    needs, unit="B", marks=cards, published=theirs,
    title=f"Fits on a T4, without activations: {answer}{guessed(fits_on_t4)}",
)

# %% [markdown] tags=["minutes-2", "short-0"]
# Solid bars are calculated, hollow ones were measured by others, dashed lines are whole cards (on a T4, PyTorch gets 15.6 GB). Training all of it takes more than an H100. In 16 bits
# the weights alone leave a T4 less than 3 GB, too little for activations and for the *cache* of what was read so far. 4 bits fit well on paper. The measured
# ones take more: Falcon has 7.2 billion parameters and keeps some of its layers in 16 bits, and Llama's 14 GB contain the activations of 1,304 tokens. Rehearse
# before you rent.
#
# ## See it happen: a snapshot
#
# On CUDA, PyTorch can record every allocation with the line of code that made it. The file goes into the viewer at
# [docs.pytorch.org/memory_viz](https://docs.pytorch.org/memory_viz), which draws humps like those of the first figure, with names on them.

# %%
if on_cuda:
    torch.cuda.memory._record_memory_history()
    training_step(2)
    torch.cuda.memory._dump_snapshot("snapshot.pickle")  # drop it on the viewer's page
    torch.cuda.memory._record_memory_history(enabled=None)
f"snapshot.pickle: {Path('snapshot.pickle').stat().st_size:,} bytes" if on_cuda else "no CUDA here: nothing to record"

# %% [markdown] tags=["minutes-2", "short-0"]
# ## Other frameworks, one at a time
#
# Two frameworks in one process each want the GPU for themselves. Three settings to know:

# %% tags=["nbval-check-output"]
facts.quote("tensorflow-growth", "jax-preallocation", "expandable-segments")

# %%
# needs: tensorflow
with runtime.quiet():
    import tensorflow as tf

    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    before = psutil.Process().memory_info().rss
    block = tf.ones((2**24,))
    taken = psutil.Process().memory_info().rss - before
if on_gpu := bool(tf.config.list_physical_devices("GPU")):
    taken = tf.config.experimental.get_memory_info("GPU:0")["current"]
f"a tensor of {2**26 / 1e6:.0f} MB took {taken / 1e6:.0f} MB ({'GPU' if on_gpu else 'process'})"

# %% [markdown]
# JAX knows what a compiled step will take before it runs, as the TPU's compiler did in lesson 05. *Donating* the old weights and momentum
# lets the new ones take their place. Donating two arrays saves only about one of them here.

# %%
# needs: jax
os.environ["JAX_PLATFORMS"] = "cpu"  # one framework at a time: PyTorch has the accelerator
import jax
import jax.numpy as jnp


def step(weights, momentum, x):
    momentum = 0.9 * momentum + jax.grad(lambda w: jnp.tanh(x @ w).sum())(weights)
    return weights - 0.1 * momentum, momentum


def planned_bytes(**options):
    w, x = jnp.ones((1024, 1024)), jnp.ones((64, 1024))
    plan = jax.jit(step, **options).lower(w, w, x).compile().memory_analysis()
    total = plan.argument_size_in_bytes + plan.output_size_in_bytes + plan.temp_size_in_bytes
    return total - plan.alias_size_in_bytes


# %%
# needs: jax
copied, donated = planned_bytes(), planned_bytes(donate_argnums=(0, 1))
f"planned: {copied / 1e6:.1f} MB; with the old weights donated: {donated / 1e6:.1f} MB"

# %% [markdown] tags=["minutes-2", "short-0"]
# ## The host's memory
#
# When ordinary RAM runs out, there is usually no error to catch: the session ends. A file that is larger than RAM can be read piece by
# piece, as a *memory map*. Take 64 rows of a file of 67 MB:

# %%
with tempfile.TemporaryDirectory() as place:
    path = Path(place, "rows.npy")
    np.save(path, np.ones((2**14, 2**10), np.float32))
    for mode in (None, "r"):
        before = psutil.Process().memory_info().rss
        file = np.load(path, mmap_mode=mode)
        total = file[:64].sum()
        taken = psutil.Process().memory_info().rss - before
        print(f"{'memory map' if mode else 'read whole':>10}: {max(0, taken) / 1e6:.1f} MB of RAM")
        del file

# %% [markdown] tags=["minutes-6", "short-0"]
# ## Exercises
#
# ### 1 · Will it fit?
#
# GPT-2 small has 124,439,808 parameters. Float32, Adam. How many GiB (2**30 bytes) for everything except
# activations?

# %% tags=["exercise"]
gib_with_adam = ...
### BEGIN SOLUTION
gib_with_adam = 124_439_808 * (4 + 4 + 8) / 2**30  # parameter, gradient, and Adam's two numbers
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
leak = {"line": 3, "instead": "history.append(loss.item())"}  # a number has no graph
### END SOLUTION
exercises.check("06.leak", leak)

# %% [markdown]
# ### 3 · Make the batch fit
#
# 14.5 GiB are free. Without rows the peak is 3.0 GiB, each row adds 0.11 GiB, and the recipe wants batches of
# 256. How many rows fit at once, and into how many parts do you split a batch? (Without a margin, this once.)

# %% tags=["exercise"]
plan = {"rows": ..., "parts": ...}
### BEGIN SOLUTION
plan = {"rows": int((14.5 - 3.0) / 0.11), "parts": 3}  # 104 rows, rounded down; 256 / 104, rounded up
### END SOLUTION
exercises.check("06.fit", plan)

# %% [markdown]
# ### 4 · Open task: the same gradients on half the memory
#
# `spendthrift` leaves gradients in a network, and returns nothing. Write `thrifty`: the same gradients, with at most 60 % of its peak. The check
# watches both.

# %% tags=["exercise"]
def spendthrift(network, x, y):
    F.cross_entropy(network(x), y).backward()


def thrifty(network, x, y):
    return ...


### BEGIN SOLUTION
def thrifty(network, x, y):
    for part_x, part_y in zip(x.split(64), y.split(64)):  # one part's activations at a time
        share = len(part_x) / len(x)
        (share * F.cross_entropy(network(part_x), part_y)).backward()


### END SOLUTION
exercises.check("06.thrifty", thrifty, spendthrift=spendthrift)

# %% [markdown] tags=["minutes-2"]
# ## Three things to take away

# %%
takeaways = {
    "Count the activations, too": f"16 bytes per parameter was right for {good} of 6 networks, a rehearsal for {exact}.",
    "Freed is not given back": f"batches of at most 28 MiB held {held['small batches first']} MiB; the largest first, {held['the largest first']}.",
    "Recover outside except": f"{recovered} of 5 recovered there; inside, a batch that fits {retry}.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Put predictions beside results { display-mode: "form" }
guess = reference.Prediction
predicted = {
    "bytes_per_parameter": guess(bytes_per_parameter, per_parameter),
    "within_a_fifth": guess(within_a_fifth, good),
    "frees_the_cycle": guess(frees_the_cycle, cycle),
    "mib_held": guess(mib_held, held["small batches first"], "MiB"),
    "will_fit": guess(will_fit, fitted),
    "saves_most": guess(saves_most, best),
    "fits_on_t4": guess(fits_on_t4, answer),
}

# %%
# @title Keep them as a record { display-mode: "form" }
value, seen = reference.Value, globals()
measured = {
    "bytes_a_parameter": value(per_parameter, "bytes", "for each parameter, with Adam"),
    "rehearsal_left": value(left_by_rehearsals, "B", "left behind by six rehearsals"),
    "peak_off": value(100 * max(abs(row["rehearsed"] - 1) for row in off.values()), "%", "off at most: peak of a step, rehearsed, six networks"),
    "rule_right": value(good, "", "of six networks: 16 bytes per parameter within 20 %"),
    "batch_promised": value(promised, "rows", "fit, by the line"),
    "batch_found": value(fits, "rows", "fit, tried"),
    "freed_by_gc": value(float(freed["gc.collect()"][0]), "B", "freed by gc.collect()"),
    "kept_by_out": value(kept, "B", "kept alive by three numbers on the screen"),
    "held_growing": value(held["small batches first"], "MiB", "held after batches of at most 28 MiB, small ones first"),
    "held_largest_first": value(held["the largest first"], "MiB", "held after the same batches, the largest first"),
    "held_inside": value(held_inside, "B", "still held inside except"),
    "retry_wrong": value(float(retry == "worked"), "", "retries that work inside except"),
    "retry_right": value(recovered / 5, "", "share of retries that work outside except"),
    "left_after": value(left_behind, "B", "left behind after five recoveries"),
    "leak": value(leaking, "B", "held by four losses with their graphs"),
    "no_leak": value(not_leaking, "B", "held by four numbers"),
    "mean_wrong": value(plain_mean, "", "gap of a gradient accumulated with a plain mean"),
    "norm_wrong": value(batch_norm, "", "gap of a gradient accumulated with BatchNorm"),
    "accumulated_right": value(weighed, "", "gap of a gradient accumulated, weighted by rows"),
    "kept_between": value(highest["accumulate"] - highest["half the batch"], "B", "more at the peak: accumulating, for the gradients"),
    "checkpoint_saved": value(100 - relative["checkpoint"][1], "%", "of the peak saved by checkpointing"),
    "checkpoint_price": value(relative["checkpoint"][0] - 100, "%", "more time for each row with checkpointing"),
    "adafactor": value(state_bytes["Adafactor"], "bytes", "of state for each parameter: Adafactor"),
}
if "jax" in seen:
    measured["donated"] = value(copied - donated, "B", "saved by donating the old weights, planned")
reference.record("06_memory_management", FAST, device=chip, predicted=predicted, **measured)

# %% [markdown] tags=["minutes-0"]
# ## What comes next
#
# One way out saves memory and can be the fastest of all, on the right chip: fewer bits.
