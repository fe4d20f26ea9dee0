# %% [markdown]
# Sooner or later Colab takes the machine away. You were idle, or the session was too long, or somebody who pays wanted the GPU. There is seldom a warning;
# it happens in the middle of a step, and the disk goes too. You cannot prevent it. What you can do is make it not matter. How precisely can a run be resumed? In this lesson you kill
# your own training, start it again, and compare.

# %%
# @title Imports { display-mode: "form" }
import copy
import inspect
import math
import os
import pickle
import random
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from colab_helpers import benchmark, checkpoints, facts, hardware, published, runtime

from colab_lessons import exercises, figures, reference, replay
from colab_lessons.predictions import guessed

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
STEPS = None
RESUMED = None
SEEDS = None
MEGABYTES = None
FILES = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
STEPS = STEPS or (56 if FAST else 112)  # of the training run; an epoch has 28
RESUMED = RESUMED or 42  # the step from which it is resumed with something missing: in the middle of an epoch
SEEDS = SEEDS or (1 if FAST else 15)  # runs with other luck
MEGABYTES = MEGABYTES or (50 if FAST else 200)  # of the file that is cut off while it is being written
FILES = FILES or (200 if FAST else 3000)  # small files

# %%
replay.watch("09_survive")  # cells that need what is missing show recorded results
facts.quote("session-length")

# %% [markdown] tags=["minutes-5", "short-4"]
# ## A run worth saving
#
# This small training run has everything that a large one has. The model has *dropout*, which draws random numbers. AdamW keeps two averages for every
# weight. The learning rate follows a schedule. fp16 needs a loss scaler (lesson 07), and the pixels go up to 256 so that it has work to do. NumPy adds
# noise to the pictures. All of these change from step to step, and later you will forget each of them once.

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
# And which pictures does step 57 see? With `shuffle=True`, a loader draws the order from a generator, and where it stands in the middle of an epoch is hard to
# save: its workers have already fetched batches that the model has not seen. So compute the order from the step instead. What can be computed
# cannot be lost.

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
    if now["scaler"].get_scale() >= scale:  # a step that was skipped does not count for the schedule
        now["scheduler"].step()
    now["optimizer"].zero_grad()
    return loss.item()


# %% [markdown] tags=["minutes-5", "short-4"]
# ## Save all that changes
#
# Most things in PyTorch have a `state_dict`. Generators have a state too, and it takes a line for each: NumPy's, PyTorch's on the CPU, PyTorch's on each GPU.

# %%
WITH_STATE = "model", "optimizer", "scheduler", "scaler"


def state_of(now):
    state = {name: now[name].state_dict() for name in WITH_STATE}
    state["noise"] = now["noise"].bit_generator.state
    state["random"] = torch.get_rng_state()  # dropout on a CPU draws from it
    if torch.cuda.is_available():
        state["random on GPU"] = torch.cuda.get_rng_state_all()
    return state


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
# The program starts from the checkpoint, if there is one, and otherwise from the beginning. It saves every ten steps, and not straight to the file, for a reason that
# you will see below. `use_deterministic_algorithms` makes a GPU add up in the same order every time; where an operation cannot, PyTorch raises an error. (CUDA's products also want the environment variable `CUBLAS_WORKSPACE_CONFIG=:4096:8`.)

# %%
# runs in a process of its own
def main(path):
    torch.use_deterministic_algorithms(True)
    now, begin = fresh(), 0
    if path.exists():
        state = torch.load(path, map_location="cpu", weights_only=True)  # loads without a GPU too
        restore(now, state)
        begin = state["done"]
    for step in range(begin, STEPS):
        print(step, take_step(step, now), flush=True)
        if (step + 1) % 10 == 0:
            torch.save({"done": step + 1, **state_of(now)}, path.with_suffix(".part"))
            path.with_suffix(".part").replace(path)
    torch.save(state_of(now), path.with_suffix(".end"))


