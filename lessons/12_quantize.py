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
import itertools
import json
import logging
import math
import warnings

import torch
from torch import nn
from torch.nn import functional as F

from colab_helpers import benchmark, chip_throughput, hardware, published_results

from colab_lessons import exercises, figures, measurements, models, recorded_outputs, scoreboard, shakespeare, training, weights
from colab_lessons.claims import holds  # says so where a sentence of the text isn't true on your machine
from colab_lessons.predictions import your_prediction  # adds what you predicted to a title

WINDOWS = WINDOWS or (2 if FAST else 24)  # test windows of 256 characters
CHARACTERS = CHARACTERS or (15 if FAST else 90)  # that the model writes
BITS = BITS or ((4, 2) if FAST else (8, 6, 5, 4, 3, 2))
WIDE = WIDE or (512 if FAST else 4096)  # width of the layer that's timed
SECONDS = SECONDS or (0.05 if FAST else 1.0)  # time budget of one measurement
logging.disable(logging.WARNING)  # what libraries say while they load
recorded_outputs.watch("12_quantize")  # where a package is missing, a recorded output appears
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")

# %% [markdown] tags=["minutes-2"]
# ## The model, and how good it is
#
# The model from lesson 01 was trained on Shakespeare for 1,000 steps. Two plays were held out, so you can use them to measure how well it predicts.
# The measure is *bits per character*, the cross-entropy of its predictions in base 2. A model that guesses uniformly among 96 characters needs 6.6,
# and one that is always certain and right needs 0. We use the same 24 windows of 256 characters every time.

# %%
model = models.trained().to(device)
unseen = shakespeare.load("test")
starts = torch.linspace(0, len(unseen) - 257, WINDOWS).long()
windows = unseen[starts[:, None] + torch.arange(257)].long().to(device)  # (windows, 257)


@torch.no_grad()
def bits_per_window(model):  # (windows,)
    logits = model(windows[:, :-1])  # (windows, 256, characters)
    return F.cross_entropy(logits.transpose(1, 2), windows[:, 1:], reduction="none").mean(1) / math.log(2)


def bits_per_character(model):
    return bits_per_window(model).mean().item()


whole = bits_per_character(model)
linear = {name: layer for name, layer in model.named_modules() if isinstance(layer, nn.Linear)}
in_linear = sum(layer.weight.numel() for layer in linear.values())
print(f"{whole:.3f} bits per character; {in_linear:,} of {model.parameter_count:,} weights are in {len(linear)} linear layers")

# %% [markdown] tags=["minutes-4"]
# ## Eight bits by hand
#
# A weight has 32 bits. To get it down to eight, divide all the weights by one number, the *scale*, chosen so that the largest in magnitude becomes
# 127, and round. This is called *absmax quantization*, and doing it to a model that's already trained is *post-training quantization*. You keep one
# integer per weight, plus the scale. Multiplying the integers by the scale, called *dequantizing*, gives back approximate weights.

# %%
def quantize(w, bits, group):  # for 2 to 8 bits
    blocks = w.reshape(-1, group)  # (groups, weights that share one scale)
    top = 2 ** (bits - 1) - 1  # 127 for 8 bits: as far below zero as above it, so one code is left over
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
# In fact, you've been using eight bits all along. The trained model's file stores each matrix in 8 bits, with one scale per row, and
# `models.trained()` dequantizes it. On the full text of both plays, that cost next to nothing:

# %%
# @title Print both losses { display-mode: "form" }
trained = json.loads((weights.SHIPPED.parent.parent / "job_records" / "amd-epyc-2-cores.json").read_text())
print(f"the file is {weights.SHIPPED.stat().st_size / 1e6:.1f} MB; in float32 it would be {4 * model.parameter_count / 1e6:.1f}")
for play, in_float32 in trained["bits_float32"].items():
    print(f"{play:>12}: {in_float32:.4f} bits per character in float32, {trained['bits_shipped'][play]:.4f} as shipped")

# %% [markdown] tags=["minutes-8"]
# ## Take the bits away
#
# All the linear layers now get fewer and fewer bits, while the embedding stays as it is. One scale can serve the whole matrix (*per-tensor*
# quantization), one row (*per-channel*), or just 64 or 16 neighbors within a row (*group-wise*). Scales cost bits, too. At 16 bits per scale, groups
# of 16 add one bit per weight, groups of 64 a quarter of a bit, and rows of 384 next to nothing.
#
# **Predict.** Try 8, 6, 5, 4, 3, and 2 bits. With one scale per matrix, which is the first to raise the loss by more than one bit per character?

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
    curve[name] = {}
    for bits in BITS:
        curve[name][bits] = bits_per_character(changed(model, lambda w: rounded(w, bits, group(w))))
broke = next((bits for bits, found in curve["per matrix"].items() if found > whole + 1), 0)

# %%
# @title Plot the loss against bits per weight { display-mode: "form" }
rows = sum(layer.out_features for layer in linear.values())
scale_bits = {"per matrix": 0, "per row": 16 * rows / in_linear, "per 64 weights": 16 / 64, "per 16 weights": 16 / 16}  # per weight
lost = {name: {bits: found - whole for bits, found in row.items()} for name, row in curve.items()}
figures.lines(
    BITS, {f"scale {name}": {bits + scale_bits[name]: max(0.001, loss) for bits, loss in row.items()} for name, row in lost.items()},
    xlabel="bits per weight, with the scales", ylabel="increase in bits per character", log_y=True,
    title=f"With one scale per matrix, the loss rises by over one bit per character at {broke} bits per weight{your_prediction(breaks_at)}",
)

