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
from colab_lessons.predictions import your_prediction  # adds what you predicted to a title

WINDOWS = WINDOWS or (1 if FAST else 16)  # test windows of 256 characters
CHARACTERS = CHARACTERS or (15 if FAST else 90)  # that the model writes
BITS = BITS or ((8, 3) if FAST else (8, 6, 5, 4, 3, 2))
WIDE = WIDE or (512 if FAST else 4096)  # width of the layer that's timed
SECONDS = SECONDS or (0.05 if FAST else 1.0)  # time budget of one measurement
replay.watch("12_quantize")  # where a package is missing, a recorded output appears
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")

# %% [markdown] tags=["minutes-2"]
# ## The model, and how good it is
#
# The model from lesson 01 was trained on Shakespeare for 1,000 steps. Two plays were held out, so you can measure on them how well it predicts.
# The measure is *bits per character*, the cross-entropy of its predictions in base 2. A model that guesses uniformly among 96 characters needs 6.6,
# and one that is always sure and right needs 0. We use 16 stretches of 256 characters, the same ones every time.

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
# 127, and round. This is called *absmax quantization*, and doing it to a finished model is *post-training quantization*. You keep one integer per weight, plus the scale. Before you compute with the integers, you
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
# In fact, you've been using eight bits all along: the file that `models.trained()` loads stores each matrix in 8 bits, with one scale per row. (That's
# why the first two weights above are equal.) We measured what that cost while we still had the float32 weights, on both plays, whole.

# %%
trained = json.loads((weights.SHIPPED.parent.parent / "job_records" / "amd-epyc-2-cores.json").read_text())
print(f"the file is {weights.SHIPPED.stat().st_size / 1e6:.1f} MB; in float32 it would be {4 * model.parameter_count / 1e6:.1f}")
for play, in_float32 in trained["bits_float32"].items():
    print(f"{play:>12}: {in_float32:.4f} bits per character in float32, {trained['bits_shipped'][play]:.4f} as shipped")

# %% [markdown] tags=["minutes-7"]
# ## Take the bits away
#
# All the linear layers now get fewer and fewer bits, while the embedding stays as it is. One scale serves the whole matrix (*per-tensor*
# quantization), one row (*per-channel*), or just 64 or 16 neighbors within a row (*group-wise*). Scales cost bits, too. If each has 16, groups of 16
# need one bit more per weight, groups of 64 a quarter of a bit, and rows of 384 next to nothing.
#
# **Predict.** Try 8, 6, 5, 4, 3, and 2 bits. With one scale per matrix, at which of them does the model first get worse by more than one bit per character?

# %%
breaks_at = None  # @param {type:"integer"}

# %%
def changed(model, change):
    model = copy.deepcopy(model)
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            layer.weight.data = change(layer.weight.data)  # rounded values, still stored as float32
    return model


GROUPS = {"per matrix": lambda w: w.numel(), "per row": lambda w: w.shape[1], "per 64 weights": lambda w: 64, "per 16 weights": lambda w: 16}
curve = {}
for name, group in GROUPS.items():
    curve[name] = [bits_per_character(changed(model, lambda w: rounded(w, bits, group(w)))) for bits in BITS]
broke = next((bits for bits, found in zip(BITS, curve["per matrix"]) if found > whole + 1), 0)

# %%
# @title Plot the loss against bits per weight { display-mode: "form" }
scales = dict(zip(GROUPS, (0, 16 * sum(layer.out_features for layer in linear.values()) / in_linear, 16 / 64, 16 / 16)))  # their bits per weight
figures.lines(
    BITS, {f"scale {name}": {bits + scales[name]: found - whole for bits, found in zip(BITS, row) if found > whole + 0.001} for name, row in curve.items()},
    xlabel="bits per weight, with the scales", ylabel="bits per character lost", log_y=True,
    title=f"With a scale per matrix, more than one bit per character is lost at {broke} bits per weight{your_prediction(breaks_at)}",
)

