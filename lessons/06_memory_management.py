# %%
# @title Imports { display-mode: "form" }
import itertools
import os

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's own messages

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from colab_helpers import benchmark, hardware, memory, precision, published_results

from colab_lessons import conv_networks, exercises, figures, llama_lora, measurements, memory_by_category, models
from colab_lessons.predictions import your_prediction  # adds what you predicted to a title

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SECONDS = None
VOCABULARY = None
LAYERS = None
LLAMA_LAYERS = None
BUDGET = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
SECONDS = SECONDS or (0.05 if FAST else 2)  # time budget of one measurement
VOCABULARY = VOCABULARY or (500 if FAST else 8000)  # of the GPT
LAYERS = LAYERS or (2 if FAST else 4)  # of the GPT
LLAMA_LAYERS = LLAMA_LAYERS or (1 if FAST else 32)  # of the 7B model
BUDGET = BUDGET or (80e6 if FAST else 400e6)  # bytes to stay within

# %%
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
torch.set_num_threads(1)  # one core of the CPU: on a shared machine a second one makes timings jump
device

# %% [markdown] tags=["minutes-9", "short-7"]
# ## Two steps, watched
#
# That message came from a T4 that was generating a video. Read it again with the numbers it printed.

# %%
row = published_results.get("full-t4")
print(f"{row.conditions} [{row.credit}]")

# %% [markdown]
# The 160 MiB weren't too much. The card was already full of PyTorch's own tensors, and CUDA and PyTorch's cache hold what's missing in that sum. (A
# MiB is 2²⁰ bytes, a MB 10⁶.)
#
# Which tensors? A model in training holds four things: its *parameters*, a *gradient* for each of them, the *optimizer state*, which is what the
# optimizer remembers of earlier steps, and the *activations*, the results of the forward pass that the backward pass will need.
#
# Take a small GPT in float32, where a value takes four bytes. It trains with Adam, which keeps two *moments* for each parameter, running averages
# of its gradient and of the gradient's square.
#
# **Predict.** How many bytes does each parameter cost in all, without activations?

# %%
bytes_per_parameter = None  # @param {type:"integer"}

# %%
config = models.GPTConfig(block_size=64, n_embd=128, n_head=4, n_layer=LAYERS, vocab_size=VOCABULARY)


def loss_of(rows):
    ids = torch.randint(VOCABULARY, (rows, config.block_size), device=device)  # (rows, tokens), random ones will do
    return F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())


# %%
# @title Warm up a GPU's libraries, which take a workspace once { display-mode: "form" }
warm = nn.Linear(8, 8, device=device)
(warm(torch.ones(8, 8, device=device)) @ warm.weight).sum().backward()
model = optimizer = loss = warm = None

# %% [markdown]
# `memory_by_category.MemoryByCategory` counts every tensor that's allocated or freed, on a CPU as well. `mark` begins a phase in the picture, and
# `name` says what some tensors are.

# %%
with memory_by_category.MemoryByCategory(device) as watched:
    model = models.GPT(config).to(device)
    watched.name("parameters", model.parameters())
    optimizer = torch.optim.Adam(model.parameters())
    for step in (1, 2):
        watched.tracker.mark(f"forward {step}")
        loss = loss_of(16)
        watched.tracker.mark(f"backward {step}")
        loss.backward()
        watched.name("gradients", [p.grad for p in model.parameters()])
        watched.tracker.mark(f"step {step}")
        optimizer.step()
        watched.name("Adam's moments", [each[key] for each in optimizer.state.values() for key in ("exp_avg", "exp_avg_sq")])
        optimizer.zero_grad()  # sets the gradients to None, so their bytes are free

# %%
# @title Draw the two steps { display-mode: "form" }
lines = watched.timeline()
parts = {name: max(line) for name, line in lines.items() if name != memory_by_category.OTHER}
per_parameter = sum(parts.values()) / model.parameter_count
figures.stacked_area(
    {name: lines[name] for name in ("parameters", "Adam's moments", "gradients", memory_by_category.OTHER)}, watched.tracker.marks,
    title=f"{per_parameter:.0f} bytes per parameter, for {model.parameter_count:,} of them{your_prediction(bytes_per_parameter)}; {watched.tracker.peak / 1e6:.0f} MB at the peak",
)

