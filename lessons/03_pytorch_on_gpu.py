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

from colab_lessons import exercises, figures, measurements, models, recorded_outputs
from colab_lessons.predictions import your_prediction  # adds what you predicted to a title

recorded_outputs.watch("03_pytorch_on_gpu")  # where a package is missing, a recorded output appears

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
TEXTS = TEXTS or (4 if FAST else 64 if torch.cuda.is_available() else 16)  # sequences in a large batch
SECONDS = SECONDS or (0.05 if FAST else 1)  # per rung
LAYERS = LAYERS or (1 if FAST else 4)  # of the GPT
WHOLE_GPT = torch.cuda.is_available() and not FAST  # lesson 01's, in the ladder: with a small one, launches set the pace

# %% [markdown] tags=["minutes-3"]
# ## Nothing moves by itself
#
# PyTorch computes where its tensors are. If one is on a different device, it raises an error. The method that moves things is `.to`, and it has a
# trap. Without a GPU you'll meet the trap with `meta`, a device that keeps shapes and no data, and that every PyTorch has.

# %%
torch.set_num_threads(1)  # one core of the CPU: on a shared machine a second one makes timings jump
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
there = device if device.type != "cpu" else torch.device("meta")
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
# A model's `.to` moves its own weights. A tensor's `.to` leaves the tensor where it is and returns a copy, which is lost unless you keep it.

# %% [markdown] tags=["minutes-6"]
# ## The clock that stops too early
#
# A GPU works *asynchronously*: Python puts work into a queue and continues at once, long before the work is done. If you read the clock then, you
# measure how long it takes to put work in.
#
# PyTorch on a CPU has no queue, and each call is done when it returns. JAX, another framework, has one even on a CPU, so without an NVIDIA GPU the
# next two experiments run in JAX. `jit` compiles a function into a single call, and `block_until_ready` waits for it.
#
# **Predict.** How many times as long as the careless clock says does the work really take?

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
    twenty = jax.jit(lambda b: jax.lax.fori_loop(0, 20, lambda i, y: y @ b / SIZE, b))  # twenty matmuls
    work, wait = lambda: twenty(b), lambda result: result.block_until_ready()
_ = wait(work())  # warm up

# %%
# needs: jax
start = time.perf_counter()
result = work()
returned = time.perf_counter() - start  # WRONG: the work has only been queued
wait(result)
done = time.perf_counter() - start
print(f"the call returned after {1000 * returned:.2f} ms, the result was there after {1000 * done:.0f} ms{your_prediction(factor, '×')}")

# %% [markdown]
# The first time is Python's overhead alone, whatever the work is, so the more work you queue, the more wrong the careless clock is. In PyTorch you
# wait with `torch.cuda.synchronize()`, or you let the GPU do the timing.
#
# ```python
# start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
# start.record()
# loss = train_step()  # your own
# end.record()
# torch.cuda.synchronize()
# print(start.elapsed_time(end), "ms")
# ```

# %% [markdown] tags=["minutes-7"]
# ## One innocent number
#
# Thanks to the queue, Python can fetch the next batch while the GPU computes a step. If you ask for the loss, however, Python must wait until the
# queue is empty.
#
# In the loop below each step also waits for a disk: not at all, half as long as it computes, or 0.9 times as long. We use `time.sleep` for the
# disk, because sleeping takes no core away. The only difference between the two runs is one `float(loss)`.
#
# **Predict.** With the slowest of the three disks, how many times as long does the loop take that reads its loss in every step?

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
disks = (0, 0.5, 0.9)  # of a step
loops = {disk: [(run(True, disk * step), run(False, disk * step)) for _ in range(3)] for disk in disks}  # alternating

