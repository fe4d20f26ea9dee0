# %%
# @title Imports { display-mode: "form" }
import os
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from colab_helpers import benchmark, hardware, precision, published, runtime

from colab_lessons import data, exercises, figures, models, reference
from colab_lessons.predictions import guessed
from colab_lessons.two_sides import Queue

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SECONDS = None
SIZES = None
MEGABYTES = None
N = None
EPOCHS = None
GPT_STEPS = None
SHOWN = None
NUMBERS = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
SECONDS = SECONDS or (0.05 if FAST else 0.3)  # time budget of one measurement
SIZES = SIZES or [2**k for k in range(4, 8 if FAST else 13)]  # matrices that are moved
MEGABYTES = MEGABYTES or (16 if FAST else 128)  # of a large copy
N = N or (512 if FAST else 2048)  # of the matrices in the queue
EPOCHS = EPOCHS or (5 if FAST else 30)
GPT_STEPS = GPT_STEPS or (10 if FAST else 700)
SHOWN = SHOWN or (50 if FAST else None)
NUMBERS = NUMBERS or (10**5 if FAST else 10**7)  # for the compiler
LADDER = models.GPTConfig(block_size=128, n_embd=64 if FAST else 256, n_head=4, n_layer=1 if FAST else 4)

# %% [markdown] tags=["minutes-10"]
# ## Nothing moves by itself
#
# A GPU has a memory of its own. Every tensor lives in one memory, and work happens where its tensors live.

# %%
x = torch.randn(3)
x.device

# %%
has_accelerator = torch.accelerator.is_available()
device = torch.accelerator.current_accelerator() if has_accelerator else torch.device("cpu")
device, torch.accelerator.device_count()

# %% [markdown]
# `torch.accelerator` covers CUDA, Apple's MPS, Intel's XPU and others. Ask it, and hardly any of your lines needs to name a
# vendor. (Older notebooks write `"cuda" if torch.cuda.is_available() else "cpu"`, and mean the same.) `.to(device)` gives you a tensor that lives there; if it was there already, you get the same one back.

# %%
there = x.to(device)
there.device, there is x

# %% [markdown]
# ### WRONG: mix two places
#
# Two tensors, two memories. Without a GPU, the second place is `meta`: a device of PyTorch that knows shapes and holds
# no numbers, and that refuses to be mixed just like any other. (Only a single number on the CPU, a tensor without a dimension, may mix.)

# %%
elsewhere = device if device.type != "cpu" else torch.device("meta")
try:
    mixed = torch.ones(3) + torch.ones(3, device=elsewhere)
except RuntimeError as error:
    mixed = str(error).splitlines()[0]
mixed

# %% [markdown]
# ### RIGHT: bring both to one place
#
# Read the message: it names both devices. (With a GPU it says "Expected all tensors to be on the same device, but found at
# least two devices, cuda:0 and cpu!", or words much like it.) Then move one of them: usually the data, to where the model lives. (What moves to `meta` leaves
# its numbers behind; it only shows the rule.)

# %%
(torch.ones(3, device=elsewhere) + torch.ones(3).to(elsewhere)).device

# %% [markdown]
# One trap remains. A model moves itself; a tensor only gives you a copy that has moved.

# %%
model, batch = nn.Linear(3, 1), torch.ones(2, 3)
model.to(elsewhere)  # moves the model
batch.to(elsewhere)  # WRONG: the copy is thrown away
print("model:", next(model.parameters()).device, "· batch:", batch.device)
batch = batch.to(elsewhere)  # RIGHT
model(batch).device

# %% [markdown] tags=["minutes-7", "short-5"]
# ## The move costs
#
# Two matrices have to cross over, and their product has to come back. Without a GPU, the copies go from one part of your
# memory to another: real bytes, over a much shorter distance.
#
# A T4 computes at most 8.1 · 10¹² operations per second, and its connection, *PCIe*, carries at most 15.75 · 10⁹ bytes. A product of two n × n
# matrices takes 2n³ operations, and three such matrices in float32 are 12n² bytes.
#
# **Predict.** Above what n does a T4 spend more time on computing a product than on moving its three matrices?

# %%
balance_of_a_t4 = None  # @param {type:"integer"}

