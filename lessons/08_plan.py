# %% [markdown]
# Seven billion parameters. Will it fit, how long does it take, what does it cost? In this lesson you answer all three before the first dollar, on the machine you have now.
# It needs no GPU. You run the training step without its numbers, and count.

# %%
# @title Imports { display-mode: "form" }
import math
import os
import weakref

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from colab_helpers import expected, facts, hardware, memory, plan, published
from colab_helpers.plan import accuracy

from colab_lessons import exercises, figures, ladder, models, reference
from colab_lessons.predictions import guessed  # adds what you predicted to a title

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
TEXTS = None
STEPS = None
HOURS = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
TEXTS = TEXTS or ((1, 16) if FAST else (1, 4, 8, 16, 32))  # batch sizes that are rehearsed
STEPS = STEPS or 100_000  # of the training that is planned
HOURS = HOURS or 12  # until it must be done
GPT2 = models.GPTConfig(vocab_size=50_257, block_size=1024, n_embd=768, n_head=12, n_layer=12)
SEVEN = models.GPTConfig(vocab_size=32_000, block_size=2048, n_embd=4096, n_head=32, n_layer=32)  # 7 billion parameters

# %% [markdown] tags=["minutes-11"]
# ## Will it fit?
#
# How much memory a step takes depends on shapes alone. And PyTorch can run a step on shapes alone. Its *fake tensors* have a shape and a dtype, and no data. A product of two fake
# tensors takes no time and gives a third one of the right shape.
#
# So run the step with fake tensors, and count bytes meanwhile. This class sees every operation. When a result has new memory, it adds the bytes. When Python lets go of that memory, it takes them off.

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
# And this is an ordinary training step, in fp16 as in lesson 07. It runs twice, because the first step makes AdamW's averages. We start counting the peak at the second.

# %%
def rehearse(make, texts, tokens=1024, half=True, **options):
    with FakeTensorMode(), Bytes() as room:
        model = make()
        adamw = torch.optim.AdamW(model.parameters(), **options)
        for _ in range(2):
            room.peak = room.live
            ids = torch.zeros(texts, tokens, dtype=torch.long)  # (texts, tokens)
            with torch.autocast("cpu", torch.float16, enabled=half):
                scores = model(ids)  # (texts, tokens, vocabulary)
                loss = F.cross_entropy(scores.flatten(0, 1), ids.flatten())
            del scores
            loss.backward()
            adamw.step()
            adamw.zero_grad()
    return room.peak


# %% [markdown]
# Take GPT-2 with its 124 million parameters, and 16 texts of 1,024 tokens. A T4 has about 15.5 GB for you.
#
# **Predict.** How many GB does this step take at its peak?

# %%
gigabytes = None  # @param {type:"number"}

# %%
peaks = {texts: rehearse(lambda: models.GPT(GPT2), texts, foreach=True) for texts in TEXTS}
in_fp32 = {texts: rehearse(lambda: models.GPT(GPT2), texts, half=False, foreach=True) for texts in TEXTS}

# %%
# @title Draw the peaks and three cards { display-mode: "form" }
chips = hardware.catalogue()
cards = {key: chips[key].room - sum(one.on(chips[key]) for one in plan.overheads()) for key in ("T4", "L4", "A100-40")}
figures.lines(
    TEXTS, {"fp16": list(peaks.values()), "float32": list(in_fp32.values())}, units=("", "B"),
    ideal={f"{key}: {room / 1e9:.0f} GB": [room] * len(TEXTS) for key, room in cards.items()},
    xlabel="texts of 1,024 tokens", ylabel="peak of a step",
    title=f"GPT-2 with 16 texts takes {peaks[16] / 1e9:.1f} GB in fp16{guessed(gigabytes, ' GB')}",
)

