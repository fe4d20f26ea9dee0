# %% [markdown]
# Sooner or later Colab takes the machine away: you were idle, the session was too long, or somebody who pays wanted the GPU. It happens without
# a warning, in the middle of a step, and the disk goes too. You cannot prevent it. But you can arrange that nobody will ever see it
# in your results: not one bit of them will be different. In this lesson you kill your own training, without mercy and in the middle of a step, and then prove it.

# %%
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
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from colab_helpers import checkpoints, facts, figures, hardware, published, runtime
from colab_helpers.lessons import exercises, reference
from colab_helpers.lessons.predictions import said

os.environ["KERAS_BACKEND"] = "torch"

# %% tags=["parameters"]
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
STEPS = 60 if FAST else 90  # of the training
SEEN_AT = 20 if FAST else 30  # the step from which it is resumed with something missing
MEGABYTES = 100 if FAST else 200  # of the file that is killed while it is written
FILES = 500 if FAST else 3000  # small files

# %%
facts.quote("session-length")

# %% [markdown]
# ## A job worth saving
#
# Here is a small training with everything that a large one has. The model has *dropout*, which draws random numbers. AdamW keeps two averages for each
# weight. The learning rate follows a schedule. fp16 needs a loss scaler (lesson 07). And the pictures get noise from a generator of NumPy's.
# Whatever changes from step to step goes into one dict. Read it well: each entry will be forgotten once.

# %%
def fresh():
    for seed in (torch.manual_seed, np.random.seed, random.seed):
        seed(0)
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
    layers = nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 10)
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    return {
        "model": model,
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=STEPS + 10),
        "scaler": torch.amp.GradScaler(device.type),
        "noise": np.random.default_rng(0),
        "random": checkpoints.RandomState(),  # what PyTorch, NumPy and Python draw from: dropout
    }


# %% [markdown]
# Which pictures does step 57 see? Usually a shuffled loader decides, and nobody can say afterwards. Here it follows from the number
# 57 alone: `batches[57]` is the same whenever you ask. A position that can be computed cannot be lost.

# %%
pixels, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
pixels = 16.0 * pixels.float()  # from 0 to 255, as pictures have it
batches = checkpoints.Batches(rows=len(pixels), size=64)


def take_step(number, now):
    device = next(now["model"].parameters()).device
    rows = batches[number]
    noisy = pixels[rows] + torch.from_numpy(now["noise"].normal(0, 48, (len(rows), 64))).float()
    with torch.autocast(device.type, dtype=torch.float16):
        guesses = now["model"](noisy.to(device))
    loss = F.cross_entropy(guesses.float(), labels[rows].to(device))
    now["scaler"].scale(loss).backward()
    scale = now["scaler"].get_scale()
    now["scaler"].step(now["optimizer"])
    now["scaler"].update()
    if now["scaler"].get_scale() >= scale:  # a step that was skipped does not count for the schedule
        now["scheduler"].step()
    now["optimizer"].zero_grad()
    return loss.item()


# %% [markdown]
# And the whole program. It begins wherever the folder stands, prints each loss, and saves every ten steps.

# %%
def main(folder):
    torch.use_deterministic_algorithms(True)
    now = fresh()
    store = checkpoints.Store(folder)
    begin = checkpoints.resume(store, now).step
    for number in range(begin, STEPS):
        print(number, take_step(number, now), flush=True)
        if (number + 1) % 10 == 0:
            checkpoints.save(store, number + 1, now)


# %% [markdown]
# It has to run in a process of its own, since you are going to kill it and want to keep this notebook. So write what you have just read into a file:

# %%
# @title The file job.py, from the cells above { display-mode: "form" }
HEAD = f"""
import random, sys, numpy as np, torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from colab_helpers import checkpoints

STEPS = {STEPS}
pixels, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
pixels = 16.0 * pixels.float()
batches = checkpoints.Batches(rows=len(pixels), size=64)

"""
work = Path(tempfile.mkdtemp())
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # so that CUDA's products repeat to the bit
functions = "\n\n".join(inspect.getsource(each) for each in (fresh, take_step, main))
job = work / "job.py"
job.write_text(f"{HEAD}{functions}\nmain(sys.argv[1])\n")
print(f"{len(job.read_text().splitlines())} lines in {job}")

