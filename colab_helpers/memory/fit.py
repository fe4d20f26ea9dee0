"""The largest batch that fits, and giving memory back."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable
from typing import Any

import torch

from colab_helpers.memory.tracking import track

#: Out-of-memory errors that come as plain RuntimeErrors. Sources: c10/core/impl/alloc_cpu.cpp,
#: aten/src/ATen/mps/MPSAllocator.mm, cuBLAS and cuDNN status names (PyTorch 2.13, 2026-11).
_TEXTS = re.compile(
    r"out of memory|DefaultCPUAllocator: (can't|not enough)|not enough memory: you tried to allocate"
    r"|Invalid buffer size"  # Apple's, for one that is too large: pytorch/pytorch #141909
    r"|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED"
)


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an error means that memory ran out, on whichever device.

    >>> is_out_of_memory(RuntimeError("MPS backend out of memory (MPS allocated: 9 GB)"))
    True
    """
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and _TEXTS.search(str(error)) is not None


def release() -> None:
    """Give back what nothing needs: errors shown before, unreachable objects, cached blocks.

    An error that was shown keeps its traceback, the traceback its frames, and they your tensors; both
    Python and IPython remember the last one.
    """
    for name in ("last_value", "last_traceback", "last_type", "last_exc"):
        if hasattr(sys, name):
            delattr(sys, name)
    _forget_in_ipython()
    gc.collect()
    _empty_caches()


def largest_batch(
    step: Callable[[int], Any],
    budget: int,
    device: torch.device | str = "cpu",
    known: Any = (),
    limit: int = 2**20,
) -> int:
    """Return the largest batch size, up to `limit`, for which `step(batch_size)` stays in `budget` bytes.

    Doubles the batch until memory runs out, then halves the gap. `known` counts as in `track`. Returns
    0 when not even one row fits. Other errors than out of memory are raised. `device` is where the
    step computes.

    >>> largest_batch(lambda batch_size: torch.zeros(batch_size, 250), budget=100_000)
    100
    """
    fits, fails = 0, limit + 1
    batch_size = 1
    while fails - fits > 1:
        if _fits(step, batch_size, budget, device, known):
            fits = batch_size
            batch_size = min(2 * batch_size, (fits + fails) // 2 if fails <= limit else limit)
        else:
            fails = batch_size
            batch_size = (fits + fails) // 2
    return fits


def _fits(
    step: Callable[[int], Any], batch_size: int, budget: int, device: torch.device | str, known: Any
) -> bool:
    failed = False
    try:
        with track(device, budget, known):
            step(batch_size)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        failed = True  # recover below: in here the error still holds the frames and their tensors
    if failed:
        release()
    return not failed


def _forget_in_ipython() -> None:
    """IPython keeps the last traceback for %debug, and the last result with its error."""
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython else None
    if getattr(shell, "last_execution_result", None) is not None:
        shell.last_execution_result = None
    for name in ("InteractiveTB", "SyntaxTB"):
        handler: Any = getattr(shell, name, None)
        if getattr(handler, "tb", None) is not None:
            handler.tb = None


def _empty_caches() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    if torch.backends.mps.is_available():
        torch.mps.empty_cache()
    if hasattr(torch, "xpu") and torch.xpu.is_available():
        torch.xpu.empty_cache()
