"""CUDA's allocator, as far as a tracker asks it."""

import pytest
import torch

from colab_helpers import memory
from colab_helpers.memory.cuda_tracker import read_trace


def test_cudas_history_becomes_a_timeline():
    events = [
        {"action": "segment_alloc", "size": 2**21},
        {"action": "alloc", "size": 512},
        {"action": "alloc", "size": 1024},
        {"action": "free_requested", "size": 512},
        {"action": "free_completed", "size": 512},
    ]
    assert read_trace(events, start=100) == [612, 1636, 1124]


class FakeCuda:
    """As much of torch.cuda as a tracker asks. Blocks of 512 bytes; history ends with its recording."""

    def __init__(self, requests=True):
        self.allocated = self.peak = 1000  # bytes that tensors asked for
        self.reserved = 2 * 2**20
        self.requests, self.history, self.fraction = requests, [], 0.75
        self.memory = self

    def synchronize(self, device):
        pass

    def reset_peak_memory_stats(self, device):
        self.peak = self.allocated

    def memory_stats(self, device):
        rounded = {"current": -(-self.allocated // 512) * 512, "peak": -(-self.peak // 512) * 512}
        stats = {f"allocated_bytes.all.{key}": value for key, value in rounded.items()}
        stats["requested_bytes.all.allocated"] = self.allocated * self.requests
        if self.requests:
            stats |= {
                "requested_bytes.all.current": self.allocated,
                "requested_bytes.all.peak": self.peak,
            }
        return {**stats, "reserved_bytes.all.peak": self.reserved}

    def memory_reserved(self, device):
        return 2000

    def empty_cache(self):
        pass

    def current_device(self):
        return 0

    def get_device_properties(self, device):
        return type("Properties", (), {"total_memory": 10_000})

    def get_per_process_memory_fraction(self, device):
        return self.fraction

    def set_per_process_memory_fraction(self, fraction, device):
        self.fraction = fraction

    def _record_memory_history(self, enabled="all", **options):
        self.history = []

    def _snapshot(self):
        return {"device_traces": [list(self.history)]}

    def allocate(self, size):
        self.allocated += size
        self.peak = max(self.peak, self.allocated)
        self.history.append({"action": "alloc", "size": size})

    def free(self, size):
        self.allocated -= size
        self.history.append({"action": "free_completed", "size": size})


@pytest.fixture
def cuda(monkeypatch):
    fake = FakeCuda()
    monkeypatch.setattr(torch, "cuda", fake)
    return fake


def test_an_inner_block_leaves_the_outer_ones_peak_and_timeline(cuda):
    with memory.track("cuda") as outer:
        cuda.allocate(700)
        cuda.free(700)
        with memory.track("cuda") as inner:
            cuda.allocate(300)
        cuda.free(300)
    assert (outer.peak, inner.peak) == (700, 300)
    assert outer.timeline() == [0, 700, 0, 300, 0] and inner.timeline() == [0, 300]


def test_the_allocator_is_asked_and_the_timeline_outlives_the_block(cuda):
    with memory.track("cuda", budget=4000) as tracker:
        assert cuda.fraction == pytest.approx((2000 + 4000) / 10_000)
        cuda.allocate(700)
        tracker.mark("later")
    assert (tracker.allocated, tracker.peak) == (700, 700)  # asked for; its blocks are larger
    assert tracker.timeline() == [0, 700] and tracker.marks == [(2, "later")]
    assert cuda.history == []


def test_a_history_that_cuda_cut_off_is_told(cuda, monkeypatch):
    monkeypatch.setattr("colab_helpers.memory.cuda_tracker._HISTORY", 2)
    with pytest.warns(UserWarning, match="only the last 2 events"), memory.track("cuda") as tracker:
        cuda.allocate(700)
        cuda.free(700)
    assert tracker.peak == 700


def test_a_budget_gives_back_the_limit_that_was_there(cuda):
    with memory.track("cuda", budget=4000):
        with memory.track("cuda", budget=10**9):
            assert cuda.fraction == pytest.approx(0.6)  # no wider than the budget around it
        assert cuda.fraction == pytest.approx(0.6)
    assert cuda.fraction == 0.75


def test_work_after_the_block_changes_nothing_of_it(cuda):
    with memory.track("cuda") as tracker:
        cuda.allocate(512)
        cuda.free(512)
        cuda.allocate(100)
    told = tracker.allocated, tracker.peak, tracker.reserved
    cuda.allocate(10_000)
    cuda.reserved = 40 * 2**20
    cuda.reset_peak_memory_stats(0)
    assert told == (tracker.allocated, tracker.peak, tracker.reserved) == (100, 512, 2 * 2**20)
    assert str(tracker) == "0.00 MiB allocated, 0.00 MiB at the peak; 2.00 MiB reserved"


def test_an_allocator_that_counts_no_requests_is_read_in_blocks(monkeypatch):
    fake = FakeCuda(requests=False)
    monkeypatch.setattr(torch, "cuda", fake)
    with memory.track("cuda") as tracker:
        fake.allocate(700)
    assert tracker.allocated == 2048 - 1024


def test_a_history_that_somebody_else_records_goes_on(cuda, monkeypatch):
    monkeypatch.setattr(torch._C, "_cuda_isHistoryEnabled", lambda: True, raising=False)
    cuda.allocate(100)
    with memory.track("cuda") as tracker:
        cuda.allocate(700)
    assert [event["size"] for event in cuda.history] == [100, 700]
    assert tracker.timeline() == [0, 700]
