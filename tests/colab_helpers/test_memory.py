"""Bytes counted by hand, predicted, refused and given back."""

import gc
import sys
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from colab_helpers import memory
from colab_helpers.lessons.models import GPT, GPTConfig
from colab_helpers.memory.meter import read_trace


def test_views_have_no_bytes_of_their_own():
    with memory.track() as meter:
        x = torch.zeros(1000)
        views = [x[10:], x.view(10, 100), x.reshape(10, 100).T, x.expand(5, 1000), x.detach()]
        assert meter.live == 4000
        del x
        assert meter.live == 4000  # a view keeps the storage
        del views
        assert (meter.live, meter.peak) == (0, 4000)


def test_in_place_operations_allocate_nothing():
    with memory.track() as meter:
        x = torch.zeros(1000)
        x += 1
        x.mul_(2)[5:].fill_(3)
        x.relu_()
        torch.add(x, 1, out=x)
        assert meter.peak == 4000


def test_copies_and_formats_count_as_they_are():
    with memory.track() as meter:
        x = torch.zeros(1000)
        half, ints, copy = x.half(), x.int(), x.clone()
        assert meter.live == 4000 + 2000 + 4000 + 4000
        del half, ints, copy
        assert meter.live == 4000


def test_a_storage_that_grows_in_place():
    with memory.track() as meter:
        x = torch.zeros(1000)
        x.resize_(3000)
        x.add_(1)
        assert meter.live == 12_000


def test_a_training_step_by_hand():
    """Linear without bias, relu, sum: what forward saves, what backward makes, what dies when."""
    with memory.track() as meter:
        w = torch.ones(100, 100, requires_grad=True)
        x = torch.ones(50, 100)
        loss = (x @ w).relu().sum()
        assert meter.live == 40_000 + 20_000 + 20_000 + 4  # w, x, relu's output, loss
        loss.backward()
        assert (
            meter.live == 40_000 + 20_000 + 40_000 + 4
        )  # the saved output is gone, w.grad is there
        del loss
        assert meter.live == 100_000


def test_tensors_from_before_are_not_counted_unless_known():
    before = torch.zeros(1000)
    with memory.track() as meter:
        view, other = before[5:], before + 1
        assert meter.live == 4000
    with memory.track(known=[before, before[7:]]) as meter:
        more = before + 1
        assert meter.live == 8000
    del view, other, more


def test_known_modules_and_optimisers():
    model = nn.Linear(10, 10)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 10)).sum().backward()
    optimizer.step()
    numbers = 110
    with memory.track(known=[model, optimizer]) as meter:
        assert meter.live == 4 * numbers * 4 + 2 * 4  # weights, gradients, two states; two counters
    assert memory.tensor_bytes([model, optimizer, model]) == meter.live


def test_the_meter_keeps_nothing_alive():
    with memory.track() as meter:
        x = torch.zeros(1000)
        dies = weakref.ref(x)
        del x
        assert dies() is None and meter.live == 0


def test_peak_can_be_reset_and_the_timeline_tells_the_story():
    with memory.track() as meter:
        x = torch.zeros(1000)
        meter.mark("deleted")
        del x
        meter.reset_peak()
        y = torch.zeros(10)
    assert meter.peak == 40 and meter.timeline() == [4000, 0, 40]
    assert meter.marks == [(1, "deleted")] and str(meter) == "0.00 MiB alive, 0.00 MiB at most"
    del y


def test_budget_raises_pytorchs_own_error_and_counts_nothing_of_it():
    with memory.track(budget=10_000) as meter:
        x = torch.zeros(2000)
        with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 0\.00 MiB"):
            torch.zeros(1000)
        assert (meter.live, meter.peak, meter.timeline()) == (8000, 8000, [8000])
        x.add_(1)  # work in place goes on


def test_200_times_out_of_memory_and_back():
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
    with memory.track(budget=2_000_000, known=model) as meter:
        start = meter.live

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
            assert meter.live == start


def test_inside_except_the_traceback_still_holds_the_bytes():
    def work():
        kept = torch.zeros(1000)
        return kept, torch.zeros(100_000)

    with memory.track(budget=10_000) as meter:
        try:
            work()
        except torch.OutOfMemoryError:
            inside = meter.live
        assert (inside, meter.live) == (4000, 0)


@pytest.mark.parametrize(("budget", "rows"), [(100_000, 100), (999, 0), (1000, 1), (10**9, 500)])
def test_largest_batch_is_the_largest(budget, rows):
    assert memory.largest_batch(lambda n: torch.zeros(n, 250), budget, limit=500) == rows


def test_largest_batch_raises_what_is_no_lack_of_memory():
    with pytest.raises(ZeroDivisionError):
        memory.largest_batch(lambda n: 1 / 0, 1000)


def test_release_drops_the_error_that_python_remembers():
    class Thing:
        pass

    thing = Thing()
    dies = weakref.ref(thing)
    sys.last_value = thing
    cycle = [Thing()]
    cycle.append(cycle)
    in_cycle = weakref.ref(cycle[0])
    del thing, cycle
    gc.disable()
    try:
        assert dies() is not None and in_cycle() is not None
        memory.release()
    finally:
        gc.enable()
    assert dies() is None and in_cycle() is None