# %%
# @title Draw what a read costs { display-mode: "form" }
# needs: jax
reads = {disk: min(reading for reading, _ in pairs) / min(without for _, without in pairs) for disk, pairs in loops.items()}
bars = {
    f"disk of {disk} steps{read}": min(pair[which] for pair in pairs)
    for disk, pairs in loops.items()
    for which, read in ((1, ""), (0, ", loss read"))
}
figures.bars(
    bars, unit="s",
    title=f"With the loss read, a step takes {reads[0]:.1f}× as long without a disk, {reads[0.9]:.1f}× with one of 0.9 steps{your_prediction(reading_costs, '×')}",
)

# %% [markdown]
# Without the read, the disk's time is hidden behind the computing. With it, they alternate. That costs most when both take equally long, and then
# it doubles the time; where nothing else is waited for, it costs little. `.item()`, `.cpu()` and `print(loss)` all do it, and so does `.to(device)`
# from ordinary, *pageable* memory.
#
# Keep losses as `loss.detach()` and read them every hundred steps.

# %% [markdown] tags=["minutes-11"]
# ## A data-loading bottleneck
#
# A loop can also wait without any read, when the network is done before the next batch is. The photos of this data set are stored as JPEG files, as
# usual. Each one is decoded, shrunk and cropped when it's needed.

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
figures.activity_timeline(
    {"JPEG files": {"": first(feeds["JPEG files"])}, "ready": {"": first(feeds["batches ready on the device"])}},
    title=f"The network waits {starved:.0%} of the time{your_prediction(percent_waiting, '%')}",
)

# %% [markdown]
# We chose a small network, so that training takes little time, as it would on a fast GPU. A faster chip shrinks only the slivers of training. If
# nine tenths of the time is waiting, even an infinitely fast GPU makes the loop only 1.11 times as fast.
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
rounds = [(epoch(DataLoader(Photos(), 32, shuffle=True)), epoch(from_store())) for _ in range(3)]  # alternating
feeds |= zip(["JPEG files", "decoded once"], (min(runs, key=lambda spans: spans[-1][1]) for runs in zip(*rounds)))
saved = feeds["JPEG files"][-1][1] - feeds["decoded once"][-1][1]
f"decoding took {decoding:.1f} s, once; each epoch saves {saved:.1f} s, so it pays from epoch {int(decoding / saved) + 1} on"

# %%
# @title Draw the input pipelines { display-mode: "form" }
speed = {name: PHOTOS / spans[-1][1] for name, spans in feeds.items()}
gain = speed["decoded once"] / speed["JPEG files"]
figures.bars(
    {name: speed[name] for name in sorted(speed, key=speed.get)}, unit="photos/s",
    title=f"Decoded once, the photos train the same network at {gain:.1f}× the speed",
)

# %% [markdown]
# It isn't perfect. All 32 photos share one crop, and converting them takes a good part of the time that's left. If your photos don't fit, shrink
# them once and store them shrunk. A `DataLoader` with `num_workers` decodes in several processes, which helps where there are cores to spare.
# Colab's free machine has two.

# %% [markdown] tags=["minutes-1"]
# ## Ask the profiler
#
# You won't always guess the cause. `torch.profiler` records every operation. These are the lines to type.

# %%
with torch.profiler.profile(acc_events=True) as profile:  # of the CPU, and of a GPU where there is one
    epoch(DataLoader(Photos(), 32, shuffle=True))
print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=4, max_name_column_width=48))

# %% [markdown]
# Read the first two columns. The line at the top, with `DataLoader` in its name, is the input pipeline, and `cat` below it belongs to it, too. The
# convolutions take a small part. On a GPU, a loop that reads numbers shows `cudaStreamSynchronize` on top, or a `cudaMemcpyAsync` that takes long,
# and so does one that copies from ordinary memory. Thousands of tiny calls mean that overhead dominates, so give each more work.

