# %%
# @title Imports { display-mode: "form" }
import io
import os
import subprocess
import tempfile
import time
from pathlib import Path

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's own messages

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F
from torch.profiler import profile, record_function

from colab_helpers import benchmark, hardware

from colab_lessons import exercises, figures, reference, replay

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SECONDS = None
ROWS = None
LAYERS = None
PIECES = None
POINTS = None
PHOTOS = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
SECONDS = SECONDS or (0.1 if FAST else 1.0)  # time budget of one measurement
ROWS = ROWS or (64 if FAST else 256)  # of a batch
LAYERS = LAYERS or (20 if FAST else 60)  # of a deep, thin network
PIECES = PIECES or (200 if FAST else 400)  # of a result that is put together
POINTS = POINTS or (300 if FAST else 700)  # whose distances are wanted
PHOTOS = PHOTOS or (32 if FAST else 64)  # JPEG files

# %%
replay.watch("10_profile")  # cells that need what is missing show recorded results
torch.set_num_threads(1)  # two threads on a busy core would wait for each other, and the profile would blame the wrong line
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
gpu = device.type == "cuda"

# %% [markdown] tags=["minutes-8", "short-7"]
# ## What does 5 % mean?
#
# `nvidia-smi` shows one number that everybody looks at, the *utilization*. It's the share of the last second or less in which at least one kernel was running, of any size. Without a GPU we measure how busy the CPU core is, which misleads in the same way. So is 100 % good? Let's keep the device busy in three ways. First a small product and then a pause,
# again and again. Then `x + 1` on a single number. Then large products.

# %%
ASK = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
AT_LEAST = max(SECONDS, 1.2) if gpu else SECONDS  # nvidia-smi looks back by up to a second


def keep_busy(work, flop):
    calls, asked, start, cpu = 0, None, time.perf_counter(), time.process_time()
    while time.perf_counter() - start < AT_LEAST or (asked and asked.poll() is None):
        work()
        calls += 1
        if gpu and not asked and time.perf_counter() - start > 1:
            asked = subprocess.Popen(ASK, stdout=subprocess.PIPE, text=True)  # it answers while the work goes on
    busy = 100 * (time.process_time() - cpu) / (time.perf_counter() - start)
    if asked:
        busy = float(asked.communicate()[0].split()[0])
    benchmark.synchronize()
    return busy, calls * flop / (time.perf_counter() - start)


# %%
small, one, large = (torch.rand(n, n, device=device) for n in (128, 1, 1024))
ways = {
    "a small product, then a pause": (lambda: (small @ small, time.sleep(0.01)), 2 * 128**3),
    "x + 1, on one number": (lambda: one + 1, 1),
    "large products": (lambda: large @ large, 2 * 1024**3),
}
use = {name: keep_busy(*way) for name, way in ways.items()}
for name, (busy, rate) in use.items():
    print(f"{name:>30}: {busy:3.0f} % busy, {rate / 1e9:10.4f} GFLOP/s")
same_use = use["large products"][1] / use["x + 1, on one number"][1]

# %% [markdown]
# On a CPU the second and the third are both fully busy, and one of them does hundreds of thousands of times as much. On a GPU `x + 1` may show less, since the device waits for Python between two tiny kernels. So a low number means that the device is idle: Python is too slow to feed it, or busy elsewhere. But a high number only means that it always had something to do.
#
# What are they calling? For that you need a profile.

# %% [markdown] tags=["minutes-8", "short-6"]
# ## Read a profile
#
# `torch.profiler` notes every operation: how often it ran, how long it took, and how many bytes it allocated. What it wrote in place isn't counted. Here's a healthy training step. `record_function` puts a name on a stretch of your own code.

# %%
model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)).to(device)
adamw = torch.optim.AdamW(model.parameters(), fused=True)
x, y = torch.rand(ROWS, 1024, device=device), torch.zeros(ROWS, dtype=torch.long, device=device)


def healthy():
    with record_function("forward"):
        loss = F.cross_entropy(model(x), y)
    with record_function("backward"):
        loss.backward()
    with record_function("optimizer"):
        adamw.step()
        adamw.zero_grad()


