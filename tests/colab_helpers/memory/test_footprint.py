"""A training step rehearsed without data, beside the same step measured."""

import copy
import gc
import random
import re
from collections import OrderedDict
from unittest import mock

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from colab_helpers import memory
from tests import slow
from tests.colab_helpers.allocator_events import peak_bytes
from tests.colab_helpers.networks import NETWORKS

OPTIMIZERS = {
    "Adam": lambda p: torch.optim.Adam(p),
    "momentum": lambda p: torch.optim.SGD(p, 0.01, momentum=0.9),
    "SGD": lambda p: torch.optim.SGD(p, 0.01),
    "AdamW, all at once": lambda p: torch.optim.AdamW(p, foreach=True),
    "Adafactor": lambda p: torch.optim.Adafactor(p),
}


def step(forward, rows, optimizer):
    optimizer.zero_grad()
    forward(rows).backward()
    optimizer.step()


@pytest.mark.parametrize("optimizer", slow.after(1, OPTIMIZERS))
@pytest.mark.parametrize("name", NETWORKS)
def test_the_rehearsed_peak_is_the_measured_one(name, optimizer):
    model = NETWORKS[name].make()
    forward = NETWORKS[name].loss(model)
    optimizer = OPTIMIZERS[optimizer](model.parameters())
    step(forward, 2, optimizer)  # so that the optimizer has its state
    for rows in (3, 40):
        optimizer.zero_grad()
        rehearsed = memory.footprint(model, forward, rows, optimizer)
        with memory.track(known=[model, optimizer]) as tracker:
            step(forward, rows, optimizer)
        inside = name == "LSTM"  # its backward pass takes memory that no tensor has
        measured = peak_bytes(model, forward, rows, optimizer) if inside else tracker.peak
        assert rehearsed.peak == pytest.approx(measured, rel=0.03 if inside else 0.01)


@pytest.mark.parametrize(
    "name",
    sorted(
        name
        for name, kind in vars(torch.optim).items()
        if isinstance(kind, type) and name not in ("Optimizer", "LBFGS", "SparseAdam")
    ),
)
def test_the_state_of_every_optimizer_of_pytorch_is_foretold(name):
    model = nn.Linear(8, 4, bias=name != "Muon")  # which takes matrices alone

    def forward(batch_size):
        return model(torch.ones(batch_size, 8)).sum()

    optimizer = getattr(torch.optim, name)(model.parameters())
    told = memory.footprint(model, forward, 4, optimizer).optimizer_state
    step(forward, 4, optimizer)
    states = [t for state in optimizer.state.values() for t in state.values()]
    assert told == sum(t.nbytes for t in states if isinstance(t, torch.Tensor))


@pytest.mark.parametrize("name", NETWORKS)
def test_parts_are_the_measured_ones(name):
    model = NETWORKS[name].make()
    forward = NETWORKS[name].loss(model)
    optimizer = torch.optim.Adam(model.parameters())
    parts = memory.footprint(model, forward, 8, optimizer).parts
    with memory.track(known=model) as tracker:
        live = [0, tracker.allocated]
        loss = forward(8)
        live.append(tracker.allocated)
    loss.backward()
    optimizer.step()
    gradients = memory.tensor_bytes([p.grad for p in model.parameters()])
    measured = [live[1], gradients, memory.tensor_bytes(optimizer), live[2] - live[1]]
    assert list(parts.values()) == measured


@pytest.mark.parametrize("optimizer", slow.after(1, ["Adam", "momentum"]))
@pytest.mark.parametrize("name", slow.after(4, NETWORKS))
def test_nothing_of_the_user_changes_and_nothing_stays_alive(name, optimizer):
    """Weights, BatchNorm's statistics, gradients, state, generators; and no byte is left behind."""
    model = NETWORKS[name].make()
    forward = NETWORKS[name].loss(model)
    optimizer = OPTIMIZERS[optimizer](model.parameters())
    step(forward, 2, optimizer)
    weights, state = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    gradients = [p.grad for p in model.parameters()]
    generators = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    with memory.track() as tracker:
        for _ in range(3):
            memory.footprint(model, forward, 16, optimizer)
        gc.collect()
        assert tracker.allocated == 0
    assert not [thing for thing in gc.get_objects() if type(thing) is FakeTensor]
    assert all(torch.equal(weights[key], now) for key, now in model.state_dict().items())
    assert all(a is b.grad for a, b in zip(gradients, model.parameters(), strict=True))
    torch.testing.assert_close(optimizer.state_dict(), state, rtol=0, atol=0)
    assert torch.equal(generators[0], torch.get_rng_state())
    assert generators[1:] == (random.getstate(), np.random.get_state()[1].tolist())


