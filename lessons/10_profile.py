# %% tags=["parameters"]
# @title Sizes you can change: None means the lesson's own { display-mode: "form" }
import os

FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SECONDS = None
WORK = None

# %% tags=["sizes"]
# @title Imports, and the lesson's own sizes { display-mode: "form" }
import ctypes
import gzip
import json
import math
import sys
import threading
import time
import types
from bisect import bisect
from concurrent.futures import ThreadPoolExecutor, wait

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's own messages

import torch
from torch.nn import functional as F
from torch.profiler import profile, record_function, schedule

from colab_helpers import benchmark, hardware

from colab_lessons import exercises, figures, models, reference, replay, scoreboard, shakespeare, traces
from colab_lessons.claims import holds  # says so where a sentence of the text isn't true on your machine
from colab_lessons.predictions import guessed  # adds what you predicted to a title

SECONDS = SECONDS or (0.1 if FAST else 1.0)  # time budget of one measurement
WORK = WORK or (0.01 if FAST else 0.04)  # seconds of a piece of work in the small loop
replay.watch("10_profile")  # cells that need what is missing show recorded results
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
gpu_here = device.type == "cuda"
torch.set_num_threads(1)  # a second thread on a shared machine makes profiles noisy

# %%
# @title Download two profiles, 3 MB in all { display-mode: "form" }
paths = {name: traces.fetch(name) for name in ("a100_trace", "v100_trace")}
KEPT = 8000 if gpu_here and not FAST else 500  # steps whose logits one of the slow steps copies; a GPU copies fast

# %% [markdown] tags=["minutes-7", "short-6"]
# ## Reading a trace
#
# Engineers at Meta trained a recommendation model on sixteen A100s, recorded five steps on one of them with PyTorch's profiler, and [published the file](https://github.com/facebookresearch/HolisticTraceAnalysis) under the MIT license. Such a file is called a *trace*, and it's a list of events. The ones we need have a name, a category, a start and a duration in microseconds.

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
# An *operator* runs on the CPU and asks the CUDA runtime to *launch* a *kernel*, a function that runs on the GPU. That call usually returns at once, and the kernel runs later, when the GPU gets to it. As long as Python runs ahead, the GPU finds its next kernel waiting in a queue, which CUDA calls a *stream*. When nothing is running, the GPU is *idle*.
#
# The sixteen GPUs exchange data through a library called *NCCL*. An NCCL kernel counts as busy even while it waits for its partners.

# %%
# @title Sort a step's events into rows { display-mode: "form" }
def rows_of(trace, step):
    def is_nccl(e):
        return "nccl" in e["name"].lower()

    gpu, main = trace["gpu"], step["tid"]
    rows = {
        "Python's thread: operators": [e for e in trace["operators"] if e["tid"] == main],
        "other threads: operators": [e for e in trace["operators"] if e["tid"] != main],
        "CUDA calls over 1 ms": [e for e in trace["calls"] if e["dur"] > 1000],
        "GPU: kernels": [e for e in gpu if e["cat"] == "kernel" and not is_nccl(e)],
        "GPU: NCCL": [e for e in gpu if is_nccl(e)],
        "GPU: copies and memsets": [e for e in gpu if e["cat"] != "kernel"],
    }
    start, end = step["ts"], step["ts"] + step["dur"]
    inside = {name: [e for e in found if start <= e["ts"] < end] for name, found in rows.items()}
    return {name: [((e["ts"] - start) / 1e6, e["dur"] / 1e6) for e in found] for name, found in inside.items()}, step["dur"] / 1e6


# %%
# @title Draw one step { display-mode: "form" }
# needs: a100_trace
figures.device_rows(*rows_of(a100, a100["steps"][1]), title="One training step on an A100")

# %% [markdown]
# **Predict.** For what percentage of the five steps is the GPU idle?

# %%
percent_idle = None  # @param {type:"number"}


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
print(f"idle for {a100_idle:.0f}% of {a100_ms:,.0f} ms{guessed(percent_idle, '%')}")

# %% [markdown] tags=["minutes-10", "short-8"]
# ## Which call is to blame?
#
# On a GPU tensor, `.item()` copies one value to the CPU and waits for it, which makes it the first thing people look for.

