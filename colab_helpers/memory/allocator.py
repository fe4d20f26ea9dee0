"""A model of CUDA's caching allocator, by the same rules.

Source: c10/cuda/CUDACachingAllocator.cpp and c10/core/AllocatorConfig.h of PyTorch 2.13, with its default
settings: rounding, two pools, segments, best fit, splitting, merging, and a cache that is emptied before
memory runs out.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

MIB = 2**20
MIN_BLOCK_SIZE = 512  # blocks are multiples of it
SMALL_SIZE = MIB  # a block up to this size comes from the pool of small ones
SMALL_SEGMENT, LARGE_SEGMENT = 2 * MIB, 20 * MIB
MIN_LARGE_ALLOC = 10 * MIB  # from this size on a block gets a segment of its own ...
ROUND_LARGE = 2 * MIB  # ... in multiples of this


class OutOfMemoryError(Exception):
    """No room: the message that CUDA's allocator gives."""


@dataclass(eq=False, slots=True)
class Block:
    """A piece of a segment, in bytes; `requested` of it are used. Neighbors are in the same segment."""

    size: int
    small: bool
    order: int
    requested: int = 0
    free: bool = False
    before: Block | None = None
    after: Block | None = None


@dataclass
class Count:
    """A byte counter: current, peak and cumulative."""

    current: int = 0
    peak: int = 0
    allocated: int = 0
    freed: int = 0

    def change(self, by: int) -> None:
        """Count `by` bytes more, or fewer where it is negative."""
        self.current += by
        self.peak = max(self.peak, self.current)
        if by > 0:
            self.allocated += by
        else:
            self.freed -= by


