"""Allocated and peak bytes of the tensors in a block of code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from colab_helpers.memory.cuda_tracker import track_cuda
from colab_helpers.memory.storage_tracker import count_storages
from colab_helpers.memory.tracker_base import MemoryTracker


@contextmanager
def track(
    device: torch.device | str = "cpu", budget: int | None = None, known: Any = ()
) -> Iterator[MemoryTracker]:
    """Count the bytes of the tensors on `device` in this block.

    Args:
        device: The device to watch.
        budget: Bytes that may be allocated in all; more raises `torch.OutOfMemoryError`. On CUDA the limit
            applies to what the allocator reserves, in segments of 2 MiB and more, so it is not exact.
        known: Existing modules, optimizers or tensors to include in the count.

    On CUDA this resets PyTorch's peak statistics and records its memory history; a budget also empties the
    cache. The timeline holds at most 100,000 events there.

    Yields:
        A tracker with the bytes that are allocated now and at the peak.

    >>> with track() as tracker:
    ...     x = torch.zeros(1000)
    ...     y = x[500:]  # a view: no bytes of its own
    >>> tracker.allocated, tracker.peak
    (4000, 4000)
    """
    device = torch.device(device)
    if device.type == "cuda":
        with track_cuda(device, budget, known) as tracker:
            yield tracker
    else:
        with count_storages(device, budget, known) as tracker:
            yield tracker