class Sentences(nn.Module):
    """An LSTM between two tables."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(100, 64)
        self.lstm = nn.LSTM(64, 128, 2, batch_first=True)
        self.out = nn.Linear(128, 100)

    def forward(self, x):
        return self.out(self.lstm(self.words(x))[0])


def mlp():
    layers = nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    return nn.Sequential(*layers)


def cnn():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip


def gpt():
    return GPT(GPTConfig(vocabulary=96, context=32, width=64, heads=4, layers=3))


MODELS = {
    "MLP": (mlp, lambda n: torch.rand(n, 784), (), (16, 256)),
    "CNN": (cnn, lambda n: torch.rand(n, 3, 24, 24), (), (8, 64)),
    "GPT": (gpt, lambda n: torch.randint(96, (n, 32)), (32,), (4, 64)),
    "LSTM": (Sentences, lambda n: torch.randint(100, (n, 24)), (24,), (32, 96)),
}
OPTIMISERS = {
    "SGD": lambda p: torch.optim.SGD(p, 0.01),
    "momentum": lambda p: torch.optim.SGD(p, 0.01, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p),
}


@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("name", MODELS)
def test_footprint_is_within_5_percent_of_the_measured_peak(name, optimiser):
    make, inputs, target, batches = MODELS[name]
    model = make()
    optimizer = OPTIMISERS[optimiser](model.parameters())
    classes = 96 if name == "GPT" else 100 if name == "LSTM" else 10

    def forward(rows):
        y = torch.randint(classes, (rows, *target))
        return F.cross_entropy(model(inputs(rows)).reshape(-1, classes), y.reshape(-1))

    def step(rows):
        optimizer.zero_grad()
        forward(rows).backward()
        optimizer.step()

    step(2)  # so that the optimiser has its state
    optimizer.zero_grad()
    for batch in batches:
        predicted = memory.footprint(model, forward, batch, optimizer)
        with memory.track(known=[model, optimizer]) as meter:
            step(batch)
        assert predicted.peak == pytest.approx(meter.peak, rel=0.05), batch
        optimizer.zero_grad()


@pytest.mark.parametrize("options", [{"foreach": True}, {"foreach": False}])
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_footprint_knows_the_temporaries_of_a_step(kind, decay, options):
    """A model with hardly any activations: the optimiser's step is the peak."""
    model = nn.Sequential(nn.Linear(256, 256), nn.Linear(256, 256))
    optimizer = kind(model.parameters(), lr=0.01, weight_decay=decay, **options)

    def forward(rows):
        return model(torch.ones(rows, 256)).sum()

    forward(2).backward()
    optimizer.step()
    optimizer.zero_grad()
    predicted = memory.footprint(model, forward, 4, optimizer)
    with memory.track(known=[model, optimizer]) as meter:
        forward(4).backward()
        optimizer.step()
    assert predicted.peak == pytest.approx(meter.peak, rel=0.05)


def test_footprint_does_not_know_every_optimiser():
    model = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="Rprop keeps for each weight is not known here"):
        memory.footprint(
            model,
            lambda n: model(torch.ones(n, 2)).sum(),
            8,
            torch.optim.Rprop(model.parameters()),
        )


def test_footprint_says_when_no_line_fits():
    model = nn.Linear(2, 2)

    def forward(rows):
        loss = model(torch.ones(rows, 2)).sum()
        return loss if rows < 3 else loss + (model(torch.ones(rows, 2)) ** 2).sum()

    with pytest.raises(ValueError, match="no line fits"):
        memory.footprint(model, forward, 8, torch.optim.SGD(model.parameters()))


def test_footprint_of_frozen_weights_has_no_gradients():
    model = nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 10))
    model[0].requires_grad_(False)
    adam = torch.optim.Adam(model[1].parameters())
    parts = memory.footprint(model, lambda n: model(torch.ones(n, 10)).sum(), 8, adam).parts
    assert parts["parameters"] == 880 and parts["gradients"] == 440
    assert parts["optimiser state"] == 880


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
    """As much of torch.cuda as a meter asks, forgetting its history when recording ends."""

    def __init__(self):
        self.allocated, self.history, self.fraction = 1000, [], None
        self.memory = self

    def synchronize(self, device):
        pass

    reset_peak_memory_stats = synchronize

    def memory_allocated(self, device):
        return self.allocated

    max_memory_allocated = memory_reserved = memory_allocated

    def empty_cache(self):
        pass

    def current_device(self):
        return 0

    def get_device_properties(self, device):
        return type("Properties", (), {"total_memory": 10_000})

    def set_per_process_memory_fraction(self, fraction, device):
        self.fraction = fraction

    def _record_memory_history(self, enabled="all", **options):
        self.history = []

    def _snapshot(self):
        return {"device_traces": [list(self.history)]}

    def allocate(self, size):
        self.allocated += size
        self.history.append({"action": "alloc", "size": size})


def test_on_cuda_the_allocator_is_asked_and_the_timeline_outlives_the_block(monkeypatch):
    cuda = FakeCuda()
    monkeypatch.setattr(torch, "cuda", cuda)
    with memory.track("cuda", budget=4000) as meter:
        assert cuda.fraction == pytest.approx((1000 + 4000) / 10_000)
        cuda.allocate(512)
        meter.mark("later")
    assert (meter.live, meter.peak) == (512, 512)
    assert meter.timeline() == [0, 512] and meter.marks == [(2, "later")]
    assert cuda.fraction == 1.0 and cuda.history == []
