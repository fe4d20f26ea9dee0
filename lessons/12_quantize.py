# %% tags=["parameters"]
# @title Sizes you can change: None means the lesson's own { display-mode: "form" }
import os

FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
WINDOWS = None
CHARACTERS = None
BITS = None
WIDE = None
SECONDS = None

# %% tags=["sizes"]
# @title Imports, and the lesson's own sizes { display-mode: "form" }
import copy
import json
import warnings

import torch
from torch import nn

from colab_helpers import benchmark, chip_rates, hardware

from colab_lessons import exercises, figures, models, reference, replay, scoreboard, shakespeare, training, weights
from colab_lessons.claims import holds  # says so where a sentence of the text isn't true on your machine
from colab_lessons.predictions import guessed  # adds what you predicted to a title

WINDOWS = WINDOWS or (1 if FAST else 8)  # test windows of 256 characters
CHARACTERS = CHARACTERS or (15 if FAST else 90)  # that the model writes
BITS = BITS or ((8, 3) if FAST else (8, 6, 5, 4, 3, 2))
WIDE = WIDE or (512 if FAST else 4096)  # width of the layer that's timed
SECONDS = SECONDS or (0.05 if FAST else 1.0)  # time budget of one measurement
replay.watch("12_quantize")  # where a package is missing, a recorded output appears
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")

# %% [markdown] tags=["minutes-2"]
# ## The model, and how good it is
#
# The model from lesson 01 was trained on Shakespeare for 1,000 steps. Two plays were held out, and on them you can measure how well it predicts.
# The measure is *bits per character*, the cross-entropy of its predictions in base 2. A model that guesses uniformly among 96 characters needs 6.6,
# and one that is always sure and right needs 0.

# %%
model = models.trained().to(device)
unseen = shakespeare.load("test")


def bits_per_character(model):
    return training.bits_per_character(model, unseen, windows=WINDOWS)


whole = bits_per_character(model)
linear = {name: layer for name, layer in model.named_modules() if isinstance(layer, nn.Linear)}
in_linear = sum(layer.weight.numel() for layer in linear.values())
print(f"{whole:.3f} bits per character; {in_linear:,} of {model.parameter_count:,} weights are in {len(linear)} linear layers")

# %% [markdown] tags=["minutes-4"]
# ## Eight bits by hand
#
# A weight has 32 bits. To get it down to eight, divide all the weights by one number, the *scale*, chosen so that the largest in magnitude becomes
# 127, and round. This is called *absmax quantization*. You keep one integer per weight, plus the scale. Before you compute with the integers, you
# multiply by the scale again, which is called *dequantizing*.

# %%
def quantize(w, bits, group):
    blocks = w.reshape(-1, group)  # (groups, weights that share one scale)
    top = 2 ** (bits - 1) - 1  # 127 for 8 bits
    scale = blocks.abs().amax(1, keepdim=True).clamp_min(1e-12) / top
    return (blocks / scale).round().to(torch.int8), scale


def rounded(w, bits, group):
    codes, scale = quantize(w, bits, group)
    return (codes * scale).reshape(w.shape)


def error(back, w):  # relative: the norm of the difference over the norm of the weights
    return (torch.linalg.vector_norm(back - w) / torch.linalg.vector_norm(w)).item()


# %%
w = model.blocks[0].expand.weight.detach()  # (1536, 384)
codes, scale = quantize(w, 8, w.numel())
back = rounded(w, 8, w.numel())
for name, row in {"weights": w[0, :6], "codes": codes[0, :6], "dequantized": back[0, :6]}.items():
    print(f"{name:>11}:", *(f"{value:9.5f}" if name != "codes" else f"{value:9}" for value in row.tolist()))
print(f"{4 * w.numel():,} bytes become {w.numel() + 4:,}; the relative error is {error(back, w):.1%}")

# %% [markdown]
# That is a quarter of the bytes for an error of a percent or two, measured against the weights as a whole (a single small weight can be off by more).
#
# In fact, you've been using eight bits all along: the file that `models.trained()` loads stores each matrix in 8 bits, with one scale per row. What
# that cost was measured before the float32 weights were packed away.

