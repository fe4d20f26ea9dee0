# %%
# @title Imports { display-mode: "form" }
import copy
import itertools
import os
import warnings

import torch
from torch import nn
from torch.linalg import vector_norm
from torch.nn import functional as F

from colab_helpers import benchmark, devices, facts, hardware, memory, precision, published, runtime

from colab_lessons import data, exercises, figures, models, reference, replay
from colab_lessons.predictions import guessed

replay.watch("07_mixed_precision")  # cells that need what is missing show recorded results
devices.choose_keras_backend("torch")  # see the part on Keras
warnings.filterwarnings("ignore", "Please use the new API settings")  # PyTorch 2.9 says it of a setting below

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SECONDS = None
N = None
N_ON_CHIP = None
STEPS = None
SEEDS = None
ROWS = None
BATCHES = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
SECONDS = SECONDS or (0.05 if FAST else 0.3)  # time budget of one measurement
N = N or (128 if FAST else 512)  # of matrices
N_ON_CHIP = N_ON_CHIP or (256 if FAST else 4096)
STEPS = STEPS or (110 if FAST else 150)  # of the deep network's training
SEEDS = SEEDS or (1 if FAST else 3)
ROWS = ROWS or (128 if FAST else 512)
BATCHES = BATCHES or ([1, 4] if FAST else [1, 2, 4, 8, 16, 32])  # rows, for the GPT
SMALL = models.GPTConfig(block_size=64, n_embd=64 if FAST else 128, n_head=4, n_layer=2 if FAST else 4)  # for a CPU
LARGE = SMALL if FAST else models.GPTConfig()  # for an accelerator

# %%
has_accelerator = torch.accelerator.is_available()
device = torch.accelerator.current_accelerator() if has_accelerator else torch.device("cpu")
inventory = hardware.list_devices()
chip = inventory.main if device.type != "cpu" else inventory.cpu
f"{device}: {chip}"

# %% [markdown] tags=["minutes-10", "short-9"]
# ## Why bother?
#
# This is mixed precision in PyTorch, around a step that you already have:
#
# ```
# with torch.autocast("cuda", dtype=torch.bfloat16):
#     loss = loss_function(model(x), y)
# ```
#
# Two lines, and your training is up to three times as fast, or slower than before. It depends on the chip, and on the name of a format that
# is easily mixed up: *bf16* and *fp16* both have 16 bits. (With fp16 a *gradient scaler* comes on top: two lines more, and two that change. You will see what happens without.) Measure both here, on a product of matrices, and see what others measured
# elsewhere.
#
# **Predict.** On a T4, how many times as fast is a product in fp16 as one in 32 bits (fp32)?

# %%
fp16_on_t4 = None  # @param {type:"number"}

# %%
n = N if device.type == "cpu" else N_ON_CHIP
dtypes = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def product_seconds(n, dtype):
    a = torch.randn(n, n, device=device).to(dtype)
    return benchmark.measure(lambda: a @ a, budget=SECONDS).median


seconds = {name: product_seconds(n, dtype) for name, dtype in dtypes.items()}
here = {name: seconds["fp32"] / seconds[name] for name in ("bf16", "fp16")}

# %%
t4 = published.get("matmul-t4-formats")
elsewhere = {"T4": {name: t4.points[name] / t4.points["fp32"] for name in ("bf16", "fp16")}}
rows = [t4]
for key, name in {"l4": "L4", "a100": "A100", "h100": "H100"}.items():
    of = {f: published.get(f"matmul-{key}-{f}") for f in ("fp32", "tf32", "bf16", "fp16")}
    elsewhere[name] = {f: of[f].value / of["fp32"].value for f in ("bf16", "fp16", "tf32")}
    rows += of.values()
factor = elsewhere["T4"]["fp16"]
figures.ratios(
    {f"this machine: {chip.short_name}": here} | elsewhere, hollow=elsewhere, published=rows, one="fp32",
    xlabel="speed of a matrix product, fp32 on the same chip being 1",
    title=f"On a T4 fp16 is {factor:.0f} times as fast as fp32{guessed(fp16_on_t4)}, and bf16 slower",
)

