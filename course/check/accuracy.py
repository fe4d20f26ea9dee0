"""Plans against measurements on this machine, and against published runs."""

from __future__ import annotations

import gc
import json
import statistics
from collections.abc import Iterator
from dataclasses import asdict
from datetime import date
from pathlib import Path

import torch

from colab_helpers import _files, benchmark, hardware, memory, plan, published
from colab_helpers.plan import accuracy
from course.check.networks import NANO, NETWORKS, RESNET50, Network
from course.table import Course

OPTIMIZERS = {"AdamW": torch.optim.AdamW, "SGD": torch.optim.SGD}
ROUNDS = 3  # the machine drifts: what is predicted and what is measured take turns
SECONDS = 1.0  # for each, in a round
#: Forward passes of nanoGPT's evaluations: 21 times 200 batches of two data sets. Its time holds about a
#: minute of compiling too, so it is an upper end. Source: karpathy/nanoGPT, train.py and
#: config/train_shakespeare_char.py, seen 2026-11-22.
EVALUATED = 21 * 2 * 200


def measure_all(course: Course) -> Path:
    """Try every network with every optimiser here, print the table, and keep it beside other machines'."""
    place = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    inventory = hardware.list_devices()
    name = (inventory.main if place.type == "cuda" else inventory.cpu).short_name
    others = [asdict(trial) for trial in accuracy.trials() if trial.device != name]
    mine = []
    for trial in trials(name, place):
        print(
            f"{trial.network:>25}, {trial.optimizer:5}: peak {trial.peak_off:+.2f} %, "
            f"time {trial.time_off:+.0f} % of {trial.measured_seconds * 1000:.0f} ms",
            flush=True,
        )
        mine.append(asdict(trial))
    compared = [asdict(run) for run in runs()]
    text = json.dumps({"trials": [*others, *mine], "runs": compared}, indent=1) + "\n"
    path = course.root / "colab_helpers" / "plan" / accuracy.FILE
    _files.write(path, text)
    return path


def trials(name: str, place: torch.device) -> Iterator[accuracy.Trial]:
    """Predict and measure each network on `place`, whose device is called `name`."""
    for network in NETWORKS:
        for optimizer in OPTIMIZERS:
            yield trial(name, place, network, optimizer)


def trial(name: str, place: torch.device, network: str, optimizer: str) -> accuracy.Trial:
    """Predict and measure one `network` with one `optimizer`, both by their names."""
    of = NETWORKS[network]
    torch.manual_seed(0)
    with place:
        model = of.make()
        forward = of.loss(model)
        trainer = OPTIMIZERS[optimizer](model.parameters(), 1e-4)

        def step() -> None:
            forward(of.rows).backward()
            trainer.step()
            trainer.zero_grad()

        work = plan.trace_step(model, forward, of.rows, trainer)
        step()
        peak = _peak(place, model, trainer, step)
        predicted, measured = [], []
        for _ in range(ROUNDS):
            measured.append(benchmark.measure(step, budget=SECONDS).median)
            predicted.append(plan.time_alone(work, place, SECONDS).seconds)
    return accuracy.Trial(
        name,
        network,
        optimizer,
        date.today().isoformat(),
        work.footprint.peak,
        peak,
        statistics.median(predicted),
        statistics.median(measured),
    )


def _peak(place: torch.device, model: torch.nn.Module, trainer: torch.optim.Optimizer, step) -> int:
    gc.collect()
    state = [list(entry.values()) for entry in trainer.state.values()]
    known = [list(model.parameters()), list(model.buffers()), state]
    with memory.track(place, known=known) as meter:
        step()
    return meter.peak


def runs() -> Iterator[accuracy.Run]:
    """Rehearse what others have published, and put the ceilings of its data sheet beside it."""
    t4, v100, a100 = (hardware.catalogue()[key] for key in ("T4", "V100", "A100-40"))
    images = RESNET50.rows
    inference = "ResNet-50, inference"
    yield _run("resnet-t4-fp32", images, t4, inference, _forward(torch.float32), images)
    yield _run("resnet-t4-mixed", images, t4, f"{inference}, fp16", _forward(torch.float16), images)
    training = "ResNet-50, training"
    full, mixed = _training(RESNET50, torch.float32), _training(RESNET50, torch.float16)
    yield _run("resnet-v100-training", "fp32", v100, training, full, images)
    yield _run("resnet-v100-training", "mixed precision", v100, f"{training}, fp16", mixed, images)
    a100_80 = hardware.catalogue()["A100-80"]
    yield _run(
        "resnet-a100-training", "mixed precision", a100_80, f"{training}, fp16", mixed, images
    )
    nano = _training(NANO, torch.bfloat16)
    tf32 = f"{training}, tf32"
    yield _run("resnet-a100-training", "tf32", a100_80, tf32, full, images)
    what = "nanoGPT, training, bf16"
    steps = 5001 + EVALUATED / 3  # a forward pass is a third of a step
    yield _compare("gpt-a100", "", a100, what, nano, published.get("gpt-a100").value / steps)


def _run(
    row: str, point: float | str, chip: hardware.Chip, what: str, work: plan.StepTrace, images: int
) -> accuracy.Run:
    return _compare(row, point, chip, what, work, images / published.get(row).points[point])


def _compare(
    row: str,
    point: float | str,
    chip: hardware.Chip,
    what: str,
    work: plan.StepTrace,
    seconds: float,
) -> accuracy.Run:
    least = sum(plan.ceilings(work, chip).values())
    return accuracy.Run(row, str(point), chip.key, what, least, seconds)


def _forward(dtype: torch.dtype) -> plan.StepTrace:
    with torch.device("meta"):
        model = RESNET50.make().to(dtype).eval()
    read = lambda rows: model(RESNET50.inputs(rows).to(dtype))  # noqa: E731
    return plan.trace_step(model, read, RESNET50.rows, None)


def _training(network: Network, dtype: torch.dtype) -> plan.StepTrace:
    with torch.device("meta"):
        model = network.make()
    loss = network.loss(model)

    def forward(rows: int) -> torch.Tensor:
        with torch.autocast("cpu", dtype=dtype, enabled=dtype is not torch.float32):
            return loss(rows)

    optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters())
    if network is RESNET50:  # as its source trains it
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.875)
    return plan.trace_step(model, forward, network.rows, optimizer, foreach=True)
