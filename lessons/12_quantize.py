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

from colab_helpers import benchmark, chip_rates, hardware, published_results

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
STEPS = STEPS or (100 if FAST else 800)  # of training each
WIDE = WIDE or (1024 if FAST else 4096)  # numbers in and out of a layer that is timed
SECONDS = SECONDS or (0.1 if FAST else 1.0)  # time budget of one measurement

# %%
replay.watch("12_quantize")  # cells that need what is missing show recorded results
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")

# %% [markdown] tags=["minutes-5"]
# ## A network that adds
#
# You need a network that you can break. This one reads `47+38=` and writes `580`, the sum with its last digit first, because that's the order in which one adds. It's a GPT with two layers and 100,000 weights. We train three of them, each from other random weights, on nine tenths of all sums of two numbers up to 99. If 47+38 is a test, 38+47 is one, too.

# %%
sums = data.sums()
train, test = (torch.tensor(part, device=device) for part in (sums.train, sums.test))


# %%
def trained(seed):
    torch.manual_seed(seed)
    model = models.GPT(models.GPTConfig(vocab_size=12, block_size=8, n_embd=64, n_head=16, n_layer=2)).to(device)  # many small heads learn this fastest
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=8e-3, total_steps=STEPS)
    for _ in range(STEPS):
        rows = train[torch.randint(len(train), (128,))]
        logits = model(rows[:, :-1])[:, sums.answer - 1 :]  # (128, 3, 12): after "=" come three digits
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
def quantize(w, bits, group):
    blocks = w.reshape(-1, group)  # weights that share one scale
    top = 2 ** (bits - 1) - 1  # 127 for 8 bits
    scale = blocks.abs().amax(1, keepdim=True).clamp_min(1e-12) / top
    return (blocks / scale).round().to(torch.int8), scale


def rounded(w, bits, group):
    codes, scale = quantize(w, bits, group)
    return (codes * scale).reshape(w.shape)


def error(back, w):  # as a part of the weights
    return (torch.linalg.vector_norm(back - w) / torch.linalg.vector_norm(w)).item()


# %%
w = networks[0].blocks[0].expand.weight.detach()  # (256, 64)
codes, scale = quantize(w, 8, w.numel())
back = rounded(w, 8, w.numel())
for name, numbers in {"weights": w[0, :6], "codes": codes[0, :6], "multiplied back": back[0, :6]}.items():
    print(f"{name:>15}:", *(f"{number:8.4g}" for number in numbers.tolist()))
int8_error = error(back, w)
print(f"{4 * w.numel():,} bytes are {w.numel() + 4:,} now, and the error is {int8_error:.1%} of the weights")

# %% [markdown]
# A quarter of the bytes, for an error that you can hardly see. So let's go on.
#
# **Predict.** With one scale for each matrix, at how many bits does the network first get less than half of the sums right?

# %%
breaks_at = None  # @param {type:"integer"}

# %% [markdown] tags=["minutes-7"]
# ## Take its bits away
#
# All eight linear layers of all networks get fewer and fewer bits. The two embeddings stay as they are. The weights that share a scale are the whole matrix, a row or a column of it, or only 16 in a row.

# %%
def changed(model, change):
    model = copy.deepcopy(model)
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            layer.weight.data = change(layer.weight.data)
    return model


# %%
WAYS = {
    "the matrix": lambda w, bits: rounded(w, bits, w.numel()),
    "a row": lambda w, bits: rounded(w, bits, w.shape[1]),
    "a column": lambda w, bits: rounded(w.T, bits, w.shape[0]).T,
    "16 weights": lambda w, bits: rounded(w, bits, 16),
}
BITS = (8, 6, 5, 4, 3, 2)


def scores(networks):  # for each way and number of bits, a score for each network
    return {way: [[right(changed(network, lambda w: change(w, bits))) for network in networks] for bits in BITS] for way, change in WAYS.items()}


# %%
cliff = scores(networks)
middle = {way: dict(zip(BITS, map(statistics.median, row))) for way, row in cliff.items()}
broke = next((bits for bits in BITS if middle["the matrix"][bits] < 50), 0)
asked = test[:5]
for bits in (32, *BITS):
    model = networks[0] if bits == 32 else changed(networks[0], lambda w: rounded(w, bits, w.numel()))
    said = [data.spell(row) for row in answers(model, asked).cpu().numpy()]
    print(f"{bits:2} bits:", *(f"{text[:6]}{text[:5:-1]}" for text in said), sep="   ")
