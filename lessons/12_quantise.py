# %%
# @title Imports { display-mode: "form" }
import copy
import logging
import os
import statistics

logging.disable(logging.WARNING)  # what libraries say while they load

import torch
from torch import nn
from torch.nn import functional as F

from colab_helpers import benchmark, expected, hardware, published

from colab_lessons import data, exercises, figures, models, reference, replay

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SEEDS = None
STEPS = None
WIDE = None
SECONDS = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
SEEDS = SEEDS or (1 if FAST else 3)  # networks that are trained
STEPS = STEPS or (500 if FAST else 800)  # of training each
WIDE = WIDE or (1024 if FAST else 4096)  # numbers in and out of a layer that is timed
SECONDS = SECONDS or (0.1 if FAST else 1.0)  # time budget of one measurement

# %%
replay.watch("12_quantise")  # cells that need what is missing show recorded results
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")

# %% [markdown] tags=["minutes-5"]
# ## A network that adds
#
# You need a network that you can break. This one reads `47+38=` and writes `580`, the sum with its last digit first, because that's the order in which one adds. It's a GPT with two layers and 100,000 weights. We train three of them, each from other random weights, so that nothing below is one network's luck.

# %%
sums = data.sums()
train, test = (torch.tensor(part, device=device) for part in (sums.train, sums.test))


def trained(seed):
    torch.manual_seed(seed)
    model = models.GPT(models.GPTConfig(vocab_size=12, block_size=8, n_embd=64, n_head=16, n_layer=2)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=8e-3, total_steps=STEPS)
    for _ in range(STEPS):
        rows = train[torch.randint(len(train), (256,))]
        logits = model(rows[:, :-1])[:, sums.answer - 1 :]  # (256, 3, 12): after "=" come three digits
        F.cross_entropy(logits.flatten(0, 1), rows[:, sums.answer :].flatten()).backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return model


# %%
@torch.no_grad()
def answers(model, rows):
    text = rows[:, : sums.answer]
    for _ in range(3):  # one digit after the other
        text = torch.cat([text, model(text)[:, -1:].argmax(-1)], dim=1)
    return text


def right(model):
    return 100 * (answers(model, test) == test).all(1).float().mean().item()


# %%
networks = [trained(seed) for seed in range(SEEDS)]
untouched = statistics.median(right(network) for network in networks)
print(*(f"seed {seed}: {right(network):.1f} % of {len(test):,} new sums right" for seed, network in enumerate(networks)), sep="\n")

# %% [markdown] tags=["minutes-6"]
# ## Eight bits by hand
#
# A weight has 32 bits. Let's give it eight. Divide all weights by one number, the *scale*, so that the largest becomes 127. Then round. What you keep is a small integer for each weight, and the scale. To compute with them you multiply back.

# %%
def quantise(w, bits, group):
    blocks = w.reshape(-1, group)  # the weights of a row share one scale
    top = 2 ** (bits - 1) - 1  # 127 for 8 bits
    scale = blocks.abs().amax(1, keepdim=True) / top
    return (blocks / scale).round().to(torch.int8), scale


def rounded(w, bits, group):
    codes, scale = quantise(w, bits, group)
    return (codes * scale).reshape(w.shape)


# %%
w = networks[0].blocks[0].expand.weight.detach()  # (256, 64)
codes, scale = quantise(w, 8, w.numel())
back = rounded(w, 8, w.numel())
error = ((back - w).norm() / w.norm()).item()
for name, numbers in {"weights": w[0, :6], "codes": codes[0, :6], "multiplied back": back[0, :6]}.items():
    print(f"{name:>15}:", *(f"{number:8.4g}" for number in numbers.tolist()))
print(f"{4 * w.numel():,} bytes are {w.numel() + 4:,} now, and the error is {error:.1%} of the weights")

# %% [markdown]
# A quarter of the bytes, for an error that you can hardly see. So let's go on.
#
# **Predict.** With one scale for each matrix, at how many bits does the network first get less than half of the sums right?

# %%
breaks_at = None  # @param {type:"integer"}

# %% [markdown] tags=["minutes-7"]
# ## Take its bits away
#
# All eight linear layers of all networks get fewer and fewer bits. The weights that share a scale are the whole matrix, or one row of it, or only 16 neighbors.

# %%
def changed(model, change):
    model = copy.deepcopy(model)
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            layer.weight.data = change(layer.weight.data)
    return model