# %% [markdown]
# That took a second or two per point, and the T4 is too small by a hair. Both lines are straight. Where a line starts are parameters, gradients and Adam's averages. Its slope is what one more text costs. So two rehearsals
# are enough, and you can read your largest batch off any card.
#
# `foreach=True` is what PyTorch does on a GPU: the optimizer takes all parameters in one go. `memory.footprint` from lesson 06 is the same counter, with a name for each part. It agrees to the byte.

# %%
def loss_with(network, half=True):
    def loss(texts):
        ids = torch.zeros(texts, GPT2.block_size, dtype=torch.long)
        with torch.autocast("cpu", torch.float16, enabled=half):
            return F.cross_entropy(network(ids).flatten(0, 1), ids.flatten())

    return loss


with torch.device("meta"):  # a device without data: the model takes no memory
    model = models.GPT(GPT2)
adamw = torch.optim.AdamW(model.parameters())
needs = memory.footprint(model, loss_with(model), 16, adamw, foreach=True)
print(needs, f"rehearsed by hand: {peaks[16] - needs.peak:+,} bytes", sep="\n")

# %% [markdown] tags=["minutes-5"]
# ## Would a real GPU agree?
#
# Somebody trained GPT-2 on an A100, step by step with better code, and noted the memory each time. Let's rehearse four of those steps: first in float32 with attention by hand, then in bf16,
# then with PyTorch's own layers, then with FlashAttention.
#
# **Predict.** How many percent more than rehearsed does the A100 take, at worst?

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
    name: rehearse(lambda: ladder.GPT2(native, flash, dtype), 8, half=False, **how)
    for name, (native, flash, dtype, how) in ways.items()
}

# %%
# @title Draw both { display-mode: "form" }
a100 = published.get("ladder-a100-memory")
more = {name: 100 * (a100.points[THEIRS[name]] / rehearsed[name] - 1) for name in ways}
figures.grouped(
    {name: {"rehearsed here": rehearsed[name], "measured on an A100": a100.points[THEIRS[name]]} for name in ways}, unit="B",
    title=f"The A100 took {min(more.values()):.0f} to {max(more.values()):.0f} % more than rehearsed{guessed(disagrees, ' %')}",
)
print(a100.credit)

# %% [markdown]
# A rehearsal in fake tensors on a CPU, and a real card, a few percent apart. The rest is what the card rounds up and keeps for itself.
#
# Is that a fair test? Not quite. We wrote the network from its description, and our first try was too high. A CPU keeps four bytes for each number that dropout lets through, and a GPU keeps one. We found that because
# of this very table. So it's calibrated on this case, and your network may be further off. Convolutions borrow workspaces that no rehearsal sees. Leave a tenth of the card free.

# %% [markdown] tags=["minutes-10"]
# ## How long?
#
# Start on an envelope. Training takes six operations for each parameter and token: two forward, four backward. Divide by what a T4 manages in large fp16 products.

# %%
flop = 6 * model.parameter_count * 16 * GPT2.block_size
envelope = flop / expected.rates("T4")["fp16"].value
f"{flop / 1e12:.1f} TFLOP a step: {envelope:.2f} s on a T4, if it did nothing but multiply"

# %% [markdown]
# It does other things. Softmax, norms and the optimizer compute next to nothing, and they move a lot of bytes. `plan.trace_step` is the counter again. It notes the operations and bytes of every call.
#
# Each call takes about as long as the slower of two things: its FLOP at the chip's FLOP/s, or its bytes at the chip's bytes/s. That's the roofline from lesson 02.

# %%
work = plan.trace_step(model, loss_with(model), 16, adamw, foreach=True)


def seconds_on(chip, work):
    rates, spent = expected.rates(chip), {"multiplying": 0.0, "moving bytes": 0.0}
    for call in work.operations:
        multiply = call.flop / rates[call.format].value if call.flop else 0
        move = call.moved / rates["memory"].value
        spent["multiplying" if multiply > move else "moving bytes"] += call.count * max(multiply, move)
    return spent


# %% [markdown]
# **Predict.** What percentage of the step does a T4 spend on multiplying?