# %%
# needs: a100_trace
items = [e for e in a100["operators"] if e["name"] == "aten::item"]
print(f"{len(items)} calls to .item() in five steps")

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
starts = sorted((call["tid"], call["ts"]) for call in a100["calls"])  # does one of them start within the item?
asked = sum(bisect(starts, (e["tid"], e["ts"] + e["dur"])) > bisect(starts, (e["tid"], e["ts"])) for e in items)
print(f"{of_items:.1f} ms{guessed(item_ms, ' ms')}; {asked} of them made a CUDA call")

# %% [markdown]
# A count isn't a cost. None of these calls reached CUDA: their tensors were already on the CPU, so there was nothing to wait for. Sort the CUDA calls by duration instead. A call and what it starts on the GPU share a *correlation ID*.

# %%
# needs: a100_trace
started = {e["args"]["correlation"]: e for e in a100["gpu"] if "correlation" in e["args"]}
within = [e for e in a100["calls"] if e["ts"] < a100["steps"][-1]["ts"] + a100["steps"][-1]["dur"]]
for call in sorted(within, key=lambda e: -e["dur"])[:6]:
    work = started.get(call["args"]["correlation"])
    around = [e["name"] for e in a100["named"] + a100["operators"] if e["tid"] == call["tid"] and inside(e, [call])]
    print(f"{call['dur'] / 1e3:6.1f} ms  {call['name']}, in {' > '.join(around[:2])}")
    size = f", {work['args']['bytes']} bytes" if "bytes" in work["args"] else ""
    print(f"           on the GPU: {work['name'].split('<')[0][:40]}, {work['dur']:.0f} µs{size}")

# %% [markdown]
# Each step has one 704-byte copy that keeps the GPU busy for 2 µs, and Python for two thirds of the step. Despite the *Async* in its name, a copy to *pageable* host memory (the ordinary kind, as opposed to *pinned*) doesn't return until it has finished, and it can't start until everything ahead of it in its stream has finished. Until then its thread is blocked, and a blocked thread launches nothing.
#
# So this copy looks like the reason why the GPU runs out of work. That can be tested: look at everything that ran on the GPU while Python was blocked, and ask when it had been launched.

# %%
# needs: a100_trace
launched = {call["args"]["correlation"]: call["ts"] for call in a100["calls"]}
before, during, silent = 0, 0, []
for call in [call for call in within if call["dur"] > 1e3 * a100_ms / 15]:  # a third of a step
    copy = started[call["args"]["correlation"]]
    ran = [e for e in a100["gpu"] if call["ts"] < e["ts"] < call["ts"] + call["dur"] and e["args"].get("correlation") in launched]
    before += sum(launched[e["args"]["correlation"]] <= call["ts"] for e in ran)
    during += sum(launched[e["args"]["correlation"]] > call["ts"] for e in ran)
    own = [e["ts"] for e in ran if e["args"]["stream"] == copy["args"]["stream"]]
    silent.append((min(own) - call["ts"]) / 1e3)
print(f"ran while Python was blocked: {before:,} that had been launched before, and {during} launched meanwhile")
print(f"the copy's own stream: nothing for the first {min(silent):.0f} to {max(silent):.0f} ms")
print(f"the GPU is idle for {a100_idle / 100 * a100_ms / len(a100['steps']):.0f} ms of a step")

# %% [markdown]
# All that ran had been launched before, so there was work in the GPU's queues that couldn't start, and the copy's own stream stood still until the last milliseconds. Something held them up. In a job on sixteen GPUs it's often another of the processes (called *ranks*), but it isn't in this file: for long stretches, no stream of this GPU runs anything at all. The copy waited along with everything else. A blocking call gets charged for *whatever it waits for*.
#
# That doesn't quite clear it. Suppose the program had other work, which doesn't need the missing result. Had Python been free, it could have launched that work and filled the gap. A trace shows in which order things ran. It doesn't show which of them needed the others' results, so moving the copy might save much of a step, or nothing. To find out what a change would bring, you have to make it and measure again, which we can't do on Meta's machines. (Their tool for such traces, [Holistic Trace Analysis](https://github.com/facebookresearch/HolisticTraceAnalysis), goes further than our thirty lines, and can classify idle time by what preceded it.)