# %% [markdown] tags=["minutes-9"]
# ## The ladder
#
# A first script might train a small GPT on two sequences at a time with AdamW. From that start, each rung of the ladder changes one more thing. We
# time steps here, so fp16 does without the scaler that real training needs (lesson 07).
#
# | rung | what it does |
# |---|---|
# | fused optimizer | a few kernels update all weights, instead of many |
# | more sequences at once | fewer, larger calls, and fewer updates: a different training |
# | autocast | matmuls in 16 bits, which lesson 07 is about |
# | compiled | operations merged, as in lesson 02 |

# %%
config = models.GPTConfig(block_size=32, n_layer=LAYERS, n_embd=128, n_head=4)
if WHOLE_GPT:
    config = models.GPTConfig()
half = torch.bfloat16
if device.type == "cuda" and torch.cuda.get_device_capability() < (8, 0):
    half = torch.float16  # a T4 computes in fp16, and only emulates bf16


# %%
def trainer(batch_size=2, fused=None, dtype=None, compiled=False):
    model = models.GPT(config).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    forward = torch.compile(model) if compiled else model
    tokens = torch.randint(config.vocab_size, (batch_size, config.block_size + 1), device=device)  # random ones will do

    def step():
        with torch.autocast(device.type, dtype or half, enabled=dtype is not None):
            logits = forward(tokens[:, :-1])  # (batch_size, positions, vocab_size)
            loss = F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


# %%
a = torch.rand(2 * SIZE, 2 * SIZE, device=device)
n = 2 * SIZE if device.type == "cuda" else SIZE // 2  # a CPU may only emulate 16 bits, very slowly
short = torch.rand(n, n, device=device).to(half)
peak = 2 * (2 * SIZE) ** 3 / benchmark.measure(lambda: a @ a).best
peak_half = 2 * n**3 / benchmark.measure(lambda: short @ short).best
f"large matmuls: {peak / 1e9:,.0f} GFLOP/s in fp32, {peak_half / 1e9:,.0f} in {half}".replace("torch.", "")

# %% [markdown]
# **Predict.** How many times as fast per sequence is the last rung as the first?

# %%
ladder_gains = None  # @param {type:"number"}

# %%
rungs = {
    "as first written": {},
    "fused optimizer": {"fused": True},
    f"{TEXTS} sequences at once": {"fused": True, "batch_size": TEXTS},
    f"autocast to {half}".replace("torch.", ""): {"fused": True, "batch_size": TEXTS, "dtype": half},
    "compiled": {"fused": True, "batch_size": TEXTS, "dtype": half, "compiled": True},
}
if peak_half < peak:  # a chip that only emulates 16 bits: leave that rung out
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
climb = rates[-1] / rates[0]
steps_up = {name: after / before for name, before, after in zip([*rungs][1:], rates, rates[1:])}
largest = max(steps_up, key=steps_up.get)
figures.bars(
    {f"{name} ({flop_per_token * rate / peaks[name]:.0%} of its matmuls' speed)": rate for name, rate in tokens_per_second.items()}, unit="tokens/s",
    title=f"The ladder gains {climb:.1f}× per sequence; its largest step is {largest}, {steps_up[largest]:.1f}×{your_prediction(ladder_gains, '×')}",
)

# %%
a100 = published_results.get("ladder-a100")
gains = sorted(((b / a, name) for name, a, b in zip(a100.x[1:], a100.y, a100.y[1:])), reverse=True)[:4]
print(f"on an A100 {a100.y[0]:,.0f} to {a100.y[-1]:,.0f} tokens per second, {a100.y[-1] / a100.y[0]:.1f}× [{a100.credit}]")
print("most by", ", ".join(f"{name} {gain:.1f}×" for gain, name in gains))

# %% [markdown]
# Which rungs matter depends on the chip. On a T4 expect the larger batch and fp16 to do most of it. On that A100 tensor cores and FlashAttention
# did, and some of its ten changes rewrote parts of the model.
#
# The percentages say how close the training comes to the speed of a large matmul in its own format. The faster the matmuls are, the more of the
# step is something else. A compiler needs time first, so whether it pays depends on how many steps follow.