def test_a_users_own_random_draws_are_put_back():
    model = nn.Linear(4, 1)

    def forward(rows):
        rows += random.randrange(3) + np.random.randint(3)
        return model(torch.rand(rows, 4)).sum()

    before = random.getstate(), np.random.get_state()[1].tolist()
    memory.footprint(model, forward, 8, torch.optim.SGD(model.parameters(), 0.1))
    assert before == (random.getstate(), np.random.get_state()[1].tolist())


def test_hooks_and_schedulers_of_the_real_optimizer_are_left_alone():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    called = []
    optimizer.register_step_post_hook(lambda *_: called.append("hook"))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    memory.footprint(model, lambda n: model(torch.rand(n, 4)).sum(), 8, optimizer)
    assert called == []
    optimizer.step()
    assert called == ["hook"]
    scheduler.step()  # warns where it thinks that no step was taken
    assert not optimizer.state and all(p.grad is None for p in model.parameters())


def test_data_that_the_step_slices_may_be_real():
    data, model = torch.rand(100, 784), nn.Linear(784, 10)
    optimizer = torch.optim.Adam(model.parameters())
    rehearsed = memory.footprint(model, lambda n: model(data[:n] * 2).sum(), 50, optimizer)
    assert rehearsed.activations == 50 * 784 * 4 + 4  # the scaled rows, and the loss


class Caching(nn.Module):
    """Keeps a table that its first forward pass makes, as rotary embeddings do."""

    def __init__(self):
        super().__init__()
        self.layer, self.table = nn.Linear(4, 4), None

    def forward(self, x):
        if self.table is None:
            self.table = torch.ones(4)
            self.register_buffer("seen", torch.ones(1))
        return self.layer(x) * self.table


def test_what_a_forward_pass_writes_into_a_module_is_put_back():
    model = Caching()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    memory.footprint(model, lambda n: model(torch.ones(n, 4)).sum(), 4, optimizer)
    assert model.table is None and not dict(model.named_buffers())
    step(lambda n: model(torch.ones(n, 4)).sum(), 4, optimizer)


def test_a_model_too_large_for_this_machine_is_rehearsed():
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Linear(50_000, 50_000, bias=False) for _ in range(4)))

    def forward(rows):
        return model(torch.ones(rows, 50_000, device="meta")).sum()

    rehearsed = memory.footprint(model, forward, 8, torch.optim.Adam(model.parameters()))
    assert rehearsed.parameters == rehearsed.gradients == 4 * 50_000**2 * 4
    assert rehearsed.peak > 160e9


def test_frozen_weights_have_no_gradients():
    model = nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 10))
    model[0].requires_grad_(False)
    adam = torch.optim.Adam(model[1].parameters())
    parts = memory.footprint(model, lambda n: model(torch.ones(n, 10)).sum(), 8, adam).parts
    assert parts["parameters"] == 880 and parts["gradients"] == 440
    assert parts["optimizer state"] == 880 + 2 * 4  # and a counter for each tensor


@pytest.mark.parametrize("batch", [0, -5, 2.5, "8", None])
def test_a_batch_size_that_is_none_is_refused(batch):
    model = nn.Linear(2, 2)
    with pytest.raises(
        ValueError, match=re.escape(f"batch_size must be a positive integer (got {batch!r})")
    ):
        memory.footprint(model, lambda n: 0, batch, torch.optim.SGD(model.parameters()))


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda out: 3.0, "returned a float"),
        (lambda out: 3, "returned an int"),
        (lambda out: out[:0], r"a tensor of shape \(0, 2\)"),
        (lambda out: out, r"a tensor of shape \(4, 2\)"),
        (lambda out: out.sum().detach(), "requires_grad=False"),
        (lambda out: out[out > 0].sum(), "This step has a data-dependent shape"),
    ],
)
def test_a_step_that_cannot_be_rehearsed_is_told_in_words(loss, words):
    model = nn.Linear(2, 2)
    with pytest.raises(memory.TraceError, match=words):
        memory.footprint(
            model, lambda n: loss(model(torch.ones(n, 2))), 4, torch.optim.SGD(model.parameters())
        )
    assert not isinstance(model.weight, FakeTensor)