# %%
trained = json.loads((weights.SHIPPED.parent.parent / "job_records" / "amd-epyc-2-cores.json").read_text())
print(f"the file has {weights.SHIPPED.stat().st_size / 1e6:.1f} MB; in float32 it would have {4 * model.parameter_count / 1e6:.1f}")
for play, in_float32 in trained["bits_float32"].items():
    print(f"{play:>12}: {in_float32:.4f} bits per character in float32, {trained['bits_shipped'][play]:.4f} as shipped")

# %% [markdown] tags=["minutes-7"]
# ## Take the bits away
#
# All the linear layers now get fewer and fewer bits, while the embedding stays as it is. One scale serves the whole matrix (*per-tensor*
# quantization), one row (*per-channel*), or just 16 neighbors within a row (*group-wise*). If a scale has 16 bits, groups of 16 cost one bit more
# per weight, and rows of 384 cost 0.04.
#
# **Predict.** With one scale per matrix, at how many bits does the model get worse by more than one bit per character?

# %%
breaks_at = None  # @param {type:"integer"}

# %%
def changed(model, change):
    model = copy.deepcopy(model)
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            layer.weight.data = change(layer.weight.data)
    return model


GROUPS = {"per matrix": lambda w: w.numel(), "per row": lambda w: w.shape[1], "per 16 weights": lambda w: 16}
curve = {}
for name, group in GROUPS.items():
    curve[name] = [bits_per_character(changed(model, lambda w: rounded(w, bits, group(w)))) for bits in BITS]
broke = next((bits for bits, found in zip(BITS, curve["per matrix"]) if found > whole + 1), 0)

# %%
# @title Plot bits per character against bits per weight { display-mode: "form" }
figures.lines(
    BITS, {f"scale {name}": found for name, found in curve.items()}, ideal={"as shipped": [whole] * len(BITS)},
    xlabel="bits per weight, not counting the scales", ylabel="bits per character, test text",
    title=f"With a scale per matrix, the model breaks at {broke} bits{guessed(breaks_at)}",
)

# %% [markdown]
# From 8 bits down to 5 nothing happens (at 8 with a scale per row, nothing can: that's how the model was shipped). Then, within three bits, it
# falls apart. Each bit you remove at least doubles the rounding error, and at 2 bits this quantizer has three levels left: minus the scale, zero,
# plus the scale. Near the minimum that training found, the loss grows roughly with the square of the error, so for a long time you don't notice.
#
# At the same number of bits, smaller groups lose less. But their scales cost bits, too, so compare what needs the same storage.

# %%
found = {name: dict(zip(BITS, row)) for name, row in curve.items()}
for total in (4, 3):
    if total in BITS and total - 1 in BITS:
        print(f"{total} bits in all: {found['per row'][total]:.3f} with a scale per row, {found['per 16 weights'][total - 1]:.3f} with {total - 1} bits and a scale per 16 weights")

# %% [markdown]
# Groups of 16 don't pay on this model. (Methods such as GPTQ and AWQ do better than either, because they choose the rounded weights with a look at
# the data.)
#
# Bits per character is an abstract number, so read what the model writes at each step, with a scale per row, the same prompt, and the same random
# seed.

# %%
for bits in BITS:
    lossy = changed(model, lambda w: rounded(w, bits, w.shape[1]))
    written = training.sample(lossy, prompt="ROMEO:\n", count=CHARACTERS)
    print(f"{bits} bits: {written.removeprefix('ROMEO:').strip()!r}")

# %% [markdown]
# On our machine it writes the same text with 8, 6 and 5 bits, letter for letter. With 4 and 3 it makes different choices, which aren't clearly
# worse to read. With 2 it babbles.

# %%
# @title Check these claims on your machine { display-mode: "form" }
at = dict(zip(BITS, curve["per matrix"]))
holds(at.get(5), whole - 0.02, whole + 0.05, "At 5 bits with a scale per matrix, nothing has happened.", fast=FAST)
holds(at.get(2), whole + 1, 20, "At 2 bits with a scale per matrix, the model falls apart.", fast=FAST)

# %% [markdown] tags=["minutes-8"]
# ## One large column
#
# A scale is set by the largest weight of its group, so one very large weight should cause trouble.
#
# In a layer that follows a layer norm, you can make a whole column of them without changing the function. The layer computes, for each row, a sum
# of products w₁x₁ + w₂x₂ + … . If every w₃ becomes 100 times as large and x₃ becomes a hundredth, each product stays what it is, and so does the
# sum. The x's come from the norm, which multiplies each one by its own weight and adds its own bias, so it's enough to divide x₃'s weight and bias
# by 100.

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


