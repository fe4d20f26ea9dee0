# %%
# @title Imports { display-mode: "form" }
import copy
import hashlib
import inspect
import math
import os
import pickle
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from colab_helpers import benchmark, checkpoints, platform_facts, hardware

from colab_lessons import exercises, figures, measurements
from colab_lessons.predictions import your_prediction  # adds what you predicted to a title

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
STEPS = None
RESUMED = None
SEEDS = None
MEGABYTES = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
STEPS = STEPS or (56 if FAST else 112)  # of the training run; an epoch has 28
RESUMED = RESUMED or 42  # the step from which it is resumed with something missing: in the middle of an epoch
SEEDS = SEEDS or (2 if FAST else 15)  # runs with different random numbers
MEGABYTES = MEGABYTES or (50 if FAST else 200)  # of a large checkpoint

# %% [markdown] tags=["minutes-13", "short-12"]
# ## A run worth saving
#
# This small training has everything a large one has. Dropout draws random numbers. AdamW keeps two moments per weight. The learning rate follows a
# schedule. fp16 needs a loss scaler, as in lesson 07. NumPy adds noise to the pictures. All of it changes from step to step, and later you'll
# forget each of them once.

# %%
def fresh():
    torch.manual_seed(0)
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
    hidden = nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 256), nn.ReLU(), nn.Dropout(0.2)
    model = nn.Sequential(*hidden, nn.Linear(256, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    return {
        "model": model,
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.OneCycleLR(optimizer, 8e-3, total_steps=STEPS + 1),
        "scaler": torch.amp.GradScaler(device.type),
        "noise": np.random.default_rng(0),
    }


# %% [markdown]
# And which pictures does step 57 see? A shuffling loader draws their order from a generator, and its workers have already fetched batches that the
# model hasn't seen. Its place is hard to save. So compute the order from the step. What you can compute, you can't lose.

# %%
pixels, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))


def rows_of(step, size=64):
    epoch, place = divmod(step, len(pixels) // size)
    order = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(epoch))
    return order[place * size : (place + 1) * size]


# %%
def take_step(step, now):
    device = next(now["model"].parameters()).device
    rows = rows_of(step)
    noisy = 16 * pixels[rows] + torch.from_numpy(now["noise"].normal(0, 48, (len(rows), 64)))
    with torch.autocast(device.type, dtype=torch.float16):
        guesses = now["model"](noisy.float().to(device))
    loss = F.cross_entropy(guesses.float(), labels[rows].to(device))
    now["scaler"].scale(loss).backward()
    scale = now["scaler"].get_scale()
    now["scaler"].step(now["optimizer"])
    now["scaler"].update()
    if now["scaler"].get_scale() >= scale:  # a skipped step doesn't count for the schedule
        now["scheduler"].step()
    now["optimizer"].zero_grad()
    return loss.item()


# %% [markdown]
# ### Save everything that changes
#
# Most things in PyTorch have a `state_dict`. Random generators have a state, too.

# %%
WITH_STATE = "model", "optimizer", "scheduler", "scaler"


def state_of(now):
    state = {name: now[name].state_dict() for name in WITH_STATE}
    state["noise"] = now["noise"].bit_generator.state
    state["random"] = torch.get_rng_state()  # dropout on a CPU draws from it
    if torch.cuda.is_available():
        state["random on GPU"] = torch.cuda.get_rng_state_all()
    return state


# %%
def restore(now, state, forget=()):
    for name in WITH_STATE:
        if name not in forget:
            now[name].load_state_dict(state[name])
    if "noise" not in forget:
        now["noise"].bit_generator.state = state["noise"]
    if "random" not in forget:
        torch.set_rng_state(state["random"])
        if torch.cuda.is_available() and "random on GPU" in state:
            torch.cuda.set_rng_state_all(state["random on GPU"])


# %% [markdown]
# Now write it to a disk, and read it again. These two functions are more careful than most, and you'll see why.

# %%
def digest_of(path):
    with path.open("rb") as file:  # in pieces: a checkpoint may be larger than the memory
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def save(folder, step, state):
    part = folder / "unfinished"
    with part.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())  # onto the disk; its name follows when the folder is written
    part.replace(folder / f"{step:06d}-{digest_of(part)}.pt")  # a name only for what is whole
    for old in sorted(folder.glob("*.pt"), key=os.path.getmtime)[:-2]:
        old.unlink()