# %%
moving, computing = [], []
for n in SIZES:
    a, b = torch.randn(n, n), torch.randn(n, n)
    a_there, b_there = a.to(device), b.to(device)

    def journey():
        a.to(device, copy=True), b.to(device, copy=True)
        return a_there.to("cpu", copy=True)  # as large as the product

    moving.append(benchmark.measure(journey, budget=SECONDS).median)
    computing.append(benchmark.measure(lambda: a_there @ b_there, budget=SECONDS).median)

# %%
t4 = hardware.catalogue()["T4"]
pci = 15.75e9  # bytes per second over PCIe 3 with 16 lanes, a T4's connection
paper = {
    "T4 computes (8.1 TFLOP/s)": [2 * n**3 / t4.peak["fp32"] for n in SIZES],
    "T4 moves (15.75 GB/s)": [12 * n**2 / pci for n in SIZES],
}
t4_balance = 6 * t4.peak["fp32"] / pci  # where 2n³ / peak = 12n² / rate
figures.race(
    SIZES, {"you compute": computing, "you move": moving}, limits=paper, xlabel="matrix size n",
    crossing=t4_balance, prediction=balance_of_a_t4,
    title=f"On paper, a T4 spends longer moving than computing below n = {t4_balance:,.0f}{guessed(balance_of_a_t4)}",
)

# %% [markdown] tags=["minutes-3", "short-0"]
# Computing grows with n³ and moving with n², so the lines must cross. On the far left you only time the calls. A jump in
# your moving is where copies stop fitting into a cache, or need memory that is new. Without a GPU your lines cross
# early, because a CPU computes slowly. A T4's cross above n = 3,000: it computes so fast
# that its connection looks like a drinking straw. That is the first rule of GPU programming: move once, then do much there. And
# move little: pixels that are stored as bytes should become floats *after* the journey.
#
# ## Pinned memory
#
# The operating system may move ordinary memory around (*pageable* memory), so a GPU cannot fetch from it on its own: each
# copy makes a detour through a buffer. *Pinned* memory stays put. With a CUDA GPU you measure both; without one you see what others measured on a
# GPU of the T4's generation.