# %%
multiplying = None  # @param {type:"slider", min:0, max:100, step:5}

# %%
# @title Draw four chips { display-mode: "form" }
spent = {key: seconds_on(key, work) for key in ("T4", "L4", "A100-40", "H100")}
shares = {
    f"{key}: {sum(of.values()):.2g} s a step": {what: round(100 * value / sum(of.values())) for what, value in of.items()}
    for key, of in spent.items()
}
share = 100 * spent["T4"]["multiplying"] / sum(spent["T4"].values())
print("Estimates from rates that others measured; not yet checked on a card.")
figures.grouped(shares, unit="%", title=f"A T4 multiplies for {share:.0f} % of the step{guessed(multiplying, ' %')}; the rest moves bytes")

# %% [markdown]
# About half of the time goes into moving bytes, and no data sheet tells you that.
#
# Is our sum any good? The page with the A100 also says how many tokens it trained in a second, for the very same networks. So put three things side by side: the envelope, our sum, and the clock.

# %%
speed, seconds = published.get("ladder-a100"), {}
for name, (native, flash, dtype, how) in ways.items():
    with torch.device("meta"):
        network = ladder.GPT2(native, flash, dtype)
    trained = torch.optim.AdamW(network.parameters(), **how)
    step = plan.trace_step(network, loss_with(network, half=False), 8, trained)
    flop = 6 * sum(p.numel() for p in network.parameters()) * 8 * ladder.TOKENS
    seconds[name] = {
        "envelope": flop / expected.rates("A100-40")["fp32" if dtype is torch.float32 else "bf16"].value,
        "our sum": sum(seconds_on("A100-40", step).values()),
        "measured on an A100": 8 * ladder.TOKENS / speed.points[THEIRS[name]],
    }

# %%
# @title Draw the three { display-mode: "form" }
off = {way: [each["measured on an A100"] / each[way] for each in seconds.values()] for way in ("envelope", "our sum")}
figures.grouped(
    seconds, unit="s", title=f"The envelope is off by up to {max(off['envelope']):.0f}×, our sum by up to {max(off['our sum']):.0f}×",
)

# %% [markdown]
# Look at the last three. To the envelope they're the same step. Yet the A100 needs half as long once normalization and attention stop writing every intermediate result to memory. Our sum sees that, since it counts bytes.
#
# It's still too good, by a factor of one to two. Gaps between kernels, small matrices and everything else it doesn't know take their time as well. Nine other published runs say the same.

# %%
factors = [run.factor for run in accuracy.runs()]
f"{len(factors)} published runs on T4, V100 and A100 took {min(factors):.1f} to {max(factors):.1f} times our sum"

# %% [markdown] tags=["minutes-8"]
# So a plan is a range. Its ends are the smallest and the largest factor seen on that chip. For a chip without a published run, they're those of all chips.
#
# ## Which machine?
#
# Now put a price on it. You want to train GPT-2 for 100,000 steps, and it must be done in 12 hours. Here's what Colab's GPUs burn in an hour.

# %%
menu = facts.machine_table()
price = menu.dollars_per_unit
offers = {offer.chip.key: offer for offer in plan.estimates(work) if offer.chip.kind == "GPU" and offer.units_per_hour}
for offer in offers.values():
    print(f"{offer.choice:20} {price * offer.units_per_hour:.2f} dollars an hour{', or free if you get one' if offer.free else ''}")
print(f"Source: {menu.origin.source}, {menu.origin.seen}")

# %% [markdown]
# A T4 can't hold 16 texts. But it can take them in two halves, and add up the gradients as in lesson 06.
#
# **Predict.** Which machine does the job for the least money, within 12 hours?

# %%
your_choice = None  # @param ["T4 GPU", "L4 GPU", "A100 GPU", "A100 GPU, High-RAM", "G4 GPU"]

