# %%
import os
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from colab_helpers import benchmark, figures, hardware
from colab_helpers.lessons import data, exercises, models, reference

# %% tags=["parameters"]
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SECONDS_PER_POINT = 0.3  # time budget of one measurement
GPT_STEPS = 700  # training steps of the network that learns to add

# %% [markdown]
# ## Nothing moves by itself
#
# A GPU has its own memory. A tensor lives in one memory, and work happens where its tensors live.

# %%
x = torch.randn(3)
x.device

# %%
found = torch.accelerator.is_available()
device = torch.accelerator.current_accelerator() if found else torch.device("cpu")
budget = 0.05 if FAST else SECONDS_PER_POINT
device, torch.accelerator.device_count()

# %% [markdown]
# `torch.accelerator` speaks for CUDA, Apple's MPS, Intel's XPU and others alike: ask it, and no line
# needs to name a vendor. `.to(device)` gives a tensor that lives there. If it was there already, you get the same one back.

# %%
there = x.to(device)
there.device, there is x

# %% [markdown]
# ### WRONG: mix two places
#
# Two tensors, two memories. Without a GPU the second place is `meta`: a device of PyTorch that knows
# shapes and holds no numbers, and refuses to mix like any other.

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
# Read the message: it names both devices. Move what is smaller to what is larger.

# %%
(torch.ones(3, device=elsewhere) + torch.ones(3).to(elsewhere)).device

# %% [markdown]
# ## The move costs
#
# Bytes have to cross from one memory to the other: two matrices there, their product back. Without a
# GPU the copies go from one part of memory to another: real bytes, a shorter way. Fewer bytes travel
# faster: pixels that are stored as bytes are best made floats *after* the move.
#
# **Predict.** From which n on does computing take longer than moving?

# %%
prediction = 512  # @param {type:"slider", min:16, max:8192, step:16}

# %%
sizes = [2**k for k in range(4, 8 if FAST else 12 if device.type == "cpu" else 15)]  # 2¹⁴: fast chips need large ones
moving, computing = [], []
for n in sizes:
    a, b = torch.randn(n, n), torch.randn(n, n)
    a_there, b_there = a.to(device), b.to(device)

    def journey():
        a.to(device, copy=True), b.to(device, copy=True)
        return a_there.to("cpu", copy=True)  # as large as the product

    moving.append(benchmark.measure(journey, budget=budget).median)
    computing.append(benchmark.measure(lambda: a_there @ b_there, budget=budget).median)

# %%
balance = benchmark.crossover(sizes, computing, moving)
figures.race(
    sizes, {"compute n × n product": computing, "move two there, one back": moving},
    title=f"Moving is the smaller part from n = {balance:.0f} on" if balance
    else "Moving takes longer at every size here",
    xlabel="matrix size n", crossing=balance, prediction=prediction,
)

# %% [markdown]
# Computing grows with n³, moving with n² (and jumps where memory has to be fetched anew). A small job is
# mostly travel: move once, then do much there.

# %% [markdown]
# ## Pinned memory
#
# The operating system may move ordinary (*pageable*) memory about. *Pinned* memory stays put, so the
# GPU can fetch from it directly. Without a GPU you see the neighbouring cost: memory that is new each
# time has to be given to you page by page, memory that you kept is there.

# %%
megabytes = 16 if FAST else 128
pageable = torch.ones(megabytes * 10**6 // 4)
kept = torch.empty_like(pageable, device=device)
routes = {
    "new target": lambda: pageable.to(device, copy=True),
    "kept target": lambda: kept.copy_(pageable),
}
if device.type == "cuda":
    pinned = pageable.pin_memory()
    routes["kept target, pinned source"] = lambda: kept.copy_(pinned, non_blocking=True)
speeds = {
    name: 1e6 * megabytes / benchmark.measure(route, budget=budget).median
    for name, route in routes.items()
}
names = list(speeds)
figures.bars(
    speeds, unit="B/s",
    title=f"{names[-1].capitalize()}: {speeds[names[-1]] / speeds[names[-2]]:.1f} times as fast as {names[-2]}",
)

# %% [markdown]
# So keep buffers, and pin those that feed a GPU: `DataLoader(pin_memory=True)` does it for you.

# %% [markdown]
# ## A call returns at once
#
# A GPU is a queue that somebody else works through. Your line only adds to the queue. Without a GPU,
# one worker thread plays that part below: it really works through a queue, in order.

# %%
if device.type == "cpu":
    queue = ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,))
    launch = queue.submit  # returns at once, with a promise

    def finish(promise):
        return promise.result()

else:

    def launch(function, *arguments):
        return function(*arguments)  # a GPU's queue needs no help

    def finish(result):
        torch.accelerator.synchronize()
        return result