# %% [markdown] tags=["minutes-8", "short-6"]
# ## A loop to take apart
#
# The question fits into a loop small enough to take apart. Two threads play the part of two streams. In each step, stream 1 runs a short kernel and then waits for a message from another rank, and a blocking read waits with it, as Meta's copy does. After the read, Python launches a second kernel into stream 2. In version A this kernel needs the message, and waits for it. In version B it doesn't.

# %%
def small_step(second_needs_it, read_when, events):
    stream_1, stream_2 = ThreadPoolExecutor(1), ThreadPoolExecutor(1)  # each runs its work in order
    rank_is_done, begin = threading.Event(), time.perf_counter()
    threading.Timer(3 * WORK, rank_is_done.set).start()

    def timed(row, work, *args):
        start = time.perf_counter()
        work(*args)
        events.append((row, start - begin, time.perf_counter() - start))

    stream_1.submit(timed, "device", time.sleep, WORK)  # sleeping takes no core away from Python
    message = stream_1.submit(rank_is_done.wait)
    if read_when == "before":
        timed("Python blocked in the read", wait, [message])
    if second_needs_it:
        stream_2.submit(rank_is_done.wait)
    work = stream_2.submit(timed, "device", time.sleep, 1.5 * WORK)
    if read_when == "after":
        timed("Python blocked in the read", wait, [message])
    wait([work, message])  # the end of the step
    return time.perf_counter() - begin


# %%
LOOPS = {"A, needs the message": True, "B, doesn't": False}
rows, idle_share = {}, {}
for name, needs_it in LOOPS.items():
    events = []
    seconds = small_step(needs_it, "before", events)
    for row in ("Python blocked in the read", "device"):
        rows[f"{row}: {name[0]}"] = [(at, took) for what, at, took in events if what == row]
    device_busy = busy([{"ts": at, "dur": took} for what, at, took in events if what == "device"], 0, seconds)
    idle_share[name] = 100 * (1 - device_busy / seconds)
figures.device_rows(rows, seconds, title="One step of each version: when Python is blocked, and when a kernel runs")

# %% [markdown]
# In both versions Python is blocked, and the device is idle over the same stretch.
#
# **Predict.** Move the read behind the launch of the second kernel. By what percentage does the step get shorter in each version?

# %%
saved_needs = None  # @param {type:"slider", min:0, max:100, step:5}
saved_free = None  # @param {type:"slider", min:0, max:100, step:5}

# %%
guesses, saves = dict(zip(LOOPS, (saved_needs, saved_free))), {}
for name, needs_it in LOOPS.items():
    took = {when: min(small_step(needs_it, when, []) for _ in range(3)) for when in ("before", "after")}
    saves[name] = 100 * (1 - took["after"] / took["before"])
    print(f"{name:>20}: {1e3 * took['before']:.0f} ms, read after the launch {1e3 * took['after']:.0f} ms: {round(saves[name])}% saved{guessed(guesses[name], '%')}")

# %%
# @title Check these claims on your machine { display-mode: "form" }
with_message, without = LOOPS
holds(abs(idle_share[with_message] - idle_share[without]), 0, 5, "Both versions are idle for as long.", fast=FAST)
holds(saves[without], 25, 40, "A kernel that doesn't need the message fills the gap.", fast=FAST)
holds(saves[with_message], -5, 5, "A kernel that needs the message can't run sooner.", fast=FAST)

# %% [markdown]
# The pictures are alike, and the answers differ, because a picture doesn't show what needs what.

# %% [markdown] tags=["minutes-6"]
# ## The job on an H100
#
# Your own program, unlike Meta's, you can change. Here is the training run from lesson 01. We recorded three of its steps on an H100, and the lines above read the trace.

# %%
h100 = read(traces.OURS)
h100_idle, h100_ms = idle(h100)
longest = sorted(h100["calls"], key=lambda e: -e["dur"])[0]
record = json.loads((traces.OURS.parent / "nvidia-h100.json").read_text())["steps"]
step_ms = {name: 1e3 * found["seconds_waiting_each_step"] for name, found in record.items()}
busy_ms = (1 - h100_idle / 100) * h100_ms / 3
print(f"a step of {h100_ms / 3:.0f} ms, in which the GPU is busy for {busy_ms:.1f}; without the profiler it takes {step_ms['as written']:.1f} ms, {1 - busy_ms / step_ms['as written']:.0%} of them idle")
print(f"{len(h100['gpu']) // 3} kernels and copies per step; the longest CUDA call takes {longest['dur']:.0f} µs ({longest['name']})")

