"""What does the helper itself cost, does its clock agree with PyTorch's, and are the tests quick?"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

from colab_helpers import _units, benchmark
from colab_helpers.lessons import models
from course.prove.simulated import AsynchronousDevice
from course.table import Course, CourseError

ROUNDS = 5
SECONDS = 0.5
SIZES = (64, 256, 512, 1024, 2048)
WAITS = (5e-6, 10e-6, 20e-6, 40e-6)  # seconds
KERNELS = (5e-6, 20e-6, 100e-6, 500e-6)  # seconds


@dataclass(frozen=True)
class Agreement:
    """Median seconds of one n × n product by both timers, and our time over theirs in each round."""

    n: int
    threads: int
    ours: float
    theirs: float
    ratios: tuple[float, ...]

    def __str__(self) -> str:
        ratios = " ".join(f"{ratio:.3f}" for ratio in self.ratios)
        return (
            f"  {self.threads} threads, n = {self.n:<5} ours {_units.seconds(self.ours):>8}  "
            f"torch {_units.seconds(self.theirs):>8}  ratio {statistics.median(self.ratios):.3f} "
            f"({ratios})"
        )


def start_up(code: str, runs: int = 15) -> float:
    """Return the median seconds of a fresh interpreter that runs `code`, without site packages."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-S", "-c", code], check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def timer_agreement(n: int, threads: int) -> Agreement:
    """Time an n × n product with both timers in turn, so that both meet the same weather."""
    import torch
    from torch.utils.benchmark import Timer

    a, before = torch.randn(n, n), torch.get_num_threads()
    theirs = Timer("a @ a", globals={"a": a}, num_threads=threads)
    torch.set_num_threads(threads)
    try:
        pairs = [
            (
                benchmark.measure(lambda: a @ a, budget=SECONDS).median,
                theirs.blocked_autorange(min_run_time=SECONDS).median,
            )
            for _ in range(ROUNDS)
        ]
    finally:
        torch.set_num_threads(before)
    ours_median, theirs_median = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratios = tuple(ours / other for ours, other in pairs)
    return Agreement(n, threads, ours_median, theirs_median, ratios)


def simulated_errors() -> dict[tuple[float, float], float]:
    """Return by how much the timer is off on a simulated device: (wait, kernel) -> a fraction."""
    return {
        (wait, kernel): AsynchronousDevice(kernel, wait).measure(budget=0.1).median / kernel - 1
        for wait in WAITS
        for kernel in KERNELS
    }


def gpt_step(batch: int = 32, budget: float = 10) -> benchmark.Measurement:
    """Time one training step of the lessons' GPT on this machine's best device."""
    import torch

    found = torch.accelerator.is_available()
    device = torch.accelerator.current_accelerator() if found else torch.device("cpu")
    model = models.GPT().to(device)
    ids = torch.randint(model.config.vocabulary, (batch, model.config.context + 1), device=device)
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        logits = model(ids[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss

    return benchmark.measure(step, budget=budget, name=f"GPT step on {device}")


def testing_time(course: Course) -> float:
    """Return the seconds of `make test-notebooks`: every check of every notebook."""
    return _seconds(["make", "test-notebooks"], course)


def plain_testing_time(course: Course) -> float:
    """Return the seconds of the plain way: each notebook with papermill, then with nbval, in turn.

    It runs the learner's cells twice, and does less: no solutions, no conditions, no other checks.
    """
    total = 0.0
    with tempfile.TemporaryDirectory() as out:
        for lesson in course.lessons:
            notebook = str(course.notebook(lesson))
            papermill = [sys.executable, "-m", "papermill", notebook, f"{out}/{lesson.slug}.ipynb"]
            total += _seconds([*papermill, "-p", "FAST", "True", "--cwd", out], course)
            nbval = [sys.executable, "-m", "pytest", "-q", "--nbval-lax", "--nbval-current-env"]
            total += _seconds([*nbval, "-c", os.devnull, notebook], course)
    return total


def _seconds(command: list[str], course: Course) -> float:
    start = time.perf_counter()
    done = subprocess.run(
        command, cwd=course.root, env={**os.environ, "FAST": "1"}, capture_output=True, text=True
    )
    if done.returncode:
        raise CourseError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return time.perf_counter() - start


def report_tests(course: Course) -> str:
    """Measure both ways of testing the notebooks and return the line to print."""
    ours, plain = testing_time(course), plain_testing_time(course)
    return (
        f"make test-notebooks: {_units.seconds(ours)}; papermill, then nbval, one notebook after "
        f"another: {_units.seconds(plain)}; {ours / plain:.2f} times as long (aim: 0.5)"
    )


def report_helper() -> str:
    """Measure the helper and return the lines to print."""
    bare = start_up("pass")
    ours = start_up("import sys; sys.path.insert(0, ''); import colab_helpers")
    lines = [
        f"start-up: bare interpreter {_units.seconds(bare)}, with import colab_helpers "
        f"{_units.seconds(ours)}: {ours / bare:.2f} times (aim: under 1.5)",
        "",
        f"timer against torch.utils.benchmark, median of {ROUNDS} rounds each (aim: within 3 %)",
    ]
    import torch

    lines += [
        str(timer_agreement(n, threads))
        for threads in sorted({1, torch.get_num_threads()})
        for n in SIZES
    ]
    lines += [
        "",
        "timer on a simulated device whose kernels take exactly so long (aim: within 3 %)",
    ]
    lines += [
        f"  wait {_units.seconds(wait):>7}, kernel {_units.seconds(kernel):>7}: {100 * off:+.2f} %"
        for (wait, kernel), off in simulated_errors().items()
    ]
    step = gpt_step()
    lines += [
        "",
        f"{step.name}: {step}",
        f"1,000 steps: {_units.seconds(1000 * step.median)} (estimate); "
        f"claim for a CPU: 1 h or more; here {1000 * step.median / 3600:.2f} of an hour",
    ]
    return "\n".join(lines)
