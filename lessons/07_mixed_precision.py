# %%
import os

import torch
from torch import nn
from torch.linalg import vector_norm
from torch.nn import functional as F

from colab_helpers import benchmark, devices, facts, figures, hardware, memory, precision, runtime
from colab_helpers.lessons import data, exercises, reference, replay
from colab_helpers.lessons.predictions import said

replay.watch("07_mixed_precision")  # cells that need what is missing show recorded results
devices.choose_keras_backend("torch")  # see the part on Keras
measured = {}

# %% tags=["parameters"]
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SECONDS_PER_POINT = 0.3  # time budget of one measurement
STEPS = 150  # training steps in each format

# %%
found = torch.accelerator.is_available()
device = torch.accelerator.current_accelerator() if found else torch.device("cpu")
budget = 0.05 if FAST else SECONDS_PER_POINT
inventory = hardware.list_devices()
chip = inventory.main if device.type != "cpu" else inventory.cpu
f"{device}: {chip}"

# %% [markdown]
# ## Three kinds of bits
#
# A floating-point number is a *sign*, an *exponent* that gives the range, and a *mantissa* that gives the
# digits. Formats differ in how many bits go where; "e4m3" means 4 of exponent, 3 of mantissa, and tf32 is a
# way for GPUs to compute products of float32. Here is 0.1 in each, with the format's largest number:

# %%
formats = precision.formats()
figures.bit_layout(
    {name: precision.bits(0.1, entry) for name, entry in formats.items()},
    notes={n: f"(to {f.largest:,.0f})" if f.bits < 17 and f.exponent < 8 else f"(to {f.largest:.1e})"
           for n, f in formats.items()},
    title="0.1 in six formats: bf16 keeps the range of fp32, fp16 keeps more digits",
)

# %% [markdown]
# Too large becomes infinity (*overflow*), too small becomes 0 (*underflow*). And a sum is rounded to the
# nearest number of the format: what is less than half a step away is lost.
#
# **Predict.** What is 256 + 1 in bf16?

# %%
sum_in_bf16 = None  # @param {type:"integer"}

# %%
def shown(value, dtype):
    return torch.tensor(value).to(dtype).item()


special = {}
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    one = torch.tensor(1.0, dtype=dtype)
    special[str(dtype).removeprefix("torch.")] = {
        "70000 is": shown(70000.0, dtype), "1e-8 is": shown(1e-8, dtype),
        "256 + 1 is": (256 * one + one).item(), "2048 + 1 is": (2048 * one + one).item(),
    }
for name, row in special.items():
    print(f"{name:>9}:", ",  ".join(f"{what} {value:g}" for what, value in row.items()))
f"256 + 1 in bf16 is {special['bfloat16']['256 + 1 is']:g}{said(sum_in_bf16)}"

# %% [markdown]
# ### WRONG: keep weights in bf16 and add small updates
#
# A weight of 1, 1,000 updates of 0.001: it should become 2. In bf16 the next number after 1 is 1 + 1/128.

# %%
def after_updates(dtype):
    weight = torch.ones((), dtype=dtype)
    for _ in range(1000):
        weight += 0.001
    return weight.item()


measured["bf16_weight"] = reference.Value(after_updates(torch.bfloat16), "", "1 + 1,000 × 0.001, in bf16")
f"{after_updates(torch.bfloat16)} in place of 2"

# %% [markdown]
# ### RIGHT: keep weights in float32, compute in bf16
#
# That is what *mixed* means: weights and sums in float32, products in the short format.

# %%
measured["fp32_weight"] = reference.Value(after_updates(torch.float32), "", "the same, in float32")
f"{after_updates(torch.float32):.3f}"

# %% [markdown]
# ## What does this chip run by itself?
#
# A format can be *native*, or *emulated*: it works, by way of another format. What decides is the *compute
# capability* of a GPU, NVIDIA's version number for what a chip can do (from 7.0 on there are *tensor cores*, units
# that multiply matrices of short formats), or the flags of a CPU. A TPU makes float32 products out of bf16.

