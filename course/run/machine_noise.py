"""Whether the machine was quiet while a lesson ran: the same matmul, timed before and after."""

from __future__ import annotations

import os
import subprocess
import sys

#: The largest change of the matmul's time with which a run is kept.
MAX_CHANGE = 0.10
#: How often a lesson is run in all before it is given up.
MAX_TRIES = 3
_MATMUL = """
import statistics, time, numpy
a = numpy.random.rand(1024, 1024).astype("float32")
times = []
for _ in range(120):
    start = time.perf_counter()
    a @ a
    times.append(time.perf_counter() - start)
print(statistics.quantiles(times[20:], n=4)[0])
"""


def reference_matmul_seconds() -> float:
    """Return the seconds of a 1,024 × 1,024 matmul on one core: the lower quartile of a hundred."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-c", _MATMUL],
        env={**os.environ, **one},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return float(done.stdout)


def disturbance(before: float, after: float) -> str:
    """Return a message if the matmul's time changed by more than `MAX_CHANGE` during the run, else "".

    `before` and `after` are seconds.

    >>> disturbance(1.0, 1.05), disturbance(1.0, 1.3)
    ('', 'a matmul took 1.30 times as long after the lesson as before it')
    """
    change = after / before
    if 1 / (1 + MAX_CHANGE) <= change <= 1 + MAX_CHANGE:
        return ""
    return f"a matmul took {change:.2f} times as long after the lesson as before it"