# %% [markdown] tags=["minutes-10"]
# Look at the T4: ten times as fast in fp16, and *slower* than fp32 in bf16, because it has no units for bf16 and imitates it. (Ten is more than
# the eight on its data sheet, since its fp32 reached only half of what is printed there.) The L4, the A100 and the H100 are fast in both, and they
# also offer tf32: change one setting, lose some digits, keep your code. (Convolutions use it there already. A TPU's own format is bf16; it has no fast fp32 to compare with.) And your
# CPU, if that is what you have, is the odd one out: some newer ones have units for bf16, and of those with x86 only Intel's server chips since 2023 have them for fp16. Without them PyTorch
# falls back to simple code that converts each number where it is used, and can be a hundred times slower than a good fp32 product. So the first question is never "16 bits?" but "which 16 bits, on which chip?"
#
# ## Three kinds of bits
#
# A floating-point number has a *sign*, an *exponent* that gives its range, and a *mantissa* that gives its digits. Formats differ in
# how many bits go where; "e4m3" means 4 bits of exponent and 3 of mantissa, and tf32 is a way for GPUs to compute products of
# float32. Here is 0.1 in each, with the format's largest number:

# %%
formats = precision.formats()
figures.bit_layout(
    {name: precision.bits(0.1, entry) for name, entry in formats.items()},
    notes={name: entry.reach for name, entry in formats.items()},
    title="0.1 in six formats: bf16 keeps the range of fp32, fp16 keeps more digits",
)

# %% [markdown]
# Too large becomes infinity (*overflow*), too small becomes 0 (*underflow*). And each sum is rounded to the nearest number of the
# format: what is less than half a step away is lost. (Exactly half a step goes to the even neighbour.) bf16 has 7 bits of mantissa, so between 256 and 512 its steps are 256/128 = 2 wide.
#
# **Predict.** What is 256 + 1 in bf16?

# %%
sum_in_bf16 = None  # @param {type:"integer"}

# %%
for dtype in dtypes.values():
    too_large, too_small = (torch.tensor(v, dtype=dtype).item() for v in (70000.0, 1e-8))
    total = (torch.tensor(256.0, dtype=dtype) + torch.tensor(1.0, dtype=dtype)).item()
    print(f"{str(dtype)[6:]:>8}: 70000 is {too_large:g}, 1e-8 is {too_small:.2g}, 256 + 1 is {total:g}")
f"and so 256 + 1 in bf16 is {(torch.tensor(256.0).bfloat16() + 1).item():g}{guessed(sum_in_bf16)}"

# %% [markdown]
# ### WRONG: keep weights in bf16 and add small updates
#
# A weight of 1 gets a thousand updates of 0.001, so it should become 2. In bf16 the next number after 1 is 1 + 1/128.

# %%
def after_updates(dtype):
    weight = torch.ones((), dtype=dtype)
    for _ in range(1000):
        weight += 0.001
    return weight.item()


in_bf16 = after_updates(torch.bfloat16)
f"{in_bf16} instead of 2"

# %% [markdown]
# Not one of a thousand updates arrived.
#
# ### RIGHT: keep the weights in float32

# %%
in_fp32 = after_updates(torch.float32)
f"{in_fp32:.3f}"

# %% [markdown] tags=["minutes-5"]
# That is what *mixed* means: weights and sums in float32, products in the short format.
#
# ## What does this chip run by itself?
#
# A format is *native*, or it is *emulated*: computed in another format, and converted. On NVIDIA's chips the *compute capability* decides, a version
# number for what a chip can do. (*Tensor cores*, units that multiply small matrices of short numbers, came with 7.0 for fp16, with 8.0 for bf16 and
# tf32, with 8.9 for fp8.)

# %%
sheet = hardware.catalogue()
chips = {f"this one ({chip.kind})": chip} | {
    name: hardware.Device(sheet[name].kind, sheet[name].name, "", capability=sheet[name].capability)
    for name in ("T4", "L4", "A100-40", "v5e")
}
for name, other in chips.items():
    support = ", ".join(f"{number_format} {how}" for number_format, how in precision.support(other).items())
    print(f"{name:>15} ({other.capability or 'no number'}): {support}\n{'':>17}train in {precision.advise(other)}")

# %% [markdown]
# There is a trap: PyTorch says yes to bf16 on a T4, since emulation counts as support.

# %% tags=["nbval-check-output"]
facts.quote("bf16-on-t4")

