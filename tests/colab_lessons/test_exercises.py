"""For each exercise: the stub is open, the solution right, wrong answers name the misconception."""

import copy
import importlib
import pkgutil
import shutil
import subprocess
import sys
import threading
import time

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import colab_lessons.exercises as exercises
from colab_helpers import memory
from colab_lessons.exercises import lesson_07
from tests import slow
from tests.colab_lessons import adapters, puzzles
from tests.colab_lessons.odd_answers import inside, values

LIMITS = {"a + b": "bandwidth", "A @ B, n = 128": "launch", "A @ B, n = 4096": "compute"}
STEPS = ["decode", "cache", "shuffle", "batch", "prefetch"]
SUM = {"T4": 0.5, "faster multiplier": 0.275}
PAYS = {"milliseconds": 210, "tokens": 4667}
CHEAPEST = {"12 hours": "L4", "8 hours": "L4", "3 hours": "A100"}
FITS = {"16 bits": 16.2, "4 bits": 6.066}
PART = {"weights": 262144, "percent": 0.5208}
MIXTURE = adapters.rows()
PLAN, PLAN_OPEN = ({"global batch": a, "learning rate": b} for a, b in ((384, 0.3), (..., ...)))
LEAK = {"line": 3, "instead": "history.append(loss.item())"}
OOM = {"GiB alive": 9.80, "reason": "pieces"}
CURES = lesson_07.CURES
ORDER = ["backward", "unscale", "clip", "step", "update"]
READING = {"MiB not in use": 15502, "PID": 3485, "CUDA 13.0 toolkit": "cannot tell"}


def grown(x):
    for _ in range(20):
        x = 3.7 * x * (1 - x)
    return x


def slowly(starts):
    return [grown(x) for x in starts]


def quickly(starts):
    return grown(torch.tensor(starts, dtype=torch.float64)).tolist()


def roughly(starts):
    return grown(torch.tensor(starts))


def not_yet(starts):
    return ...


def with_a_thread(command, seconds):
    job = subprocess.Popen(command, start_new_session=True)
    threading.Timer(seconds, job.kill).start()
    return job


def started(command, seconds):
    limit = "import subprocess, sys; subprocess.run(sys.argv[2:], timeout=float(sys.argv[1]))"
    limited = [sys.executable, "-c", limit, str(seconds), *command]
    return subprocess.Popen(limited, start_new_session=True, stderr=subprocess.DEVNULL)


PIECES = [torch.full((16,), float(i)) for i in range(500)]


def slow_loop(pieces):
    return sum((piece * piece).sum().item() for piece in pieces)


def quick_loop(pieces):
    stacked = torch.stack(pieces).double()
    return (stacked * stacked).sum().item()


NUMBERS = torch.rand(2**21)


def many_passes(x):
    for _ in range(20):
        x = torch.sqrt(x * x + 0.01)
    return x


def one_pass(x):
    return torch.sqrt(x * x + 0.2)


def overwriting(x):
    return x.mul_(0)


WAITS = {"CUDA graphs": "R", "a faster GPU": "P", "can't say": "Q"}


def exposed_communication(gpu, start, end):
    def during(events):
        spans = [(max(e["ts"], start), min(e["ts"] + e["dur"], end)) for e in events]
        return {microsecond for span in spans for microsecond in range(*span)}

    return len(during(gpu) - during([e for e in gpu if "nccl" not in e["name"].lower()]))


def slow_pairs(logits, targets):
    best = logits.flatten(0, 1).topk(3).indices
    return [
        (target.item(), *(guess.item() for guess in guesses))
        for guesses, target in zip(best, targets.flatten(), strict=True)
    ]


def fast_pairs(logits, targets):
    best = logits.flatten(0, 1).topk(3).indices
    return [tuple(row) for row in torch.cat([targets.reshape(-1, 1), best], 1).tolist()]


def small_job():
    with torch.device("meta"):
        network = torch.nn.Linear(1000, 1000)
    loss = lambda batch_size: network(torch.zeros(batch_size, 1000)).sum()  # noqa: E731
    return network, loss, torch.optim.SGD(network.parameters())


