# %%
# @title Imports { display-mode: "form" }
import io
import os
import time

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's own messages

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_sample_images
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from colab_helpers import benchmark, hardware, published_results

from colab_lessons import exercises, figures, models, reference, replay
from colab_lessons.predictions import guessed  # adds what you predicted to a title

replay.watch("03_pytorch_on_gpu")  # where a package is missing, a recorded output appears

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SIZE = None
STEPS = None
PHOTOS = None
TEXTS = None
SECONDS = None
LAYERS = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
SIZE = SIZE or (256 if FAST else 1024)  # of matrices
STEPS = STEPS or (5 if FAST else 20)  # of the loop that reads its loss, or doesn't
PHOTOS = PHOTOS or (64 if FAST else 256)  # JPEG files
TEXTS = TEXTS or (4 if FAST else 16)  # in a large batch
SECONDS = SECONDS or (0.05 if FAST else 1)  # for each rung
LAYERS = LAYERS or (1 if FAST else 4)  # of the GPT

# %% [markdown] tags=["minutes-6", "short-5"]
# ## Nothing moves by itself
#
# PyTorch works where its tensors are. If one lies elsewhere, it stops and says so. The method that moves things is `.to`, and it has a trap.
# Without a GPU you'll meet the trap with another number format, where `.to` behaves just the same.

# %%
torch.set_num_threads(1)  # one core of the CPU: on a shared machine a second one makes timings jump
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
there = device if device.type != "cpu" else torch.float64
model, x = nn.Linear(4, 2), torch.rand(3, 4)

# %% [markdown]
# ### WRONG: move, and keep the old one

# %%
model.to(there)
x.to(there)
try:
    model(x)
except RuntimeError as error:
    print(f"RuntimeError: {error}")

# %% [markdown]
# ### RIGHT: a tensor's `.to` returns a new tensor

# %%
x = x.to(there)
model(x).shape

# %% [markdown]
# A model moves itself. A tensor doesn't. That's the first error everybody gets.

# %% [markdown] tags=["minutes-8", "short-7"]
# ## The clock that stops too early
#
# A GPU works through a *queue*. Python puts work in and goes on at once, long before the work is done. So a careless clock measures how
# long it takes to put work in.
#
# PyTorch on a CPU has no queue, and each call is done when it returns. JAX, another framework, has one even on a CPU. So without an NVIDIA GPU the next
# two experiments run in JAX, and you see the real thing. `jit` compiles a function into a single call, and `block_until_ready` waits for it.
#
# **Predict.** How many times too short is the careless clock's time?

# %%
factor = None  # @param {type:"integer"}

# %%
# needs: jax
if device.type == "cuda":
    b = torch.rand(4 * SIZE, 4 * SIZE, device=device)
    work, wait = lambda: b @ b, lambda result: torch.cuda.synchronize()
else:
    import jax

    b = jax.numpy.ones((SIZE, SIZE))
    twenty = jax.jit(lambda b: jax.lax.fori_loop(0, 20, lambda i, y: y @ b / SIZE, b))  # twenty products
    work, wait = lambda: twenty(b), lambda result: result.block_until_ready()
_ = wait(work())  # warm up

# %%
# needs: jax
start = time.perf_counter()
result = work()
returned = time.perf_counter() - start  # WRONG: the work has only been queued
wait(result)
done = time.perf_counter() - start
print(f"the call returned after {1000 * returned:.2f} ms, the result was there after {1000 * done:.0f} ms: {done / returned:,.0f}×")

# %% [markdown]
# The more work you queue, the more wrong the careless clock is. In PyTorch you wait with `torch.cuda.synchronize()`, or you let the GPU do the timing.
#
# ```python
# start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
# start.record()
# loss = train_step()  # your own
# end.record()
# torch.cuda.synchronize()
# print(start.elapsed_time(end), "ms")
# ```

# %% [markdown] tags=["minutes-8", "short-7"]
# ## One innocent number
#
# The queue is a gift. While the GPU computes a step, Python can fetch the next batch. But ask for the loss, and Python must wait until the queue
# is empty.
#
# Here's a loop. Each step also waits for a disk, 0.9 times as long as it computes. We use `time.sleep` for the disk, because sleeping takes no
# core away. The only difference between the two runs is one `float(loss)`.
#
# **Predict.** How much slower is the loop that reads its loss in every step? Give a factor.

# %%
reading_costs = None  # @param {type:"number"}