# %% [markdown]
# You are going to kill it and want to keep this notebook, so it runs in a process of its own. The next cell writes what you have just read into a file.

# %%
# @title The file job.py, from the cells above { display-mode: "form" }
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # what deterministic products need on a GPU
os.environ["KERAS_BACKEND"] = "torch"  # for the end of this lesson
work = Path(tempfile.mkdtemp())
job = work / "job.py"
HEAD = f"""
import sys
from pathlib import Path
import numpy as np, torch
from torch import nn
from torch.nn import functional as F

STEPS, WITH_STATE = {STEPS}, {WITH_STATE}
pixels, labels = torch.load({str(work / "digits.pt")!r})
"""
torch.save((pixels, labels), work / "digits.pt")
functions = "\n\n".join(inspect.getsource(each) for each in (fresh, rows_of, take_step, state_of, restore, main))
job.write_text(f"{HEAD}\n{functions}\nmain(Path(sys.argv[1]))\n")
print(f"{len(job.read_text().splitlines())} lines in {job}")

# %% [markdown] tags=["minutes-10"]
# ## Kill it
#
# `process.kill()` sends SIGKILL, the signal that no program can catch: no `except`, no `finally`, no last words. A machine that is taken away is no kinder.

# %%
def live(name, kill_at=None):
    command = [sys.executable, str(job), str(work / f"{name}.pt")]
    losses = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            step, loss = line.split()
            losses[int(step)] = float(loss)
            if int(step) == kill_at:
                process.kill()
    assert kill_at or process.returncode == 0, "The run failed: read what it wrote above."
    return losses


# %% [markdown]
# One run is left alone. The other is killed at a step drawn at random, somewhere between two saves, and then started again by the very same command.
#
# **Predict.** Of all the losses that the killed run prints, in both of its lives, how many differ from those of the uninterrupted run?

# %%
will_differ = None  # @param {type:"integer"}