# %% [markdown]
# Read it from the left. The parameters come first and stay. The forward pass piles up activations, and the backward pass takes them away and leaves
# gradients. The first `step()` adds Adam's moments, for good, so the second step's peak is higher than the first one's, and it must fit. The spike
# at its top is the loss, with a logit for each of 8,000 words at each of 1,024 positions, three times over.
#
# Four bytes for the parameter, four for the gradient, eight for Adam makes 16. That holds on any chip, as long as everything is float32.
#
# They don't all add up at the peak, however. When most activations are there, most gradients aren't, and the other way round, so a step takes at
# least 12 bytes per parameter, and then roughly the larger of two things: the activations, or the gradients with what the optimizer needs
# temporarily. If you accumulate gradients, they stay, and it's 16 again.
#
# On an NVIDIA GPU you need no helper for this. These lines work in any notebook. For a picture of every tensor with the line that made it, call
# `torch.cuda.memory._record_memory_history()` before the steps and `torch.cuda.memory._dump_snapshot("memory.pickle")` after them, and drop the
# file on pytorch.org/memory_viz.

# %%
if device.type == "cuda":
    torch.cuda.reset_peak_memory_stats()
    print(f"{torch.cuda.memory_allocated():,} bytes in live tensors")
    loss_of(16).backward()
    print(f"{torch.cuda.max_memory_allocated():,} at the worst moment since the reset")
    print(f"{torch.cuda.memory_reserved():,} that PyTorch holds, in use or not")
    optimizer.zero_grad()
else:
    print("no NVIDIA GPU here, so there's nothing to read")

# %% [markdown] tags=["minutes-6"]
# ## Know the peak before you run
#
# "16 bytes per parameter" is often quoted as what a model needs, although it leaves the activations out. PyTorch can do better. It can run a step
# on *fake tensors*, which have a shape and no data. Nothing is computed, nothing is allocated, and every byte can be counted. `memory.footprint`
# does that, and lesson 08 shows how, in twenty lines.
#
# Compare both with the peak of four networks. The measurement must be independent, so it comes from PyTorch's allocator, not from the tool that
# made the prediction.


# %%
def peak_of(work, kept):  # kept: bytes that were there before
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        work()
        return torch.cuda.max_memory_allocated() - others
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, profile_memory=True, acc_events=True) as profile:
        work()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    changes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]  # negative: given back
    return kept + max(itertools.accumulate(changes, initial=0))


# %%
# @title Four networks, each with a function from rows to a loss { display-mode: "form" }
def wide():
    return nn.Sequential(nn.Flatten(), nn.Linear(3072, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10))


def large_vocabulary():
    return models.GPT(models.GPTConfig(block_size=64, n_embd=128, n_head=4, n_layer=2, vocab_size=16_000))


candidates = {  # name: (make, one row, classes)
    "wide layers": (wide, torch.rand(3, 32, 32), 10),
    "ResNet": (conv_networks.resnet, torch.rand(3, 32, 32), 10),
    "GPT, 16,000 tokens": (large_vocabulary, torch.randint(16_000, (64,)), 16_000),
    "U-Net, a class for each pixel": (lambda: conv_networks.UNet(16, 2), torch.rand(3, 64, 64), 2),
}

# %%
def forward(rows):
    found = network(row.to(device).expand(rows, *row.shape)).reshape(-1, classes)
    return F.cross_entropy(found, torch.zeros(len(found), dtype=torch.long, device=device))


def train_step():
    forward(16).backward()
    adam.step()
    adam.zero_grad()


# %%
off = {}
for name, candidate in candidates.items():
    make, row, classes = candidate
    others = torch.cuda.memory_allocated() if device.type == "cuda" else 0  # what is not this network's
    network = make().to(device)
    adam = torch.optim.Adam(network.parameters())
    train_step()  # the first step makes Adam's moments
    rehearsed = memory.footprint(network, forward, 16, adam).peak
    measured_peak = peak_of(train_step, kept=memory.tensor_bytes([network, adam]))
    rule = 16 * sum(p.numel() for p in network.parameters())
    off[name] = {"16 bytes per parameter": rule / measured_peak, "rehearsed": rehearsed / measured_peak}
    del network, adam