spoiled = with_a_large_column(model)
same = bits_per_character(spoiled)
print(f"not rounded: {same:.3f} bits per character, and {whole:.3f} before")

# %% [markdown]
# **Predict.** With a scale per row, 6 bits have cost nothing so far. Round this model to 6 bits in the same way. How many bits per character does
# it need?

# %%
with_outlier = None  # @param {type:"number"}

# %%
def round_columns(w, bits):
    return rounded(w.T, bits, w.shape[0]).T


outlier = {}
for name, group in GROUPS.items():
    outlier[name] = [bits_per_character(changed(spoiled, lambda w: rounded(w, bits, group(w)))) for bits in (8, 6)]
outlier["per column"] = [bits_per_character(changed(spoiled, lambda w: round_columns(w, bits))) for bits in (8, 6)]
for name, (eight, six) in outlier.items():
    print(f"{f'a scale {name}':>22}: {eight:.3f} with 8 bits, {six:.3f} with 6{guessed(with_outlier) if name == 'per row' else ''}")
zeros = (quantize(spoiled.blocks[0].expand.weight.detach(), 6, w.shape[1])[0] == 0).float().mean().item()
print(f"with 6 bits and a scale per row, {zeros:.0%} of the codes in `blocks.0.expand` are 0")

# %%
# @title Check these claims on your machine { display-mode: "form" }
holds(same, whole - 0.002, whole + 0.002, "The large column changes nothing by itself.", fast=FAST)
holds(outlier["per row"][1] - whole, 0.5, 20, "With a scale per row, one large column spoils the model at 6 bits.", fast=FAST)
holds(outlier["per column"][1] - whole, -0.02, 0.02, "A scale per column undoes it.", fast=FAST)

# %% [markdown]
# The function is the same, but the bits that were enough for it no longer are. Every row now contains one large weight, which sets the row's scale,
# so most of the others are rounded to 0 or to a step next to it. One outlier costs all the others their precision.
#
# With 6 bits and a scale per matrix, the model does worse than uniform guessing. Groups of 16 confine the damage to one group in 24. A scale per
# column undoes it.
#
# For integer hardware, however, a scale per column is a problem, and a 2 × 2 example shows why. Such hardware multiplies integers by integers (the
# inputs are rounded, too) and sums the products as integers. With codes c and a scale s per *row*, the first result is s₁c₁₁x₁ + s₁c₁₂x₂ = s₁(c₁₁x₁
# + c₁₂x₂). The sum can be all integers, while the scale waits until the end. With a scale per *column* it's s₁c₁₁x₁ + s₂c₁₂x₂, and no common factor
# comes out. (With groups along a row, each group has its own sum and its own factor, and the groups are added up as floats.)
#
# This outlier was made by hand. In real language models the large numbers are in the activations: [LLM.int8()](https://arxiv.org/abs/2208.07339)
# found them in every layer once a model reached 6.7 billion parameters. [SmoothQuant](https://arxiv.org/abs/2211.10438) makes our move with a
# moderate factor: it divides the large activations by it and multiplies the matching columns of the weights, so that neither is too hard to round.

# %% [markdown] tags=["minutes-7"]
# ## Four bits, spent where the weights are
#
# Four bits give you 16 codes, and `quantize` uses 15 of them, evenly spread. Weights aren't evenly spread, however: most are small, as in a bell
# curve. *NF4*, the format of QLoRA, takes its 16 levels from the quantiles of the normal distribution, with the aim that each be used equally
# often.
#
# **Predict.** Each of the 16 levels would then get one sixteenth of the weights, but the quantiles don't assume that you divide by the largest of
# 64 weights. What percentage does the most-used level really get?

# %%
most_used = None  # @param {type:"number"}

# %%
def levels(count):  # from the middle outward, each as likely as the next
    last = 1 - (1 / 32 + 1 / 30) / 2  # QLoRA's choice: the outermost can't be at infinity
    return torch.special.ndtri(torch.linspace(0.5, last, count + 1, dtype=torch.float64))[1:]


NF4 = torch.cat([-levels(7).flip(0), torch.zeros(1), levels(8)])  # 7 below zero, 8 above
NF4 = (NF4 / NF4.max()).float().to(device)