# %% [markdown]
# The vertical axis is logarithmic, and losses of a few thousandths are noise. Each bit you remove about doubles the rounding error, and near the minimum that
# training found, the loss grows roughly as the square of the error. So every bit costs several times as much as the one before. For a long time you
# notice nothing, and then, within a bit or two, everything. At 2 bits this quantizer has three levels left: minus the scale, zero, and plus the scale.
#
# Which scales are worth their bits? Look along a horizontal line: the curve furthest to the left gets by with the least storage.

# %%
found = {name: dict(zip(BITS, row)) for name, row in curve.items()}
for name, bits in {"per matrix": 4, "per row": 4, "per 64 weights": 4, "per 16 weights": 3}.items():
    if bits in found[name]:
        print(f"{bits} bits and a scale {name}: {bits + scales[name]:.2f} bits per weight in all, {found[name][bits] - whole:.3f} bits per character lost")

# %% [markdown]
# On this model, the curves for rows and for groups of 64 nearly coincide, so groups of 64 just about earn their quarter of a bit. Groups of 16 lose more
# than rows at the same storage. (With *calibration data* one can do better: GPTQ makes up for each rounding error in the weights that come next, and
# AWQ rescales the most important channels first.)
#
# Bits per character is an abstract measure, so read what the model writes at each bit width, with a scale per row, the same prompt, and the same
# random seed.

# %%
for bits in BITS:
    lossy = changed(model, lambda w: rounded(w, bits, w.shape[1]))
    written = training.sample(lossy, prompt="ROMEO:\n", count=CHARACTERS)
    print(f"{bits} bits: {written.removeprefix('ROMEO:').strip()!r}")

# %% [markdown]
# On our machine the model writes the same text at 8, 6, and 5 bits, letter for letter. (With 8 that's no wonder, since
# these are the weights as shipped.) At 4 and 3 it makes different choices, which don't read clearly worse. At 2 it babbles. All of this holds for one
# model of ten million weights; others break elsewhere.

# %%
# @title Check these claims on your machine { display-mode: "form" }
at = dict(zip(BITS, curve["per matrix"]))
holds(at.get(5), whole - 0.02, whole + 0.05, "At 5 bits with a scale per matrix, nothing has happened.", fast=FAST)
holds(at.get(2), whole + 1, 20, "At 2 bits with a scale per matrix, the model falls apart.", fast=FAST)

# %% [markdown] tags=["minutes-8"]
# ## One large column
#
# Here is the same model with one change. It makes no difference to what the model computes.

# %%
# @title The change: don't open this yet { display-mode: "form" }
@torch.no_grad()
def scale_a_column(model, times=100, column=2):
    model = copy.deepcopy(model)
    for block in model.blocks:
        for norm, layer in ((block.norm_attention, block.query_key_value), (block.norm_mlp, block.expand)):
            layer.weight[:, column] *= times
            norm.weight[column] /= times
            norm.bias[column] /= times
    return model


spoiled = scale_a_column(model)
same = bits_per_character(spoiled)
print(f"not rounded: {same:.3f} bits per character with the change, {whole:.3f} without it")

# %% [markdown]
# **Predict.** With a scale per row, 6 bits have cost nothing so far. Round this model to 6 bits in the same way. How many bits per character does
# it need?

# %%
with_outlier = None  # @param {type:"number"}

# %%
by_row = bits_per_character(changed(spoiled, lambda w: rounded(w, 6, w.shape[1])))
print(f"6 bits, a scale per row: {by_row:.3f} bits per character{your_prediction(with_outlier)}")

# %% [markdown]
# The function is the same, but the number of bits that used to be enough no longer is. Why? Look at a layer: the codes it got, and the largest weight
# in each of its columns.

