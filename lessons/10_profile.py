# %% tags=["parameters"]
# @title Sizes you can change: None means the lesson's own { display-mode: "form" }
import os

FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SECONDS = None
WORK = None
ACTIVE = None

# %% tags=["sizes"]
# @title Imports, and the lesson's own sizes { display-mode: "form" }
import gzip
import json
import math
import tempfile
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's own messages
import torch
from torch.nn import functional as F
from torch.profiler import profile, record_function, schedule
from colab_helpers import benchmark, hardware
from colab_lessons import exercises, figures, measurements, models, recorded_outputs, scoreboard, shakespeare, trace_downloads
from colab_lessons.claims import holds  # says so where a sentence of the text isn't true on your machine
from colab_lessons.predictions import your_prediction  # adds what you predicted to a title
SECONDS = SECONDS or (0.1 if FAST else 1.0)  # time budget of one measurement
WORK = WORK or (0.01 if FAST else 0.04)  # seconds of a piece of work in the small loop
ACTIVE = ACTIVE or (2 if FAST else 4)  # steps that a profile records
recorded_outputs.watch("10_profile")  # cells that need what is missing show recorded results
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
gpu_here = device.type == "cuda"
torch.set_num_threads(1)  # a second thread on a shared machine makes profiles noisy

# %%
# @title Download two profiles, 3 MB in all { display-mode: "form" }
paths = {name: trace_downloads.fetch(name) for name in ("a100_trace", "v100_trace")}
KEPT = 8000 if gpu_here and not FAST else 500  # steps whose logits one of the slow steps copies; a GPU copies fast

# %% [markdown] tags=["minutes-7", "short-6"]
# ## Reading a trace
#
# Engineers at Meta trained a recommendation model on sixteen A100s, recorded five steps on one of them with PyTorch's profiler, and [published the file](https://github.com/facebookresearch/HolisticTraceAnalysis) under the MIT license. Such a file is called a *trace*, and it's a list of events. Each event we need has a name, a category, a start time, and a duration, the last two in microseconds.

# %%
CATEGORIES = {
    "operators": ["cpu_op"],  # such as aten::mul: PyTorch's own functions, on the CPU
    "calls": ["cuda_runtime", "cuda_driver"],  # what they asked of CUDA, still on the CPU
    "gpu": ["kernel", "gpu_memcpy", "gpu_memset"],  # what the GPU did in response
    "named": ["user_annotation"],  # parts of the program that its authors named
}