class Allocator:
    """A simulation of CUDA's caching allocator, on a card of `total` bytes.

    Args:
        total: Bytes that the card has.
        context: Bytes of them that CUDA's context takes.
        index: The card's number, for messages.

    >>> card = Allocator(100 * MIB)
    >>> block = card.allocate(3 * MIB)
    >>> card.counts["allocated"].current // MIB, card.counts["reserved"].current // MIB
    (3, 20)
    """

    def __init__(self, total: int, context: int = 0, index: int = 0):
        self.total, self.context, self.index = total, context, index
        self.limit = total
        self.counts = {name: Count() for name in ("allocated", "requested", "reserved")}
        self.retries = self.out_of_memory = 0
        self.history: list[dict] | None = None
        self._pools: dict[bool, list[tuple[int, int, Block]]] = {True: [], False: []}
        self._order = itertools.count()
        self._segments: list[Block] = []  # the first block of each

    @property
    def free_bytes(self) -> int:
        """Bytes that the driver would report as free."""
        return self.total - self.context - self.counts["reserved"].current

    def allocate(self, requested: int) -> Block:
        """Return a block for `requested` bytes. Raises `OutOfMemoryError` with CUDA's message."""
        size = max(MIN_BLOCK_SIZE, _up(requested, MIN_BLOCK_SIZE))
        small = size <= SMALL_SIZE
        block = self._best_fit(small, size) or self._new_segment(small, size, requested)
        self._split(block, size)
        block.free, block.requested = False, requested
        self.counts["allocated"].change(block.size)
        self.counts["requested"].change(requested)
        self._note("alloc", requested)
        return block

    def free(self, block: Block) -> None:
        """Free `block`: it merges with free neighbors and stays in the cache.

        Raises:
            ValueError: It is free already.

        >>> allocator = Allocator(2**34)
        >>> block = allocator.allocate(100)
        >>> allocator.free(block)
        >>> allocator.free(block)
        Traceback (most recent call last):
        ValueError: This block of 2,097,152 bytes is free already.
        """
        if block.free:
            raise ValueError(f"This block of {block.size:,} bytes is free already.")
        self.counts["allocated"].change(-block.size)
        self.counts["requested"].change(-block.requested)
        self._note("free_requested", block.requested)
        self._note("free_completed", block.requested)
        block.free = True
        if block.before is not None and block.before.free:
            self._forget(block.before)
            block = _joined(block.before, block)
        if block.after is not None and block.after.free:
            self._forget(block.after)
            block = _joined(block, block.after)
        bisect.insort(self._pools[block.small], (block.size, block.order, block))

    def empty_cache(self) -> None:
        """Give back to the driver each segment that is one free block."""
        for pool in self._pools.values():
            whole = [entry for entry in pool if entry[2].before is None and entry[2].after is None]
            for entry in whole:
                pool.remove(entry)
                self.counts["reserved"].change(-entry[0])
                self._note("segment_free", entry[0])
        self._segments = [first for first in self._segments if not first.free or first.after]

    def reset_peaks(self) -> None:
        """Reset each peak to the current value."""
        for count in self.counts.values():
            count.peak = count.current

    def segments(self) -> list[list[tuple[int, str]]]:
        """Return how memory is divided: for each segment its blocks, as (bytes, "used" or "free").

        >>> card = Allocator(2**30)
        >>> card.free(card.allocate(4 * MIB))
        >>> card.segments()
        [[(20971520, 'free')]]
        """
        return [list(_blocks_from(first)) for first in self._segments]

    def stats(self) -> dict[str, int]:
        """Return the statistics under the names that `torch.cuda.memory_stats` uses."""
        stats = {
            f"{name}_bytes.all.{what}": getattr(count, what)
            for name, count in self.counts.items()
            for what in ("current", "peak", "allocated", "freed")
        }
        return {**stats, "num_alloc_retries": self.retries, "num_ooms": self.out_of_memory}

    def _best_fit(self, small: bool, size: int) -> Block | None:
        pool = self._pools[small]
        at = bisect.bisect_left(pool, (size, -1))
        return pool.pop(at)[2] if at < len(pool) else None

    def _new_segment(self, small: bool, size: int, requested: int) -> Block:
        segment = SMALL_SEGMENT if small else LARGE_SEGMENT
        if size >= MIN_LARGE_ALLOC:
            segment = _up(size, ROUND_LARGE)
        if not self._has_room(segment):
            self.retries += 1
            self.empty_cache()
        if not self._has_room(segment):
            self.out_of_memory += 1
            self._note("oom", requested)
            raise OutOfMemoryError(self._message(segment))
        self.counts["reserved"].change(segment)
        self._note("segment_alloc", segment)
        block = Block(segment, small, next(self._order))
        self._segments.append(block)
        return block

    def _has_room(self, segment: int) -> bool:
        reserved = self.counts["reserved"].current + segment
        return reserved <= self.limit and reserved + self.context <= self.total

    def _split(self, block: Block, size: int) -> None:
        rest = block.size - size
        if not (rest >= MIN_BLOCK_SIZE if block.small else rest > SMALL_SIZE):
            return
        other = Block(rest, block.small, next(self._order), free=True, before=block)
        other.after, block.after, block.size = block.after, other, size
        if other.after is not None:
            other.after.before = other
        bisect.insort(self._pools[other.small], (other.size, other.order, other))

    def _forget(self, block: Block) -> None:
        pool = self._pools[block.small]
        pool.pop(bisect.bisect_left(pool, (block.size, block.order)))

    def _note(self, action: str, size: int) -> None:
        if self.history is not None:
            self.history.append({"action": action, "size": size, "addr": 0, "frames": []})

    def _message(self, requested: int) -> str:
        allocated, reserved = (self.counts[name].current for name in ("allocated", "reserved"))
        limit = f"{_size(self.limit)} allowed; " if self.limit < self.total else ""
        return (
            f"CUDA out of memory. Tried to allocate {_size(requested)}. GPU {self.index} has a total "
            f"capacity of {_size(self.total)} of which {_size(self.free_bytes)} is free. Including "
            f"non-PyTorch memory, this process has {_size(reserved + self.context)} memory in use. {limit}"
            f"Of the allocated memory {_size(allocated)} is allocated by PyTorch, and "
            f"{_size(reserved - allocated)} is reserved by PyTorch but unallocated. If reserved but "
            "unallocated memory is large try setting "
            "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for "
            "Memory Management  "
            "(https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
        )


def _blocks_from(block: Block | None) -> Iterator[tuple[int, str]]:
    while block is not None:
        yield block.size, "free" if block.free else "used"
        block = block.after


def _up(size: int, step: int) -> int:
    return -(-size // step) * step


def _joined(first: Block, second: Block) -> Block:
    """The two as one; the first one's place in the order of addresses is kept."""
    first.size += second.size
    first.free, first.after = True, second.after
    if first.after is not None:
        first.after.before = first
    return first


def _size(count: int) -> str:
    """Bytes as the allocator's messages write them."""
    for unit, name in ((2**30, "GiB"), (MIB, "MiB"), (2**10, "KiB")):
        if count > unit:
            return f"{count / unit:.2f} {name}"
    return f"{count} bytes"