# %%
# needs: jax
if device.type != "cuda":
    weights, rows = [jax.numpy.eye(SIZE // 2)] * 8, jax.numpy.ones((SIZE // 2, SIZE // 2))

    @jax.jit
    def update(weights):
        loss, gradients = jax.value_and_grad(lambda all_: sum((rows @ w).mean() for w in all_))(weights)
        return loss, [w - 1e-3 * g for w, g in zip(weights, gradients)]

    def train():
        global weights
        loss, weights = update(weights)
        return loss


# %%
# @title On a GPU, the same in PyTorch { display-mode: "form" }
if device.type == "cuda":
    net = nn.Sequential(*(nn.Linear(2 * SIZE, 2 * SIZE) for _ in range(8))).to(device)
    sgd, rows = torch.optim.SGD(net.parameters(), 1e-3), torch.rand(SIZE, 2 * SIZE, device=device)

    def train():
        loss = net(rows).square().mean()
        loss.backward()
        sgd.step()
        sgd.zero_grad()
        return loss.detach()


# %%
# needs: jax
def run(read, disk):
    start = time.perf_counter()
    for _ in range(STEPS):
        loss = train()
        if read:
            float(loss)  # .item(), print(loss) and `if loss > 3` do the same
        time.sleep(disk)  # waiting for the next batch
    wait(loss)
    return (time.perf_counter() - start) / STEPS


# %%
# needs: jax
run(True, 0)  # warm up
step = min(run(False, 0) for _ in range(3))
loops = [(run(True, 0.9 * step), run(False, 0.9 * step)) for _ in range(3)]  # in turns

# %%
# @title Draw what a read costs { display-mode: "form" }
# needs: jax
reading, not_reading = zip(*loops)
reads = benchmark.Ratio.of(reading, not_reading)
figures.bars(
    {"train": step, "train + disk": min(not_reading), "train + disk + read": min(reading)}, unit="s",
    title=f"Reading the loss in every step costs {reads}{guessed(reading_costs, '×')}",
)

# %% [markdown]
# Without the read, the disk hides behind the computing. With it, they take turns. That costs most when both are equally long, and then it doubles the
# time. `.item()`, `.cpu()` and `print(loss)` all do it, and so does `.to(device)` from ordinary memory.
#
# Keep losses as `loss.detach()` and read them every hundred steps.

# %% [markdown] tags=["minutes-12", "short-11"]
# ## A feed that starves
#
# Now for a loop that waits without any read. The network is ready, and the next batch isn't. Here's a data set of photos, stored as JPEG
# files as usual. Each one is decoded, shrunk and cropped when it's needed.

# %%
# @title Make the JPEG files from scikit-learn's two photos { display-mode: "form" }
photos, random = load_sample_images().images, np.random.default_rng(0)
files = []
for i in range(PHOTOS):
    top, left = random.integers(0, 43), random.integers(0, 128)
    file = io.BytesIO()
    Image.fromarray(photos[i % 2][top : top + 384, left : left + 512]).save(file, "JPEG", quality=90)
    files.append(file.getvalue())
f"{PHOTOS} files of about {len(files[0]) // 1000} kB, 512 × 384 pixels"


# %%
def decode(file):
    image = Image.open(io.BytesIO(file)).resize((256, 256))
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)  # (3, 256, 256), bytes


class Photos(Dataset):
    def __len__(self):
        return len(files)

    def __getitem__(self, i):
        y, x = torch.randint(33, (2,)).tolist()
        return decode(files[i])[:, y : y + 224, x : x + 224].float() / 255, i % 2  # a random crop


# %%
network = nn.Sequential(
    nn.Conv2d(3, 16, 7, stride=8), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 2),
).to(device)
optimizer = torch.optim.SGD(network.parameters(), 0.1)

# %% [markdown]
# The training loop keeps two clocks. One runs while it waits for a batch, the other while it trains.