# %%
sheet = hardware.catalogue()
chips = {f"this one ({chip.kind})": chip} | {
    name: hardware.Device(sheet[name].kind, sheet[name].name, "", capability=sheet[name].capability)
    for name in ("T4", "L4", "A100-40", "v5e")
}
for name, other in chips.items():
    support = precision.support(other)
    print(f"{name:>15}:", ", ".join(f"{f} {how}" for f, how in support.items()))
    print(f"{'':>17}train in {precision.advise(other)}")

# %% [markdown]
# On a T4 there is a trap: PyTorch counts emulation as support.

# %% tags=["nbval-check-output"]
facts.quote("bf16-on-t4")

# %%
support = precision.support(chip)
if device.type == "cuda":
    print("bf16 native, says PyTorch:", torch.cuda.is_bf16_supported(including_emulation=False))
native = [name for name, how in support.items() if how == "native"]
f"native here: {', '.join(native)}"

# %% [markdown]
# ## How fast is each?
#
# **Predict.** On *this* chip, how many times as fast as fp32 is a matrix product in bf16?

# %%
times_as_fast = None  # @param {type:"number"}

# %%
dtypes = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def product_seconds(n, dtype):
    a = torch.randn(n, n, device=device).to(dtype)
    return benchmark.measure(lambda: a @ a, budget=budget).median


n = 256 if device.type == "cpu" or FAST else 4096
speeds = {
    f"{name}, {support[name]}": 2 * n**3 / product_seconds(n, dtype) for name, dtype in dtypes.items()
}
fp32, bf16, fp16 = speeds.values()
measured["bf16_product"] = reference.Value(100 * bf16 / fp32, "%", "of the speed of fp32: product in bf16")
measured["fp16_product"] = reference.Value(100 * fp16 / fp32, "%", "of the speed of fp32: product in fp16")
figures.bars(
    speeds, unit="FLOP/s", log=True,
    title=f"bf16 is {bf16 / fp32:.2g}, fp16 {fp16 / fp32:.2g} times as fast as fp32{said(times_as_fast)}",
)

# %% [markdown]
# `set_float32_matmul_precision` lets float32 products use a shorter format inside: TF32 on GPUs from
# compute capability 8.0, bf16 on CPUs that have it. Elsewhere nothing changes.

# %%
inside, large = {}, (256 if FAST else 1024) if device.type == "cpu" else n
for setting in ("highest", "high", "medium"):
    torch.set_float32_matmul_precision(setting)
    inside[setting] = 2 * large**3 / product_seconds(large, torch.float32)
torch.set_float32_matmul_precision("highest")
best = max(inside, key=inside.get)
gain = inside[best] / inside["highest"]
finding = f"{best!r} is {gain:.1f} times as fast" if gain > 1.3 else "no setting changes much here"
figures.bars(inside, unit="FLOP/s", title=f"float32 products: {finding}")

# %% [markdown]
# ## When it does not help
#
# Small work gains nothing. Work that only moves bytes gains 2 at most, from half the bytes. On tensor cores,
# sizes beside a multiple of 8 lose. The ratios are speeds against fp32: above 1 the short format wins.

# %%
advice = precision.advise(chip).format
short = torch.float16 if advice == "fp16" else torch.bfloat16


def add_seconds(count, dtype):
    a = torch.randn(count, device=device).to(dtype)
    out = torch.empty_like(a)  # made once, so that only the sum is timed
    return benchmark.measure(lambda: torch.add(a, a, out=out), budget=budget).median


cases = {
    "product, n = 16": [product_seconds(16, t) for t in (torch.float32, short)],
    f"product, n = {n}": [product_seconds(n, t) for t in (torch.float32, short)],
    f"product, n = {n + 1}": [product_seconds(n + 1, t) for t in (torch.float32, short)],
    "sum, 10 numbers": [add_seconds(10, t) for t in (torch.float32, short)],
    "sum, 10 million": [add_seconds(10**7, t) for t in (torch.float32, short)],
}
ratios = {name: a / b for name, (a, b) in cases.items()}
figures.bars(
    ratios, unit="× as fast",
    title=f"{str(short)[6:]} against float32: from {min(ratios.values()):.2g} to {max(ratios.values()):.2g}",
)