# %%
support = precision.support(chip)
short = torch.float16 if precision.advise(chip).format == "fp16" else torch.bfloat16
if device.type == "cuda":
    print("bf16 native, says PyTorch:", torch.cuda.is_bf16_supported(including_emulation=False))
f"native here: {', '.join(name for name, how in support.items() if how == 'native')}; from here on, the variable short is {str(short)[6:]}"

# %% [markdown]
# One setting needs no other change: `torch.set_float32_matmul_precision`. On GPUs from 8.0 on, "high" and "medium" both let float32 products use tf32;
# on CPUs that have units for it, "medium" makes them products in bf16. On a T4 and on most CPUs neither
# does anything, and what differs below is noise. If "medium" is clearly faster, your CPU has units for bf16.

# %%
large = 1024 if device.type == "cpu" else n
settings = {}
for setting in ("highest", "high", "medium"):
    torch.set_float32_matmul_precision(setting)
    settings[setting] = 2 * large**3 / product_seconds(large, torch.float32)
torch.set_float32_matmul_precision("highest")
print(*(f"{setting:>8}: {speed / 1e9:,.0f} GFLOP/s" for setting, speed in settings.items()), sep="\n")

# %% [markdown] tags=["minutes-9", "short-0"]
# ## Autocast chooses, op by op
#
# Under `torch.autocast` products run in the short format; a loss, and what else needs range or digits, is computed in float32; everything else keeps
# the format of its input. The lists differ from device to device. Each line below is an operation that really ran, with what went in and what came
# out. (`addmm` is a linear layer, `nll_loss` the end of a cross-entropy.)

# %%
net = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 10)).to(device)
x, y = torch.randn(32, 64, device=device), torch.zeros(32, dtype=torch.long, device=device)
with precision.record_operations() as seen, torch.autocast(device.type, dtype=short):
    loss = F.cross_entropy(net(x), y)
casts = sum(operation.name == "_to_copy" for operation in seen)
print(*(o for o in seen if o.name not in ("_to_copy", "t", "detach", "view")), sep="\n")
f"{casts} casts between; the loss is {loss.dtype}"

# %% [markdown]
# ### WRONG: `backward` inside autocast
#
# Sometimes a part of a network needs more digits, and you keep it in float32: an *island*, with autocast switched off around it. The backward pass takes the formats of the forward pass by itself. But call `backward` inside autocast, and it is cast once more: the
# island, which you paid for, gets gradients computed in the short format, and in fp16 small ones may vanish. The yardstick here is the same gradient in float64.

# %%
first, island = nn.Linear(64, 64).to(device), nn.Linear(64, 64).to(device)


def gradient_of_island(inside):
    island.zero_grad()
    with torch.autocast(device.type, dtype=short):
        h = first(x)
        with torch.autocast(device.type, enabled=False):  # an island of float32
            loss = (island(h.float()) ** 2).mean()
        if inside:
            loss.backward()
    if not inside:
        loss.backward()
    return island.weight.grad.cpu().double(), h.detach().cpu().double()


# %%
def error(inside):
    gradient, h = gradient_of_island(inside)
    exact = copy.deepcopy(island).cpu().double()
    exact.zero_grad()
    (exact(h) ** 2).mean().backward()
    return float(vector_norm(gradient - exact.weight.grad) / vector_norm(exact.weight.grad))


inside = error(inside=True)
f"off by {inside:.0e}"

# %% [markdown]
# ### RIGHT: leave autocast, then `backward`

# %%
outside = error(inside=False)
f"off by {outside:.0e}"

# %% [markdown] tags=["minutes-9", "short-5"]
# ## When does it pay?
#
# Train a GPT with autocast and without, on few rows and on many, and measure time and the peak of memory. For comparison, this is what NVIDIA measured on a T4:
# ResNet-50, recognising images (not training).
#
# **Predict.** On that T4, with one image at a time: how fast is mixed precision, if fp32 is 1?

# %%
speed_at_one = None  # @param {type:"number"}

# %%
config = SMALL if device.type == "cpu" else LARGE
model = models.GPT(config).to(device)


def gpt_step(rows, mixed):
    ids = torch.zeros(rows, config.block_size, dtype=torch.long, device=device)
    with torch.autocast(device.type, dtype=short, enabled=mixed):
        loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
    loss.backward()
    model.zero_grad()


