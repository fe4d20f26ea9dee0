# %%
import os

import torch
from torch import nn
from torch.nn import functional as F

from colab_helpers import benchmark, data, devices, exercises, facts, figures, hardware
from colab_helpers import memory, parts, precision, reference, runtime

parts.watch("07_mixed_precision")  # cells that need what is missing show recorded results
devices.choose_keras_backend("torch")  # one framework at a time, see the end
measured = {}

# %% tags=["parameters"]
FAST = bool(os.environ.get("FAST"))  # True: small sizes, for runs that only check
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
# digits. Formats differ in how many bits go where. Here is 0.1 in each, with the largest number of the format:

# %%
formats = precision.formats()
figures.bit_layout(
    {name: precision.bits(0.1, entry) for name, entry in formats.items()},
    notes={n: f"(to {f.largest:,.0f})" if f.bits < 17 and f.exponent < 8 else f"(to {f.largest:.1e})"
           for n, f in formats.items()},
    title="0.1 in six formats: bf16 keeps the range of fp32, fp16 keeps more digits",
)

# %% [markdown]
# Too large becomes infinity (*overflow*), too small becomes 0 (*underflow*). And a sum loses what is
# smaller than half a step of the larger number.
#
# **Predict.** What is 256 + 1 in bf16?

# %%
sum_in_bf16 = 257  # @param {type:"integer"}

# %%
def shown(value, dtype):
    return torch.tensor(value).to(dtype).item()


wrong = {}
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    one = torch.tensor(1.0, dtype=dtype)
    wrong[str(dtype).removeprefix("torch.")] = {
        "70000 is": shown(70000.0, dtype), "1e-8 is": shown(1e-8, dtype),
        "256 + 1 is": (256 * one + one).item(), "2048 + 1 is": (2048 * one + one).item(),
    }
for name, row in wrong.items():
    print(f"{name:>9}:", ",  ".join(f"{what} {value:g}" for what, value in row.items()))
f"256 + 1 in bf16 is {wrong['bfloat16']['256 + 1 is']:g} (you said {sum_in_bf16})"

# %% [markdown]
# ### WRONG: keep weights in bf16 and add small updates
#
# A weight of 1, 1,000 updates of 0.001: it should become 2.

# %%
def after_updates(dtype):
    weight = torch.ones((), dtype=dtype)
    for _ in range(1000):
        weight += 0.001
    return weight.item()


measured["bf16_weight"] = reference.Value(after_updates(torch.bfloat16), "", "1 + 1,000 × 0.001, in bf16")
f"{after_updates(torch.bfloat16)}"

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
# A format can be *native*, or *emulated*: it works, by way of another format. What decides is the compute
# capability of a GPU, or the flags of a CPU.

# %%
sheet = hardware.catalogue()
chips = {f"this one ({chip.kind})": chip} | {
    name: hardware.Device(sheet[name].kind, sheet[name].name, "", capability=sheet[name].capability)
    for name in ("T4", "L4", "A100-40", "v5e")
}
for name, device_ in chips.items():
    support = precision.support(device_)
    print(f"{name:>15}:", ", ".join(f"{f} {how}" for f, how in support.items()))
    print(f"{'':>17}train in {precision.advise(device_)}")

# %% [markdown]
# ### WRONG: ask PyTorch whether bf16 is *supported*
#
# `torch.cuda.is_bf16_supported()` says True on a T4: it counts emulation.
#
# ### RIGHT: ask whether it is native

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
times_as_fast = 2.0  # @param {type:"number"}

# %%
dtypes = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def product_seconds(n, dtype):
    a = torch.randn(n, n, device=device).to(dtype)
    return benchmark.measure(lambda: a @ a, budget=budget).median


n = 256 if device.type == "cpu" else 4096
speeds = {
    f"{name}, {support[name]}": 2 * n**3 / product_seconds(n, dtype) for name, dtype in dtypes.items()
}
fp32, bf16, fp16 = speeds.values()
measured["bf16_product"] = reference.Value(100 * bf16 / fp32, "%", "of the speed of fp32: product in bf16")
measured["fp16_product"] = reference.Value(100 * fp16 / fp32, "%", "of the speed of fp32: product in fp16")
figures.bars(
    speeds, unit="FLOP/s", log=True,
    title=f"bf16 is {bf16 / fp32:.2g}, fp16 {fp16 / fp32:.2g} times as fast as fp32 (you said {times_as_fast:g})",
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
said = f"{best!r} is {gain:.1f} times as fast" if gain > 1.3 else "no setting changes much here"
figures.bars(inside, unit="FLOP/s", title=f"float32 products: {said}")

# %% [markdown]
# ## When it does not help
#
# Small work, work that only moves bytes, sizes beside a multiple of 8. The ratios are speeds against fp32.

# %%
short = torch.float16 if support["bf16"] != "native" and device.type == "cuda" else torch.bfloat16


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
# A sum of many numbers waits for memory, so half the bytes can pay even where the chip has no bf16 units.
#
# ## Autocast chooses, op by op
#
# Under `torch.autocast` products run in the short format; what needs range or digits runs in float32.
# Watch it choose: each line is an operation that really ran.

# %%
net = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 10)).to(device)
x, y = torch.randn(32, 64, device=device), torch.zeros(32, dtype=torch.long, device=device)
with precision.record_operations() as seen, torch.autocast(device.type, dtype=torch.bfloat16):
    loss = F.cross_entropy(net(x), y)
