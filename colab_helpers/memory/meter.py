"""How many bytes are alive, now and at most? CUDA's own statistics, or a count of every storage."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from colab_helpers import _units

_HISTORY = 100_000  # events of CUDA's allocator to keep for a timeline


def tensor_bytes(things: Any) -> int:
    """Return the bytes of the storages in nested tensors, modules or optimisers; each counted once.

    >>> x = torch.zeros(10, 10)
    >>> tensor_bytes([x, x[0], x.T])
    400
    """
    storages = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in _tensors(things)}
    return sum(storages.values())


class Meter:
    """Live and peak bytes of one device inside a `track` block, with a timeline.

    Bytes are those of tensors made since the block began, and of `known` ones. On CUDA, the allocator
    also tells of older tensors that die in the block: let go of them before.
    """

    def __init__(self, device: torch.device):
        self.device = device
        self.marks: list[tuple[int, str]] = []

    @property
    def live(self) -> int:
        """Bytes of tensors that are alive now."""
        raise NotImplementedError

    @property
    def peak(self) -> int:
        """The most bytes that were alive at once, since the start or since `reset_peak`."""
        raise NotImplementedError

    def reset_peak(self) -> None:
        """Begin to look for a new peak, from what is alive now."""
        raise NotImplementedError

    def timeline(self) -> list[int]:
        """Live bytes after each allocation and each release, in order."""
        raise NotImplementedError

    def mark(self, name: str) -> None:
        """Write a name, such as "backward", beside this moment of the timeline."""
        self.marks.append((len(self.timeline()), name))

    def __str__(self) -> str:
        return f"{_units.mib(self.live)} alive, {_units.mib(self.peak)} at most"

    __repr__ = __str__


@contextmanager
def track(
    device: torch.device | str = "cpu", budget: int | None = None, known: Any = ()
) -> Iterator[Meter]:
    """Count the bytes of tensors on `device` in this block.

    `known`: modules, optimisers or tensors that exist already and shall be counted too. `budget`, in
    bytes for everything counted, makes a larger demand raise `torch.OutOfMemoryError`; on CUDA the
    limit is on what the allocator reserves, in pieces of 2 MiB and more, so it is not exact there.

    >>> with track() as meter:
    ...     x = torch.zeros(1000)
    ...     y = x[500:]  # a view: no bytes of its own
    >>> meter.live, meter.peak
    (4000, 4000)
    """
    device = torch.device(device)
    if device.type == "cuda":
        with _track_cuda(device, budget, known) as meter:
            yield meter
    else:
        with _Storages(device, budget, known) as mode:
            yield mode.meter


@dataclass(frozen=True)
class _State:
    live: int
    peak: int
    length: int


class _StorageMeter(Meter):
    """Counts storages by their death, which a weak reference tells."""

    def __init__(self, device: torch.device):
        super().__init__(device)
        self._alive: dict[int, tuple[weakref.ref, int]] = {}
        self._live = self._peak = 0
        self._timeline: list[int] = []

    @property
    def live(self) -> int:
        return self._live

    @property
    def peak(self) -> int:
        return self._peak

    def reset_peak(self) -> None:
        self._peak = self._live

    def timeline(self) -> list[int]:
        return self._timeline

    def begin(self) -> None:
        """Let the timeline begin with what is alive now."""
        self._timeline = [self._live] if self._live else []

    def note_all(self, things: Any, counted: bool = True) -> None:
        """See every tensor in nested things. `counted=False`: they are there, and not ours."""
        for tensor in _tensors(things):
            self._note(tensor, counted)

    def _note(self, tensor: torch.Tensor, counted: bool) -> None:
        """See a tensor: a storage is added once, and again only for what it grew since."""
        if tensor.device.type != self.device.type:
            return
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes() if counted else 0
        if key in self._alive:
            reference, before = self._alive[key]
            if counted and before and size != before:  # resized in place
                self._alive[key] = (reference, size)
                self._change(size - before)
            return
        self._alive[key] = (weakref.ref(storage, lambda _: self._forget(key)), size)
        self._change(size)

    def state(self) -> _State:
        """What `undo` needs to forget an allocation that was refused."""
        return _State(self._live, self._peak, len(self._timeline))

    def undo(self, before: _State) -> None:
        """Forget what was seen since `before`; its tensors are gone."""
        self._peak = before.peak
        del self._timeline[before.length :]

    def _forget(self, key: int) -> None:
        _, size = self._alive.pop(key)
        self._change(-size)

    def _change(self, size: int) -> None:
        if size:
            self._live += size
            self._peak = max(self._peak, self._live)
            self._timeline.append(self._live)


class _Storages(TorchDispatchMode):
    """Shows every tensor that an operation makes to a meter, and enforces the budget."""

    def __init__(self, device: torch.device, budget: int | None, known: Any):
        super().__init__()
        self.meter, self.budget = _StorageMeter(device), budget
        self.meter.note_all(known)
        self.meter.begin()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        self.meter.note_all((args, kwargs), counted=False)  # older than the block, and not `known`
        before = self.meter.state()
        result = function(*args, **kwargs)
        self.meter.note_all(result)
        wanted = self.meter.live - before.live
        if self.budget is not None and wanted > 0 and self.meter.live > self.budget:
            del result  # the traceback must not keep it alive
            self.meter.undo(before)
            raise torch.OutOfMemoryError(_message(wanted, before.live, self.budget))
        return result


def _message(wanted: int, before: int, budget: int) -> str:
    return (
        f"The course's budget for tensors is out of memory. Tried to allocate {_units.mib(wanted)}. "
        f"The budget is {_units.mib(budget)}, of which {_units.mib(max(0, budget - before))} is free; "
        f"{_units.mib(before)} is allocated by PyTorch."
    )


class _CudaMeter(Meter):
    """Asks CUDA's caching allocator."""

    def __init__(self, device: torch.device, known: int):
        super().__init__(device)
        self._known = known
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        self._start = torch.cuda.memory_allocated(device)
        self._kept: list[int] | None = None

    @property
    def live(self) -> int:
        return torch.cuda.memory_allocated(self.device) - self._start + self._known

    @property
    def peak(self) -> int:
        return torch.cuda.max_memory_allocated(self.device) - self._start + self._known

    def reset_peak(self) -> None:
        torch.cuda.reset_peak_memory_stats(self.device)

    def timeline(self) -> list[int]:
        if self._kept is not None:
            return self._kept
        trace = torch.cuda.memory._snapshot()["device_traces"][self.device.index or 0]
        return [self._known, *read_trace(trace, self._known)]

    def keep(self) -> None:
        """Read the timeline once more: CUDA forgets its history when recording ends."""
        self._kept = self.timeline()


