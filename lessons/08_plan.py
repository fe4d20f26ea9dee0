# %%
# @title Imports { display-mode: "form" }
import math
import os
import time
import weakref

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from colab_helpers import benchmark, chip_throughput, platform_facts, hardware, memory, plan, published_results
from colab_helpers.plan import estimate_accuracy

from colab_lessons import exercises, figures, measurements, models
from colab_lessons.predictions import your_prediction  # adds what you predicted to a title

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
BATCHES = None
STEPS = None
HOURS = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
BATCHES = sorted({1, 16, *(BATCHES or (() if FAST else (4, 8, 32)))})  # batch sizes that are rehearsed
STEPS = STEPS or 100_000  # of the training that is planned
HOURS = HOURS or 12  # until it must be done
CHECKED = 1 if FAST else 8  # batch size of the step that a GPU runs
GPT2 = models.GPTConfig(vocab_size=50_257, block_size=1024, n_embd=768, n_head=12, n_layer=12)
ON_CARD = models.GPTConfig(vocab_size=512, block_size=64, n_embd=64, n_head=2, n_layer=1) if FAST else GPT2  # what it trains
SEVEN = models.GPTConfig(vocab_size=32_000, block_size=2048, n_embd=4096, n_head=32, n_layer=32)  # 7 billion parameters

# %% [markdown] tags=["minutes-14", "short-11"]
# ## Will it fit?
#
# How much memory a step takes depends on shapes alone, and PyTorch can compute with shapes alone. Its *fake tensors* have a shape and a dtype, and
# no data.

# %%
with FakeTensorMode():
    a = torch.empty(100_000, 100_000)
    product = a @ a
print(tuple(product.shape), f"{product.nbytes / 1e9:.0f} GB")

# %% [markdown]
# That matmul would take hours, and two matrices of 40 GB. On fake tensors it took no time, and no memory.
#
# You can run a training step on them in the same way, and count the bytes it would have used. PyTorch calls `__torch_dispatch__` for every
# operation. A tensor's bytes are in its *storage*, and two tensors can share one. The class below therefore notes each new storage, and asks Python
# to call back when it's freed, which is what `weakref.finalize` does.