casts = sum(operation.name == "_to_copy" for operation in seen)
computed = [o for o in seen if o.name not in ("_to_copy", "t", "detach", "view")]
print(*computed, sep="\n")
f"{casts} casts between; the loss is {loss.dtype}"

# %% [markdown]
# ### WRONG: `backward` inside autocast
#
# The backward pass takes the formats of the forward pass by itself. Inside autocast it is cast again: a part that
# you kept in float32 gets gradients in bf16.

# %%
torch.manual_seed(0)
first, island = nn.Linear(64, 64).to(device), nn.Linear(64, 64).to(device)


def island_gradient(inside):
    island.zero_grad()
    with torch.autocast(device.type, dtype=torch.bfloat16):
        h = first(x)
        with torch.autocast(device.type, enabled=False):  # an island of float32
            loss = (island(h.float()) ** 2).mean()
        if inside:
            loss.backward()
    if not inside:
        loss.backward()
    return island.weight.grad.clone()


right = island_gradient(inside=False)
wrong_by = float((island_gradient(inside=True) - right).norm() / right.norm())
measured["backward_inside"] = reference.Value(wrong_by, "", "gradient off: backward inside autocast")
f"off by {wrong_by:.2%}"

# %% [markdown]
# ### RIGHT: leave autocast, then `backward`

# %%
right_by = float((island_gradient(inside=False) - right).norm() / right.norm())
measured["backward_outside"] = reference.Value(right_by, "", "gradient off: backward outside")
f"off by {right_by:.2%}"

# %% [markdown]
# ## Why fp16 needs a scaler
#
# Train the digits until gradients are small. Then ask which of them fp16 could hold.
#
# **Predict.** What share of the gradients becomes 0 in fp16?

# %%
share_lost = 0.01  # @param {type:"slider", min:0, max:1, step:0.01}

# %%
split = data.digits()
digits, labels = (torch.tensor(a, device=device) for a in (split.x_train, split.y_train))


def network(width=128):
    torch.manual_seed(0)
    layers = nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    return nn.Sequential(*layers).to(device)


model = network()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for _ in range(50 if FAST else 300):
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
    title=f"{lost:.1%} become 0 in fp16 (you said {share_lost:.0%}); scaled, {kept:.1%}",
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
    history.append((f"loss × {size:g}", factor, "step" if moved else "SKIPPED", scaler.get_scale()))
measured["skipped"] = reference.Value(sum("SKIPPED" in row for row in history), "", "steps skipped of 3")
print(*history, sep="\n")

# %% [markdown]
# ### WRONG: scale twice, or clip before unscaling
#
# A gradient of length 1 shall be clipped to 0.5. Scaled, it has length 65,536, and clipping sees that.

# %%
def update(times=1, unscale_first=True):
    weight = nn.Parameter(torch.zeros(4, device=device))
    sgd, scaler = torch.optim.SGD([weight], lr=1.0), torch.amp.GradScaler(device.type)
    loss = (weight * 0.5).sum()  # its gradient has length 1
    for _ in range(times):
        loss = scaler.scale(loss)
    loss.backward()
    if unscale_first:
        scaler.unscale_(sgd)
    if times == 1:
        nn.utils.clip_grad_norm_([weight], 0.5)
    scaler.step(sgd)
    return float(weight.detach().norm())


twice, clipped_early = update(times=2), update(unscale_first=False)
measured["scaled_twice"] = reference.Value(twice, "", "length of an update of 1, scaled twice")
measured["clipped_early"] = reference.Value(clipped_early, "", "length of an update clipped to 0.5, too early")
f"scaled twice: {twice:,.0f} in place of 1; clipped too early: {clipped_early:.1e} in place of 0.5"

# %% [markdown]
# ### RIGHT: scale, backward, unscale, clip, step, update

# %%
clipped = update()
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
# ### RIGHT: `torch.softmax`, which takes the largest away first; autocast runs it in float32

# %%
probabilities = torch.softmax(logits.float(), 0)
measured["softmax_right"] = reference.Value(float(probabilities.isnan().any()), "", "NaN in torch.softmax")
probabilities

# %% [markdown]
# ## One model in every format
#
# The same network, the same batches. fp16 gets its scaler. The last one is WRONG on purpose: everything in
# bf16, the weights too.