# %%
spoiled_w = spoiled.blocks[0].expand.weight.detach()  # (1536, 384)
zeros = (quantize(spoiled_w, 6, 384)[0] == 0).float().mean().item()
columns = spoiled_w.abs().amax(0)  # (384,)
print(f"{zeros:.0%} of the codes are 0; the largest weight of a column is {columns.median():.2f} at the median and {columns.max():.2f} in column {columns.argmax()}, counting from 0")

# %% [markdown]
# A scale is set by the largest weight of its group. One column is 100 times too large, so it sets the scale of nearly every row, and most of the other weights
# are rounded to 0 or to a level next to it. One outlier costs all the other weights their precision.
#
# How can such a column make no difference? For each row, the layer computes w₁x₁ + w₂x₂ + w₃x₃ + … . If w₃ becomes 100 times as large in every row, and
# x₃ becomes a hundredth of what it was, their product stays the same. The x's come from a layer norm, which has a weight and a bias for each of them, so
# it's enough to divide x₃'s weight and bias by 100. That's what the folded cell does, in twelve of the layers.
#
# There are three ways out. Smaller groups confine the outlier, a scale per *column* gives it a scale of its own, and the change can be undone.

# %%
repaired = {
    "a scale per 64 weights": changed(spoiled, lambda w: rounded(w, 6, 64)),
    "a scale per 16 weights": changed(spoiled, lambda w: rounded(w, 6, 16)),
    "a scale per column": changed(spoiled, lambda w: rounded(w.T, 6, w.shape[0]).T),
    "a scale per row, the column divided by 100 again": changed(scale_a_column(spoiled, times=1 / 100), lambda w: rounded(w, 6, w.shape[1])),
}
repaired = {name: bits_per_character(model) for name, model in repaired.items()}
print(*(f"6 bits, {name}: {found:.3f}" for name, found in repaired.items()), sep="\n")

# %%
# @title Check these claims on your machine { display-mode: "form" }
holds(same, whole - 0.002, whole + 0.002, "The large column changes nothing by itself.", fast=FAST)
holds(by_row - whole, 0.5, 20, "With a scale per row, one large column spoils the model at 6 bits.", fast=FAST)
holds(max(repaired["a scale per column"], [*repaired.values()][-1]) - whole, -0.02, 0.02, "A scale per column repairs it, and so does the opposite change.", fast=FAST)
holds(repaired["a scale per 16 weights"] - whole, -0.02, 0.05, "So do groups of 16.", fast=FAST)

# %% [markdown]
# Why not use a scale per column everywhere? Because of integer hardware, which multiplies integers by integers (the inputs are rounded, too) and adds up
# the products as integers. Take a 2 × 2 matrix with codes c. Its first result is
#
# - s₁c₁₁x₁ + s₁c₁₂x₂ = s₁(c₁₁x₁ + c₁₂x₂) with a scale per row: the sum in parentheses is all integers, and the scale can wait until the end;
# - s₁c₁₁x₁ + s₂c₁₂x₂ with a scale per column: no common factor comes out.
#
# (Unless you multiply the x's by the scales before you round them, which is the third way out. With groups, each group gets a sum of its own.)
#
# ### In real models
#
# This outlier was made by hand. In large language models the outliers are in the activations: [LLM.int8()](https://arxiv.org/abs/2208.07339) found them
# in every layer once a model reached 6.7 billion parameters. [SmoothQuant](https://arxiv.org/abs/2211.10438) is our trick in moderation. It divides
# each large activation channel by a factor and multiplies the matching column of weights by it, so that both round well.

# %% [markdown] tags=["minutes-7"]
# ## Four bits, spent where the weights are
#
# Four bits give you 16 codes, and `quantize` uses 15 of them, uniformly spread. Weights aren't uniformly spread, however: most are small, as in a
# normal distribution. *NF4*, QLoRA's format, takes its 16 levels from the quantiles of that distribution, so that each should be used equally often,
# for one sixteenth of the weights. It doesn't quite work out, because the levels were derived for one spread, while each block of 64 is divided by its own
# largest weight.
#
# **Predict.** What percentage of the weights does the most-used level get?