# %% [markdown]
# A sum of many numbers waits for memory, so half the bytes can pay even where the format is emulated.
#
# ## Autocast chooses, op by op
#
# Under `torch.autocast` products run in the short format; a loss, and what else needs range or digits, runs in
# float32. Its lists differ from device to device. Each line below is an operation that really ran.

# %%
net = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 10)).to(device)
x, y = torch.randn(32, 64, device=device), torch.zeros(32, dtype=torch.long, device=device)
with precision.record_operations() as seen, torch.autocast(device.type, dtype=short):
    loss = F.cross_entropy(net(x), y)
casts = sum(operation.name == "_to_copy" for operation in seen)
computed = [o for o in seen if o.name not in ("_to_copy", "t", "detach", "view")]
print(*computed, sep="\n")
f"{casts} casts between; the loss is {loss.dtype}"

# %% [markdown]
# ### WRONG: `backward` inside autocast
#
# The backward pass takes the formats of the forward pass by itself. Inside autocast it is cast again: a part that
# you kept in float32 gets gradients that were computed in a short format. (float32 itself is off by 1e-7.)

# %%
torch.manual_seed(0)
first, island = nn.Linear(64, 64).to(device), nn.Linear(64, 64).to(device)


def island_gradient(inside):
    island.zero_grad()
    with torch.autocast(device.type, dtype=short):
        h = first(x)
        with torch.autocast(device.type, enabled=False):  # an island of float32
            loss = (island(h.float()) ** 2).mean()
        if inside:
            loss.backward()
    if not inside:
        loss.backward()
    return island.weight.grad.clone()


right = island_gradient(inside=False)
wrong_by = float(vector_norm(island_gradient(inside=True) - right) / vector_norm(right))
measured["backward_inside"] = reference.Value(wrong_by, "", "gradient off: backward inside autocast")
f"off by {wrong_by:.5%}"

# %% [markdown]
# ### RIGHT: leave autocast, then `backward`

# %%
right_by = float(vector_norm(island_gradient(inside=False) - right) / vector_norm(right))
measured["backward_outside"] = reference.Value(right_by, "", "gradient off: backward outside")
f"off by {right_by:.5%}"

# %% [markdown]
# ## Why fp16 needs a scaler
#
# Train the digits until gradients are small. Then ask which of them fp16 could hold. The deeper the network and
# the smaller the loss, the more are lost; here it is a small one.
#
# **Predict.** What share of the gradients becomes 0 in fp16?

# %%
share_lost = None  # @param {type:"number"}

# %%
split = data.digits()
digits, labels = (torch.tensor(a, device=device) for a in (split.x_train, split.y_train))


def network(width=128):
    torch.manual_seed(0)
    layers = nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    return nn.Sequential(*layers).to(device)


model = network()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for _ in range(200 if FAST else 300):
    optimizer.zero_grad()
    F.cross_entropy(model(digits), labels).backward()
    optimizer.step()
gradient = torch.cat([p.grad.flatten() for p in model.parameters()]).abs().cpu()
gradient = gradient[gradient > 0]
scaled = gradient * 2**16

# %%
lost = float((gradient.half() == 0).float().mean())
kept = float((scaled.half() == 0).float().mean())
measured["lost_unscaled"] = reference.Value(100 * lost, "%", "of the gradients become 0 in fp16")
measured["lost_scaled"] = reference.Value(100 * kept, "%", "of them, multiplied by 65,536 before")
figures.histogram(
    {"gradients": gradient.tolist(), "times 65,536": scaled.tolist()},
    lost_below=2.0**-25, lost="0 in fp16", xlabel="size of a gradient",
    title=f"{lost:.1%} become 0 in fp16{said(share_lost)}; scaled, {kept:.1%}",
)