n = 512 if FAST else 1024 if device.type == "cpu" else 8192
a = torch.randn(n, n, device=device)
_ = finish(launch(torch.matmul, a, a))  # warm up

# %% [markdown]
# **Predict.** How many times too short is the time of the WRONG cell?

# %%
times_too_short = 1.5  # @param {type:"number"}

# %% [markdown]
# ### WRONG: stop the clock when the call returns

# %%
start = time.perf_counter()
result = launch(torch.matmul, a, a)
wrong = time.perf_counter() - start
_ = finish(result)
f"{1000 * wrong:.2f} ms"

# %% [markdown]
# ### RIGHT: wait until the work is done

# %%
start = time.perf_counter()
_ = finish(launch(torch.matmul, a, a))  # synchronize
right = time.perf_counter() - start
f"{1000 * right:.2f} ms"

# %% [markdown]
# One run is still no measurement. PyTorch has a timer that warms up, waits and repeats (on *one* thread
# unless told otherwise; older versions wait for CUDA only). So has the helper, for other frameworks too.

# %%
from torch.utils.benchmark import Timer

def work():
    return finish(launch(torch.matmul, a, a))


timer = Timer("work()", globals={"work": work}, num_threads=torch.get_num_threads())
timings = {
    "WRONG: call returned": wrong,
    "RIGHT: waited, once": right,
    "torch.utils.benchmark": timer.blocked_autorange(min_run_time=budget).median,
    "benchmark.measure": benchmark.measure(work, budget=budget).median,
}
figures.bars(
    timings, unit="s", log=True,
    title=f"The wrong clock is {right / wrong:.0f} times too short (you said {times_too_short:g})",
)

# %% [markdown]
# ## A first training: ten numbers
#
# Learn y = w · x from noisy examples. Model and data go to the device once; nothing in the loop
# names it.

# %%
torch.manual_seed(0)
w = torch.randn(10, 1)
inputs = torch.randn(1000, 10)
targets = inputs @ w + 0.1 * torch.randn(1000, 1)

model = nn.Linear(10, 1).to(device)
inputs, targets = inputs.to(device), targets.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(100):
    optimizer.zero_grad()  # forget the last directions
    loss = F.mse_loss(model(inputs), targets)
    loss.backward()  # for each weight: in which direction is less loss?
    optimizer.step()  # a small step there

learned = model.weight.detach().cpu().T
f"largest error of a weight: {(learned - w).abs().max():.4f}"

# %% [markdown]
# `.cpu()` brings the result back. Note `model.to(device)`: a module moves itself, a tensor gives you
# a moved copy.

# %% [markdown]
# ## Real digits
#
# 1,797 handwritten digits of 8 × 8 pixels, a network 64 → 256 → 10. Lesson 04 trains the same network
# in TensorFlow.

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
EPOCHS, BATCH = 5 if FAST else 30, 64
losses = []
for _ in range(EPOCHS):
    for rows in torch.randperm(len(images), device=device).split(BATCH):
        losses.append(train_step(classifier, optimizer, images[rows], labels[rows]))

# %%
curve = torch.stack(losses).view(EPOCHS, -1).mean(1).tolist()  # one trip back, at the end
with torch.no_grad():
    accuracy = (classifier(x_test.to(device)).argmax(1).cpu() == y_test).double().mean().item()
figures.lines(
    range(1, EPOCHS + 1), {"training loss": curve},
    title=f"{accuracy:.1%} of the test digits are right", xlabel="epoch", ylabel="loss",
)

# %% [markdown]
# ## Do CPU and accelerator agree?
#
# Not to the last bit. Sums are taken in another order, and rounding differs. Compare both with the
# same network in float64, which rounds a billion times finer. (Without a GPU: one thread and all.)

# %%
with torch.no_grad():  # no history needed
    exact = classifier.cpu().double()(x_test.double())
    default = torch.get_num_threads()
    torch.set_num_threads(1)
    on_cpu = classifier.float()(x_test)
    torch.set_num_threads(default)
    on_device = classifier.to(device)(x_test.to(device)).cpu()
there = "CPU, all threads" if device.type == "cpu" else str(device)
outputs = {"CPU, one thread": on_cpu, there: on_device}
gaps = {name: ((out - exact).abs().max() / exact.abs().max()).item() for name, out in outputs.items()}
tolerance = 10 * 256**0.5 * 2**-24
agree = max(gaps.values()) < tolerance
print(*(f"{name}: gap {gap:.1e}" for name, gap in gaps.items()), sep="\n")
print(f"tolerated {tolerance:.1e}: {'they agree' if agree else 'they DIFFER'}")

# %% [markdown]
# float32 keeps about seven figures: each rounding errs by 2⁻²⁴ at most. A sum of 256 terms can gather
# √256 = 16 of them by chance, about 1e-6. Tolerated is ten times that. A gap of 1e-3 is a bug, or tf32
# (lesson 07).