SHARE = {"the matrix": lambda w: w.numel(), "a row": lambda w: w.shape[1], "16 weights": lambda w: 16}
BITS = (8, 6, 5, 4, 3, 2)


def scores(networks):
    return {
        f"a scale for {name}": [[right(changed(network, lambda w: rounded(w, bits, size(w)))) for network in networks] for bits in BITS]
        for name, size in SHARE.items()
    }


# %%
cliff = scores(networks)
middle = {name: dict(zip(BITS, map(statistics.median, row))) for name, row in cliff.items()}
broke = next((bits for bits in BITS if middle["a scale for the matrix"][bits] < 50), 0)
asked = test[:5]
for bits in (32, *BITS):
    model = networks[0] if bits == 32 else changed(networks[0], lambda w: rounded(w, bits, w.numel()))
    said = [data.spell(row) for row in answers(model, asked).cpu().numpy()]
    print(f"{bits:2} bits:", *(f"{text[:6]}{text[:5:-1]}" for text in said), sep="   ")

# %%
# @title Draw the cliff { display-mode: "form" }
guess = f" (you said {breaks_at})" if breaks_at else ""
figures.panels(
    {"as trained": cliff}, [str(bits) for bits in BITS], title=f"Nothing happens, and then it falls: below 50 % at {broke} bits{guess}",
    xlabel="bits for each weight", ylabel="sums right, %", top=100,
)

# %% [markdown]
# From the left, nothing happens for a long time. Five bits have 31 different values, and the network hardly notices. Two or three bits later everything is lost. It's a cliff, not a slope.
#
# Smaller groups move the cliff to the right. At three bits one scale for each row keeps most of what one scale for the matrix loses. Scales cost bits too: 16 of them for 16 weights make one bit more for each, so three bits in groups of 16 are really four. A row of 64 weights pays a quarter of a bit.
#
# Why does it help? A scale is set by the largest weight in its group. So what if one weight is very large?
#
# **Predict.** Take column 3 of a layer's weights times 100, and divide the number that it's multiplied with by 100. The network computes the same as before. Now round to 8 bits, with one scale for each matrix. What percentage of sums is right?

# %%
with_outlier = None  # @param {type:"number"}

# %% [markdown] tags=["minutes-8"]
# ## One column spoils it
#
# Dividing is easy, since a layer norm stands in front of these layers. Its own weight and bias for number 3 become a hundredth.

# %%
@torch.no_grad()
def with_a_large_column(model, times=100, column=3):
    model = copy.deepcopy(model)
    for block in model.blocks:
        for norm, layer in ((block.norm_attention, block.query_key_value), (block.norm_mlp, block.expand)):
            layer.weight[:, column] *= times
            norm.weight[column] /= times
            norm.bias[column] /= times
    return model


spoiled = [with_a_large_column(network) for network in networks]
same = statistics.median(right(network) for network in spoiled)
by_column = [[right(changed(network, lambda w: rounded(w.T, bits, w.shape[0]).T)) for network in spoiled] for bits in BITS]
outlier = scores(spoiled) | {"a scale for a column": by_column}
left = {name: statistics.median(row[0]) for name, row in outlier.items()}
print(f"not rounded: {same:.1f} % right, as before")
print(*(f"8 bits, {name}: {share:.1f} %" for name, share in left.items()), sep="\n")

# %%
# @title Draw it beside the cliff from before { display-mode: "form" }
guess = f" (you said {with_outlier:g})" if with_outlier is not None else ""
matrix = left["a scale for the matrix"]
figures.panels(
    {"as trained": cliff, "one column times 100": outlier}, [str(bits) for bits in BITS],
    title=f"The same function, but at 8 bits {matrix:.0f} % are left{guess}", xlabel="bits for each weight", ylabel="sums right, %", top=100,
)

# %% [markdown]
# It's the same function, and 8 bits aren't enough any more. The large column sets the scale. All other weights are a hundred times smaller than the top, so they're left with codes from −1 to 1. One outlier spends everybody's bits.
#
# A scale for each row doesn't help much, because the column goes through all rows. Groups of 16 confine the damage to the 15 neighbors. A scale for each column undoes it completely. So whether *per channel* helps depends on whether it's the channel of the outlier.
#
# We made this column by hand, but real networks have them. In [language models from 6.7 billion parameters on](https://arxiv.org/abs/2208.07339), a few numbers between the layers are many times larger than the rest. SmoothQuant and AWQ protect against them with our trick: they move factors between a norm and the weights behind it.