# %%
half_batch = plan.trace_step(model, loss_with(model), 8, adamw, foreach=True)
[t4] = plan.estimates(half_batch, ["T4"])
jobs = {}
for key, offer in offers.items():
    hours = t4.hours(2 * STEPS) if key == "T4" else offer.hours(STEPS)
    dollars = tuple(price * offer.units_per_hour * hour for hour in hours)
    jobs[offer.choice] = hours, dollars
in_time = {choice: dollars[1] for choice, (hours, dollars) in jobs.items() if hours[1] <= HOURS}
best = min(in_time, key=in_time.get)

# %%
# @title Draw hours and dollars { display-mode: "form" }
SESSION = 12  # hours, at most, that a free session lives
sessions = [math.ceil(hour / SESSION) for hour in jobs["T4 GPU"][0]]
free = {f"T4, free: {sessions[0]} to {sessions[1]} sessions": (jobs["T4 GPU"][0], (0.0, 0.0))}
print("All of these are estimates, not yet checked on a card.")
figures.prices(jobs | free, deadline=(f"{HOURS} hours", HOURS), best=best, title=f"Cheapest within {HOURS} hours, at worst: {best}{guessed(your_choice)}")

# %% [markdown]
# Each line runs from the best case to the worst. Look at the right ends, since you pay for the worst case too. An hour on the A100 costs more than three times an hour on the L4. But the job costs less, because it's done
# so much sooner. So compare the price of jobs, not of hours.
#
# What would change the answer? Patience would: with no deadline, the free T4 does it for nothing, and lesson 09 shows how to survive the ends of its sessions. Another measurement would, too. The L4's line is so long because nobody has published a run on
# one. Buy ten minutes on it, time a hundred steps, and the line shrinks to a point.
#
# All of this is one call, and one command in a terminal: `colab-helpers plan train.py:job --steps 100000`.

# %%
print(plan.show(work, plan.estimates(work), STEPS))

# %% [markdown] tags=["minutes-4"]
# ## Seven billion
#
# Back to the first question. Seven billion parameters, one text of 2,048 tokens, AdamW. Weights, gradients and averages are 16 bytes per parameter, and your own function counts the rest.

# %%
seven = rehearse(lambda: models.GPT(SEVEN), 1, SEVEN.block_size, foreach=True)
with torch.device("meta"):
    parameters = models.GPT(SEVEN).parameter_count
largest = max((chip for chip in chips.values() if chip.where in ("free", "paid")), key=lambda chip: chip.room)
print(f"{parameters / 1e9:.1f} billion parameters × 16 bytes: {16 * parameters / 1e9:.0f} GB. Rehearsed: {seven / 1e9:.0f} GB.")
print(f"The largest chip on Colab's menu, the {largest.key}, has {largest.room / 1e9:.0f} GB.")

# %% [markdown]
# It doesn't fit on any of them. So what does it take elsewhere? Meta trained Llama 2 with 7 billion parameters on two trillion tokens, on many A100s. Use the envelope, then double it for all the bytes that move.
#
# **Predict.** How many years would that take on a single A100?

# %%
years = None  # @param {type:"number"}

# %%
tokens = 2e12
by_envelope = 6 * parameters * tokens / expected.rates("A100-80")["bf16"].value / 3600  # hours
meta = published.get("llama-2-7b-hours")
real_years = meta.value / 24 / 365
dollars = meta.value * price * offers["A100-80"].units_per_hour
print(f"by the envelope {by_envelope:,.0f} hours; Meta needed {meta.value:,.0f}, {meta.value / by_envelope:.1f} times as many ({meta.credit})")
print(f"that's {real_years:.0f} years on one A100{guessed(years, ' years')}, and {dollars:,.0f} dollars at Colab's price")

# %% [markdown] tags=["minutes-6"]
# So for well-written code, double the envelope. For your own, triple it. You'd have known the size of that bill before you rented anything.
#
# Nobody starts from zero with 7 billion parameters, of course. You freeze them in four bits and train a small adapter. Lesson 06 counted that: it fits on a T4.
#
# ## Exercises
#
# ### 1 · What does the rule forget?
#
# "Training takes 16 bytes for each parameter" (AdamW, float32) is wrong for most networks. Which part does it leave out, and what does that part grow with? Answer with one of `"parameters"`,
# `"gradients"`, `"optimizer state"`, `"activations"`, and one of `"batch size"`, `"learning rate"`, `"steps"`.