# %% [markdown]
# `GradScaler` multiplies the loss, so every gradient grows; before the step it divides again. If it finds an
# infinity, it skips the step and halves its factor. See it skip:

# %%
weight = nn.Parameter(torch.ones(3, device=device))
sgd = torch.optim.SGD([weight], lr=0.1)
scaler = torch.amp.GradScaler(device.type)
history = []
for size in (1.0, 1e38, 1.0):  # the second loss is too large once it is scaled
    sgd.zero_grad()
    scaler.scale((weight * size).sum()).backward()
    before, factor = weight.detach().clone(), scaler.get_scale()
    scaler.step(sgd)
    scaler.update()
    moved = bool((weight != before).any())
    what = "step" if moved else "SKIPPED"
    history.append(f"loss × {size:g}: factor {factor:,.0f}, {what}, factor then {scaler.get_scale():,.0f}")
measured["skipped"] = reference.Value(sum("SKIPPED" in row for row in history), "", "steps skipped of 3")
print(*history, sep="\n")

# %% [markdown]
# ### WRONG: clip, then unscale; or scale twice
#
# A gradient of length 1 shall be clipped to 0.5. Scaled, it has length 65,536, and clipping sees that.

# %%
def update(clip=lambda scaler, sgd, weight: None, times=1):
    weight = nn.Parameter(torch.zeros(4, device=device))
    sgd, scaler = torch.optim.SGD([weight], lr=1.0), torch.amp.GradScaler(device.type)
    loss = (weight * 0.5).sum()  # its gradient has length 1
    for _ in range(times):
        loss = scaler.scale(loss)
    loss.backward()
    clip(scaler, sgd, weight)
    scaler.step(sgd)  # unscales, if nobody has
    return float(vector_norm(weight.detach()))


def clip_scaled(scaler, sgd, weight):
    nn.utils.clip_grad_norm_([weight], 0.5)


early, twice = update(clip_scaled), update(times=2)
measured["clipped_early"] = reference.Value(early, "", "length of an update clipped to 0.5, too early")
measured["scaled_twice"] = reference.Value(twice, "", "length of an update of 1, scaled twice")
f"clipped too early: {early:.1e} in place of 0.5; scaled twice: {twice:,.0f} in place of 1"

# %% [markdown]
# ### RIGHT: scale once, and clip true gradients

# %%
def clip_unscaled(scaler, sgd, weight):
    scaler.unscale_(sgd)
    nn.utils.clip_grad_norm_([weight], 0.5)


clipped = update(clip_unscaled)
measured["clipped_right"] = reference.Value(clipped, "", "length of an update clipped to 0.5, unscaled first")
f"{clipped:.3f}"

# %% [markdown]
# ### WRONG: a softmax of your own, in fp16
#
# exp(12) is larger than fp16 can hold.

# %%
logits = torch.tensor([12.0, 8.0, 1.0], dtype=torch.float16)
own = logits.exp() / logits.exp().sum()
measured["softmax_wrong"] = reference.Value(float(own.isnan().any()), "", "NaN in a softmax of exps, fp16")
own

# %% [markdown]
# ### RIGHT: `torch.softmax`
#
# It takes the largest away first, so no power exceeds 1. On CUDA, autocast also runs it in float32.

# %%
probabilities = torch.softmax(logits, 0)
measured["softmax_right"] = reference.Value(float(probabilities.isnan().any()), "", "NaN in torch.softmax")
probabilities

# %% [markdown]
# ## One model in every format
#
# The same network, the same batches. fp16 gets its scaler. The last one is WRONG on purpose: everything in
# bf16, the weights too.
#
# **Predict.** Which is fastest on this chip?

# %%
fastest = None  # @param ["fp32", "bf16", "fp16"]

# %%
# Wide layers and few rows would hide what autocast saves: its short copies of the weights take room too.
width, rows = (256, 256) if device.type == "cpu" or FAST else (1024, 16_384)