# %% [markdown]
# The first bits you remove cost next to nothing, and on so little text, differences of a few thousandths are noise. (Increases below 0.001 are drawn
# at 0.001.) Below 5 bits, each bit you remove multiplies the damage. For a given loss, the curve farthest to the left needs the least storage. Small
# groups don't come for free: 3 bits in groups of 16 take as much storage as 4 bits with a scale per row, and lose more.
#
# Bits per character is abstract, so read what the model writes, with a scale per row and the same random seed.

# %%
for bits in BITS:
    lossy = changed(model, lambda w: rounded(w, bits, w.shape[1]))
    written = training.sample(lossy, prompt="ROMEO:\n", count=CHARACTERS)
    print(f"{bits} bits: {written.removeprefix('ROMEO:').strip()!r}")

# %% [markdown]
# At 8 bits nothing can change, since that's what the file holds. On our machine the text is the same at 6 and 5 bits, letter for letter. At 4 and 3
# the model makes different choices, but they aren't clearly worse. At 2 it babbles. All of this holds for one model of ten million weights; others
# break at other bit widths.

# %%
# @title Check these claims on your machine { display-mode: "form" }
at = curve["per matrix"]
holds(at.get(5, whole), whole - 0.02, whole + 0.05, "At 5 bits with a scale per matrix, the model is about as good as before.", fast=FAST)
holds(at.get(2, 20), whole + 1, 20, "At 2 bits with a scale per matrix, the model falls apart.", fast=FAST)
steeper = [row[few] / row[more] for row in lost.values() for more, few in itertools.pairwise(BITS) if more <= 5 and row[more] > 0]
holds(lost["per 16 weights"].get(3, 2) / lost["per row"].get(4, 1), 1.2, 6, "At 4 bits per weight, scales included, groups of 16 lose more than whole rows.", fast=FAST)
holds(min(steeper, default=3), 2, 100, "Below 5 bits, each bit you remove multiplies the damage.", fast=FAST)

# %% [markdown] tags=["minutes-8"]
# ## Same function, different weights
#
# The next change makes no difference to what the model computes.

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
# **Predict.** So far, going down to 6 bits with a scale per row has cost almost nothing. Round this model to 6 bits in the same way. How many bits
# per character does it need?

# %%
with_outlier = None  # @param {type:"number"}

# %%
by_row = bits_per_character(changed(spoiled, lambda w: rounded(w, 6, w.shape[1])))
print(f"6 bits, a scale per row: {by_row:.3f} bits per character{your_prediction(with_outlier)}")

# %% [markdown]
# The function is the same, but six bits are no longer enough. Why? Look at the codes of one layer, before the change and after it.

# %%
spoiled_w = spoiled.blocks[0].expand.weight.detach()  # (1536, 384)
codes = {"as trained": quantize(w, 6, 384)[0], "after the change": quantize(spoiled_w, 6, 384)[0]}  # from -31 to 31
zeros = {name: (these == 0).float().mean().item() for name, these in codes.items()}
columns = spoiled_w.abs().amax(0)  # (384,)
print(f"largest weight in a column: {columns.median():.2f} in the median column, {columns.max():.2f} in column {columns.argmax()} (counting from 0)")

# %%
# @title Draw the codes { display-mode: "form" }
with figures.canvas(8.4, 3.1, columns=2, title=f"{zeros['as trained']:.0%} of the 6-bit codes are 0 as trained, and {zeros['after the change']:.0%} after the change") as (figure, axes):
    for panel, (name, these) in zip(axes, codes.items()):
        image = panel.imshow(these[:32, :48].cpu(), cmap="RdBu", vmin=-31, vmax=31)
        panel.set(title=name, xlabel="column", ylabel="row")
        panel.grid(visible=False)
    figure.colorbar(image, ax=axes, label="code")
    picture = figures.finish(figure, f"Two heat maps of the same 32 rows and 48 columns of 6-bit codes. As trained they vary; after the change, column {columns.argmax()} is at its extremes, and {zeros['after the change']:.0%} of all codes are 0.")
picture

# %% [markdown]
# A scale is set by the largest weight of its group. One column is now 100 times as large as it was, so it sets the scale of nearly every row, and
# most of the other weights are rounded to −1, 0, or 1 times the scale. One large column costs the rest of the matrix its precision.
#
# How can such a column make no difference? For each row, the layer computes w₁x₁ + w₂x₂ + w₃x₃ + … . If w₃ becomes 100 times as large in every row,
# and x₃ becomes a hundredth of what it was, their product stays the same. The x's come from a layer norm, which has a weight and a bias for each of
# them, so it's enough to divide x₃'s weight and bias by 100. That's what the folded cell does, to one column in each of twelve layers.
#
# Such a column is called an *outlier*. There are three remedies: smaller groups confine it, a scale per *column* gives it a scale of its own, and
# dividing the column by 100 undoes the change.