# %%
# @title Draw how far off they are { display-mode: "form" }
good = sum(abs(each["16 bytes per parameter"] - 1) < 0.2 for each in off.values())
exact = sum(abs(each["rehearsed"] - 1) < 0.05 for each in off.values())
figures.ratios(
    off, one="what the allocator reported", xlabel="predicted peak over measured peak",
    title=f"The rule is within 20% for {good} of 4, the rehearsal within 5% for {exact} of 4",
)

# %% [markdown]
# Where activations dominate, the rule is off by factors: images leave an activation at each pixel, and a large vocabulary a logit for each word at
# each position. The wide layers are the other case. There the peak is the optimizer's step, whose temporary copies of weights come on top.
#
# The rehearsal sees all that. It misses the buffers that convolutions take inside their kernels, on a CPU and on a GPU. CUDA and its libraries take
# some hundred MB more. Leave a tenth free, therefore, and a quarter for a network of convolutions.
#
# To rehearse for a GPU on your laptop, pass `foreach=True`. On CUDA, Adam updates all weights together by default, so its temporary arrays are
# larger.

# %% [markdown] tags=["minutes-10", "short-8"]
# ## How large a batch fits?
#
# Once activations set the peak, each row of a batch adds the same bytes. Measure three batches, therefore, draw a line, and read off which batch
# fills your memory.

# %%
def training_step(rows):
    optimizer.zero_grad()
    loss_of(rows).backward()
    optimizer.step()


def peak_with(rows):
    optimizer.zero_grad()
    with memory.track(device, known=[model, optimizer]) as tracker:
        training_step(rows)
    return tracker.peak


# %%
batches = (8, 12, 16)
peaks = [peak_with(rows) for rows in batches]
per_row, fixed = np.polyfit(batches, peaks, 1)
promised = int((BUDGET - fixed) / per_row)
f"{per_row / 1e6:.2f} MB per row, {fixed / 1e6:.1f} MB without rows: {promised} rows in {BUDGET / 1e6:.0f} MB"

# %% [markdown]
# Then run out of memory. The budget acts as a full card, and it raises PyTorch's own `OutOfMemoryError`. On a CPU it counts as the tracker above
# does, so this tests the line, not the tracker. On a GPU it counts what the allocator reserves, so somewhat fewer rows may fit.

