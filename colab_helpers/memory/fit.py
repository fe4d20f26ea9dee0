"""What fits, and how do I get memory back?"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import torch

from colab_helpers.memory.meter import track


def release() -> None:
    """Give back what nothing needs: old errors, unreachable objects, CUDA's cached blocks.

    An error that was shown keeps its traceback, the traceback its frames, and they your tensors.
    """
    for name in ("last_value", "last_traceback", "last_exc"):
        if hasattr(sys, name):
            delattr(sys, name)
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def largest_batch(
    step: Callable[[int], Any],
    budget: int,
    device: torch.device | str = "cpu",
    known: Any = (),
    limit: int = 2**20,
) -> int:
    """Return the largest number of rows, up to `limit`, for which `step(rows)` stays in `budget` bytes.

    Doubles the rows until memory runs out, then halves the gap. `known` counts as in `track`. Returns
    0 when not even one row fits. Other errors than out of memory are raised.

    >>> largest_batch(lambda rows: torch.zeros(rows, 250), budget=100_000)
    100
    """
    fits, fails = 0, limit + 1
    rows = 1
    while fails - fits > 1:
        if _fits(step, rows, budget, device, known):
            fits = rows
            rows = min(2 * rows, (fits + fails) // 2 if fails <= limit else limit)
        else:
            fails = rows
            rows = (fits + fails) // 2
    return fits


def _fits(
    step: Callable[[int], Any], rows: int, budget: int, device: torch.device | str, known: Any
) -> bool:
    failed = False
    try:
        with track(device, budget, known):
            step(rows)
    except torch.OutOfMemoryError:
        failed = True  # recover below: in here the error still holds the frames and their tensors
    if failed:
        release()
    return not failed
