"""What the packages cost: start-up, the timer beside PyTorch's, how an explanation's time grows."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from colab_helpers import _units, benchmark

SIZES = (64, 256, 1024)
ROUNDS, SECONDS = 5, 0.3


def start_up(code: str, runs: int = 15) -> float:
    """Return the median seconds of a fresh interpreter that runs `code`, without site packages."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-S", "-c", code], check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def report() -> Iterator[str]:
    """Measure and yield the lines to print."""
    bare = start_up("pass")
    ours = start_up("import sys; sys.path.insert(0, ''); import colab_helpers")
    yield f"start-up with import colab_helpers: {ours / bare:.2f} × a bare interpreter"
    for n in SIZES:
        ours, theirs = _both_timers(n)
        yield f"timer, {n} × {n}: {_units.seconds(ours)}, torch's {_units.seconds(theirs)}"
    for size in (16_384, 65_536):
        yield f"explaining {size:,} characters: {_units.seconds(_explaining(size))}"


def _both_timers(n: int) -> tuple[float, float]:
    """The median seconds of one product by our timer and by PyTorch's, taken in turns."""
    import torch
    from torch.utils.benchmark import Timer

    a = torch.randn(n, n)
    theirs = Timer("a @ a", globals={"a": a}, num_threads=torch.get_num_threads())
    pairs = [
        (
            benchmark.measure(lambda: a @ a, budget=SECONDS).median,
            theirs.blocked_autorange(min_run_time=SECONDS).median,
        )
        for _ in range(ROUNDS)
    ]
    ours, others = (statistics.median(column) for column in zip(*pairs, strict=True))
    return ours, others


def _explaining(size: int) -> float:
    import colab_doctor

    text = ("DataLoader worker (pid 1) cuda memory " * size)[:size]
    colab_doctor.explain_error("warm up")
    start = time.perf_counter()
    colab_doctor.explain_error(text, "colab")
    return time.perf_counter() - start