# %%
pageable = torch.ones(MEGABYTES * 10**6 // 4)
target = torch.empty_like(pageable, device=device)
routes = {}
if device.type == "cuda":
    pinned = pageable.pin_memory()
    routes["your GPU, pageable"] = lambda: target.copy_(pageable)
    routes["your GPU, pinned"] = lambda: target.copy_(pinned, non_blocking=True)
rates = {name: 4 * target.numel() / benchmark.measure(route, budget=SECONDS).median for name, route in routes.items()}

# %%
both = {"pageable": published.get("upload-turing-pageable"), "pinned": published.get("upload-turing-pinned")}
figures.bars(
    rates, unit="B/s", published={f"a Turing GPU, {kind}, 1 MB": row for kind, row in both.items()},
    title=f"Published: from pinned memory, uploads are {both['pinned'].value / both['pageable'].value:.1f} times as fast",
)

# %% [markdown] tags=["minutes-10"]
# Pinning makes uploads of 1 MB three times as fast; at the pageable rate, the T4's
# crossing above would lie beyond n = 10,000. `DataLoader(pin_memory=True)` puts each batch into pinned memory for you, and only from there can
# `.to(device, non_blocking=True)` copy in the background while Python goes on. (Never send results *back* that way and read them at once: they may
# not have arrived. `.cpu()` waits.)
#
# ## A call returns at once
#
# A GPU is a queue that somebody else works through. Your line only adds to the queue, and Python goes on. Without a GPU,
# a second thread of your CPU plays that part here: it takes the work in order, and Python goes on as well.
#
# **Predict.** Your clock stops as soon as the call for one large product returns. How many times too short is the time that it shows?

# %%
times_too_short = None  # @param {type:"number"}

# %%
matrix = torch.randn(N, N, device=device)
worker = ThreadPoolExecutor(1)  # without a GPU: one thread, which takes calls in order


def launch():
    return worker.submit(torch.matmul, matrix, matrix) if device.type == "cpu" else matrix @ matrix


def finish(launched):
    return launched.result() if device.type == "cpu" else torch.accelerator.synchronize()


warm = finish(launch())

# %% [markdown]
# ### WRONG: stop the clock when the call returns

# %%
start = time.perf_counter()
launched = launch()
wrong = time.perf_counter() - start
finish(launched)
f"{1000 * wrong:.3f} ms"

# %% [markdown]
# ### RIGHT: wait until the work is done

# %%
start = time.perf_counter()
finish(launch())  # synchronize
right = time.perf_counter() - start
f"{1000 * right:.3f} ms: the WRONG clock was {right / wrong:,.0f} times too short{guessed(times_too_short)}"

# %% [markdown] tags=["minutes-10"]
# The factor itself means little, since a larger matrix makes it as large as you like. What matters: the WRONG clock timed the
# call, and not the work. A lesson of the [Carpentries](https://carpentries-incubator.github.io/lesson-gpu-programming/) timed a
# convolution (in CuPy) on a Colab T4 both ways, 98 microseconds and 20.6 milliseconds. And one run is still no measurement.
# `torch.utils.benchmark.Timer` warms up, waits and repeats (on one thread, unless you say otherwise); so does `benchmark.measure`, for other frameworks too.
#
# ## Who was busy when?
#
# Now use such a queue. Below, Python prepares batches (it unpacks bytes) while the device trains on them (it multiplies
# matrices). `Queue` works like the thread from above, and notes when each side was busy. First measure how long each side needs alone, and make the two about equal.

# %%
# @title The work of each side { display-mode: "form" }
packed = zlib.compress(os.urandom(500) * (8_000 if N < 1000 else 40_000))
size = len(zlib.decompress(packed))
tile = torch.randn(512, 512, device=device) / 512**0.5
trial = Queue()


def many_products():
    for _ in range(20):
        result = tile @ tile
    return result


one = benchmark.measure(lambda: trial.launch("products", many_products).result(), budget=SECONDS).median / 20
unpacking = benchmark.measure(lambda: zlib.decompress(packed, bufsize=size), budget=SECONDS).median


def train():
    result = tile
    for _ in range(max(1, round(unpacking / one))):
        result = tile @ result
    return result

# %%
def loop(wait_in_each_step, steps=12):
    queue = Queue()
    for _ in range(steps):
        queue.python("prepare a batch", lambda: zlib.decompress(packed, bufsize=size))
        launched = queue.launch("train on it", train)
        if wait_in_each_step:
            launched.result()  # as .item() does
    launched.result()
    return queue


warm = loop(True), loop(False)

# %% [markdown]
# ### WRONG: wait in each step
#
# Whatever needs a number from the device waits for it: `.item()`, `.cpu()`, `print(loss)`, `if loss < best`.

# %%
waiting = min((loop(wait_in_each_step=True) for _ in range(3)), key=lambda run: run.seconds)
f"{1000 * waiting.seconds:.0f} ms"

# %% [markdown]
# ### RIGHT: wait once, at the end
#
# **Predict.** Wait once, at the end, instead of in each step: how many times as fast is the loop?

# %%
times_as_fast = None  # @param {type:"number"}

# %%
flowing = min((loop(wait_in_each_step=False) for _ in range(3)), key=lambda run: run.seconds)
gain = waiting.seconds / flowing.seconds
figures.activity(
    {"wait in each step": waiting.sides, "wait at the end": flowing.sides},
    title=f"Waiting only once is {gain:.1f} times as fast{guessed(times_as_fast)}",
)

# %% [markdown] tags=["minutes-4", "short-0"]
# In the upper pair one side always stands still while the other works. In the lower pair they overlap, and the whole takes
# as long as the busier side: twice as fast at best, when both are equally busy, and less if they are not or if, as here without a GPU,
# they share the cores. The upper pair is what "my GPU is at 50 %" looks like from inside. So keep losses on the device, and
# ask for numbers once in a while. With CUDA you need not guess: `torch.cuda.set_sync_debug_mode("warn")` names most of the lines that wait, each of them once.
#
# ## A first training: ten numbers
#
# Learn y = w · x from noisy examples. Model and data go to the device once, and nothing inside the loop
# mentions it. (A *gradient* says for each weight which way, and how steeply, the error rises. The step goes the other way.)

# %%
torch.manual_seed(0)
w = torch.randn(10, 1)
inputs = torch.randn(1000, 10)
targets = inputs @ w + 0.1 * torch.randn(1000, 1)

model = nn.Linear(10, 1).to(device)
inputs, targets = inputs.to(device), targets.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(100):
    optimizer.zero_grad()  # forget the last gradients
    loss = F.mse_loss(model(inputs), targets)
    loss.backward()  # gradients: for each weight, which way is more loss?
    optimizer.step()  # a small step the other way

learned = model.weight.detach().cpu().T
f"largest error of a weight: {(learned - w).abs().max():.4f}"

# %% [markdown]
# `.cpu()` brings the result back, and waits for it.

# %% [markdown] tags=["minutes-6", "short-0"]
# ## Real digits
#
# 1,797 handwritten digits of 8 × 8 pixels, and a network 64 → 256 → 10. Lesson 04 trains the same network in TensorFlow.
# (An *epoch* is one pass over all training data.)

# %%
split = data.digits()
x_train, y_train = torch.from_numpy(split.x_train), torch.from_numpy(split.y_train)
x_test, y_test = torch.from_numpy(split.x_test), torch.from_numpy(split.y_test)


def make_classifier():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)).to(device)