# %%
def newest(folder):
    for path in sorted(folder.glob("*.pt"), reverse=True):
        step, digest = path.stem.split("-")
        if digest_of(path) == digest:
            return int(step), torch.load(path, map_location="cpu", weights_only=True)
        print(f"{path.name} is damaged, so take the one before it")
    return 0, None


# %% [markdown]
# The program starts from the newest checkpoint, and from the beginning if there is none. It saves every ten steps. `use_deterministic_algorithms`
# lets PyTorch use only algorithms that give the same result every time. That can cost speed, and it raises an error where there is none.

# %%
# runs in a process of its own
def main(folder):
    torch.use_deterministic_algorithms(True)
    now = fresh()
    begin, state = newest(folder)
    if state:
        restore(now, state)
    for step in range(begin, STEPS):
        print(step, take_step(step, now), flush=True)
        if (step + 1) % 10 == 0:
            save(folder, step + 1, state_of(now))
    torch.save(state_of(now), folder / "end")


# %% [markdown] tags=["minutes-6"]
# ## Kill it
#
# You're going to kill this program and keep your notebook, so it runs in a process of its own. A folded cell writes the functions above into a
# file, word for word.
#
# `process.kill()` sends SIGKILL, which no program can catch: no `except` and no `finally` runs. Don't count on Colab being any kinder.

# %%
# @title The file job.py, from the cells above { display-mode: "form" }
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # PyTorch before 2.10 refuses deterministic products on a GPU without it
work = Path(tempfile.mkdtemp())
job = work / "job.py"
HEAD = f"""
import hashlib, os, sys
from pathlib import Path
import numpy as np, torch
from torch import nn
from torch.nn import functional as F

STEPS, WITH_STATE = {STEPS}, {WITH_STATE}
pixels, labels = torch.load({str(work / "digits.pt")!r})
"""
torch.save((pixels, labels), work / "digits.pt")
parts = fresh, rows_of, take_step, state_of, restore, digest_of, save, newest, main
functions = "\n\n".join(inspect.getsource(each) for each in parts)
job.write_text(f"{HEAD}\n{functions}\nmain(Path(sys.argv[1]))\n")
print(f"{len(job.read_text().splitlines())} lines in {job}")