print("\nwith scales of 16 bits counted:")
for way, bits, each in (("the matrix", 4, 4), ("16 weights", 3, 3 + 16 / 16), ("a row", 4, 4 + 16 / 64)):
    print(f"   {bits} bits and a scale for {way:>10}: up to {each:.2f} bits for each weight, {middle[way][bits]:5.1f} % right")

# %%
# @title Draw the cliff { display-mode: "form" }
guess = f" (you said {breaks_at})" if breaks_at else ""
figures.panels(
    {"as trained": {f"a scale for {way}": row for way, row in cliff.items()}}, [str(bits) for bits in BITS],
    title=f"With one scale for the matrix, the networks break at {broke} bits{guess}", xlabel="bits for each weight", ylabel="sums right, %", top=100,
)

# %% [markdown]
# The lines are medians, and the small dots are the single networks. From the left, nothing happens for a long time. Then, within two or three bits, everything is lost. Each bit less at least doubles the rounding error, and you don't see it as long as the right digit stays ahead of all others.
#
# Smaller groups move the cliff to the right, but they aren't free. A 16-bit scale for 16 weights adds one bit to each. Compare the two lines that spend 4 bits in all: little is left of what groups gained at 3. A scale for a row costs a quarter of a bit, and with it 4 bits lose next to nothing.
#
# Why do they help? A scale is set by the largest weight in its group. So what if one weight is very large?
#
# **Predict.** In each layer behind a norm, multiply column 3 of the weights by 100, and divide the matching input by 100. The network computes the same as before. Now round to 8 bits, with one scale for each matrix. What percentage of sums is right?

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


# %%
spoiled = [with_a_large_column(network) for network in networks]
same = statistics.median(right(network) for network in spoiled)
outlier = scores(spoiled)
left = {way: dict(zip(BITS, map(statistics.median, row))) for way, row in outlier.items()}
zeros = (quantize(spoiled[0].blocks[0].expand.weight.detach(), 8, 64 * 256)[0] == 0).float().mean().item()
print(f"not rounded: {same:.1f} % right, as before. With a scale for the matrix, {zeros:.0%} of the 8-bit codes are 0")
print(*(f"a scale for {way}: {found[8]:.1f} % with 8 bits, {found[6]:.1f} % with 6" for way, found in left.items()), sep="\n")

# %%
# @title Draw it beside the cliff from before { display-mode: "form" }
guess = f" (you said {with_outlier:g})" if with_outlier is not None else ""
matrix = left["the matrix"][8]
figures.panels(
    {name: {f"a scale for {way}": row for way, row in found.items()} for name, found in (("as trained", cliff), ("one column times 100", outlier))},
    [str(bits) for bits in BITS], title=f"The same function, but with a scale for the matrix 8 bits leave {matrix:.0f} %{guess}", xlabel="bits for each weight", ylabel="sums right, %", top=100,
)

# %% [markdown]
# It's the same function, and with one scale for the matrix 8 bits aren't enough any more. The large column sets the scale, and most other weights are rounded to 0 or a step beside it. One outlier spends everybody's bits.
#
# Each row contains one large weight, so a scale for each row is spoiled, too. With 8 bits there are still enough codes left, with 6 there aren't. Groups of 16 confine the damage to one group in four. A scale for each column undoes it completely.
#
# So why doesn't everybody use columns? Where activations are integers as well, the product adds up integers, column by column. A scale for a row can wait until the sum is complete. Column scales differ from term to term, so they can't be factored out.
#
# We made this column by hand. In real language models the large numbers are in the activations. [LLM.int8()](https://arxiv.org/abs/2208.07339) found them in all layers from 6.7 billion parameters on. *SmoothQuant* makes our move on purpose: it takes a part of the factor out of the activations and puts it into the weights. Now you know what that costs.