# %%
repaired = {
    "a scale per 64 weights": changed(spoiled, lambda w: rounded(w, 6, 64)),
    "a scale per 16 weights": changed(spoiled, lambda w: rounded(w, 6, 16)),
    "a scale per column": changed(spoiled, lambda w: rounded(w.T, 6, w.shape[0]).T),
    "a scale per row, with the change undone": changed(scale_a_column(spoiled, times=1 / 100), lambda w: rounded(w, 6, w.shape[1])),
}
repaired = {name: bits_per_character(model) for name, model in repaired.items()}
print(*(f"6 bits, {name}: {found:.3f}" for name, found in repaired.items()), sep="\n")

# %%
# @title Check these claims on your machine { display-mode: "form" }
holds(same, whole - 0.002, whole + 0.002, "The large column changes nothing by itself.", fast=FAST)
holds(by_row - whole, 0.5, 20, "With a scale per row, one large column spoils the model at 6 bits.", fast=FAST)
holds(max(repaired["a scale per column"], [*repaired.values()][-1]) - whole, -0.02, 0.02, "A scale per column repairs the model, and so does undoing the change.", fast=FAST)
holds(repaired["a scale per 16 weights"] - whole, -0.02, 0.05, "Groups of 16 repair the model, too.", fast=FAST)

# %% [markdown]
# Why not use a scale per column everywhere? If the inputs x are rounded to integers, too, as in a layer later in this lesson, the chip can add up
# products of integers, provided that the scale can be applied once, after the sum. Take a 2 × 2 matrix with codes c. The first element of its output
# is
#
# - s₁c₁₁x₁ + s₁c₁₂x₂ = s₁(c₁₁x₁ + c₁₂x₂) with a scale per row: the sum in parentheses is all integers, and the scale can wait until the end;
# - s₁c₁₁x₁ + s₂c₁₂x₂ with a scale per column: there's nothing to factor out. (Groups need an integer sum for each group.)
#
# You could multiply each x by its column's scale before you round it, but then the large column's x becomes the outlier, among the inputs. (Where
# only the weights are rounded, that does no harm: the fourth repair above did it in the layer norm.)
#
# This outlier was made by hand, and it's in the weights. In large language models the worst outliers are in the activations. The authors of
# [LLM.int8()](https://arxiv.org/abs/2208.07339) found them in every layer once a model reached 6.7 billion parameters, and their method computes with
# those columns in 16 bits. [SmoothQuant](https://arxiv.org/abs/2211.10438) does in moderation what the folded cell did: it makes large activations
# smaller and the matching columns of weights larger, until both round well.

# %% [markdown] tags=["minutes-9", "short-4"]
# ## Two bits, better spent
#
# At 2 bits, the model babbled. Can 2 bits do better? Three things can be changed without storing a bit more:
#
# - *The levels.* At 2 bits, `quantize` uses three of the four codes: −1, 0, and 1 times the scale. You could use four evenly spaced levels instead: −1, −⅓,
#   ⅓, and 1, with no zero.
# - *The scales.* A smaller scale clips a group's largest weights and rounds the others more finely. *Clipping search* tries a few, and keeps the one with
#   the smallest squared error.
# - *The size of a row.* Along the direction of the original row w, the rounded row ŵ may reach only part of the way: ŵ·w ÷ w·w of it. Divide the row's
#   scales by that, and it reaches all the way.
#
# **Predict.** With three levels and groups of 64, the model needs about 3.6 bits per character. How many does it need with the best combination of
# these changes?

# %%
at_best = None  # @param {type:"number"}

# %%
def uniform(count):
    return torch.linspace(-1, 1, count, device=device)


def encode(w, levels, factor=1):
    blocks = w.reshape(-1, 64)
    scale = blocks.abs().amax(1, keepdim=True).clamp_min(1e-12) * factor  # a factor below 1 clips the largest weights
    return torch.bucketize(blocks / scale, (levels[1:] + levels[:-1]) / 2), scale  # the midpoints between levels separate the codes

# %%
# @title Draw weights and levels { display-mode: "form" }
relative = (w.reshape(-1, 64) / w.reshape(-1, 64).abs().amax(1, keepdim=True)).flatten().cpu()  # to the largest of its group
below_half = (relative.abs() < 0.5).float().mean().item()
sets = {"three levels": uniform(3), "four levels": uniform(4), "four levels, scale × 0.55": 0.55 * uniform(4)}
with figures.canvas(8.4, 3.4, title=f"{below_half:.0%} of the weights are less than half as large as the largest in their group") as (figure, axes):
    axes.hist(relative.numpy(), bins=81, density=True, color=figures.COLORS[5], alpha=0.4)
    for place, (name, values) in enumerate(sets.items()):
        axes.plot(values.cpu(), [-0.15 * (place + 1)] * len(values), ls="-", lw=0.5, marker=figures.MARKERS[place], color=figures.COLORS[place], label=name)
    axes.set(xlabel="weight, relative to the largest in its group of 64", ylabel="share of the weights", yticks=[])
    axes.legend(loc="upper left", frameon=False)
    picture = figures.finish(figure, f"Histogram of one layer's weights, relative to the largest in their group of 64: a bell around 0, with {below_half:.0%} below one half. Under it, three rows of levels: three and four, evenly spaced from -1 to 1, and four from -0.55 to 0.55, which lie closer together where the weights are and clip the rest.")