# %%
most_used = None  # @param {type:"number"}

# %%
def levels(count):  # from the middle outward, each as likely as the next
    last = 1 - (1 / 32 + 1 / 30) / 2  # QLoRA's choice: the outermost can't be at infinity
    return torch.special.ndtri(torch.linspace(0.5, last, count + 1, dtype=torch.float64))[1:]


NF4 = torch.cat([-levels(7).flip(0), torch.zeros(1), levels(8)])  # 7 below zero, 8 above
NF4 = (NF4 / NF4.max()).float().to(device)


def encode(w, levels=NF4):
    blocks = w.reshape(-1, 64)
    scale = blocks.abs().amax(1, keepdim=True).clamp_min(1e-12)
    return ((blocks / scale).unsqueeze(-1) - levels).abs().argmin(-1), scale  # (blocks, 64): codes from 0 to 15


def nearest(w, levels):
    codes, scale = encode(w, levels)
    return (levels[codes] * scale).reshape(w.shape)


def nf4(w):
    return nearest(w, NF4)


# %%
bell = torch.randn(1024, 1024, device=device)
used = 100 * torch.bincount(encode(bell)[0].flatten(), minlength=16) / bell.numel()
print(f"on normally distributed weights, a level gets from {used.min():.1f}% to {used.max():.1f}% of the weights{your_prediction(most_used, '%')}")
four = {"even, per row": changed(model, lambda w: rounded(w, 4, w.shape[1])), "even, per 64": changed(model, lambda w: rounded(w, 4, 64)), "NF4, per 64": changed(model, nf4)}
errors = {"15 uniform levels": error(rounded(w, 4, 64), w), "16 uniform levels": error(nearest(w, torch.linspace(-1, 1, 16, device=device)), w), "NF4": error(nf4(w), w)}
in_four = {name: bits_per_character(lossy) for name, lossy in four.items()}
print(*(f"4 bits, {name}: {found:.3f} bits per character" for name, found in in_four.items()), sep="\n")
print("relative error of one layer, groups of 64: " + "; ".join(f"{100 * found:.1f}% with {name}" for name, found in errors.items()))

# %%
# @title Draw the levels { display-mode: "form" }
blocks = torch.cat([layer.weight.detach().flatten() for layer in linear.values()]).reshape(-1, 64)
shares = (blocks / blocks.abs().amax(1, keepdim=True)).flatten().cpu()
figures.quantization_levels(
    shares.numpy(), {"even": [k / 7 for k in range(-7, 8)], "NF4": NF4.tolist()}, title="NF4 has more levels where there are more weights",
    xlabel="weights of all linear layers, divided by the largest of the 64 that share a scale",
)

# %% [markdown]
# The spikes at both ends are the largest weights themselves, and the small ones come from the 8-bit grid of the file. NF4's levels crowd toward the
# middle, and although they aren't used equally often, NF4's error is smaller than that of uniform levels. (Part of the gain is that it uses 16 levels,
# and `quantize` 15.) The model hardly notices: at 4 bits in groups of 64, the difference between the two is within the noise.
#
# Two codes fit in a byte. To see whether a library stores the same bytes, ask bitsandbytes for its own.

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
# The layer below has a 4,096 × 4,096 matrix, like those in a model with 7 billion weights. Its input is one row, as when a chatbot writes its next
# token. PyTorch has a *fused* CPU kernel for 8-bit weights. It rounds the input to integers as well (*dynamic quantization*), multiplies integers, and
# never writes dequantized weights to memory, so only the 8-bit ones travel. The alternative is to dequantize the matrix first and then multiply.
#
# **Predict.** On this machine's CPU, with one row, divide the 32-bit layer's time by the fused layer's. What do you get? (1 means equally fast.)

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
buffer = torch.empty(WIDE, WIDE)  # for the dequantized weights
gains = {}
with torch.no_grad():
    for rows in (1, 64):
        x = torch.randn(rows, WIDE)
        ways = {"32 bits": lambda: layer(x), "8 bits, fused": lambda: eight_bits(x), "8 bits, dequantized first": lambda: x @ torch.mul(codes, scale, out=buffer).T}
        times = benchmark.compare(ways, budget=SECONDS)
        gains[rows] = benchmark.speedup(times["32 bits"], times["8 bits, fused"])
        slower = benchmark.speedup(times["8 bits, dequantized first"], times["32 bits"])
        print(f"{rows:>2} row{'s' if rows > 1 else ' '}: {1e3 * times['32 bits'].median:.1f} ms in 32 bits; fused, {gains[rows]} the speed{your_prediction(fused_gains, '×') if rows == 1 else ''}; dequantized first, {slower} the time")

