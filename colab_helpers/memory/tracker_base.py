"""A count of bytes: what is alive, the most at once, and by phase."""

from __future__ import annotations

from collections.abc import Iterator, Set, ValuesView
from typing import Any

import torch
from torch.utils._pytree import tree_iter

from colab_helpers import _units


class TraceError(ValueError):
    """A step cannot be traced; the message says why, and what to do."""


def tensor_bytes(things: Any) -> int:
    """Return the bytes of the storages in nested tensors, modules or optimizers; each counted once.

    Of a sparse tensor, its indices and values count; of a tensor subclass such as torchao's, the tensors
    inside; of a module, its gradients too. `things` may be nested in lists, tuples and dicts, or an
    iterator, which is used up.

    >>> x = torch.zeros(10, 10)
    >>> tensor_bytes([x, x[0], x.T])
    400
    """
    storages = {
        t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors_in(things)
    }
    return sum(storages.values())


class MemoryTracker:
    """Allocated and peak bytes of one device inside a `track` block, with a timeline.

    It counts tensors that were created since the block began, and the `known` ones. After the block the
    figures don't change any more. On CUDA, the allocator also reports older tensors that are freed in the
    block: release them before it begins.
    """

    def __init__(self, device: torch.device):
        self.device = device
        self.marks: list[tuple[int, str]] = []

    @property
    def allocated(self) -> int:
        """Bytes of the tensors that exist now."""
        raise NotImplementedError

    @property
    def peak(self) -> int:
        """Peak of the allocated bytes since the block began."""
        raise NotImplementedError

    @property
    def reserved(self) -> int | None:
        """Peak bytes that CUDA's allocator reserved: tensors, rounding, cache. None on other devices."""
        return None

    def timeline(self) -> list[int]:
        """Return the allocated bytes after each allocation and each free, in order."""
        raise NotImplementedError

    def mark(self, name: str) -> None:
        """Label this point of the timeline; `name` is such as "backward"."""
        self.marks.append((len(self.timeline()), name))

    def __str__(self) -> str:
        held = "" if self.reserved is None else f"; {_units.format_mib(self.reserved)} reserved"
        allocated, peak = map(_units.format_mib, (self.allocated, self.peak))
        return f"{allocated} allocated, {peak} at the peak{held}"

    __repr__ = __str__


def tensors_in(things: Any) -> Iterator[torch.Tensor]:
    """Every tensor in nested things; of a module its gradients too, of an optimizer its state."""
    if isinstance(things, torch.nn.Module):
        things = [*things.parameters(), *things.buffers(), *(p.grad for p in things.parameters())]
    elif isinstance(things, torch.optim.Optimizer):
        things = [list(state.values()) for state in things.state.values()]
    elif isinstance(things, Iterator | Set | ValuesView):
        things = [*things]
    for thing in tree_iter(things):
        if isinstance(thing, torch.nn.Module | torch.optim.Optimizer):
            yield from tensors_in(thing)
        elif isinstance(thing, torch.Tensor):
            yield from _strided(thing)


def _strided(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors that hold a tensor's bytes: itself, or the parts of a sparse one or of a subclass."""
    if hasattr(tensor, "__tensor_flatten__"):
        for name in tensor.__tensor_flatten__()[0]:
            yield from _strided(getattr(tensor, name))
    elif tensor.layout == torch.strided:
        yield tensor
    elif tensor.layout == torch.sparse_coo:
        yield from (tensor._indices(), tensor._values())
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        yield from (tensor.crow_indices(), tensor.col_indices(), tensor.values())
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        yield from (tensor.ccol_indices(), tensor.row_indices(), tensor.values())