picture

# %%
def nearest(w, levels, factors=(1,)):  # each group gets the factor with the smallest squared error
    tries = torch.stack([levels[codes] * scale for codes, scale in (encode(w, levels, factor) for factor in factors)])  # (factors, groups, 64)
    best = (tries - w.reshape(-1, 64)).square().sum(2).argmin(0)  # (groups,)
    return tries[best, torch.arange(len(best), device=device)].reshape(w.shape)


def rescaled(w, back):  # one factor per row: its rounded weights no longer shrink
    return back * (w.square().sum(1, keepdim=True) / (back * w).sum(1, keepdim=True))


before = bits_per_window(model)  # (windows,)


def damage(change):  # the increase in bits per character, and its standard error
    increase = bits_per_window(changed(model, change)) - before
    return increase.mean().item(), (increase.std() / len(increase) ** 0.5).item()


# %%
levels = {"three levels": uniform(3), "four levels": uniform(4)}
scales = {"absmax": (1,), "searched": (0.4, 0.55, 0.7, 0.85, 1)}
spent, errors, shrinkage = ({name: {} for name in levels} for _ in range(3))
for (name, values), (kind, factors) in itertools.product(levels.items(), scales.items()):
    spent[name][f"{kind} scales"] = damage(lambda w: nearest(w, values, factors))
    spent[name][f"{kind}, rescaled"] = damage(lambda w: rescaled(w, nearest(w, values, factors)))
    back = nearest(w, values, factors)
    errors[name][kind], shrinkage[name][kind] = error(back, w), 1 - ((back * w).sum() / w.square().sum()).item()  # 0: as long as w, along w
for name, row in spent.items():
    print(name + ":", "; ".join(f"{way} +{more:.3f} ± {off:.3f}" for way, (more, off) in row.items()))
    print("    error of one layer's weights: " + ", ".join(f"{off:.0%} with {kind} scales, which shrink them by {shrinkage[name][kind]:.0%}" for kind, off in errors[name].items()))
four_levels = whole + spent["four levels"]["absmax scales"][0]

# %%
# @title Draw what 2 bits cost { display-mode: "form" }
worst, best = max(more for row in spent.values() for more, _ in row.values()), min(more for row in spent.values() for more, _ in row.values())
figures.grouped_bars(
    {name: {way: more for way, (more, _) in row.items()} for name, row in spent.items()}, unit="bits per character",
    title=f"At the same {2 + 16 / 64:.2f} bits per weight, the damage falls from {worst:.2f} to {best:.2f}\nThe best model needs {whole + best:.2f} in all{your_prediction(at_best)}",
)

# %% [markdown]
# (The figure after ± is one standard error, over the 24 windows.) Look at the results for four levels. Searched scales take a third off the error in
# the weights, and make the model *worse*. Rescaling the rows, by itself, does little. Together, they take away more than half of the damage.
#
# Why? The search minimizes the squared error. A smaller scale clips the largest weights, which shrinks a row, but rounds all the others more finely,
# so it wins by that measure. How much harm does shrinking do? To find out, round nothing, and change every weight by the same percentage: shrink all
# of them, shrink or enlarge each row at random, or each weight at random.

# %%
shrunk = shrinkage["four levels"]["searched"]


def flipped(w, *shape):  # shrunk or enlarged, at random
    return w * (1 - shrunk * (1 - 2 * torch.randint(2, shape, device=device)))


torch.manual_seed(0)
alike = {
    "all the weights shrink": damage(lambda w: (1 - shrunk) * w),
    "each row shrinks or grows": damage(lambda w: flipped(w, len(w), 1)),
    "each weight shrinks or grows": damage(lambda w: flipped(w, *w.shape)),
}
for what, (more, off) in alike.items():
    print(f"{what}, by {shrunk:.0%}: +{more:.3f} ± {off:.3f}")

# %% [markdown]
# Every weight is off by the same percentage each time, but only errors that all point the same way do real harm. That's the kind that searched scales
# make, and rescaling the rows removes it. So a more accurate set of weights can make a worse model. (With three levels and absmax scales, the weights
# shrink as much, but there the rounding itself does far more harm.)
#
# Now let the worst of the 2-bit models write, and then the best:

# %%
pair = {
    "three levels, absmax scales": lambda w: nearest(w, uniform(3)),
    "four levels, searched scales, rows rescaled": lambda w: rescaled(w, nearest(w, uniform(4), scales["searched"])),
}
for name, change in pair.items():
    written = training.sample(changed(model, change), prompt="ROMEO:\n", count=CHARACTERS)
    print(f"{name}: {written.removeprefix('ROMEO:').strip()!r}")

# %% [markdown] tags=["minutes-4", "short-3"]
# ## The model in 4 bits
#
# At 4 bits, does the choice of levels matter? *NF4*, QLoRA's format, has its levels closer together near zero, where most weights are: it takes them
# from the quantiles of a normal distribution.