# %%
faster, saved = [], []
for rows in BATCHES:
    peaks, times = [], []
    for mixed in (False, True):
        with memory.track(device, known=model) as meter:
            gpt_step(rows, mixed)
        peaks.append(meter.peak)
        times.append(benchmark.measure(lambda: gpt_step(rows, mixed), budget=SECONDS).median)
    faster.append(times[0] / times[1])
    saved.append(100 * (1 - peaks[1] / peaks[0]))

# %%
on_t4 = published.get("resnet-t4-mixed").ratio_to(published.get("resnet-t4-fp32"))
figures.lines(
    BATCHES, {f"GPT, training, {chip.short_name}": faster}, published=[on_t4], doubling=True,
    ideal={"fp32": [1] * len(BATCHES)}, xlabel="rows in a batch", ylabel="speed, fp32 being 1",
    title=f"On a T4 mixed precision has {on_t4.points[256]:.1f} times fp32's speed at 256 images, {on_t4.points[1]:.1f} at one{guessed(speed_at_one)}",
)

# %%
figures.lines(
    BATCHES, {"GPT": saved}, doubling=True, xlabel="rows in a batch", ylabel="% of the peak saved",
    title=f"This GPT: autocast saves {saved[0]:.0f} % of the memory at {BATCHES[0]} row, {saved[-1]:.0f} % at {BATCHES[-1]}",
)

# %% [markdown] tags=["minutes-14"]
# Small batches gain nothing, on a T4 even lose: there the chip waits for Python, and every cast is one more call. With large batches the
# arithmetic counts. (Another network's training step gained less on a T4: 386 ms against 226 in the report above, or 1.7 times.) Your own curve may lie below 1. If your chip emulates the format, it falls as the arithmetic grows; on a CPU even
# a native format can lose, because casts, and everything that is no product, cost more than the products save. Memory is another matter: autocast halves activations but makes short copies of the weights, so with few rows it saves little or
# costs something.
#
# ## Why fp16 needs a scaler
#
# Take a deep network, 18 layers, and train it on digits in three ways: float32; fp16 with autocast; and fp16 with a *gradient
# scaler*. There are ten digits.
#
# **Predict.** What is the loss in fp16, without the scaler, when training ends?

# %%
loss_without = None  # @param {type:"number"}

# %%
split = data.digits()
all_digits, all_labels = (torch.tensor(a, device=device) for a in (split.x_train, split.y_train))
digits, labels = all_digits[:512], all_labels[:512]


def deep(seed):
    torch.manual_seed(seed)
    hidden = [layer for _ in range(16) for layer in (nn.Linear(64, 64), nn.ReLU())]
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), *hidden, nn.Linear(64, 10)).to(device)


def train(model, dtype=None, scaled=False):
    adam, losses = torch.optim.Adam(model.parameters()), []
    scaler = torch.amp.GradScaler(device.type, enabled=scaled)
    for step in range(STEPS):
        rows = torch.arange(ROWS * step, ROWS * (step + 1), device=device) % len(all_digits)
        with torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
            loss = F.cross_entropy(model(all_digits[rows]), all_labels[rows])
        adam.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(adam)
        scaler.update()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


# %%
ways = {"float32": {}, "fp16": {"dtype": torch.float16}, "fp16, scaled": {"dtype": torch.float16, "scaled": True}}
curves = {name: [train(deep(seed), **way) for seed in range(SEEDS)] for name, way in ways.items()}
learned = {name: sum(curve[-1] < 2.25 for curve in of) for name, of in curves.items()}
alone = curves["fp16"][0][-1]
figures.lines(
    range(1, STEPS + 1), {name: of[0] for name, of in curves.items()}, xlabel="step", ylabel="loss",
    title=f"Without a scaler the loss stays at {alone:.3f}{guessed(loss_without)}",
)

# %%
for name, count in learned.items():
    ends = ", ".join(f"{curve[-1]:.2f}" for curve in curves[name])
    print(f"{name:>12}: learned in {count} of {SEEDS} tries; loss at the end: {ends}")

# %% [markdown]
# The flat line learned nothing at all: it stays at ln 10 = 2.303, the loss of blind guessing, from the first step to the last, without an error or a warning. The other two
# also wait for some dozens of steps, for this deep network trains on the edge. Which of them ends lower is luck: different roundings send them down different paths. Look at the gradients of the first layer to see
# why fp16 alone fails. (The last layers do have gradients. But until the first ones learn, what reaches them hardly depends on the image.)