# %% [markdown] tags=["minutes-7"]
# ## Four bits, where the weights are
#
# Four bits have 16 codes, and `quantize` spreads 15 of them evenly. But weights aren't spread evenly. Most are small, as in a bell curve. *NF4*, the format of QLoRA, takes its levels from the bell: if weights are normally distributed, each level is used about equally often. Here are its 16 levels.

# %%
def levels(count):  # from the middle outwards, each as likely as the next
    last = 1 - (1 / 32 + 1 / 30) / 2  # QLoRA's choice: the outermost can't be at infinity
    return torch.special.ndtri(torch.linspace(0.5, last, count + 1, dtype=torch.float64))[1:]


NF4 = torch.cat([-levels(7).flip(0), torch.zeros(1), levels(8)])  # 7 below zero, 8 above
NF4 = (NF4 / NF4.max()).float().to(device)
EVEN = torch.arange(-7, 9, device=device) / 8  # evenly, but all 16


# %%
def encode(w, levels, signed=False):
    blocks = w.reshape(-1, 64)
    scale = blocks.gather(1, blocks.abs().argmax(1, keepdim=True))  # the largest, with its sign
    if not signed:
        scale = scale.abs()
    distance = ((blocks / scale).unsqueeze(-1) - levels).abs()  # (blocks, 64, 16)
    return distance.argmin(-1), scale


def decode(codes, scale, levels, shape):
    return (levels[codes] * scale).reshape(shape)


# %%
FORMATS = {
    "15 levels, evenly": lambda w: rounded(w, 4, 64),
    "16 levels, evenly": lambda w: decode(*encode(w, EVEN, signed=True), EVEN, w.shape),
    "NF4": lambda w: decode(*encode(w, NF4), NF4, w.shape),
}


# %%
bell = torch.randn(1024, 1024, device=device)
off, sums_right = {}, {}
for name, change in FORMATS.items():
    off[name] = 100 * error(change(bell), bell)
    sums_right[name] = statistics.median(right(changed(network, change)) for network in networks)
    print(f"{name:>17}: error {off[name]:4.1f} % on a bell curve, and the networks get {sums_right[name]:.1f} % right")

# %%
# @title Draw the levels { display-mode: "form" }
blocks = torch.cat([layer.weight.detach().flatten() for layer in networks[0].modules() if isinstance(layer, nn.Linear)]).reshape(-1, 64)
shares = (blocks / blocks.abs().amax(1, keepdim=True)).flatten().cpu()
figures.quantization_levels(
    shares.numpy(), {"evenly": [k / 7 for k in range(-7, 8)], "evenly, all": EVEN.tolist(), "NF4": NF4.tolist()}, title="NF4 has more levels where there are more weights",
    xlabel="weights of a network that adds, divided by the largest of the 64 that share a scale",
)

# %% [markdown]
# The spikes at both ends are the largest weights themselves. NF4's levels crowd in the middle, and its error is the smallest. But look at what made it small: most of the gain comes from using the sixteenth code at all. And our networks don't notice any of it, because at 4 bits in groups of 64 they haven't reached their cliff.
#
# Two codes fit into a byte. Is that what the libraries store? Let's ask bitsandbytes for its bytes, and torchao for its 8 bits.

# %%
codes, scale = encode(bell, NF4)
pairs = codes.to(torch.uint8).reshape(-1, 2)
packed = pairs[:, 0] * 16 + pairs[:, 1]
stored = packed.numel() + 4 * scale.numel()  # bytes
print(f"{4 * bell.numel():,} bytes are {stored:,} now, with their scales: {8 * stored / bell.numel():.1f} bits for each weight")

# %%
# needs: bitsandbytes
from bitsandbytes import functional as bnb

their_bytes, state = bnb.quantize_4bit(bell.cpu(), blocksize=64, quant_type="nf4")
print(f"bitsandbytes: levels differ from ours by {(bnb.get_4bit_type('nf4', device='cpu') - NF4.cpu()).abs().max():.0e} at most")
print(f"{(their_bytes.flatten() == packed.cpu()).float().mean():.3%} of its bytes are ours")

# %%
# needs: torchao
from torchao.quantization import Int8WeightOnlyConfig, quantize_

