# %%
# @title Imports { display-mode: "form" }
import os

import torch
from torch import nn
from torch.nn import functional as F

from colab_helpers import benchmark, hardware, memory, precision, published_results

from colab_lessons import data, exercises, figures, measurements, models
from colab_lessons.predictions import your_prediction  # adds what you predicted to a title

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SECONDS = None
N = None
SEEDS = None
LENGTH = None
SCALES = None
BATCHES = None
LAYERS = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
SECONDS = SECONDS or (0.05 if FAST else 0.5)  # time budget of one measurement
N = N or (256 if FAST else 512)  # of matrices on a CPU, which may emulate 16 bits
ON_GPU = 1 if FAST else 8  # times as large are those on a GPU
SEEDS = SEEDS or (1 if FAST else 3)  # of each training
LENGTH = LENGTH or (0.1 if FAST else 1.0)  # of each training, as a part of its steps
SCALES = SCALES or ((0, 16) if FAST else (0, 8, 16))  # powers of two by which the loss is divided
BATCHES = BATCHES or ((1, 4) if FAST else (1, 8))  # sequences, for the GPT
LAYERS = LAYERS or (2 if FAST else 4)  # of the GPT on a CPU
WHOLE = not FAST  # a GPU trains the job's own GPT

# %% [markdown] tags=["minutes-6"]
# ## Which 16 bits?
#
# Two formats have 16 bits. They're called *fp16* and *bf16*, and they're easily mixed up. Measure a matmul in both, and put what others measured on
# four GPUs beside it.
#
# **Predict.** On a T4, how many times as fast as float32 is fp16?

# %%
fp16_on_t4 = None  # @param {type:"number"}

# %%
torch.set_num_threads(1)  # one core of the CPU: on a shared machine a second one makes timings jump
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
dtypes = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
n = N if device.type == "cpu" else ON_GPU * N
matrices = {name: torch.randn(n, n, device=device).to(dtype) for name, dtype in dtypes.items()}
matmuls = benchmark.compare({name: lambda a=a: a @ a for name, a in matrices.items()}, budget=SECONDS)
here = {name: matmuls["fp32"].best / matmuls[name].best for name in ("bf16", "fp16")}

# %%
# @title Draw the formats on five chips { display-mode: "form" }
inventory = hardware.list_devices()
chip = inventory.main if device.type != "cpu" else inventory.cpu
t4 = published_results.get("matmul-t4-formats")
elsewhere, rows = {"T4": {name: t4.points[name] / t4.points["fp32"] for name in ("bf16", "fp16")}}, [t4]
for key, name in {"l4": "L4", "a100": "A100", "h100": "H100"}.items():
    of = {f: published_results.get(f"matmul-{key}-{f}") for f in ("fp32", "bf16", "fp16")}
    elsewhere[name] = {f: of[f].value / of["fp32"].value for f in ("bf16", "fp16")}
    rows += of.values()
factor = elsewhere["T4"]["fp16"]
figures.ratios(
    {f"this machine: {chip.short_name}": here} | elsewhere, hollow=elsewhere, published=rows, one="fp32",
    xlabel="speed of a matmul, fp32 on the same chip being 1",
    title=f"On a T4 fp16 runs at {factor:.0f}× the speed of fp32{your_prediction(fp16_on_t4, '×')}, and bf16 is slower",
)

# %% [markdown]
# In fp16 the T4 reached ten times its speed in float32. By its data sheet the factor is eight; this card also ran float32 at half of the sheet's
# speed. In bf16 it's slower than in float32, because its *tensor cores*, the units for small formats, know fp16 and not bf16, which is emulated
# with float32. The L4, the A100 and the H100 are fast in both. Float32 means real float32 in this figure. With *tf32*, a shortcut of newer chips,
# their lead is smaller.
#
# The question is therefore not whether a chip is fast in 16 bits, but in which 16 bits. On NVIDIA GPUs the *compute capability* tells you, which is
# a version number. PyTorch's `is_bf16_supported()` doesn't: it says yes on a T4, since emulation counts as support, unless you pass
# `including_emulation=False`.

# %%
half = torch.bfloat16
if device.type == "cuda" and torch.cuda.get_device_capability() < (8, 0):
    half = torch.float16  # a T4 has 7.5
half

# %% [markdown]
# On a CPU we take bf16. If the figure says that yours is slower that way, stay with float32 there.