# %% tags=["exercise"]
forgotten = {"part": ..., "grows with": ...}
### BEGIN SOLUTION
forgotten = {"part": "activations", "grows with": "batch size"}  # 16 = weight 4, gradient 4, AdamW's two averages 8
### END SOLUTION
exercises.check("08.forgotten", forgotten)

# %% [markdown]
# ### 2 · Your own model
#
# Put your own network into `job`, or keep this one. How many examples fit into 14 GB? Rehearse two batch sizes, and draw a line. The check rehearses your answer.

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
small, large = (memory.footprint(*job()[:2], batch_size, job()[2]).peak for batch_size in (8, 16))
each = (large - small) / 8  # bytes for one example
largest_batch = int((14e9 - (small - 8 * each)) / each)
### END SOLUTION
exercises.check("08.your_model", largest_batch, job=job)

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
# ### 4 · Open task, half the peak
#
# `hungry` returns the loss of a network, an `nn.Sequential` of six wide blocks and a last layer. Write `modest`: the same loss and the same gradients, with at
# most half of the memory beyond the weights. The check rehearses both.

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
    "Bytes follow from shapes": f"rehearsed on a CPU, an A100 took {min(more.values()):.0f} to {max(more.values()):.0f} % more.",
    "The envelope is too good": f"well-written GPT-2 took an A100 {off['envelope'][-1]:.1f} times as long, and Llama 2 {meta.value / by_envelope:.1f} times.",
    "Price jobs, not hours": f"{STEPS:,} steps of GPT-2 within {HOURS} hours: {best}.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess = reference.Value, reference.Prediction
reference.record(
    "08_plan", FAST, device=hardware.list_devices().cpu,  # nothing here runs on a GPU
    predicted={
        "gigabytes": guess(gigabytes, peaks[16] / 1e9, "GB"),
        "disagrees": guess(disagrees, max(more.values()), "%"),
        "multiplying": guess(multiplying, share, "%"),
        "your_choice": guess(your_choice, best),
        "years": guess(years, real_years, "years"),
    },
    step_peak=value(peaks[16], "B", "rehearsed peak of GPT-2 with 16 texts, fp16"),
    by_hand=value(peaks[16] - needs.peak, "B", "between twenty lines and memory.footprint"),
    least_more=value(min(more.values()), "%", "that an A100 took more than rehearsed, at least"),
    most_more=value(max(more.values()), "%", "the same, at most"),
    multiplies=value(share, "%", "of a step that a T4 multiplies, estimated"),
    envelope_off=value(max(off["envelope"]), "×", "time of GPT-2 on an A100 over the envelope's, at worst"),
    sum_off=value(max(off["our sum"]), "×", "the same over our sum"),
    least_factor=value(min(factors), "×", "time of nine published runs over our sum, the quickest"),
    most_factor=value(max(factors), "×", "the same, the slowest"),
    seven_peak=value(seven, "B", "rehearsed peak of training 7 billion parameters"),
    meta_factor=value(meta.value / by_envelope, "×", "Meta's hours for Llama 2 7B over the envelope's"),
)

# %% [markdown] tags=["minutes-0"]
# ## Keep this, and what comes next
#
# | you want to know | count |
# |---|---|
# | will it fit? | rehearse two batch sizes with `memory.footprint`, and leave a tenth free |
# | how long? | 6 × parameters × tokens ÷ the chip's FLOP/s in products, times two or three |
# | how much? | hours × units an hour × the price of a unit, at the slow end |
# | which machine? | time a hundred steps on the two cheapest |
#
# Your job may run for hours now, and a Colab session promises none of them. Lesson 09 kills one on purpose.