def largest(job):
    network, loss, optimizer = job()
    small, large = (memory.footprint(network, loss, n, optimizer).peak for n in (10_000, 20_000))
    return int((14e9 - 2 * small + large) // ((large - small) / 10_000))


LARGEST = largest(small_job)


def hungry(network, x, y):
    return torch.nn.functional.cross_entropy(network(x), y)


def modest(network, x, y):
    for block in network[:-1]:
        x = checkpoint(block, x, use_reentrant=False)
    return torch.nn.functional.cross_entropy(network[-1](x), y)


def half_as_much(network, x, y):
    return modest(network, x, y) / 2


def spendthrift(network, x, y):
    torch.nn.functional.cross_entropy(network(x), y).backward()


def in_parts(network, x, y, weigh=True):
    for part_x, part_y in zip(x.split(64), y.split(64), strict=True):
        loss = torch.nn.functional.cross_entropy(network(part_x), part_y)
        (len(part_x) / len(x) * loss if weigh else loss).backward()


def plain_mean_of_parts(network, x, y):
    in_parts(network, x, y, weigh=False)


def stuck(network, optimizer, x, y, steps, scaled=False, mixed=True):
    scaler = torch.amp.GradScaler("cpu", enabled=scaled)
    for _ in range(steps):
        with torch.autocast("cpu", dtype=torch.float16, enabled=mixed):
            loss = torch.nn.functional.cross_entropy(network(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def first_not_finite(network, x):
    for name, module in network.named_children():
        x = module(x)
        if not x.isfinite().all():
            return name
    return None


def with_a_scaler(network, optimizer, x, y, steps):
    stuck(network, optimizer, x, y, steps, scaled=True)


def in_float32(network, optimizer, x, y, steps):
    stuck(network, optimizer, x, y, steps, mixed=False)


class Batches:
    """Two batches of images and labels, each of which takes its time."""

    def __init__(self, wait, images=3):
        self.wait, self.images = wait, images

    def __iter__(self):
        for _ in range(2):
            time.sleep(self.wait)
            yield torch.ones(self.images, 2), torch.zeros(3)


def slow_batches():
    return Batches(0.01)


#: id -> (context, stub, solution, [(wrong answer, words of the misconception)])
MISSING = {"A": "optimizer", "B": "scaler", "C": "scheduler"}


class Run:
    """As in the lesson."""

    def __init__(self):
        self.model, self.average = torch.nn.Linear(8, 1), torch.nn.Linear(8, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.05, momentum=0.9)
        self.generator = torch.Generator().manual_seed(0)
        self.best = float("inf")

    def step(self):
        x = torch.rand(16, 8, generator=self.generator)
        loss = (self.model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        for kept, new in zip(self.average.parameters(), self.model.parameters(), strict=True):
            kept.data.lerp_(new.data, 0.1)
        self.best = min(self.best, loss.item())


def keep(run, copy=copy.deepcopy):
    state = {name: getattr(run, name).state_dict() for name in ("model", "average", "optimizer")}
    return copy(state | {"generator": run.generator.get_state(), "best": run.best})


def all_gather(parts, rank, n, first=None, last=0):
    """The second round of a ring; from step `first`, and `last` steps too few, it's wrong."""
    import torch
    from torch import distributed

    for step in range(n if first is None else first, 2 * n - 1 - last):
        give, take = (rank - step) % n, (rank - step - 1) % n
        inbox = torch.empty_like(parts[take])
        sent = distributed.isend(parts[give], (rank + 1) % n)
        distributed.recv(inbox, (rank - 1) % n)
        sent.wait()
        parts[take].copy_(inbox if step >= n - 1 else parts[take] + inbox)


def tie(overhead, slow, fast):
    return (overhead / (2 / slow - 2 / fast)) ** (1 / 3)


def timed(launch, wait):
    launch()
    wait()
    return timed_cold(launch, wait)


def timed_cold(launch, wait):
    start = time.perf_counter()
    launch()
    wait()
    return time.perf_counter() - start


CACHES = {"32 heads": 2.147, "8 heads": 0.537}


def uncapped(weights, cache, speed, bandwidth):
    return 2 * weights / bandwidth / (2 * weights / speed - cache / bandwidth)


def crossing(*sizes):
    found = uncapped(*sizes)
    return found if found > 0 else float("inf")


def admitted(waiting, free, room):
    taken, refused = [], []
    for tokens in waiting:
        if tokens > room:
            refused.append(tokens)
        elif tokens > free:
            break
        else:
            taken.append(tokens)
            free -= tokens
    return taken, refused


CASES = {
    "01.clock": (
        {}, not_yet, timed,
        [(lambda launch, wait: launch() or 1e-5, "Wait first"), (timed_cold, "before you start the clock"),
         ("fast", "raised an error"), (lambda launch, wait: None, "should be a number")],
    ),
    "01.crossing": (
        {"core": 7e10, "h100": 4.8e13}, not_yet, tie,
        [(lambda *given: tie(*given) ** 3, "cube root"), (lambda a, slow, _: tie(a, slow, 9e99), "2n³/fast"),
         (lambda *given: 2 ** (1 / 3) * tie(*given), "not n³"), (lambda *given: 100, "equal"),
         (3, "raised an error"), (lambda *given: "a", "should be a number")],
    ),
    "01.quickly": (
        {"slowly": slowly}, not_yet, quickly,
        [(slowly, "the goal is 2×"), (roughly, "64 bits"), (lambda starts: [0.5], "1 come out"),
         (lambda starts: [7.0] * len(starts), "The numbers differ"), (3, "raised an error")],
    ),
    "02.at_least": (
        {}, ..., 5 / 3,
        [(5 / 6, "read and written"), (5 / 24, "4 bytes"), (5 / 3000, "another unit"),
         (0.01199, "arithmetic"), (7, "50 million"), ("fast", "should be a number")],
    ),
    "02.limits": (
        {}, dict.fromkeys(LIMITS, ...), LIMITS,
        [({**LIMITS, "a + b": "compute"}, "500"), ({**LIMITS, "a + b": "launch"}, "500"),
         ({**LIMITS, "A @ B, n = 128": "compute"}, "1.0 µs"),
         ({**LIMITS, "A @ B, n = 128": "bandwidth"}, "0.8 µs"),
         ({**LIMITS, "A @ B, n = 4096": "bandwidth"}, "33"),
         ({**LIMITS, "A @ B, n = 4096": "launch"}, "33 ms")],
    ),
    "02.read_smi": (
        {}, dict.fromkeys(READING, ...), READING,
        [({**READING, "MiB not in use": 7532}, "what is used"),
         ({**READING, "MiB not in use": 23034}, "the total"),
         ({**READING, "MiB not in use": 15510}, "one process"),
         ({**READING, "MiB not in use": 1}, "total minus used"),
         ({**READING, "PID": 0}, "number of the GPU"), ({**READING, "PID": 7524}, "is MiB"),
         ({**READING, "PID": 12}, "last line"),
         ({**READING, "CUDA 13.0 toolkit": "yes"}, "newest that this driver"),
         ({**READING, "CUDA 13.0 toolkit": "no"}, "the driver only"),
         ({**READING, "CUDA 13.0 toolkit": ...}, "Still without")],
    ),
    "02.fewer_passes": (
        {"many_passes": many_passes, "numbers": NUMBERS}, lambda x: ..., one_pass,
        [(many_passes, "the goal is 2×"), (lambda x: x + 1, "The numbers differ"),
         (overwriting, "were overwritten"), (lambda x: 3, "A tensor of shape"), (3, "raised an error")],
    ),
    "04.quick_batches": (
        {"slow_batches": slow_batches}, lambda: ..., lambda: Batches(0.001),
        [(slow_batches, "the goal is 2×"), (lambda: Batches(0.001, images=4), "Batch 1 differs"),
         (list, "number of batches"), (3, "raised an error")],
    ),
    "03.quick_loop": (
        {"slow": slow_loop, "pieces": PIECES}, not_yet, quick_loop,
        [(slow_loop, "wait once"), (lambda pieces: 1.0, "yours 1"), (3, "raised an error")],
    ),
    "03.amdahl": (
        {}, ..., 80 / 62,
        [(10, "waiting isn't"), (0.775, "Turn it round"), (80 / 60, "infinitely fast"), (2, "60 + 2 ms"),
         ("fast", "should be a number")],
    ),
    "03.move_less": (
        {}, ..., 47.04,
        [(188.16, "float32"), (44.86, "MiB"), (376.32, "Mbit"), (0, "cross once"), (60, "one byte each")],
    ),
    "03.hidden_stops": (
        {}, ..., {3, 5, 7},
        [({3, 7}, "line 5"), ({5, 7}, "line 3"), ({3, 5}, "line 7"), ({1, 3, 5, 7}, "line 1 only adds"),
         ({3, 4, 5, 7}, "nobody asks"), ({2, 3, 5, 7}, "line 2"), ({3, 5, 6, 7}, "line 6"),
         ({3, 5, 7, 9}, "there is none"), (3, "raised an error")],
    ),
    "04.waits": (
        {}, ..., 85,
        [(0.85, "a percentage"), (15, "share of training"), (100 * 5100 / 900, "not speeds"), (50, "1/900 s"),
         ("much", "should be a number")],
    ),
    "04.pipeline": (
        {}, ..., STEPS,
        [(["cache", "decode", *STEPS[2:]], "decoded again"),
         (["decode", "shuffle", "cache", *STEPS[3:]], "one order"),
         (["decode", "cache", "batch", "shuffle", "prefetch"], "whole batches"),
         (["decode", "cache", "shuffle", "prefetch", "batch"], "stands last"),
         (STEPS[:4], "each of these once"), ("decode cache", "not one text")],
    ),
    "05.buckets": (
        {}, lambda length: ..., lambda length: -(-length // 128) * 128,
        [(lambda length: length, "as many compilations"), (lambda length: 1024, "adds 100%"),
         (lambda length: 512, "does not fit"), (128, "A function is wanted"),
         (lambda length: 2 ** max(4, (length - 1).bit_length()), "Powers of two")],
    ),
    "04.global_batch": (
        {}, PLAN_OPEN, PLAN,
        [({**PLAN, "global batch": 96}, "There are four"), ({**PLAN, "global batch": 24}, "you divided"),
         ({**PLAN, "global batch": 100}, "rows each"), ({**PLAN, "learning rate": 0.4}, "had 128 rows"),
         ({**PLAN, "learning rate": 0.1}, "unchanged"), ({**PLAN, "learning rate": 0.2}, "old batch"),
         ({**PLAN, "learning rate": ...}, "Still without"), (384, "raised an error")],
    ),
    "05.all_reduce": (
        {}, ..., 77776,
        [(19944, "How many bytes"), (79776, "bf16"), (8 * 77776, "all eight"), (77776 / 8, "not a part"),
         (4, "Three arrays"), ("f32", "should be a number")],
    ),
    "05.mesh": (
        {}, {"data": ..., "model": ...}, {"data": 2, "model": 4},
        [({"data": 8, "model": 1}, "51 GiB"), ({"data": 4, "model": 2}, "27 GiB"),
         ({"data": 1, "model": 8}, "longer"), ({"data": 3, "model": 4}, "not 8"),
         ({"data": 2, "model": ...}, "Still without"), (8, "raised an error")],
    ),
    "05.compiles": (
        {}, ..., {1, 3, 4},
        [({1, 3}, "new dtype"), ({1, 4}, "new shape"), ({3, 4}, "first call"), ({1, 2, 3, 4}, "Values"),
         ({1, 3, 4, 5}, "Values"), ({1, 3, 4, 6}, "kept"), ({1, 3, 4, 7}, "there is none"),
         (3, "raised an error")],
    ),
    "06.thrifty": (
        {"spendthrift": spendthrift}, lambda network, x, y: ..., in_parts,
        [(spendthrift, "60% are wanted"), (plain_mean_of_parts, "The gradients differ"),
         (lambda network, x, y: None, "no gradient"), (3, "raised an error")],
    ),
    "06.read_oom": (
        {}, {"GiB alive": ..., "reason": ...}, OOM,
        [({**OOM, "GiB alive": 4.1}, "in no use"), ({**OOM, "GiB alive": 13.9}, "in use?"),
         ({**OOM, "GiB alive": 14.56}, "the card"), ({**OOM, "GiB alive": 9}, "allocated by"),
         ({**OOM, "reason": "model"}, "eight times"), ({**OOM, "reason": "no"}, '"model" or'),
         ({**OOM, "reason": ...}, "Still without"), (9.8, "raised an error")],
    ),
    "06.way_out": (
        {}, ..., "accumulate",
        [("checkpoint", "cheaper"), ("half the batch", "changes the training"), ("chunked loss", "12.8 GB"),
         ("empty_cache", "four names")],
    ),
    "06.leak": (
        {}, {"line": ..., "instead": ...}, LEAK,
        [({**LEAK, "line": 2}, "overwrites its name"), ({**LEAK, "line": 4}, "A length"),
         ({**LEAK, "line": 1}, "outlives the loop"), ({**LEAK, "instead": "del loss"}, "the list holds"),
         ({**LEAK, "instead": "with torch.no_grad():"}, "around the whole loop"),
         ({**LEAK, "instead": "history.append(loss)"}, "Put a number"),
         ({**LEAK, "instead": "loss.item()"}, "still append"), ({**LEAK, "line": ...}, "Still without"),
         (3, "raised an error")],
    ),
    "07.scaler": (
        {}, dict.fromkeys(CURES, ...), CURES,
        [({**CURES, "3e-3": "scaler"}, "no harm"), ({**CURES, "3e-3": "bf16"}, "as it is"),
         ({**CURES, "1e-9": "no scaler"}, "a 0 of it"), ({**CURES, "1e-9": "bf16"}, "which fp16 holds"),
         ({**CURES, "1e-14": "scaler"}, "still below"), ({**CURES, "1e-14": "no scaler"}, "far below"),
         ({**CURES, "1e-14": ...}, "Still without"), ("bf16", "raised an error")],
    ),
    "07.culprit": (
        {}, lambda network, x: ..., first_not_finite,
        [(lambda network, x: "5", "behind the culprit"), (lambda network, x: "7", "behind the culprit"),
         (lambda network, x: "0", "layer 5 is broken"), ("5", "A function is wanted")],
    ),
    "07.rescue": (
        {}, ..., ORDER,
        [(["unscale", "backward", *ORDER[2:]], "before backward has made"),
         (["backward", "clip", "unscale", "step", "update"], "65,536 times too long"),
         (["backward", "unscale", "step", "clip", "update"], "taken already"),
         (["backward", "step", "unscale", "clip", "update"], "taken already"),
         ([*ORDER[:3], "update", "step"], "when the step is done"),
         (ORDER[:4], "each of these once"), ("backward", "not one text")],
    ),
    "07.learns": (
        {"stuck": stuck}, lambda network, optimizer, x, y, steps: ..., with_a_scaler,
        [(stuck, "guessing has 2.303"), (in_float32, "keep the autocast"), (3, "raised an error")],
    ),
    "08.multiplier": (
        {}, dict.fromkeys(SUM, ...), SUM,
        [({**SUM, "T4": 0.25}, "And the bytes"), ({**SUM, "T4": 2}, "60 GB at 240"),
         ({**SUM, "faster multiplier": 0.05}, "no faster"), ({**SUM, "faster multiplier": 3}, "same 60 GB"),
         ({**SUM, "T4": ...}, "Still without"), (3, "raised an error")],
    ),
    "08.your_model": (
        {"job": small_job}, ..., LARGEST,
        [(LARGEST + 3000, "too many"), (LARGEST // 2, "still fits"), (0.5, "round down"),
         ("many", "should be a number")],
    ),
    "08.cheapest": (
        {}, dict.fromkeys(CHEAPEST, ...), CHEAPEST,
        [({**CHEAPEST, "12 hours": "T4"}, "burn 10.7 units"), ({**CHEAPEST, "12 hours": "A100"}, "10.6"),
         ({**CHEAPEST, "8 hours": "T4"}, "takes 10"), ({**CHEAPEST, "8 hours": "A100"}, "in time with fewer"),
         ({**CHEAPEST, "3 hours": "L4"}, "takes 6"), ({**CHEAPEST, "3 hours": "T4"}, "takes 10"),
         ({**CHEAPEST, "3 hours": ...}, "Still without"), (3, "raised an error")],
    ),
    "08.modest": (
        {"hungry": hungry}, lambda network, x, y: ..., modest,
        [(hungry, "The goal is half"), (half_as_much, "differ"), (3, "raised an error")],
    ),
    "09.missing": (
        {}, dict.fromkeys(MISSING, ...), MISSING,
        [({**MISSING, "A": "scheduler"}, "small steps"), ({**MISSING, "A": "scaler"}, "nothing jumps"),
         ({**MISSING, "B": "optimizer"}, "too far"), ({**MISSING, "B": "scheduler"}, "still changes"),
         ({**MISSING, "C": "random"}, "dropout"), ({**MISSING, "C": "noise"}, "look like luck"),
         ({**MISSING, "C": "scaler"}, "it resumed with"), ({**MISSING, "C": "position"}, "move it more"),
         (3, "raised an error")],
    ),
    "09.interval": (
        {}, ..., 720,
        [(537, "still on its way"), (379, "2 below the root"), (9, "Those are minutes"),
         (60, "and a copy"), ("often", "should be a number")],
    ),
    "09.keep": (
        {"run_class": Run}, lambda run: ..., keep,
        [(lambda run: {"model": run.model.state_dict()}, "4 of five attributes"),
         (lambda run: keep(run, copy=lambda state: state), "The state of model is not that of the moment"),
         (lambda run: {**keep(run), "best": 0.0}, "The state of best"),
         (lambda run: 3, "A dict is wanted"), (3, "raised an error")],
    ),
    "10.pairs": (
        {"slow": slow_pairs}, lambda logits, targets: ..., fast_pairs,
        [(slow_pairs, "128 values one by one"),
         (lambda logits, targets: fast_pairs(logits, targets)[::-1], "per position"),
         (lambda logits, targets: slow_pairs(logits, targets)[:5], "per position"),
         (lambda logits, targets: 3, "should return a list"), (3, "raised an error")],
    ),
    "10.waits": (
        {}, dict.fromkeys(WAITS, ...), WAITS,
        [({**WAITS, "CUDA graphs": "P"}, "without Python"), ({**WAITS, "a faster GPU": "R"}, "waited for"),
         ({**WAITS, "can't say": "P"}, "launched long before"), (3, "raised an error")],
    ),
    "10.exposed": (
        {}, lambda gpu, start, end: ..., exposed_communication,
        [(lambda gpu, start, end: 100, "count the time once"), (lambda gpu, start, end: 65, "between start"),
         (lambda gpu, start, end: 7, "nothing else"), (3, "raised an error")],
    ),
    "11.pays": (
        {}, dict.fromkeys(PAYS, ...), PAYS,
        [({**PAYS, "milliseconds": 120}, "A ring sends more"),
         ({**PAYS, "milliseconds": 0.21}, "are seconds"), ({**PAYS, "milliseconds": 240}, "2 × 7/8"),
         ({**PAYS, "tokens": 28_000}, "costs 6 FLOP"),
         ({**PAYS, "tokens": 100}, "as long as"), ({**PAYS, "tokens": ...}, "Still without"),
         (3, "raised an error")],
    ),
    "11.factor": (
        {}, lambda mine, total, workers: ..., lambda mine, total, workers: mine * workers / total,
        [(lambda mine, total, workers: mine / total, "Make up for that"),
         (lambda mine, total, workers: total / mine, "44 of 60 rows"),
         (lambda mine, total, workers: float("nan"), "not nan"), (3, "raised an error")],
    ),
    "11.gather": (
        {}, lambda parts, rank, n: ..., all_gather,
        [(lambda parts, rank, n: None, "received anything"),
         (lambda parts, rank, n: all_gather(parts, rank, n, first=0), "parts are added"),
         (lambda parts, rank, n: all_gather(parts, rank, n, last=1), "should hold 10, 11, 12"),
         (lambda parts, rank, n: parts[5], "IndexError")],
    ),
    "11.mine": (
        {"network": torch.nn.Linear(999, 1000), "per_byte": 1e-9}, ..., 4e-3,
        [(4, "Those are milliseconds"), (1e-3, "How many bytes"), (1, "how many for yours"),
         ("a", "should be a number")],
    ),
    "12.fits": (
        {}, dict.fromkeys(FITS, ...), FITS,
        [({**FITS, "16 bits": 32}, "2 bytes for each"), ({**FITS, "4 bits": 5.85}, "Add the scales"),
         ({**FITS, "4 bits": 4.303}, "stay in 16 bits"), ({**FITS, "4 bits": 34}, "the rest takes 16"),
         ({**FITS, "4 bits": ...}, "Still without"), (3, "raised an error")],
    ),
    "12.chip": (
        {}, {"rows": ..., "tokens": ...}, {"rows": 400, "tokens": 37.5},
        [({"rows": 200, "tokens": 37.5}, "are 2 FLOP"), ({"rows": 800, "tokens": 1}, "not 1 or 4"),
         ({"rows": 175, "tokens": 37.5}, "divide the two rates"),
         ({"rows": 400, "tokens": 18}, "the whole model once"),
         ({"rows": 400, "tokens": ...}, "Still without"), (3, "raised an error")],
    ),
    "12.positive": (
        {}, lambda x: ..., lambda x: (x / x.max() * 255).round() / 255 * x.max(),
        [(lambda x: (x / x.max() * 127).round() / 127 * x.max(), "127 steps"),
         (lambda x: (x / x.max() * 255).floor() / 255 * x.max(), "a whole step"),
         (lambda x: (x / x.max() * 255).round().to(torch.int8) / 255 * x.max(), "ends at 127"),
         (lambda x: x, "256 codes"), (lambda x: x * float("nan"), "256 codes"),
         (lambda x: x[:5], "as many numbers"), (3, "raised an error")],
    ),
    "13.guard": (
        {}, puzzles.nothing, puzzles.guarded,
        [(puzzles.unguarded, "writes to (5, 0), and there are 5 rows"),
         (puzzles.half_guarded, "Guard both"), (puzzles.too_guarded, "keep out too many"),
         (puzzles.below_each_other, "down a column"), (puzzles.all_of_them, "several cells"),
         (puzzles.doubled, "larger by 1"), (puzzles.read_first, "before anything else"),
         (puzzles.one_writes_all, "write to several cells")],
    ),
    "13.transpose": (
        {}, puzzles.nothing, puzzles.transposed,
        [(puzzles.transposed_slowly, "writes 32 sectors"),
         (puzzles.transposed_from_columns, "reads 32 sectors"),
         (puzzles.transposed_racing, "before others have written"), (puzzles.copied, "a copy"),
         (puzzles.transposed_beyond, "outside of the matrix")],
    ),
    "13.tiles": (
        {}, puzzles.nothing, puzzles.tiled,
        [(puzzles.without_guard, "goes outside a"), (puzzles.with_holes, "with 0 if need be"),
         (puzzles.without_barriers, "wait twice"), (puzzles.one_barrier, "wait twice"),
         (puzzles.waiting_in_a_branch, "reach 6 barriers, others 0"),
         (puzzles.from_memory, "reads a matrix 8,000 times")],
    ),
    "13.softmax": (
        {}, lambda largest, total, block: ..., puzzles.one_pass,
        [(puzzles.uncorrected, "still refers to the old"), (puzzles.overflowing, "overflows"),
         (puzzles.last_block, "Compare old and new"), (puzzles.inverse, "exp(old - new)"),
         (puzzles.exp_above_zero, "overflows"), (puzzles.forgetting, "should be 1.553"),
         (lambda largest, total, block: 3, "Return two numbers"), (3, "raised an error")],
    ),
    "14.costs": (
        {}, {"H100": ..., "A100": ...}, {"H100": 79.8, "A100": 85.92},
        [({"H100": 3.99, "A100": 85.92}, "20 hours"), ({"H100": 79.8, "A100": 1.79}, "48 hours"),
         ({"H100": 79.8, "A100": ...}, "Still without"), (3, "raised an error")],
    ),
    "14.start": (
        {}, lambda command, seconds: ..., started,
        [(lambda command, seconds: subprocess.Popen(command), "start_new_session"),
         (lambda command, seconds: subprocess.Popen(command, start_new_session=True), "still runs"),
         (lambda command, seconds: subprocess.run(command), "Return what"),
         (lambda command, seconds: subprocess.Popen(["true"]), "never began"),
         (with_a_thread, "would die with it"), (3, "raised an error")],
    ),
    "14.close": (
        {}, lambda folder: ..., lambda folder: folder.chmod(0o700),
        [(lambda folder: folder.chmod(0o755), "Your group"), (lambda folder: folder.chmod(0o705), "Others"),
         (lambda folder: folder.chmod(0o000), "locked yourself out"),
         (lambda folder: [path.chmod(0o600) for path in folder.iterdir()], "Your group"),
         (lambda folder: shutil.rmtree(folder), "folder is gone"),
         (lambda folder: (folder / "a.csv").unlink(), "Something in"), (3, "raised an error")],
    ),
    "15.adapter": (
        {}, {"weights": ..., "percent": ...}, PART,
        [({**PART, "weights": 4096 * 12288}, "That's the layer"),
         ({**PART, "weights": 16 * 4096}, "one of the two"), ({**PART, "weights": 3}, "of both"),
         ({**PART, "percent": 0.00521}, "a fraction"), ({**PART, "percent": 2}, "layer's own"),
         ({**PART, "percent": ...}, "Still without"), (3, "raised an error")],
    ),
    "15.merge": (
        {"adapter": adapters.Adapter}, lambda layer: ..., adapters.merged,
        [(adapters.frozen_alone, "frozen layer alone"), (adapters.added_once, "layer.plugged"),
         (adapters.without_bias, "has a bias"), (adapters.transposed, "the layer's is"),
         (adapters.wrong, "other numbers"), (adapters.with_a_bias, "bias=False"),
         (lambda layer: layer, "an nn.Linear"), (3, "raised an error")],
    ),
    "15.mixture": (
        {}, ..., MIXTURE,
        [(MIXTURE[:600], "no additions"), (MIXTURE[600:], "no subtractions"),
         (MIXTURE[:, :9], "have no END"), (MIXTURE.roll(1, 1), "last one is END"),
         (MIXTURE[:650], "too few distinct"), (MIXTURE.repeat(10, 1), "at most 10,000"),
         (MIXTURE.clamp_max(1) * 13, "neither"), (MIXTURE.double(), "whole numbers"),
         (adapters.relabeled(MIXTURE), "is wrong"), (adapters.rows(1100)[:1150], "what's rare"),
         (3, "One tensor")],
    ),
    "16.caches": (
        {}, dict.fromkeys(CACHES, ...), CACHES,
        [({**CACHES, "32 heads": 1.0737}, "keys and values"), ({**CACHES, "32 heads": 0.0671}, "one layer"),
         ({**CACHES, "32 heads": 2.147e9}, "bytes"), ({**CACHES, "32 heads": 7}, "Tokens ×"),
         ({**CACHES, "8 heads": 2.1475}, "proportional"), (3, "raised an error")],
    ),
    "16.compute_bound": (
        {}, lambda *sizes: ..., crossing,
        [(lambda weights, cache, speed, bandwidth: speed / bandwidth, "leaves the caches out"),
         (lambda *sizes: 2 * crossing(*sizes), "Off by two"), (lambda *sizes: 3.0, "it should be"),
         (lambda *sizes: abs(uncapped(*sizes)), "memory grows faster"), (3, "raised an error")],
    ),
    "16.admit": (
        {}, lambda waiting, free, room: ..., admitted,
        [(lambda waiting, free, room: ([], []), "is refused"),
         (lambda waiting, free, room: ([n for n in waiting if n <= free], [n for n in waiting if n > room]),
          "mustn't be overtaken"),
         (lambda waiting, free, room: waiting, "two lists"), (3, "raised an error")],
    ),
}  # fmt: skip


def all_exercises():
    for module in pkgutil.iter_modules(exercises.__path__, f"{exercises.__name__}."):
        importlib.import_module(module.name)
    return sorted(exercises.judging._registry)


def test_every_exercise_has_cases():
    assert sorted(CASES) == all_exercises()
    assert all(len(wrong) >= 2 for *_, wrong in CASES.values())


@pytest.mark.parametrize("id", CASES)
def test_untouched_stub_gets_the_hint(id):
    context, stub, _, _ = CASES[id]
    verdict = exercises.check(id, stub, **context)
    assert (verdict.status, verdict.message) == ("open", exercises.get(id).hint)


def test_an_answer_that_has_dots_in_it_is_an_answer():
    def doubled(x, out):
        out[...] = x * 2

    def every(x):
        return x[..., 0]

    for answer in (doubled, every):
        assert exercises.check("01.clock", answer).status != "open"


@pytest.mark.parametrize("id", CASES)
def test_solution_is_right(id):
    context, _, solution, _ = CASES[id]
    assert exercises.check(id, solution, **context).status == "right"


@pytest.mark.parametrize(
    ("id", "answer", "words"),
    [(id, answer, words) for id, (*_, wrong) in CASES.items() for answer, words in wrong],
)
def test_wrong_answer_names_the_misconception(id, answer, words):
    verdict = exercises.check(id, answer, **CASES[id][0])
    assert verdict.status == "wrong"
    assert words in verdict.message


@pytest.mark.timeout(60)
@pytest.mark.parametrize("id", slow.after(8, sorted(CASES, key=lambda id: id[::-1])))
def test_no_answer_whatsoever_raises_or_is_right_by_chance(id):
    context, _, solution, _ = CASES[id]
    counted = 0
    for answer in (*values(), *inside(solution)):
        verdict = exercises.check(id, answer, **context)
        counted += 1
        assert len(verdict.message) < 600
        assert "<script>" not in verdict._repr_mimebundle_()["text/html"]
        if verdict.status == "right":
            assert _means_the_same(answer, solution), verdict
    assert counted >= 65


def _means_the_same(answer, solution):
    """The right answer as another type: 40 as a tensor, or a function that works."""
    if callable(solution):
        return callable(answer)
    return float(answer) == solution


def test_an_error_in_the_learners_function_is_told_with_its_name():
    def typo(starts):
        return gorw(starts)  # noqa: F821

    message = exercises.check("01.quickly", typo, slowly=lambda starts: starts).message
    assert "NameError: name 'gorw' is not defined" in message


@pytest.mark.parametrize(
    "line",
    ["history.append(loss.detach())", "history.append(float(loss_function(model(x), y)))",
     "history.append(loss.cpu().item())", "history += [loss.item()]"],
)  # fmt: skip
def test_other_ways_to_mend_the_leak_are_right(line):
    assert exercises.check("06.leak", {"line": 3, "instead": line}).status == "right"


def test_verdict_speaks_to_people_and_machines():
    verdict = exercises.check("02.at_least", 5 / 24)
    bundle = verdict._repr_mimebundle_()
    assert bundle["text/plain"].startswith("Exercise 02.at_least · Not yet:")
    assert "Not yet" in bundle["text/html"]
    assert bundle["application/vnd.colab-helpers.record+json"]["status"] == "wrong"