# %%
def live(folder, kill_at=None):
    command = [sys.executable, str(job), str(work / folder)]
    losses = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            number, loss = line.split()
            losses[int(number)] = float(loss)
            if int(number) == kill_at:
                process.kill()  # SIGKILL: it is not asked, and cannot tidy up
    return losses


# %% [markdown]
# ## Kill it
#
# One run is left in peace. The other is killed at a step that nobody has chosen, and then started once more, by the same command.
#
# **Predict.** Of all losses that the killed run has printed, how many differ from those of the run that was left in peace?

# %%
will_differ = None  # @param {type:"integer"}

# %%
peaceful = live("peaceful")
victim = random.SystemRandom().randrange(STEPS // 3, STEPS - 5)
first_life = live("killed", kill_at=victim)
second_life = live("killed")
resumed_at = min(second_life)

# %%
differ = sum(loss != peaceful[step] for life in (first_life, second_life) for step, loss in life.items())
figures.lives(
    peaceful, {"first life": first_life, "second life": second_life},
    title=f"Killed at step {victim}, resumed at {resumed_at}: {differ} losses differ{said(will_differ)}",
)

# %% [markdown]
# The steps between the last save and the kill were lost, so the second life took them again: the same pictures, the same noise, the same
# dropout. What about the weights at the end, the optimiser's averages, the state of each generator? All of them are in the last checkpoint, and its name ends
# with a checksum over every byte:

# %%
for folder in ("peaceful", "killed"):
    last = checkpoints.Store(work / folder).files()[0]
    print(f"{folder:>9}: {last.path.name}")

# %% [markdown]
# The same name: the same bytes. Whoever gets your results cannot know that the machine was ever gone.
#
# ## What happens if you forget something
#
# Most tutorials save `model.state_dict()`, and resume. The model is all there, and training goes on. So what else could matter?
#
# **Predict.** Which piece, when it alone is forgotten, harms the training most?

# %%
worst_to_forget = None  # @param ["optimizer", "scheduler", "scaler", "noise", "random", "position"]

# %% [markdown]
# ### WRONG: forget one of them
#
# Each run below resumes at the same step, with all but one of the pieces. After each step, see how well it does on all pictures, without noise and
# without dropout.

# %%
def score(now):
    device = next(now["model"].parameters()).device
    now["model"].eval()
    with torch.no_grad():
        loss = F.cross_entropy(now["model"](pixels.to(device)), labels.to(device))
    now["model"].train()
    return loss.item()


def train(now, begin, end, behind=0):
    scores = []
    for number in range(begin, end):
        take_step(number - behind, now)
        scores.append(score(now))
    return scores


# %%
def without(piece, now):
    return {name: part for name, part in now.items() if name != piece}


pieces = "optimizer", "scheduler", "scaler", "noise", "random", "position"
now = fresh()
whole = train(now, 0, SEEN_AT)
for piece in pieces:
    checkpoints.save(checkpoints.Store(work / piece), SEEN_AT, without(piece, now))
checkpoints.save(checkpoints.Store(work / "all"), SEEN_AT, now)
whole += train(now, SEEN_AT, STEPS)

# %%
def resume_without(piece):
    now = fresh()
    checkpoints.resume(checkpoints.Store(work / piece), without(piece, now))
    behind = SEEN_AT if piece == "position" else 0  # begins with the data of step 0 again
    return train(now, SEEN_AT, STEPS, behind)


forgotten = {piece: resume_without(piece) for piece in pieces}

# %%
apart = {piece: max(max(a / b, b / a) for a, b in zip(scores, whole[SEEN_AT:])) for piece, scores in forgotten.items()}
worst = max(apart, key=apart.get)
figures.resumes(
    whole, forgotten, since=SEEN_AT, ylabel="loss on all pictures",
    title=f"Each forgotten piece changes the curve; the {worst} most{said(worst_to_forget)}",
)

# %% [markdown]
# The optimiser is what people forget, and what hurts: without its averages AdamW takes its first steps as if it had never seen a gradient, and with the
# learning rate of a run in full swing. A forgotten scaler costs the steps that it skips until it has found its factor again: a flat piece. A forgotten
# schedule warms up a second time.
#
# The lower three are meaner. Their curves look like any other; you would publish them. But the run cannot be repeated, and with the position lost some
# pictures come twice in an epoch and others never.
#
# ### RIGHT: forget nothing

# %%
now = fresh()
begin = checkpoints.resume(checkpoints.Store(work / "all"), now).step
differ_after = sum(a != b for a, b in zip(train(now, begin, STEPS), whole[SEEN_AT:]))
f"{differ_after} of {STEPS - SEEN_AT} scores differ"

# %% [markdown]
# `checkpoints.resume` refuses to forget: ask it for other pieces than were saved, and it says so.

# %%
try:
    checkpoints.resume(checkpoints.Store(work / "all"), {"model": now["model"]})
except checkpoints.CheckpointError as error:
    print(error)

# %% [markdown]
# ## Killed while it writes
#
# A step takes milliseconds, a checkpoint seconds. So the machine may well vanish while the file is being written.
#
# ### WRONG: write over the old one
#
# This process saves its weights under the same name again and again, as most notebooks do. Wait until the file has begun to grow, and kill it.
#
# **Predict.** One good checkpoint was there before. How many can be loaded afterwards?

# %%
left_whole = None  # @param {type:"integer"}

# %%
def save_over(path, megabytes):
    weights = {str(i): torch.rand(2**18) for i in range(megabytes)}  # 1 MiB each
    while True:
        torch.save(weights, path)
        print("saved", flush=True)


def kill_in_the_middle(way, folder):
    folder.mkdir()
    source = f"import os, sys, torch\nfrom pathlib import Path\n{inspect.getsource(way)}\n{way.__name__}(Path(sys.argv[1]), int(sys.argv[2]))"
    command = [sys.executable, "-c", source, str(folder / "model.pt"), str(MEGABYTES)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()  # the first one is whole
        full, growing = MEGABYTES * 2**20, [0]
        while process.poll() is None and not any(full / 10 < size < full for size in growing):
            growing = [path.stat().st_size for path in folder.iterdir() if path.exists()]
        process.kill()


# %%
def can_be_loaded(path):
    try:
        torch.load(path)
    except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
        print(f"{path.name}, {path.stat().st_size / 2**20:.0f} MiB: {str(error)[:100]} …")
        return False
    return True


kill_in_the_middle(save_over, work / "over")
whole_after_over = sum(can_be_loaded(path) for path in (work / "over").iterdir())
f"{whole_after_over} can be loaded{said(left_whole)}"

# %% [markdown]
# The old one was emptied when the new one was opened. Days of training, and what is left is half a file.
#
# ### RIGHT: write beside it, then rename
#
# A rename is *atomic*: at every moment the name leads to the whole old file or to the whole new one. `fsync` before it makes sure that the bytes are
# on the disk and not only on their way there; a kill does not need it, a machine that loses its power does.

# %%
def save_beside(path, megabytes):
    weights = {str(i): torch.rand(2**18) for i in range(megabytes)}
    while True:
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            torch.save(weights, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        print("saved", flush=True)


kill_in_the_middle(save_beside, work / "beside")
whole_after_beside = can_be_loaded(work / "beside" / "model.pt")
f"model.pt: {'whole' if whole_after_beside else 'broken'}; beside it: {[path.name for path in (work / 'beside').glob('*.part')]}"

# %% [markdown]
# The half file beside it is rubbish, and harmless.
#
# ## One flipped bit
#
# Files are cut off on their way to a Drive, and disks make mistakes. Does a loader notice? Take one good file and flip a single bit of one weight.
#
# **Predict.** What does `torch.load` do with it?

# %%
what_load_does = None  # @param ["raises an error", "warns", "loads it and says nothing"]

# %%
weights = torch.full((1000,), 0.5)
torch.save({"w": weights}, work / "flipped.pt")
spoilt = bytearray((work / "flipped.pt").read_bytes())
place = spoilt.find(weights[:9].numpy().tobytes())  # where the numbers begin
spoilt[place + 7] ^= 0b01000000  # the last byte of the second one: a bit of its exponent
_ = (work / "flipped.pt").write_bytes(spoilt)

# %%
try:
    found = torch.load(work / "flipped.pt")["w"]
    did = "loads it and says nothing"
except RuntimeError:
    found, did = weights, "raises an error"
largest = found.abs().max().item()
f"torch.load {did}: the largest weight was 0.5, and is {largest:.2g}{said(what_load_does)}"

# %% [markdown]
# One weight of 10³⁸ and the next product is infinite. A checksum finds it, and one checkpoint before the last is worth keeping:

# %%
store = checkpoints.Store(work / "flips")
for step in (10, 20):
    saved = checkpoints.save(store, step, {"model": now["model"]})
spoilt = bytearray(saved.path.read_bytes())
spoilt[-7] ^= 0b01000000
_ = saved.path.write_bytes(spoilt)

# %%
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    went_on_from = checkpoints.resume(store, {"model": now["model"]}).step
print(*(warning.message for warning in told), f"resumed from step {went_on_from}", sep="\n")

# %% [markdown]
# ## When the disk says no
#
# Drive drops out, the disk is full, the folder cannot be written. A training that dies of that has lost twice. So a `Store` that cannot write
# says so and lets the training go on; give it a `spare` folder, and nothing is lost at all. Here the folder vanishes, as a mount does:

# %%
store = checkpoints.Store(work / "drive", spare=work / "spare")
checkpoints.save(store, 10, {"model": now["model"]})
(work / "drive").rename(work / "dropped")

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    saved = checkpoints.save(store, 20, {"model": now["model"]})
print(*(warning.message for warning in told), saved, sep="\n")

# %% [markdown]
# And what if the program starts while Drive is not there? Then `mkdir -p` makes a folder of the same name on the machine's own disk, the program finds no
# checkpoint in it, begins from the start, and writes to a disk that will die with the machine. A `Store` on `/content/drive` refuses to begin without the mount.
#
# ## How often?
#
# Saving costs time, and so does doing the lost steps again. What does one checkpoint cost, of a model that is worth waiting for?

# %%
heavy = {"model": nn.Linear(256 * MEGABYTES, 1024, bias=False)}  # one MiB for each
saved = checkpoints.save(checkpoints.Store(work / "heavy"), 1, heavy)
cost = saved.seconds
str(saved)

# %% [markdown]
# Say that a session lives an hour and a half, as an idle one does; nobody publishes the true number.
#
# **Predict.** Every how many seconds should you save, to lose least?

# %%
your_interval = None  # @param {type:"number"}

# %%
BETWEEN = 90 * 60  # seconds from one disconnect to the next, on average
intervals = np.geomspace(cost * 2, BETWEEN, 40)
draw = np.random.default_rng(0)
measured = []
for interval in intervals:  # 20,000 lives each: whole intervals count, the rest is lost
    lives = draw.exponential(BETWEEN, 20_000)
    done = lives // (interval + cost) * interval
    measured.append(100 * (1 - done.sum() / lives.sum()))

# %%
best = checkpoints.best_interval(cost, BETWEEN)
formula = [100 * checkpoints.lost_share(interval, cost, BETWEEN) for interval in intervals]
figures.lines(
    intervals, {"20,000 simulated lives": measured}, ideal={"Young's formula": formula}, log=True, units=("s", "%"),
    xlabel="from one checkpoint to the next", ylabel="time lost, %",
    title=f"Least is lost with a checkpoint every {best:.0f} s{said(your_interval, ' s')}",
)

# %% [markdown]
# Young's formula (1974) is $\sqrt{2 \cdot \text{cost} \cdot \text{time between failures}}$, and the valley is wide: half as often or twice as often costs hardly more. So a rough guess
# of when Colab will leave you is good enough, and the cost is the part to measure. On a Drive it is larger than here.
#
# ## A thousand small files
#
# Not all that is slow is a checkpoint. Pictures lie in folders of thousands of files, and each of them is opened, read and closed.
#
# **Predict.** The same pictures in one file: how many times as fast, on this machine's own disk?

# %%
archive_faster = None  # @param {type:"number"}

# %%
folder = work / "pictures"
folder.mkdir()
pictures = np.random.default_rng(0).integers(0, 256, (FILES, 64, 64), "uint8")
for number, picture in enumerate(pictures):
    np.save(folder / f"{number}.npy", picture)
np.save(work / "pictures.npy", pictures)


# %%
def drop_from_memory(path):  # or the page cache would answer, and no disk be read
    with path.open("rb") as file:
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


for path in (*folder.iterdir(), work / "pictures.npy"):
    drop_from_memory(path)
start = time.perf_counter()
one_by_one = np.stack([np.load(folder / f"{number}.npy") for number in range(FILES)])
small_seconds = time.perf_counter() - start

# %%
start = time.perf_counter()
together = np.load(work / "pictures.npy")
archive_seconds = time.perf_counter() - start
assert np.array_equal(one_by_one, together)

# %%
on_drive = [published.get(f"drive-images-{row}") for row in ("cpu", "gpu", "good", "bad")]
rates = {"this disk, one by one": FILES / small_seconds, "this disk, from one file": FILES / archive_seconds}
figures.bars(
    rates, unit="files/s", log=True, published={f"Drive: {row.conditions}": row for row in on_drive},
    title=f"From one file: {small_seconds / archive_seconds:.0f} times as fast here{said(archive_faster)}",
)

# %% [markdown]
# Here each file costs a look into a folder, an opening and a closing. On a mounted Drive each is a journey to another machine. The hollow rates are what users
# of Colab have published, on good days and on bad ones:

# %%
for row in on_drive:
    print(f"60,000 pictures at {row.value:.0f} a second: {60_000 / row.value / 3600:.1f} hours ({row.credit})")
facts.quote("drive-small-files")

# %% [markdown]
# ## A pickle is a program
#
# `torch.save` writes a *pickle*, and a pickle is not data but a list of instructions. Whoever made the file decides what they are.

# %%
class Harmless:
    def __reduce__(self):
        return print, ("This was printed by the file. It could have sent your Drive to somebody.",)


torch.save({"weights": Harmless()}, work / "downloaded.pt")

# %% [markdown]
# ### WRONG: trust it

# %%
torch.load(work / "downloaded.pt", weights_only=False)

# %% [markdown]
# ### RIGHT: data only

# %%
try:
    torch.load(work / "downloaded.pt", weights_only=True)  # what is left out means today
except pickle.UnpicklingError as error:
    print(f"{type(error).__name__}: {str(error).partition('.')[0]}")

# %% [markdown]
# Many tutorials turn `weights_only` off "to make the error go away". Do not, unless you wrote the file. A `.safetensors` file has no instructions at all: names, shapes
# and numbers. That is what `checkpoints.save` writes, with everything else as JSON.
#
# ## In Keras and in JAX
#
# Keras has a file of its own, `.keras`, with weights and optimiser. Has it everything? Train a model with dropout, save it, and let both take one more
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
# It has not: the generators of the dropout layers begin anew. `checkpoints.save_keras` adds them to the file.
#
# In JAX nothing is hidden. The random key is a value in your hands, and the state of a step is one tree of arrays. Orbax writes it; `checkpoints.save_jax` puts its folder into
# one archive with a checksum.

# %%
# needs: jax, orbax
os.environ["JAX_PLATFORMS"] = "cpu"  # one framework at a time: PyTorch has the accelerator
import jax

state = {"w": jax.numpy.ones((4, 4)), "key": jax.random.key(0)}
saved = checkpoints.save_jax(checkpoints.Store(work / "jax"), 5, state)
step, back = checkpoints.resume_jax(checkpoints.Store(work / "jax"), state)
for name, tree in {"the original": state, "resumed": back}.items():
    print(f"{name:>12}: its key draws {jax.random.normal(tree['key']):.6f}")

# %% [markdown]
# ## What stays, what goes, and what is safe to paste
#
# | gone with the machine | stays |
# |---|---|
# | everything in memory, variables too | the notebook itself, with its outputs |
# | `/content` and all of the machine's disk | files on Drive, in a bucket, on the Hub |
# | packages that you installed | Secrets |
#
# A token in a cell is in the notebook, in its history and in every copy. Put it under Secrets (the key on the left), and write:
#
# ```python
# from google.colab import userdata
# token = userdata.get("HF_TOKEN")
# ```

# %%
facts.quote("drive-scope")

# %% [markdown]
# So before you click "Run anyway" in somebody else's notebook, look for `drive.mount` and for what is installed: both can read all of your files.
#
# ## Exercises
#
# ### 1 · What was forgotten?
#
# Three runs were resumed with one piece missing. `A`: the loss jumps to six times its value, then recovers. `B`: the weights stay the same for five steps, then it goes on as
# before. `C`: the curve looks like any other, but 700 pictures were seen twice in the epoch. Which piece is missing in each? Choose from `"optimizer"`, `"scheduler"`, `"scaler"`,
# `"noise"`, `"random"`, `"position"`.

# %% tags=["exercise"]
missing = {"A": ..., "B": ..., "C": ...}
### BEGIN SOLUTION
missing = {
    "A": "optimizer",  # its averages begin at zero, at full learning rate
    "B": "scaler",  # it overflows, halves its factor and skips the step, until it fits
    "C": "position",  # the epoch begins anew with the same order
}
### END SOLUTION
exercises.check("09.missing", missing)

# %% [markdown]
# ### 2 · How often, on a Drive?
#
# A checkpoint of 4 GB takes 40 seconds to reach Drive. Your sessions end every five hours on average. Every how many minutes should you save?

# %% tags=["exercise"]
minutes = ...
### BEGIN SOLUTION
minutes = (2 * 40 * 5 * 3600) ** 0.5 / 60  # Young: 20 minutes, and 15 or 30 are hardly worse
### END SOLUTION
exercises.check("09.minutes", minutes)

# %% [markdown]
# ### 3 · Open task: off by one
#
# `store.save(number)` keeps a number, `store.newest()` returns the last one or None, and `take(step)` trains one step, in which the machine may die. This loop
# is off by one somewhere:

# %%
def run(store, take, steps):
    begin = store.newest() or 0
    for step in range(begin, steps):
        take(step)
        store.save(step)


# %% [markdown]
# Write it so that each step is taken exactly once, wherever it is interrupted. The check lets it die at twelve places, resumes it, and counts.

# %% tags=["exercise"]
def run_mended(store, take, steps):
    return ...


### BEGIN SOLUTION
def run_mended(store, take, steps):
    begin = store.newest() or 0
    for step in range(begin, steps):
        take(step)
        store.save(step + 1)  # the number of steps that are done: where to begin the next time


### END SOLUTION
exercises.check("09.off_by_one", run_mended)

# %% [markdown]
# ## Three things to take away

# %%
takeaways = {
    "Save all that changes, and nothing was ever gone": f"killed at step {victim}, resumed at {resumed_at}: {differ} losses differ. The forgotten {worst}: {apart[worst]:.1f} times apart.",
    "Write beside, verify, keep the one before": f"killed while writing, {whole_after_over} files were left of those written over, {int(whole_after_beside)} of those renamed; torch.load took a flipped bit and {'said nothing' if 'nothing' in did else 'raised'}.",
    "Young's formula needs one measurement": f"{cost:.2f} s for a checkpoint, so one every {best:.0f} s.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep them as a record { display-mode: "form" }
value = reference.Value
device = next(now["model"].parameters()).device
reference.record(
    "09_survive", FAST, device=hardware.list_devices().cpu if device.type == "cpu" else hardware.list_devices().main,
    differ=value(differ, "", "losses that differ after a kill"),
    differ_after=value(differ_after, "", "scores that differ when nothing was forgotten"),
    **{f"forgot_{piece}": value(ratio, "×", f"apart at most, without the {piece}") for piece, ratio in apart.items()},
    left_over=value(whole_after_over, "", "checkpoints left when killed while writing over"),
    left_beside=value(int(whole_after_beside), "", "the same, written beside and renamed"),
    flipped=value(math.log10(largest), "", "a weight of 0.5 after one bit flipped, as torch.load took it: a power of ten"),
    went_on_from=value(went_on_from, "", "step resumed from, the one at 20 spoilt"),
    checkpoint=value(cost, "s", f"for a checkpoint of {MEGABYTES} MiB"),
    one_file=value(small_seconds / archive_seconds, "×", f"speed of {FILES} pictures from one file, one by one being 1"),
)

# %% [markdown]
# ## What comes next
#
# Your training is planned, and nothing can take it from you. Now make it fast: take the notebook that you care about most, and measure.