def read(path):
    with gzip.open(path) as file:
        events = [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X"]  # "X": it has a duration
    of = {kind: [e for e in events if e.get("cat") in cats] for kind, cats in CATEGORIES.items()}
    of["steps"] = sorted((e for e in of["named"] if e["name"].startswith("ProfilerStep")), key=lambda e: e["ts"])
    return of


# %%
# needs: a100_trace
a100 = read(paths["a100_trace"])
print({kind: len(found) for kind, found in a100.items()})

# %% [markdown]
# An *operator* runs on the CPU and asks the CUDA runtime to *launch* a *kernel*, a function that runs on the GPU. That call is *asynchronous*: it usually returns immediately, and the kernel runs when the GPU gets to it. As long as Python runs ahead, the GPU finds its next kernel waiting in a queue, which CUDA calls a *stream*. When nothing is running, the GPU is *idle*.
#
# The sixteen GPUs exchange data through *NCCL*, whose kernels count as running even when all they do is wait for the other GPUs. The "other threads" below are autograd's, which run the backward pass.

# %%
# @title Sort a step's events into rows { display-mode: "form" }
def rows_of(trace, step):
    def is_nccl(e):
        return "nccl" in e["name"].lower()

    gpu, main = trace["gpu"], step["tid"]
    rows = {
        "Python's thread: operators": [e for e in trace["operators"] if e["tid"] == main],
        "optimizer.step()": [e for e in trace["named"] if e["name"].startswith("Optimizer.step") and e["tid"] == main],
        **{f"## {part}": [e for e in trace["named"] if e["name"] == f"## {part}"] for part in ("data", "forward", "backward", "optimizer")},
        "other threads: operators": [e for e in trace["operators"] if e["tid"] != main],
        "CUDA calls over 1 ms": [e for e in trace["calls"] if e["dur"] > 1000],
        "GPU: kernels": [e for e in gpu if e["cat"] == "kernel" and not is_nccl(e)],
        "GPU: NCCL": [e for e in gpu if is_nccl(e)],
        "GPU: copies and memsets": [e for e in gpu if e["cat"] != "kernel"],
    }
    start, end = step["ts"], step["ts"] + step["dur"]
    inside = {name: [((e["ts"] - start) / 1e6, e["dur"] / 1e6) for e in found if start <= e["ts"] < end] for name, found in rows.items()}
    return {name: spans for name, spans in inside.items() if spans}, step["dur"] / 1e6


# %%
# @title Draw one step { display-mode: "form" }
# needs: a100_trace
figures.trace_timeline(*rows_of(a100, a100["steps"][1]), idle_of="GPU", title="One training step on an A100")

# %% [markdown]
# Python's thread looks busy, but an operator counts as running even while it only waits. To see how long the GPU is busy, add up the time during which at least one
# of its rows shows something running.

# %%
def busy(events, start, end):  # microseconds in which at least one of them runs
    total, until = 0, start
    for e in sorted(events, key=lambda e: e["ts"]):
        begin, stop = max(e["ts"], until), min(e["ts"] + e["dur"], end)
        if stop > begin:
            total, until = total + stop - begin, stop
    return total


def idle(trace):  # percent
    start, end = trace["steps"][0]["ts"], trace["steps"][-1]["ts"] + trace["steps"][-1]["dur"]
    return 100 * (1 - busy(trace["gpu"], start, end) / (end - start)), (end - start) / 1e3


# %%
# needs: a100_trace
a100_idle, a100_ms = idle(a100)
print(f"idle for {a100_idle:.0f}% of {a100_ms:,.0f} ms")

# %% [markdown] tags=["minutes-12", "short-8"]
# ## Which call is to blame?
#
# On a GPU tensor, `.item()` copies one value to the CPU and waits for it, so it's the first thing people look for.

# %%
# needs: a100_trace
items = [e for e in a100["operators"] if e["name"] == "aten::item"]
print(f"{len(items)} calls to .item() in the whole trace")

# %% [markdown]
# **Predict.** How many milliseconds do these calls take in all?

# %%
item_ms = None  # @param {type:"number"}


# %%
# needs: a100_trace
def inside(outer, events):  # on the same thread, between its start and its end
    ends = outer["ts"] + outer["dur"]
    return [e for e in events if e["tid"] == outer["tid"] and outer["ts"] <= e["ts"] and e["ts"] + e["dur"] <= ends]


of_items = sum(e["dur"] for e in items) / 1e3
waiting = [call for call in a100["calls"] if "Memcpy" in call["name"] or "Synchronize" in call["name"]]
asked = sum(bool(inside(e, waiting)) for e in items)
print(f"{of_items:.1f} ms{your_prediction(item_ms, ' ms')}; {asked} of the calls copied from the GPU or waited for it")

# %% [markdown]
# A count isn't a cost. None of these calls touched the GPU, so their tensors must have been on the CPU, where there's nothing to wait for. Sort the CUDA calls by duration instead. A call and the GPU work it starts share a *correlation ID*.

# %%
# needs: a100_trace
started = {e["args"]["correlation"]: e for e in a100["gpu"] if "correlation" in e["args"]}
within = [e for e in a100["calls"] if e["ts"] < a100["steps"][-1]["ts"] + a100["steps"][-1]["dur"]]
for call in sorted(within, key=lambda e: -e["dur"])[:6]:
    around = [e["name"] for e in a100["named"] if inside(e, [call])]
    print(f"{call['dur'] / 1e3:6.1f} ms  {call['name']}, in {' > '.join(around[:2])}")
    if work := started.get(call["args"]["correlation"]):
        size = f", {work['args']['bytes']} bytes" if "bytes" in work["args"] else ""
        print(f"           on the GPU: {work['name'].split('<')[0][:40]}, {work['dur']:.0f} µs{size}")

# %% [markdown]
# Each step has one 704-byte copy that occupies the GPU for 2 µs and blocks Python for two thirds of the step. `cudaMemcpyAsync` isn't always asynchronous. With an ordinary (*pageable*) host destination, the call returns only when the copy is done; with a *pinned* one, it can return at once. The copy, in turn, can't start until everything ahead of it in its stream is done. When the CPU waits for the GPU like this, it's called a *synchronization*. While it lasts, the calling thread launches nothing, so this copy looks like the reason the GPU runs out of work.
#
# ### How long does a kernel wait?
#
# If the GPU had run out of work, the next kernel would have started within microseconds of its launch. The correlation IDs tell us whether it did.
#
# **Predict.** In this trace, how many milliseconds pass between a launch and the start of what it launched? Give the median.

# %%
median_wait = None  # @param {type:"number"}

# %%
def launch_times(trace):  # when the CPU asked for each piece of the GPU's work, by correlation ID; without graphs, where one call launches many
    start, end = trace["steps"][0]["ts"], trace["steps"][-1]["ts"] + trace["steps"][-1]["dur"]
    return {call["args"]["correlation"]: call["ts"] for call in trace["calls"] if start <= call["ts"] < end and "Graph" not in call["name"]}


def queue_waits(trace):  # milliseconds from each launch to the start on the GPU, sorted
    launched = launch_times(trace)
    return sorted((e["ts"] - launched[e["args"]["correlation"]]) / 1e3 for e in trace["gpu"] if e["args"].get("correlation") in launched)


def gaps(trace):  # (microseconds, start, what runs next) of each stretch of the steps in which nothing runs on the GPU
    until, end, found = trace["steps"][0]["ts"], trace["steps"][-1]["ts"] + trace["steps"][-1]["dur"], []
    for e in sorted(trace["gpu"], key=lambda e: e["ts"]):
        if until < e["ts"] < end:
            found.append((e["ts"] - until, until, e))
        until = max(until, e["ts"] + e["dur"])
    return found

# %% [markdown]
# For comparison, two more traces: one from a job on two V100s, and one of our own, three steps recorded on an H100.

# %%
h100 = read(trace_downloads.OURS)

# %%
# needs: v100_trace
v100 = read(paths["v100_trace"])

# %%
# needs: a100_trace, v100_trace
medians = {}
for name, trace in {"A100": a100, "V100": v100, "H100": h100}.items():
    waits = queue_waits(trace)
    medians[name] = waits[len(waits) // 2]
    print(f"{name}: idle {idle(trace)[0]:2.0f}% of the time; median wait {medians[name]:.3g} ms{your_prediction(median_wait, ' ms') if name == 'A100' else ''}; {sum(wait < 0.02 for wait in waits) / len(waits):3.0%} start within 0.02 ms")

# %%
# @title What was pending when the long gaps began? { display-mode: "form" }
# needs: a100_trace
launched = launch_times(a100)
started_at = [(launched.get(e["args"].get("correlation"), math.inf), e["ts"]) for e in a100["gpu"] if e["cat"] == "kernel"]
long = [gap for gap in gaps(a100) if gap[0] > 100]  # over 0.1 ms
pending = {began: sum(asked < began < start for asked, start in started_at) for _, began, _ in long}  # launched, but not started yet
in_long, (longest, began, _) = sum(took for took, *_ in long), max(long, key=lambda gap: gap[0])
held_up = sum(took for took, began, _ in long if pending[began]) / in_long
print(f"{len(long)} gaps of more than 0.1 ms make up {in_long / sum(took for took, *_ in gaps(a100)):.0%} of the A100's idle time. For {held_up:.1%} of the time in these gaps, at least one launched kernel was waiting to start.")
print(f"When the longest gap began, {pending[began]} launched kernels hadn't started. It lasted {longest / 1e3:.0f} ms.")

# %% [markdown]
# Together, these numbers say who waits for whom:
#
# - The V100's kernels wait their turn, and the GPU is hardly ever idle. Python is far ahead. The program is *GPU-bound*. (Part of the busy time may be NCCL kernels waiting for the other GPU; see Exercise 3.)
# - On the H100 the queue is short, and a quarter of the kernels start immediately: they find the queue empty and the GPU waiting. The program is *CPU-bound*, at least for part of each step. (The profiler slows Python down. Without it, that part is smaller.)
# - The A100's kernels wait longest of all, *and yet the trace shows an idle GPU*. It hadn't run out of work: throughout nearly all of its long gaps, kernels had been launched and hadn't started.
#
# Something held the kernels up. A profiler charges a blocking call for *whatever it waits for*, so the copy's time may be the same delay, seen from the CPU's side. What delayed the kernels? Look at the calls that launched the work at the end of the long gaps.

# %%
# @title What ended the long gaps { display-mode: "form" }
# needs: a100_trace
called = {call["args"]["correlation"]: call["name"] for call in a100["calls"]}
ended_by = {}
for took, _, after in long:
    name = called.get(after["args"].get("correlation"), "launched before the recording")
    ended_by[name] = ended_by.get(name, 0) + took / 1e3
for name, took in sorted(ended_by.items(), key=lambda item: -item[1]):
    print(f"{took:6.1f} ms of the long gaps end with work from: {name}")
five = sorted(long, key=lambda gap: -gap[0])[:5]
print(f"The five longest gaps, {five[-1][0] / 1e3:.0f} to {five[0][0] / 1e3:.0f} ms each, all end with: {', '.join({after['name'] for *_, after in five})}")
print(f"If the GPU was in fact working during these five, it was idle for only {a100_idle - 100 * sum(took for took, *_ in five) / 1e3 / a100_ms:.0f}% of the time.")

# %% [markdown]
# `cudaGraphLaunch` starts a *CUDA graph*: a sequence of kernels and copies, recorded once, that Python launches with one call. Most of the idle time ends when the profiler next sees work from such a graph, and two explanations fit. Either the GPU was working on a part of the graph that the profiler didn't record, and then these gaps aren't idle time at all. Or it waited, perhaps for another GPU. The trace doesn't say which.
#
# Nor does the trace say what the copy costs. Had it not been blocked, Python could have launched any work that doesn't need the copied value. A trace shows what waited. It doesn't show what had to wait. To find out, you have to move the copy and measure again, which we can't do on Meta's machines.

# %% [markdown] tags=["minutes-8", "short-6"]
# ## A loop to take apart
#
# The A100 had launches pending. But a blocking read can also leave a GPU with nothing to do, because Python can't launch anything while it waits. Would moving the read help? Try it in a loop small enough to take apart. Two threads play the part of two streams, and a kernel is a call to `sleep`. In each step, stream 1 runs a short kernel and then waits for a message from another process. A blocking read has to wait until the kernel has finished and the message has arrived. After the read, Python launches a second kernel into stream 2. In version A this kernel needs the message, and in version B it doesn't.

# %%
def small_step(second_needs_it, read_when, events):
    stream_1, stream_2 = ThreadPoolExecutor(1), ThreadPoolExecutor(1)  # each runs its work in order
    arrived, begin = threading.Event(), time.perf_counter()
    threading.Timer(3 * WORK, arrived.set).start()

    def timed(row, work, *args):
        start = time.perf_counter()
        work(*args)
        events.append((row, start - begin, time.perf_counter() - start))

    stream_1.submit(timed, "stream 1", time.sleep, WORK)  # sleeping takes no core away from Python
    message = stream_1.submit(arrived.wait)
    if read_when == "before":
        timed("Python blocked in the read", wait, [message])
    if second_needs_it:
        stream_2.submit(timed, "waits for the message", arrived.wait)
    work = stream_2.submit(timed, "stream 2", time.sleep, 1.5 * WORK)
    if read_when == "after":
        timed("Python blocked in the read", wait, [message])
    wait([work, message])  # the end of the step
    return time.perf_counter() - begin


# %%
LOOPS = {"A, needs the message": True, "B, doesn't": False}


def draw(read_when, title):  # returns the picture, and the share of each step in which no kernel runs
    rows, idle_share = {}, {}
    for name, needs_it in LOOPS.items():
        events = []
        seconds = small_step(needs_it, read_when, events)
        for row in ("Python blocked in the read", "stream 1", "stream 2", *(["waits for the message"] if read_when == "after" else [])):
            rows[f"{name[0]}: {row}"] = [(at, took) for what, at, took in events if what == row]
        device_busy = busy([{"ts": at, "dur": took} for what, at, took in events if "stream" in what], 0, seconds)
        idle_share[name] = 100 * (1 - device_busy / seconds)
    return figures.trace_timeline(rows, 5 * WORK, title=title), idle_share


picture, idle_share = draw("before", "Read first: when Python is blocked, and when a kernel runs")
picture

# %% [markdown]
# The two versions look alike: Python is blocked equally long in both, and the device is idle over the same stretch.
#
# **Predict.** Move the read to after the launch of the second kernel. By what percentage does the step get shorter in each version?

# %%
version_a = None  # @param {type:"slider", min:0, max:100, step:5}
version_b = None  # @param {type:"slider", min:0, max:100, step:5}

# %%
guesses, saves = dict(zip(LOOPS, (version_a, version_b))), {}
for name, needs_it in LOOPS.items():
    took = {when: min(small_step(needs_it, when, []) for _ in range(3)) for when in ("before", "after")}
    saves[name] = 100 * (1 - took["after"] / took["before"])
    print(f"{name:>20}: {1e3 * took['before']:.0f} ms with the read first, {1e3 * took['after']:.0f} ms with the launch first; {round(saves[name])}% saved{your_prediction(guesses[name], '%')}")
draw("after", f"Launch first: B's kernel no longer waits, and its step is {round(saves[name])}% shorter")[0]

# %%
# @title Check these claims on your machine { display-mode: "form" }
with_message, without = LOOPS
holds(abs(idle_share[with_message] - idle_share[without]), 0, 5, "The device is idle for the same share of the step in both versions.", fast=FAST)
holds(saves[without], 25, 40, "A kernel that doesn't need the message runs sooner, and the step gets shorter.", fast=FAST)
holds(saves[with_message], -5, 5, "A kernel that needs the message can't run sooner.", fast=FAST)

# %% [markdown]
# The first picture can't tell A from B. Moving the read could: it saves a third of B's step and almost nothing of A's, because A's second kernel needs the message. In the second picture, A's stream 2 waits for it. A real trace may list such a wait (`cudaStreamWaitEvent`), but not whether the program needs it.

# %% [markdown] tags=["minutes-6"]
# ## The job on an H100
#
# We can't change Meta's program, but we can change ours, the training run of lesson 01. We recorded three of its steps on an H100.

# %%
h100_idle, h100_ms = idle(h100)
kernels = [e for e in h100["gpu"] if e["cat"] == "kernel"]
in_matmuls = sum(e["dur"] for e in kernels if "gemm" in e["name"]) / 3e3  # milliseconds per step
longest = sorted(h100["calls"], key=lambda e: -e["dur"])[0]
record = json.loads((trace_downloads.OURS.parent / "nvidia-h100.json").read_text())["steps"]
step_ms = {name: 1e3 * found["seconds_waiting_each_step"] for name, found in record.items()}
busy_ms = (1 - h100_idle / 100) * h100_ms / 3
best_ms = {name: 1e3 * found["fastest_seconds"] for name, found in record.items()}
print(f"The GPU works for {busy_ms:.1f} ms per step, and is idle for the rest:")
for what, took in {"with the profiler": h100_ms / 3, "without it, typically": step_ms["as written"], "at best": best_ms["as written"]}.items():
    print(f"{what:>22}: {took:4.1f} ms per step, idle for {1 - busy_ms / took:.0%}")
each = 1e3 * step_ms["as written"] / (len(h100["gpu"]) / 3)  # microseconds
print(f"{len(h100['gpu']) // 3} kernels and copies per step, one every {each:.0f} µs; matmuls take at least {in_matmuls:.0f} ms per step; the longest CUDA call takes {longest['dur']:.0f} µs ({longest['name']})")

# %%
# @title Draw one of its steps { display-mode: "form" }
figures.trace_timeline(*rows_of(h100, h100["steps"][1]), idle_of="GPU", title="One training step on an H100")

# %% [markdown]
# The GPU is idle at the start of the step, where the loop samples the batch from the text, and again toward the end, while `optimizer.step()` runs. In between, except for a gap where the backward pass begins, the kernels run nearly back to back. Most of the kernels' time goes to matmuls, which an H100 does many times faster in bf16 than in float32.
#
# **Predict.** Without the profiler, the fastest of 60 steps took 18.9 ms in float32. How many milliseconds did the fastest take in bf16?

# %%
bf16_takes = None  # @param {type:"number"}

# %%
changes = {
    "as written, in float32": "as written", "autocast to bf16": "bf16", "+ fused AdamW": "bf16 fused",
    "+ torch.compile": "bf16 fused compile", "+ text on the GPU": "bf16 fused compile text on GPU",
}
for name, key in changes.items():  # 60 steps each, timed without the profiler, the loss read in every step, as in the trace
    print(f"{name:>24}: typically {step_ms[key]:4.1f} ms per step, {best_ms[key]:4.1f} at best")
print(f"the fastest step: {best_ms['as written']:.1f} ms in float32, {best_ms['bf16']:.1f} in bf16{your_prediction(bf16_takes, ' ms')}")
compiling, saved = record["bf16 fused compile"]["first_seconds"], step_ms["bf16 fused"] - step_ms["bf16 fused compile"]
print(f"torch.compile: the first step took {compiling:.0f} s; after that, 1,000 steps take {saved:.0f} s less than without it")

# %% [markdown]
# Why does bf16 take so little off the fastest step? A step takes at least as long as the GPU needs for its kernels, and at least as long as Python needs to launch them: about as long as the *slower of the two*. In float32, the fastest step takes little longer than the GPU's 17.1 ms of work. In bf16, the 12 ms of matmuls should shrink to a fraction, so those 15.0 ms are presumably Python's: the step has become *launch-bound*, and faster kernels can't shorten it any further. `torch.compile` can, presumably because it launches fewer kernels and runs less Python for each. (In a typical step, and even more under the profiler, Python is slower, and the GPU waits for it in float32, too.)
#
# Typical steps are too noisy to rank the first three versions: within each of them, steps vary by more than the versions differ. `torch.compile` shortens the typical step, too. Compiling takes longer than our 1,000 steps can save, though, so it pays only in a longer run. With the text on the GPU as well, a typical step takes 12.8 ms.
#
# So before you make anything faster, ask who is waiting for whom. A T4's matmuls take many times as long, so there Python should be the one that waits. Try 16 bits first: fp16, because a T4's tensor cores don't support bf16. The next cell has the code for these versions. If you have a GPU, the one after it times four of them on yours, including `torch.compile` in float32.

# %%
# @title How the versions differ { display-mode: "form" }
def job_step(dtype=None, fused=False, compiled=False, text_on_gpu=False):  # of the ten million parameters, not of a small model
    gpt = models.GPT(models.GPTConfig(n_layer=1 if FAST else 6)).to(device)
    run = torch.compile(gpt) if compiled else gpt
    adamw = torch.optim.AdamW(gpt.parameters(), fused=fused or None)  # None: PyTorch's default
    plays = shakespeare.load().to(device if text_on_gpu else "cpu")

    def step():
        starts = torch.randint(len(plays) - 256, (1 if FAST else 32, 1), device=plays.device)
        chunk = plays[starts + torch.arange(257, device=plays.device)].long().to(device)  # (32, 257)
        with torch.autocast(device.type, dtype, enabled=dtype is not None):
            logits = run(chunk[:, :-1])  # (32, 256, 96)
            loss = F.cross_entropy(logits.flatten(0, 1), chunk[:, 1:].flatten())
        loss.backward()
        adamw.step()
        adamw.zero_grad()
        return loss.item()  # waits for all of it

    return step


# %%
# @title Time them on your GPU, if you have one { display-mode: "form" }
if gpu_here:
    half = torch.bfloat16 if torch.cuda.get_device_capability() >= (8, 0) else torch.float16  # to train in fp16, add a GradScaler (lesson 07)
    all_four = {"dtype": half, "fused": True, "compiled": True, "text_on_gpu": True}
    versions = {"as written": {}, "torch.compile": {"compiled": True}, f"{half}".removeprefix("torch."): {"dtype": half}, "all four changes": all_four}
    for name, one in benchmark.compare({name: job_step(**options) for name, options in versions.items()}, budget=3 * SECONDS).items():
        print(f"{name:>16}: {1e3 * one.median:.1f} ms per step")

# %% [markdown] tags=["minutes-9", "short-6"]
# ## Your own step
#
# You could tell where Meta's copy was because the program's parts had names, such as `sparse_data_dist`. In your own program, `record_function` names a part. The profiler also takes a *schedule*: ours skips one step, warms up for two, and records four. At full size, matmuls would take most of a CPU core's time, so these steps use a small model and 32 characters per sequence.

# %%
text, small = shakespeare.load(), models.GPTConfig(n_layer=2, n_head=4, n_embd=64, block_size=32)


def draw_batch():
    starts = torch.randint(len(text) - 32, (32, 1))
    chunk = text[starts + torch.arange(33)].long().to(device)  # (32, 33)
    return chunk[:, :-1], chunk[:, 1:]


def mean_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


# %%
def training_step(config=small, data=draw_batch, loss_of=mean_loss, change=lambda model: None, after=lambda *_: None):
    model = models.GPT(config).to(device)
    change(model)
    adamw = torch.optim.AdamW(model.parameters(), fused=True)

    def step():
        with record_function("## data"):
            ids, targets = data()
        with record_function("## forward"):
            logits = model(ids)  # (32, 32, 96)
            loss = loss_of(logits, targets)
        with record_function("## backward"):
            loss.backward()
        with record_function("## optimizer"):
            adamw.step()
            adamw.zero_grad()
        with record_function("## after"):
            after(logits.detach(), targets)

    return step


# %%
def profiled(step, **options):
    with profile(schedule=schedule(wait=1, warmup=2, active=ACTIVE), acc_events=True, **options) as found:
        for i in range(3 + ACTIVE):
            step()
            if i == 2 + ACTIVE:
                benchmark.synchronize()  # before the recording ends; in every step it would drain the queue
            found.step()
    return found


def show(found, rows=8):
    ops = found.key_averages()
    calls.append(sum(op.count for op in ops if op.key.startswith("aten::")) / ACTIVE)
    print(ops.table(sort_by="self_cpu_time_total", row_limit=rows, max_name_column_width=57))
    print(f"{calls[-1]:,.0f} operator calls per step, {calls[-1] / calls[0]:.1f} times the healthy step's")


calls, healthy = [], training_step()
profiled(healthy)  # a rehearsal: first runs are slow
found = profiled(healthy)
show(found)

# %% [markdown]
# An operator's *self* time excludes the time spent in the operators it calls, so on a CPU, self times add up to the whole. *Total* times don't, since they count nested calls more than once. `mm`, `addmm`, and `bmm` are matmuls. On a GPU, another thread launches the backward pass, and `## backward` shows only how long Python waited for that thread.
#
# The table doesn't show what ran when. For that, write a trace like Meta's, and read it with the same functions. ([ui.perfetto.dev](https://ui.perfetto.dev) opens it, too, and with `with_stack=True` the profiler also records the call stack of each operator, at some cost in time.)

# %%
file = Path(tempfile.mkdtemp()) / "step.json.gz"
found.export_chrome_trace(str(file))
own = read(file)
start, length = own["steps"][0]["ts"], sum(e["dur"] for e in own["steps"])
outside = 100 * (1 - busy(own["operators"], start, start + length) / length)  # percent: between operators
if own["gpu"]:
    waits = queue_waits(own)
    print(f"GPU idle for {idle(own)[0]:.0f}% of the time; median wait {waits[len(waits) // 2]:.3g} ms")
figures.trace_timeline(*rows_of(own, own["steps"][1]), idle_of="GPU", title=f"Your own step: for {outside:.0f}% of the time, no operator is running")

# %% [markdown] tags=["minutes-6"]
# ## Six slow steps and their profiles
#
# We slowed the same step down in six ways. Leave the two folded cells closed, and name the cause of each slow step from its profile. Two of the six share a cause. The form below the profiles offers eight causes, some of which fit none of the steps. Three questions help:
#
# - Are there many more operator calls than in the healthy step?
# - Does a row that starts with `##` have a long *self* time, which no operator accounts for? (Leave out `## backward`.)
# - Which operators are new to the top of the table?

# %%
# @title The six slowed-down steps: don't open this yet { display-mode: "form" }
def confusion(logits, targets):
    best = logits.flatten(0, 1).topk(3).indices
    for guesses, target in zip(best, targets.flatten()):
        pairs.append((target.item(), *(guess.item() for guess in guesses)))


def keep_logits(logits, targets):  # each step copies all of them, to append a few and drop the oldest
    kept[:] = torch.cat([kept[0][logits.numel() // 96 :], logits.flatten(0, 1)], out=kept[1]), kept[0]  # no new memory: only the copy is timed


def read_file_again():
    global text
    text = shakespeare.load()
    return draw_batch()


def sequence_by_sequence(model):
    whole = model.forward
    model.forward = lambda ids: torch.cat([whole(row[None]) for row in ids])


# %%
# @title The last of them, and the answers: don't open this either { display-mode: "form" }
def head_by_head(model):
    def attend(self, x):
        out = []
        for row in x:
            query, key, value = self.query_key_value(row).view(len(row), 3, 4, -1).permute(1, 2, 0, 3)
            heads = [F.scaled_dot_product_attention(query[h][None, None], key[h][None, None], value[h][None, None], is_causal=True)[0, 0] for h in range(4)]
            out.append(self.project(torch.cat(heads, -1)))
        return torch.stack(out)

    for block in model.blocks:
        block._attend = types.MethodType(attend, block)


pairs, kept = [], [torch.zeros(KEPT * 32 * 32, 96, device=device) for _ in range(2)]
written_out = models.GPTConfig(n_layer=2, n_head=4, n_embd=64, block_size=32, fused_layers=False, fused_attention=False)
slowed = [
    training_step(change=sequence_by_sequence), training_step(after=confusion), training_step(written_out),
    training_step(data=read_file_again), training_step(change=head_by_head), training_step(after=keep_logits),
]
[step() for step in slowed for _ in range(3)]  # first runs are slow: memory is new
CAUSES = {
    "many small calls instead of one": (0, 4), "values read one by one": (1,), "a chain of operators that a single fused one can replace": (2,),
    "data prepared again in every step": (3,), "a result that is copied in every step": (5,),
}
cause_of = {place: cause for cause, places in CAUSES.items() for place in places}

# %%
show(profiled(slowed[0]))

# %%
show(profiled(slowed[1]))

# %%
show(profiled(slowed[2]))

# %%
show(profiled(slowed[3]))

# %%
show(profiled(slowed[4]))

# %%
show(profiled(slowed[5]))

# %% [markdown]
# **Predict.** What slowed each of them down?

# %%
first = None  # @param ["shapes that make torch.compile start over", "a result that is copied in every step", "values read one by one", "an optimizer that visits one tensor at a time", "data prepared again in every step", "many small calls instead of one", "copies between host and device", "a chain of operators that a single fused one can replace"]
second = None  # @param ["shapes that make torch.compile start over", "a result that is copied in every step", "values read one by one", "an optimizer that visits one tensor at a time", "data prepared again in every step", "many small calls instead of one", "copies between host and device", "a chain of operators that a single fused one can replace"]
third = None  # @param ["shapes that make torch.compile start over", "a result that is copied in every step", "values read one by one", "an optimizer that visits one tensor at a time", "data prepared again in every step", "many small calls instead of one", "copies between host and device", "a chain of operators that a single fused one can replace"]
fourth = None  # @param ["shapes that make torch.compile start over", "a result that is copied in every step", "values read one by one", "an optimizer that visits one tensor at a time", "data prepared again in every step", "many small calls instead of one", "copies between host and device", "a chain of operators that a single fused one can replace"]
fifth = None  # @param ["shapes that make torch.compile start over", "a result that is copied in every step", "values read one by one", "an optimizer that visits one tensor at a time", "data prepared again in every step", "many small calls instead of one", "copies between host and device", "a chain of operators that a single fused one can replace"]
sixth = None  # @param ["shapes that make torch.compile start over", "a result that is copied in every step", "values read one by one", "an optimizer that visits one tensor at a time", "data prepared again in every step", "many small calls instead of one", "copies between host and device", "a chain of operators that a single fused one can replace"]

# %%
times = benchmark.compare({"healthy": healthy} | {str(place): step for place, step in enumerate(slowed)}, budget=SECONDS)
slower = [benchmark.speedup(times[str(place)], times["healthy"]) for place in range(6)]
on_h100 = scoreboard.job_record("nvidia-h100")["slow_steps"]["times"]  # of the first five
named = (first, second, third, fourth, fifth, sixth)
for place, guess in enumerate(named):
    there = f" ({on_h100[place]}× on an H100, our run)" if place < len(on_h100) else ""
    print(f"{place + 1}: {cause_of[place]}{your_prediction(guess)}; {slower[place]} the time of the healthy step{there}")
right = sum(guess == cause_of[place] for place, guess in enumerate(named))
print(f"You got {right} of 6 right." if any(named) else "")

# %%
# @title Check these claims on your machine { display-mode: "form" }
holds(min(one.value for one in slower), 1.15, math.inf, "Each of the six takes clearly longer than the healthy step.", fast=FAST)
if device.type == "cpu":
    holds(min(on_h100[place] / slower[place].value for place in (0, 1, 4)), 1.5, math.inf, "Many small calls cost more on an H100 than here.", fast=FAST)

# %% [markdown]
# Find the cause in the table, but measure the cost with the profiler off. Profiling adds time, and a table from a single run can be distorted by whatever else the machine is doing. The timings above alternate between the versions, so interference hits all of them alike. The number of calls doesn't tell you the cost, either: steps 1 and 2 make about the same number, but on a CPU the calls in step 2 are cheap. On an H100, each read makes Python wait for the GPU. And the healthy step is presumably shorter there, so the same overhead is a larger multiple of it.
#
# Here's what gives each slow step away in a CPU's table, and how to fix it. (The tables count the calls of four steps.)
#
# 1. `gelu_backward` runs 64 times per step instead of twice: once per sequence and block. Give the model all sequences at once.
# 2. `item` runs over 4,000 times per step, once `select` has picked out each value, and `## after` has a long self time. Keep the values in tensors, and read them once, with `tolist()`.
# 3. `mul` and `var` are new to the top of the table. Use PyTorch's fused functions, or `torch.compile`.
# 4. `## data` has the longest self time. Load the data before the loop.
# 5. Attention runs 256 times per step: once per sequence, block, and head. Compute it for all sequences and heads in one call.
# 6. `cat` leads the table. Keep the results in a list (a `deque(maxlen=…)`, if only the last ones count), and concatenate once, when you need them.

# %% [markdown] tags=["minutes-4", "short-0"]
# ## Busy isn't the same as useful
#
# Back to the V100s, which were also training a recommendation model.

# %%
# needs: v100_trace
v100_idle, v100_ms = idle(v100)
device_copies = [e for e in v100["gpu"] if e["name"] == "Memcpy DtoD (Device -> Device)"]
rest = [e for e in v100["gpu"] if e["name"] != "Memcpy DtoD (Device -> Device)"]
start, end = v100["steps"][0]["ts"], v100["steps"][-1]["ts"] + v100["steps"][-1]["dur"]
copy_ms = (busy(v100["gpu"], start, end) - busy(rest, start, end)) / 1e3
print(f"idle for {v100_idle:.0f}% of {v100_ms:.0f} ms; for {copy_ms:.0f} ms, the GPU runs nothing but device-to-device copies ({len(device_copies):,} in all)")

# %% [markdown]
# The GPU spends a ninth of its time doing nothing but copying tensors from one place in its own memory to another. The utilization in `nvidia-smi` wouldn't tell you, because it only says whether anything is running. Nor does the trace say whether the program could do without the copies: for that, read the code.
#
# Look in this order:
#
# ```
# Is the GPU idle?  (the device rows of a trace)
# ├─ yes, and when its gaps begin, nothing is pending: what is Python doing meanwhile?
# │       ├─ launching, call after call     batch the calls; torch.compile; CUDA graphs
# │       ├─ preparing data                 move it before the loop, into workers, or onto the GPU
# │       └─ blocked in a copy or a read    launch first, and read later (it may save nothing: measure)
# ├─ yes, although kernels are pending      find what holds them up: another stream or GPU, or graph nodes the profiler missed
# └─ no:  which kernels take the time?
#         ├─ NCCL                           look for a straggler; try larger buckets, a faster link (lesson 11)
#         ├─ many that aren't matmuls       fused functions, torch.compile
#         ├─ copies                         keep tensors where they are; allocate once, instead of growing a tensor in every step
#         └─ matmuls                        16 bits (lesson 07), then a faster chip (lesson 08)
# ```
#
# `torch.compile` appears twice, and you've seen what it did for our step. On a GPU, `torch.compile(model, mode="reduce-overhead")` also records the launches of the forward and backward passes as CUDA graphs, which the GPU then replays without Python. A graph needs the same shapes in every step.

# %% [markdown] tags=["minutes-6"]
# ## Exercises
#
# ### 1 · Repair a slow step
#
# The second slow step reads its values one by one, as `slow_pairs` does. Write `pairs_of`, which returns the same list without a single call to `.item()`.

# %% tags=["exercise"]
def slow_pairs(logits, targets):
    best = logits.flatten(0, 1).topk(3).indices  # (positions, 3)
    return [(target.item(), *(guess.item() for guess in guesses)) for guesses, target in zip(best, targets.flatten())]


def pairs_of(logits, targets):
    return ...


### BEGIN SOLUTION
def pairs_of(logits, targets):
    best = logits.flatten(0, 1).topk(3).indices
    return [tuple(row) for row in torch.cat([targets.reshape(-1, 1), best], 1).tolist()]


### END SOLUTION
exercises.check("10.pairs", pairs_of, slow=slow_pairs)

# %% [markdown]
# ### 2 · Who waits for whom?
#
# | program | GPU idle | when a gap begins | Python meanwhile |
# |---|---|---|---|
# | P | 3% | hundreds of kernels are pending | launches, far ahead |
# | Q | 55% | hundreds of kernels are pending | is blocked in a copy |
# | R | 60% | nothing is pending | launches, call after call |
#
# None of them spends time in NCCL. Which gets faster with CUDA graphs? Which with a faster GPU? And which one can't you judge until you know what its kernels are waiting for?

# %% tags=["exercise"]
programs = {"CUDA graphs": ..., "a faster GPU": ..., "can't say": ...}  # "P", "Q" or "R" for each
### BEGIN SOLUTION
programs = {"CUDA graphs": "R", "a faster GPU": "P", "can't say": "Q"}
### END SOLUTION
exercises.check("10.waits", programs)

# %% [markdown]
# ### 3 · Exposed communication
#
# The time during which NCCL's kernels run and nothing else does is called *exposed communication*. It's about the most that a faster network could save. (Some of it may be waiting for a slower GPU.) `gpu` is
# a list of events, as in this lesson. Return the microseconds of exposed communication between `start` and `end`, with the help of `busy`.

# %% tags=["exercise"]
def exposed(gpu, start, end):
    return ...


### BEGIN SOLUTION
def exposed(gpu, start, end):
    without_nccl = [e for e in gpu if "nccl" not in e["name"].lower()]
    return busy(gpu, start, end) - busy(without_nccl, start, end)


### END SOLUTION
exercises.check("10.exposed", exposed)

# %% [markdown] tags=["minutes-1"]
# ## The scoreboard

# %%
scoreboard.show("10")

# %%
needed, free = saves.values()
takeaways = {
    "A trace doesn't show what had to wait": f"in our simulated steps, two versions looked alike, but moving the read past the next launch saved {round(free)}% of a step in one, and {round(needed)}% in the other.",
    "A step takes as long as the slower of Python and the GPU": f"on an H100, bf16 made the fastest step only {1 - best_ms['bf16'] / best_ms['as written']:.0%} shorter ({best_ms['as written']:.1f} to {best_ms['bf16']:.1f} ms), presumably because Python couldn't launch its kernels any faster. With a fused AdamW and torch.compile as well, it took {best_ms['bf16 fused compile']:.1f} ms.",
    "Give each call more work": f"calling the model once per sequence made a step take {slower[0]} as long, and computing attention once per sequence and head, {slower[4]} as long.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess, inventory = measurements.Value, measurements.Prediction, hardware.list_devices()
with_trace = "a100_idle" in globals()
predicted = {
    "item_ms": guess(item_ms, of_items if with_trace else None, "ms"),
    "median_wait": guess(median_wait, medians["A100"] if with_trace else None, "ms"),
    "version_a": guess(version_a, saves[with_message], "%"),
    "version_b": guess(version_b, saves[without], "%"),
    "bf16_takes": guess(bf16_takes, best_ms["bf16"], "ms"),
    "first": guess(first, cause_of[0]), "second": guess(second, cause_of[1]), "third": guess(third, cause_of[2]),
    "fourth": guess(fourth, cause_of[3]), "fifth": guess(fifth, cause_of[4]), "sixth": guess(sixth, cause_of[5]),
}
measurements.record(
    "10_profile", FAST, device=inventory.main if gpu_here else inventory.cpu, predicted=predicted,
    saved_free=value(round(saves[without], 1), "%", "share of a step saved by reading later, second kernel independent of the message"),
    saved_needs=value(round(saves[with_message], 1) + 0.0, "%", "the same, second kernel waiting for the message"),
    **({"copies": value(100 * copy_ms / v100_ms, "%", "share of a V100's time with nothing running but device-to-device copies")} if "copy_ms" in globals() else {}),
    **{f"slower_{place + 1}": value(one.value, "×", f"time of a step with {cause_of[place]} ({place + 1})") for place, one in enumerate(slower)},
)

# %% [markdown] tags=["minutes-0"]
# ## A profile to keep, and what comes next
#
# ```python
# import torch
# from torch.profiler import profile, record_function, schedule
#
# with profile(schedule=schedule(wait=1, warmup=1, active=2)) as prof:
#     for batch in loader:
#         with record_function("## forward"):  # name the parts of your step
#             loss = loss_of(model, batch)
#         ...
#         if prof.step_num == 3 and torch.cuda.is_available():
#             torch.cuda.synchronize()  # the last step's kernels belong in the recording
#         prof.step()
#         if prof.step_num == 4:
#             break
# print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))  # on a GPU: self_device_time_total
# prof.export_chrome_trace("step.json.gz")  # open it at ui.perfetto.dev, or with this lesson's read()
# ```
#
# Lesson 11 asks why two GPUs aren't twice as fast as one.