def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()  # the number without its history; it stays on the device


# %%
classifier = make_classifier()
optimizer = torch.optim.Adam(classifier.parameters())
images, labels = x_train.to(device), y_train.to(device)
BATCH = 64

# %%
losses = []
for _ in range(EPOCHS):
    for rows in torch.randperm(len(images), device=device).split(BATCH):
        losses.append(train_step(classifier, optimizer, images[rows], labels[rows]))

# %%
curve = torch.stack(losses).view(EPOCHS, -1).mean(1).tolist()  # one trip back, at the end
with torch.no_grad():
    accuracy = (classifier(x_test.to(device)).argmax(1).cpu() == y_test).double().mean().item()

# %%
figures.lines(
    range(1, EPOCHS + 1), {"training loss": curve},
    title=f"The loss falls to {curve[-1]:.2g}; {accuracy:.1%} of the test digits are right", xlabel="epoch", ylabel="loss",
)

# %% [markdown] tags=["minutes-5", "short-0"]
# ## Why CPU and GPU rarely agree to the last bit
#
# A GPU rounds in other places, for instance because it adds the terms of a sum in a different order. Usually that does not matter. Here is
# where it does. You need no second device to see how: take the logistic map of lesson 01, x → 3.7 x (1 − x), and write it in two ways that are
# equal on paper but round in different places.
#
# **Predict.** After how many steps do the two formulas differ by more than 0.1, in float32?

# %%
steps_until_apart = None  # @param {type:"integer"}

# %%
one, other = (torch.tensor(0.5, dtype=torch.float32, device=device) for _ in range(2))
path_one, path_other = [], []
for _ in range(80):
    one = 3.7 * one * (1 - one)
    other = 3.7 * other - 3.7 * other * other  # the same, with the bracket multiplied out
    path_one.append(one), path_other.append(other)

# %%
distance = (torch.stack(path_one) - torch.stack(path_other)).abs().tolist()
apart = next((step for step, gap in enumerate(distance, 1) if gap > 0.1), None)

# %%
figures.lines(
    range(2, 81), {"distance": [max(gap, 2**-25) for gap in distance[1:]]}, log_y=True,
    xlabel="step", ylabel="distance between the two",
    title=f"Equal on paper, 0.1 apart after {apart} steps in float32{guessed(steps_until_apart)}",
)

# %% [markdown] tags=["minutes-7", "short-0"]
# Each mark on the vertical axis is ten times the one below, so a straight climb is a distance that grows by the same factor again and again. float32
# keeps about seven figures, so the first error is less than a ten-millionth; each pair of steps roughly doubles it, until the two
# have nothing in common any more. (After the first step they still agree exactly, so the plot begins with the second.) A network in training forgives more, and drifts apart all the same. So never compare results with `==`; use
# `torch.testing.assert_close`, which allows for rounding, and expect two devices to part company in a long training run without either of them being wrong.
#
# ## Feeding it
#
# A fast chip starves on a slow feed. The usual feed is a `DataLoader`. For data that fits, keeping all of it on the device
# is another.
#
# Take the feed alone: all batches of one epoch, brought to the device, without training on them.
#
# **Predict.** How many times as long as picking rows on the device does a `DataLoader` take for that?

# %%
times_longer = None  # @param {type:"number"}

# %%
dataset = TensorDataset(x_train, y_train)
workers = min(2, hardware.list_devices().cpu.cores)
feeds = {
    "DataLoader": {},
    f"DataLoader, {workers} workers": {"num_workers": workers, "persistent_workers": True},
}
if device.type == "cuda":
    feeds["DataLoader, pinned"] = {"pin_memory": True}
