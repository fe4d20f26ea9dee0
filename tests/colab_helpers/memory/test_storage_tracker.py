"""Bytes counted by hand, refused and given back."""

import weakref

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

from colab_helpers import memory


def test_a_storage_that_grows_in_place():
    with memory.track() as tracker:
        x = torch.zeros(1000)
        x.resize_(3000)
        x.add_(1)
        assert tracker.allocated == 12_000


def test_a_training_step_by_hand():
    """Linear without bias, relu, sum: what forward saves, what backward makes, what dies when."""
    with memory.track() as tracker:
        w = torch.ones(100, 100, requires_grad=True)
        x = torch.ones(50, 100)
        loss = (x @ w).relu().sum()
        assert tracker.allocated == 40_000 + 20_000 + 20_000 + 4  # w, x, relu's output, loss
        loss.backward()
        assert (
            tracker.allocated == 40_000 + 20_000 + 40_000 + 4
        )  # the saved output is gone, w.grad is there
        del loss
        assert tracker.allocated == 100_000


def test_tensors_from_before_are_not_counted_unless_known():
    before = torch.zeros(1000)
    with memory.track() as tracker:
        view, other = before[5:], before + 1
        assert tracker.allocated == 4000
    with memory.track(known=[before, before[7:]]) as tracker:
        more = before + 1
        assert tracker.allocated == 8000
    del view, other, more


def test_known_modules_and_optimizers():
    model = nn.Linear(10, 10)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 10)).sum().backward()
    optimizer.step()
    numbers = 110
    with memory.track(known=[model, optimizer]) as tracker:
        assert (
            tracker.allocated == 4 * numbers * 4 + 2 * 4
        )  # weights, gradients, two states; two counters
    assert memory.tensor_bytes([model, optimizer, model]) == tracker.allocated


def test_the_meter_keeps_nothing_alive():
    with memory.track() as tracker:
        x = torch.zeros(1000)
        dies = weakref.ref(x)
        del x
        assert dies() is None and tracker.allocated == 0


def test_the_timeline_tells_the_story():
    with memory.track() as tracker:
        x = torch.zeros(1000)
        tracker.mark("deleted")
        del x
        y = torch.zeros(10)
    assert tracker.peak == 4000 and tracker.timeline() == [4000, 0, 40]
    assert (
        tracker.marks == [(1, "deleted")]
        and str(tracker) == "0.00 MiB allocated, 0.00 MiB at the peak"
    )
    del y


def test_budget_raises_pytorchs_own_error_and_counts_nothing_of_it():
    with memory.track(budget=10_000) as tracker:
        x = torch.zeros(2000)
        with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 0\.00 MiB"):
            torch.zeros(1000)
        assert (tracker.allocated, tracker.peak, tracker.timeline()) == (8000, 8000, [8000])
        x.add_(1)  # work in place goes on


def test_200_times_out_of_memory_and_back():
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
    with memory.track(budget=2_000_000, known=model) as tracker:
        start = tracker.allocated

        def step(rows):
            model(torch.ones(rows, 64)).sum().backward()

        for _ in range(200):
            failed = False
            try:
                step(10_000)
            except torch.OutOfMemoryError:
                failed = True
            assert failed
            model.zero_grad()
            assert tracker.allocated == start


def test_inside_except_the_traceback_still_holds_the_bytes():
    def work():
        kept = torch.zeros(1000)
        return kept, torch.zeros(100_000)

    with memory.track(budget=10_000) as tracker:
        try:
            work()
        except torch.OutOfMemoryError:
            inside = tracker.allocated
        assert (inside, tracker.allocated) == (4000, 0)


def test_when_the_block_has_ended_everything_stays_as_it_was():
    with memory.track() as tracker:
        x = torch.zeros(1000)
        del x
        y = torch.zeros(500)
    told = tracker.allocated, tracker.peak, tracker.timeline().copy()
    del y
    assert told == (2000, 4000, [4000, 0, 2000])
    assert (tracker.allocated, tracker.peak, tracker.timeline()) == told
    assert tracker.reserved is None


@pytest.mark.filterwarnings("ignore:Sparse CS. tensor support")
def test_a_sparse_tensor_has_the_bytes_of_its_parts():
    dense = torch.eye(10)
    assert memory.tensor_bytes(dense.to_sparse()) == 10 * 2 * 8 + 10 * 4  # two indices, one value
    starts, places, values = torch.arange(11), torch.arange(10), torch.ones(10)
    for make in (torch.sparse_csr_tensor, torch.sparse_csc_tensor):
        compressed = make(starts, places, values, check_invariants=True)
        assert memory.tensor_bytes(compressed) == 11 * 8 + 10 * 8 + 10 * 4


def test_iterators_and_the_tensors_inside_of_a_subclass_count():
    layer = nn.Linear(4, 2)
    for things in (layer.parameters(), layer.state_dict().values(), {*layer.parameters()}):
        assert memory.tensor_bytes(things) == 40
    assert memory.tensor_bytes(TwoTensor(torch.zeros(3), torch.zeros(3))) == 24


def test_a_budget_is_kept_to_the_byte():
    with memory.track(budget=4000) as tracker:
        with pytest.raises(torch.OutOfMemoryError):
            torch.zeros(1001)
        assert len(torch.zeros(1000)) == 1000
    assert tracker.peak == 4000