# %%
model = deep(0)
F.cross_entropy(model(digits), labels).backward()
gradient = model[0].weight.grad.abs().flatten().cpu()
gradient = gradient[gradient > 0]  # true zeros are no loss
lost, lost_scaled = (100 * float((g.half() == 0).float().mean()) for g in (gradient, gradient * 2**16))
figures.histogram(
    {"first layer": gradient.tolist(), "times 65,536": (gradient * 2**16).tolist()},
    lost_below=2.0**-25, lost="0 in fp16", infinite_above=65504, xlabel="size of a gradient",
    title=f"{lost:.0f} % of the first layer's gradients are 0 in fp16; times 65,536, {lost_scaled:.0f} %",
)

# %% [markdown]
# In the left shaded area fp16 sees nothing but zeros, in the right one infinity. Multiply the loss by 65,536, and every gradient moves 16 powers of two to
# the right; divide again before the weights change. (Just right of the zeros fp16 still stores numbers, with fewer and fewer digits; the shift helps those as well.) That is what a `GradScaler` does. How does it know the factor? It tries. It starts high, skips
# each step in which something became infinite, and halves. Here somebody forgot to scale the pixels, so they go from 0 to 255, and
# the gradients of a small network are large:

# %%
pixels = 255 * digits


def shallow(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)


model = shallow(0)
adamw, scaler = torch.optim.AdamW(model.parameters()), torch.amp.GradScaler(device.type)
factors = []
for _ in range(20):
    with torch.autocast(device.type, dtype=torch.float16):
        loss = F.cross_entropy(model(pixels), labels)
    adamw.zero_grad()
    factors.append(scaler.get_scale())
    scaler.scale(loss).backward()
    scaler.step(adamw)
    scaler.update()

# %%
skipped = sum(after < before for before, after in itertools.pairwise(factors))
figures.lines(
    range(1, 21), {"the scaler's factor": factors}, log_y=True, xlabel="step", ylabel="factor",
    title=f"Steps skipped at the start: {skipped}; the factor fell from 65,536 to {factors[-1]:,.0f}",
)

# %% [markdown]
# So do not be alarmed if the first steps change nothing. With a factor of 65,536, any gradient of 1 overflows. (After 2,000 good steps in a row
# the scaler doubles its factor and tries again.)
#
# ### WRONG: clip, then unscale; or scale twice
#
# A gradient of length 1 has to be clipped to 0.5. Scaled, it has length 65,536, and clipping sees that. (These few lines compute in float32. In fp16, what is scaled twice
# overflows, and every step is skipped until the factor has come down.)

# %%
def length_of_update(clip=lambda scaler, sgd, weight: None, times=1):
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


# %%
early, twice = length_of_update(clip_scaled), length_of_update(times=2)
f"clipped too early: {early:.0e} instead of 0.5; scaled twice: {twice:,.0f} instead of 1"

# %% [markdown]
# ### RIGHT: scale once, and clip true gradients

# %%
def clip_unscaled(scaler, sgd, weight):
    scaler.unscale_(sgd)
    nn.utils.clip_grad_norm_([weight], 0.5)


clipped = length_of_update(clip_unscaled)
f"{clipped:.3f}"

# %% [markdown] tags=["minutes-9", "short-0"]
# ## A loop to copy
#
# Everything in its order: accumulate over parts, unscale, clip, step, update, and move the learning rate only if the step was not skipped. It serves
# all formats: bf16 turns the scaler off; float32 turns off autocast as well. Each part counts by its share of the rows, as in lesson 06. (On a GPU `get_scale` waits for the step, and so does `scaler.step`, unless
# the optimiser has `fused=True`. In a loop that must not wait, take that, and let the schedule move on regardless.)

# %%
class Training:
    def __init__(self, model, number_format):
        self.model, self.format = model, number_format
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 1000)
        self.scaler = torch.amp.GradScaler(device.type, enabled=number_format is torch.float16)

    def step(self, x, y, parts=2):
        for part_x, part_y in zip(x.chunk(parts), y.chunk(parts)):
            with torch.autocast(device.type, dtype=self.format, enabled=self.format is not torch.float32):
                loss = F.cross_entropy(self.model(part_x), part_y) * len(part_x) / len(x)
            self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        factor = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        if went := self.scaler.get_scale() >= factor:
            self.schedule.step()
        return went