@contextmanager
def _track_cuda(device: torch.device, budget: int | None, known: Any) -> Iterator[Meter]:
    index = torch.cuda.current_device() if device.index is None else device.index
    device = torch.device("cuda", index)
    meter = _CudaMeter(device, tensor_bytes([t for t in _tensors(known) if t.is_cuda]))
    if budget is not None:
        # CUDA's limit is on what the allocator reserves, so nothing may be cached.
        torch.cuda.empty_cache()
        more = budget - meter.live
        total = torch.cuda.get_device_properties(device).total_memory
        fraction = (torch.cuda.memory_reserved(device) + max(0, more)) / total
        torch.cuda.set_per_process_memory_fraction(min(1.0, fraction), device)
    # Without context: tracebacks of every allocation would fill the host's RAM.
    torch.cuda.memory._record_memory_history(context=None, max_entries=_HISTORY)
    try:
        yield meter
    finally:
        try:
            meter.keep()
        finally:
            torch.cuda.memory._record_memory_history(enabled=None)
            if budget is not None:
                torch.cuda.set_per_process_memory_fraction(1.0, device)


def read_trace(events: Iterable[dict], start: int = 0) -> list[int]:
    """Return live bytes after each event of CUDA's memory history, beginning at `start`.

    >>> read_trace([{"action": "alloc", "size": 512}, {"action": "free_completed", "size": 512}])
    [512, 0]
    """
    sign = {"alloc": 1, "free_completed": -1}
    live, seen = start, []
    for event in events:
        if event["action"] in sign:
            live += sign[event["action"]] * event["size"]
            seen.append(live)
    return seen


def _tensors(things: Any) -> Iterator[torch.Tensor]:
    if isinstance(things, torch.nn.Module):
        things = [*things.parameters(), *things.buffers(), *(p.grad for p in things.parameters())]
    elif isinstance(things, torch.optim.Optimizer):
        things = [list(state.values()) for state in things.state.values()]
    for thing in tree_iter(things):
        if isinstance(thing, torch.nn.Module | torch.optim.Optimizer):
            yield from _tensors(thing)
        elif isinstance(thing, torch.Tensor) and thing.layout == torch.strided:
            yield thing
