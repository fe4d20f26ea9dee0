"""A training that reads everything a checkpoint has to hold, in a process of its own."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy
import torch
from torch.nn import functional as F

from colab_helpers import checkpoints

STEPS, SAVE_EVERY = 300, 1
NEW_DISK_EVERY = 3  # every so many lives the local disk is a new one
MAX_CHANGES = 10  # in the folder, from a start to the kill
MAX_DELAY = 0.003  # seconds at most, from the last of them


def parts():
    """Return what is trained and all that trains it, from a fresh start."""
    torch.manual_seed(0)
    random.seed(0)
    numpy.random.seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.BatchNorm1d(256), torch.nn.Dropout(0.2), torch.nn.Linear(256, 10)
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    return {
        "model": model,
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=STEPS + 1),
        "scaler": torch.amp.GradScaler("cpu", growth_interval=7),
        "noise": numpy.random.default_rng(0),
        "python": random.Random(0),
        "torch": torch.Generator().manual_seed(0),
        "random": checkpoints.RandomState(),
        "losses": [],
    }


BATCHES = checkpoints.ResumableBatchSampler(examples=300, batch_size=32)
DATA = torch.rand(300, 64, generator=torch.Generator().manual_seed(1))


def step(number, now):
    """Take one step; every generator has a part in it."""
    rows = BATCHES[number]
    x = DATA[rows] + torch.from_numpy(now["noise"].normal(0, 0.1, (32, 64))).float()
    x = x * now["python"].random() + torch.rand(1, generator=now["torch"]) + random.random()
    x = x + float(numpy.random.rand())
    now["model"].train()
    loss = F.cross_entropy(now["model"](x), torch.tensor(rows) % 10)
    now["scaler"].scale(loss).backward()
    now["scaler"].step(now["optimizer"])
    now["scaler"].update()
    now["optimizer"].zero_grad()
    now["scheduler"].step()
    now["losses"].append(loss.item())


def fingerprint(now):
    """Return a digest of all weights and losses."""
    digest = hashlib.sha256(repr(now["losses"]).encode())
    for tensor in now["model"].state_dict().values():
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def train(folder, done):
    """Train to the end from wherever `folder` stands; write the fingerprint into the file `done`."""
    torch.set_num_threads(1)
    now = parts()
    store = checkpoints.Store(folder, local=Path(folder).parent / "local")
    begin = checkpoints.resume(store, now).step
    with (Path(folder).parent / "starts").open("a") as file:
        file.write(f"{begin}\n")
    for number in range(begin, STEPS):
        step(number, now)
        if (number + 1) % SAVE_EVERY == 0:
            checkpoints.save(store, number + 1, now)
    store.wait()
    Path(done).write_text(fingerprint(now))


def train_through_kills(folder, done, kills, seed):
    """Kill `kills` trainings at random moments, then let one end: each in a process of its own.

    The moments go by what a training does to its folder, so a slow machine dies at as many places.
    """
    draw = random.Random(seed)
    for life in range(kills + 1):
        if life % NEW_DISK_EVERY == NEW_DISK_EVERY - 1:
            shutil.rmtree(Path(folder).parent / "local", ignore_errors=True)
        child = os.fork()
        if child == 0:
            try:
                train(folder, done)
            finally:
                os._exit(0)
        if life < kills:
            places = Path(folder), Path(folder).parent / "local"
            _wait_for_changes(draw.choice(places), draw.randrange(MAX_CHANGES))
            time.sleep(draw.uniform(0, MAX_DELAY))
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _wait_for_changes(folder, count):
    """Wait until the files in `folder` have changed `count` times: a save comes, gets its name, drops one."""
    ends = time.monotonic() + 60
    for _ in range(count):
        before = _names(folder)
        while _names(folder) == before and time.monotonic() < ends:
            time.sleep(0.0002)


def _names(folder):
    return set(folder.iterdir()) if folder.is_dir() else set()


if __name__ == "__main__":
    torch.set_num_threads(1)  # no threads that a fork would lack
    step(0, parts())  # what is imported late is imported now, for all lives

    train_through_kills(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