def make_step(dtype=None, weights=torch.float32):
    model = network(width).to(weights)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device.type, enabled=dtype is torch.float16)

    def step(number=0):
        chosen = (torch.arange(rows, device=device) + rows * number) % len(digits)
        sgd.zero_grad()
        with torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
            loss = F.cross_entropy(model(digits[chosen].to(weights)), labels[chosen])
        scaler.scale(loss).backward()
        scaler.step(sgd)
        scaler.update()

    return model, step


# %%
ways = {"fp32": {}, "bf16": {"dtype": torch.bfloat16}, "fp16": {"dtype": torch.float16}}
ways["all in bf16"] = {"weights": torch.bfloat16}
losses, prices = {}, {}
for name, way in ways.items():
    model = step = None  # so that the last one's bytes are gone
    with memory.track(device, known=[digits, labels]) as meter:
        model, step = make_step(**way)
        for number in range(20 if FAST else STEPS):
            step(number)
    with torch.no_grad():
        losses[name] = float(F.cross_entropy(model(digits.to(model[0].weight.dtype)).float(), labels))
    seconds = benchmark.measure(step, budget=budget).median
    prices[name] = {"time": seconds, "peak memory": meter.peak}

# %%
names = {name: f"{name}, {support.get(name, support['bf16'])}" for name in prices}
for name in ("bf16", "fp16"):
    ratio = 100 * prices["fp32"]["time"] / prices[name]["time"]
    measured[f"{name}_training"] = reference.Value(ratio, "%", f"of the speed of fp32: training in {name}")
quickest = min(("fp32", "bf16", "fp16"), key=lambda name: prices[name]["time"])
figures.bars(
    {names[name]: row["time"] for name, row in prices.items()}, unit="s", log=True,
    title=f"A training step: {quickest} is fastest here{said(fastest)}",
)

# %%
peaks = {names[name]: row["peak memory"] for name, row in prices.items()}
saved = 1 - prices["bf16"]["peak memory"] / prices["fp32"]["peak memory"]
figures.bars(peaks, unit="B", title=f"Peak memory: autocast saves {saved:.0%}; weights stay float32")

# %%
worst = max(abs(losses[name] - losses["fp32"]) for name in ("bf16", "fp16"))
gap = abs(losses["all in bf16"] - losses["fp32"])
measured["loss_gap"] = reference.Value(worst, "", "largest gap of the final loss: bf16, fp16 and fp32")
measured["loss_gap_wrong"] = reference.Value(gap, "", "the same, all in bf16")
apart = {name: abs(loss - losses["fp32"]) for name, loss in losses.items() if name != "fp32"}
figures.bars(
    apart, unit="", log=all(apart.values()),
    title=f"Final loss, away from fp32: mixed formats {worst:.0e}, all in bf16 {gap:.0e}",
)

# %% [markdown]
# ## Keras and JAX
#
# In Keras a *policy* does it: layers compute in the short format, weights stay float32, and `compile` wraps the
# optimiser in a loss scaler if it is fp16. The last layer gets float32, so that the loss has range. Keras runs on
# PyTorch here, so that no second framework claims the GPU.

# %%
# needs: keras
with runtime.quiet():
    import keras

    keras.utils.set_random_seed(0)
lines = []
for policy in ("float32", "mixed_bfloat16", "mixed_float16"):
    keras.mixed_precision.set_global_policy(policy)
    hidden = keras.layers.Dense(32, activation="relu")
    last = keras.layers.Dense(10, dtype="float32")
    mixed = keras.Sequential([keras.Input((64,)), hidden, last])
    mixed.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    lines.append(f"{policy:>14}: computes in {hidden.compute_dtype}, weights {hidden.variable_dtype}, "
                 f"last layer {last.compute_dtype}, {type(mixed.optimizer).__name__}")
keras.mixed_precision.set_global_policy("float32")
print(*lines, sep="\n")

# %% [markdown]
# JAX has no autocast: you give arrays their dtype. A product of bf16 is added up in more digits than bf16 has
# (else 4,100 ones would stop at 256), and the result is rounded to bf16, unless you ask for float32.

