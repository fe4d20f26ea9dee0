"""Measure the memory of PyTorch code while it runs, and predict it before.

`track` counts the bytes of live tensors on any device, and can set a budget that raises PyTorch's own
out-of-memory error. `footprint` says beforehand what a training step needs. `Allocator` hands
out memory as CUDA's does, without a GPU. Nothing here keeps a tensor alive.
"""

from __future__ import annotations

from colab_helpers.memory.allocator import Allocator
from colab_helpers.memory.footprint import Footprint, footprint
from colab_helpers.memory.tracker_base import MemoryTracker, TraceError, tensor_bytes
from colab_helpers.memory.tracking_context import track

__all__ = [
    "Allocator",
    "Footprint",
    "MemoryTracker",
    "TraceError",
    "footprint",
    "tensor_bytes",
    "track",
]
