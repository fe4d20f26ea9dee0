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

from colab_helpers import benchmark, hardware, memory, precision, published

from colab_lessons import exercises, figures, kinds, llama, models, networks, reference
from colab_lessons.predictions import guessed  # adds what you predicted to a title

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
VOCABULARY = VOCABULARY or (2000 if FAST else 8000)  # of the GPT
LAYERS = LAYERS or (2 if FAST else 4)  # of the GPT
LLAMA_LAYERS = LLAMA_LAYERS or (2 if FAST else 32)  # of the 7 B model
BUDGET = BUDGET or (80e6 if FAST else 400e6)  # bytes to stay within

# %%
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
torch.set_num_threads(1)  # one core of the CPU: on a shared machine a second one makes timings jump
device

# %% [markdown] tags=["minutes-12"]
# ## Two steps, watched
#
# That message came from a T4 that somebody trained on. Read it again with the numbers it printed.

# %%
row = published.get("full-t4")
print(f"{row.conditions} [{row.credit}]")

# %% [markdown]
# The 160 MiB weren't too much. They were the last drop. PyTorch's own tensors had filled the card.
#
# Which tensors? A model in training holds four things. There are its *parameters*, and a *gradient* for each of them. The *optimizer* remembers things of earlier steps. And there are
# the *activations*, the results of the forward pass that the backward pass will need.
#
# Here's a small GPT in float32. It trains with Adam, which keeps two averages for each parameter.
#
# **Predict.** How many bytes does each parameter cost in all, without activations?

# %%
bytes_per_parameter = None  # @param {type:"integer"}

# %%
config = models.GPTConfig(block_size=64, n_embd=128, n_head=4, n_layer=LAYERS, vocab_size=VOCABULARY)


def loss_of(rows):
    ids = torch.randint(VOCABULARY, (rows, config.block_size), device=device)  # (rows, tokens), any text will do
    return F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())


# %%
# @title Warm up a GPU's libraries, which take a workspace once { display-mode: "form" }
warm = nn.Linear(8, 8, device=device)
(warm(torch.ones(8, 8, device=device)) @ warm.weight).sum().backward()
model = optimizer = loss = warm = None

# %% [markdown]
# `kinds.Kinds` counts every tensor that's born or dies, on a CPU as well. You only tell it what is what.

# %%
with kinds.Kinds(device) as watched:
    model = models.GPT(config).to(device)
    watched.name("parameters", model.parameters())
    optimizer = torch.optim.Adam(model.parameters())
    for step in (1, 2):
        watched.meter.mark(f"forward {step}")
        loss = loss_of(16)
        watched.meter.mark(f"backward {step}")
        loss.backward()
        watched.name("gradients", [p.grad for p in model.parameters()])
        watched.meter.mark(f"step {step}")
        optimizer.step()
        watched.name("Adam's averages", [each[key] for each in optimizer.state.values() for key in ("exp_avg", "exp_avg_sq")])
        optimizer.zero_grad()  # sets the gradients to None, so their bytes are free

# %%
# @title Draw the two steps { display-mode: "form" }
lines = watched.timeline()
parts = {name: max(line) for name, line in lines.items() if name != kinds.OTHER}
per_parameter = sum(parts.values()) / model.parameter_count
figures.stacked(
    {name: lines[name] for name in ("parameters", "Adam's averages", "gradients", kinds.OTHER)}, watched.meter.marks,
    title=f"{per_parameter:.0f} bytes for each of {model.parameter_count:,} parameters{guessed(bytes_per_parameter)}; {watched.meter.peak / 1e6:.0f} MB at the peak",
)

# %% [markdown]
# Read it from the left. The parameters come first and stay. The forward pass piles up activations, and the backward pass takes them away and leaves gradients. The first `step()`
# adds Adam's averages, for good. So the second hump is higher than the first. It's the one that must fit. The needle on top of it is the vocabulary, with 8,000 scores for each token.
#
# Four bytes for the parameter, four for the gradient, eight for Adam makes 16. That holds on any chip, as long as everything is float32. Activations follow no such rule.
#
# On an NVIDIA GPU you need no helper. These four lines work in any notebook, and it's worth knowing them by heart.