# %% [markdown]
# ## Feeding it
#
# A fast chip starves on a slow feed. The usual way is a `DataLoader`; for data that fits, keeping all
# of it on the device is another.
#
# **Predict.** How many times faster is an epoch when the data already lies on the device?

# %%
times_faster = 20  # @param {type:"number"}

# %%
dataset = TensorDataset(x_train, y_train)
workers = min(2, hardware.list_devices().cpu.cores)  # more than cores would only wait
feeds = {
    "DataLoader": {},
    f"DataLoader, {workers} workers": {"num_workers": workers, "persistent_workers": True},
}
if device.type == "cuda":
    feeds["DataLoader, pinned"] = {"pin_memory": True}
loaders = {name: DataLoader(dataset, BATCH, shuffle=True, **how) for name, how in feeds.items()}
whole_batches = BatchSampler(RandomSampler(dataset), BATCH, drop_last=False)
loaders["DataLoader, whole batches"] = DataLoader(dataset, batch_size=None, sampler=whole_batches)

# %%
def epoch_from(loader):
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        loss = train_step(classifier, optimizer, x, y)
    return loss


def epoch_on_device():
    for rows in torch.randperm(len(images), device=device).split(BATCH):
        loss = train_step(classifier, optimizer, images[rows], labels[rows])
    return loss


epochs = {n: benchmark.measure(lambda: epoch_from(loaders[n]), budget=budget) for n in loaders}
epochs["data on the device"] = benchmark.measure(epoch_on_device, budget=budget)
seconds = {name: epoch.median for name, epoch in epochs.items()}
del loaders  # ends the workers

# %%
gain = seconds["DataLoader"] / seconds["data on the device"]
figures.bars(
    seconds, unit="s",
    title=f"Data on the device: an epoch is {gain:.1f} times as fast (you said {times_faster:g})",
)

# %% [markdown]
# The plain loader collects 64 single samples for each batch; asked for whole batches, it slices once.
# Workers pay when preparing a sample is hard work (decoding, cropping); here they only send ready samples
# from process to process. `pin_memory` and `non_blocking` belong together, and need a GPU.

# %% [markdown]
# ## The hidden stop
#
# `.item()` wants a number, so it waits until the queue is empty. In a loop the CPU then prepares the
# next batch (here: unpacks it) only after the device is done, instead of meanwhile.

# %%
width, times = (512, 4) if FAST else (2048, 1) if device.type == "cpu" else (2048, 100)
weights = torch.randn(width, width, device=device) / width**0.5
packed = zlib.compress(os.urandom(500) * (8_000 if FAST else 160_000))


def device_work():
    out = weights
    for _ in range(times):
        out = weights @ out
    return out.mean()


def loop(ask_each_step, steps=4):
    for _ in range(steps):
        result = launch(device_work)
        if ask_each_step:
            finish(result)  # what .item() does before it can answer
        zlib.decompress(packed)  # preparing the next batch
    return finish(result).item()


# %%
stops = {
    "wait in each step": benchmark.measure(lambda: loop(True), budget=budget).median,
    "wait once, at the end": benchmark.measure(lambda: loop(False), budget=budget).median,
}
lost = stops["wait in each step"] / stops["wait once, at the end"]
figures.bars(stops, unit="s", title=f"Waiting in each step takes {lost:.1f} times as long")

# %% [markdown]
# `print(loss)`, `if loss > 3`, `.cpu()`, `.numpy()`, `.tolist()` stop in the same way. Collect tensors,
# ask once.

# %% [markdown]
# ## A network that learns to add
#
# Now the GPT of lesson 01, smaller, on text like `35+77=211`: both numbers, then the sum with its last
# digit first. A tenth of all pairs of numbers is held out, in both orders.

# %%
sums = data.sums()
print(*(data.spell(row) for row in sums.train[:4]), sep="   ")
print(f"{len(sums.train)} to learn from, {len(sums.test)} held out")

# %%
config = models.GPTConfig(vocabulary=len(data.SUM_ALPHABET), context=8, width=128, heads=4, layers=2)
steps = 10 if FAST else GPT_STEPS
torch.manual_seed(0)
adder = models.GPT(config).to(device)
rows = torch.from_numpy(sums.train).to(device)
held_out = torch.from_numpy(sums.test[: 50 if FAST else None]).to(device)
optimizer = torch.optim.AdamW(adder.parameters(), lr=2e-3)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)