# %% [markdown]
# As in lesson 02, the time is set by the slower of two things, moving the bytes or doing the arithmetic. With one row, each weight is used once, for two
# operations, so the layer is *memory-bound*, and a quarter of the bytes should take a quarter of the time (or less, where the small matrix fits in a
# cache and the large one doesn't). With many rows, each weight is read once and used many times. At 64 rows the layer is *compute-bound*, and the gain
# there comes from the integers: one vector instruction handles more 8-bit integers than 32-bit floats.
#
# If you dequantize first, you read the 8-bit weights, write the 32-bit ones, and read those back.
#
# For a T4 both rates have been measured by others, so you can work out its times on paper, for kernels that keep the *weights* in fewer bits and multiply
# in fp16 (*weight-only* quantization). A kernel that rounds the inputs, too, could use the T4's int8 tensor cores, which are twice as fast, and gain at
# any batch size.

# %%
t4 = chip_rates.rates("T4")
memory, multiply = t4["memory"].value, t4["fp16"].value
print(f"measured on T4s: {memory / 1e9:.0f} GB/s and {multiply / 1e12:.0f} TFLOP/s in fp16 (the data sheet says 320 and 65)")

# %% [markdown]
# **Predict.** Up to how many rows in the batch could a T4, at best, be faster with 4 bits than with 16?

# %%
gains_up_to = None  # @param {type:"integer"}

# %%
last = multiply / memory  # 2 operations per row and weight, 2 bytes per weight
many = sorted([2 ** (k / 4) for k in range(41)] + [last * bits / 16 for bits in (4.5, 8, 16)])  # rows


def took(rows, moved):  # seconds: bytes or arithmetic, whichever takes longer
    return max(moved / memory, 2 * rows * 4096**2 / multiply)


moved = {"16 bits": 2 * 4096**2, "8 bits, fused": 4096**2, "4 bits, fused": 4.5 / 8 * 4096**2}
on_t4 = {name: [took(rows, size) for rows in many] for name, size in moved.items()}
unpack = (moved["4 bits, fused"] + moved["16 bits"]) / memory  # read the small ones, write the large ones
on_t4["4 bits, dequantized first"] = [unpack + took(rows, moved["16 bits"]) for rows in many]
print(f"from {last:.0f} rows on, arithmetic takes at least as long as reading the 16-bit weights, and from {last * 4.5 / 16:.0f} rows on, the 4-bit ones")
for name, seconds in on_t4.items():
    print(f"6.74 billion weights, {name}: {4096**2 / 6.74e9 / seconds[0]:.0f} tokens/s at most, for one user")

# %%
# @title Draw the T4's times { display-mode: "form" }
figures.lines(
    many, {}, ideal=on_t4, title=f"Roofline estimate: on a T4, smaller weights can help with up to {last:.0f} rows{your_prediction(gains_up_to)}",
    xlabel="rows in the batch", ylabel="time for a 4,096 × 4,096 layer", log=True, units=("", "s"),
)