# %%
if device.type == "cuda":
    torch.cuda.reset_peak_memory_stats()
    print(f"{torch.cuda.memory_allocated():,} bytes in live tensors")
    loss_of(16).backward()
    print(f"{torch.cuda.max_memory_allocated():,} at the worst moment since the reset")
    print(f"{torch.cuda.memory_reserved():,} that PyTorch holds, in use or not")
    optimizer.zero_grad()

# %% [markdown] tags=["minutes-10"]
# ## Know the peak before you run
#
# "16 bytes per parameter" is what people quote. There's something better. PyTorch can run a step on *fake tensors*, which have a shape and no data. Nothing is
# computed, nothing is allocated, and every byte can be counted. `memory.footprint` does that.
#
# Test both on four networks where it's hard. The judge must be independent, so don't ask the tool that made the prediction. Ask PyTorch's allocator.


# %%
def peak_of(work, kept):  # kept: bytes that were there before
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        work()
        return torch.cuda.max_memory_allocated() - others
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, profile_memory=True) as profile:
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
    "ResNet": (networks.resnet, torch.rand(3, 32, 32), 10),
    "GPT, 16,000 tokens": (large_vocabulary, torch.randint(16_000, (64,)), 16_000),
    "U-Net, a class for each pixel": (lambda: networks.UNet(16, 2), torch.rand(3, 64, 64), 2),
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
for name, (make, row, classes) in candidates.items():
    others = torch.cuda.memory_allocated() if device.type == "cuda" else 0  # what is not this network's
    network = make().to(device)
    adam = torch.optim.Adam(network.parameters())
    train_step()  # the first step makes Adam's averages
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
    title=f"Within 20 %: the rule, {good} of 4. Within 5 %: the rehearsal, {exact} of 4",
)

# %% [markdown] tags=["minutes-12"]
# The rule is off by factors where activations count. Images leave one at each pixel, and a large vocabulary gives a score to each token of each text.
#
# The rehearsal sees them all. What it can't see are a library's own buffers. On a CPU, convolutions keep some, and the U-Net has many. On a GPU, CUDA itself takes some hundred MB. So leave a
# margin. To rehearse for a GPU on your laptop, pass `foreach=True`. There the optimizer takes all weights at once, and its temporaries count.
#
# ## Where's the wall?
#
# Once activations set the peak, each row of a batch adds the same bytes. So measure three batches, draw a line, and read off which batch fills your memory.

# %%
def training_step(rows):
    optimizer.zero_grad()
    loss_of(rows).backward()
    optimizer.step()


def peak_with(rows):
    optimizer.zero_grad()
    with memory.track(device, known=[model, optimizer]) as meter:
        training_step(rows)
    return meter.peak


batches = (8, 12, 16)
peaks = [peak_with(rows) for rows in batches]
per_row, fixed = np.polyfit(batches, peaks, 1)
promised = int((BUDGET - fixed) / per_row)
f"{per_row / 1e6:.2f} MB for each row, {fixed / 1e6:.1f} MB without rows: {promised} rows in {BUDGET / 1e6:.0f} MB"

# %% [markdown]
# Now run into the wall. The budget plays a full card, and it raises PyTorch's own `OutOfMemoryError`. Try one row after the other around the promise.

# %%
fits = 0
for rows in range(max(1, promised - 3), promised + 4):
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
# @title Draw the line and the wall { display-mode: "form" }
optimizer.zero_grad()
x = [*batches, fits]
figures.lines(
    x, {"measured": [peak / 1e6 for peak in [*peaks, peak_with(fits)]]},
    ideal={"the line through three": [(fixed + per_row * rows) / 1e6 for rows in x], "the budget": [BUDGET / 1e6] * 4},
    title=f"The line promises {promised} rows; {fits} fit", xlabel="rows in a batch", ylabel="peak, MB",
)

# %% [markdown]
# Three small measurements told you where the wall is, without running into it.
#
# If you do run into it, you may want to go on with a smaller batch. There's a wrong place to do that.
#
# ### WRONG: try again inside `except`