# %%
def profiled(work):
    work()  # warm up
    for _ in range(1 + gpu):  # the first profile of a session is distorted on a GPU
        with profile(profile_memory=True, acc_events=True) as found:  # on a GPU, its kernels too
            start = time.perf_counter()
            work()
            benchmark.synchronize()
            found.wall = time.perf_counter() - start
    return found


# %%
def made(event):
    return max(event.self_device_memory_usage if gpu else event.self_cpu_memory_usage, 0)


def calls(found):  # without the profiler's own, and without waiting for the GPU at the end
    return [event for event in found.key_averages() if event.device_type.name == "CPU" and not event.key.startswith(("[", "cudaDevice", "Activity Buffer"))]


def table(found, rows=5):
    events = calls(found)
    total = sum(event.self_cpu_time_total for event in events)
    print(f"{sum(event.count for event in events):,} calls, {total / 1e3:.1f} ms in them, {1e3 * found.wall:.1f} ms by the clock")
    slowest = sorted(events, key=lambda event: -max(event.self_cpu_time_total, event.self_device_time_total))[:rows]
    largest = sorted(events, key=made)[-1:]
    for event in dict.fromkeys([*slowest, *largest]):
        on_gpu = f"{event.self_device_time_total / 1e3:6.1f} ms on the GPU, " if gpu else ""
        share = 100 * event.self_cpu_time_total / total
        print(f"{event.key[:48]:48} {event.count:5,} × {event.self_cpu_time_total / 1e3:6.1f} ms, {share:3.0f} %, {on_gpu}{made(event) / 1e6:7.1f} MB")


# %%
step = profiled(healthy)
table(step)

# %%
# @title Draw the step { display-mode: "form" }
figures.trace(step.events(), title="A healthy step: a few long calls")

# %% [markdown]
# `mm` and `addmm` are the matrix products. *Self* time leaves out what a call spends in calls of its own, so the rows add up. The rest of the clock's time is Python, between two calls. PyTorch prints a wider table with `key_averages().table()`. A sixth row, if there is one, made the most bytes. On a GPU the backward pass runs in a second thread, and `backward` in the first one waits for it. In the picture time runs to the right, and each call lies below the one that made it. In a bigger tool such as Perfetto you'd see
# the same after `prof.export_chrome_trace("step.json")`.
#
# Profile two or three steps, and not an epoch. A profile costs time of its own. It makes a loop of tiny calls look slower than it is, and its file grows with every call.
#
# Now the rule for all that follows. **Thousands of calls of a few microseconds: overhead. Long calls: bytes or FLOP, so compare the MB they made with the MB you wanted. Time in loading, or in no call at all: you're waiting.** On a GPU a long `item` or `cudaStreamSynchronize` is waiting, too: that's where Python waits for the device.

# %% [markdown] tags=["minutes-29", "short-26"]
# ## Five patients
#
# Five pieces of code, each slower than it must be. Look at the profile, say what's wrong, and only then read on. Leave the folded cells closed until you have guessed.
#
# ### The first

# %%
# @title Patient 1: don't open this yet { display-mode: "form" }
deep = nn.Sequential(*(layer for _ in range(LAYERS) for layer in (nn.Linear(32, 32), nn.LayerNorm(32), nn.ReLU()))).to(device)
for parameter in deep.parameters():
    parameter.grad = torch.ones_like(parameter)
patient_1 = torch.optim.AdamW(deep.parameters(), foreach=False).step

# %%
table(profiled(patient_1))

# %% [markdown]
# **Predict.** What is wrong with the first?

# %%
first = None  # @param ["a loop in Python over rows", "an optimizer that visits one tensor at a time", "a result that grows by copying", "a table far larger than its result", "waiting for data"]

# %% [markdown]
# One call of `AdamW.step`, and below it thousands of tiny ones. AdamW goes from one parameter to the next, and does some thirty small things with each. The cure is one word.

# %%
gains = {}


def cure(name, sick, cured):
    if isinstance(result := sick(), torch.Tensor):
        assert torch.allclose(result, cured(), atol=0.01)  # where there's a result, a cure mustn't change it
    times = benchmark.compare({"sick": sick, "cured": cured}, budget=SECONDS)
    gains[name] = benchmark.speedup(times["sick"], times["cured"])
    print(f"{1e3 * times['sick'].best:.1f} ms before, {1e3 * times['cured'].best:.2f} ms after: {gains[name]} faster")