# %%
class Bytes(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.live = self.peak = 0
        self.seen = weakref.WeakSet()

    def __torch_dispatch__(self, call, types, args=(), kwargs=None):
        result = call(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and (store := tensor.untyped_storage()) not in self.seen:
                self.seen.add(store)
                self.change(store.nbytes())
                weakref.finalize(store, self.change, -store.nbytes())
        return result

    def change(self, by):
        self.live += by
        self.peak = max(self.peak, self.live)


# %% [markdown]
# And this is an ordinary training step under autocast, as in lesson 07. It runs twice, because the first step makes AdamW's moments. The second one
# counts. `foreach` and `fused` are ways in which AdamW works through its parameters. On a GPU it's `foreach` unless you say otherwise.

# %%
def plain(network, ids):
    logits = network(ids)  # (batch, tokens, vocabulary)
    return F.cross_entropy(logits.flatten(0, 1), ids.flatten())


# %%
def rehearse(make, batch_size, tokens=1024, loss_of=plain, half=True, **options):
    with FakeTensorMode(), Bytes() as room:
        network = make()
        adamw = torch.optim.AdamW(network.parameters(), **options)
        for _ in range(2):
            room.peak = room.live
            ids = torch.zeros(batch_size, tokens, dtype=torch.long)  # (batch, tokens)
            with torch.autocast("cpu", torch.float16, enabled=half):
                loss = loss_of(network, ids)
            loss.backward()
            adamw.step()
            adamw.zero_grad()
    return room.peak


# %% [markdown]
# Take GPT-2 with its 124 million parameters, and a batch of 16 sequences of 1,024 tokens. Parameters, gradients and AdamW's moments take 2 GB, and
# then there are the activations. A T4 has 15.5 GB for your tensors.
#
# **Predict.** How many GB does this step take at its peak?

# %%
gigabytes = None  # @param {type:"number"}

# %%
start = time.perf_counter()
peak = rehearse(lambda: models.GPT(GPT2), 16, foreach=True)
benchmark.synchronize()  # a habit: nothing here runs on a device
f"{peak / 1e9:.1f} GB{your_prediction(gigabytes, ' GB')}, known after {time.perf_counter() - start:.1f} s"

# %% [markdown]
# That's more than a T4 has. GPT-2 has a vocabulary of 50,257 tokens, and the loss needs a logit for each of them at each position, 16 × 1,024 ×
# 50,257 logits. In float32 they take 3.3 GB, and in the backward pass the loss holds three tensors of that size.
#
# It doesn't need all logits at once. Compute them in pieces, and let `checkpoint` compute each piece again in the backward pass. It's the same
# loss, with the same gradients.

# %%
def in_pieces(network, ids, pieces=16):
    h = network.norm(network.blocks(network.tokens(ids) + network.positions.weight[: ids.shape[1]]))  # (batch, tokens, n_embd)

    def piece(h, ids):
        return F.cross_entropy(h @ network.tokens.weight.T, ids, reduction="sum")

    parts = zip(h.flatten(0, 1).chunk(pieces), ids.flatten().chunk(pieces))
    return sum(checkpoint(piece, *part, use_reentrant=False) for part in parts) / ids.numel()


# %%
LOSSES = {"at once": plain, "in pieces": in_pieces}
peaks = {name: [rehearse(lambda: models.GPT(GPT2), n, loss_of=loss, foreach=True) for n in BATCHES] for name, loss in LOSSES.items()}

# %%
# @title Draw the peaks and three cards { display-mode: "form" }
chips = hardware.catalog()
cards = {key: chips[key].usable_memory - sum(one.on(chips[key]) for one in plan.overheads()) for key in ("T4", "L4", "A100-40")}
pieces_peak = peaks["in pieces"][BATCHES.index(16)]
figures.lines(
    BATCHES, {f"loss {name}": of for name, of in peaks.items()}, units=("", "B"),
    ideal={f"{key}: {room / 1e9:.1f} GB": [room] * len(BATCHES) for key, room in cards.items()},
    xlabel="batch size, in sequences of 1,024 tokens", ylabel="peak of a step",
    title=f"GPT-2 at batch size 16: {peak / 1e9:.1f} GB, and {pieces_peak / 1e9:.1f} GB with the loss in pieces",
)

# %% [markdown]
# With a few more lines the step takes half the memory. The price is that the logits, a large part of the arithmetic, are computed twice; lesson 06
# timed that on its own model.
#
# The lines are straight once the batch is so large that the activations decide. Rehearse two large batches, therefore, draw a line, and read your
# largest batch off any card. Rehearse that one too, and leave a tenth free.
#
# `memory.footprint` from lesson 06 is the same counter in one line.

# %%
def loss_with(network, half=True):
    def loss(batch_size):
        ids = torch.zeros(batch_size, GPT2.block_size, dtype=torch.long)
        with torch.autocast("cpu", torch.float16, enabled=half):
            return plain(network, ids)

    return loss


with torch.device("meta"):  # a device without data: the model takes no memory
    model = models.GPT(GPT2)
adamw = torch.optim.AdamW(model.parameters())
needs = memory.footprint(model, loss_with(model), 16, adamw, foreach=True)
f"memory.footprint: {needs.peak / 1e9:.1f} GB, {needs.peak - peak:+,} bytes from ours"

# %% [markdown] tags=["minutes-9"]
# ## Would a real GPU agree?
#
# Sebastian Raschka trained GPT-2 on an A100, improved the code step by step, and noted the memory each time. Rehearse four of his versions: in
# float32 with everything written by hand, in bf16 with a fused AdamW, then with PyTorch's own normalization and GELU, then with its FlashAttention.
#
# **Predict.** By how many percent did the A100's memory exceed the rehearsal, at worst?

# %%
disagrees = None  # @param {type:"number"}

# %%
ways = {  # PyTorch's own layers? its FlashAttention? dtype, AdamW
    "float32, by hand": (False, False, torch.float32, {"foreach": True}),
    "bf16": (False, False, torch.bfloat16, {"fused": True}),
    "PyTorch's own layers": (True, False, torch.bfloat16, {"fused": True}),
    "FlashAttention": (True, True, torch.bfloat16, {"fused": True}),
}
THEIRS = {name: name for name in ways} | {"float32, by hand": "mask on the fly"}  # names in the published table
rehearsed = {
    name: rehearse(lambda: models.gpt2(dtype, native, flash), 8, half=False, **how)
    for name, (native, flash, dtype, how) in ways.items()
}

# %%
# @title Draw both { display-mode: "form" }
a100 = published_results.get("ladder-a100-memory")
print(f"{a100.credit}: {a100.url}")
more = {name: 100 * (a100.points[THEIRS[name]] / rehearsed[name] - 1) for name in ways}
figures.grouped_bars(
    {name: {"rehearsed here": rehearsed[name], "reserved on an A100": a100.points[THEIRS[name]]} for name in ways}, unit="B",
    title=f"Calibrated on it: the A100 took {min(more.values()):.0f} to {max(more.values()):.0f}% more than rehearsed{your_prediction(disagrees, '%')}",
)

# %% [markdown]
# Fake tensors on a CPU and a real card are a few percent apart. His figure is what PyTorch's allocator had reserved, and that's always a little
# more than what the tensors hold.
#
# The test isn't quite fair. We wrote the network from its description, and our first try was too high: a CPU's dropout keeps its mask in the format
# of the values, and a GPU's keeps one byte for each. We found that because of this very table, so the tool is calibrated on it. On networks that it
# wasn't calibrated on, lesson 06 showed errors beyond a tenth.
#
# His code doesn't use autocast, either, and there a CPU and a GPU differ. If you have an NVIDIA GPU, the next cells run the step on it. If not,
# they show what an H100 took.

# %%
def on_card(batch_size, steps=8):
    network = models.GPT(ON_CARD).to("cuda")
    adamw, scaler = torch.optim.AdamW(network.parameters()), torch.amp.GradScaler()
    ids = torch.zeros(batch_size, ON_CARD.block_size, dtype=torch.long, device="cuda")
    for step in range(steps + 1):
        if step == 3:  # the first ones warm up, and the scaler finds its factor
            torch.cuda.reset_peak_memory_stats()
            torch.cuda.synchronize()
            start = time.perf_counter()
        with torch.autocast("cuda", torch.float16):
            loss = plain(network, ids)
        scaler.scale(loss).backward()
        scaler.step(adamw)
        scaler.update()
        adamw.zero_grad()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated(), (time.perf_counter() - start) / (steps - 2)


# %%
H100_AT_8 = 8.71e9  # bytes, measured by us on an H100 80GB in November 2026, with PyTorch 2.11
eight = rehearse(lambda: models.GPT(GPT2), 8, foreach=True)
print(f"batch size 8: rehearsed {eight / 1e9:.2f} GB, on an H100 {H100_AT_8 / 1e9:.2f} GB")
print(f"with twice that gap, batch size 16 would take {(peak - 2 * (eight - H100_AT_8)) / 1e9:.1f} GB")

card = on_card(CHECKED) if torch.cuda.is_available() else None
if card:
    print(f"on this card, batch size {CHECKED}: {card[0] / 1e9:.2f} GB and {card[1]:.2f} s per step")

# %% [markdown]
# The real step took less. Under a CPU's autocast the loss first converts the logits to float32, whereas CUDA's kernel reads them in fp16 and never
# makes that copy. A rehearsal of fp16 training with a large vocabulary is therefore too high, in this case by about as much as one tensor of logits
# in 16 bits, and for a T4 with its 15.5 GB batch size 16 is too close to call.

# %% [markdown] tags=["minutes-12", "short-11"]
# ## How long?
#
# Start on the back of an envelope. Training takes six operations per parameter and token: two forward, four backward. Divide by the rate that a
# chip reaches in large matmuls. Others have measured that, and also how fast chips move bytes. For the L4 and the G4 some of it is a guess from the
# data sheet.

# %%
for key in ("T4", "L4", "A100-40", "G4"):
    rates = chip_throughput.rates(key)
    print(f"{key:>7}: {rates['fp16'].value / 1e12:4.0f} TFLOP/s in fp16, {rates['memory'].value / 1e9:5,.0f} GB/s")
flop = 6 * model.parameter_count * 16 * GPT2.block_size
envelope = flop / chip_throughput.rates("T4")["fp16"].value
print(f"{flop / 1e12:.1f} TFLOP per step: {envelope:.2f} s on a T4, if it does nothing but multiply")

# %% [markdown]
# It does other things, too. `plan.trace_step` is our counter again, and it notes the FLOP and the bytes of every call.
#
# A call takes about as long as the slower of the two: its FLOP at the chip's FLOP/s, or its bytes at the chip's bytes/s. That's the roofline from
# lesson 02. The next cell prints the five slowest calls on a T4, by shape. Attention is one call there. On a T4 that would be PyTorch's
# memory-efficient kernel, since FlashAttention needs compute capability 8.0. We count all of its arithmetic, although a causal kernel can skip
# about half.

# %%
work = plan.trace_step(model, loss_with(model), 16, adamw, foreach=True)


def seconds_of(call, rates):  # to multiply, and to move its bytes
    multiply = call.flops / rates[call.format].value if call.flops else 0.0
    return call.count * multiply, call.count * call.bytes_accessed / rates["memory"].value


t4 = chip_throughput.rates("T4")
for call in sorted(work.operations, key=lambda call: -max(seconds_of(call, t4)))[:5]:
    multiply, move = seconds_of(call, t4)
    name = call.name.replace("_flash_attention_for_cpu", "_attention")  # the traced kernel is a CPU's
    print(f"{call.count:3} × {name[:46]:46} {1000 * multiply:5.1f} ms to multiply, {1000 * move:5.1f} ms to move")
print(f"all calls: {work.flops / 1e12:.1f} TFLOP, because attention multiplies, too")

# %% [markdown]
# The slowest single call isn't a matmul at all. It's the softmax over the vocabulary, in the backward pass. Each `mm` in this list multiplies with
# the vocabulary's matrix.
#
# **Predict.** What percentage of the step does a T4 spend on multiplying?

# %%
multiplying = None  # @param {type:"slider", min:0, max:100, step:5}

# %%
def seconds_on(chip, work):
    spent = {"multiplying": 0.0, "moving bytes": 0.0}
    for call in work.operations:
        multiply, move = seconds_of(call, chip_throughput.rates(chip))
        spent["multiplying" if multiply > move else "moving bytes"] += max(multiply, move)
    return spent


# %%
# @title Draw four chips { display-mode: "form" }
spent = {key: seconds_on(key, work) for key in ("T4", "L4", "A100-40", "G4")}
shares = {
    f"{key}: {sum(of.values()):.2g} s": {what: round(100 * value / sum(of.values())) for what, value in of.items()}
    for key, of in spent.items()
}
share = 100 * spent["T4"]["multiplying"] / sum(spent["T4"].values())
print("Estimates from rates that others measured; not yet checked on a card.")
figures.grouped_bars(shares, unit="%", title=f"By this sum, a T4 multiplies for {share:.0f}% of the step{your_prediction(multiplying, '%')}")

# %% [markdown]
# By this sum, about half of the time goes into moving bytes.
#
# Raschka's page also says how many tokens per second the A100 trained on, which tests the sum. Put three things side by side, for his versions in
# bf16: the envelope, our sum, and the clock.

# %%
speed, seconds = published_results.get("ladder-a100"), {}
for name, (native, flash, dtype, how) in list(ways.items())[1:]:
    with torch.device("meta"):
        network = models.gpt2(dtype, native, flash)
    trained = torch.optim.AdamW(network.parameters(), **how)
    step = plan.trace_step(network, loss_with(network, half=False), 8, trained)
    multiplied = sum(p.numel() for p in network.parameters()) - network.tokens.weight.numel()  # an embedding multiplies nothing
    seconds[name] = {
        "envelope": 6 * multiplied * 8 * GPT2.block_size / chip_throughput.rates("A100-40")["bf16"].value,
        "our sum": sum(seconds_on("A100-40", step).values()),
        "measured on an A100": 8 * GPT2.block_size / speed.points[THEIRS[name]],
    }

# %%
# @title Draw the three { display-mode: "form" }
off = {way: [each["measured on an A100"] / each[way] for each in seconds.values()] for way in ("envelope", "our sum")}
figures.grouped_bars(
    seconds, unit="s", title=f"The envelope is off by up to {max(off['envelope']):.0f}×, our sum by up to {max(off['our sum']):.0f}×",
)

# %% [markdown]
# To the envelope they're all the same step. Yet the A100 needs half as long once normalization and attention stop writing every intermediate result
# to memory. Our sum sees that, since it counts bytes.
#
# It's still too optimistic. His next three changes show two things that it can't see: how well a kernel is made (`torch.compile`), and whether
# shapes suit the tensor cores (a vocabulary padded to 50,304, which is a multiple of 64).

# %%
names = ["FlashAttention", "torch.compile", "vocabulary of 50,304", "larger batch"]
for place, name in enumerate(names[1:]):
    print(f"{name}: {speed.points[name] / speed.points[names[place]] - 1:+.0%} tokens per second")
fastest = chip_throughput.rates("A100-40")["bf16"].value / (6 * multiplied * max(speed.y))
print(f"after all of them a step takes {fastest:.1f} times as long as the envelope")

# %% [markdown]
# Other published training runs in 16 bits, divided by our sum:

# %%
runs = [run for run in estimate_accuracy.runs() if run.half and run.is_training]
for run in sorted(runs, key=lambda run: run.factor):
    print(f"{run.factor:.1f} × our sum: {run.chip}, {run.what}, {published_results.get(run.row).credit}")
factors = [run.factor for run in runs]

# %% [markdown]
# A plan is therefore a range. Its best case is our sum times the smallest factor on that chip, where both A100s count as one. Its worst case is the
# largest factor, plus the time of every kernel launch. A chip without a run gets the range of all chips.

# %% [markdown] tags=["minutes-6"]
# ## Which machine?
#
# Suppose that you want to train GPT-2 for 100,000 steps, within 12 hours. That's 1.6 billion tokens, a small part of what GPT-2 was trained on. The
# next cell prints what Colab's GPUs cost, as far as their rate is known. TPUs can be cheaper still, but then this loop must be ported (lesson 05).

# %%
menu = platform_facts.machine_table()
price = menu.dollars_per_unit
offers = {offer.chip.key: offer for offer in plan.estimates(work) if offer.chip.kind == "GPU" and offer.units_per_hour}
for offer in offers.values():
    print(f"{offer.menu_name:20} {price * offer.units_per_hour:.2f} dollars per hour{', or free if you get one' if offer.free else ''}")
print("Source:", menu.origin.source)

# %% [markdown]
# A T4 may hold 16 sequences only with the loss in pieces, or in two halves whose gradients are added up. Both cost some time, which the hours below
# leave out.
#
# **Predict.** Which machine does the job for the least money, within 12 hours?

# %%
your_choice = None  # @param ["T4 GPU", "L4 GPU", "A100 GPU", "A100 GPU, High-RAM", "G4 GPU"]

# %%
jobs = {}
print(f"{'estimates, not yet checked on a card':>40}")
for offer in offers.values():
    hours = offer.hours(STEPS)
    dollars = tuple(price * offer.units_per_hour * hour for hour in hours)
    jobs[offer.menu_name] = hours, dollars
    print(f"{offer.menu_name:20} {hours[0]:5.1f} to {hours[1]:4.1f} hours, {dollars[0]:.2f} to {dollars[1]:.2f} dollars")

# %%
measured = 2 * STEPS * seconds["FlashAttention"]["measured on an A100"] / 3600  # 16 sequences are twice 8
print(f"Raschka's A100 would take {measured:.1f} hours, by its own clock")
in_time = {choice: dollars[1] for choice, (hours, dollars) in jobs.items() if hours[1] <= HOURS}
best = min(in_time, key=in_time.get, default="none")

# %%
# @title Draw hours and dollars { display-mode: "form" }
SESSION = 12  # hours, at most, that a free session lives
sessions = [math.ceil(hour / SESSION) for hour in jobs["T4 GPU"][0]]
free = {f"T4, free: at least {sessions[0]} to {sessions[1]} sessions": (jobs["T4 GPU"][0], (0.0, 0.0))}
a100_step, l4_step = (sum(spent[key].values()) * offers[key].units_per_hour for key in ("A100-40", "L4"))
print(f"With the same factor on both, the A100 would be {100 * (1 - a100_step / l4_step):.0f}% cheaper than the L4.")
figures.prices(jobs | free, deadline=(f"{HOURS} hours", HOURS), best=best, title=f"Cheapest within {HOURS} hours, even in the worst case: {best}{your_prediction(your_choice)}")

# %% [markdown]
# Each line runs from the best case to the worst, and its slope is the price of an hour. Compare the right ends. An hour on the A100 costs more than
# three times an hour on the L4, but the job probably costs less, because it's done so much sooner. Compare the price of jobs, not of hours.
#
# Patience would change the answer: with no deadline, the free T4 does it for nothing, if you get one often enough, and lesson 09 shows how to
# continue after each session. A measurement could change it, too. The L4's line is a guess from other chips' runs, since we found none on one. Buy
# ten minutes on it, time a hundred steps, and the line shrinks to a point.
#
# All of this is one command in a terminal: `colab-helpers plan train.py:job --steps 100000`.

# %% [markdown] tags=["minutes-6", "short-0"]
# ## Seven billion
#
# The first question was about 7 billion parameters. Take a GPT of Llama 2 7B's width and depth (it has a little less than 7B, because its output
# layer shares the embedding's matrix), one sequence of 2,048 tokens, autocast, and a fused AdamW.

# %%
seven = rehearse(lambda: models.GPT(SEVEN), 1, SEVEN.block_size, fused=True)
with torch.device("meta"):
    parameters = models.GPT(SEVEN).parameter_count
largest = max((chip for chip in chips.values() if chip.where in ("free", "paid")), key=lambda chip: chip.usable_memory)
print(f"{parameters / 1e9:.2f} billion parameters × 16 bytes: {16 * parameters / 1e9:.0f} GB. Rehearsed: {seven / 1e9:.0f} GB.")
print(f"The largest chip on Colab's menu, the {largest.key}, has {largest.usable_memory / 1e9:.0f} GB.")

# %% [markdown]
# Parameters, gradients and moments are nearly everything, and with AdamW in float32 they don't fit on any card that Colab has. It takes larger
# cards, or many. Meta trained Llama 2 7B on two trillion tokens, on many A100s at once. The share of the data sheet's peak that such a run reaches
# is called its *model FLOPs utilization*, or MFU.
#
# **Predict.** How many years of a single A100 was that?

# %%
years = None  # @param {type:"number"}

# %%
LLAMA, TOKENS = 6.74e9, 2e12  # tokens from Meta's paper, parameters from the published weights
by_envelope = 6 * LLAMA * TOKENS / chip_throughput.rates("A100-80")["bf16"].value / 3600  # hours
meta = published_results.get("llama-2-7b-hours")
real_years = meta.value / 24 / 365
dollars = meta.value * price * offers["A100-80"].units_per_hour
print(f"The envelope says {by_envelope:,.0f} hours. Meta needed {meta.value:,.0f}, {meta.value / by_envelope:.1f} times as many ({meta.credit}).")
mfu = 6 * LLAMA * TOKENS / (3600 * meta.value * chips["A100-80"].peak["bf16"])
print(f"Its MFU was {mfu:.0%}.")
print(f"That's {real_years:.0f} years{your_prediction(years, ' years')}, and about {round(dollars, -3):,.0f} dollars at Colab's price.")

# %% [markdown]
# Attention isn't in the envelope, bytes aren't, and in a cluster cards also wait for each other. It still took only about twice as long, so the
# envelope would have told the size of that bill before anything was rented.
#
# If that's beyond your budget, freeze the 7 billion parameters in four bits and train a small adapter. Lesson 06 counted that: with checkpointing
# it fits on a T4.

# %% [markdown] tags=["minutes-7"]
# ## Exercises
#
# ### 1 · A faster multiplier
#
# A step multiplies 10 TFLOP and moves 60 GB in other calls. A T4 multiplies 40 TFLOP/s in fp16 and moves 240 GB/s. How many seconds does the step
# take, by our sum? And on a chip that multiplies ten times as fast, with the same memory?

# %% tags=["exercise"]
step_seconds = {"T4": ..., "faster multiplier": ...}
### BEGIN SOLUTION
step_seconds = {"T4": 10 / 40 + 60 / 240, "faster multiplier": 10 / 400 + 60 / 240}  # 0.5 and 0.275: not even twice as fast
### END SOLUTION
exercises.check("08.multiplier", step_seconds)

# %% [markdown]
# ### 2 · Your own model
#
# Put your own network into `job`, or keep this one. How many examples fit into 14 GB? Rehearse two batch sizes, and draw a line. The check
# rehearses your answer.

# %% tags=["exercise"]
def job():
    with torch.device("meta"):
        network = nn.Sequential(
            nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(64 * 64, 100),
        )

    def loss(batch_size):
        images, labels = torch.zeros(batch_size, 3, 224, 224), torch.zeros(batch_size, dtype=torch.long)
        return F.cross_entropy(network(images), labels)

    return network, loss, torch.optim.AdamW(network.parameters())


largest_batch = ...
### BEGIN SOLUTION
network, loss, trained = job()
small, large = (memory.footprint(network, loss, batch_size, trained).peak for batch_size in (8, 16))
for_one = (large - small) / 8  # bytes per example
largest_batch = int((14e9 - (small - 8 * for_one)) / for_one)
### END SOLUTION
exercises.check("08.your_model", largest_batch, job=job)

# %% [markdown]
# ### 3 · The cheapest in time
#
# Every hour is paid for in units here, the T4's too. A job takes 10 hours on a T4 (1.07 units per hour), 6 on an L4 (1.54) and 2 on an A100 (5.3).
# Which one burns fewest units when it must be done in 12 hours? In 8? In 3? Answer with chips.

# %% tags=["exercise"]
choice = {"12 hours": ..., "8 hours": ..., "3 hours": ...}
### BEGIN SOLUTION
choice = {
    "12 hours": "L4",  # 9.2 units; the T4 burns 10.7, the A100 10.6
    "8 hours": "L4",  # the T4 is too slow now
    "3 hours": "A100",  # the only one in time, for little more
}
### END SOLUTION
exercises.check("08.cheapest", choice)

# %% [markdown]
# ### 4 · Open task, half the peak
#
# `hungry` returns the loss of a network, an `nn.Sequential` of six wide blocks and a last layer. Write `modest`: the same loss and the same
# gradients, with at most half of the memory beyond the weights. The check rehearses both.

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

# %% [markdown] tags=["minutes-1"]
# ## Three things to take away

# %%
takeaways = {
    "Bytes follow from shapes": f"{peak / 1e9:.1f} GB, and {pieces_peak / 1e9:.1f} GB with the loss in pieces, both known without a GPU.",
    "The envelope is too optimistic": f"written by hand GPT-2 took an A100 {off['envelope'][0]:.0f} times as long, with FlashAttention {off['envelope'][-1]:.1f} times, and Llama 2 took {meta.value / by_envelope:.1f} times as long.",
    "Price jobs, not hours": f"{STEPS:,} steps of GPT-2 within {HOURS} hours: {best}.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess = measurements.Value, measurements.Prediction
measurements.record(
    "08_plan", FAST, device=hardware.list_devices().main if card else hardware.list_devices().cpu,
    predicted={
        "gigabytes": guess(gigabytes, peak / 1e9, "GB"),
        "disagrees": guess(disagrees, max(more.values()), "%"),
        "multiplying": guess(multiplying, share, "%"),
        "your_choice": guess(your_choice, best),
        "years": guess(years, real_years, "years"),
    },
    step_peak=value(peak, "B", "rehearsed peak of GPT-2 at batch size 16, fp16"),
    in_pieces=value(pieces_peak, "B", "the same with the loss in 16 pieces"),
    by_hand=value(peak - needs.peak, "B", "between twenty lines and memory.footprint"),
    least_more=value(min(more.values()), "%", "that an A100 took more than rehearsed, at least"),
    most_more=value(max(more.values()), "%", "the same, at most"),
    multiplies=value(share, "%", "of a step that a T4 multiplies, estimated"),
    envelope_off=value(max(off["envelope"]), "×", "time of GPT-2 on an A100 over the envelope's, at worst"),
    sum_off=value(max(off["our sum"]), "×", "the same over our sum"),
    least_factor=value(min(factors), "×", "time of published trainings in 16 bits over our sum, the quickest"),
    most_factor=value(max(factors), "×", "the same, the slowest"),
    seven_peak=value(seven, "B", "rehearsed peak of training 7 billion parameters"),
    **({"card_peak": value(card[0], "B", f"peak of GPT-2 on this card, batch size {CHECKED}"), "card_step": value(card[1], "s", "its step")} if card else {}),
    meta_factor=value(meta.value / by_envelope, "×", "Meta's hours for Llama 2 7B over the envelope's"),
)

# %% [markdown] tags=["minutes-0"]
# ## Keep this, and what comes next
#
# | you want to know | count |
# |---|---|
# | will it fit? | rehearse two large batches with `memory.footprint(…, foreach=True)`, and leave a tenth free |
# | how long? | 6 × parameters × tokens ÷ the chip's FLOP/s in matmuls, times 2 for the best code, up to 7 for plain code in 16 bits, less in float32 (lesson 01) |
# | how long, more closely? | the FLOP and bytes of every call, added up, times 1.1 to 2, plus the launches |
# | how much? | hours × units per hour × the price of a unit, in the worst case |
# | which machine? | time a hundred steps on the two cheapest |
#
# Your job may run for hours now, and a Colab session promises none of them. Lesson 09 kills one on purpose.
