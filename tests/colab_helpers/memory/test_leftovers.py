"""A traced step that writes tensors wherever it likes leaves none of them behind."""

from __future__ import annotations

import functools
import gc
import queue
import types
from collections import defaultdict, deque
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional as F

from colab_helpers import memory, plan

mask = None  # of a module
tables = {"losses": {}}


@dataclass
class Kept:
    losses: list = field(default_factory=list)
    last: object = None


class Slotted:
    __slots__ = ("first", "last")

    def __init__(self):
        self.last = "nothing yet"


class OnTheClass:
    total = torch.zeros(())


class Recorder:
    """A step that is a method."""

    def __init__(self):
        self.history, self.by_step = deque(maxlen=3), defaultdict(list)

    def write(self, loss):
        self.history.append(loss)
        self.by_step[len(self.history)].append(loss)


def as_global(loss):
    global mask
    mask = loss.detach()


def in_a_nested_table(loss):
    tables["losses"][len(tables["losses"])] = [loss]


def on_a_class(loss):
    OnTheClass.total = OnTheClass.total + loss.detach()


def writers():
    """Each way to keep a tensor, made anew: a function of the loss."""
    losses, seen, kept, slotted, recorder = [], set(), Kept(), Slotted(), Recorder()
    space, waiting, outside = types.SimpleNamespace(), queue.Queue(), torch.zeros(3)
    carried = torch.zeros(())

    @functools.cache
    def remembered(rows):
        return torch.ones(rows)

    def in_an_enclosing_variable(loss):
        nonlocal carried
        carried = carried + loss.detach()

    def as_attributes(loss):
        kept.last, slotted.last, slotted.first, space.loss = loss, loss, (loss, 1), {"x": [loss]}

    def as_an_attribute_of_a_tensor(loss):
        outside.history = [loss.detach()]

    def as_a_gradient(loss):
        outside.grad = torch.ones(3) * loss.detach()

    def in_a_new_object(loss):
        kept.losses.append(Kept([loss.detach()], last=lambda: loss))

    return {
        "list": losses.append,
        "set": seen.add,
        "queue": waiting.put,
        "partial": functools.partial(lambda where, loss: where.append(loss), losses),
        "method": recorder.write,
        "cache": lambda loss: remembered(int(loss) + 3),
        "enclosing variable": in_an_enclosing_variable,
        "global": as_global,
        "nested table": in_a_nested_table,
        "class": on_a_class,
        "attributes": as_attributes,
        "tensor's attribute": as_an_attribute_of_a_tensor,
        "gradient": as_a_gradient,
        "new object": in_a_new_object,
    }


def network():
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))


def fakes_alive():
    gc.collect()
    return [thing for thing in gc.get_objects() if type(thing) is FakeTensor]


def changes_weights(net, optimizer, loss_of, scaler=None):
    """Fifty real steps change every weight."""
    before = [p.detach().clone() for p in net.parameters()]
    for _ in range(50):
        optimizer.zero_grad()
        loss = loss_of(32)
        loss.backward()
        if scaler:  # the step has scaled the loss
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
    return all((a != b).any() for a, b in zip(before, net.parameters(), strict=True))


@settings(deadline=None, max_examples=12)
@given(names=st.sets(st.sampled_from(sorted(writers())), min_size=1), traced=st.booleans())
def test_a_step_may_keep_tensors_where_it_likes(names, traced):
    net, ways = network(), writers()
    chosen = [ways[name] for name in sorted(names)]
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    caught = []
    net[0].register_forward_hook(lambda module, given, result: caught.append(result))

    def loss_of(rows):
        x = torch.randn(rows, 6)
        loss = F.mse_loss(net(x), x.sum(1, keepdim=True))
        for write in chosen:
            write(loss)
        return loss

    before = dict(tables["losses"])
    (plan.trace_step if traced else memory.footprint)(net, loss_of, 8, optimizer)
    assert not fakes_alive()
    assert caught == [] and tables["losses"] == before
    assert changes_weights(net, optimizer, loss_of)


@pytest.mark.parametrize("on", ["a variable", "an object", "a list"])
def test_a_gradient_scaler_is_as_before(on):
    net, scaler = network(), torch.amp.GradScaler("cpu", init_scale=8.0)
    holder = types.SimpleNamespace(scaler=scaler)
    held = [scaler]
    find = {
        "a variable": lambda: scaler,
        "an object": lambda: holder.scaler,
        "a list": lambda: held[0],
    }
    optimizer = torch.optim.Adam(net.parameters())

    def loss_of(rows):
        x = torch.randn(rows, 6)
        return find[on]().scale(F.mse_loss(net(x), x.sum(1, keepdim=True)))

    memory.footprint(net, loss_of, 8, optimizer)
    assert scaler._scale is None and scaler.get_scale() == 8.0
    assert changes_weights(net, optimizer, loss_of, scaler)


def test_what_was_kept_before_stays_and_what_a_step_counts_stays_counted():
    net, calls, losses = network(), [], [torch.ones(1)]

    def loss_of(rows):
        calls.append(rows)
        losses.append(net(torch.randn(rows, 6)).sum())
        return losses[-1]

    memory.footprint(net, loss_of, 4, torch.optim.SGD(net.parameters(), 0.1))
    assert [loss.item() for loss in losses] == [1.0]
    assert calls == [4, 4]  # numbers are the user's own


def test_a_generator_that_keeps_a_tensor_is_named():
    def running_mean():
        mean = 0.0
        while True:
            mean = 0.9 * mean + 0.1 * (yield mean)

    net, averages = network(), running_mean()
    next(averages)

    def loss_of(rows):
        loss = net(torch.randn(rows, 6)).sum()
        averages.send(loss.detach())
        return loss

    with pytest.raises(
        memory.TraceError, match=r"in the generator `running_mean`.* make that object anew"
    ):
        memory.footprint(net, loss_of, 4, torch.optim.SGD(net.parameters(), 0.1))
    averages.close()
    assert not fakes_alive()


@pytest.mark.parametrize("stopped", [ValueError, KeyboardInterrupt])
def test_a_step_that_fails_leaves_nothing_either(stopped):
    net, losses = network(), []

    def loss_of(rows):
        losses.append(net(torch.randn(rows, 6)).sum())
        raise stopped("mine")

    with pytest.raises(stopped, match="mine") as caught:
        memory.footprint(net, loss_of, 4, torch.optim.SGD(net.parameters(), 0.1))
    assert losses == []
    if stopped is ValueError:
        assert "tensors without data" in caught.value.__notes__[0]
    del caught
    assert not fakes_alive()