# %%
for number_format in (torch.float32, torch.bfloat16, torch.float16):
    training = Training(shallow(0), number_format)
    steps = [training.step(pixels, labels) for _ in range(20)]
    print(f"{number_format!s:>14}: {steps.count(False)} of the first 20 steps skipped, factor {training.scaler.get_scale():,.0f}")

# %% [markdown]
# The scaler has found its factor, so it belongs in a checkpoint, with everything else that changes.
#
# ### WRONG: forget the scaler

# %%
names = "model", "optimizer", "schedule", "scaler"
checkpoint = {name: copy.deepcopy(getattr(training, name).state_dict()) for name in names}


def skipped_after_resuming(names):
    resumed = Training(shallow(1), torch.float16)
    for name in names:
        getattr(resumed, name).load_state_dict(copy.deepcopy(checkpoint[name]))
    return sum(not resumed.step(pixels, labels) for _ in range(20))


forgotten = skipped_after_resuming(["model", "optimizer", "schedule"])
f"{forgotten} of the next 20 steps were skipped"

# %% [markdown]
# ### RIGHT: save and load all four

# %%
remembered = skipped_after_resuming(names)
f"{remembered} of the next 20 steps were skipped"

# %% [markdown] tags=["minutes-9", "short-0"]
# Today that costs three steps. In a long run it costs them after each disconnect, and the run can no longer be reproduced.
#
# ## Find the NaN
#
# A result is NaN, and twelve layers could have done it. One of them was sabotaged, its weights 300,000 times too large. A
# *hook*, a function that is called after a module has run, looks at what comes out. Every layer behind the culprit will show NaN as well; the first one is to blame.

# %%
class Patient(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(12))
        self.layers[int(torch.randint(4, 12, ()))].weight.data *= 3e5  # not one of the first

    def forward(self, x):
        for layer in self.layers:
            x = F.layer_norm(layer(x), (64,))
        return x


patient = Patient().to(device).half()
f"NaN in the result: {int(patient(digits[:8].half()).isnan().sum())} of 512"

# %%
def note_if_not_finite(name):
    def look(module, inputs, output):
        if torch.is_tensor(output) and not output.isfinite().all():
            not_finite.append(name)

    return look


not_finite = []
hooks = [module.register_forward_hook(note_if_not_finite(name)) for name, module in patient.named_modules() if name]
result = patient(digits[:8].half())
for hook in hooks:
    hook.remove()
print("not finite:", ", ".join(not_finite))
f"first seen in {not_finite[0]}: its largest weight is {patient.get_submodule(not_finite[0]).weight.abs().max():,.0f}"

# %% [markdown]
# Keep these lines for the day that you need them. They look at modules that return a tensor; functions that are called without a module, such as `F.layer_norm`, have no hook. (For the backward pass there is `torch.autograd.set_detect_anomaly(True)`: slow, and it raises an error
# at the first NaN.) A classic culprit:
#
# ### WRONG: a softmax of your own, in fp16
#
# exp(12) is larger than fp16 can hold. (On CUDA, autocast runs `exp` in float32. After `.half()` nothing protects you.)

# %%
logits = torch.tensor([12.0, 8.0, 1.0], dtype=torch.float16)
own = logits.exp() / logits.exp().sum()
own

# %% [markdown]
# ### RIGHT: `torch.softmax`
#
# It first subtracts the largest number, so no exponential exceeds 1.

# %%
probabilities = torch.softmax(logits, 0)
probabilities

# %% [markdown] tags=["minutes-3", "short-0"]
# ## Keras and JAX
#
# In Keras a *policy*, a setting for all layers, does it: they compute in the short format, weights stay float32, and `compile` wraps the optimiser in a
# loss scaler (the same thing as a gradient scaler) if the format is fp16. Give the last layer float32, so that the loss has range. (Keras runs on PyTorch here, so that no second framework claims the
# GPU.)

# %%
# needs: keras
with runtime.quiet():
    import keras