# %%
victim = random.SystemRandom().choice([step for step in range(STEPS // 3, STEPS - 5) if step % 10 > 3])
with ThreadPoolExecutor() as pool:  # both at once
    left_alone = pool.submit(live, "uninterrupted")
    first_life = live("killed", kill_at=victim)
    second_life = live("killed")
uninterrupted = left_alone.result()
resumed_at = min(second_life)

# %%
differ = sum(loss != uninterrupted[step] for life in (first_life, second_life) for step, loss in life.items())
figures.lives(
    uninterrupted, {"first life": first_life, "second life": second_life},
    title=f"Killed at step {victim}, resumed at {resumed_at}: {differ} losses differ{guessed(will_differ)}",
)

# %% [markdown]
# The steps between the last save and the kill were lost, so the second life took them again: the same pictures, the same noise, the same dropout. And the weights
# at the end?

# %%
one, other = (torch.load(work / f"{name}.end")["model"] for name in ("uninterrupted", "killed"))
weights_differ = sum(int((one[name] != other[name]).sum()) for name in one)
f"{weights_differ} of {sum(weight.numel() for weight in one.values()):,} weights differ"

# %% [markdown] tags=["minutes-12", "short-10"]
# Nobody can tell from the results that the process ever died. That holds on the same kind of chip with the same versions of everything: if Colab gives you an L4
# after a T4, or a new image, sums are added in another order and round differently, as they would without a kill.
#
# ## What if you forget something?
#
# Many tutorials save `model.state_dict()` and load it again. Training goes on, after all. How much does it matter?
#
# Besides the model there are the optimiser's averages, the scheduler, the scaler, two generators ("noise", which is NumPy's and spoils the pictures a little, and "random", which is PyTorch's and drives dropout), and the
# "position": how far the data had come.
#
# **Predict.** Everything is restored except one piece. Which single piece hurts most when it is forgotten?

# %%
worst_to_forget = None  # @param ["optimizer", "scheduler", "scaler", "noise", "random", "position"]

# %% [markdown]
# ### WRONG: forget a piece
#
# Each of these runs resumes at the same step, in the middle of an epoch, with something missing. After each step it is scored on all pictures, without noise and
# without dropout. "position" forgets how far the data had come, and begins with those of step 0.

# %%
def score(now):
    device = next(now["model"].parameters()).device
    now["model"].eval()
    with torch.no_grad():
        loss = F.cross_entropy(now["model"](16 * pixels.float().to(device)), labels.to(device))
    now["model"].train()
    return loss.item()


def train(now, begin, end, behind=0):  # behind: how many steps the data lag
    scores = []
    for step in range(begin, end):
        take_step(step - behind, now)
        scores.append(score(now))
    return scores


now = fresh()
whole = train(now, 0, RESUMED)
kept = copy.deepcopy(state_of(now))  # a copy: the state goes on changing
whole += train(now, RESUMED, STEPS)

# %%
def resume_without(*forget):
    now = fresh()
    restore(now, copy.deepcopy(kept), forget)
    return train(now, RESUMED, STEPS, behind=RESUMED if "position" in forget else 0)


pieces = "optimizer", "scheduler", "scaler", "noise", "random", "position"
forgotten = {"all but the model": resume_without(*pieces)}
forgotten |= {piece: resume_without(piece) for piece in pieces}
forgotten["nothing"] = resume_without()

# %% [markdown]
# Curves of training runs differ by luck alone. How much? A few more runs forget nothing, but draw other noise and other dropout: they are the grey band.

# %%
def resume_with_other_luck(seed):
    now = fresh()
    restore(now, copy.deepcopy(kept))
    torch.manual_seed(seed)
    now["noise"] = np.random.default_rng(seed)
    return train(now, RESUMED, STEPS)


luck = [whole[RESUMED:], *(resume_with_other_luck(seed) for seed in range(1, SEEDS + 1))]

# %%
usual = np.mean([sum(scores) for scores in luck])
times = {piece: sum(scores) / usual for piece, scores in forgotten.items()}
worst = max(pieces, key=times.get)
print(f"by luck alone, {len(luck)} runs: {min(map(sum, luck)) / usual:.2f} to {max(map(sum, luck)) / usual:.2f}")
figures.resumes(
    whole, forgotten, since=RESUMED, seeds=luck, ylabel="loss on all pictures",
    title=f"All but the model forgotten: {times['all but the model']:.1f} times the loss. Worst alone: {worst}{guessed(worst_to_forget)}",
)

# %% [markdown]
# The number beside each name is the average loss since the resume, in multiples of what the lucky and unlucky runs have on average; the line above the figure says how far luck alone goes. Without the optimiser's averages AdamW jumps at once: it takes its
# first steps as if it had never seen a gradient, at full learning rate. A forgotten schedule warms up a second time, and its rate is high when it should be settling down. With all but the
# model forgotten both happen: at first the low rate of the second warm-up masks the missing averages, and as the rate climbs the run falls apart.
# A forgotten scaler skips its first steps until it has found its factor again.
#
# Apart from the first two or three, the numbers are about what luck gives as well. Forgetting can even come out ahead. That is the point: nothing in such a curve warns you, and yet the run is no longer the one that you could repeat. With the
# position lost, some pictures come twice in an epoch and others not at all.
#
# ### RIGHT: forget nothing

# %%
differ_after = sum(a != b for a, b in zip(forgotten["nothing"], whole[RESUMED:]))
f"{differ_after} of {STEPS - RESUMED} scores differ"

# %% [markdown] tags=["minutes-8"]
# ## Killed while writing
#
# A step takes milliseconds, a checkpoint can take seconds. So the machine may well go while the file is being written.
#
# ### WRONG: overwrite the old one
#
# This process saves its weights under the same name over and over, as most notebooks do.

# %%
# runs in a process of its own
def save_over(path, weights):
    torch.save(weights, path)


# %%
# @title Start a process that keeps saving, and kill it in the middle { display-mode: "form" }
def kill_in_the_middle(way, folder):
    folder.mkdir()
    source = f"""
import os, sys, torch
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
        print(f"{path.name}, {path.stat().st_size / 2**20:.0f} MiB: {str(error)[:100]} …")
        return False
    return True


# %% [markdown]
# One complete checkpoint exists, and the process is killed while it writes the next.
#
# **Predict.** A process dies while it writes over its only checkpoint. What is left?

# %%
left = None  # @param ["the old one", "the new one", "both", "neither"]

# %%
kill_in_the_middle(save_over, work / "over")
usable_after_over = sum(can_be_loaded(path) for path in (work / "over").iterdir())
f"{'neither' if not usable_after_over else 'one'} can be loaded{guessed(left)}"

# %% [markdown]
# Opening the file for writing emptied it. In that moment the old checkpoint was lost, and the new one was still to come.
#
# ### RIGHT: write next to it, then rename
#
# A rename is *atomic*: at any moment the name leads either to the complete old file or to the complete new one. `fsync` before it makes the system move
# the bytes from its memory to the disk. A killed process does not need that; a machine that loses its power does.

# %%
# runs in a process of its own
def save_beside(path, weights):
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        torch.save(weights, file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


kill_in_the_middle(save_beside, work / "beside")
usable_after_beside = int(can_be_loaded(work / "beside" / "model.pt"))
f"model.pt {'can' if usable_after_beside else 'cannot'} be loaded; also there: {[path.name for path in (work / 'beside').glob('*.part')]}"

# %% [markdown] tags=["minutes-7", "short-4"]
# The unfinished file next to it is rubbish, and harmless.
#
# ## One flipped bit
#
# A loader notices half a file. Does it notice a small fault too, such as a disk or a copy may make? Take a good file and flip one bit of one weight.
#
# **Predict.** One bit of a file with weights is flipped. What does `torch.load` do with it?

# %%
what_load_does = None  # @param ["raises an error", "warns", "loads it and says nothing"]

# %%
torch.save({"w": torch.full((1000,), 0.5)}, work / "flipped.pt")
content = bytearray((work / "flipped.pt").read_bytes())
place = content.find(np.full(9, 0.5, "float32").tobytes())  # where the numbers begin
content[place + 7] ^= 0b01000000  # one bit of the second number's exponent
_ = (work / "flipped.pt").write_bytes(content)

# %%
import zipfile

try:
    largest, did = torch.load(work / "flipped.pt")["w"].max().item(), "loads it and says nothing"
except RuntimeError:
    largest, did = 0.5, "raises an error"
print(f"torch.load {did}{guessed(what_load_does)}: the largest weight was 0.5, and is {largest:.2g}")
print("the zip archive finds a bad checksum in", zipfile.ZipFile(work / "flipped.pt").testzip())

# %% [markdown]
# A weight like that ruins the model in one step, and nobody was told. The checksum was there, in the archive; `torch.load` does not look at it. So here is the list for a checkpoint that you can rely on: all that changes,
# written next to the old one, flushed, renamed, checked when it is read, and the one before it kept. In your own notebooks `colab_helpers.checkpoints` does all of it:
#
# ```python
# state = {"model": model, "optimizer": optimizer, "random": checkpoints.RandomState()}
# store = checkpoints.Store("/content/drive/MyDrive/my-run")
# begin = checkpoints.resume(store, state).step  # 0 where nothing has been saved yet
# for step in range(begin, STEPS):
#     ...                                      # your training step
#     if (step + 1) % 100 == 0:
#         checkpoints.save(store, step + 1, state)
# ```
#
# (`RandomState` stands for Python's, NumPy's and PyTorch's own generators, on all devices. The first cell of this notebook has the line that installs the package.) Now with the run of this lesson:

# %%
now = fresh() | {"random": checkpoints.RandomState()}
store = checkpoints.Store(work / "my-run")
for step in range(20):
    take_step(step, now)
    if (step + 1) % 10 == 0:
        print(checkpoints.save(store, step + 1, now))

# %% [markdown]
# Ask for other pieces than were saved, and it says so:

# %%
try:
    checkpoints.resume(store, {"model": now["model"]})
except checkpoints.CheckpointError as error:
    print(error)

# %% [markdown]
# And it notices a flipped bit, and goes back to the checkpoint before:

# %%
newest = store.files()[0].path
content = bytearray(newest.read_bytes())
content[-7] ^= 0b01000000
newest.write_bytes(content)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    went_on_from = checkpoints.resume(store, now).step
print(*(warning.message for warning in told), f"resumed from step {went_on_from}", sep="\n")

# %% [markdown] tags=["minutes-4", "short-0"]
# ## On Drive
#
# The machine's own disk dies with the machine, so checkpoints belong on Drive, in a bucket or on the Hugging Face Hub. On Colab, tick the box to use your own
# Drive from here on. You will be asked for permission.

# %%
USE_DRIVE = False  # @param {type:"boolean"}

# %%
if USE_DRIVE:
    from google.colab import drive

    drive.mount("/content/drive")
place = Path("/content/drive/MyDrive/lesson-09") if USE_DRIVE else work / "drive"
store = checkpoints.Store(place, keep=3, fallback=work / "fallback")
str(store.folder)

# %% [markdown]
# Three things go wrong there. The first is that a file which has been written has not yet arrived:

# %%
facts.quote("drive-cache")

# %% [markdown]
# So keep more than one checkpoint, and end a run with that call. The second: if the mount is missing when your program starts, `mkdir -p` happily creates a folder of that
# name on the machine's own disk, the program finds no checkpoint in it, and starts over. A `Store` below `/content/drive` refuses to begin where nothing is mounted. The third: the mount drops in the middle of a run. A failed
# save should not kill the run as well, so a `Store` warns, goes on, and writes to the `fallback` folder if you gave it one. (That folder dies with the machine: copy it back when Drive is there again.) Take the folder away, as a dropped mount
# would:

# %%
checkpoints.save(store, 10, now)
place.rename(place.with_name("dropped"))

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    saved = checkpoints.save(store, 20, now)
_ = place.with_name("dropped").rename(place)
print(told[-1].message)
print(checkpoints.resume(store, now))

# %% [markdown] tags=["minutes-5", "short-0"]
# ## How often?
#
# Saving costs time, and so does repeating what was lost. The first can be measured. Here is a larger checkpoint:

# %%
heavy = {"model": nn.Linear(256 * MEGABYTES, 1024, bias=False)}  # MEGABYTES times 1 MiB
saved = checkpoints.save(checkpoints.Store(place / "heavy"), 1, heavy)
cost = saved.seconds
str(saved)

# %% [markdown]
# The second depends on how long your sessions live. Colab publishes no number; say five hours on average. (Engineers call it the MTBF, the mean time between failures.)
#
# **Predict.** Every how many minutes should you save, to lose the least time?

# %%
your_interval = None  # @param {type:"slider", min:1, max:60, step:1}

# %% [markdown]
# With a checkpoint every $t$ seconds you lose the share $\text{cost} / t$ to saving. A session ends, on average, in the middle of an interval, so you lose $t / 2$ of every MTBF to repeating. The sum is
# least at $t = \sqrt{2 \cdot \text{cost} \cdot \text{MTBF}}$, which John Young published in 1974. Is it true? Simulate 20,000 sessions for each interval, ending at random:

# %%
MTBF = 5 * 3600  # seconds
intervals = np.geomspace(4 * cost, MTBF / 4, 30)
sessions = np.random.default_rng(0).exponential(MTBF, 20_000)
lost = [100 * (1 - (sessions // (t + cost) * t).sum() / sessions.sum()) for t in intervals]  # complete intervals count

# %%
best = checkpoints.best_interval(cost, MTBF)
formula = [100 * checkpoints.lost_share(t, cost, MTBF) for t in intervals]
figures.lines(
    intervals, {"20,000 simulated sessions": lost}, ideal={"Young's formula": formula}, log=True, units=("s", "%"),
    xlabel="from one checkpoint to the next", ylabel="time lost, %",
    title=f"Least is lost with a checkpoint every {best / 60:.1f} minutes{guessed(your_interval, ' minutes')}",
)

# %% [markdown] tags=["minutes-3"]
# The valley is wide: at half the interval or at twice, you lose only a quarter more. So a rough guess of the MTBF will do. (Where saving takes most of the time, the simple formula overstates
# what is lost; nobody works there.) Measure the cost where you save: Drive will give a different number.
#
# ## A pickle is a program
#
# A `.pt` file is a zip archive with a *pickle* inside, and a pickle is not data but a list of instructions. Whoever made the file decides what they do.

# %%
class Harmless:
    def __reduce__(self):
        return print, ("This line was printed by the file. It could have sent your Drive to a stranger.",)


torch.save({"weights": Harmless()}, work / "downloaded.pt")

# %% [markdown]
# ### WRONG: trust it

# %%
_ = torch.load(work / "downloaded.pt", weights_only=False)

# %% [markdown]
# ### RIGHT: load data only

# %%
try:
    torch.load(work / "downloaded.pt", weights_only=True)  # the default since PyTorch 2.6
except pickle.UnpicklingError as error:
    print(f"{type(error).__name__}: {str(error).partition('.')[0]}")

# %% [markdown] tags=["minutes-4", "short-0"]
# Many tutorials turn `weights_only` off to make this error go away. Don't, unless you wrote the file. A `.safetensors` file contains no instructions at all, only names, shapes and
# numbers; `checkpoints.save` writes that, with the rest as JSON.
#
# ## Thousands of small files
#
# Drive is slow in another way too, and it is not only about checkpoints: pictures often lie in folders with thousands of files.
#
# **Predict.** The same pictures in one file: how many times as fast are they read, on this machine's own disk?

# %%
one_file_faster = None  # @param {type:"number"}

# %%
# @title Write pictures both ways, and drop them from the page cache { display-mode: "form" }
folder = work / "pictures"
folder.mkdir()
pictures = np.random.default_rng(0).integers(0, 256, (FILES, 64, 64), "uint8")
for number, picture in enumerate(pictures):
    np.save(folder / f"{number}.npy", picture)
np.save(work / "pictures.npy", pictures)
for path in (*folder.iterdir(), work / "pictures.npy"):
    with path.open("rb") as file:
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

# %%
start = time.perf_counter()
one_by_one = np.stack([np.load(folder / f"{number}.npy") for number in range(FILES)])
benchmark.synchronize()  # a habit: nothing here runs on a device
small_seconds = time.perf_counter() - start

# %%
start = time.perf_counter()
together = np.load(work / "pictures.npy")
benchmark.synchronize()
one_file_seconds = time.perf_counter() - start
assert np.array_equal(one_by_one, together)

# %%
on_drive = [published.get(f"drive-images-{row}") for row in ("cpu", "gpu", "good", "bad")]
rates = {"this disk, one by one": FILES / small_seconds, "this disk, from one file": FILES / one_file_seconds}
figures.bars(
    rates, unit="files/s", log=True, published={f"Drive: {row.conditions}": row for row in on_drive},
    title=f"From one file: {small_seconds / one_file_seconds:.0f} times as fast here{guessed(one_file_faster)}",
)

# %% [markdown]
# Here every file has to be looked up, opened and closed. On a mounted Drive each of them is a network round trip as well; the hollow rates are what users of Colab
# published in 2020, with and without a GPU, on a good day and on a bad one.

# %%
for row in on_drive:
    print(f"60,000 {row.conditions}: {60_000 / row.value / 60:,.0f} minutes at {row.value:.0f} a second ({row.credit})")
facts.quote("drive-small-files")

# %% [markdown] tags=["minutes-3", "short-0"]
# ## Keras and JAX
#
# Keras saves a `.keras` file, with weights and optimiser. Is everything in it? Train a model with dropout, save it, and let the original and the loaded one take one more
# epoch. (Keras runs on PyTorch here, so that no second framework claims the GPU.)

# %%
# needs: keras
with runtime.quiet():
    import keras

    keras.utils.set_random_seed(0)
layers = keras.layers.Dense(64), keras.layers.Dropout(0.5, seed=1), keras.layers.Dense(1)
original = keras.Sequential([keras.Input((8,)), *layers])
original.compile("adam", "mse")
x, y = np.ones((256, 8), "float32"), np.ones((256, 1), "float32")
original.fit(x, y, shuffle=False, verbose=0)
original.save(work / "plain.keras")
saved = checkpoints.save_keras(checkpoints.Store(work / "keras"), 1, original)

# %%
# needs: keras
plain = keras.saving.load_model(work / "plain.keras")
_, complete = checkpoints.resume_keras(checkpoints.Store(work / "keras"))
for name, network in {"the original": original, "plain .keras": plain, "with its seeds": complete}.items():
    history = network.fit(x, y, shuffle=False, verbose=0).history
    print(f"{name:>15}: loss of the next epoch {history['loss'][0]:.6f}")

# %% [markdown]
# No: the generators of the dropout layers start over. `checkpoints.save_keras` adds them to the file.
#
# In JAX there is nothing hidden to forget. The random key is a value in your hands, and the state of a step is one tree of arrays. The library for saving trees is Orbax, which writes a
# folder of many files; `checkpoints.save_jax` packs it into one, with a checksum.

# %%
# needs: jax, orbax
os.environ["JAX_PLATFORMS"] = "cpu"  # one framework at a time: PyTorch has the accelerator
import jax

key, used = jax.random.split(jax.random.key(0))  # as a step does
state = {"w": jax.random.normal(used, (4, 4)), "key": key}
saved = checkpoints.save_jax(checkpoints.Store(work / "jax"), 5, state)
anew = {"w": jax.numpy.zeros((4, 4)), "key": jax.random.key(0)}  # what a new session begins with
step, back = checkpoints.resume_jax(checkpoints.Store(work / "jax"), anew)
for name, tree in {"the original": state, "resumed": back}.items():
    print(f"{name:>12}: its key draws {jax.random.normal(tree['key']):.6f}")

# %% [markdown] tags=["minutes-2", "short-0"]
# ## What stays, what goes, and where tokens belong
#
# | gone with the machine | stays |
# |---|---|
# | everything in memory | the notebook itself |
# | `/content` and the rest of the machine's disk | files on Drive, in a bucket, on the Hub |
# | packages that you installed | Secrets |
#
# A token in a cell ends up in the notebook, in its history and in every copy. Put it under Secrets (the key on the left) and write:
#
# ```python
# from google.colab import userdata
# token = userdata.get("HF_TOKEN")
# ```

# %%
facts.quote("drive-scope")

# %% [markdown] tags=["minutes-5", "short-0"]
# So before you click "Run anyway" in a stranger's notebook, look for `drive.mount` and for what it installs.
#
# ## Exercises
#
# ### 1 · What was forgotten?
#
# Three runs were resumed with one piece missing. `A`: the loss jumps to several times its value, then recovers. `B`: the weights do not change for the first few steps, then the run goes on
# normally. `C`: the curve looks fine, but hundreds of pictures were seen twice in one epoch. What is missing in each? Choose from `"optimizer"`, `"scheduler"`, `"scaler"`,
# `"noise"`, `"random"`, `"position"`.

# %% tags=["exercise"]
missing = {"A": ..., "B": ..., "C": ...}
### BEGIN SOLUTION
missing = {
    "A": "optimizer",  # its averages start at zero, at full learning rate
    "B": "scaler",  # it overflows, halves its factor and skips the step, until the factor fits
    "C": "position",  # the epoch starts over
}
### END SOLUTION
exercises.check("09.missing", missing)

# %% [markdown]
# ### 2 · How often, on Drive?
#
# A checkpoint of 4 GB takes 40 seconds to reach Drive, and your sessions live 2½ hours on average. Every how many seconds should you save?

# %% tags=["exercise"]
seconds = ...
### BEGIN SOLUTION
seconds = (2 * 40 * 2.5 * 3600) ** 0.5  # Young: about 14 minutes, and 10 or 20 are hardly worse
### END SOLUTION
exercises.check("09.interval", seconds)

# %% [markdown]
# ### 3 · Open task: make it resume
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
# Write `keep(run)`: it returns a dict from the name of an attribute to its state, for everything that a step changes. The check keeps the state, lets the run go on, puts the state
# into a fresh `Run` (by `load_state_dict`, `set_state` for a generator, assignment for a number), and compares both to the last bit. Mind that the run goes on after you kept its
# state.

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

# %% [markdown] tags=["minutes-2"]
# ## Three things to take away

# %%
takeaways = {
    "Save everything that changes, and nothing is lost": f"killed at step {victim}, resumed at {resumed_at}: {differ} losses and {weights_differ} weights differ. With the model alone: {times['all but the model']:.1f} times the loss.",
    "Write next to it, rename, verify": f"killed while writing, {usable_after_over} checkpoints were left when overwriting, {usable_after_beside} when renaming; of a flipped bit torch.load {'said nothing' if 'nothing' in did else 'complained'}.",
    "How often follows from one measurement and one guess": f"{cost:.2f} s for a checkpoint, {MTBF / 3600:.0f} hours for a session: so one every {best / 60:.1f} minutes.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Put predictions beside results { display-mode: "form" }
guess = reference.Prediction
predicted = {
    "will_differ": guess(will_differ, differ),
    "worst_to_forget": guess(worst_to_forget, worst),
    "left": guess(left, "one of them" if usable_after_over else "neither"),
    "what_load_does": guess(what_load_does, did),
    "your_interval": guess(your_interval, best / 60, "min"),
    "one_file_faster": guess(one_file_faster, small_seconds / one_file_seconds, "×"),
}

# %%
# @title Keep them as a record { display-mode: "form" }
value = reference.Value
device = next(now["model"].parameters()).device
reference.record(
    "09_survive", FAST, device=hardware.list_devices().cpu if device.type == "cpu" else hardware.list_devices().main, predicted=predicted,
    differ=value(differ, "", "losses that differ after a kill"),
    weights_differ=value(weights_differ, "", "weights that differ at the end"),
    differ_after=value(differ_after, "", "scores that differ when nothing was forgotten"),
    forgot_most=value(times["all but the model"], "×", "loss with all but the model forgotten, a run with other luck being 1"),
    **{f"forgot_{piece}": value(times[piece], "×", f"the same, without: {piece}") for piece in pieces},
    **{f"apart_{piece}": value(max(max(a / b, b / a) for a, b in zip(forgotten[piece], whole[RESUMED:])), "×",
                               f"apart at most, without: {piece}") for piece in pieces},
    most_luck=value(max(map(sum, luck)) / usual, "×", "loss with other luck, at most, the average being 1"),
    left_over=value(usable_after_over, "", "checkpoints left, killed while overwriting"),
    left_beside=value(usable_after_beside, "", "the same, written next to it and renamed"),
    flipped=value(math.log10(largest), "", "a weight of 0.5 after one bit flipped, as torch.load took it: power of ten"),
    went_on_from=value(went_on_from, "", "step resumed from, the one at 20 corrupted"),
    checkpoint=value(cost, "s", f"for a checkpoint of {MEGABYTES} MiB"),
    one_file=value(small_seconds / one_file_seconds, "×", f"speed of {FILES} pictures from one file, one by one being 1"),
)

# %% [markdown] tags=["minutes-0"]
# ## What comes next
#
# This is the end of the course, for now. Your training run is planned, and a disconnect can no longer hurt it. Take the notebook that
# you care about most, make it fast, and measure.
