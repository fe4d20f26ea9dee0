"""A step's time from each operation alone: roughly right, for every network, and nothing is changed."""

import math

import pytest
import torch
from torch import nn

from colab_helpers import benchmark, plan
from colab_helpers.plan import accuracy, timing
from tests import slow
from tests.colab_helpers.networks import NETWORKS


@pytest.mark.parametrize("name", slow.after(4, NETWORKS))
def test_every_network_can_be_timed(name):
    network = NETWORKS[name]
    model = network.make()
    before = [p.detach().clone() for p in model.parameters()]
    work = plan.trace_step(
        model, network.loss(model), 4, torch.optim.SGD(model.parameters(), 0.1, 0.9)
    )
    expected = plan.time_alone(work, budget=0.1)
    assert 0 < expected.seconds < 60 and math.isclose(
        sum(expected.families().values()), expected.seconds
    )
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


def test_the_sum_counts_every_call_once(monkeypatch):
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4)))
    work = plan.trace_step(model, lambda rows: model(torch.zeros(rows, 64)), 8, None)
    one = benchmark.Measurement((1e-3,))
    monkeypatch.setattr(benchmark, "measure", lambda call, **_: (call(), one)[1])
    found = plan.time_alone(work)
    assert math.isclose(found.seconds, 1e-3 * work.calls)
    assert math.isclose(found.planned, found.seconds * accuracy.longer()[1])


def test_tensors_are_made_with_their_strides():
    wide = torch.rand(4, 6).t()
    narrow = torch.rand(3, 1).expand(3, 5)
    for tensor in (wide, narrow):
        shape = timing.Shape(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)
        made = timing._real(shape, torch.device("cpu"), 0.5)
        assert made.shape == tensor.shape and made.stride() == tensor.stride()
    assert (
        timing._real(timing.Shape((0, 3), (3, 1), torch.int64), torch.device("cpu"), 0).numel() == 0
    )