# %%
def nf4_levels():
    last = 1 - (1 / 32 + 1 / 30) / 2  # QLoRA's choice: the outermost quantile can't be at infinity
    above = torch.special.ndtri(torch.linspace(0.5, last, 9, dtype=torch.float64))  # from 0 up
    below = -torch.special.ndtri(torch.linspace(0.5, last, 8, dtype=torch.float64)).flip(0)  # up to 0, with one level fewer
    return (torch.cat([below[:-1], above]) / above[-1]).float().to(device)


at_four = {}
for name, values in {"NF4": nf4_levels(), "16 uniform levels": uniform(16)}.items():
    at_four[name], off = damage(lambda w: nearest(w, values))
    print(f"{name}: +{at_four[name]:.3f} ± {off:.3f} bits per character; error of one layer's weights {error(nearest(w, values), w):.1%}")

# %% [markdown]
# NF4 has the smaller error, but by their losses the two can't be told apart here. On larger models, [QLoRA's
# authors](https://arxiv.org/abs/2305.14314) found NF4 ahead. ([GPTQ](https://arxiv.org/abs/2210.17323) and [AWQ](https://arxiv.org/abs/2306.00978),
# which you'll meet in the names of models, choose codes and scales with the help of sample inputs, the *calibration data*.)
#
# So far, the rounded weights have still been stored as float32. To save memory, store codes and scales instead. Two 4-bit codes fit in a byte, and a
# layer can dequantize its weights whenever it's called:

# %%
class PackedLinear(nn.Module):
    def __init__(self, layer, levels):
        super().__init__()
        codes, scale = encode(layer.weight.detach(), levels)  # (groups, 64) and (groups, 1)
        first, second = codes.to(torch.uint8).reshape(-1, 2).T  # of each pair of neighbors
        self.codes, self.scale, self.levels = first * 16 + second, scale, levels  # a pair per byte: the first is in the upper four bits
        self.shape, self.bias = layer.weight.shape, layer.bias

    def forward(self, x):
        codes = torch.stack([self.codes >> 4, self.codes & 15], 1).reshape(-1, 64)  # (groups, 64)
        w = (self.levels[codes.int()] * self.scale).reshape(self.shape)  # float32, until the call returns
        return F.linear(x, w, self.bias)


# %%
packed = copy.deepcopy(model)
for block in packed.blocks:
    for name, layer in [*block.named_children()]:
        if isinstance(layer, nn.Linear):
            setattr(block, name, PackedLinear(layer, nf4_levels()))
layers = [layer for layer in packed.modules() if isinstance(layer, PackedLinear)]
in_layers = sum(layer.codes.numel() + 4 * layer.scale.numel() for layer in layers)  # bytes
print(f"{4 * in_linear / 1e6:.1f} MB of weights in linear layers become {in_layers / 1e6:.1f} MB, with float32 scales: {8 * in_layers / in_linear:.1f} bits per weight")
written = training.sample(packed, prompt="ROMEO:\n", count=CHARACTERS)
print(f"{bits_per_character(packed):.3f} bits per character; it writes {written.removeprefix('ROMEO:').strip()!r}")

# %% [markdown]
# bitsandbytes, the library behind QLoRA, stores weights in this format. Does it arrive at the same bytes?

# %%
# needs: bitsandbytes
from bitsandbytes import functional as bnb

theirs = [bnb.quantize_4bit(layer.weight.detach().cpu(), blocksize=64, quant_type="nf4")[0].flatten() for layer in linear.values()]
ours = [layer.codes.cpu() for layer in layers]
print(f"{(torch.cat(theirs) == torch.cat(ours)).float().mean():.3%} of bitsandbytes' bytes match ours")

# %% [markdown]
# It can also quantize the scales (*double quantization*), which brings the total to 4.13 bits per weight.

# %%
# @title Check these claims on your machine { display-mode: "form" }
three, four = ({way: more for way, (more, _) in row.items()} for row in spent.values())
plain, searched, both_remedies = four["absmax scales"], four["searched scales"], four["searched, rescaled"]
holds(three["absmax scales"] - plain, 0.5, 5, "At 2 bits, the fourth level is worth more than half a bit per character.", fast=FAST)
holds(errors["four levels"]["searched"] / errors["four levels"]["absmax"], 0.55, 0.8, "Searched scales take a third off the error in the weights.", fast=FAST)
holds(searched - plain, 0.02, 1, "Searched scales make the model worse.", fast=FAST)
holds(four["absmax, rescaled"] / plain, 0.8, 1.1, "Rescaling the rows by itself does little.", fast=FAST)
whole_model, rows, single = (more for more, _ in alike.values())
holds(min(whole_model / max(rows, 1e-3), whole_model / max(single, 1e-3)), 3, 500, "Only errors that all point the same way do real harm.", fast=FAST)
holds(both_remedies / plain, 0.1, 0.5, "Together, they take away more than half of the damage.", fast=FAST)
holds(abs(at_four["NF4"] - at_four["16 uniform levels"]), 0, 0.01, "At 4 bits, NF4 and uniform levels do equally well.", fast=FAST)

# %% [markdown] tags=["minutes-12", "short-10"]
# ## Is it faster?
#
# The packed model is a fraction of the size. Is it also faster? Give both a single character.

# %%
one = windows[:1, :1]
with torch.no_grad():
    times = benchmark.compare({"in 32 bits": lambda: model(one), "packed": lambda: packed(one)}, budget=SECONDS)