# %%
fused = torch.optim.AdamW(deep.parameters(), fused=True)  # before: foreach=False
cure("optimizer", patient_1, fused.step)

# %% [markdown]
# On a GPU PyTorch chooses `foreach` by itself, and on a CPU the loop that you saw. `fused=True` is usually faster than both.
#
# ### The second

# %%
# @title Patient 2: don't open this yet { display-mode: "form" }
def patient_2():
    out = torch.empty(0, 512, device=device)
    for _ in range(PIECES):
        out = torch.cat([out, torch.ones(8, 512, device=device)])
    return out


# %%
table(profiled(patient_2))

# %% [markdown]
# **Predict.** What is wrong with the second?

# %%
second = None  # @param ["a loop in Python over rows", "an optimizer that visits one tensor at a time", "a result that grows by copying", "a table far larger than its result", "waiting for data"]

# %% [markdown]
# `cat` has nearly all the time and made more than a gigabyte, for a result of a few megabytes. Each `cat` copies everything that's already there. The sick line is `out = torch.cat([out, piece])` in a loop. Collect, and copy once.

# %%
def grow():
    pieces = [torch.ones(8, 512, device=device) for _ in range(PIECES)]
    return torch.cat(pieces)


cure("growing", patient_2, grow)

# %% [markdown]
# The number of calls isn't what's alarming. More than a gigabyte for a result of 7 MB is. Always look at the bytes, too.
#
# ### The third

# %%
# @title Patient 3: don't open this yet { display-mode: "form" }
net = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)).to(device)
inputs, targets = torch.rand(ROWS, 256, device=device), torch.zeros(ROWS, dtype=torch.long, device=device)


def patient_3():
    loss = 0
    for row, target in zip(inputs, targets):
        loss = loss + F.cross_entropy(net(row), target)
    (loss / ROWS).backward()


# %%
table(profiled(patient_3))

# %% [markdown]
# **Predict.** What is wrong with the third?

# %%
third = None  # @param ["a loop in Python over rows", "an optimizer that visits one tensor at a time", "a result that grows by copying", "a table far larger than its result", "waiting for data"]

# %% [markdown]
# Two layers need five products for a batch, and here are more than a thousand of a few microseconds each. Somebody wrote `for row, target in zip(inputs, targets)`. Give the network all rows at once.

# %%
def all_rows():
    F.cross_entropy(net(inputs), targets).backward()


cure("rows", patient_3, all_rows)

# %% [markdown]
# ### The fourth

# %%
# @title Patient 4: don't open this yet { display-mode: "form" }
points = torch.rand(POINTS, 64, device=device)


def patient_4():
    return (points[:, None] - points[None]).square().sum(-1).sqrt()


# %%
table(profiled(patient_4))

# %% [markdown]
# **Predict.** What is wrong with the fourth?

# %%
fourth = None  # @param ["a loop in Python over rows", "an optimizer that visits one tensor at a time", "a result that grows by copying", "a table far larger than its result", "waiting for data"]

# %% [markdown]
# A handful of calls, and two of them made a table that's 64 times as large as the result. `points[:, None] - points[None]` writes the difference of every pair in every coordinate to memory, only to add it up. There's a function that doesn't. It uses a matrix product and rounds more coarsely: a point's distance to itself may come out as 0.005.

# %%
def pairs():
    return torch.cdist(points, points)


cure("pairs", patient_4, pairs)

# %% [markdown]
# ### The fifth

# %%
# @title Patient 5: don't open this yet { display-mode: "form" }
def jpeg(seed):
    colors = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(colors).resize((224, 224), Image.Resampling.BICUBIC).save(file, "JPEG")
    return file.getvalue()


def decoded(file):
    return torch.from_numpy(np.array(Image.open(io.BytesIO(file)))).permute(2, 0, 1).float() / 255


class Photos(torch.utils.data.Dataset):
    def __len__(self):
        return len(files)

    def __getitem__(self, i):
        return decoded(files[i])


files = [jpeg(seed) for seed in range(PHOTOS)]
eye = nn.Sequential(nn.Conv2d(3, 8, 7, stride=8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 28 * 28, 10)).to(device)
nothing = torch.zeros(16, dtype=torch.long, device=device)