# %% [markdown] tags=["minutes-12"]
# ## What 16 bits can hold
#
# A floating-point number has a *sign*, an *exponent* that gives its range, and a *mantissa* that gives its digits. The figure shows 0.1 in six
# formats, with the largest number of each.

# %%
# @title Draw the bits { display-mode: "form" }
formats = precision.formats()
figures.bit_layout(
    {name: precision.bits(0.1, entry) for name, entry in formats.items()},
    notes={name: entry.range_note for name, entry in formats.items()},
    title="0.1 in six formats: bf16 keeps the range of fp32, fp16 keeps more digits",
)

# %% [markdown]
# Too large a number becomes infinity (in e4m3, which has none, it becomes the largest number or NaN), and too small a number becomes 0. In between,
# each sum is rounded to the nearest number that the format has, and the neighbor with an even mantissa wins a tie. bf16 has 7 bits of mantissa.
#
# **Predict.** What is 256 + 1 in bf16?

# %%
sum_in_bf16 = None  # @param {type:"integer"}

# %%
for dtype in dtypes.values():
    too_large, too_small = (torch.tensor(value, dtype=dtype).item() for value in (70000.0, 1e-8))
    total = (torch.tensor(256.0, dtype=dtype) + torch.tensor(1.0, dtype=dtype)).item()
    print(f"{str(dtype)[6:]:>8}: 70000 is {too_large:g}, 1e-8 is {too_small:.2g}, 256 + 1 is {total:g}{your_prediction(sum_in_bf16) if dtype is torch.bfloat16 else ''}")

# %% [markdown]
# From 256 to 512 the numbers of bf16 are 2 apart, so 257 is exactly in the middle, and the even neighbor is 256.
#
# The same happens to a weight in training. Suppose it's 1, and a thousand steps each add 0.001.

# %%
def after_updates(dtype):
    weight = torch.ones((), dtype=dtype)
    for _ in range(1000):
        weight += 0.001
    return weight.item()


in_bf16, in_fp32 = after_updates(torch.bfloat16), after_updates(torch.float32)  # WRONG, and RIGHT
print(f"1 + 1,000 × 0.001 is {in_bf16:g} in bf16, and {in_fp32:.3f} in float32")

# %% [markdown]
# Not one of the thousand updates arrived. Next to 1, the numbers of bf16 are 1/128 apart.
#
# That's why it's called *mixed* precision. Weights stay in float32, and so do the sums inside a matmul. The values that are multiplied take the
# short format.
#
# ### Autocast
#
# `torch.autocast` makes that choice for you, operation by operation.

# %%
linear = nn.Linear(64, 64).to(device)
x, y = torch.randn(32, 64, device=device), torch.zeros(32, dtype=torch.long, device=device)
with torch.autocast(device.type, half):
    h = linear(x)
    print("x", x.dtype, "· weight", linear.weight.dtype, "· linear", h.dtype, "· loss", F.cross_entropy(h, y).dtype)

# %% [markdown]
# The weights are float32, the matmul's result is short, and the loss is float32 again. Call `backward()` outside the block. Each step of it runs in
# the format of its forward step.
#
# To see what you get for that, train a small GPT with Adam, and look at time and memory. There is no scaler yet, which fp16 needs for a real
# training and which costs a little.

# %%
config = models.GPTConfig(block_size=64, n_embd=128, n_head=4, n_layer=LAYERS) if device.type == "cpu" or not WHOLE else models.GPTConfig()
model = models.GPT(config).to(device)
adam = torch.optim.Adam(model.parameters())


def gpt_step(sequences, mixed):
    ids = torch.zeros(sequences, config.block_size, dtype=torch.long, device=device)  # (sequences, tokens)
    with torch.autocast(device.type, half, enabled=mixed):
        loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
    loss.backward()
    adam.step()
    adam.zero_grad()


# %%
gpt_step(1, False)  # makes Adam's moments
gains, saved = {}, {}
for batch in BATCHES:
    ways = {"fp32": lambda batch=batch: gpt_step(batch, False), "mixed": lambda batch=batch: gpt_step(batch, True)}
    peaks = {}
    for name, way in ways.items():
        with memory.track(device, known=[model, adam]) as tracker:
            way()
        peaks[name] = tracker.peak
    times = benchmark.compare(ways, budget=SECONDS)
    gains[batch], saved[batch] = benchmark.speedup(times["fp32"], times["mixed"]), 100 * (1 - peaks["mixed"] / peaks["fp32"])
    same = not gains[batch].is_significant or abs(gains[batch].value - 1) < 0.05
    speed = "about the same speed" if same else f"{gains[batch]} the speed"
    print(f"{batch:>3} sequence{'s' * (batch > 1)}: {speed}, {saved[batch]:.0f}% less memory")