packed_takes = times["packed"].median / times["in 32 bits"].median
print("; ".join(f"{1e3 * time.median:.1f} ms {name}" for name, time in times.items()) + f": packed, it takes {packed_takes:.1f} times as long")

# %% [markdown]
# A packed layer unpacks its codes, looks up their levels, and scales them, each in an operation of its own that writes its result to memory. Only
# then can the matmul begin. A *fused* kernel never writes dequantized weights to memory. PyTorch has one for 8-bit weights on CPUs: it rounds the
# input to 7-bit integers, too (*dynamic quantization*), and multiplies integers. Compare it with the simplest conversion, one operation that turns
# 8-bit integers into float32. The layer has a 4,096 × 4,096 matrix, like those in a model with 7 billion weights, and its input is one row, as when a
# chatbot generates its next token.
#
# **Predict.** On this machine's CPU, with one row, how many times as fast is the fused layer as the 32-bit one? (1 means equally fast.)

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
buffer = torch.empty(WIDE, WIDE)  # for the converted weights
bytes_moved = {"in 32 bits": 4, "in 8 bits, fused": 1, "in 8 bits, converted first": 1 + 4 + 4}  # per weight: read, written, and read back
gains, slower, bandwidth = {}, {}, {}
with torch.no_grad():
    for rows in (1, 64):
        x = torch.randn(rows, WIDE)
        ways = (lambda: layer(x), lambda: eight_bits(x), lambda: x @ buffer.copy_(codes).T * scale.T)  # a scale per row can wait until the end
        times = benchmark.compare(dict(zip(bytes_moved, ways)), budget=SECONDS)
        slower[rows] = times["in 8 bits, converted first"].median / times["in 32 bits"].median
        gains[rows] = times["in 32 bits"].median / times["in 8 bits, fused"].median
        bandwidth[rows] = {name: bytes_moved[name] * WIDE**2 / time.median for name, time in times.items()}  # bytes/s
        print(f"{rows} row{'s' if rows > 1 else ''}: " + "; ".join(f"{1e3 * time.median:.1f} ms {name}, {bandwidth[rows][name] / 1e9:.0f} GB/s" for name, time in times.items()))
        print(f"   fused, it's {gains[rows]:.1f}× as fast{your_prediction(fused_gains, '×') if rows == 1 else ''}, with a relative error of {error(eight_bits(x), layer(x)):.1%}")

# %%
# @title Check these claims on your machine { display-mode: "form" }
holds(packed_takes, 1.5, 100, "The packed model takes longer.", fast=FAST)
holds(max(bandwidth[1].values()) / min(bandwidth[1].values()), 1, 2, "With one row, all three move about the same number of gigabytes per second.", fast=FAST)
holds(slower[1], 1.5, 3.4, "With one row, converting first takes much longer than the 32-bit layer.", fast=FAST)

# %% [markdown]
# As in lesson 02, the time is set by the slower of two things, moving the bytes or doing the arithmetic. With one row, each weight is used once, for
# two operations, so the layer is *memory-bound*: all three move about the same number of gigabytes per second. Converting the weights first means
# moving 9 bytes per weight instead of 4: read 1, write 4, and read them back. (The same weights are read again and again, so a large cache may hold
# some of them.) At 64 rows, each weight is used 64 times. Then the layer is *compute-bound*, and fewer bytes no longer explain the gain. Presumably,
# one vector instruction multiplies more 8-bit integers than 32-bit floats.
#
# ### On a T4
#
# Many quantized language models store only their weights in 8 or 4 bits, and multiply in 16. That's *weight-only* quantization. How fast should it be
# on a T4? Take Qwen2.5-3B, whose linear layers hold 2.77 billion weights, and apply the same rule: moving the bytes or doing the arithmetic,
# whichever takes longer. (KV caches are left out.)

# %%
t4 = chip_throughput.rates("T4")
memory, multiply = t4["memory"].value, t4["fp16"].value
linear_weights, table = 2.77e9, 0.31e9  # the table, embedding and output layer in one, stays in 16 bits


def step(sequences, bits, before=0):  # seconds; before: bytes moved before the multiplication can start
    moved = linear_weights * bits / 8 + 2 * table
    return before / memory + max(moved / memory, 2 * sequences * (linear_weights + table) / multiply)


dequantizing = linear_weights * (4.5 + 16) / 8  # bytes: read 4.5 bits per weight, write 16
last = multiply / memory  # 2 operations per row and weight, 2 bytes per weight
fp16, nf4 = (published_results.get(f"decode-qwen3b-t4-{kind}").points for kind in ("eager", "nf4"))  # tokens/s, by number of sequences
for rate, row in {f"{memory / 1e9:.0f} GB/s": "copy-t4", f"{multiply / 1e12:.0f} TFLOP/s in fp16": "matmul-t4-formats"}.items():
    print(f"{rate}: measured on a T4, {published_results.get(row).credit}")
print(f"one user, by this rule (a roofline): about {1 / step(1, 16):.0f} tokens/s at best in fp16, {1 / step(1, 4.5):.0f} in NF4; from {last:.0f} rows up, even fp16 is compute-bound, and weight-only quantization can't help")