# %% [markdown] tags=["minutes-7"]
# ## Exercises
#
# ### 1 · Move only what is needed
#
# 60,000 images of 28 × 28 pixels are in CPU memory as bytes (`uint8`). The network wants float32. How many MB (10⁶ bytes) must cross to the GPU for
# the first epoch, if you do it the cheapest way?

# %% tags=["exercise"]
megabytes_to_move = ...
### BEGIN SOLUTION
megabytes_to_move = 60_000 * 28 * 28 * 1 / 1e6  # send bytes, make floats there
### END SOLUTION
exercises.check("03.move_less", megabytes_to_move)

# %% [markdown]
# ### 2 · What can a GPU gain you?
#
# Your loop waits 60 ms for each batch and then trains for 20 ms. On a GPU the training takes a tenth of that. How many times as fast is the loop?

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
# `slow_loop` adds up squares of a thousand small tensors, and asks for each result. Write `quick_loop`, which returns the same number in half the
# time or less.

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

# %% [markdown] tags=["minutes-1"]
# ## Three things to take away

# %%
takeaways = {
    "A GPU answers before it is done": "wait before you read a clock, and don't read numbers that you don't need.",
    "Look at the data loading first": f"this network waited {starved:.0%} of the time; decoded once, it got {gain:.1f}× the photos per second.",
    "Then climb": f"the ladder gained {climb:.1f}× on this machine; its largest step is {largest}, {steps_up[largest]:.1f}×.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Put predictions beside results { display-mode: "form" }
with_jax = "reads" in globals()  # else its two experiments were replayed
off, costs = (done / returned, reads[0.9]) if with_jax else (None, None)
guess = measurements.Prediction
predicted = {
    "factor": guess(factor, off, "×"),
    "reading_costs": guess(reading_costs, costs, "×"),
    "percent_waiting": guess(percent_waiting, 100 * starved, "%"),
    "ladder_gains": guess(ladder_gains, climb, "×"),
}

# %%
# @title Keep your numbers as a record { display-mode: "form" }
inventory, value = hardware.list_devices(), measurements.Value
queue = {
    "wrong_clock": value(off, "×", "time of the work, that of a clock that doesn't wait being 1"),
    "reading": value(costs, "×", "time of a loop that reads its loss in every step, with a disk of 0.9 steps, one that doesn't being 1"),
} if with_jax else {}
measurements.record(
    "03_pytorch_on_gpu", FAST, device=inventory.cpu if device.type == "cpu" else inventory.main, predicted=predicted, **queue,
    starved=value(100 * starved, "%", "of the time a network waits for JPEG files"),
    fed=value(gain, "×", "photos per second decoded once, JPEG files being 1"),
    ladder=value(climb, "×", "speed on the ladder's last rung, its first being 1"),
    peak=value(peak, "FLOP/s", "best speed of a large matmul in fp32"),
    tokens=measurements.series(range(len(rates)), rates, "tokens/s", "the ladder, rung by rung"),
)

# %% [markdown] tags=["minutes-0"]
# ## Keep this, and what comes next
#
# ```python
# model = torch.compile(model.to(device))  # pays if many steps follow
# optimizer = torch.optim.AdamW(model.parameters(), fused=True)
# old_gpu = device.type == "cuda" and torch.cuda.get_device_capability() < (8, 0)  # such as a T4
# half = torch.float16 if old_gpu else torch.bfloat16
# scaler = torch.amp.GradScaler(device.type, enabled=old_gpu)  # fp16 needs it, lesson 07 shows why
# losses = []
# for step, (x, y) in enumerate(loader):
#     x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)  # with pin_memory=True in the loader
#     with torch.autocast(device.type, half):  # leave it out where the ladder had no rung for it
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
# Lesson 04 does the same in Keras, which builds the graph and the input pipeline for you.