w = networks[0].blocks[0].expand.weight.detach()
theirs = copy.deepcopy(networks[0])
quantize_(theirs, Int8WeightOnlyConfig())  # all linear layers, a scale for each row
errors = error(theirs.blocks[0].expand.weight.dequantize(), w), error(rounded(w, 8, w.shape[1]), w)
print(f"torchao, 8 bits: error {errors[0]:.2%}, and ours {errors[1]:.2%}")

# %% [markdown]
# Our lines make the same bytes as bitsandbytes. The scales have 32 bits here and cost half a bit for each weight. bitsandbytes can round them as well, and then needs 4.13 bits in all.
#
# You store a seventh of the bytes. Is it faster, too?
#
# **Predict.** A layer keeps its weights in 8 bits, and multiplies them back before each product. For an input of one row, how many times as fast is it here as the same layer in 32 bits? Below 1 means slower.

# %%
faster_here = None  # @param {type:"number"}

# %% [markdown] tags=["minutes-6"]
# ## Is it faster?

# %%
w = torch.randn(WIDE, WIDE, device=device)
codes, scale = quantize(w, 8, WIDE)
gains = {}
for rows in (1, 64):
    x = torch.randn(rows, WIDE, device=device)
    ways = {"32 bits": lambda: x @ w.T, "8 bits": lambda: x @ (codes * scale).T, "multiplying back alone": lambda: codes * scale}
    times = benchmark.compare(ways, budget=SECONDS)
    gains[rows] = times["32 bits"].median / times["8 bits"].median
    print(f"{rows} row{'s' if rows > 1 else ''}: " + ", ".join(f"{name} {1e3 * found.median:.3g} ms" for name, found in times.items()))
t4 = chip_rates.rates("T4")  # as others measured it
memory, multiply = t4["memory"].value, t4["fp16"].value
print(f"a T4 moves {memory / 1e9:.0f} GB/s, and multiplies fp16 with {multiply / 1e12:.0f} TFLOP/s")

# %% [markdown]
# It's slower. On a CPU nearly all of the time goes into multiplying back, and much more of it than the bytes explain. On a GPU it's slower as well: by its bytes alone, a T4 would need a bit more than twice the time of 32 bits. You saved memory and paid with time.
#
# A *fused* kernel does better. It converts each weight in a register, right before the multiplication, so only the small weights travel. With few rows, bytes are what decides. Let's calculate it for a T4, from the two numbers above.
#
# **Predict.** Up to how many rows is a T4 faster with 4 bits than with 16?

# %%
gains_up_to = None  # @param {type:"integer"}

# %%
many = [round(2 ** (k / 4)) for k in range(41)]  # rows


def took(rows, moved):  # seconds: bytes or arithmetic, whichever takes longer
    return max(moved / memory, 2 * rows * 4096**2 / multiply)


# %%
BYTES = {"16 bits": 2 * 4096**2, "8 bits, fused": 4096**2, "4 bits, fused": 4.5 / 8 * 4096**2}
on_t4 = {name: [took(rows, moved) for rows in many] for name, moved in BYTES.items()}
unpack = (BYTES["4 bits, fused"] + BYTES["16 bits"]) / memory  # read the small ones, write the large ones, and then multiply
on_t4["4 bits, unpacked first"] = [unpack + took(rows, BYTES["16 bits"]) for rows in many]
last = multiply / memory  # rows for which arithmetic takes as long as reading 16 bits
at_most = on_t4["16 bits"][0] / on_t4["4 bits, fused"][0]
print(f"4 bits are {at_most:.1f} times as fast at most, up to {last * BYTES['4 bits, fused'] / BYTES['16 bits']:.0f} rows; from {last:.0f} rows on no faster than 16 bits")
for name, seconds in on_t4.items():
    print(f"a model of 6.74 billion weights, {name}: {4096**2 / 6.74e9 / seconds[0]:.0f} tokens/s at most")
print(f"bitsandbytes' authors expected {published_results.get('nf4-turing').value} times as fast on a T4, for one row, from their first kernel (2023)")

# %%
# @title Draw the T4 { display-mode: "form" }
guess = f" (you said {gains_up_to:,})" if gains_up_to else ""
figures.lines(
    many, on_t4, title=f"At best, fewer bytes help a T4 up to {last:.0f} rows{guess}",
    xlabel="rows in the batch", ylabel="time of a layer of 4,096 × 4,096", log=True, units=("", "s"),
)