# %% [markdown]
# The authors of bitsandbytes [measured
# it](https://github.com/bitsandbytes-foundation/bitsandbytes/blob/main/benchmarking/README.md) on a T4 in 2024. In fp16, the model wrote 26 tokens
# per second for one user.
#
# **Predict.** How many did it write in NF4?

# %%
nf4_tokens = None  # @param {type:"number"}

# %%
print(f"one user: {nf4[1]:.0f} tokens/s in NF4{your_prediction(nf4_tokens)}, {fp16[1]:.0f} in fp16")
for name, speeds in {"fp16": fp16, "NF4": nf4}.items():
    print(f"{name}, per step: " + ", ".join(f"{1e3 * n / speed:.0f} ms for {n}" for n, speed in speeds.items()) + " sequences")
extra = 1 / nf4[1] - 1 / fp16[1]
print(f"For one sequence, NF4 takes {1e3 * extra:.0f} ms longer than fp16, or {1e6 * extra / (36 * 7):.0f} µs more for each of the 36 × 7 linear layers, on average.")

# %%
# @title Draw the T4's times, and compare two other chips { display-mode: "form" }
for chip, sixteen_bits in {"4090": "bf16", "h100": "eager"}.items():
    sixteen, four = (published_results.get(f"decode-llama3-{chip}-{kind}") for kind in (sixteen_bits, "nf4"))
    print(f"{four.chip}, Llama 3.1 8B, one user: {four.points[1] / sixteen.points[1]:.2f} times as fast in NF4 as in bf16")
many = sorted([2 ** (k / 4) for k in range(41)] + [last])
lines = {"fp16": [16], "NF4, fused": [4.5], "NF4, dequantized first": [16, dequantizing]}
with figures.canvas(8.4, 3.8, title=f"In 2024, for one user, a T4 wrote {nf4[1]:.0f} tokens per second in NF4{your_prediction(nf4_tokens)}, and {fp16[1]:.0f} in fp16") as (figure, axes):
    for place, (name, how) in enumerate(lines.items()):
        axes.plot(many, [1e3 * step(n, *how) for n in many], color=figures.COLORS[place], lw=1.4, ls="--", label=f"{name}, roofline")
    for place, (name, speeds) in zip((0, 1), {"fp16": fp16, "NF4": nf4}.items()):
        axes.plot([*speeds], [1e3 * n / speed for n, speed in speeds.items()], color=figures.COLORS[place], marker=figures.MARKERS[place], mfc="white", lw=1, label=f"{name}, published")
    axes.set(xscale="log", yscale="log", xlabel="sequences in the batch", ylabel="ms per step")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    picture = figures.finish(figure, f"Milliseconds per step against sequences on a T4: roofline lines for fp16 and NF4, and published measurements at 1, 8, and 32 sequences above them. NF4 takes {1e3 / nf4[1]:.0f}, {8e3 / nf4[8]:.0f}, and {32e3 / nf4[32]:.0f} ms, more than fp16 each time.")
picture

# %% [markdown]
# By the roofline, NF4 could be nearly three times as fast as fp16 on the T4, but it was slower at all three batch sizes. At the time, the library had
# a fused kernel only for a single row; for more rows, it dequantized first. But even with the fused kernel, for one sequence, a layer took 87 µs
# longer than in 16 bits, on average. Only a profile would show whether the kernel or the calls around it are to blame.
#
# It depends on the chip: with another model and one user, the same version of the library was 1.4 times as fast in NF4 as in bf16 on an RTX 4090, but
# slower on an H100. [Version 0.50](https://github.com/bitsandbytes-foundation/bitsandbytes/releases/tag/0.50.0), of 2026, brought new fused kernels.
# Its authors found them up to four times as fast as the old ones for 2 to 64 rows, and often faster for one. Fewer bytes raise the limit; the library
# decides how close you get. If you have an NVIDIA GPU, time yours:

# %%
# @title Time a layer on your GPU, if you have one { display-mode: "form" }
# needs: bitsandbytes
from bitsandbytes.nn import Linear4bit

if device.type == "cuda":
    half = nn.Linear(WIDE, WIDE, bias=False, dtype=torch.float16, device=device)
    four_bits = Linear4bit(WIDE, WIDE, bias=False, compute_dtype=torch.float16, compress_statistics=False, quant_type="nf4")
    four_bits.load_state_dict(half.state_dict())
    four_bits = four_bits.to(device)  # quantizes
    for rows in (1, 8, 64, 512):
        x = torch.randn(rows, WIDE, dtype=torch.float16, device=device)
        with torch.no_grad():
            times = benchmark.compare({"fp16": lambda: half(x), "NF4": lambda: four_bits(x)}, budget=SECONDS)
        print(f"{rows:>3} rows: " + "; ".join(f"{1e6 * time.median:,.0f} µs in {name}" for name, time in times.items()))
else:
    print("There's no NVIDIA GPU on this machine.")

# %% [markdown]
# In training, every token is a row: two sequences of 1,024 tokens make 2,048 rows. There, 4 bits save memory and cost time. That saving is what makes
# QLoRA (fine-tuning on top of a model in NF4, lesson 15) possible on a T4.