for policy in ("float32", "mixed_bfloat16", "mixed_float16"):
    keras.mixed_precision.set_global_policy(policy)
    hidden, last = keras.layers.Dense(32), keras.layers.Dense(10, dtype="float32")
    mixed = keras.Sequential([keras.Input((64,)), hidden, last])
    mixed.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    print(f"{policy:>14}: computes in {hidden.compute_dtype}, weights {hidden.variable_dtype}, "
          f"last layer {last.compute_dtype}, {type(mixed.optimizer).__name__}")
keras.mixed_precision.set_global_policy("float32")

# %% [markdown]
# JAX has no autocast: you give arrays their dtype. A product of bf16 numbers is added up in more digits than bf16 has, then rounded to bf16, unless
# you ask for float32. (A sum *kept* in bf16 would have stuck at 256: you have seen what 256 + 1 is.)

# %%
# needs: jax
os.environ["JAX_PLATFORMS"] = "cpu"  # one framework at a time: PyTorch has the accelerator
import jax.numpy as jnp

ones = jnp.ones(4100, jnp.bfloat16)
short_sum, long_sum = jnp.dot(ones, ones), jnp.dot(ones, ones, preferred_element_type=jnp.float32)
f"4,100 ones: {short_sum} in {short_sum.dtype}, {long_sum} in {long_sum.dtype}"

# %% [markdown] tags=["minutes-3", "short-0"]
# ## fp8
#
# With eight bits every tensor needs a factor of its own. Any chip can store them; GPUs from 8.9 on multiply them, on paper twice as
# fast as bf16. Here are the gradients of the deep network, layer by layer, stored in fp8: how many of them become 0?

# %%
def share_lost(values, scale):
    return 100 * float(((values * scale).to(torch.float8_e4m3fn).float() == 0).float().mean())


model = deep(0)
F.cross_entropy(model(digits), labels).backward()
layers = [p.grad[p.grad != 0].cpu() for p in model.parameters() if p.dim() == 2]
largest = torch.finfo(torch.float8_e4m3fn).max
one_factor = max(g.abs().max() for g in layers)
fp8_lost = {
    "as they are": [share_lost(g, 1.0) for g in layers],
    "one factor for all": [share_lost(g, largest / one_factor) for g in layers],
    "a factor for each layer": [share_lost(g, largest / g.abs().max()) for g in layers],
}
figures.lines(range(1, 19), fp8_lost, xlabel="layer, 1 being the first", ylabel="% of its gradients that become 0", title="fp8 wants a factor for each tensor")

# %% [markdown] tags=["minutes-7", "short-0"]
# Without a factor nearly everything is lost. One factor for all saves the last layers, whose gradients are largest. Only one factor for each layer saves
# them all, and that is what libraries for fp8 keep, or one for each block of numbers. (With one factor for a tensor they usually store gradients in e5m2, which reaches further than the e4m3 used here, with fewer digits: it loses less, and later.)
#
# ## Exercises
#
# ### 1 · Which format?
#
# Four cards and their compute capability. In which format do you train: `"fp32"`, `"bf16"` or
# `"fp16 with scaler"`?

# %% tags=["exercise"]
choice = {"GTX 1080 (6.1)": ..., "V100 (7.0)": ..., "RTX 3090 (8.6)": ..., "H100 (9.0)": ...}
### BEGIN SOLUTION
choice = {
    "GTX 1080 (6.1)": "fp32",  # no tensor cores
    "V100 (7.0)": "fp16 with scaler",  # tensor cores for fp16 only
    "RTX 3090 (8.6)": "bf16",  # from 8.0 on: fp32's range, no scaler
    "H100 (9.0)": "bf16",
}
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
order = ["backward", "unscale", "clip", "step", "update"]  # clip true gradients; the factor changes last
### END SOLUTION
exercises.check("07.rescue", order)

# %% [markdown]
# ### 3 · What does it save?
#
# In fp32 a model takes 1.6 GB for weights, gradients and Adam, and 6.4 GB for activations. Autocast halves the
# activations. What per cent of the whole does it save? (Leave its short copies of the weights out.)

# %% tags=["exercise"]
per_cent_saved = ...
### BEGIN SOLUTION
per_cent_saved = 100 * 3.2 / (1.6 + 6.4)  # half of the activations, of everything
### END SOLUTION
exercises.check("07.saved", per_cent_saved)