# %% [markdown]
# Flat parts are waiting for bytes, slopes are arithmetic. The green line lies 3.6 times below the blue one at the left, and joins it on the right. The pink one never gets below: unpacking to memory costs more bytes than it saves. Real kernels take longer than these lines. Which line you get is the library's choice: in its code, bitsandbytes 0.50 fuses on a T4 up to 64 rows and unpacks first for more.
#
# A chatbot that answers one person works at the far left. It reads all weights for each token, so the bytes are its speed. Training works far on the right. There 4 bits save memory and cost time, and that's still what makes QLoRA possible on a T4.

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
# ### 2 · Another chip
#
# By its data sheet, which is always an optimist, an L4 moves 300 GB/s and multiplies fp16 with 120 TFLOP/s. Up to how many rows can fewer bytes help there? And how many tokens a second can a model of 8 GB write for one person at most?

# %% tags=["exercise"]
on_l4 = {"rows": ..., "tokens": ...}
### BEGIN SOLUTION
on_l4 = {"rows": 120e12 / 300e9, "tokens": 300e9 / 8e9}
### END SOLUTION
exercises.check("12.chip", on_l4)

# %% [markdown]
# ### 3 · Numbers that are never negative
#
# After a ReLU all numbers are 0 or more, so half of the codes of `quantize` lie idle. Use all 256 codes of 8 bits, from 0 to the largest number, and return the numbers multiplied back. The error should be half as large.

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
factor = error(rounded(mine, 4, mine.numel()), mine) / error(rounded(mine, 4, 64), mine)
### END SOLUTION
exercises.check("12.mine", factor, weight=mine)

# %% [markdown] tags=["minutes-1"]
# ## Three things to take away

# %%
takeaways = {
    "It's a cliff": f"with 5 bits the networks got {middle['the matrix'][5]:.1f} % of the sums right, with 3 bits {middle['the matrix'][3]:.1f} %.",
    "One outlier spends everybody's bits": f"one large column in some layers, and 8 bits left {matrix:.1f} %. A scale for each column left {left['a column'][8]:.1f} %.",
    "Fewer bytes are faster only where bytes decide": f"here a layer of 8 bits had {gains[1]:.2f}× the speed of 32 bits, since multiplying back took the time. At best, a T4 gains up to {last:.0f} rows.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess, inventory = reference.Value, reference.Prediction, hardware.list_devices()
reference.record(
    "12_quantize", FAST, device=inventory.main,
    predicted={
        "breaks_at": guess(breaks_at, broke),
        "with_outlier": guess(with_outlier, matrix),
        "faster_here": guess(faster_here, gains[1]),
        "gains_up_to": guess(gains_up_to, last),
    },
    untouched=value(untouched, "%", "sums right in 32 bits"),
    int8_error=value(100 * int8_error, "%", "error of 8 bits, a scale for the matrix"),
    matrix_5=value(middle["the matrix"][5], "%", "sums right at 5 bits, a scale for the matrix"),
    matrix_3=value(middle["the matrix"][3], "%", "sums right at 3 bits, a scale for the matrix"),
    row_3=value(middle["a row"][3], "%", "sums right at 3 bits, a scale for a row"),
    same=value(same, "%", "sums right with a large column, not rounded"),
    outlier_matrix=value(matrix, "%", "… at 8 bits, a scale for the matrix"),
    outlier_column=value(left["a column"][8], "%", "… at 8 bits, a scale for a column"),
    even_error=value(off["15 levels, evenly"], "%", "error of 15 even levels"),
    nf4_error=value(off["NF4"], "%", "error of NF4"),
    nf4_right=value(sums_right["NF4"], "%", "sums right in NF4"),
    unpacked_one=value(gains[1], "×", "8 bits unpacked first against 32, one row"),
    rows_t4=value(last, "", "rows up to which a T4 gains, reckoned"),
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
#     bnb_4bit_use_double_quant=True,  # the scales are rounded, too
#     bnb_4bit_compute_dtype=torch.float16,  # a T4 has no fast bfloat16
# )
# model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=four_bits, dtype=torch.float16, device_map={"": 0})
# ```
#
# Now you can find out how few bits your network needs, and what they cost.
