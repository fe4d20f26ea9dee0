"""A rehearsal: operations, bytes and the life of every storage agree with the real step."""

import pytest
import torch
from torch import nn

from colab_helpers import memory, plan
from colab_helpers.memory.allocator import MIB, OutOfMemoryError
from tests import slow
from tests.colab_helpers.networks import NETWORKS


def peak_of(changes):
    held, live, most = {}, 0, 0
    for change in changes:
        size = held.pop(change.storage, 0) + change.bytes
        assert size >= 0 != change.bytes
        if size:
            held[change.storage] = size
        live += change.bytes
        most = max(most, live)
    return most


@pytest.mark.parametrize("name", slow.after(4, NETWORKS))
def test_changes_tell_the_footprints_peak(name):
    network = NETWORKS[name]
    model = network.make()
    optimizer = torch.optim.AdamW(model.parameters())
    work = plan.trace_step(model, network.loss(model), 4, optimizer)
    assert work.footprint == memory.footprint(model, network.loss(model), 4, optimizer)
    assert peak_of(work.changes) == work.footprint.peak
    assert work.replay(memory.Allocator(2**50)) >= work.footprint.peak
    assert work.flops > 0 and work.num_ops > 10 and work.bytes_accessed > work.footprint.parameters


def test_flop_of_products_attention_and_recurrent_layers():
    linear = nn.Linear(64, 32, bias=False)
    once = plan.trace_step(linear, lambda rows: linear(torch.zeros(rows, 64)), 8, None)
    assert once.flops == 2 * 8 * 64 * 32
    twice = plan.trace_step(linear, lambda rows: linear(torch.zeros(rows, 64)).sum(), 8,
                          torch.optim.SGD(linear.parameters()))  # fmt: skip
    assert twice.flops == 2 * once.flops  # nobody wants the gradient of the data

    def attend(rows):
        return nn.functional.scaled_dot_product_attention(*torch.zeros(3, rows, 2, 16, 8))

    scores = plan.trace_step(nn.Identity(), attend, 4, None)
    assert scores.flops == 2 * 2 * 4 * 2 * 16 * 16 * 8

    lstm = nn.LSTM(16, 32, batch_first=True)
    read = plan.trace_step(lstm, lambda rows: lstm(torch.zeros(rows, 5, 16))[0], 4, None)
    assert read.flops == 2 * 5 * 4 * (4 * 32 * 16 + 4 * 32 * 32)


def test_looking_up_moves_rows_and_not_the_table():
    table = nn.Embedding(100_000, 16)
    read = plan.trace_step(table, lambda rows: table(torch.zeros(rows, dtype=torch.long)), 8, None)
    assert read.bytes_accessed < 10_000 < table.weight.numel()


def test_equal_calls_are_one_operation():
    layers = nn.Sequential(*(nn.Linear(8, 8) for _ in range(5)))
    work = plan.trace_step(layers, lambda rows: layers(torch.zeros(rows, 8)), 2, None)
    [product] = [one for one in work.operations if one.flops]
    assert product.count == 5


def test_a_model_on_meta_is_one_on_the_cpu():
    def peak(where):
        with torch.device(where):
            model = nn.Linear(100, 100)
        return plan.trace_step(
            model,
            lambda rows: model(torch.zeros(rows, 100)).sum(),
            8,
            torch.optim.Adam(model.parameters()),
        )

    assert peak("meta").footprint == peak("cpu").footprint and peak("meta").device == "cpu"


def test_taking_all_weights_at_once_costs_memory():
    model = nn.Sequential(*(nn.Linear(200, 200) for _ in range(6)))
    loss = lambda rows: model(torch.zeros(rows, 200)).sum()  # noqa: E731
    one, together = (
        plan.trace_step(model, loss, 1, torch.optim.AdamW(model.parameters()), foreach=foreach)
        for foreach in (None, True)
    )
    assert together.footprint.peak > 1.15 * one.footprint.peak


def test_a_card_that_is_too_small_refuses_the_replay():
    model = nn.Linear(2000, 2000)
    loss = lambda rows: model(torch.zeros(rows, 2000)).sum()  # noqa: E731
    work = plan.trace_step(model, loss, 8, torch.optim.AdamW(model.parameters()))
    assert work.replay(memory.Allocator(200 * MIB)) >= work.footprint.peak
    with pytest.raises(OutOfMemoryError):
        work.replay(memory.Allocator(50 * MIB))


def training_of(model, inputs, rows=2):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return plan.trace_step(model, lambda count: model(inputs(count)).sum(), rows, optimizer)


def test_backward_of_grouped_convolutions_is_twice_forward_and_not_more():
    model = nn.Sequential(
        nn.Conv2d(3, 32, 1), nn.Conv2d(32, 32, 3, groups=32, padding=1), nn.Conv2d(32, 8, 1)
    )
    images = lambda rows: torch.zeros(rows, 3, 16, 16)  # noqa: E731
    forward = plan.trace_step(model, lambda rows: model(images(rows)), 2, None).flops
    first = 2 * 2 * 16 * 16 * 3 * 32  # its data want no gradient
    assert training_of(model, images).flops == 3 * forward - first


def test_a_slice_of_real_data_is_not_a_birth_of_all_of_it():
    data = torch.zeros(1_000_000, 8)
    model = nn.Linear(8, 8)
    work = training_of(model, lambda rows: data[:rows])
    assert peak_of(work.changes) == work.footprint.peak < 10_000 and work.bytes_accessed < 100_000


def test_inference_mode_hides_no_products():
    model = nn.Linear(100, 100)

    def read(rows):
        with torch.inference_mode():
            return model(torch.zeros(rows, 100))

    assert plan.trace_step(model, read, 8, None).flops == 2 * 8 * 100 * 100


def test_a_number_changed_in_place_is_read_and_written():
    def double(rows):
        x = torch.empty(rows)
        return x.mul_(2.0)

    assert plan.trace_step(nn.Identity(), double, 1000, None).bytes_accessed == 8000


def test_a_storage_that_grows_in_place_is_taken_anew():
    def grow(rows):
        x = torch.zeros(rows)
        y = torch.zeros(rows)
        x.resize_(1000 * rows)
        return x[0] + y[0]

    work = plan.trace_step(nn.Identity(), grow, 1000, None)
    assert work.footprint.peak >= 4_000_000 and peak_of(work.changes) == work.footprint.peak
    card = memory.Allocator(200 * MIB)
    assert work.replay(card) >= 4_000_000
    assert (
        card.counts["requested"].peak >= 4_008_000
    )  # old and new at once, while numbers are copied


def test_the_logger_of_pytorchs_counter_is_as_it_was():
    import logging

    log = logging.getLogger("torch.utils.flop_counter")
    plan.trace_step(nn.Linear(2, 2), lambda rows: torch.zeros(rows, 2) @ torch.zeros(2, 2), 2, None)
    assert log.level == logging.NOTSET
