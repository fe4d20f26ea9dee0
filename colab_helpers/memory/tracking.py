"""Bytes alive in a block of code, now and at most."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from colab_helpers.memory.cuda import track_cuda
from colab_helpers.memory.meter import MemoryTracker
from colab_helpers.memory.storages import count_storages


@contextmanager
def track(
    device: torch.device | str = "cpu", budget: int | None = None, known: Any = ()
) -> Iterator[MemoryTracker]:
    """Count the bytes of tensors on `device` in this block.

    `known`: modules, optimizers or tensors that exist already and shall be counted too. `budget`, in
    bytes for everything counted, makes a larger demand raise `torch.OutOfMemoryError`; on CUDA the
    limit is on what the allocator reserves, in pieces of 2 MiB and more, so it is not exact there.

    >>> with track() as meter:
    ...     x = torch.zeros(1000)
    ...     y = x[500:]  # a view: no bytes of its own
    >>> meter.allocated, meter.peak
    (4000, 4000)
    """
    device = torch.device(device)
    if device.type == "cuda":
        with track_cuda(device, budget, known) as meter:
            yield meter
    else:
        with count_storages(device, budget, known) as meter:
            yield meter