def test_a_footprint_prints_as_one_line():
    model = nn.Linear(256, 1024)
    found = memory.footprint(
        model, lambda n: model(torch.ones(n, 256)).sum(), 4, torch.optim.SGD(model.parameters())
    )
    assert repr(found).startswith("2.01 MiB at the peak (parameters 1.00 MiB, gradients 1.00 MiB,")


class Mine(torch.optim.SGD):
    """An optimizer of somebody's own, with an attribute of its own."""

    def __init__(self, parameters):
        super().__init__(parameters, 0.1)
        self.slowness = 2

    def step(self, closure=None):
        assert self.slowness == 2
        return super().step(closure)


def test_a_data_set_a_mask_and_a_frozen_model_do_not_count():
    data, teacher, model = torch.rand(60_000, 784), nn.Linear(784, 784), nn.Linear(784, 10)
    teacher.requires_grad_(False)
    mask = torch.ones(1000, 784)
    optimizer = Mine(model.parameters())

    def forward(rows):
        return model(teacher(data[:rows]) * mask[:rows]).sum()

    step(forward, 2, optimizer)
    optimizer.zero_grad()
    rehearsed = memory.footprint(model, forward, 50, optimizer)
    with memory.track(known=[model, optimizer]) as tracker:
        step(forward, 50, optimizer)
    assert rehearsed.peak == tracker.peak < 2**20


def test_what_is_trained_outside_the_model_is_refused_and_left_alone():
    model, other = nn.Linear(4, 4), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*model.parameters(), *other.parameters()], 0.1)
    with pytest.raises(memory.TraceError, match="2 parameters of the optimizer are not in"):
        memory.footprint(model, lambda n: other(model(torch.rand(n, 4))).sum(), 4, optimizer)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(memory.TraceError, match=r"trains a tensor of shape .* not in `model`"):
        memory.footprint(model, lambda n: other(model(torch.rand(n, 4))).sum(), 4, optimizer)
    assert all(p.grad is None for p in other.parameters())
    both = nn.ModuleList([model, other])
    optimizer = torch.optim.SGD(both.parameters(), 0.1)
    found = memory.footprint(both, lambda n: other(model(torch.rand(n, 4))).sum(), 4, optimizer)
    assert found.gradients == 25 * 4

    def without_gradients(rows):
        with torch.no_grad():
            weight = other(torch.rand(rows, 4)).mean()
        return model(torch.rand(rows, 4)).sum() * weight

    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    assert memory.footprint(model, without_gradients, 4, optimizer).gradients == 80