# %%
def learn(batch):
    logits = adder(batch[:, :-1])[:, sums.answer - 1 :]  # only the sum can be foretold
    loss = F.cross_entropy(logits.flatten(0, 1), batch[:, sums.answer :].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    return loss.detach()


@torch.no_grad()
def share_right(rows):
    answer = rows[:, : sums.answer]
    while answer.shape[1] < rows.shape[1]:
        next_token = adder(answer)[:, -1:].argmax(-1)
        answer = torch.cat([answer, next_token], 1)
    return (answer == rows).all(1).float().mean().item()


# %%
GPT_BATCH = 256
right_so_far, at, seconds = [], [], 0.0
every = max(1, steps // 28)
for done in range(0, steps, every):
    start = time.perf_counter()
    for _ in range(every):
        loss = learn(rows[torch.randint(len(rows), (GPT_BATCH,), device=device)])
    loss.item()  # wait, before the clock stops
    seconds += time.perf_counter() - start
    at.append(done + every)
    right_so_far.append(100 * share_right(held_out))
tokens_a_second = at[-1] * GPT_BATCH * config.context / seconds

# %%
print(f"{tokens_a_second:,.0f} tokens a second;", *map(data.spell, held_out[:3].cpu().numpy()))
figures.lines(
    at, {"sums it never saw": right_so_far}, xlabel="step", ylabel="% answered correctly",
    title=f"After {at[-1]} steps {right_so_far[-1]:.1f} % of the held-out sums are right",
)

# %% [markdown]
# It never saw these pairs, so it cannot have learned them by heart: it found a way to carry. Watch the
# curve: nothing for a while, then soon almost all.

# %% [markdown]
# ## What torch.compile changes
#
# `torch.compile` turns many operations into few programs (*kernels*). Compiling takes seconds, once; a
# later run finds the result on disk, so here the first one starts with an empty folder.
#
# **Predict.** After how many calls is the compiling paid for?

# %%
calls_until_paid = 10  # @param {type:"integer"}

# %%
def curve_of(x):
    return torch.sin(x) * torch.cos(x) + x**2 * torch.sigmoid(x)


large = torch.randn(10**6 if FAST else 10**7, device=device)
small = torch.randn(16, device=device)
compiled = torch.compile(curve_of, dynamic=True)  # one version for all sizes
if not FAST:
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()


def first_call(x):
    start = time.perf_counter()
    try:
        compiled(x)
    except Exception as error:  # no C++ compiler, or no Triton, on this machine
        return None, f"{type(error).__name__}: {str(error).strip().splitlines()[0][:90]}"
    benchmark.synchronize()
    return time.perf_counter() - start, "compiled"


compile_seconds, outcome = first_call(large)
outcome

# %%
ways = {"as written": curve_of} | ({"compiled": compiled} if compile_seconds else {})
cases = {"10 million numbers" if not FAST else "1 million numbers": large, "16 numbers": small}
compared = {
    f"{case}, {way}": benchmark.measure(lambda: function(x), budget=budget).median
    for case, x in cases.items()
    for way, function in ways.items()
}
story, compile_gains = f"No comparison here: {outcome[:60]}", ()
if compile_seconds:
    eager_large, fused_large, eager_small, fused_small = compared.values()
    compile_gains = eager_large / fused_large, eager_small / fused_small
    paid = compile_seconds / max(1e-9, eager_large - fused_large)
    story = f"Compiling is paid after {paid:,.0f} calls (you said {calls_until_paid})"
figures.bars(compared, unit="s", log=True, title=story)

# %% [markdown]
# Large: seven operations go over memory 17 times, the compiled one twice. Small: if it lost, the check
# that the compiled code still fits costs more than the work. Compile what runs often on much.

# %% [markdown]
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
# ## What you measured

# %%
inventory = hardware.list_devices()
reference.record(
    "03_pytorch_on_gpu", FAST, device=inventory.cpu if device.type == "cpu" else inventory.main,
    balance=reference.Value(balance or 0, "", "n from which moving is the smaller part (0: none)"),
    wrong_clock=reference.Value(right / wrong, "×", "too short: a clock that does not wait"),
    digits=reference.Value(100 * accuracy, "%", "of the test digits right"),
    gap=reference.Value(max(gaps.values()), "", "largest gap to float64"),
    on_device=reference.Value(gain, "×", "faster: an epoch with the data on the device"),
    item=reference.Value(lost, "×", "longer: .item() in each step"),
    sums=reference.Value(right_so_far[-1], "%", "of the held-out sums right"),
    tokens=reference.Value(tokens_a_second, "tokens/s", "learning to add"),
    **{
        name: reference.Value(gain, "×", f"as fast: compiled, {what}")
        for (name, what), gain in zip(
            {"compile": "large", "compile_small": "16 numbers"}.items(), compile_gains
        )
    },
)

# %% [markdown]
# ## What comes next
#
# The same digits, the same network, in another framework: what TensorFlow does by itself that PyTorch
# leaves to you, and what that costs.