# %%
# @title Draw one of its steps { display-mode: "form" }
figures.device_rows(*rows_of(h100, h100["steps"][1]), title="One training step on an H100")

# %% [markdown]
# The GPU is idle at the start of the step, while the CPU samples the batch from the text, and again toward the end, around the optimizer. In between, the kernels run nearly back to back, and most of that time goes to matmuls, which an H100 does many times faster in bf16 than in float32.
#
# **Predict.** By what percentage did bf16 shorten the step? (Less than 0 if it took longer.)

# %%
bf16_shortens = None  # @param {type:"number"}

# %%
changes = {
    "as written, in float32": "as written", "autocast to bf16": "bf16", "and a fused AdamW": "bf16 fused",
    "and torch.compile": "bf16 fused compile", "and the text on the GPU": "bf16 fused compile text on GPU",
}
for name, key in changes.items():  # timed without the profiler, the loss read in every step, as in the trace
    print(f"{name:>24}: {step_ms[key]:4.1f} ms per step")
shortened = 100 * (1 - step_ms["bf16"] / step_ms["as written"])
print(f"bf16 alone: {abs(shortened):.0f}% {'shorter' if shortened > 0 else 'longer'}{guessed(bf16_shortens, '%')}")

# %% [markdown]
# This time the trace could have told you. No CUDA call took long, so the CPU never waited for the GPU, and yet the GPU was idle in every step: it was the GPU that waited for the CPU. A step like that is *launch-bound*, at least in parts. If its kernels were faster, the GPU would only wait longer for the next one, and autocast even adds launches of its own. A fused AdamW changed nothing to speak of. `torch.compile`, which fuses kernels and takes Python out of the way, did, and so did having the text where the model is.
#
# Ask, therefore, who waits for whom before you make anything faster. On a T4, whose matmuls take many times as long, Python would wait, and 16 bits (fp16, since a T4 has no bf16) would come first.

# %% [markdown] tags=["minutes-6"]
# ## Your own step
#
# Meta's copy could be found because the program's parts had names, such as `sparse_data_dist`. `record_function` gives a part its name, in one line. The profiler also needs a *schedule*: ours skips one step, warms up for one, and records two. At full size a CPU core would spend nearly all its time in matmuls and hide everything else, so the steps below use a small model, with 32 characters per sequence.

# %%
if sys.platform == "linux":  # reuse freed memory, as CUDA's caching allocator does, instead of returning it
    [ctypes.CDLL(None).mallopt(option, 2**30) for option in (-1, -3)]
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
    with profile(schedule=schedule(wait=1, warmup=1, active=2), acc_events=True, **options) as found:
        for _ in range(4):
            step()
            benchmark.synchronize()
            found.step()
    return found


def show(found, rows=10):
    print(found.key_averages().table(sort_by="self_cpu_time_total", row_limit=rows, max_name_column_width=32))


healthy = training_step()
show(profiled(healthy))

# %% [markdown]
# *Self* time excludes the time spent in operators that an operator calls, so self times add up to the whole (on a GPU, thread by thread). *Total* times don't, since they count nested calls more than once. `mm`, `addmm` and `bmm` are matmuls. On a GPU, the CPU time of `## backward` is the time Python took to *launch* the work, plus any waiting. It isn't the time the GPU took to do it.
#
# With `with_stack=True` the profiler also records the call stack of each operator, at a price in time. `found.export_chrome_trace("step.json.gz")` writes a file like Meta's, which `read` can open, and so can [ui.perfetto.dev](https://ui.perfetto.dev).

# %% [markdown] tags=["minutes-6"]
# ## Six slow steps and their profiles
#
# We slowed the same step down six times. Leave the folded cell closed, and name each cause from its profile. Two of the six share a cause, and some of the choices fit none of them.
#
# Three questions help. Is an operator called far more often than in the healthy profile? Does a range take time that its operators don't account for? Is much of the time spent in operators other than matmuls?