def patient_5():
    for batch in torch.utils.data.DataLoader(Photos(), batch_size=16):
        F.cross_entropy(eye(batch.to(device)), nothing).backward()


# %%
starved = profiled(patient_5)
table(starved)

# %% [markdown]
# **Predict.** What is wrong with the fifth?

# %%
fifth = None  # @param ["a loop in Python over rows", "an optimizer that visits one tensor at a time", "a result that grows by copying", "a table far larger than its result", "waiting for data"]

# %%
# @title Draw an epoch of it { display-mode: "form" }
figures.trace(starved.events(), title="The network computes only in between")

# %% [markdown]
# Most of the time goes into loading. The row of `DataLoader` contains the decoding, which the profiler can't see into, and `cat` and `div` belong to it as well. On a GPU, the device's row in the picture would have copies in it, and gaps. The sick part decodes every photo in every epoch. Decode once, and keep the result where the network is.

# %%
ready = torch.stack([decoded(file) for file in files]).to(device)


def fed():
    for batch in ready.split(16):
        F.cross_entropy(eye(batch), nothing).backward()


cure("data", patient_5, fed)

# %% [markdown]
# If the decoded photos don't fit in memory, or you augment them in each epoch, use `num_workers` and `pin_memory` as in lesson 03. In TensorFlow it's `prefetch`, in lesson 04.

# %%
# @title Count what you named { display-mode: "form" }
names = {"optimizer": "one tensor at a time", "growing": "grown by copying", "rows": "a loop over rows", "pairs": "a table too large", "data": "waiting for data"}
diseases = {
    "first": "an optimizer that visits one tensor at a time", "second": "a result that grows by copying", "third": "a loop in Python over rows",
    "fourth": "a table far larger than its result", "fifth": "waiting for data",
}
right = sum(guess == disease for guess, disease in zip((first, second, third, fourth, fifth), diseases.values()))
print(f"You named {right} of five." if first else "Name all five, and run this cell again.")

# %% [markdown] tags=["minutes-5", "short-0"]
# ## Which way to look
#
# Here's the order in which to ask.
#
# ```
# Is the device busy?            nvidia-smi, or the device's row in the trace
# ├─ no:  what does Python do meanwhile?
# │       ├─ thousands of short calls      one call for many rows; fused=True; torch.compile; CUDA graphs
# │       └─ DataLoader, files, .item()    decode once, prefetch, don't read results
# └─ yes: which call takes the time?
#         ├─ many short kernels            larger batch, fused, torch.compile
#         └─ a few long ones: how many MB did they make?
#             ├─ far more than the result  don't write it: a fused function, chunks, in place
#             └─ products                  16 bits (lesson 07), then a bigger chip (lesson 08)
# ```
#
# JAX and TensorFlow write another format, called XPlane. JAX can read it.

# %%
# needs: jax
os.environ["JAX_PLATFORMS"] = "cpu"  # one framework at a time: PyTorch has the accelerator
import jax

a = jax.numpy.ones((1024, 1024))
product = jax.jit(lambda a: a @ a)
product(a).block_until_ready()
folder = Path(tempfile.mkdtemp())
with jax.profiler.trace(folder):
    product(a).block_until_ready()
found = jax.profiler.ProfileData.from_file(str(next(folder.rglob("*.xplane.pb"))))
lines = [line for plane in found.planes for line in plane.lines if line.name != "python"]  # what the compiler's threads did
nanoseconds, name = max((event.duration_ns, event.name) for line in lines for event in line.events)
print(f"the longest call was {name}, {nanoseconds / 1e6:.1f} ms")

# %% [markdown]
# In TensorFlow the same takes `with tf.profiler.experimental.Profile(str(folder)):`. To look at either in a browser, install `xprof` and run `xprof --logdir FOLDER`. It's TensorBoard's profiler plugin under its new name.

# %% [markdown] tags=["minutes-9", "short-5"]
# ## Exercises
#
# ### 1 · Read this one
#
# Here's the profile of a sixth patient. It looks up 512 rows in a table of 2,048 rows with 128 float32 numbers each. Which of the five is it closest to? Answer with `"rows"`, `"optimizer"`, `"growing"`, `"pairs"` or `"data"`. And how many MB does its result have?

