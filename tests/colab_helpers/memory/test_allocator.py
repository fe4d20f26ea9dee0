"""The allocator: the rules of CUDA's, and its message."""

import random

import pytest

from colab_helpers.memory.allocator import MIB, Allocator, OutOfMemoryError


def numbers(allocator):
    return {name: count.current for name, count in allocator.counts.items()}


@pytest.mark.parametrize(
    ("asked", "block", "segment"),
    [
        (1, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (11 * MIB + 1, 12 * MIB, 12 * MIB),  # the rest is too small to be split off
    ],
)
def test_sizes_are_rounded_and_come_from_segments(asked, block, segment):
    allocator = Allocator(2**34)
    assert allocator.allocate(asked).size == block
    assert numbers(allocator) == {"allocated": block, "requested": asked, "reserved": segment}


def test_the_best_fit_is_taken_and_neighbors_join():
    allocator = Allocator(2**34)
    blocks = [allocator.allocate(4 * MIB) for _ in range(5)]  # one segment of 20 MiB
    assert allocator.counts["reserved"].current == 20 * MIB
    allocator.free(blocks[1])
    allocator.free(blocks[3])
    assert allocator.allocate(3 * MIB).size == 4 * MIB  # a rest of 1 MiB is not split off
    allocator.free(blocks[2])
    assert allocator.allocate(8 * MIB).size == 8 * MIB  # blocks 2 and 3 are one now
    assert allocator.counts["reserved"].current == 20 * MIB


def test_what_is_freed_stays_reserved_until_the_cache_is_emptied():
    allocator = Allocator(2**34)
    block = allocator.allocate(64 * MIB)
    allocator.free(block)
    assert numbers(allocator) == {"allocated": 0, "requested": 0, "reserved": 64 * MIB}
    allocator.empty_cache()
    assert numbers(allocator)["reserved"] == 0
    assert allocator.counts["requested"].peak == 64 * MIB
    allocator.reset_peaks()
    assert allocator.counts["requested"].peak == 0


def test_the_cache_is_emptied_before_memory_runs_out():
    allocator = Allocator(100 * MIB, context=10 * MIB)
    allocator.free(allocator.allocate(60 * MIB))
    allocator.allocate(80 * MIB)
    assert (allocator.retries, allocator.out_of_memory) == (1, 0)


def test_the_error_names_what_is_taken_allowed_and_free():
    allocator = Allocator(2**34, context=2**28, index=1)
    allocator.limit = 2**30
    allocator.allocate(900 * MIB)
    with pytest.raises(OutOfMemoryError) as error:
        allocator.allocate(200 * MIB)
    text = str(error.value)
    assert text.startswith(
        "CUDA out of memory. Tried to allocate 200.00 MiB. GPU 1 has a total capacity"
    )
    assert "900.00 MiB is allocated by PyTorch" in text and "1024.00 MiB allowed" in text
    assert numbers(allocator)["allocated"] == 900 * MIB


def test_history_tells_what_a_timeline_needs():
    allocator = Allocator(2**34)
    allocator.history = []
    allocator.free(allocator.allocate(100))
    assert [(e["action"], e["size"]) for e in allocator.history] == [
        ("segment_alloc", 2 * MIB), ("alloc", 100), ("free_requested", 100), ("free_completed", 100),
    ]  # fmt: skip


def test_whatever_the_order_nothing_is_lost_and_nothing_overlaps():
    allocator, chance, held = Allocator(2**40), random.Random(0), []
    for _ in range(3000):
        if held and chance.random() < 0.5:
            allocator.free(held.pop(chance.randrange(len(held))))
        else:
            held.append(allocator.allocate(int(2 ** chance.uniform(0, 26))))
        free = [entry[0] for pool in allocator._pools.values() for entry in pool]
        assert sum(free) + sum(b.size for b in held) == allocator.counts["reserved"].current
        assert sum(b.requested for b in held) == allocator.counts["requested"].current
    for block in held:
        allocator.free(block)
    allocator.empty_cache()
    assert numbers(allocator) == {"allocated": 0, "requested": 0, "reserved": 0}