# %% [markdown] tags=["minutes-6"]
# ## Exercises
#
# ### 1 · How many gigabytes?
#
# Qwen3-8B has 6.9 billion weights in linear layers, and 1.2 billion in its embedding and its output layer, which usually stay in 16 bits. How many GB
# does the model take with everything in 16 bits, and with 4-bit linear layers that have a 16-bit scale per 64 weights? One GB is 10⁹ bytes.

# %% tags=["exercise"]
fits = {"16 bits": ..., "4 bits": ...}  # GB
### BEGIN SOLUTION
fits = {"16 bits": (6.9e9 + 1.2e9) * 2 / 1e9, "4 bits": (6.9e9 * (4 + 16 / 64) / 8 + 1.2e9 * 2) / 1e9}
### END SOLUTION
exercises.check("12.fits", fits)

# %% [markdown]
# ### 2 · A different chip
#
# According to its data sheet, an L4 moves 300 GB/s and multiplies fp16 at 121 TFLOP/s (242 with sparsity). Up to how many rows can weight-only
# quantization help on an L4? And how many tokens per second, at most, can an 8 GB model generate for one user?

# %% tags=["exercise"]
on_l4 = {"rows": ..., "tokens": ...}
### BEGIN SOLUTION
on_l4 = {"rows": 121e12 / 300e9, "tokens": 300e9 / 8e9}
### END SOLUTION
exercises.check("12.chip", on_l4)

# %% [markdown]
# ### 3 · Values that are never negative
#
# After a ReLU all values are 0 or more, so half of `quantize`'s codes go unused. Spread all 256 of the 8-bit codes evenly from 0 to the largest value
# (*unsigned* quantization), and return the dequantized values. The error should be about half as large.

# %% tags=["exercise"]
def rounded_positive(x):
    return ...


### BEGIN SOLUTION
def rounded_positive(x):
    scale = x.max().clamp_min(1e-12) / 255
    return (x / scale).round().clamp(0, 255) * scale


### END SOLUTION
exercises.check("12.positive", rounded_positive)

# %% [markdown] tags=["minutes-1", "short-0"]
# ## The scoreboard

# %%
scoreboard.show("12")

# %%
per_row = curve["per row"]
takeaways = {
    "An outlier costs the rest of the matrix its precision": f"one large column leaves the function the same, but at 6 bits the model needs {by_row:.2f} bits per character with a scale per row, and {repaired['a scale per column']:.2f} with a scale per column.",
    "Errors that all point the same way do the most harm": f"{shrunk:.0%} off every weight costs {whole_model:.2f} bits per character if all of them shrink, and {single:.3f} if each shrinks or grows at random.",
    "Fewer bytes make a speedup possible; the kernel decides whether you get it": f"for one row on this CPU, 8 bits were {gains[1]:.1f}× as fast as 32 with a fused kernel, and took {slower[1]:.1f}× as long if they were converted first; on a T4, with the kernels of 2024, NF4 wrote {nf4[1]:.0f} tokens/s where fp16 wrote {fp16[1]:.0f}.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess, inventory = measurements.Value, measurements.Prediction, hardware.list_devices()
measurements.record(
    "12_quantize", FAST, device=inventory.main,
    predicted={
        "breaks_at": guess(breaks_at, broke),
        "with_outlier": guess(with_outlier, by_row),
        "at_best": guess(at_best, whole + best),
        "fused_gains": guess(fused_gains, gains[1], "×"),
        "nf4_tokens": guess(nf4_tokens, nf4[1]),
    },
    whole=value(whole, "bits per character", "the model as shipped"),
    packed=value(in_layers / 1e6, "MB", "the linear layers, packed in NF4"),
    packed_takes=value(packed_takes, "×", "time for one character with packed layers, relative to float32"),
    **{f"row_{bits}": value(found, "bits per character", f"{bits} bits per weight and a scale per row") for bits, found in per_row.items()},
    matrix_broke=value(broke, "", "bits per weight at which a scale per matrix breaks the model"),
    same=value(same, "bits per character", "with a large column, not rounded"),
    outlier_row=value(by_row, "bits per character", "with a large column, 6 bits, a scale per row"),
    outlier_column=value(repaired["a scale per column"], "bits per character", "with a large column, 6 bits, a scale per column"),
    nf4=value(whole + at_four["NF4"], "bits per character", "NF4"),
    four_levels=value(four_levels, "bits per character", "2 bits, four uniform levels, groups of 64"),
    repaired=value(whole + both_remedies, "bits per character", "the same, with searched scales and rescaled rows"),
    rows_t4=value(last, "", "rows up to which a T4 benefits, estimated"),
    fused_one=value(gains[1], "×", "speed of a fused 8-bit layer relative to 32 bits, one row"),
)

# %% [markdown] tags=["minutes-0"]
# ## A configuration to keep, and what comes next
#
# ```python
# import torch
# from transformers import AutoModelForCausalLM, BitsAndBytesConfig
#
# four_bits = BitsAndBytesConfig(
#     load_in_4bit=True,
#     bnb_4bit_quant_type="nf4",
#     bnb_4bit_use_double_quant=True,  # quantize the scales, too: it saves memory, and costs time
#     bnb_4bit_compute_dtype=torch.float16,  # a T4's tensor cores don't support bfloat16
# )
# model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=four_bits, dtype=torch.float16, device_map="auto")
# ```
#
# Lesson 15 runs code like this on a model that you can train on a free T4.