# %% [markdown]
# ### 4 · Open task: make it learn
#
# `stuck` trains in fp16, and its loss stays at ln 10. Write `learns`: fp16 as well, but it learns. The check trains a deep network with both
# on the CPU, and looks at the loss.

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
    scaler = torch.amp.GradScaler("cpu")  # lifts the gradients over what fp16 calls zero
    for _ in range(steps):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(network(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


### END SOLUTION
exercises.check("07.learns", learns, stuck=stuck)

# %% [markdown] tags=["minutes-2"]
# ## Three things to take away

# %%
takeaways = {
    "Ask which 16 bits": f"in fp16 a T4 multiplies matrices {factor:.0f} times as fast, in bf16 more slowly; here they ran at {here['fp16']:.2g} and {here['bf16']:.2g} times fp32.",
    "fp16 wants a scaler": f"without one a deep network stayed at {alone:.3f}, which is guessing.",
    "Give it work": f"autocast saved {saved[0]:.0f} % of the memory at one row, {saved[-1]:.0f} % at {BATCHES[-1]}.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Put predictions beside results { display-mode: "form" }
guess = reference.Prediction
predicted = {
    "fp16_on_t4": guess(fp16_on_t4, elsewhere["T4"]["fp16"], "×"),
    "sum_in_bf16": guess(sum_in_bf16, (torch.tensor(256.0).bfloat16() + 1).item()),
    "speed_at_one": guess(speed_at_one, on_t4.points[1], "×"),
    "loss_without": guess(loss_without, alone),
}

# %%
# @title Keep them as a record { display-mode: "form" }
value = reference.Value
reference.record(
    "07_mixed_precision", FAST, device=chip, predicted=predicted,
    bf16_product=value(here["bf16"], "×", f"speed of a product in bf16, fp32 being 1, n = {n}"),
    fp16_product=value(here["fp16"], "×", f"speed of a product in fp16, fp32 being 1, n = {n}"),
    bf16_weight=value(in_bf16, "", "1 + 1,000 × 0.001, in bf16"),
    fp32_weight=value(in_fp32, "", "the same, in float32"),
    backward_inside=value(inside, "", "gradient off, against float64: backward inside autocast"),
    backward_outside=value(outside, "", "the same: backward outside"),
    mixed_speed=value(faster[-1], "×", f"speed of a GPT's training with autocast, fp32 being 1, {BATCHES[-1]} rows"),
    saved_few=value(saved[0], "%", f"of the peak saved by autocast, {BATCHES[0]} row"),
    saved_many=value(saved[-1], "%", f"of the peak saved by autocast, {BATCHES[-1]} rows"),
    unscaled_loss=value(min(curve[-1] for curve in curves["fp16"]), "", "loss of a deep network in fp16 (guessing: 2.303)"),
    scaled_learned=value(learned["fp16, scaled"] / SEEDS, "", "share of tries in which it learned, with a scaler"),
    lost_unscaled=value(lost, "%", "of its first layer's gradients become 0 in fp16"),
    lost_scaled=value(lost_scaled, "%", "of them, multiplied by 65,536 before"),
    skipped=value(skipped, "", "of 20 steps skipped by the scaler, pixels from 0 to 255"),
    clipped_early=value(early, "", "length of an update clipped to 0.5, too early"),
    clipped_right=value(clipped, "", "the same, unscaled first"),
    scaled_twice=value(twice, "", "length of an update of 1, scaled twice"),
    forgotten=value(forgotten, "", "of 20 steps skipped after resuming without the scaler's state"),
    remembered=value(remembered, "", "the same, with it"),
    softmax_wrong=value(float(own.isnan().any()), "", "NaN in a softmax of exps, fp16"),
    softmax_right=value(float(probabilities.isnan().any()), "", "NaN in torch.softmax"),
    fp8_plain=value(max(fp8_lost["as they are"]), "%", "of a layer's gradients become 0 in fp8, at worst"),
    fp8_one_factor=value(max(fp8_lost["one factor for all"]), "%", "the same, with one factor for all layers"),
    fp8_scaled=value(max(fp8_lost["a factor for each layer"]), "%", "the same, with a factor for each layer"),
)

# %% [markdown] tags=["minutes-0"]
# ## What comes next
#
# You know how to get an accelerator, see what it is, keep it busy, fill its memory and choose its formats, and how to check each claim
# on your own machine. But your own machine is rarely the one you need. Before you pay for a larger one: would your job fit there, how long would it
# take, and what would it cost? The next lesson asks all three without leaving this machine.