# %%
def epoch(batches):
    spans, start = [], time.perf_counter()
    begin = start
    for images, labels in batches:
        arrived = time.perf_counter()
        loss = F.cross_entropy(network(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if device.type != "cpu":
            torch.accelerator.synchronize()  # only for the clocks
        end = time.perf_counter()
        spans += [(begin - start, arrived - start, "waits for data"), (arrived - start, end - start, "trains")]
        begin = end
    return spans


# %% [markdown]
# **Predict.** What percentage of the time does the network wait for its photos?

# %%
percent_waiting = None  # @param {type:"number"}

# %%
ready = [(torch.rand(32, 3, 224, 224, device=device), torch.arange(32, device=device) % 2) for _ in range(PHOTOS // 32)]
epoch(ready)  # warm up
feeds = {"batches ready on the device": epoch(ready), "JPEG files": epoch(DataLoader(Photos(), 32, shuffle=True))}

# %%
# @title Draw who waits { display-mode: "form" }
def waiting(spans):
    return sum(end - begin for begin, end, what in spans if what == "waits for data") / spans[-1][1]


def first(spans, batches=2):
    return spans[: 2 * batches]


starved = waiting(feeds["JPEG files"])
figures.activity(
    {"JPEG files": {"": first(feeds["JPEG files"])}, "ready": {"": first(feeds["batches ready on the device"])}},
    title=f"The network waits {starved:.0%} of the time{guessed(percent_waiting, ' %')}",
)

# %% [markdown]
# We chose a small network, so that training takes little time, as it would on a fast GPU. A faster chip shrinks only the slivers of training. If
# nine tenths of the time is waiting, even an infinitely fast GPU makes the loop only 1.11× faster.
#
# The cure is to decode once. All photos fit into memory as bytes, so put them where the network is, and crop there, a whole batch at a time.

# %%
start = time.perf_counter()
store = torch.stack([decode(file) for file in files]).to(device)  # (photos, 3, 256, 256), bytes
if device.type != "cpu":
    torch.accelerator.synchronize()
decoding = time.perf_counter() - start
answers = (torch.arange(len(files)) % 2).to(device)


# %%
def from_store(batch_size=32):
    for rows in torch.randperm(len(store), device=device).split(batch_size):
        y, x = torch.randint(33, (2,)).tolist()
        yield store[rows, :, y : y + 224, x : x + 224].float() / 255, answers[rows]


epoch(from_store())  # warm up
rounds = [(epoch(DataLoader(Photos(), 32, shuffle=True)), epoch(from_store())) for _ in range(3)]  # in turns
feeds |= zip(["JPEG files", "decoded once"], (min(runs, key=lambda spans: spans[-1][1]) for runs in zip(*rounds)))
saved = feeds["JPEG files"][-1][1] - feeds["decoded once"][-1][1]
f"decoding took {decoding:.1f} s, once; each epoch saves {saved:.1f} s, so it pays from epoch {int(decoding / saved) + 1} on"

# %%
# @title Draw the feeds { display-mode: "form" }
speed = {name: PHOTOS / spans[-1][1] for name, spans in feeds.items()}
gain = benchmark.Ratio.of(*([spans[-1][1] for spans in runs] for runs in zip(*rounds)))
figures.bars(
    {name: speed[name] for name in sorted(speed, key=speed.get)}, unit="photos/s",
    title=f"Decoding once feeds the same network {gain} faster",
)

# %% [markdown]
# It isn't perfect. All 32 photos share one crop, and converting them takes a good part of the time that's left. If your photos don't fit, shrink them
# once and store them shrunk.
# A `DataLoader` with `num_workers` decodes in several processes, which helps where there are cores to spare. Colab's free machine has two.

# %% [markdown] tags=["minutes-6", "short-0"]
# ## Ask the profiler
#
# You won't always guess the disease. `torch.profiler` records every operation. These are the lines to type.

# %%
activities = [torch.profiler.ProfilerActivity.CPU] + [torch.profiler.ProfilerActivity.CUDA] * (device.type == "cuda")
with torch.profiler.profile(activities=activities) as profile:
    epoch(DataLoader(Photos(), 32, shuffle=True))
print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=4, max_name_column_width=48))

# %% [markdown]
# Read the first two columns. The line at the top, with `DataLoader` in its name, is the feed, and `cat` below it belongs to it, too. The convolutions
# take a few percent. On a GPU, a loop that reads numbers shows `cudaStreamSynchronize` on top, and so does one that copies from ordinary memory. Thousands of
# tiny calls mean that overhead dominates, so give each more work.

# %% [markdown] tags=["minutes-12", "short-9"]
# ## The ladder
#
# Now put it together. Here's a small GPT, trained on two texts at a time with AdamW, the way a first script does it. Each rung changes one more
# thing.
#
# | rung | what it does |
# |---|---|
# | fused optimizer | a few kernels update all weights, instead of many |
# | more texts at once | fewer, larger calls, and fewer updates |
# | autocast | products in 16 bits, which lesson 07 is about |
# | compiled | operations merged, as in lesson 02 |

# %%
config = models.GPTConfig(block_size=128, n_layer=LAYERS, n_embd=256, n_head=4)
half = torch.bfloat16
if device.type == "cuda" and torch.cuda.get_device_capability() < (8, 0):
    half = torch.float16  # a T4 computes in fp16, and only emulates bf16


# %%
def trainer(batch_size=2, fused=None, dtype=None, compiled=False):
    model = models.GPT(config).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    forward = torch.compile(model) if compiled else model
    tokens = torch.randint(config.vocab_size, (batch_size, config.block_size + 1), device=device)  # any text will do

    def step():
        with torch.autocast(device.type, dtype or half, enabled=dtype is not None):
            logits = forward(tokens[:, :-1])  # (texts, tokens, vocab_size)
            loss = F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


# %%
a = torch.rand(2 * SIZE, 2 * SIZE, device=device)
short = a.to(half)
products = benchmark.compare({"fp32": lambda: a @ a, "16 bits": lambda: short @ short})
peak, peak_half = (2 * (2 * SIZE) ** 3 / one.best for one in products.values())
f"products: {peak / 1e9:,.0f} GFLOP/s in fp32, {peak_half / 1e9:,.0f} in {half}".replace("torch.", "")

# %% [markdown]
# **Predict.** How much faster is the last rung than the first?

# %%
ladder_gains = None  # @param {type:"number"}

# %%
rungs = {
    "as first written": {},
    "fused optimizer": {"fused": True},
    f"{TEXTS} texts at once": {"fused": True, "batch_size": TEXTS},
    f"autocast to {half}".replace("torch.", ""): {"fused": True, "batch_size": TEXTS, "dtype": half},
    "compiled": {"fused": True, "batch_size": TEXTS, "dtype": half, "compiled": True},
}
if peak_half < peak:  # a chip without units for 16 bits: leave that rung out
    rungs = {name: options | {"dtype": None} for name, options in rungs.items() if "autocast" not in name}

# %%
# @title Does torch.compile work here? { display-mode: "form" }
start = time.perf_counter()
try:
    trainer(**rungs["compiled"])()
    if device.type != "cpu":
        torch.accelerator.synchronize()
    print(f"compiling takes {time.perf_counter() - start:.0f} s")
except Exception as error:  # no C++ compiler, or no Triton
    del rungs["compiled"]
    print(f"the last rung is left out ({type(error).__name__})")

# %%
times = benchmark.compare({name: trainer(**options) for name, options in rungs.items()}, budget=SECONDS)
tokens_per_second = {name: rungs[name].get("batch_size", 2) * config.block_size / one.best for name, one in times.items()}

# %%
# @title Draw the ladder { display-mode: "form" }
flop_per_token = 6 * sum(p.numel() for p in models.GPT(config).parameters())
peaks = {name: peak_half if rungs[name].get("dtype") else peak for name in rungs}  # each rung's own
rates = [*tokens_per_second.values()]
per_text = [[t / rungs[name].get("batch_size", 2) for t in one.times] for name, one in times.items()]  # seconds
climb = benchmark.Ratio.of(per_text[0], per_text[-1])
steps_up = {name: benchmark.Ratio.of(before, after) for name, before, after in zip([*rungs][1:], per_text, per_text[1:])}
largest = max(steps_up, key=lambda name: steps_up[name].value)
figures.bars(
    {f"{name} ({flop_per_token * rate / peaks[name]:.0%} of its products' speed)": rate for name, rate in tokens_per_second.items()}, unit="tokens/s",
    title=f"The ladder gains {climb}; its largest step is {largest}, {steps_up[largest]}{guessed(ladder_gains, '×')}",
)

# %%
a100 = published_results.get("ladder-a100")
gains = sorted(((b / a, name) for name, a, b in zip(a100.x[1:], a100.y, a100.y[1:])), reverse=True)[:4]
print(f"on an A100 {a100.y[0]:,.0f} to {a100.y[-1]:,.0f} tokens a second, {a100.y[-1] / a100.y[0]:.1f}× [{a100.credit}]")
print("most by", ", ".join(f"{name} {gain:.1f}×" for gain, name in gains))

# %% [markdown]
# Which rungs matter depends on the chip. On a T4 expect the larger batch and fp16 to do most of it. On that A100 tensor cores and FlashAttention did, and some of
# its ten changes rewrote parts of the model.
#
# The percentages say how close the training comes to its own products. In 16 bits the products are so fast that most of the step is now something else. And a
# compiler needs time first, so whether it pays depends on how many steps follow.

# %% [markdown] tags=["minutes-5", "short-4"]
# ## Exercises
#
# ### 1 · Move only what is needed
#
# 60,000 images of 28 × 28 pixels lie in CPU memory as bytes (`uint8`). The network wants float32. How many MB (10⁶ bytes) must
# cross to the GPU for the first epoch, if you do it the cheapest way?

# %% tags=["exercise"]
megabytes_to_move = ...
### BEGIN SOLUTION
megabytes_to_move = 60_000 * 28 * 28 * 1 / 1e6  # send bytes, make floats there
### END SOLUTION
exercises.check("03.move_less", megabytes_to_move)

# %% [markdown]
# ### 2 · What can a GPU gain you?
#
# Your loop waits 60 ms for each batch and then trains for 20 ms. A GPU makes the training ten times faster. How much faster is the loop?

# %% tags=["exercise"]
faster = ...
### BEGIN SOLUTION
faster = (60 + 20) / (60 + 20 / 10)  # the 60 ms stay
### END SOLUTION
exercises.check("03.amdahl", faster)

# %% [markdown]
# ### 3 · Find the hidden stops
#
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
# ### 4 · Open task, halve this loop's time
#
# `slow_loop` adds up squares of a thousand small tensors, and asks for each result. Write `quick_loop`, which returns the same number in
# half the time or less.

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

# %% [markdown] tags=["minutes-3", "short-2"]
# ## Three things to take away

# %%
takeaways = {
    "A GPU answers before it is done": "wait before you read a clock, and don't read numbers that you don't need.",
    "Look at the feed first": f"this network waited {starved:.0%} of the time; decoding once was {gain} faster.",
    "Then climb": f"the ladder gained {climb} here; its largest step is {largest}, {steps_up[largest]}.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Put predictions beside results { display-mode: "form" }
with_jax = "reads" in globals()  # else its two experiments were replayed
off, costs = (done / returned, reads.value) if with_jax else (None, None)
guess = reference.Prediction
predicted = {
    "factor": guess(factor, off, "×"),
    "reading_costs": guess(reading_costs, costs, "×"),
    "percent_waiting": guess(percent_waiting, 100 * starved, "%"),
    "ladder_gains": guess(ladder_gains, climb.value, "×"),
}

# %%
# @title Keep your numbers as a record { display-mode: "form" }
inventory, value = hardware.list_devices(), reference.Value
queue = {
    "wrong_clock": value(off, "×", "time of the work, that of a clock that doesn't wait being 1"),
    "reading": value(costs, "×", "time of a loop that reads its loss in every step, one that doesn't being 1"),
} if with_jax else {}
reference.record(
    "03_pytorch_on_gpu", FAST, device=inventory.cpu if device.type == "cpu" else inventory.main, predicted=predicted, **queue,
    starved=value(100 * starved, "%", "of the time a network waits for JPEG files"),
    fed=value(gain.value, "×", "photos per second decoded once, JPEG files being 1"),
    ladder=value(climb.value, "×", "speed on the ladder's last rung, its first being 1"),
    peak=value(peak, "FLOP/s", "best speed of a large product in fp32"),
    tokens=reference.series(range(len(rates)), rates, "tokens/s", "the ladder, rung by rung"),
)

# %% [markdown] tags=["minutes-0"]
# ## Keep this, and what comes next
#
# ```python
# model = model.to(device)
# optimizer = torch.optim.AdamW(model.parameters(), fused=True)
# old_gpu = device.type == "cuda" and torch.cuda.get_device_capability() < (8, 0)  # such as a T4
# half = torch.float16 if old_gpu else torch.bfloat16
# scaler = torch.amp.GradScaler(device.type, enabled=old_gpu)  # fp16 needs it, lesson 07 shows why
# losses = []
# for step, (x, y) in enumerate(loader):
#     x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)  # with pin_memory=True in the loader
#     with torch.autocast(device.type, half, enabled=device.type != "cpu"):
#         loss = F.cross_entropy(model(x), y)
#     scaler.scale(loss).backward()
#     scaler.step(optimizer)
#     scaler.update()
#     optimizer.zero_grad()
#     losses.append(loss.detach())
#     if step % 100 == 99:
#         print(torch.stack(losses).mean().item())  # one wait for a hundred steps
#         losses = []
# ```
#
# Lesson 04 does the same in Keras, which builds the graph and the feed for you.