# %%
width, rows = (256, 256) if device.type == "cpu" else (4096, 1024)


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
    with memory.track(device, known=[digits, labels]) as meter:
        model, step = make_step(**way)
        for number in range(20 if FAST else STEPS):
            step(number)
    with torch.no_grad():
        losses[name] = float(F.cross_entropy(model(digits.to(model[0].weight.dtype)).float(), labels))
    seconds = benchmark.measure(step, budget=budget).median
    prices[name] = {"time": seconds, "peak memory": meter.peak}

# %%
bars = {
    f"{name}, {support.get(name, support['bf16'])}": {
        kind: 100 * value / prices["fp32"][kind] for kind, value in row.items()
    }
    for name, row in prices.items()
}
for name in ("bf16", "fp16"):
    ratio = 100 * prices["fp32"]["time"] / prices[name]["time"]
    measured[f"{name}_training"] = reference.Value(ratio, "%", f"of the speed of fp32: training in {name}")
figures.grouped(bars, unit="%", title="Time and peak memory of a training step, fp32 = 100 %")

# %%
worst = max(abs(losses[name] - losses["fp32"]) for name in ("bf16", "fp16"))
gap = abs(losses["all in bf16"] - losses["fp32"])
measured["loss_gap"] = reference.Value(worst, "", "largest gap of the final loss: bf16, fp16 and fp32")
measured["loss_gap_wrong"] = reference.Value(gap, "", "the same, all in bf16")
figures.bars(
    losses, unit="",
    title=f"Final loss: mixed formats are off by {worst:.0e}, all in bf16 by {gap:.0e}",
)

# %% [markdown]
# ## Keras and JAX
#
# In Keras a *policy* does it: layers compute in the short format, weights stay float32, and `compile` wraps the
# optimiser in a loss scaler if it is fp16. Give the last layer float32. Keras runs on PyTorch here, so that no
# second framework claims the GPU.

# %%
# needs: keras
with runtime.quiet():
    import keras

    keras.utils.set_random_seed(0)
lines = []
for policy in ("float32", "mixed_bfloat16", "mixed_float16"):
    keras.mixed_precision.set_global_policy(policy)
    hidden = keras.layers.Dense(32, activation="relu")
    mixed = keras.Sequential([keras.Input((64,)), hidden, keras.layers.Dense(10, dtype="float32")])
    mixed.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    lines.append(f"{policy:>14}: computes in {hidden.compute_dtype}, weights {hidden.variable_dtype}, "
                 f"{type(mixed.optimizer).__name__}")
keras.mixed_precision.set_global_policy("float32")
print(*lines, sep="\n")

# %% [markdown]
# JAX has no autocast: you give arrays their dtype. Ask a product of bf16 to add up in float32.

# %%
# needs: jax
import jax.numpy as jnp

ones = jnp.ones(4100, jnp.bfloat16)
short_sum = jnp.dot(ones, ones)
long_sum = jnp.dot(ones, ones, preferred_element_type=jnp.float32)
f"4,100 ones: {short_sum} in {short_sum.dtype}, {long_sum} in {long_sum.dtype}"

# %% [markdown]
# ## fp8
#
# Eight bits want a scale for each tensor, or small numbers become 0. Any chip can store them so; GPUs from
# compute capability 8.9 multiply them. Below, the gradients of before in fp8, and what data sheets promise.

# %%
def fp8_error(scale):
    stored = (gradient * scale).to(torch.float8_e4m3fn).float() / scale
    return 100 * float((stored - gradient).norm() / gradient.norm())


plain, scaled = fp8_error(1.0), fp8_error(torch.finfo(torch.float8_e4m3fn).max / gradient.max())
measured["fp8_plain"] = reference.Value(plain, "%", "error of gradients in fp8, unscaled")
measured["fp8_scaled"] = reference.Value(scaled, "%", "error of gradients in fp8, scaled")
fp8 = {f"{c.name}, {f}": c.peak[f] for c in sheet.values() for f in ("bf16", "fp8")
       if "fp8" in c.peak and c.where == "paid"}
figures.bars(
    fp8, unit="FLOP/s", paper=list(fp8),
    title=f"On paper fp8 doubles bf16. Gradients in fp8: {scaled:.1f} % off, unscaled {plain:.0f} % off",
)

# %% [markdown]
# ## Exercises
#
# ### 1 · Which format?
#
# To train a network on each chip: `"fp32"`, `"bf16"` or `"fp16 with scaler"`?

# %% tags=["exercise"]
choice = {"T4": ..., "L4": ..., "A100": ..., "TPU v5e": ..., "P100 (capability 6.0)": ...}
### BEGIN SOLUTION
choice = {"T4": "fp16 with scaler", "L4": "bf16", "A100": "bf16", "TPU v5e": "bf16",
          "P100 (capability 6.0)": "fp32"}
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