# %%
# @title Profile the sixth patient { display-mode: "form" }
wanted, rows_of_numbers = torch.randint(2048, (512,), device=device), torch.rand(2048, 128, device=device)
table(profiled(lambda: torch.eye(2048, device=device)[wanted] @ rows_of_numbers))

# %% tags=["exercise"]
reading = {"disease": ..., "MB": ...}
### BEGIN SOLUTION
reading = {"disease": "pairs", "MB": 512 * 128 * 4 / 1e6}  # it makes 17 MB of zeros and ones for a quarter of a megabyte
### END SOLUTION
exercises.check("10.reading", reading)

# %% [markdown]
# ### 2 · How much is there to gain?
#
# A step takes 100 ms, and 60 of them belong to the DataLoader. You make loading four times faster. How many milliseconds does the step take? And if loading ran beside the training, in a process of its own?

# %% tags=["exercise"]
milliseconds = {"four times faster": ..., "beside it": ...}
### BEGIN SOLUTION
milliseconds = {"four times faster": 40 + 60 / 4, "beside it": 60}  # beside it, the slower of the two counts
### END SOLUTION
exercises.check("10.gain", milliseconds)

# %% [markdown]
# ### 3 · Open task, cure it
#
# `sums` adds up each column of a matrix, one at a time. Write `quick`: the same numbers, with at most 5 calls. The check counts them.

# %% tags=["exercise"]
def sums(matrix):
    return torch.stack([matrix[:, j].sum() for j in range(matrix.shape[1])])


def quick(matrix):
    return ...


### BEGIN SOLUTION
def quick(matrix):
    return matrix.sum(0)


### END SOLUTION
exercises.check("10.columns", quick, sums=sums)

# %% [markdown]
# ### 4 · Your own loop
#
# Put a step of a training that's really yours into `mine`, and profile it. Which call takes most of the time? The check profiles it, too.

# %% tags=["exercise"]
def mine():
    healthy()


dearest = ...  # the name as it stands in the table, such as "aten::mm"
### BEGIN SOLUTION
dearest = max(calls(profiled(mine)), key=lambda event: max(event.self_cpu_time_total, event.self_device_time_total)).key
### END SOLUTION
exercises.check("10.mine", dearest, calls=lambda: calls(profiled(mine)))

# %% [markdown] tags=["minutes-1"]
# ## Three things to take away

# %%
takeaways = {
    "Busy isn't useful": f"with `x + 1` and with large products the device was {use['x + 1, on one number'][0]:.0f} and {use['large products'][0]:.0f} % busy, and one did {float(f'{same_use:.2g}'):,.0f} times as much arithmetic.",
    "Tiny calls are overhead, and time in loading is waiting": f"a loop over rows cost {gains['rows']}, waiting for data {gains['data']}.",
    "Look at bytes, too": f"a table too large cost {gains['pairs']}, and copying again and again {gains['growing']}.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess, inventory = reference.Value, reference.Prediction, hardware.list_devices()
reference.record(
    "10_profile", FAST, device=inventory.main if gpu else inventory.cpu,
    predicted={
        "first": guess(first, diseases["first"]),
        "second": guess(second, diseases["second"]),
        "third": guess(third, diseases["third"]),
        "fourth": guess(fourth, diseases["fourth"]),
        "fifth": guess(fifth, diseases["fifth"]),
    },
    pause_busy=value(use["a small product, then a pause"][0], "%", "busy with a small product, then a pause"),
    one_busy=value(use["x + 1, on one number"][0], "%", "busy with x + 1 on one number"),
    large_busy=value(use["large products"][0], "%", "busy with large products"),
    same_use=value(same_use, "×", "work done by large products over x + 1"),
    **{f"cure_{name}": value(gain.value, "×", f"faster without {names[name]}") for name, gain in gains.items()},
)

# %% [markdown] tags=["minutes-0"]
# ## Keep this, and what comes next
#
# ```python
# step()  # warm up
# with profile(profile_memory=True) as prof:  # the CPU, and the GPU if there is one
#     step()
# print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))  # is the GPU busy? "self_device_time_total"
# prof.export_chrome_trace("step.json")  # open it at ui.perfetto.dev
# ```
#
# You can find what's slow now, and say by how much. Next: why two GPUs aren't twice as fast as one.