def encode(w):
    blocks = w.reshape(-1, 64)
    scale = blocks.abs().amax(1, keepdim=True)
    return ((blocks / scale).unsqueeze(-1) - NF4).abs().argmin(-1), scale  # (blocks, 64): codes from 0 to 15


def nf4(w):
    codes, scale = encode(w)
    return (NF4[codes] * scale).reshape(w.shape)


# %%
bell = torch.randn(1024, 1024, device=device)
used = 100 * torch.bincount(encode(bell)[0].flatten(), minlength=16) / bell.numel()
print(f"on a bell curve, a level gets from {used.min():.1f}% to {used.max():.1f}% of the weights{guessed(most_used, '%')}")
four = {"even, per row": changed(model, lambda w: rounded(w, 4, w.shape[1])), "even, per 64": changed(model, lambda w: rounded(w, 4, 64)), "NF4, per 64": changed(model, nf4)}
errors = {"even, per 64": error(rounded(w, 4, 64), w), "NF4, per 64": error(nf4(w), w)}
in_four = {name: bits_per_character(lossy) for name, lossy in four.items()}
print(*(f"4 bits, {name}: {found:.3f} bits per character" for name, found in in_four.items()), sep="\n")
print(*(f"{name}: the relative error of one layer is {100 * found:.1f}%" for name, found in errors.items()), sep="\n")

# %%
# @title Draw the levels { display-mode: "form" }
blocks = torch.cat([layer.weight.detach().flatten() for layer in linear.values()]).reshape(-1, 64)
shares = (blocks / blocks.abs().amax(1, keepdim=True)).flatten().cpu()
figures.quantization_levels(
    shares.numpy(), {"even": [k / 7 for k in range(-7, 8)], "NF4": NF4.tolist()}, title="NF4 has more levels where there are more weights",
    xlabel="weights of all linear layers, divided by the largest of the 64 that share a scale",
)

# %% [markdown]
# The spikes at both ends are the largest weights themselves. NF4's levels crowd toward the middle, and although they aren't used equally often, its
# error is the smaller of the two (a part of that is its sixteenth level). The model hardly notices either of them, because at 4 bits in groups of
# 64 it hasn't begun to fall apart.
#
# Two codes fit in a byte. To see whether that's what a library stores, ask bitsandbytes for its bytes.

# %%
codes, scale = encode(bell)
pairs = codes.to(torch.uint8).reshape(-1, 2)
both = pairs[:, 0] * 16 + pairs[:, 1]
stored = both.numel() + 4 * scale.numel()  # bytes
print(f"{4 * bell.numel():,} bytes become {stored:,}, with float32 scales: {8 * stored / bell.numel():.1f} bits per weight")

# %%
# needs: bitsandbytes
from bitsandbytes import functional as bnb

theirs, state = bnb.quantize_4bit(bell.cpu(), blocksize=64, quant_type="nf4")
print(f"{(theirs.flatten() == both.cpu()).float().mean():.3%} of bitsandbytes' bytes match ours")

# %% [markdown]
# bitsandbytes can quantize the scales as well (*double quantization*), and then needs 4.13 bits per weight in all.

# %% [markdown] tags=["minutes-10"]
# ## Is it faster?
#
# The layer below has a 4,096 × 4,096 matrix, like those in a model with 7 billion weights. Its input is one row, as when a chatbot writes one
# token. PyTorch has a *fused* CPU kernel for 8-bit weights. It rounds the input to 8 bits as well, multiplies integers, and never writes
# dequantized weights to memory, so only the 8-bit ones travel. The other way is to dequantize the matrix first and then multiply.
#
# **Predict.** On this machine's CPU, with one row, how many times as fast as the 32-bit layer is the fused one? Below 1 means slower.

# %%
fused_gains = None  # @param {type:"number"}

# %%
# @title PyTorch's dynamically quantized layer, which torchao will replace { display-mode: "form" }
layer = nn.Linear(WIDE, WIDE, bias=False)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it's deprecated
    eight_bits = torch.ao.quantization.quantize_dynamic(nn.Sequential(layer), {nn.Linear}, dtype=torch.qint8)

