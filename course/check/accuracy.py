"""Plans against measurements on this machine, and against published runs."""

from __future__ import annotations

import gc
import json
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import date
from pathlib import Path

import torch

from colab_helpers import _files, benchmark, hardware, plan, published
from colab_helpers.plan import accuracy
from colab_lessons import ladder
from colab_lessons.networks import NANO, NETWORKS, RESNET50, SEVEN, TEN, Network
from course.table import Course

OPTIMIZERS = {"AdamW": torch.optim.AdamW, "SGD": torch.optim.SGD}
ROUNDS = 3  # the machine drifts: what is predicted and what is measured take turns
SECONDS = 1.0  # for each, in a round
_SECOND = "second step"  # marks it in a profile
#: Forward passes of nanoGPT's evaluations: 21 times 200 batches of two data sets. Its time holds about a
#: minute of compiling too, so it is an upper end. Source: karpathy/nanoGPT, train.py and
#: config/train_shakespeare_char.py, seen 2026-11-22.
EVALUATED = 21 * 2 * 200


def measure_all(course: Course) -> Path:
    """Try every network with every optimiser here, print the table, and keep it beside other machines'."""
    place = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    inventory = hardware.list_devices()
    name = (
        inventory.main.short_name
        if place.type == "cuda"
        else f"{inventory.cpu.short_name}, one thread"  # two that share a busy core wait for each other
    )
    torch.set_num_threads(1)
    others = [asdict(trial) for trial in accuracy.trials() if trial.device != name]
    mine = []
    for trial in trials(name, place):
        print(
            f"{trial.network:>25}, {trial.optimizer:5}: peak {trial.peak_off:+.2f} %, "
            f"{trial.time_ratio:.2f} times as long as planned ({trial.measured_seconds * 1000:.0f} ms)",
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
    work, step = _prepared(place, of, optimizer)
    step()
    predicted, measured = [], []
    with place:
        for _ in range(ROUNDS):
            measured.append(benchmark.measure(step, budget=SECONDS).median)
            predicted.append(plan.time_alone(work, place, SECONDS).seconds)
    del step
    return accuracy.Trial(
        name,
        network,
        optimizer,
        date.today().isoformat(),
        work.footprint.peak,
        independent_peak(place, of, optimizer),
        statistics.median(predicted),
        statistics.median(measured),
    )


def independent_peak(place: torch.device, of: Network, optimizer: str) -> int:
    """Return the peak bytes of a second step by a meter that the planner has no part in.

    On a GPU that is CUDA's own counter; on a CPU the allocator's events in a profile that begins before the
    model is made, oneDNN's buffers among them.
    """
    gc.collect()
    if place.type == "cuda":
        _, step = _prepared(place, of, optimizer)
        step()
        torch.cuda.reset_peak_memory_stats(place)
        step()
        return torch.cuda.max_memory_allocated(place)
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, profile_memory=True) as profile:
        _, step = _prepared(place, of, optimizer)
        step()
        with torch.profiler.record_function(_SECOND):
            step()
    return _highest(profile)


def _prepared(
    place: torch.device, of: Network, optimizer: str
) -> tuple[plan.StepTrace, Callable[[], None]]:
    """The trace of a step, and the step itself."""
    torch.manual_seed(0)
    with place:
        model = of.make()
        forward = of.loss(model)
        trainer = OPTIMIZERS[optimizer](model.parameters(), 1e-4)
        work = plan.trace_step(model, forward, of.rows, trainer)

    def step() -> None:
        with place:
            forward(of.rows).backward()
        trainer.step()
        trainer.zero_grad()

    return work, step


def _highest(profile: torch.profiler.profile) -> int:
    """The most bytes that lived at once while the second step ran."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        events = json.loads(path.read_text("utf-8"))["traceEvents"]
    step = next(e for e in events if e.get("name") == _SECOND and "dur" in e)
    live = highest = 0
    for event in sorted((e for e in events if e.get("name") == "[memory]"), key=lambda e: e["ts"]):
        live += event["args"]["Bytes"]
        if step["ts"] <= event["ts"] <= step["ts"] + step["dur"]:
            highest = max(highest, live)
    return highest


def runs() -> Iterator[accuracy.Run]:
    """Trace what others have published, and put what `plan.ceilings` says beside it."""
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
    small = "GPT of 21 M, training, fp16"
    for row, of, portions in (("lm-20m-t4-fp16-colab", SEVEN, 2), ("gpt-21m-t4-fp16", TEN, 1)):
        half = _training(of, torch.float16)
        yield _compare(row, "", t4, small, half, published.get(row).value / portions)
    nano = _training(NANO, torch.bfloat16)
    tf32 = f"{training}, tf32"
    yield _run("resnet-a100-training", "tf32", a100_80, tf32, full, images)
    what = "nanoGPT, training, bf16"
    steps = 5001 + EVALUATED / 3  # a forward pass is a third of a step
    yield _compare("gpt-a100", "", a100, what, nano, published.get("gpt-a100").value / steps)
    yield from _ladder()


def _ladder() -> Iterator[accuracy.Run]:
    """GPT-2 in bf16 on an A100, written better and better."""
    a100, speed = hardware.catalogue()["A100-40"], published.get("ladder-a100")
    for point, native, flash, what in (
        ("bf16", False, False, "by hand"),
        ("PyTorch's own layers", True, False, "own layers"),
        ("FlashAttention", True, True, "FlashAttention"),
    ):
        with torch.device("meta"):
            network = ladder.GPT2(native, flash, torch.bfloat16)

        def loss(rows: int, network: torch.nn.Module = network) -> torch.Tensor:
            ids = torch.zeros(rows, ladder.TOKENS, dtype=torch.long)
            return torch.nn.functional.cross_entropy(network(ids).flatten(0, 1), ids.flatten())

        adamw = torch.optim.AdamW(network.parameters(), fused=True)
        work = plan.trace_step(network, loss, 8, adamw)
        seconds = 8 * ladder.TOKENS / speed.points[point]
        name = f"GPT-2, {what}, training, bf16"
        yield _compare("ladder-a100", point, a100, name, work, seconds)


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