# %%
# @title The six slowed-down steps: don't open this yet { display-mode: "form" }
def confusion(logits, targets):
    best = logits.flatten(0, 1).topk(3).indices
    for guesses, target in zip(best, targets.flatten()):
        pairs.append((target.item(), *(guess.item() for guess in guesses)))


def keep_logits(logits, targets):  # each step copies those of all the steps before
    kept[0] = torch.cat([kept[0][-len(kept[0]) + logits.numel() // 96 :], logits.flatten(0, 1)])


def read_file_again():
    global text
    text = shakespeare.load()
    return draw_batch()


def sequence_by_sequence(model):
    whole = model.forward
    model.forward = lambda ids: torch.cat([whole(row[None]) for row in ids])


# %%
# @title The last of them, and their names: don't open this either { display-mode: "form" }
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


pairs, kept = [], [torch.zeros(KEPT * 32 * 32, 96, device=device)]
written_out = models.GPTConfig(n_layer=2, n_head=4, n_embd=64, block_size=32, fused_layers=False, fused_attention=False)
slowed = [
    training_step(change=sequence_by_sequence), training_step(after=confusion), training_step(written_out),
    training_step(data=read_file_again), training_step(change=head_by_head), training_step(after=keep_logits),
]
CAUSES = {
    "many small calls instead of one": (0, 4), "values read one by one": (1,), "a chain of operators that one can replace": (2,),
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
first = None  # @param ["shapes that make torch.compile start over", "a result that is copied in every step", "values read one by one", "an optimizer that visits one tensor at a time", "data prepared again in every step", "many small calls instead of one", "copies between host and device", "a chain of operators that one can replace"]
second = None  # @param ["shapes that make torch.compile start over", "a result that is copied in every step", "values read one by one", "an optimizer that visits one tensor at a time", "data prepared again in every step", "many small calls instead of one", "copies between host and device", "a chain of operators that one can replace"]
third = None  # @param ["shapes that make torch.compile start over", "a result that is copied in every step", "values read one by one", "an optimizer that visits one tensor at a time", "data prepared again in every step", "many small calls instead of one", "copies between host and device", "a chain of operators that one can replace"]
fourth = None  # @param ["shapes that make torch.compile start over", "a result that is copied in every step", "values read one by one", "an optimizer that visits one tensor at a time", "data prepared again in every step", "many small calls instead of one", "copies between host and device", "a chain of operators that one can replace"]
fifth = None  # @param ["shapes that make torch.compile start over", "a result that is copied in every step", "values read one by one", "an optimizer that visits one tensor at a time", "data prepared again in every step", "many small calls instead of one", "copies between host and device", "a chain of operators that one can replace"]
sixth = None  # @param ["shapes that make torch.compile start over", "a result that is copied in every step", "values read one by one", "an optimizer that visits one tensor at a time", "data prepared again in every step", "many small calls instead of one", "copies between host and device", "a chain of operators that one can replace"]

# %%
times = benchmark.compare({"healthy": healthy} | {str(place): step for place, step in enumerate(slowed)}, budget=SECONDS)
slower = [benchmark.speedup(times[str(place)], times["healthy"]) for place in range(6)]
on_h100 = scoreboard.job_record("nvidia-h100")["slow_steps"]["times"]  # of the first five
named = (first, second, third, fourth, fifth, sixth)
for place, guess in enumerate(named):
    there = f" ({on_h100[place]}× on an H100, our run)" if place < len(on_h100) else ""
    print(f"{place + 1}: {cause_of[place]}{guessed(guess)}; {slower[place]} the time of the healthy step{there}")
right = sum(guess == cause_of[place] for place, guess in enumerate(named))
print(f"You got {right} of six right." if any(named) else "")

# %%
# @title Check these claims on your machine { display-mode: "form" }
holds(min(one.value for one in slower), 1.15, math.inf, "Each of the six takes clearly longer than the healthy step.", fast=FAST)
if device.type == "cpu":
    holds(min(there / one.value for there, one in zip(on_h100, slower)), 1, math.inf, "The first five lose more on an H100.", fast=FAST)

# %% [markdown]
# Don't expect the tables and these factors to agree: the profiler costs time per call, so steps with many small calls look even slower in it, and each table has seen only two steps. On an H100 the first five lost more than on a CPU: every small call costs a launch there, and every value read costs a wait. The fixes, in the same order:
#
# 1. Give the model all sequences at once.
# 2. Keep the values in tensors, and read them once, with `tolist()`.
# 3. Use PyTorch's fused functions, or `torch.compile`.
# 4. Load before the loop.
# 5. Compute attention for all sequences and heads in one call.
# 6. Append to a list, and concatenate once, when you need the result.

# %% [markdown] tags=["minutes-4", "short-0"]
# ## Busy isn't the same as useful
#
# The second file comes from two V100s, which train a recommendation model as well.

# %%
# needs: v100_trace
v100 = read(paths["v100_trace"])
v100_idle, v100_ms = idle(v100)
device_copies = [e for e in v100["gpu"] if e["name"] == "Memcpy DtoD (Device -> Device)"]
steps = v100["steps"]
copy_ms = busy(device_copies, steps[0]["ts"], steps[-1]["ts"] + steps[-1]["dur"]) / 1e3
print(f"idle for {v100_idle:.0f}% of {v100_ms:.0f} ms; {len(device_copies):,} device-to-device copies take {copy_ms:.0f} ms")

# %% [markdown]
# One-eighth of its time goes to copying tensors from one place in its own memory to another. Nothing in `nvidia-smi` would tell you, because its utilization says only in how much of the time some kernel was running. Low utilization means that the GPU waits. High utilization means nothing until you've seen what runs.
#
# Look in this order:
#
# ```
# Is the GPU idle?  (the device rows of a trace)
# ├─ yes: what is Python doing meanwhile?
# │       ├─ launching, call after call     batch the calls; torch.compile; CUDA graphs
# │       ├─ preparing data                 move it before the loop, into workers, or onto the GPU
# │       └─ blocked in a copy or a read    find what it waits for; launch first, and read later
# └─ no:  which kernels take the time?
#         ├─ NCCL                           larger buckets, a faster link (lesson 11)
#         ├─ many that aren't matmuls       fused functions, torch.compile
#         ├─ copies                         keep tensors where they are; don't grow a result
#         └─ matmuls                        16 bits (lesson 07), then a faster chip (lesson 08)
# ```
#
# `torch.compile` appears twice. To see what it does, take a GELU written as eight operators:

# %%
def written_gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


x = torch.randn(2**22, device=device)
try:
    compiled = torch.compile(written_gelu)
    compiled(x)
except Exception as error:  # no C++ compiler, or no Triton
    print(f"no compiler here ({type(error).__name__})")
    compiled = written_gelu
both = benchmark.compare({"eight operators": lambda: written_gelu(x), "compiled": lambda: compiled(x)}, budget=SECONDS)
merged = benchmark.speedup(both["eight operators"], both["compiled"])
print("not compiled" if compiled is written_gelu else f"compiled into one fused loop, it runs at {merged} the speed")

# %% [markdown]
# On a GPU, `torch.compile(model, mode="reduce-overhead")` also records the launches of the forward and of the backward pass as *CUDA graphs*, which the GPU then replays without Python. A graph needs the same shapes in every step.

# %% [markdown] tags=["minutes-7", "short-6"]
# ## Exercises
#
# ### 1 · The longest gap
#
# Write `longest_gap(spans, start, end)`, which returns the start and the length of the longest stretch between `start` and `end` in which none of the `spans` is running. A span is a (start, duration) pair. Spans may overlap, and they come in no particular order.

# %% tags=["exercise"]
def longest_gap(spans, start, end):  # returns (start of the gap, its length)
    return ...


### BEGIN SOLUTION
def longest_gap(spans, start, end):
    best, until = (start, 0), start
    for begin, length in [*sorted(spans), (end, 0)]:
        if min(begin, end) - until > best[1]:
            best = until, min(begin, end) - until
        until = max(until, begin + length)  # a span may end before one that began earlier
    return best


### END SOLUTION
exercises.check("10.gap", longest_gap)

# %% [markdown]
# ### 2 · How much is there to gain?
#
# In each step, loading takes 60 ms, and training then takes 40. How many milliseconds does a step take (a) if loading becomes four times as fast; (b) once loading, as slow as before, runs in its own process, in parallel with training?

# %% tags=["exercise"]
milliseconds = {"four times as fast": ..., "in parallel": ...}
### BEGIN SOLUTION
milliseconds = {"four times as fast": 40 + 60 / 4, "in parallel": 60}  # in parallel, the slower one sets the time
### END SOLUTION
exercises.check("10.gain", milliseconds)

# %% [markdown]
# ### 3 · Fewer calls
#
# `sums` adds up each column of a matrix, one at a time. Write `quick`, which returns the same numbers with at most five operator calls. The check counts the calls.

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
# Open task: put one step of your own training loop into `mine`, and profile it. Which operator has the most self time on the CPU?

# %% tags=["exercise"]
def mine():
    healthy()


most_self_time = ...  # a name from the table, such as "aten::mm"
### BEGIN SOLUTION
most_self_time = max((e for e in profiled(mine).key_averages() if e.key.startswith("aten::")), key=lambda e: e.self_cpu_time_total).key
### END SOLUTION
exercises.check("10.mine", most_self_time, events=lambda: profiled(mine).key_averages())

# %% [markdown] tags=["minutes-1"]
# ## The scoreboard

# %%
scoreboard.show("10")

# %%
needed, free = saves.values()
takeaways = {
    "A trace doesn't show what needs what": f"of two reads that looked alike, moving one behind the next launch saved {round(free)}% of a step, and moving the other {round(needed)}%.",
    "Ask first who waits for whom": f"on an H100 bf16 alone took a step from {step_ms['as written']:.1f} ms to {step_ms['bf16']:.1f}; with a fused AdamW and torch.compile it took {step_ms['bf16 fused compile']:.1f}.",
    "Give each call more work": f"calling the model once per sequence made a step take {slower[0]} the time, and reading values one by one {slower[1]}.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess, inventory = reference.Value, reference.Prediction, hardware.list_devices()
with_trace = "a100_idle" in globals()
predicted = {
    "percent_idle": guess(percent_idle, a100_idle if with_trace else None, "%"),
    "item_ms": guess(item_ms, of_items if with_trace else None, "ms"),
    "saved_needs": guess(saved_needs, saves[with_message], "%"),
    "saved_free": guess(saved_free, saves[without], "%"),
    "bf16_shortens": guess(bf16_shortens, shortened, "%"),
    "first": guess(first, cause_of[0]), "second": guess(second, cause_of[1]), "third": guess(third, cause_of[2]),
    "fourth": guess(fourth, cause_of[3]), "fifth": guess(fifth, cause_of[4]), "sixth": guess(sixth, cause_of[5]),
}
reference.record(
    "10_profile", FAST, device=inventory.main if gpu_here else inventory.cpu, predicted=predicted,
    saved_free=value(saves[without], "%", "of a step saved by reading later, where the second kernel needs no message"),
    saved_needs=value(saves[with_message], "%", "the same, where it needs the message"),
    **({"copies": value(100 * copy_ms / v100_ms, "%", "of a V100's time goes to copies within its memory")} if "copy_ms" in globals() else {}),
    merged=value(merged.value, "×", "speed of a GELU of eight operators, compiled"),
    **{f"slower_{place + 1}": value(one.value, "×", f"time of a step with {cause_of[place]} ({place + 1})") for place, one in enumerate(slower)},
)

# %% [markdown] tags=["minutes-0"]
# ## Keep this, and what comes next
#
# ```python
# from torch.profiler import profile, record_function, schedule
#
# with profile(schedule=schedule(wait=1, warmup=1, active=2)) as prof:
#     for batch in loader:
#         with record_function("## forward"):  # name the parts of your step
#             loss = loss_of(model, batch)
#         ...
#         prof.step()
#         if prof.step_num == 4:
#             break
# print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))  # on a GPU: self_device_time_total
# prof.export_chrome_trace("step.json.gz")  # open it at ui.perfetto.dev, or with this lesson's read()
# ```
#
# **An open task.** Profile a training loop of your own. Before you change a line, write down what you think it waits for, what you'd change to find out, and by how many milliseconds that should shorten the step.
#
# Lesson 11 asks why two GPUs aren't twice as fast as one.
