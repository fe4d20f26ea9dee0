"""CUDA's own counters of memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from colab_helpers.memory.tracker_base import MemoryTracker, tensor_bytes, tensors_in

_HISTORY = 100_000  # events of CUDA's allocator to keep for a timeline


#: Trackers of the open `track` blocks, the outermost first.
_ACTIVE: list[_CudaTracker] = []


@dataclass(frozen=True)
class _Reading:
    """What CUDA's caching allocator says at one moment, in bytes."""

    live: int
    peak: int
    reserved: int


class _CudaTracker(MemoryTracker):
    """Asks CUDA's caching allocator, for the bytes that tensors asked for: blocks are larger."""

    def __init__(self, device: torch.device, known: int):
        super().__init__(device)
        self._known, self._earlier = known, _Reading(0, 0, 0)
        torch.cuda.synchronize(device)
        for outer in _ACTIVE:  # its counters are about to be reset
            if outer.device == device:
                outer._earlier = outer._read()
        torch.cuda.reset_peak_memory_stats(device)
        self._start = self._read().live
        recorded = bool(_ACTIVE) or _history_is_on()
        self._first = len(self._trace()) if recorded else 0  # event of the history
        self._kept: tuple[_Reading, list[int]] | None = None

    @property
    def allocated(self) -> int:
        return self._reading().live - self._start + self._known

    @property
    def peak(self) -> int:
        return self._reading().peak - self._start + self._known

    @property
    def reserved(self) -> int:
        return self._reading().reserved

    def timeline(self) -> list[int]:
        if self._kept is not None:
            return self._kept[1]
        events = self._trace()
        if len(events) >= _HISTORY:
            warnings.warn(
                f"CUDA kept only the last {len(events):,} events of this block's memory history: "
                "`timeline()` and `mark()` are off. `peak` is exact. Track fewer steps at a time.",
                stacklevel=2,
            )
        return [self._known, *read_trace(events[self._first :], self._known)]

    def _trace(self) -> list[dict]:
        return torch.cuda.memory._snapshot()["device_traces"][self.device.index or 0]

    def keep(self) -> None:
        """Take a final reading: later work would change the counters, and CUDA discards its history."""
        self._kept = self._read(), self.timeline()

    def _reading(self) -> _Reading:
        return self._kept[0] if self._kept else self._read()

    def _read(self) -> _Reading:
        stats = torch.cuda.memory_stats(self.device)
        # Other allocators than PyTorch's own count no requests.
        kind = "requested" if stats.get("requested_bytes.all.allocated") else "allocated"
        return _Reading(
            live=stats.get(f"{kind}_bytes.all.current", 0),
            peak=max(self._earlier.peak, stats.get(f"{kind}_bytes.all.peak", 0)),
            reserved=max(self._earlier.reserved, stats.get("reserved_bytes.all.peak", 0)),
        )


@contextmanager
def track_cuda(device: torch.device, budget: int | None, known: Any) -> Iterator[MemoryTracker]:
    """Read memory use from CUDA's allocator in this block; `budget` limits what it may reserve.

    `device` is a single GPU; `known` are existing tensors to include in the count.
    """
    index = torch.cuda.current_device() if device.index is None else device.index
    device = torch.device("cuda", index)
    tracker = _CudaTracker(device, tensor_bytes([t for t in tensors_in(known) if t.is_cuda]))
    allowed = _allowed_fraction(device)
    if budget is not None:
        # CUDA's limit is on what the allocator reserves, so nothing may be cached.
        torch.cuda.empty_cache()
        more = budget - tracker.allocated
        total = torch.cuda.get_device_properties(device).total_memory
        fraction = (torch.cuda.memory_reserved(device) + max(0, more)) / total
        torch.cuda.set_per_process_memory_fraction(min(allowed, fraction), device)
    recorded = bool(_ACTIVE) or _history_is_on()
    if not recorded:  # without context: tracebacks of every allocation would fill the host's RAM
        torch.cuda.memory._record_memory_history(
            context=None, stacks="python", max_entries=_HISTORY
        )
    _ACTIVE.append(tracker)
    try:
        yield tracker
    finally:
        _ACTIVE.remove(tracker)
        try:
            tracker.keep()
        finally:
            if not recorded:
                torch.cuda.memory._record_memory_history(enabled=None)
            if budget is not None:
                torch.cuda.set_per_process_memory_fraction(allowed, device)


def _history_is_on() -> bool:
    """Whether somebody else has PyTorch record its memory history: it is theirs to end."""
    return getattr(torch._C, "_cuda_isHistoryEnabled", bool)()


def _allowed_fraction(device: torch.device) -> float:
    """The limit that is in force: a budget around this one, or the user's own."""
    ask = getattr(torch.cuda, "get_per_process_memory_fraction", None)  # not before PyTorch 2.8
    return ask(device) if ask else 1.0


def read_trace(events: Iterable[dict], start: int = 0) -> list[int]:
    """Return live bytes after each event of CUDA's memory history, beginning at `start`.

    `events` have an "action" and a "size" in bytes.

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