# %% [markdown]
# Where a line is flat, the chip waits for memory; where it rises, arithmetic is the limit. The 4-bit weights give their whole gain only where their own
# line is flat. From there on the gain shrinks, until the lines meet.
#
# Real kernels are slower than these lines suggest: the authors of bitsandbytes expected their first 4-bit kernel to run 2.2 times as fast as 16 bits on
# a T4 ([release 0.40](https://github.com/bitsandbytes-foundation/bitsandbytes/releases/tag/0.40.0)). Which line you get is up to the library, which may
# fuse for a few rows and dequantize first for many.
#
# A chatbot with one user is at the far left, where bytes set the speed. Training is at the far right. There, 4 bits save memory but, if they're
# dequantized first, cost time. The memory saved is what makes QLoRA possible on a T4.

# %% [markdown] tags=["minutes-6"]
# ## Exercises
#
# ### 1 · How many gigabytes?
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
# According to its data sheet (and data sheets are optimistic), an L4 moves 300 GB/s and multiplies fp16 at 120 TFLOP/s. Up to how many rows can
# smaller weights help on an L4? And at most how many tokens per second can an 8 GB model write for one user?

# %% tags=["exercise"]
on_l4 = {"rows": ..., "tokens": ...}
### BEGIN SOLUTION
on_l4 = {"rows": 120e12 / 300e9, "tokens": 300e9 / 8e9}
### END SOLUTION
exercises.check("12.chip", on_l4)

# %% [markdown]
# ### 3 · Values that are never negative
#
# After a ReLU all values are 0 or more, so half of `quantize`'s codes go unused. Spread all 256 codes that 8 bits allow from 0 to the largest value (*unsigned*
# quantization), and return the dequantized values. The error should be about half as large.

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
# Open-ended: put a weight of your own network in `mine` (its size must be a multiple of 64). At 4 bits, divide its error with one scale for the matrix
# by its error with groups of 64. What do you get?

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
    "Each bit costs several times as much as the one before": "with a scale per row, " + ", ".join(f"{found - whole:.3f}" for found in per_row.values()) + f" bits per character are lost at {', '.join(map(str, BITS))} bits per weight.",
    "One outlier costs all the other weights their precision": f"one large column leaves the function the same, but at 6 bits the model needs {by_row:.2f} bits per character with a scale per row, and {repaired['a scale per column']:.2f} with a scale per column.",
    "Fewer bytes are faster where reading them sets the time": f"for one row on this CPU, a fused 8-bit layer ran at {gains[1]} the speed of a 32-bit one; going by two measured rates, a T4 can benefit from smaller weights up to {last:.0f} rows.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess, inventory = reference.Value, reference.Prediction, hardware.list_devices()
reference.record(
    "12_quantize", FAST, device=inventory.main,
    predicted={
        "breaks_at": guess(breaks_at, broke),
        "with_outlier": guess(with_outlier, by_row),
        "most_used": guess(most_used, used.max().item(), "%"),
        "fused_gains": guess(fused_gains, gains[1].value, "×"),
        "gains_up_to": guess(gains_up_to, last),
    },
    whole=value(whole, "bits per character", "the model as shipped"),
    **{f"row_{bits}": value(found, "bits per character", f"{bits} bits per weight and a scale per row") for bits, found in per_row.items()},
    matrix_broke=value(broke, "", "bits per weight at which a scale per matrix breaks the model"),
    same=value(same, "bits per character", "with a large column, not rounded"),
    outlier_row=value(by_row, "bits per character", "with a large column, 6 bits, a scale per row"),
    outlier_column=value(repaired["a scale per column"], "bits per character", "with a large column, 6 bits, a scale per column"),
    nf4=value(in_four["NF4, per 64"], "bits per character", "NF4"),
    rows_t4=value(last, "", "rows up to which a T4 benefits, estimated"),
    fused_one=value(gains[1].value, "×", "speed of a fused 8-bit layer relative to 32 bits, one row"),
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