loaders = {name: DataLoader(dataset, BATCH, shuffle=True, **how) for name, how in feeds.items()}
whole_batches = BatchSampler(RandomSampler(dataset), BATCH, drop_last=False)
loaders["DataLoader, whole batches"] = DataLoader(
    dataset, batch_size=None, sampler=whole_batches  # the sampler already gives a batch's rows
)

# %%
def fetch_from(loader):
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
    return x, y


def fetch_on_device():
    for rows in torch.randperm(len(images), device=device).split(BATCH):
        x, y = images[rows], labels[rows]
    return x, y


def only_train():  # on the same batch again and again
    for _ in range(0, len(images), BATCH):
        loss = train_step(classifier, optimizer, images[:BATCH], labels[:BATCH])
    return loss


# %%
feeding = {n: benchmark.measure(lambda: fetch_from(loaders[n]), budget=SECONDS).median for n in loaders}
feeding["rows picked on the device"] = benchmark.measure(fetch_on_device, budget=SECONDS).median
training = benchmark.measure(only_train, budget=SECONDS).median
fed = feeding["DataLoader"] / feeding["rows picked on the device"]
figures.bars(
    feeding, unit="s", marks={"the training itself": training},
    title=f"To feed an epoch, a DataLoader takes {fed:.0f} times as long as picking rows on the device{guessed(times_longer)}",
)

# %% [markdown]
# Workers are separate processes, and each batch has to be packed, sent and unpacked. For images that must be decoded they
# are worth it; for tiny rows like these they cost more than they save. Normally a loader fetches 64 rows one by one and stacks them. The bar
# "whole batches" asks once for all 64, and helps at no cost at all. The dashed line is what the epoch's training takes. If feeding takes about as long as training, the chip waits. A GPU
# hardly shortens the training of a network as small as this one, since launching its calls is the limit. The training of a large one it shortens a lot: then the line moves far to the left, while the bars stay where they are.
#
# How would you find that in a loop of your own? Ask `torch.profiler`. It notes each operation, how often it was called, and how long the CPU was busy with it.

# %%
with runtime.quiet(), torch.profiler.profile(acc_events=True) as noted:  # else PyTorch 2.11 warns
    for x, y in loaders["DataLoader"]:
        train_step(classifier, optimizer, x.to(device), y.to(device))
del loaders  # ends the workers
operations = [one for one in noted.key_averages() if "evaluate_function" not in one.key]
whole = sum(one.self_cpu_time_total for one in operations)
for one in sorted(operations, key=lambda one: -one.cpu_time_total)[:8]:
    print(f"{one.cpu_time_total / whole:4.0%} of the time, {one.count:>5,} calls: {one.key}")

# %% [markdown] tags=["minutes-7", "short-0"]
# These are times of the CPU: with a GPU that is the launching, without one the computing itself. (`print(noted.key_averages().table())` has the GPU's as well. Callers include what they call, so the shares add up to
# more than 100 %.) `enumerate(DataLoader)` is the wait for the next batch. `select` picks one row out of a tensor: it is called twice for each of the 1,437 digits, once for the image
# and once for its label. That is what fetching one by one looks like. When a loop of yours is slow, ask in this order:
#
# 1. *Is it fed?* Profile an epoch. If the loader is among the first lines: whole batches, workers for what must be decoded, or keep the data on the device.
# 2. *Does it stop?* Look for `cudaStreamSynchronize`, or let `set_sync_debug_mode("warn")` name the lines. (`aten::item` alone proves nothing: Adam calls it for its step counters, which lie on the CPU.)
# 3. *Are the calls too small?* Thousands of calls of a few microseconds: larger batches, fused optimisers, `torch.compile`. (A network as small as this one
#    never loads a GPU. Its time goes into some fifty calls a step.)
# 4. Only then ask for a larger chip.
#
# ## A network that learns to add
#
# Now a small GPT, which predicts the next *token* of a text; here each character is one. It learns from text like
# `35+77=211`: both numbers, then the sum, 112, with its last digit first, which is the order in which one adds. A tenth of all pairs of numbers is held out, and
# each of them together with its twin: if 47+03 is, so is 03+47.

# %%
sums = data.sums()
print(*(data.spell(row) for row in sums.train[:4]), sep="   ")
print(f"{len(sums.train)} to learn from, {len(sums.test)} held out")