# %%
fits, message = 0, "all of them fit"
for rows in range(max(1, promised - 3 if device.type == "cpu" else 3 * promised // 4), promised + 4):
    optimizer.zero_grad()
    try:
        with memory.track(device, int(BUDGET), known=[model, optimizer]):
            training_step(rows)
        fits = rows
    except torch.OutOfMemoryError as error:
        message = f"{rows} rows: {error}"
        break
print(message)

# %%
# @title Draw the line and the budget { display-mode: "form" }
optimizer.zero_grad()
x = [*batches, fits]
figures.lines(
    x, {"measured": [peak / 1e6 for peak in [*peaks, peak_with(fits)]]},
    ideal={"the line through three": [(fixed + per_row * rows) / 1e6 for rows in x], "the budget": [BUDGET / 1e6] * 4},
    title=f"The line promises {promised} rows; {fits} fit", xlabel="rows in a batch", ylabel="peak, MB",
)

# %% [markdown]
# Three small batches predicted the largest one. If you do run out of memory, you may want to continue with a smaller batch. There's a wrong place
# to do that.
#
# ### WRONG: try again inside `except`

# %%
optimizer.zero_grad()
with memory.track(device, int(BUDGET), known=[model, optimizer]) as tracker:
    start = tracker.allocated
    try:
        training_step(3 * fits // 2)
    except torch.OutOfMemoryError:
        optimizer.zero_grad()
        torch.cuda.empty_cache()  # hands free segments back; without CUDA it does nothing
        held_inside = tracker.allocated - start
        try:
            training_step(9 * fits // 10)  # would fit
            retry = "works"
        except torch.OutOfMemoryError:
            retry = "runs out again"
print(f"inside except: {held_inside / 1e6:.0f} MB still held, and a smaller batch {retry}")

# %% [markdown]
# ### RIGHT: leave `except` first


# %%
def step_or_not(rows):
    try:
        training_step(rows)
    except torch.OutOfMemoryError:
        return False  # after this, the error and its tensors are released
    return True


# %%
optimizer.zero_grad()
with memory.track(device, int(BUDGET), known=[model, optimizer]) as tracker:
    start = tracker.allocated
    if not step_or_not(3 * fits // 2):
        optimizer.zero_grad()
        torch.cuda.empty_cache()
        left_behind = tracker.allocated - start
        recovered = step_or_not(9 * fits // 10)
    optimizer.zero_grad()
print(f"outside: {left_behind} bytes still held, and the smaller batch {'works' if recovered else 'runs out again'}")

# %% [markdown]
# The error holds a *traceback*, the traceback holds the functions it went through, and those hold your tensors. In this case it's the loss
# function's input, the logits, with the graph behind them. The same happens when a cell stops with an error: IPython keeps it, and the card stays
# full for the next cell. Run `1/0` in a cell of its own, and then `gc.collect()`, so that a new error takes the old one's place.
#
# If the memory ran out in `optimizer.step()`, some weights have changed already. Then load your last checkpoint.

# %% [markdown] tags=["minutes-9", "short-8"]
# ## What stays alive
#
# A tensor lives as long as anything refers to it. In a notebook more things do than you'd think.
#
# **Predict.** The next cell shows three numbers. How many MiB does it keep?

# %%
mib_kept = None  # @param {type:"integer"}

# %%
torch.zeros(2**24, device=device)[:3]

# %%
shown = [value for value in globals().get("Out", {}).values() if isinstance(value, torch.Tensor)]
kept = max((value.untyped_storage().nbytes() for value in shown), default=0)
del shown
print(f"{kept / 2**20:.0f} MiB kept{your_prediction(mib_kept, ' MiB')}")

# %% [markdown]
# The three numbers are a *view* of sixteen million, and a view holds the whole tensor. IPython keeps the value of each cell's last line in `Out`,
# as long as the session lives, so end such cells with a number or a text.
#
# Losses are worse. A stored loss keeps its whole graph, with all activations, until its `backward()`.

# %%
def evaluate(keep):
    with memory.track(device) as tracker:
        history = [keep(loss_of(16)) for _ in range(4)]
        return tracker.allocated, len(history)


leaking, _ = evaluate(lambda loss: loss)  # WRONG: keeps four graphs
not_leaking, _ = evaluate(lambda loss: loss.item())  # RIGHT: keeps four numbers
print(f"four losses hold {leaking / 1e6:.0f} MB, four numbers hold {not_leaking} bytes")

# %% [markdown]
# In an evaluation, put `with torch.no_grad():` around the loop as well. Then no graph is built in the first place.
#
# When nothing refers to a tensor any more, PyTorch has its memory back, but the driver hasn't. Asking the driver for memory is slow, so PyTorch
# keeps what it got, in *segments*, for the next tensor. Suppose that nine batches come, each freed before the next: 12, 14, 16 … 28 MiB.
#
# **Predict.** How many MiB does PyTorch hold in the end, with nothing in use?

# %%
mib_held = None  # @param {type:"integer"}

# %%
MIB, sizes = 2**20, range(12, 30, 2)  # MiB
if device.type == "cuda":
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    for size in sizes:
        batch = torch.empty(size * MIB, dtype=torch.uint8, device=device)
        del batch
    held = torch.cuda.memory_reserved() - before
else:  # CUDA's allocator, simulated by its rules on a card of 200 MiB
    card = memory.Allocator(200 * MIB)
    for size in sizes:
        card.free(card.allocate(size * MIB))
    held = sum(size for segment in card.segments() for size, _ in segment)
how = "measured" if device.type == "cuda" else "simulated"
print(f"{how}: {held // MIB} MiB held, 0 in use{your_prediction(mib_held, ' MiB')}")

# %% [markdown]
# Each batch was a little too large for every segment so far, so each got a new one. That's why `nvidia-smi` shows more than your tensors need. When
# the card is full, PyTorch gives free segments back and tries again, which costs time. It becomes an error when each segment still holds something
# small. That's called *fragmentation*, and PyTorch's message tells you the cure, `PYTORCH_ALLOC_CONF=expandable_segments:True`
# (`PYTORCH_CUDA_ALLOC_CONF` before PyTorch 2.10). It's read at the first allocation, so set it in the first cell, or restart before you do.
# Sequences of growing length cause this, so start with the longest.

# %% [markdown] tags=["minutes-8"]
# ## Ways out, and their price
#
# If it doesn't fit, there are four common ways out. *Accumulating* runs the batch in parts, four of them below, and adds up the gradients.
# *Checkpointing* keeps the input of each block and computes the block again in the backward pass. A *chunked loss* does that with the logits, an
# eighth of the positions at a time. *Autocast* computes in 16 bits, which is lesson 07; its scaler is left out, since only memory and time count
# here.


# %%
def plain():
    loss_of(16).backward()


def accumulate():
    for _ in range(4):
        (loss_of(4) / 4).backward()  # four equal parts


# %%
def checkpointed(blocks=True, chunks=1):
    ids = torch.randint(VOCABULARY, (16, config.block_size), device=device)
    x = model.tokens(ids) + model.positions(torch.arange(config.block_size, device=device))  # (rows, tokens, n_embd)
    for block in model.blocks:
        x = checkpoint(block, x, use_reentrant=False) if blocks else block(x)

    def loss_of_chunk(x, targets):
        return F.cross_entropy(x @ model.tokens.weight.T, targets, reduction="sum")

    x, targets = model.norm(x).flatten(0, 1), ids.flatten()
    parts = zip(x.chunk(chunks), targets.chunk(chunks))
    losses = [checkpoint(loss_of_chunk, *part, use_reentrant=False) if chunks > 1 else loss_of_chunk(*part) for part in parts]
    (sum(losses) / len(targets)).backward()


# %%
# @title Autocast in this chip's format { display-mode: "form" }
inventory = hardware.list_devices()
chip = inventory.cpu if device.type == "cpu" else inventory.main
half = torch.float16 if precision.advise(chip).format == "fp16" else torch.bfloat16


def autocast():
    with torch.autocast(device.type, half):
        loss = loss_of(16)
    loss.backward()


# %% [markdown]
# **Predict.** Which of them, set up like this, lowers the peak most?

# %%
saves_most = None  # @param ["accumulate", "checkpoint", "chunked loss", "checkpoint, chunked loss", "autocast"]

# %%
ways = {
    "plain": plain, "accumulate": accumulate, "checkpoint": checkpointed, "chunked loss": lambda: checkpointed(False, 8),
    "checkpoint, chunked loss": lambda: checkpointed(True, 8), "autocast": autocast,
}
highest = {}
for name, way in ways.items():
    model.zero_grad()
    with memory.track(device, known=[model, optimizer]) as tracker:
        way()
    highest[name] = tracker.peak
times = benchmark.compare(ways, budget=SECONDS)
model.zero_grad()

# %%
# @title Draw the ways out, the cheapest first { display-mode: "form" }
ratios = {name: benchmark.speedup(one, times["plain"]) for name, one in times.items()}


def priced(name):
    if not ratios[name].is_significant:
        return name if name == "plain" else f"{name}: about the same time"
    return f"{name}: {ratios[name].value - 1:+.0%} time"


best = min(highest, key=highest.get)
figures.bars(
    {priced(name): highest[name] for name in sorted(ways, key=lambda name: ratios[name].value)},
    unit="B", title=f"Lowest of these six peaks: {best}, {highest[best] / highest['plain']:.0%} of the plain one{your_prediction(saves_most)}",
)

# %% [markdown]
# Each has its price, and prices differ from chip to chip: these are one CPU core's. Accumulating leaves the result as it is if the parts have equal
# weight, unless the network has BatchNorm. More parts than four would lower the peak further, down to the line's value for a single row, but small
# parts can't keep a GPU busy. Checkpointing runs each block forward twice, which takes up to a third longer where arithmetic sets the pace.
# Autocast is faster on a chip with units for 16 bits, and many times slower on one without. It saves little memory in this model, because the loss
# converts the logits back to float32.
#
# With a large vocabulary the logits take most of the memory, so chunk them. If the parameters do, change the optimizer: `bitsandbytes` keeps Adam's
# moments in 8 bits, so each parameter costs 10 bytes instead of 16.

# %% [markdown] tags=["minutes-5", "short-0"]
# ## Does a 7B model fit on a T4?
#
# You can rehearse it. This is Llama 2's shape, with adapters (*LoRA*) that train while the weights stay frozen, in 16 bits or in 4. On PyTorch's
# `meta` device it takes no memory.
#
# **Predict.** One sequence of 1,304 tokens. A T4 on Colab has 14.56 GiB, which is 15.6 GB (with a different driver, PyTorch reported 14.75 GiB for
# the message above). Leave a quarter free, since a rehearsal doesn't see what 4-bit kernels unpack inside. Which of the four fit?

# %%
fits_on_t4 = None  # @param ["none", "4 bits with checkpointing", "both with 4 bits", "all but 16 bits without checkpointing", "all four"]


# %%
def seven_billion(bits, recompute, tokens=1304):
    with torch.device("meta"):
        large = llama_lora.Llama(llama_lora.LlamaConfig(bits=bits, activation_checkpointing=recompute, n_layer=LLAMA_LAYERS))
    adapters = torch.optim.AdamW(p for p in large.parameters() if p.requires_grad)

    def forward(rows):
        ids = torch.zeros(rows, tokens, dtype=torch.long)
        return F.cross_entropy(large(ids).float().flatten(0, 1), ids.flatten())

    return memory.footprint(large, forward, 1, adapters, foreach=True)


# %%
plans = {
    "16 bits": (16, False), "16 bits, checkpointing": (16, True), "4 bits": (4, False), "4 bits, checkpointing": (4, True),
}
needs = {name: seven_billion(*plan) for name, plan in plans.items()}
print(*(f"{name}: {each.parameters / 1e9:.1f} GB of weights, {each.peak / 1e9:.1f} GB at the peak" for name, each in needs.items()), sep="\n")
theirs = {f"{bits} bits, published": published_results.get(f"llama-7b-lora-memory{end}") for bits, end in ((16, "-16"), (4, ""))}
for name, row in theirs.items():
    print(f"{name}: {row.value / needs[name.split(',')[0]].peak - 1:+.0%} against the rehearsal")

# %%
# @title Draw what fits { display-mode: "form" }
t4 = 14.56 * 2**30  # bytes of Colab's T4
answers = {0: "none", 1: "4 bits with checkpointing", 2: "both with 4 bits", 3: "all but 16 bits without checkpointing", 4: "all four"}
answer = answers[sum(each.peak < 0.75 * t4 for each in needs.values())]
figures.bars(
    {name: each.peak for name, each in needs.items()}, unit="B", published=theirs,
    marks={"T4": t4}, title=f"With a quarter left free, a T4 holds {answer}{your_prediction(fits_on_t4)}",
)

# %% [markdown]
# Four bits shrink the weights, and checkpointing shrinks the rest. You need both to be comfortable.
#
# The hollow bars were measured on an A100, with different code and smaller adapters. In 16 bits the rehearsal was close. In 4 bits the run took
# nearly 2 GB more, and we don't know for what. By that measurement, 4 bits without checkpointing would leave not even a tenth of a T4 free.
# Training all 6.7 billion weights takes 16 bytes for each, 108 GB for parameters, gradients and moments alone. No GPU on Colab has that.

# %% [markdown] tags=["minutes-7"]
# ## Exercises
#
# ### 1 · Read the message
#
# ```
# CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 14.56 GiB of which 130.00 MiB is free.
# Of the allocated memory 9.80 GiB is allocated by PyTorch, and 4.10 GiB is reserved by PyTorch but unallocated.
# ```
#
# How many GiB are in live tensors? Is it the model that's too large, or is the free memory in pieces? Answer `"model"` or `"pieces"`.

# %% tags=["exercise"]
reading = {"GiB alive": ..., "reason": ...}
### BEGIN SOLUTION
reading = {"GiB alive": 9.80, "reason": "pieces"}  # 4.1 GiB are held and free, and no piece has 512 MiB
### END SOLUTION
exercises.check("06.read_oom", reading)

# %% [markdown]
# ### 2 · Find the leak
#
# Memory grows with each epoch. Which line is it, and what should be there instead?
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
# ### 3 · The cheapest way out
#
# A network without BatchNorm needs 13 GB, and you have 10. The training must stay what it is. Which way is the cheapest?
#
# | way | peak | time |
# |---|---|---|
# | `"accumulate"`, two halves | 8.9 GB | +4% |
# | `"checkpoint"` | 6.1 GB | +31% |
# | `"half the batch"` | 8.6 GB | +2% |
# | `"chunked loss"` | 12.8 GB | +1% |

# %% tags=["exercise"]
way_out = ...
### BEGIN SOLUTION
way_out = "accumulate"  # half the batch is another training, and chunks don't save enough
### END SOLUTION
exercises.check("06.way_out", way_out)

# %% [markdown]
# ### 4 · Open task, the same gradients on half the memory
#
# `spendthrift` leaves gradients in a network and returns nothing. Write `thrifty`, which leaves the same gradients with at most 60% of its peak.
# The check watches both, with a batch that you don't know.

# %% tags=["exercise"]
def spendthrift(network, x, y):
    F.cross_entropy(network(x), y).backward()


def thrifty(network, x, y):
    return ...


### BEGIN SOLUTION
def thrifty(network, x, y):
    for part_x, part_y in zip(x.split(64), y.split(64)):  # one part's activations at a time
        share = len(part_x) / len(x)  # the last part may be smaller
        (share * F.cross_entropy(network(part_x), part_y)).backward()


### END SOLUTION
exercises.check("06.thrifty", thrifty, spendthrift=spendthrift)

# %% [markdown] tags=["minutes-1"]
# ## Three things to take away

# %%
takeaways = {
    "The second step's peak must fit": "it has at least 12 bytes per parameter, and activations on top.",
    "Know the largest batch beforehand": f"three batches and a line promised {promised} rows, and {fits} fit.",
    "Recover outside except": f"inside, a smaller batch {retry}; outside, it {'works' if recovered else 'runs out again'}.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess = measurements.Value, measurements.Prediction
measurements.record(
    "06_memory_management", FAST, device=chip,
    predicted={
        "bytes_per_parameter": guess(bytes_per_parameter, per_parameter),
        "mib_kept": guess(mib_kept, kept / 2**20, "MiB"),
        "mib_held": guess(mib_held, held // MIB, "MiB"),
        "saves_most": guess(saves_most, best),
        "fits_on_t4": guess(fits_on_t4, answer),
    },
    bytes_a_parameter=value(per_parameter, "bytes", "per parameter, with Adam"),
    rule_right=value(good, "", "of four networks: 16 bytes per parameter within 20%"),
    rehearsal_right=value(exact, "", "of four networks: the rehearsal within 5% of the allocator"),
    batch_promised=value(promised, "rows", "fit, by the line"),
    batch_found=value(fits, "rows", "fit, tried"),
    held_inside=value(held_inside, "B", "still held inside except"),
    retry_wrong=value(float(retry == "works"), "", "retries that work inside except"),
    retry_right=value(float(recovered), "", "retries that work outside except"),
    left_after=value(left_behind, "B", "left behind outside except"),
    kept_by_out=value(kept, "B", "kept alive by three numbers on the screen"),
    leak=value(leaking, "B", "held by four losses with their graphs"),
    no_leak=value(not_leaking, "B", "held by four numbers"),
    held_growing=value(held // MIB, "MiB", f"held after nine growing batches, {how}"),
    checkpoint_saved=value(100 - 100 * highest["checkpoint"] / highest["plain"], "%", "of the peak saved by checkpointing"),
    chunked_saved=value(100 - 100 * highest[best] / highest["plain"], "%", "of the peak saved by the best way"),
    seven_4_bits=value(needs["4 bits, checkpointing"].peak, "B", "peak of LoRA on a 7B model in 4 bits with checkpointing, rehearsed"),
)

# %% [markdown] tags=["minutes-0"]
# ## Keep this, and what comes next
#
# ```python
# import gc
#
# torch.cuda.reset_peak_memory_stats()
# train_step(batch)  # your own
# print(f"{torch.cuda.memory_allocated() / 1e9:.2f} GB alive, {torch.cuda.max_memory_allocated() / 1e9:.2f} at the peak")
# print(f"{torch.cuda.memory_reserved() / 1e9:.2f} GB held")
#
# def step_or_not(batch):
#     try:
#         train_step(batch)
#     except torch.OutOfMemoryError:
#         return False
#     return True
#
# if not step_or_not(batch):  # outside except
#     optimizer.zero_grad()
#     gc.collect()
#     torch.cuda.empty_cache()
#     for part in batch.chunk(2):
#         ...  # (loss / 2).backward(), then one optimizer.step()
# ```
#
# One way out saves memory and, on the right chip, can be the fastest of all: fewer bits, in lesson 07.