# %%
# needs: jax
os.environ["JAX_PLATFORMS"] = "cpu"  # one framework at a time: PyTorch has the accelerator
import jax.numpy as jnp

ones = jnp.ones(4100, jnp.bfloat16)
short_sum = jnp.dot(ones, ones)
long_sum = jnp.dot(ones, ones, preferred_element_type=jnp.float32)
f"4,100 ones: {short_sum} in {short_sum.dtype}, {long_sum} in {long_sum.dtype}"

# %% [markdown]
# ## fp8
#
# Eight bits want a scale for each tensor, or small numbers become 0. Any chip can store them; GPUs from compute
# capability 8.9 multiply them, on paper twice as fast as bf16. Below, the gradients of before, stored in fp8.

# %%
def fp8_error(values, scale):
    stored = (values * scale).to(torch.float8_e4m3fn).float() / scale
    return 100 * float(vector_norm(stored - values) / vector_norm(values))


largest = torch.finfo(torch.float8_e4m3fn).max
error_plain, error_scaled = fp8_error(gradient, 1.0), fp8_error(gradient, largest / gradient.max())
measured["fp8_plain"] = reference.Value(error_plain, "%", "error of gradients in fp8, unscaled")
measured["fp8_scaled"] = reference.Value(error_scaled, "%", "error of gradients in fp8, scaled")
print(*(f"{c.name}: on paper {c.peak['fp8'] / c.peak['bf16']:.1f} times bf16"
        for c in sheet.values() if "fp8" in c.peak and c.where == "paid"), sep="\n")
figures.bars(
    {"unscaled": error_plain, "scaled": error_scaled}, unit="%",
    title=f"Gradients in fp8 are off by {error_scaled:.1f} %, unscaled by {error_plain:.0f} %",
)

# %% [markdown]
# ## Exercises
#
# ### 1 · Which format?
#
# Four cards and their compute capability. In which format do you train: `"fp32"`, `"bf16"` or
# `"fp16 with scaler"`?

# %% tags=["exercise"]
choice = {"GTX 1080 (6.1)": ..., "V100 (7.0)": ..., "RTX 3090 (8.6)": ..., "H100 (9.0)": ...}
### BEGIN SOLUTION
choice = {"GTX 1080 (6.1)": "fp32", "V100 (7.0)": "fp16 with scaler", "RTX 3090 (8.6)": "bf16",
          "H100 (9.0)": "bf16"}
### END SOLUTION
exercises.check("07.formats", choice)

# %% [markdown]
# ### 2 · Rescue the loss
#
# This step trains in fp16 with clipping, and the loss becomes NaN or does not move. Put its lines in order.
#
# ```
# "step":     scaler.step(optimizer)
# "clip":     torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
# "update":   scaler.update()
# "backward": scaler.scale(loss).backward()
# "unscale":  scaler.unscale_(optimizer)
# ```

# %% tags=["exercise"]
order = ...  # a list of five words
### BEGIN SOLUTION
order = ["backward", "unscale", "clip", "step", "update"]
### END SOLUTION
exercises.check("07.rescue", order)

# %% [markdown]
# ### 3 · What does it save?
#
# In fp32 a model takes 1.6 GB for weights, gradients and Adam, and 6.4 GB for activations. Autocast halves the
# activations. What per cent of the whole does it save?

# %% tags=["exercise"]
per_cent_saved = ...
### BEGIN SOLUTION
per_cent_saved = 100 * 3.2 / (1.6 + 6.4)
### END SOLUTION
exercises.check("07.saved", per_cent_saved)

# %% [markdown]
# ## What you measured

# %%
reference.record("07_mixed_precision", FAST, device=chip, **measured)

# %% [markdown]
# ## What comes next
#
# You can ask for an accelerator, check it, feed it, fill it and choose its formats, and you can prove each
# claim on the machine before you. Take the notebook that you care about most, and measure.