# %%
optimizer.zero_grad()
with memory.track(device, int(BUDGET), known=[model, optimizer]) as meter:
    start = meter.live
    try:
        training_step(2 * fits)
    except torch.OutOfMemoryError:
        held_inside = meter.live - start
        try:
            training_step(9 * fits // 10)  # would fit easily
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
        return False  # behind this line the error is gone, and what it held
    return True


optimizer.zero_grad()
with memory.track(device, int(BUDGET), known=[model, optimizer]) as meter:
    start, recovered = meter.live, 0
    for _ in range(5):
        failed = not step_or_not(2 * fits)
        optimizer.zero_grad()
        torch.cuda.empty_cache()  # hands free segments back; without CUDA it does nothing
        left_behind = meter.live - start
        recovered += failed and step_or_not(9 * fits // 10)
    optimizer.zero_grad()
print(f"outside: {left_behind} bytes still held, and the smaller batch worked {recovered} times of 5")

# %% [markdown] tags=["minutes-8", "short-6"]
# The error holds a *traceback*, the traceback holds the functions it went through, and those hold your tensors. It's the same when a cell stops with an error. IPython keeps it, and the card stays
# full for the next cell. Run `1/0` in a cell of its own, and then `gc.collect()`. A new error takes the old one's place.
#
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
print(f"{kept / 2**20:.0f} MiB kept{guessed(mib_kept, ' MiB')}")

# %% [markdown]
# The three numbers are a *view* of sixteen million, and a view holds the whole tensor. IPython keeps the value of each cell's last line in `Out`, as long as the session lives. So end such cells
# with a number or a text.
#
# Losses are worse. Each remembers how it was computed, with all activations, until its `backward()`.

# %%
def evaluate(keep):
    with memory.track(device) as meter:
        history = [keep(loss_of(16)) for _ in range(4)]
        return meter.live, len(history)


leaking, _ = evaluate(lambda loss: loss)  # WRONG: keeps four graphs
not_leaking, _ = evaluate(lambda loss: loss.item())  # RIGHT: keeps four numbers
print(f"four losses hold {leaking / 1e6:.0f} MB, four numbers hold {not_leaking} bytes")

# %% [markdown]
# And when nothing refers to a tensor any more? Then PyTorch has its memory back, but the GPU hasn't. Asking the driver for memory is slow, so PyTorch keeps what it got, in *segments*, for the next
# tensor. Nine batches come, one after the other, each freed before the next: 12, 14, 16 … 28 MiB.
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
        card.give(card.take(size * MIB))
    held = sum(size for segment in card.segments() for size, _ in segment)
how = "measured" if device.type == "cuda" else "simulated"
print(f"{how}: {held // MIB} MiB held, 0 in use{guessed(mib_held, ' MiB')}")

# %% [markdown] tags=["minutes-8", "short-0"]
# Each batch was a little too large for every segment so far, so each got a new one. That's why `nvidia-smi` shows more than your tensors need. When the card is full, PyTorch gives free segments back and
# tries again, so it looks alarming and is harmless. It becomes an error when each segment still holds something small. Texts of
# growing length do this. Start with the longest.
#
# ## Ways out, and their price
#
# It doesn't fit. What now? Here are five ways. *Accumulating* runs the batch in parts and adds up the gradients. *Checkpointing* keeps the input of each block and computes the block again in the backward
# pass. *Autocast* computes in 16 bits, which is lesson 07. The last two are about the vocabulary and the length of the texts.


# %%
def plain():
    loss_of(16).backward()


def accumulate():
    for _ in range(4):
        (loss_of(4) / 4).backward()  # four equal parts


# %%
def hidden(ids):  # all but the last product: (rows, tokens, n_embd)
    x = model.tokens(ids) + model.positions(torch.arange(ids.shape[1], device=device))
    for block in model.blocks:
        x = checkpoint(block, x, use_reentrant=False)
    return model.norm(x)


def checkpointed():
    ids = torch.randint(VOCABULARY, (16, config.block_size), device=device)
    F.cross_entropy((hidden(ids) @ model.tokens.weight.T).flatten(0, 1), ids.flatten()).backward()


# %%
def chunked():  # the scores of an eighth of the tokens at a time, computed again in the backward pass
    ids = torch.randint(VOCABULARY, (16, config.block_size), device=device)
    x, targets = hidden(ids).flatten(0, 1), ids.flatten()

    def part(x, targets):
        return F.cross_entropy(x @ model.tokens.weight.T, targets, reduction="sum")

    losses = [checkpoint(part, *each, use_reentrant=False) for each in zip(x.chunk(8), targets.chunk(8))]
    (sum(losses) / len(targets)).backward()


# %%
# @title Half the text, and autocast in this chip's format { display-mode: "form" }
inventory = hardware.list_devices()
chip = inventory.cpu if device.type == "cpu" else inventory.main
half = torch.float16 if precision.advise(chip).format == "fp16" else torch.bfloat16


def half_the_text():
    ids = torch.randint(VOCABULARY, (16, config.block_size // 2), device=device)
    F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()


def autocast():
    with torch.autocast(device.type, half):
        loss = loss_of(16)
    loss.backward()


# %% [markdown]
# **Predict.** Which of them lowers the peak most?

# %%
saves_most = None  # @param ["accumulate", "checkpoint", "checkpoint and chunked loss", "autocast", "half the text"]

# %%
ways = {
    "plain": plain, "accumulate": accumulate, "checkpoint": checkpointed, "checkpoint and chunked loss": chunked,
    "autocast": autocast, "half the text": half_the_text,
}
highest = {}
for name, way in ways.items():
    model.zero_grad()
    with memory.track(device, known=[model, optimizer]) as meter:
        way()
    highest[name] = meter.peak
times = benchmark.compare(ways, budget=SECONDS)
model.zero_grad()

# %%
# @title Draw the ways out, the cheapest first { display-mode: "form" }
price = {name: one.best / times["plain"].best - 1 for name, one in times.items()}
best = min(highest, key=highest.get)
figures.bars(
    {f"{name} ({'' if name == 'plain' else f'{price[name]:+.0%} '}time)".replace("plain (time)", "plain"): highest[name] for name in sorted(ways, key=price.get)},
    unit="B", title=f"Lowest peak: {best}, {highest[best] / highest['plain']:.0%} of the plain one{guessed(saves_most)}",
)

# %% [markdown] tags=["minutes-8", "short-0"]
# Each has its price. Half the text is another training. Accumulating changes nothing, unless the network has BatchNorm, and it saves what grows with the rows. Checkpointing costs time, because each block runs forward twice.
# Autocast can even be faster, on a chip with units for 16 bits.
#
# With a large vocabulary the scores are the bill. Chunk them. And if parameters are the bill, change the optimizer. `bitsandbytes` keeps Adam's averages in 8 bits, so each parameter costs 10 bytes instead of 16.
#
# ## Does a 7 B model fit on a T4?
#
# Everybody asks. So rehearse it. Here's Llama 2's shape, with adapters (*LoRA*) that train while the weights stay frozen, in 16 bits or in 4. On PyTorch's `meta` device it takes no memory.
#
# **Predict.** One text of 1,304 tokens. Which of them fit into the 15.6 GB that PyTorch gets on a T4?

# %%
fits_on_t4 = None  # @param ["none", "4 bits with checkpointing only", "4 bits, with and without", "all but 16 bits without", "all four"]


# %%
def seven_billion(bits, recompute, tokens=1304):
    with torch.device("meta"):
        large = llama.Llama(llama.LlamaConfig(bits=bits, recompute=recompute, n_layer=LLAMA_LAYERS))
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

# %%
# @title Draw what fits { display-mode: "form" }
t4 = 14.56 * 2**30  # bytes that PyTorch gets on Colab's T4
answers = {0: "none", 1: "4 bits with checkpointing only", 2: "4 bits, with and without", 3: "all but 16 bits without", 4: "all four"}
theirs = published.get("llama-7b-lora-memory")
margin = theirs.value / needs["4 bits"].peak  # what a published run took over the rehearsal
answer = answers[sum(margin * each.peak < t4 for each in needs.values())]
figures.bars(
    {name: each.peak for name, each in needs.items()}, unit="B", published={"4 bits, published": theirs},
    marks={"T4": t4, "L4": 22.5e9}, title=f"On a T4 fit, with a margin of {margin - 1:.0%}: {answer}{guessed(fits_on_t4)}",
)

# %% [markdown]
# Four bits shrink the weights, and checkpointing shrinks the rest. You need both to be comfortable.
#
# The hollow bar was measured with other code, and is nearly 2 GB higher than the rehearsal above it. We take that as the margin, and then 16 bits don't fit, even with checkpointing. Training all seven billion weights takes 16 bytes for each, 108 GB before the first activation. No GPU on Colab has
# that.

# %% [markdown] tags=["minutes-6", "short-4"]
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
# A network with BatchNorm needs 13 GB, and you have 10. The training must stay exactly what it is. Which way do you take?
#
# | way | peak | time |
# |---|---|---|
# | `"accumulate"`, two halves | 8.9 GB | +4 % |
# | `"checkpoint"` | 6.1 GB | +31 % |
# | `"half the batch"` | 8.6 GB | +2 % |
# | `"chunked loss"` | 12.8 GB | +1 % |

# %% tags=["exercise"]
way_out = ...
### BEGIN SOLUTION
way_out = "checkpoint"  # the others that fit show BatchNorm smaller batches
### END SOLUTION
exercises.check("06.way_out", way_out)

# %% [markdown]
# ### 4 · Open task, the same gradients on half the memory
#
# `spendthrift` leaves gradients in a network and returns nothing. Write `thrifty`, which leaves the same gradients with at most 60 % of its peak. The check
# watches both, with a batch that you don't know.

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
    "The second hump must fit": f"{per_parameter:.0f} bytes for each parameter, and activations on top; the rule alone was right for {good} of 4 networks.",
    "Know the wall beforehand": f"three batches and a line promised {promised} rows, and {fits} fit.",
    "Recover outside except": f"inside, a smaller batch {retry}; outside, it worked {recovered} times of 5.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess = reference.Value, reference.Prediction
reference.record(
    "06_memory_management", FAST, device=chip,
    predicted={
        "bytes_per_parameter": guess(bytes_per_parameter, per_parameter),
        "mib_kept": guess(mib_kept, kept / 2**20, "MiB"),
        "mib_held": guess(mib_held, held // MIB, "MiB"),
        "saves_most": guess(saves_most, best),
        "fits_on_t4": guess(fits_on_t4, answer),
    },
    bytes_a_parameter=value(per_parameter, "bytes", "for each parameter, with Adam"),
    rule_right=value(good, "", "of four networks: 16 bytes per parameter within 20 %"),
    rehearsal_right=value(exact, "", "of four networks: the rehearsal within 5 % of the allocator"),
    batch_promised=value(promised, "rows", "fit, by the line"),
    batch_found=value(fits, "rows", "fit, tried"),
    held_inside=value(held_inside, "B", "still held inside except"),
    retry_wrong=value(float(retry == "works"), "", "retries that work inside except"),
    retry_right=value(recovered / 5, "", "share of retries that work outside except"),
    left_after=value(left_behind, "B", "left behind outside except"),
    kept_by_out=value(kept, "B", "kept alive by three numbers on the screen"),
    leak=value(leaking, "B", "held by four losses with their graphs"),
    no_leak=value(not_leaking, "B", "held by four numbers"),
    held_growing=value(held // MIB, "MiB", f"held after nine growing batches, {how}"),
    checkpoint_saved=value(100 - 100 * highest["checkpoint"] / highest["plain"], "%", "of the peak saved by checkpointing"),
    chunked_saved=value(100 - 100 * highest[best] / highest["plain"], "%", f"of the peak saved by {best}"),
    seven_4_bits=value(needs["4 bits, checkpointing"].peak, "B", "peak of LoRA on a 7 B model in 4 bits with checkpointing, rehearsed"),
)

# %% [markdown] tags=["minutes-0"]
# ## Keep this, and what comes next
#
# ```python
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
# One way out saves memory and can be the fastest of all, on the right chip. That's fewer bits, in lesson 07.