# %%
def live(name, kill_at=None):
    folder, losses = work / name, {}
    folder.mkdir(exist_ok=True)
    with subprocess.Popen([sys.executable, str(job), str(folder)], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            step, loss = line.split()
            losses[int(step)] = float(loss)
            if int(step) == kill_at:
                process.kill()
    assert kill_at or process.returncode == 0, "The run failed: read what it wrote above."
    return losses


# %% [markdown]
# One run is left alone. The other is killed at a random step between two saves, and then started again by the same command.
#
# **Predict.** Of all the losses that the killed run prints in both of its lives, how many differ from those of the run that was left alone?

# %%
will_differ = None  # @param {type:"integer"}

# %%
victim = random.SystemRandom().choice([step for step in range(STEPS // 3, STEPS - 5) if step % 10 in (4, 5, 6)])
with ThreadPoolExecutor() as pool:  # both at once
    left_alone = pool.submit(live, "uninterrupted")
    first_life = live("killed", kill_at=victim)
    second_life = live("killed")
uninterrupted = left_alone.result()
resumed_at = min(second_life)

# %%
# @title Draw both runs { display-mode: "form" }
differ = sum(loss != uninterrupted[step] for life in (first_life, second_life) for step, loss in life.items())
figures.killed_run(
    uninterrupted, {"first life": first_life, "second life": second_life},
    title=f"Killed at step {victim}, resumed at {resumed_at}: {differ} losses differ{your_prediction(will_differ)}",
)

# %% [markdown]
# The steps after the last save were lost, so the second life took them again: same pictures, same noise, same dropout. And the weights at the end?

# %%
one, other = (torch.load(work / name / "end")["model"] for name in ("uninterrupted", "killed"))
weights_differ = sum(int((one[name] != other[name]).sum()) for name in one)
f"{weights_differ} of {sum(weight.numel() for weight in one.values()):,} weights differ"

# %% [markdown]
# Nothing in the results shows that it ever died. That holds for the same kind of chip, the same versions and, on a CPU, as many threads. Elsewhere
# sums are rounded in a different order, kill or no kill.

# %% [markdown] tags=["minutes-8"]
# ## What if you forget something?
#
# Many tutorials save `model.state_dict()` and nothing else. How bad is that?
#
# Resume from step 42 with one piece missing, train to the end, and look at the final loss. "noise" is NumPy's generator and "random" is PyTorch's.
# "position" forgets where the data were and begins with the first pictures again.
#
# **Predict.** Which single piece hurts most?

# %%
worst_to_forget = None  # @param ["optimizer", "scheduler", "scaler", "noise", "random", "position"]

# %%
def score(now):  # loss on all pictures, without noise and dropout
    device = next(now["model"].parameters()).device
    now["model"].eval()
    with torch.no_grad():
        loss = F.cross_entropy(now["model"](16 * pixels.float().to(device)), labels.to(device))
    now["model"].train()
    return loss.item()


# %%
def train(now, begin, lag=0):  # lag: how many steps the data are behind
    scores = []
    for step in range(begin, STEPS):
        take_step(step - lag, now)
        scores.append(score(now))
    return scores


# %%
now = fresh()
for step in range(RESUMED):
    take_step(step, now)
before = score(now)
kept = copy.deepcopy(state_of(now))  # a copy: the state goes on changing
whole = train(now, RESUMED)

# %%
def resume_without(*forget):
    now = fresh()
    restore(now, copy.deepcopy(kept), forget)
    return train(now, RESUMED, lag=RESUMED if "position" in forget else 0)


pieces = "optimizer", "scheduler", "scaler", "noise", "random", "position"
forgotten = {piece: resume_without(piece) for piece in pieces}
forgotten |= {"nothing": resume_without(), "all but the model": resume_without(*pieces)}

# %% [markdown]
# Training runs differ by luck alone, so the next cell adds 15 that forget nothing and draw different random numbers.

# %%
# @title Run them, and draw the final losses { display-mode: "form" }
def resume_with_luck(seed):
    now = fresh()
    restore(now, copy.deepcopy(kept))
    torch.manual_seed(seed)
    now["noise"] = np.random.default_rng(seed)
    return train(now, RESUMED)


luck = [whole[-1], *(resume_with_luck(seed)[-1] for seed in range(1, SEEDS + 1))]
final = {piece: scores[-1] for piece, scores in forgotten.items()}
ordered = dict(sorted(final.items(), key=lambda entry: entry[1]))
worst = max(pieces, key=final.get)
outside = [piece for piece in pieces if not min(luck) <= final[piece] <= max(luck)]
figures.bars(
    ordered, unit="", log=True, claims={f"{len(luck)} runs that forgot nothing": (min(luck), max(luck))},
    title=f"Final loss with something forgotten. Of single pieces, the {worst} hurts most{your_prediction(worst_to_forget)}",
)

# %%
differ_after = sum(a != b for a, b in zip(forgotten["nothing"], whole))
print(f"With only the model, the loss goes from {before:.2f} at the resume to {final['all but the model']:.2f} at the end.")
print(f"Outside luck: {', '.join(outside) or 'none'}. With nothing forgotten, {differ_after} of {len(whole)} scores differ.")

# %% [markdown]
# Resumed from the model alone, seventy steps of training gained next to nothing.
#
# Without its moments AdamW behaves as if it had never seen a gradient, and takes large steps at full learning rate. We chose the moment so that it
# hurts: the schedule is near its peak. A forgotten schedule warms up again, and at the end its rate is still high when it should be almost zero.
# With both forgotten, fresh moments meet a schedule that starts over and is cut off at a high rate, which costs far more than either alone. How
# much is a property of this schedule.
#
# Pieces inside the range of luck can't be told from it by the final loss. For "noise" and "random" that's no surprise, because they *are* luck.
# Each was left out once, so their order among each other means nothing. The final loss won't warn you about any of them, and yet it's no longer the
# run you could repeat.

# %% [markdown] tags=["minutes-4", "short-0"]
# ## Killed while writing
#
# A step takes milliseconds, and a checkpoint can take seconds. So the machine may well go while the file is being written. Most notebooks save
# under the same name over and over.

# %%
# runs in a process of its own
def save_over(path, weights):
    torch.save(weights, path)  # WRONG: one file, overwritten each time


def save_beside(path, weights):
    torch.save(weights, path.with_suffix(".part"))
    path.with_suffix(".part").replace(path)  # RIGHT: a second file, then its name


# %%
# @title Start a process that keeps saving, and kill it in the middle { display-mode: "form" }
def kill_in_the_middle(way, folder):
    folder.mkdir()
    source = f"""
import sys, torch
from pathlib import Path
{inspect.getsource(way)}
weights = {{str(i): torch.rand(2**18) for i in range({MEGABYTES})}}  # 1 MiB each
while True:
    {way.__name__}(Path(sys.argv[1]), weights)
    print("saved", flush=True)
"""
    command = [sys.executable, "-c", source, str(folder / "model.pt")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()  # the first one is complete
        full, sizes = MEGABYTES * 2**20, [0]
        while process.poll() is None and not any(full / 10 < size < full for size in sizes):
            sizes = [path.stat().st_size for path in folder.iterdir() if path.exists()]
        process.kill()


def can_be_loaded(path):
    try:
        torch.load(path)
    except (RuntimeError, EOFError, OSError, pickle.UnpicklingError) as error:
        print(f"{path.name}, {path.stat().st_size / 2**20:.0f} MiB: {str(error)[:80]} …")
        return False
    return True


# %% [markdown]
# One complete checkpoint exists, and the process dies while it writes the next.
#
# **Predict.** It wrote over its only checkpoint. What is left?

# %%
left = None  # @param ["the old one", "the new one", "both", "neither"]

# %%
kill_in_the_middle(save_over, work / "over")
kill_in_the_middle(save_beside, work / "beside")
usable_after_over, usable_after_beside = (int(can_be_loaded(work / name / "model.pt")) for name in ("over", "beside"))
print(f"overwritten: {'one' if usable_after_over else 'neither'} can be loaded{your_prediction(left)}")
print(f"a second file, then a rename: {'one' if usable_after_beside else 'neither'} can be loaded")

# %% [markdown]
# Opening a file for writing empties it. From that moment until the write ends, you have no checkpoint at all. A rename is different. On one disk
# the name leads either to the complete old file or to the complete new one, whenever the program dies.

# %% [markdown] tags=["minutes-5", "short-0"]
# ## One flipped bit
#
# A loader notices half a file. Does it notice one wrong bit, the kind a bad disk or a bad copy makes?
#
# **Predict.** One bit of one weight is flipped. What does `torch.load` do?

# %%
what_load_does = None  # @param ["raises an error", "warns", "loads it and says nothing"]

# %%
# @title Flip one bit in a file { display-mode: "form" }
def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    place = content.find(np.full(9, 0.5, "float32").tobytes())  # where the weights begin
    content[place + 7] ^= 0b01000000  # one bit of the second weight's exponent
    path.write_bytes(content)


# %%
bits = work / "bits"
bits.mkdir()
for step in 10, 20:
    save(bits, step, {"w": torch.full((1000,), 0.5)})
flipped = max(bits.glob("*.pt"))
flip_a_bit(flipped)
try:
    largest, did = torch.load(flipped)["w"].max().item(), "loads it and says nothing"
except RuntimeError:
    largest, did = 0.5, "raises an error"
print(f"torch.load {did}{your_prediction(what_load_does)}: the largest weight was 0.5, and is {largest:.2g}")
went_on_from, _ = newest(bits)
print(f"our function goes on from step {went_on_from}")

# %% [markdown]
# We chose a bit that hurts, and most of the 32 do less. But one weight like that ruins the model in a single step, and a smaller change would be
# worse, because no NaN gives it away. So `save` puts a hash into each file's name, and keeps the file before it.
#
# `weights_only=True`, the default of `torch.load`, has another reason. In a `.pt` file there's a pickle, and a pickle can run any code. Leave it on.

# %% [markdown] tags=["minutes-11"]
# ## Where to save
#
# The machine's disk dies with the machine. So checkpoints must go to Drive, in a way that suits Drive. Deleted files move to its bin, and there
# they still count. Watch what our `save` would do to it.

# %%
# @title A folder that notices what is deleted from it { display-mode: "form" }
class Bin:
    def __init__(self, folder):
        self.folder, self.links = folder, folder.with_name(f"{folder.name}-links")
        self.links.mkdir()
        self.found = 0

    def look(self):  # give each file a second name: if the first one goes, this one is left
        for path in self.folder.iterdir():
            if path.is_file() and path.stat().st_nlink == 1:
                os.link(path, self.links / str(self.found))
                self.found += 1

    @property
    def gone(self):
        return [path for path in self.links.iterdir() if path.stat().st_nlink == 1]


# %%
here, there = work / "this machine", work / "drive"
direct = work / "drive, directly"
direct.mkdir()
store = checkpoints.Store(there, local=here)
bins = {"our save": Bin(direct), "Store": Bin(there)}
for step in range(10, 310, 10):
    save(direct, step, state_of(now))
    checkpoints.save(store, step, {"model": now["model"], "optimizer": now["optimizer"]})
    store.wait()
    for each in bins.values():
        each.look()
for name, each in bins.items():
    print(f"{name:>8}: 30 checkpoints, {len(list(each.folder.iterdir()))} files in the folder, {len(each.gone)} deleted")

# %% [markdown]
# With 210 MB every three minutes, the bin would fill Drive's free 15 GB in three and a half hours, and then nothing could be saved at all.
#
# `checkpoints.Store` does what you should do, and there are four rules. Write to the machine's own disk first. Copy the newest to Drive in the
# background. Keep two files there and overwrite the older one, so that one is always complete. Delete nothing. If Drive drops out, the run goes on,
# and the next copy tries again.
#
# ```python
# from google.colab import drive
# drive.mount("/content/drive")
# state = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "scaler": scaler, "random": checkpoints.RandomState()}
# store = checkpoints.Store("/content/drive/MyDrive/my-run")  # refuses to start if Drive isn't mounted
# begin = checkpoints.resume(store, state).step  # 0 where nothing has been saved yet
# for step in range(begin, STEPS):
#     ...  # your training step, with data that follow from its number
#     if (step + 1) % 100 == 0:
#         checkpoints.save(store, step + 1, state)
# store.wait()
# drive.flush_and_unmount()
# ```
#
# The last line matters, because Drive has a cache of its own.

# %%
platform_facts.quote("drive-bin", "drive-cache")

# %% [markdown]
# We tried all of this on plain folders, not on a real Drive. Google says that old versions of an overwritten file don't count, unless you keep them
# forever.
#
# After a disconnect, reconnect with the same runtime type and choose *Run all*. The cell that mounts Drive comes first, and the training goes on
# where it was.
#
# ### How often?
#
# Saving costs time, and repeating what was lost costs time. The first you can measure.

# %%
heavy = {"model": torch.rand(2**18 * MEGABYTES)}  # MEGABYTES times 1 MiB
(work / "heavy").mkdir()
costs = []
for step in range(3):
    start = time.perf_counter()
    save(work / "heavy", step, heavy)
    benchmark.synchronize()  # a habit: the disk is what we wait for
    costs.append(time.perf_counter() - start)  # save() waits for the disk
cost = min(costs)
f"{cost:.2f} s for a checkpoint of {MEGABYTES} MiB"

# %% [markdown]
# The second depends on how long your sessions live. Colab publishes no average, so say four hours. If you save every $t$ seconds, you lose the
# share $\text{cost} / t$ to saving. A session ends in the middle of an interval on average, so you lose $t / 2$ of every four hours to repeating.
# The sum is least at $t = \sqrt{2 \cdot \text{cost} \cdot \text{four hours}}$, as John Young found in 1974.
#
# But a file may reach Drive ten minutes late. What's on its way when the session ends is lost, too.
#
# **Predict.** Add those ten minutes to the sum. Does its minimum say to save more often, less often, or as often as before?

# %%
with_lag = None  # @param ["more often", "less often", "as often as before"]

# %%
LIFE, LAG = 4 * 3600, 600  # seconds
best = math.sqrt(2 * cost * LIFE)
intervals = 60 * 2.0 ** np.arange(-2, 6)  # a quarter of a minute to half an hour
sessions = np.random.default_rng(0).exponential(LIFE, 20_000)  # they end at random


def lost(interval, lag):  # percent of the time, over all sessions
    arrived = np.maximum(sessions - lag, 0) // (interval + cost)
    return 100 * (1 - (arrived * interval).sum() / sessions.sum())


# %%
# @title Draw the valleys { display-mode: "form" }
DISK, DRIVE = "arrives at once", "arrives ten minutes late"
valleys = {DISK: 0, DRIVE: LAG}
simulated = {name: [lost(t, lag) for t in intervals] for name, lag in valleys.items()}
formula = {f"Young's formula{', and the lag' if lag else ''}": [100 * (cost / t + (t / 2 + lag) / LIFE) for t in intervals] for lag in valleys.values()}
print(f"Young: every {best / 60:.1f} minutes. Lost at best: {min(simulated[DISK]):.1f}%, with the lag {min(simulated[DRIVE]):.1f}%.")
figures.lines(
    intervals / 60, simulated, ideal=formula, doubling=True, xlabel="minutes from one checkpoint to the next", ylabel="time lost, %",
    title=f"The lag lifts the valley and leaves the minimum of Young's sum where it is{your_prediction(with_lag)}",
)


# %% [markdown]
# You lose the ten minutes either way, however often you save. So the valley rises and stays where it is. It's also shallow: from two minutes to
# eight, you lose less than one percent more.
#
# The formula isn't the whole answer, though, because Drive has a rule of its own. A file must not be overwritten before it has arrived. Two files
# alternate, so each stays untouched for twice the interval. With ten minutes of lag, copy every five minutes or more, even where the formula says
# less; the flat valley makes that cheap. And if the upload itself takes longer than that, wait until it's done. On the machine's own disk, save as
# often as you like, which helps when only the program dies.
#
# You don't have to write this yourself. Here's what the libraries keep, and what they leave to you.
#
# | library | keeps | leaves to you |
# |---|---|---|
# | Lightning, `ModelCheckpoint` | model, optimizers, schedules, scaler, counters | random generators; the position in the data, unless the loader is stateful |
# | Accelerate, `save_state` | what you prepared or registered, and the usual random generators | the position in the data, unless the loader is stateful |
# | Transformers, `Trainer` | model, optimizer, schedule, scaler, random generators; skips the batches it has seen | space: it keeps all folders, or deletes old ones into Drive's bin |
# | `torchdata`, `StatefulDataLoader` | the position in the data, workers included | everything else |
# | Orbax, for JAX | the tree that you give it | random keys, if they aren't in the tree |
# | Keras, `BackupAndRestore` | model, optimizer, the epoch | seeds of dropout; the order of the data |

# %% [markdown] tags=["minutes-7"]
# ## Exercises
#
# ### 1 · What was forgotten?
#
# Here are three of the runs above, in numbers: the loss after each of the first eight steps. Which piece was forgotten in each? Choose from
# `"optimizer"`, `"scheduler"`, `"scaler"`, `"noise"`, `"random"`, `"position"`.

# %%
# @title Print the three { display-mode: "form" }
for letter, place in zip("ABC", (0, 2, 1)):
    print(letter, *(f"{score:.3f}" for score in forgotten[pieces[place]][:8]))
print("with nothing forgotten", *(f"{score:.3f}" for score in whole[:8]))
print(f"at the resume {before:.3f}")

# %% tags=["exercise"]
missing = {"A": ..., "B": ..., "C": ...}
### BEGIN SOLUTION
missing = {
    "A": "optimizer",  # it jumps, as soon as the full learning rate meets moments of hardly anything
    "B": "scaler",  # it stands still: the weights don't change while the scale is being halved
    "C": "scheduler",  # it hardly moves: from the second step on the learning rate starts over
}
### END SOLUTION
exercises.check("09.missing", missing)

# %% [markdown]
# ### 2 · How often, on Drive?
#
# A checkpoint of 4 GB stops your training for 40 seconds, and its upload to Drive takes 12 minutes. One upload must be done before the next begins.
# Your sessions live one hour on average. Every how many seconds should you copy?

# %% tags=["exercise"]
seconds = ...
### BEGIN SOLUTION
seconds = max((2 * 40 * 3600) ** 0.5, 12 * 60)  # Young says 9 minutes, but an upload takes 12
### END SOLUTION
exercises.check("09.interval", seconds)

# %% [markdown]
# ### 3 · Open task, make it resume
#
# This run trains a line, keeps a moving average of its weights, and remembers its best loss.

# %%
class Run:
    def __init__(self):
        self.model, self.average = nn.Linear(8, 1), nn.Linear(8, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.05, momentum=0.9)
        self.generator = torch.Generator().manual_seed(0)
        self.best = math.inf

    def step(self):
        x = torch.rand(16, 8, generator=self.generator)
        loss = (self.model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        for kept, new in zip(self.average.parameters(), self.model.parameters()):
            kept.data.lerp_(new.data, 0.1)
        self.best = min(self.best, loss.item())


# %% [markdown]
# Write `keep(run)`. It returns a dict from the name of an attribute to its state, for everything that a step changes. The check keeps the state,
# lets the run go on, puts the state into a fresh `Run`, and compares both to the last bit. It uses `load_state_dict`, `set_state` for a generator,
# and assignment for a number.

# %% tags=["exercise"]
def keep(run):
    return ...


### BEGIN SOLUTION
def keep(run):
    state = {name: getattr(run, name).state_dict() for name in ("model", "average", "optimizer")}
    state |= {"generator": run.generator.get_state(), "best": run.best}
    return copy.deepcopy(state)  # state_dict hands out the tensors themselves, and the next step changes them


### END SOLUTION
exercises.check("09.keep", keep, run_class=Run)

# %% [markdown] tags=["minutes-1"]
# ## Three things to take away

# %%
takeaways = {
    "Save everything that changes": f"killed at step {victim}, resumed at {resumed_at}: {differ} losses and {weights_differ} weights differ.",
    "Write a second file, then rename it": f"killed while writing, {usable_after_over} checkpoints were left when overwriting, and {usable_after_beside} when renaming.",
    "The machine's disk first, then two files on Drive": f"{len(bins['our save'].gone)} of 30 files deleted the usual way, {len(bins['Store'].gone)} this way, in plain folders.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess = measurements.Value, measurements.Prediction
measurements.record(
    "09_survive", FAST, device=hardware.list_devices().cpu if not torch.accelerator.is_available() else hardware.list_devices().main,
    predicted={
        "will_differ": guess(will_differ, differ),
        "worst_to_forget": guess(worst_to_forget, worst),
        "left": guess(left, "one of them" if usable_after_over else "neither"),
        "what_load_does": guess(what_load_does, did),
        "with_lag": guess(with_lag, "as often as before"),
    },
    differ=value(differ, "", "losses that differ after a kill"),
    weights_differ=value(weights_differ, "", "weights that differ at the end"),
    differ_after=value(differ_after, "", "scores that differ when nothing was forgotten"),
    luck_low=value(min(luck), "", "final loss of runs that forgot nothing, at least"),
    luck_high=value(max(luck), "", "the same, at most"),
    forgot_most=value(final["all but the model"], "", "final loss with all but the model forgotten"),
    **{f"forgot_{piece}": value(final[piece], "", f"final loss without: {piece}") for piece in pieces},
    left_over=value(usable_after_over, "", "checkpoints left, killed while overwriting"),
    left_beside=value(usable_after_beside, "", "the same, renamed"),
    flipped=value(math.log10(largest), "", "a weight of 0.5 after one bit flipped, as torch.load took it: power of ten"),
    went_on_from=value(went_on_from, "", "step resumed from, the one at 20 damaged"),
    binned=value(len(bins["our save"].gone), "", "of 30 checkpoints in the bin, deleting older ones"),
    binned_store=value(len(bins["Store"].gone), "", "the same with Store"),
    checkpoint=value(cost, "s", f"for a checkpoint of {MEGABYTES} MiB"),
    lost_lag=value(min(simulated[DRIVE]), "%", "of the time lost at best, when checkpoints arrive ten minutes late"),
)

# %% [markdown] tags=["minutes-0"]
# ## Keep this, and what comes next
#
# | symptom | cause | fix |
# |---|---|---|
# | the loss jumps after a resume | the optimizer's moments are missing | save them |
# | the weights don't change for some steps | the scaler halves its scale until nothing overflows | save it |
# | the checkpoint can't be loaded | it was being written | a second file, then a rename |
# | Drive is full, and the folder isn't | Drive's bin | overwrite, don't delete |
# | the run starts over, although files are there | Drive isn't mounted | mount it first, and let the program refuse to start |
#
# A disconnect costs you minutes now, and not the run. Lesson 10 asks why the run itself is slow.