# %%
config = models.GPTConfig(vocab_size=len(data.SUM_ALPHABET), block_size=8, n_embd=128, n_head=4, n_layer=2)
torch.manual_seed(0)
adder = models.GPT(config).to(device)
rows, held_out = (torch.from_numpy(part).to(device) for part in (sums.train, sums.test[:SHOWN]))
every = max(1, GPT_STEPS // 28)  # steps between two looks at the held-out sums
checks = range(0, GPT_STEPS, every)
optimizer = torch.optim.AdamW(adder.parameters(), lr=2e-3)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=every * len(checks))


# %%
def learn(batch):
    # 35+77=211 has nine characters. Each place predicts the next one, and only the sum, 211, is worth predicting.
    logits = adder(batch[:, :-1])[:, sums.answer - 1 :]
    loss = F.cross_entropy(logits.flatten(0, 1), batch[:, sums.answer :].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    return loss.detach()


@torch.no_grad()
def answers(rows):
    written = rows[:, : sums.answer]
    while written.shape[1] < rows.shape[1]:
        next_token = adder(written)[:, -1:].argmax(-1)
        written = torch.cat([written, next_token], 1)
    return written


# %%
GPT_BATCH = 256
right_so_far, guesses, busy = {}, {}, 0.0
for done in checks:
    start = time.perf_counter()
    for _ in range(every):
        loss = learn(rows[torch.randint(len(rows), (GPT_BATCH,), device=device)])
    loss.item()  # wait, before the clock stops
    busy += time.perf_counter() - start
    written = answers(held_out)
    guesses[done + every] = data.spell(written[0].cpu().numpy())
    right_so_far[done + every] = 100 * (written == held_out).all(1).float().mean().item()
tokens_a_second = len(right_so_far) * every * GPT_BATCH * config.block_size / busy

# %%
last = [*right_so_far.values()][-1]
figures.lines(
    [*right_so_far], {"sums it never saw": [*right_so_far.values()]}, xlabel="step", ylabel="% right",
    title=f"After {[*right_so_far][-1]} steps {last:.1f} % of the held-out sums are right",
)

# %%
first_task = data.spell(held_out[0].cpu().numpy())
print(f"the task: {first_task[: sums.answer]}  (right, last digit first: {first_task[sums.answer :]})")
print(*(f"step {step:>3}: {text[sums.answer:]}" for step, text in [*guesses.items()][:14]), sep="\n")
texts = [data.spell(row) for row in held_out.cpu().numpy()]
carried = torch.tensor([int(text[1]) + int(text[4]) > 9 for text in texts], device=device)
carry_right = 100 * (answers(held_out) == held_out).all(1)[carried].float().mean().item()
print(f"{int(carried.sum())} of the {len(texts)} held-out sums carry a 1 out of the last digit; right: {carry_right:.1f} %")
print(f"It learned from {tokens_a_second:,.0f} tokens a second here.")

# %% [markdown] tags=["minutes-8"]
# It never saw these pairs, so it cannot have learned them by heart. It found out how to carry. Watch its guesses: at
# first they have little to do with the sum, and within a few hundred steps they settle on it.
#
# ## The ladder: one training, each change on top of the last
#
# How much of a chip does a training really use? Take a GPT like that of lesson 01, smaller, and count *tokens per second*,
# the pieces of text that it learns from. (*Autocast* lets PyTorch compute products in a 16-bit format; lesson 07 looks inside.)

# %%
short = torch.float16 if precision.advise(hardware.list_devices().main).format == "fp16" else torch.bfloat16


def tokens_per_second(batch, fused=False, dtype=None):
    model = models.GPT(LADDER).to(device)
    adamw = torch.optim.AdamW(model.parameters(), fused=fused)
    ids = torch.randint(LADDER.vocab_size, (batch, LADDER.block_size + 1), device=device)

    def step():
        adamw.zero_grad()
        with torch.autocast(device.type, dtype=dtype or short, enabled=dtype is not None):
            loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        adamw.step()

    return batch * LADDER.block_size / benchmark.measure(step, budget=3 * SECONDS).median


# %% [markdown]
# **Predict.** One row at a time, 16 rows, a fused optimiser, autocast: how many times as fast as the first rung is the best one?

# %%
times_up = None  # @param {type:"number"}

# %%
rungs = {
    "one row at a time": tokens_per_second(1),
    "16 rows at a time": tokens_per_second(16),
    "+ fused optimiser": tokens_per_second(16, fused=True),
    f"+ autocast to {str(short)[6:]}": tokens_per_second(16, fused=True, dtype=short),
}

# %%
climbed = max(rungs.values()) / rungs["one row at a time"]
batching = rungs["16 rows at a time"] / rungs["one row at a time"]
figures.bars(rungs, unit="tokens/s", title=f"The best rung is {climbed:.1f} times as fast as the first{guessed(times_up)}")

# %%
ladder = published.get("ladder-a100")
print(*(f"{rate:>9,.0f} tokens/s  {change}" for change, rate in ladder.points.items()), sep="\n")
print(f"[{ladder.chip}, {ladder.what}: {ladder.credit}]")

# %% [markdown] tags=["minutes-4", "short-0"]
# Larger batches keep more of the chip busy, a fused optimiser does in one call what takes several, and 16-bit formats halve the bytes and
# use faster units, where the chip has them. Where it has none, as many CPUs, each number is converted there and back, and your last
# bar falls instead of rising. (Training in fp16 also needs a scaler, lesson 07; here you only time.) The
# printed list is somebody else's ladder on an A100: eleven times as fast, on the same chip with nearly the same network, mostly
# by switching on what others have written. tf32 and bf16 are formats with fewer digits. FlashAttention never stores the whole table of which token looks at which.
# A vocabulary rounded up to 50,304 divides evenly among the chip's units. Note the rungs that gained nothing: a batch of text is tiny, so
# pinning its memory was no help. A few per cent on yours may be noise.
#
# ## What torch.compile changes
#
# `torch.compile` turns many operations into a few programs for the chip, called *kernels*. Compiling takes seconds, once.
#
# Here are seven operations on an array of many numbers.

# %%
def curve_of(x):
    return torch.sin(x) * torch.cos(x) + x**2 * torch.sigmoid(x)


many = torch.randn(NUMBERS, device=device)
plain = benchmark.measure(lambda: curve_of(many), budget=SECONDS).median
f"{1000 * plain:.1f} ms as written"

# %% [markdown]
# **Predict.** They become one program. After how many calls has compiling them paid for itself?

# %%
calls_until_paid = None  # @param {type:"integer"}

# %%
compiled = torch.compile(curve_of)
start = time.perf_counter()
try:
    compiled(many)
    benchmark.synchronize()
    outcome = "compiled"
except Exception as error:  # no C++ compiler, or no Triton, on this machine
    compiled, outcome = None, f"{type(error).__name__}: {str(error).strip().splitlines()[0][:90]}"
compile_seconds = time.perf_counter() - start
outcome

# %%
fused = benchmark.measure(lambda: compiled(many), budget=SECONDS).median if compiled else plain
pays = f"after {compile_seconds / (plain - fused):,.0f} calls" if fused < plain else "never"
f"{outcome}, in {compile_seconds:.1f} s; {1000 * plain:.1f} ms as written, {1000 * fused:.1f} ms compiled: pays {pays}{guessed(calls_until_paid)}"

# %% [markdown] tags=["minutes-7", "short-0"]
# As written, seven operations read or write a whole array seventeen times, and ask for seven new arrays. Compiled, the
# numbers are read once and the results written once, into one new array. On a GPU the seventeen become two, so at best it is eight times as fast. On a CPU the
# new arrays count most, because the system hands them over page by page: one instead of seven. (A compilation is kept on disk, so your second run of this notebook pays less for it.) Others compiled
# [Stable Diffusion](https://github.com/huggingface/diffusers/blob/main/docs/source/en/optimization/torch2.0.md) in the mode `reduce-overhead`.
# On an A100 that made it twice as fast for one picture at a time and a quarter faster for sixteen; on a T4, 6 % for one
# picture and 13 % for four. A compiler can only save what is wasted.
#
# ## Exercises
#
# ### 1 · A function that works anywhere
# It gets a model and an `x` that may live elsewhere. Return `x` on the model's device. Don't name any
# device; `next(model.parameters())` has one.

# %% tags=["exercise"]
def beside(model, x):
    return ...  # one line


### BEGIN SOLUTION
def beside(model, x):
    return x.to(next(model.parameters()).device)


### END SOLUTION
exercises.check("03.beside", beside)

# %% [markdown]
# ### 2 · Move only what is needed
# 60,000 images of 28 × 28 pixels lie in CPU memory as bytes (`uint8`). The network wants float32. How
# many MB (10⁶ bytes) have to cross for the first epoch, if you do it the cheapest way?

# %% tags=["exercise"]
megabytes_to_move = ...
### BEGIN SOLUTION
megabytes_to_move = 60_000 * 28 * 28 * 1 / 1e6  # send bytes, make floats there
### END SOLUTION
exercises.check("03.move_less", megabytes_to_move)

# %% [markdown]
# ### 3 · Find the hidden stops
# Which of these lines wait for the device? Answer with their numbers, as a set such as `{1, 2}`.
#
# ```
# 1  loss = criterion(model(x), y)
# 2  loss.backward()
# 3  total += loss.item()
# 4  history.append(loss.detach())
# 5  if loss > 3: print("high")
# 6  optimizer.step()
# 7  guess = logits.argmax(1).cpu()
# ```

# %% tags=["exercise"]
stopping_lines = ...
### BEGIN SOLUTION
stopping_lines = {3, 5, 7}
### END SOLUTION
exercises.check("03.hidden_stops", stopping_lines)

# %% [markdown]
# ### 4 · Open task: halve this loop's time
#
# `slow_loop` adds up squares of a thousand small tensors, and asks for each result. Write `quick_loop`: the same number, in
# half the time or less. The check runs both.

# %% tags=["exercise"]
pieces = [torch.full((16,), float(i), device=device) for i in range(1000)]


def slow_loop(pieces):
    total = 0.0
    for piece in pieces:
        total += (piece * piece).sum().item()
    return total


def quick_loop(pieces):  # returns a number
    return ...


### BEGIN SOLUTION
def quick_loop(pieces):
    stacked = torch.stack(pieces)  # one tensor: a call for all of them
    return sum((stacked * stacked).sum(1).tolist())  # one wait; Python adds with enough figures


### END SOLUTION
exercises.check("03.quick_loop", quick_loop, slow=slow_loop, pieces=pieces)

# %% [markdown] tags=["minutes-2"]
# ## Three things to take away

# %%
takeaways = {
    "Move once, then do much": f"on paper a T4 spends its time on moving, below n = {t4_balance:,.0f}.",
    "Wait rarely": f"waiting only at the end was {gain:.1f} times as fast.",
    "Give it more at once": f"16 rows at a time learn {batching:.1f} times as fast as one; the ladder's best rung, {climbed:.1f} times.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Put predictions beside results { display-mode: "form" }
guess = reference.Prediction
predicted = {
    "balance_of_a_t4": guess(balance_of_a_t4, t4_balance),
    "times_too_short": guess(times_too_short, right / wrong, "×"),
    "times_as_fast": guess(times_as_fast, gain, "×"),
    "steps_until_apart": guess(steps_until_apart, apart),
    "times_longer": guess(times_longer, fed, "×"),
    "times_up": guess(times_up, climbed, "×"),
    "calls_until_paid": guess(calls_until_paid, compile_seconds / (plain - fused) if fused < plain else None),
}

# %%
# @title Keep them as a record { display-mode: "form" }
inventory, value = hardware.list_devices(), reference.Value
reference.record(
    "03_pytorch_on_gpu", FAST, device=inventory.cpu if device.type == "cpu" else inventory.main, predicted=predicted,
    wrong_clock=value(right / wrong, "×", "too short: the time of a clock that does not wait"),
    waiting_once=value(gain, "×", "speed of a loop that waits only once, one that always waits being 1"),
    digits=value(100 * accuracy, "%", "of the test digits right"),
    steps_apart=value(apart or 0, "", "steps until two equal formulas differ by 0.1 in float32"),
    on_device=value(fed, "×", "time of a DataLoader for an epoch's batches, picking rows on the device being 1"),
    tokens=value(tokens_a_second, "tokens/s", "the network that learns to add"),
    sums=value(last, "%", "of the held-out sums right"),
    ladder=value(climbed, "×", "speed on the ladder's best rung, its first being 1"),
    compile=value(plain / fused, "×", f"speed of seven operations compiled, {NUMBERS:,} numbers"),
)

# %% [markdown] tags=["minutes-0"]
# ## What comes next
#
# You can move work onto a chip, time it, feed it, and let it flow. The next lesson does the same in TensorFlow, and looks
# inside a pipeline that feeds a chip.