# %% [markdown]
# Autocast stores most activations in 16 bits. Weights and Adam's moments stay what they are, and short copies of the weights come on top, so a
# small batch saves little, and a large one saves much.
#
# As for the speed, your first figure may have promised something else. In a network this small much of the time isn't spent in matmuls, and every
# cast is one more pass over memory. The larger the matmuls are, the more of the promise you get.

# %% [markdown] tags=["minutes-11"]
# ## Does it need a scaler?
#
# In fp16 there's one more danger, *underflow*. The smallest number it can hold is 6 · 10⁻⁸. Gradients travel back through the layers in 16 bits,
# and they can be smaller than that. Then many of them become 0, and what's left is too coarse to learn from.
#
# Whether that happens depends on the network. The three below tell ten digits apart. One has 18 layers as PyTorch initializes them. One has the
# same layers with He's initialization, which keeps gradients from shrinking. One is a small transformer.

# %%
split = data.digits()
pixels, digits = (torch.tensor(part, device=device) for part in (split.x_train, split.y_train))


def deep(he=False):
    layers = []
    for _ in range(18):
        layer = nn.Linear(64, 64)
        if he:
            nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(64, 10))


# %%
# @title The transformer reads an image as eight rows of eight pixels { display-mode: "form" }
class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.places = nn.Linear(8, 32), nn.Parameter(0.02 * torch.randn(8, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 128, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(32), enable_nested_tensor=False)
        self.out = nn.Linear(32, 10)

    def forward(self, x):  # (images, 64)
        h = self.enter(x.view(-1, 8, 8)) + self.places  # (images, 8, 32)
        return self.out(self.layers(h).mean(1))


networks = {  # name: (make, steps, learning rate)
    "18 layers": (deep, round(250 * LENGTH), 1e-3),
    "18 layers, He": (lambda: deep(he=True), round(150 * LENGTH), 1e-3),
    "transformer": (Transformer, round(80 * LENGTH), 5e-3),
}

# %% [markdown]
# The usual cure is *loss scaling*: multiply the loss before the backward pass, so that all gradients grow, and divide them again before the step.
# `GradScaler` does that, and it finds the factor by itself. It begins with 65,536, which is 2¹⁶. When something became infinite it skips the step
# and halves the factor. After 2,000 good steps in a row it doubles it.
#
# To see where the danger begins, make it worse on purpose. Divide the loss by a power of two. Adam doesn't mind, since it divides by the gradient's
# size. It adds a small number to that size, `eps`, which must be tiny here.


# %%
def train(make, steps, learning_rate, seed, power, dtype=None, scaled=False):
    torch.manual_seed(seed)
    model = make().to(device)
    adam = torch.optim.Adam(model.parameters(), learning_rate, eps=1e-30)
    scaler = torch.amp.GradScaler(device.type, enabled=scaled)
    for step in range(steps):
        rows = torch.arange(64 * step, 64 * (step + 1), device=device) % len(pixels)
        with torch.autocast(device.type, dtype, enabled=dtype is not None):
            loss = F.cross_entropy(model(pixels[rows]), digits[rows])
        adam.zero_grad()
        scaler.scale(loss / 2**power).backward()
        scaler.step(adam)
        scaler.update()
    with torch.no_grad():
        return F.cross_entropy(model(pixels), digits).item()


# %% [markdown]
# **Predict.** Which of the three networks learns in fp16 without a scaler, if you leave the loss as it is?

# %%
learns_without = None  # @param ["none", "only the transformer", "all but the 18 layers as PyTorch makes them", "all"]

# %%
kinds = {"float32": {}, "bf16": {"dtype": torch.bfloat16}, "fp16": {"dtype": torch.float16}, "fp16 + scaler": {"dtype": torch.float16, "scaled": True}}
ends = {
    name: {kind: [[train(*network, seed, power, **how) for seed in range(SEEDS)] for power in SCALES] for kind, how in kinds.items()}
    for name, network in networks.items()
}

# %%
# @title Draw the cliffs { display-mode: "form" }
GUESSING = 2.302585  # ln 10, the loss of guessing among ten
median = {name: {kind: [sorted(runs)[len(runs) // 2] for runs in row] for kind, row in of.items()} for name, of in ends.items()}
learned = [name for name in networks if median[name]["fp16"][0] < 2]
answers = {0: "none", 1: "only the transformer", 2: "all but the 18 layers as PyTorch makes them", 3: "all"}
learners = answers[len(learned)]
figures.panels(
    ends, [f"2⁻{str(power).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}" if power else "1" for power in SCALES],
    title=f"fp16 falls off a cliff, bf16 doesn't; {len(learned)} of 3 learn as they are{your_prediction(learns_without)}",
    xlabel="factor of the loss", ylabel="loss at the end (3 at most)", top=3, line=(GUESSING, "guessing"),
)

# %% [markdown]
# Follow the line of fp16 in each panel. The median of the 18 layers never gets below guessing, and on the right it lies above it: such a network
# doesn't stand still, it diverges. The other two learn, as long as the loss isn't much smaller, and then they fall off as well. Each network has
# its cliff, and you don't know where yours is.
#
# The scaler multiplies the loss by 2¹⁶ before the backward pass, so its curve is the one of fp16, moved sixteen powers of two to the right. That
# saves the second and third network even at the right end. The first needs it from the start, and at the right end even the scaler doesn't save it.
# If you train in fp16 and don't know where your network's cliff is, use one.
#
# bf16 has the range of float32, so it has no cliff, although with fewer digits it may learn a little less. On a chip whose tensor cores know bf16,
# you need no scaler at all.

# %% [markdown] tags=["minutes-4"]
# ## The loop to keep
#
# Some things must come in the right order. Gradients are scaled until `unscale_`, so clip after it, or you clip numbers that are 65,536 times too
# large. A skipped step shouldn't move the learning rate.

# %%
network = deep(he=True).to(device)
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
scaler = torch.amp.GradScaler(device.type, enabled=half is torch.float16)  # does nothing in bf16


# %%
def train_step(x, y, parts=2):
    for part_x, part_y in zip(x.chunk(parts), y.chunk(parts)):  # accumulate, as in lesson 06
        with torch.autocast(device.type, half):
            loss = F.cross_entropy(network(part_x), part_y) * len(part_x) / len(x)
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    before = scaler.get_scale()  # on a GPU this waits for the step
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    if scaler.get_scale() >= before:  # the step wasn't skipped
        schedule.step()
    return loss.detach()


# %%
for _ in range(100):
    chosen = torch.randint(len(pixels), (128,), device=device)
    loss = train_step(pixels[chosen], digits[chosen])
print(f"loss of the last part: {2 * loss:.2f}")

# %% [markdown]
# Don't be alarmed if the first steps are skipped. The scaler is looking for its factor. It belongs in a checkpoint, which lesson 09 is about.

# %% [markdown] tags=["minutes-5", "short-0"]
# ## Find the NaN
#
# When a loss is NaN, any layer could have caused it. Among the twelve layers below one has weights that are 300,000 times too large. Each layer
# after it shows NaN as well, so look for the first. A *hook* is a function that PyTorch calls after a module has run.

# %%
class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(12))
        self.layers[int(torch.randint(4, 9, ()))].weight.data *= 3e5  # the culprit

    def forward(self, x):
        for layer in self.layers:
            x = F.layer_norm(layer(x), (64,))
        return x


twelve = Broken().to(device).half()

# %%
not_finite = []


def note(name):
    def look(module, inputs, output):
        if torch.is_tensor(output) and not output.isfinite().all():
            not_finite.append(name)

    return look


# %%
hooks = [module.register_forward_hook(note(name)) for name, module in twelve.named_modules() if name]
result = twelve(pixels[:8].half())
for hook in hooks:
    hook.remove()
print(f"{int(result.isnan().sum())} of 512 results are NaN; not finite: {', '.join(not_finite)}")
print(f"first in {not_finite[0]}, whose largest weight is {twelve.get_submodule(not_finite[0]).weight.abs().max():,.0f}")

# %% [markdown]
# Keep these lines. They look at modules that return a tensor. A formula of your own has no hook, such as this softmax. Under autocast a GPU
# computes its `exp` in float32. After `.half()` nothing protects you.

# %%
logits = torch.tensor([12.0, 8.0, 1.0], dtype=torch.float16)
own = logits.exp() / logits.exp().sum()  # WRONG: exp(12) is larger than fp16 can hold
library = torch.softmax(logits, 0)  # RIGHT: it subtracts the largest number first
print(own.tolist(), library.tolist())

# %% [markdown] tags=["minutes-3"]
# ## Eight bits
#
# GPUs from capability 8.9 on, such as the L4 and the H100, have tensor cores for eight bits, *fp8*, twice as fast as bf16 on paper. Take the
# gradients of the 18 layers, the smallest of our three networks, and store them in e4m3. (Common recipes keep gradients in e5m2, which has more
# range and fewer digits; the question is the same.) How many of them become 0?

# %%
model = deep().to(device)
F.cross_entropy(model(pixels[:512]), digits[:512]).backward()
layers = [p.grad[p.grad != 0].cpu() for p in model.parameters() if p.dim() == 2]
largest = torch.finfo(torch.float8_e4m3fn).max


def lost(values, factor):  # in percent
    return 100 * float(((values * factor).to(torch.float8_e4m3fn).float() == 0).float().mean())


fp8_lost = {
    "as they are": [lost(g, 1.0) for g in layers],
    "one factor for all": [lost(g, largest / max(g.abs().max() for g in layers)) for g in layers],
    "a factor per layer": [lost(g, largest / g.abs().max()) for g in layers],
}

# %%
# @title Draw what eight bits lose { display-mode: "form" }
figures.lines(
    range(1, len(layers) + 1), fp8_lost, xlabel="layer, 1 being the first", ylabel="% of its gradients that become 0",
    title="With one factor for all, this network loses its first layers in e4m3",
)

# %% [markdown]
# One factor for the whole network, which is what a `GradScaler` has, saves only the later layers. That is why libraries for fp8 keep a factor per
# tensor, or per block of values.

# %% [markdown] tags=["minutes-8"]
# ## Exercises
#
# ### 1 · Who needs the scaler?
#
# Three networks train in fp16. The gradients of their first layers are about 3 · 10⁻³, 10⁻⁹ and 10⁻¹⁴. The smallest number of fp16 is 6 · 10⁻⁸, and
# a scaler's first factor is 65,536. Answer with `"no scaler"`, `"scaler"` or `"bf16"`, where bf16 means that neither helps.

# %% tags=["exercise"]
cure = {"3e-3": ..., "1e-9": ..., "1e-14": ...}
### BEGIN SOLUTION
cure = {"3e-3": "no scaler", "1e-9": "scaler", "1e-14": "bf16"}  # 1e-9 × 65,536 = 6.6e-5; 1e-14 × 65,536 = 6.6e-10
### END SOLUTION
exercises.check("07.scaler", cure)

# %% [markdown]
# ### 2 · Rescue the loss
#
# This step trains in fp16 with clipping. Put its lines in order.
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
order = ["backward", "unscale", "clip", "step", "update"]  # clip true gradients; the factor changes last
### END SOLUTION
exercises.check("07.rescue", order)

# %% [markdown]
# ### 3 · Find the culprit
#
# `broken` has a spoiled layer. Write a function that finds its name with hooks, such as `"2"`. The check tries it on other networks.

# %% tags=["exercise"]
broken = nn.Sequential(*(nn.Linear(16, 16) for _ in range(8)))
broken[int(torch.randint(2, 8, ()))].weight.data[3] = float("inf")


def first_not_finite(network, x):  # the name of the first module whose output isn't finite
    return ...


### BEGIN SOLUTION
def first_not_finite(network, x):
    seen = []
    for name, module in network.named_modules():
        if name:  # the network itself has none
            module.register_forward_hook(lambda module, inputs, output, name=name: None if output.isfinite().all() else seen.append(name))
    network(x)
    return seen[0]


### END SOLUTION
exercises.check("07.culprit", first_not_finite)

# %% [markdown]
# ### 4 · Open task, make it learn
#
# `stuck` trains in fp16, and its loss stays at ln 10. Write `learns`. It trains in fp16 as well, but it learns. The check trains a deep network
# with both on the CPU, and looks at the loss.

# %% tags=["exercise"]
def stuck(network, optimizer, x, y, steps):
    for _ in range(steps):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(network(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def learns(network, optimizer, x, y, steps):
    return ...


### BEGIN SOLUTION
def learns(network, optimizer, x, y, steps):
    scaler = torch.amp.GradScaler("cpu")  # lifts the gradients above what fp16 rounds to zero
    for _ in range(steps):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(network(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


### END SOLUTION
exercises.check("07.learns", learns, stuck=stuck)

# %% [markdown] tags=["minutes-1"]
# ## Three things to take away

# %%
takeaways = {
    "Ask which 16 bits": f"a T4 multiplies at {factor:.0f}× the speed in fp16 as in float32, and more slowly in bf16.",
    "Keep weights in float32": f"after a thousand small updates a weight of 1 was {in_bf16:g} in bf16, and {in_fp32:.0f} in float32.",
    "fp16 has a cliff": f"{len(learned)} of 3 networks learned without a scaler, and no warning named the others.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess = measurements.Value, measurements.Prediction
few, many = BATCHES[0], BATCHES[-1]
measurements.record(
    "07_mixed_precision", FAST, device=chip,
    predicted={
        "fp16_on_t4": guess(fp16_on_t4, factor, "×"),
        "sum_in_bf16": guess(sum_in_bf16, (torch.tensor(256.0).bfloat16() + 1).item()),
        "learns_without": guess(learns_without, learners),
    },
    bf16_product=value(here["bf16"], "×", f"speed of a matmul in bf16, fp32 being 1, n = {n}"),
    fp16_product=value(here["fp16"], "×", f"speed of a matmul in fp16, fp32 being 1, n = {n}"),
    bf16_weight=value(in_bf16, "", "1 + 1,000 × 0.001, in bf16"),
    fp32_weight=value(in_fp32, "", "the same, in float32"),
    mixed_speed=value(gains[many].value, "×", f"speed of a GPT's training with autocast, fp32 being 1, {many} sequences"),
    saved_few=value(saved[few], "%", f"of the peak saved by autocast, {few} sequence"),
    saved_many=value(saved[many], "%", f"of the peak saved by autocast, {many} sequences"),
    deep_fp16=value(median["18 layers"]["fp16"][0], "", "loss of 18 layers in fp16 without a scaler (guessing: 2.303)"),
    deep_scaled=value(median["18 layers"]["fp16 + scaler"][0], "", "the same with a scaler"),
    small_fp16=value(median["transformer"]["fp16"][SCALES.index(16)], "", "loss of a transformer in fp16, its loss divided by 65,536"),
    small_scaled=value(median["transformer"]["fp16 + scaler"][SCALES.index(16)], "", "the same with a scaler"),
    small_bf16=value(median["transformer"]["bf16"][-1], "", "the same in bf16"),
    softmax_wrong=value(float(own.isnan().any()), "", "NaN in a softmax of exps, fp16"),
    softmax_right=value(float(library.isnan().any()), "", "NaN in torch.softmax"),
    fp8_plain=value(max(fp8_lost["as they are"]), "%", "of a layer's gradients become 0 in fp8, at worst"),
    fp8_one_factor=value(max(fp8_lost["one factor for all"]), "%", "the same, with one factor for all layers"),
    fp8_scaled=value(max(fp8_lost["a factor per layer"]), "%", "the same, with a factor per layer"),
)

# %% [markdown] tags=["minutes-0"]
# ## Keep this, and what comes next
#
# ```python
# if device.type != "cuda":
#     half = torch.bfloat16  # measure first: many CPUs are slower that way
# elif torch.cuda.get_device_capability() >= (8, 0):
#     half = torch.bfloat16  # no scaler
# else:
#     half = torch.float16  # T4, V100
# scaler = torch.amp.GradScaler(device.type, enabled=half is torch.float16)
# ```
#
# | you see | it's | do |
# |---|---|---|
# | no faster | no tensor cores for this format, or calls dominate | change the format, or give each call more work |
# | the loss doesn't move, in fp16 | gradients became 0 | `GradScaler` |
# | the loss is NaN or infinite | something overflowed | hooks, then fix the first layer that isn't finite |
# | the loss stops falling early | updates too small for 16-bit weights | keep the weights in float32 |
# | all steps are skipped | the factor is still falling, or the gradients are infinite anyway | look at the loss in float32 |
#
# In Keras, `keras.mixed_precision.set_global_policy("mixed_float16")` sets up autocast and the scaler. Lesson 08 asks what a training run takes on
# a machine that you don't have yet.
