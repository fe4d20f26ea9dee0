"""Memory tracking by storage lifetime, for devices without allocator statistics."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from colab_helpers import _units
from colab_helpers.memory.tracker_base import MemoryTracker, tensors_in


@contextmanager
def count_storages(
    device: torch.device, budget: int | None = None, known: Any = ()
) -> Iterator[StorageTracker]:
    """Count every storage as `track` does off CUDA, on any device: for tensors without data too.

    `budget` and `known` are as in `track`.
    """
    with _Storages(device, budget, known) as mode:
        try:
            yield mode.tracker
        finally:
            mode.tracker.close()


@dataclass(frozen=True)
class Change:
    """The allocation, release or resizing of a storage, by its number; `bytes` is negative for a decrease."""

    storage: int
    bytes: int


@dataclass(frozen=True)
class _State:
    live: int
    peak: int
    length: int


@dataclass(frozen=True)
class _Alive:
    number: int
    size: int
    reference: weakref.ref


class StorageTracker(MemoryTracker):
    """Tracks storages through weak references, which report when each one is freed.

    `changes` are all that were seen, in order; those before `begin` are of what was there already.
    """

    def __init__(self, device: torch.device):
        super().__init__(device)
        self.changes: list[Change] = []
        self._alive: dict[int, _Alive] = {}
        self._live = self._peak = self._begun = self._standing = self._born = 0

    @property
    def allocated(self) -> int:
        """Bytes of storages that are alive now."""
        return self._live

    @property
    def peak(self) -> int:
        """The most bytes that were alive at once."""
        return self._peak

    def timeline(self) -> list[int]:
        """Live bytes at `begin`, if any, and after each change since."""
        since = (change.bytes for change in self.changes[self._begun :])
        return list(accumulate(since, initial=self._standing))[0 if self._standing else 1 :]

    def begin(self) -> None:
        """Let the timeline begin with what is alive now."""
        self._begun, self._standing = len(self.changes), self._live

    def close(self) -> None:
        """Stop tracking: storages freed after this are not recorded."""
        self._alive.clear()

    def register(self, things: Any, counted: bool = True) -> None:
        """Register every tensor in nested `things`; with `counted=False`, without counting it."""
        for tensor in tensors_in(things):
            self._note(tensor, counted)

    def _note(self, tensor: torch.Tensor, counted: bool) -> None:
        """Add a tensor's storage when first seen; later, record only a change of its size."""
        if tensor.device.type != self.device.type:
            return
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes() if counted else 0
        known = self._alive.get(key)
        if known is None:
            self._born += 1
            reference = weakref.ref(storage, lambda _: self._forget(key))
            self._alive[key] = _Alive(self._born, size, reference)
            self._change(self._born, size)
        elif counted and known.size and size != known.size:  # resized in place
            self._alive[key] = replace(known, size=size)
            self._change(known.number, size - known.size)

    def number(self, tensor: torch.Tensor) -> int:
        """Return the number of a living tensor's storage, by which `changes` name it."""
        return self._alive[tensor.untyped_storage()._cdata].number

    def state(self) -> _State:
        """What `undo` needs to forget an allocation that was refused."""
        return _State(self._live, self._peak, len(self.changes))

    def undo(self, before: _State) -> None:
        """Forget what was seen since `before`; its tensors are gone."""
        self._peak = before.peak
        del self.changes[before.length :]

    def _forget(self, key: int) -> None:
        gone = self._alive.pop(key)
        self._change(gone.number, -gone.size)

    def _change(self, number: int, size: int) -> None:
        if size:
            self._live += size
            self._peak = max(self._peak, self._live)
            self.changes.append(Change(number, size))


class _Storages(TorchDispatchMode):
    """Reports the tensors of each operation to a `StorageTracker`, and enforces the budget."""

    def __init__(self, device: torch.device, budget: int | None, known: Any):
        super().__init__()
        self.tracker, self.budget = StorageTracker(device), budget
        self.tracker.register(known)
        self.tracker.begin()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        self.tracker.register((args, kwargs), counted=False)  # they are older than the block
        before = self.tracker.state()
        result = function(*args, **kwargs)
        self.tracker.register(result)
        wanted = self.tracker.allocated - before.live
        if self.budget is not None and wanted > 0 and self.tracker.allocated > self.budget:
            del result  # the traceback must not keep it alive
            self.tracker.undo(before)
            raise torch.OutOfMemoryError(_message(wanted, before.live, self.budget))
        return result


def written_arguments(function: Any, args: Any, kwargs: Any) -> list[Any]:
    """Return those of `args` and `kwargs` that `function`, an operation, changes in place by its schema."""
    places = enumerate(function._schema.arguments)
    return [
        args[i] if i < len(args) else kwargs.get(argument.name)
        for i, argument in places
        if argument.alias_info is not None and argument.alias_info.is_write
    ]


def _message(wanted: int, before: int, budget: int) -> str:
    return (
        "Out of memory: the budget passed to memory.track() is used up. "
        f"Tried to allocate {_units.format_mib(wanted)}. "
        f"The budget is {_units.format_mib(budget)}, of which "
        f"{_units.format_mib(max(0, budget - before))} is free; "
        f"{_units.format_mib(before)} is allocated by PyTorch."
    )