# %%
codes, scale = quantize(layer.weight.detach(), 8, WIDE)
gains = {}
with torch.no_grad():
    for rows in (1, 64):
        x = torch.randn(rows, WIDE)
        ways = {"32 bits": lambda: layer(x), "8 bits, fused": lambda: eight_bits(x), "8 bits, dequantized first": lambda: x @ (codes.float() * scale).T}
        times = benchmark.compare(ways, budget=SECONDS)
        gains[rows] = benchmark.speedup(times["32 bits"], times["8 bits, fused"])
        print(f"{rows} row{'s' if rows > 1 else ''}: " + "; ".join(f"{1e3 * found.median:.3g} ms in {name}" for name, found in times.items()))
print(f"fused, one row: {gains[1]} the speed of 32 bits{guessed(fused_gains, '×')}; 64 rows: {gains[64]}")

# %% [markdown]
# As in lesson 02, bytes or arithmetic decides, whichever takes longer. With one row, each weight is used once, for two operations, so the time is
# about that of reading the weights, and a quarter of the bytes should take a quarter of it (or less, where the small matrix fits in a cache and the large one does not).
# With many rows, each weight is read once and used many times. At 64 rows arithmetic is the limit, and the gain there comes from the integers: one
# vector instruction handles more 8-bit integers than 32-bit floats.
#
# Dequantizing first reads the 8-bit weights, then writes and rereads the 32-bit ones, more than once if several operators do it.
#
# For a T4 both rates are published, so you can work out its case on paper.

# %%
t4 = chip_rates.rates("T4")
memory, multiply = t4["memory"].value, t4["fp16"].value
print(f"a T4 moves {memory / 1e9:.0f} GB/s, and multiplies fp16 at {multiply / 1e12:.0f} TFLOP/s")

# %% [markdown]
# **Predict.** At best, up to how many rows is a T4 faster with 4 bits than with 16?

# %%
gains_up_to = None  # @param {type:"integer"}

# %%
many = [round(2 ** (k / 4)) for k in range(41)]  # rows


def took(rows, moved):  # seconds: bytes or arithmetic, whichever takes longer
    return max(moved / memory, 2 * rows * 4096**2 / multiply)


moved = {"16 bits": 2 * 4096**2, "8 bits, fused": 4096**2, "4 bits, fused": 4.5 / 8 * 4096**2}
on_t4 = {name: [took(rows, size) for rows in many] for name, size in moved.items()}
unpack = (moved["4 bits, fused"] + moved["16 bits"]) / memory  # read the small ones, write the large ones
on_t4["4 bits, dequantized first"] = [unpack + took(rows, moved["16 bits"]) for rows in many]
last = multiply / memory  # 2 operations per row and weight, 2 bytes per weight
print(f"from {last:.0f} rows on, arithmetic takes at least as long as reading the 16-bit weights")
for name, seconds in on_t4.items():
    print(f"6.74 billion weights, {name}: {4096**2 / 6.74e9 / seconds[0]:.0f} tokens/s at most, for one user")

# %%
# @title Draw the T4's times { display-mode: "form" }
figures.lines(
    many, {}, ideal=on_t4, title=f"Roofline estimate: fewer bytes can help a T4 up to {last:.0f} rows{guessed(gains_up_to)}",
    xlabel="rows in the batch", ylabel="time for a 4,096 × 4,096 layer", log=True, units=("", "s"),
)

# %% [markdown]
# Where a line is flat, the chip waits for memory; where it rises, arithmetic is the limit.
#
# Real kernels are slower than these lines suggest: the authors of bitsandbytes expected 2.2 times the speed from their first one on a T4 ([release
# 0.40](https://github.com/bitsandbytes-foundation/bitsandbytes/releases)). Which line you get is up to the library, which may fuse for a few rows
# and dequantize first for many.
#
# A chatbot with one user is at the far left, where bytes set the speed. Training is at the far right. There, 4 bits save memory and, where they're
# dequantized first, cost time, and the memory is what makes QLoRA possible on a T4.

# %% [markdown] tags=["minutes-6"]
# ## Exercises
#
# ### 1 · Does it fit?
#
# A model has 8 billion weights. How many GB does it take in 16 bits, and in 4 bits with a 16-bit scale per 64 weights? One GB is 10⁹ bytes.

# %% tags=["exercise"]
fits = {"16 bits": ..., "4 bits": ...}  # GB
### BEGIN SOLUTION
fits = {"16 bits": 8e9 * 2 / 1e9, "4 bits": 8e9 * (4 + 16 / 64) / 8 / 1e9}
### END SOLUTION
exercises.check("12.fits", fits)