def test_nothing_is_written_to_real_tensors_or_lists():
    seen, log, model = nn.BatchNorm1d(4), torch.zeros(1), nn.Linear(4, 1)
    seen.requires_grad_(False)
    model.history, model.table = [], {}

    def forward(rows):
        loss = model(seen(torch.rand(rows, 4))).sum()
        log.add_(1)
        model.history.append(loss)
        model.table[rows] = loss
        assert log.item() == 0.0 or rows  # a real value stays one
        return loss

    memory.footprint(model, forward, 8, torch.optim.SGD(model.parameters(), 0.1))
    assert (seen.num_batches_tracked.item(), log.item()) == (0, 0)
    assert (model.history, model.table) == ([], {})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda m: (m, torch.optim.LBFGS(m.parameters())), "several times a step"),
        (
            lambda m: (torch.jit.script(m), torch.optim.SGD(m.parameters(), 0.1)),
            "TorchScript module",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:.*torch.jit.*")
def test_what_cannot_be_rehearsed_at_all_is_told(make, words):
    model, optimizer = make(nn.Linear(2, 2))
    with pytest.raises(memory.TraceError, match=words):
        memory.footprint(model, lambda n: model(torch.ones(n, 2)).sum(), 4, optimizer)


def test_a_numpy_array_of_a_rehearsal_is_told():
    model = nn.Linear(2, 2)

    def forward(rows):
        loss = model(torch.ones(rows, 2)).sum()
        loss.detach().numpy()
        return loss

    with pytest.raises(memory.TraceError, match="converts a tensor to NumPy"):
        memory.footprint(model, forward, 4, torch.optim.SGD(model.parameters(), 0.1))


def small():
    model = nn.Linear(8, 8)
    return (
        model,
        torch.optim.SGD(model.parameters(), 0.1),
        lambda rows: model(torch.randn(rows, 8)).mean(),
    )


def test_what_a_step_writes_into_its_model_and_optimizer_is_put_back():
    model, optimizer, loss = small()
    model.stats, model.last = {"losses": []}, OrderedDict(a=1)
    model.weight.grad = kept = torch.ones(8, 8)
    rng, dice = np.random.default_rng(0), random.Random(0)
    before = rng.bit_generator.state, dice.getstate()

    def step(rows):
        optimizer.zero_grad()
        optimizer.param_groups[0]["lr"] *= 0.5
        model.stats["losses"].append(0.5)
        model.last["mask"] = torch.ones(rows, 8)
        rng.random(), dice.random()
        return loss(rows)

    memory.footprint(model, step, 4, optimizer)
    assert model.weight.grad is kept and optimizer.param_groups[0]["lr"] == 0.1
    assert model.stats == {"losses": []} and [*model.last] == ["a"]
    assert (rng.bit_generator.state, dice.getstate()) == before


class Locked(OrderedDict):
    """As transformers' outputs: nothing is written to it as to a dict."""

    def update(self, *_):
        raise RuntimeError("no update")

    __setitem__ = clear = __delitem__ = pop = update


def test_a_module_may_keep_a_locked_dict():
    model, optimizer, loss = small()
    model.last = Locked()
    OrderedDict.__setitem__(model.last, "output", torch.ones(2))
    memory.footprint(model, loss, 4, optimizer)
    assert [*model.last] == ["output"]


def test_parameters_that_share_a_storage_count_once():
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(20)))
    flat = nn.utils.parameters_to_vector(model.parameters()).detach()
    nn.utils.vector_to_parameters(flat, model.parameters())
    loss = lambda rows: model(torch.randn(rows, 64)).mean()  # noqa: E731
    found = memory.footprint(model, loss, 4, torch.optim.SGD(model.parameters(), 0.1))
    assert found.parameters == flat.nbytes
    model = nn.Embedding.from_pretrained(torch.randn(1000, 64)[:10], freeze=False)
    read = lambda rows: model(torch.zeros(rows, dtype=torch.long)).mean()  # noqa: E731
    sgd = torch.optim.SGD(model.parameters(), 0.1)
    assert memory.footprint(model, read, 4, sgd).parameters == 1000 * 64 * 4


def test_inference_of_an_lstm_keeps_no_workspace():
    model = nn.LSTM(32, 64, batch_first=True)
    run = lambda rows: model(torch.randn(rows, 50, 32))[0].sum()  # noqa: E731
    with torch.no_grad(), memory.track(known=[model]) as seen:
        run(64)
    assert memory.footprint(model, run, 64, None).peak == pytest.approx(seen.peak, rel=0.1)


def test_a_loop_that_ends_on_a_value_ends():
    model, _, _ = small()

    def until_done(rows):
        open_ones = torch.ones(rows, dtype=torch.long)
        while open_ones.max() > 0:
            done = torch.isin(model(torch.zeros(rows, 8)).argmax(1), torch.tensor([3]))
            open_ones = open_ones & ~done

    assert memory.footprint(model, until_done, 4, None).peak > 0

    def for_ever(rows):
        while torch.rand(()) < 2:
            pass

    with pytest.raises(memory.TraceError, match="a loop that ends on a value"):
        memory.footprint(model, for_ever, 4, None)


def test_a_step_may_call_a_mock():
    model, optimizer, loss = small()
    logger = mock.Mock()

    def step(rows):
        logger.log({"loss": 1.0})
        return loss(rows)

    assert memory.footprint(model, step, 4, optimizer).peak > 0