# %% [markdown] tags=["minutes-7"]
# ## Four bits, where the weights are
#
# Four bits have 16 codes, and `quantise` spreads 15 of them evenly. But weights aren't spread evenly. Most are small, as in a bell curve. *NF4*, the format of QLoRA, puts its levels where the weights are: each stands for about the same share of a normal distribution. It takes four lines.

# %%
def levels(count):  # from the middle outwards, each as likely as the next
    last = 1 - (1 / 32 + 1 / 30) / 2  # the outermost isn't at infinity
    return torch.special.ndtri(torch.linspace(0.5, last, count + 1, dtype=torch.float64))[1:]


NF4 = torch.cat([-levels(7).flip(0), torch.zeros(1), levels(8)])  # 7 below zero, 8 above
NF4 = (NF4 / NF4.max()).float().to(device)


# %%
def pack(w):
    blocks = w.reshape(-1, 64)
    scale = blocks.abs().amax(1, keepdim=True)
    codes = (blocks / scale).flatten().unsqueeze(1).sub(NF4).abs().argmin(1).to(torch.uint8)  # the nearest level
    return codes[::2] * 16 + codes[1::2], scale  # two codes in a byte


def unpack(packed, scale, shape):
    codes = torch.stack([packed // 16, packed % 16], dim=1).long()  # (bytes, 2)
    return (NF4[codes].reshape(-1, 64) * scale).reshape(shape)


# %%
bell = torch.randn(1024, 1024, device=device)
packed, scale = pack(bell)
size = (packed.numel() + 4 * scale.numel()) * 8 / bell.numel()
off = {
    name: 100 * ((back - bell).norm() / bell.norm()).item()
    for name, back in {"4 bits, evenly": rounded(bell, 4, 64), "NF4": unpack(packed, scale, bell.shape)}.items()
}
in_nf4 = statistics.median(right(changed(network, lambda w: unpack(*pack(w), w.shape))) for network in networks)
print(f"a matrix of {bell.numel():,} numbers: {4 * bell.numel():,} bytes are {packed.numel() + 4 * scale.numel():,} now, {size:.1f} bits for each weight")
print(*(f"{name}: error {percent:.1f} %" for name, percent in off.items()), sep="\n")
print(f"the networks that add, in NF4: {in_nf4:.1f} % right")

# %%
# @title Draw the levels { display-mode: "form" }
blocks = torch.cat([layer.weight.detach().flatten() for layer in networks[0].modules() if isinstance(layer, nn.Linear)]).reshape(-1, 64)
shares = (blocks / blocks.abs().amax(1, keepdim=True)).flatten().cpu()
figures.levels(
    shares.numpy(), {"evenly": [k / 7 for k in range(-7, 8)], "NF4": NF4.tolist()}, title="NF4 has more levels where there are more weights",
    xlabel="weights of a network that adds, divided by the largest of their 64 neighbors",
)

# %% [markdown]
# NF4's levels crowd in the middle, where the weights are. Its error is about a seventh smaller, for the same four bits. Is that what the libraries do? Let's ask bitsandbytes, and torchao for the 8 bits.

# %%
# needs: bitsandbytes
from bitsandbytes import functional as bnb

theirs = bnb.get_4bit_type("nf4", device="cpu")
their_bytes, state = bnb.quantize_4bit(bell.cpu(), blocksize=64, quant_type="nf4")
print(f"bitsandbytes' levels differ from ours by {(theirs - NF4.cpu()).abs().max():.0e} at most")
print(f"{(their_bytes.flatten() == packed.cpu()).float().mean():.3%} of its bytes are ours")

# %%
# needs: torchao
from torchao.quantization import Int8WeightOnlyConfig, quantize_

theirs = copy.deepcopy(networks[0])
quantize_(theirs, Int8WeightOnlyConfig())  # all linear layers, a scale for each row
print(f"torchao, 8 bits: {right(theirs):.1f} % right")

# %% [markdown]
# So a library's four bits are these four lines. The scales cost half a bit for each weight here. bitsandbytes can round them, too, and then needs 4.1 bits in all. Compare a library with your own ten lines once. On a CPU, bitsandbytes 0.50.2 unpacks matrices wrongly if their rows aren't a multiple of 64 long.
#
# You have an eighth of the bytes. Is it faster, too?
#
# **Predict.** A layer keeps its weights in 8 bits, and multiplies them back before each product. How much faster is it here than the same layer in 32 bits, for one row? Below 1 means slower.

# %%
faster_here = None  # @param {type:"number"}

# %% [markdown] tags=["minutes-6"]
# ## Is it faster?

# %%
w = torch.randn(WIDE, WIDE, device=device)
codes, scale = quantise(w, 8, WIDE)
times = {}
for rows in (1, 64):
    x = torch.randn(rows, WIDE, device=device)
    ways = {"32 bits": lambda x=x: x @ w.T, "8 bits, unpacked first": lambda x=x: x @ (codes * scale).T}
    times[rows] = benchmark.compare(ways, budget=SECONDS)
gains = {rows: benchmark.faster(*found.values()) for rows, found in times.items()}
print(*(f"{rows:2} row{'s' if rows > 1 else ''}: " + ", ".join(f"{name} {time}" for name, time in found.items()) for rows, found in times.items()), sep="\n")
print(f"with one row, 8 bits are {gains[1]}")

# %% [markdown]
# It's slower. The small weights are read, the large ones are written, and then the product reads those. You saved memory and paid with time. That's what you get from most libraries on a CPU.
#
# On a GPU it can be better. A fused kernel unpacks each weight in a register, right before the multiplication, so only the small weights travel. With few rows that's what decides. Let's calculate it for a T4, from its measured bandwidth and its measured fp16 products.
#
# **Predict.** Up to how many rows is a T4 faster with 4 bits than with 16?

# %%
gains_up_to = None  # @param {type:"integer"}

# %%
t4 = expected.rates("T4")
memory, multiply = t4["memory"].value, t4["fp16"].value
many = [2**k for k in range(11)]  # rows


def took(rows, moved):  # seconds: bytes or arithmetic, whichever takes longer
    return max(moved / memory, 2 * rows * 4096**2 / multiply)


BYTES = {"16 bits": 2 * 4096**2, "8 bits, fused": 4096**2, "4 bits, fused": 4.5 / 8 * 4096**2, "4 bits, unpacked first": (4.5 / 8 + 2 + 2) * 4096**2}
on_t4 = {name: [took(rows, moved) for rows in many] for name, moved in BYTES.items()}
last = multiply / memory  # rows for which arithmetic takes as long as reading 16 bits
at_most = on_t4["16 bits"][0] / on_t4["4 bits, fused"][0]
tokens = {name: memory / (6.74e9 * moved / 4096**2) for name, moved in BYTES.items()}
print(f"one row: 4 bits are {at_most:.1f}× faster at most; from {last:.0f} rows on, as fast as 16 bits")
print(*(f"a model of 6.74 billion weights, {name}: {rate:.0f} tokens/s at most" for name, rate in tokens.items()), sep="\n")
print(f"the authors of bitsandbytes' kernel expect {published.get('nf4-turing').value}× on a T4, for one row")

# %%
# @title Draw the T4 { display-mode: "form" }
guess = f" (you said {gains_up_to:,})" if gains_up_to else ""
figures.lines(
    many, {name: on_t4[name] for name in BYTES}, title=f"Fewer bytes help a T4 up to {last:.0f} rows{guess}, if nobody unpacks them to memory",
    xlabel="rows (a model)", ylabel="time of a layer of 4,096 × 4,096", log=True, units=("", "s"),
)

# %% [markdown]
# Flat parts are waiting for bytes, slopes are arithmetic. The green line lies 3.6 times below the blue one at the left, and joins it on the right. The pink one lies above: unpacking to memory costs more bytes than it saves.
#
# A chatbot that answers one person works at the far left. It reads all weights for each token, so the bytes are its speed. Training works far on the right. There 4 bits save memory and no time, and that's still what makes QLoRA possible on a T4.

# %% [markdown] tags=["minutes-5"]
# ## Exercises
#
# ### 1 · Does it fit?
#
# A model has 8 billion weights. How many GB does it take in 16 bits, and in 4 bits with a 16-bit scale for each 64 weights? One GB has 10⁹ bytes.

# %% tags=["exercise"]
fits = {"16 bits": ..., "4 bits": ...}  # GB
### BEGIN SOLUTION
fits = {"16 bits": 8e9 * 2 / 1e9, "4 bits": 8e9 * (4 + 16 / 64) / 8 / 1e9}
### END SOLUTION
exercises.check("12.fits", fits)

# %% [markdown]
# ### 2 · A scale for each column
#
# Write `rounded_by_column` with `quantise` or without. The check hides a large column somewhere.

# %% tags=["exercise"]
def rounded_by_column(w, bits):
    return ...


### BEGIN SOLUTION
def rounded_by_column(w, bits):
    return rounded(w.T, bits, w.shape[0]).T


### END SOLUTION
exercises.check("12.column", rounded_by_column)

# %% [markdown]
# ### 3 · Numbers that are never negative
#
# After a ReLU all numbers are 0 or more, so half of the codes of `quantise` lie idle. Use all 256 codes of 8 bits, from 0 to the largest number, and return the numbers multiplied back. The error should be half as large.

# %% tags=["exercise"]
def rounded_positive(x):
    return ...


### BEGIN SOLUTION
def rounded_positive(x):
    scale = x.max() / 255
    return (x / scale).round().clamp(0, 255) * scale


### END SOLUTION
exercises.check("12.positive", rounded_positive)

# %% [markdown]
# ### 4 · A network of your own
#
# Open task: put a layer of a network that's really yours into `mine`. At 4 bits, how much smaller is the error with groups of 64 than with one scale for the matrix? Give the factor.

# %% tags=["exercise"]
mine = networks[-1].blocks[-1].contract.weight.detach()
factor = ...
### BEGIN SOLUTION
factor = ((rounded(mine, 4, mine.numel()) - mine).norm() / (rounded(mine, 4, 64) - mine).norm()).item()
### END SOLUTION
exercises.check("12.mine", factor, weight=mine)

# %% [markdown] tags=["minutes-1"]
# ## Three things to take away

# %%
takeaways = {
    "It's a cliff": f"with 5 bits the network got {middle['a scale for the matrix'][5]:.0f} % of the sums right, with 3 bits {middle['a scale for the matrix'][3]:.0f} %.",
    "One outlier spends everybody's bits": f"one large column, and 8 bits left {matrix:.0f} %. A scale for each column left {left['a scale for a column']:.0f} %.",
    "Fewer bytes are faster only where bytes decide": f"here 8 bits were {gains[1]} with one row. A T4 gains up to {last:.0f} rows.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess, inventory = reference.Value, reference.Prediction, hardware.list_devices()
reference.record(
    "12_quantise", FAST, device=inventory.main,
    predicted={
        "breaks_at": guess(breaks_at, broke),
        "with_outlier": guess(with_outlier, matrix),
        "faster_here": guess(faster_here, gains[1].value),
        "gains_up_to": guess(gains_up_to, last),
    },
    untouched=value(untouched, "%", "sums right in 32 bits"),
    int8_error=value(100 * error, "%", "error of 8 bits, a scale for the matrix"),
    matrix_5=value(middle["a scale for the matrix"][5], "%", "sums right at 5 bits, a scale for the matrix"),
    matrix_3=value(middle["a scale for the matrix"][3], "%", "sums right at 3 bits, a scale for the matrix"),
    row_3=value(middle["a scale for a row"][3], "%", "sums right at 3 bits, a scale for a row"),
    same=value(same, "%", "sums right with a large column, not rounded"),
    outlier_matrix=value(matrix, "%", "… at 8 bits, a scale for the matrix"),
    outlier_column=value(left["a scale for a column"], "%", "… at 8 bits, a scale for a column"),
    even_error=value(off["4 bits, evenly"], "%", "error of 4 bits, spread evenly"),
    nf4_error=value(off["NF4"], "%", "error of NF4"),
    nf4_right=value(in_nf4, "%", "sums right in NF4"),
    unpacked_one=value(gains[1].value, "×", "8 bits unpacked first against 32, one row"),
    rows_t4=value(last, "", "rows up to which a T4 gains, reckoned"),
)

# %% [markdown] tags=["minutes-0"]
# ## Keep this, and what comes next
#
# ```python
# from transformers import AutoModelForCausalLM, BitsAndBytesConfig
#
# four_bits = BitsAndBytesConfig(
#     load_in_4bit=True,
#     bnb_4bit_quant_type="nf4",
#     bnb_4bit_use_double_quant=True,  # the scales are rounded, too
#     bnb_4bit_compute_dtype=torch.float16,  # a T4 has no fast bfloat16
# )
# model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-1.7B", quantization_config=four_bits, device_map={"": 0})
# ```
#
# You know now how few bits a network needs, and who pays for them.