# %% [markdown]
# ### 2 · A different chip
#
# According to its data sheet (and data sheets are optimists), an L4 moves 300 GB/s and multiplies fp16 at 120 TFLOP/s. Up to how many rows can
# fewer bytes help there? And at most how many tokens per second can an 8 GB model write for one user?

# %% tags=["exercise"]
on_l4 = {"rows": ..., "tokens": ...}
### BEGIN SOLUTION
on_l4 = {"rows": 120e12 / 300e9, "tokens": 300e9 / 8e9}
### END SOLUTION
exercises.check("12.chip", on_l4)

# %% [markdown]
# ### 3 · Values that are never negative
#
# After a ReLU all values are 0 or more, so half of `quantize`'s codes go unused. Spread all 256 8-bit codes from 0 to the largest value (*unsigned*
# quantization), and return the dequantized values. The error should be half as large.

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
# Open-ended: put a layer of your own network in `mine`. At 4 bits, how many times as large is its error with one scale for the matrix as with
# groups of 64?

# %% tags=["exercise"]
mine = model.blocks[-1].contract.weight.detach()
factor = ...
### BEGIN SOLUTION
factor = error(rounded(mine, 4, mine.numel()), mine) / error(rounded(mine, 4, 64), mine)
### END SOLUTION
exercises.check("12.mine", factor, weight=mine)

# %% [markdown] tags=["minutes-1"]
# ## The scoreboard

# %%
scoreboard.show("12")

# %%
per_row = dict(zip(BITS, curve["per row"]))
takeaways = {
    "A model falls apart suddenly": "with a scale per row, it needs " + ", ".join(f"{found:.2f}" for found in per_row.values()) + f" bits per character with {', '.join(map(str, BITS))} bits per weight.",
    "One outlier costs all the others their precision": f"with one large column the function is the same, but with 6 bits and a scale per row it needs {outlier['per row'][1]:.2f}, and with a scale per column {outlier['per column'][1]:.2f}.",
    "Fewer bytes are faster where bytes decide": f"for one row on this CPU, a fused 8-bit layer ran at {gains[1]} the speed of a 32-bit one; by two published numbers, a T4 can benefit up to {last:.0f} rows.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess, inventory = reference.Value, reference.Prediction, hardware.list_devices()
reference.record(
    "12_quantize", FAST, device=inventory.main,
    predicted={
        "breaks_at": guess(breaks_at, broke),
        "with_outlier": guess(with_outlier, outlier["per row"][1]),
        "most_used": guess(most_used, used.max().item(), "%"),
        "fused_gains": guess(fused_gains, gains[1].value, "×"),
        "gains_up_to": guess(gains_up_to, last),
    },
    whole=value(whole, "bits", "per character: the model as shipped"),
    **{f"row_{bits}": value(found, "bits", f"per character, {bits} bits per weight and a scale per row") for bits, found in per_row.items()},
    matrix_broke=value(broke, "bits", "per weight at which a scale per matrix breaks the model"),
    same=value(same, "bits", "per character with a large column, not rounded"),
    outlier_row=value(outlier["per row"][1], "bits", "… at 6 bits, a scale per row"),
    outlier_column=value(outlier["per column"][1], "bits", "… at 6 bits, a scale per column"),
    nf4=value(in_four["NF4, per 64"], "bits", "per character in NF4"),
    rows_t4=value(last, "", "rows up to which a T4 benefits, estimated"),
    fused_one=value(gains[1].value, "×", "speed of a fused 8-bit layer, one row, 32 bits being 1"),
)

# %% [markdown] tags=["minutes-0"]
# ## Keep this, and what comes next
#
# ```python
# import torch
# from transformers import AutoModelForCausalLM, BitsAndBytesConfig
#
# four_bits = BitsAndBytesConfig(
#     load_in_4bit=True,
#     bnb_4bit_quant_type="nf4",
#     bnb_4bit_use_double_quant=True,  # quantize the scales, too
#     bnb_4bit_compute_dtype=torch.float16,  # a T4's tensor cores don't support bfloat16
# )
# model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=four_bits, dtype=torch.float16, device_map="auto")
# ```
#
# Lesson 15 runs lines like these on a model that you can train on a free T4.
