"""Formulas for a transformer's step, beside the step itself, traced."""

import dataclasses
import itertools
import random

import pytest
import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from colab_helpers import hardware
from colab_helpers.formulas import training
from colab_helpers.formulas.training import Transformer
from colab_helpers.plan import trace_step
from colab_lessons import models
from tests import slow

GPT2 = Transformer(
    n_layer=12, n_embd=768, n_head=12, block_size=1024, vocab_size=50257, batch_size=8
)
XL = Transformer(
    n_layer=24, n_embd=2048, n_head=16, block_size=1024, vocab_size=50304, batch_size=4
)
OPTIMIZERS = {
    "adamw": torch.optim.AdamW,
    "momentum": lambda p: torch.optim.SGD(p, momentum=0.9),
    "sgd": torch.optim.SGD,
}


def traced(sizes):
    """The step that the formulas describe, as lessons write it."""
    names = ("block_size", "n_layer", "n_head", "n_embd", "vocab_size")
    with torch.device("meta"):
        model = models.GPT(models.GPTConfig(**{name: getattr(sizes, name) for name in names}))
    if sizes.number_format == "half":
        model = model.to(torch.bfloat16)

    def network(ids):
        x = model.tokens(ids) + model.positions(torch.arange(ids.shape[1]))
        for block in model.blocks:
            x = checkpoint(block, x, use_reentrant=False) if sizes.checkpointing else block(x)
        return model.norm(x) @ model.tokens.weight.T

    def loss(batch_size):
        ids = torch.zeros(batch_size, sizes.block_size, dtype=torch.long)
        with torch.autocast("cpu", torch.bfloat16, enabled=sizes.number_format == "mixed"):
            return F.cross_entropy(network(ids).flatten(0, 1), ids.flatten())

    optimizer = OPTIMIZERS[sizes.optimizer](model.parameters())
    return trace_step(model, loss, sizes.batch_size, optimizer, foreach=True)


def random_sizes(count, seed):
    """Networks of all shapes: which moment is the worst differs among them."""
    dice = random.Random(seed)
    ways = itertools.cycle(itertools.product(training.FORMATS, training.OPTIMIZERS, (False, True)))
    for way in itertools.islice(ways, count):
        heads = dice.choice([2, 4, 8])
        yield Transformer(
            dice.randint(2, 6),
            heads * dice.choice([16, 32, 64]),
            heads,
            dice.choice([16, 64, 256, 512]),
            dice.choice([32, 300, 2000, 8000]),
            dice.randint(1, 8),
            *way,
        )


@pytest.mark.parametrize("sizes", slow.after(8, [*random_sizes(36, seed=1), GPT2, XL]), ids=repr)
def test_formulas_say_what_a_trace_counts(sizes):
    footprint = traced(sizes).footprint
    parts = sizes.parts
    assert parts["parameters"] == footprint.parameters
    assert parts["gradients"] == footprint.gradients
    assert parts["optimizer state"] == pytest.approx(footprint.optimizer_state, rel=1e-3, abs=999)
    assert parts["activations"] == pytest.approx(footprint.activations, rel=0.02)
    assert sizes.peak == pytest.approx(footprint.peak, rel=training.MAX_PEAK_ERROR)


def test_what_is_alive_adds_up_to_the_peak():
    for sizes in random_sizes(30, seed=3):
        assert sum(sizes.memory_by_phase[sizes.peak_phase].values()) == sizes.peak


def test_computing_again_is_counted():
    again = dataclasses.replace(GPT2, checkpointing=True)
    products = 12 * 768**2 * 12 * GPT2.tokens  # of the blocks: weights times tokens
    tied = 768 * 50257 * GPT2.tokens
    attention = (
        12 * 768 * 1024 * GPT2.tokens
    )  # of this, each product of QKᵀ or PV: twice, masked half
    assert GPT2.hardware_flops == 6 * products + 6 * tied + 6 * attention
    assert again.hardware_flops - GPT2.hardware_flops == 2 * products + 2 * attention
    assert again.flops == GPT2.flops == GPT2.hardware_flops + 6 * attention


@pytest.mark.parametrize("key", ["T4", "L4", "A100-40"])
def test_ways_to_fit_do_fit_and_none_is_needed_where_it_fits(key):
    chip = hardware.catalog()[key]
    for sizes in (GPT2, dataclasses.replace(GPT2, batch_size=40), XL):
        fits = training.step_bytes(sizes, chip) <= (1 - training.HEADROOM) * chip.usable_memory
        ways = training.ways_to_fit(sizes, chip)
        assert not (fits and ways)
        for way in ways:
            assert training.step_bytes(way, chip) <= (1 - training.HEADROOM) * chip.usable_memory
            assert way.number_format == sizes.number_format and way.n_layer == sizes.n_layer


def test_flop_are_counted_as_in_a_trace():
    sizes = dataclasses.replace(GPT2, batch_size=1, number_format="fp32")
    assert traced(sizes).flops == pytest.approx(sizes.flops, rel=0.05)


def test_more_never_takes_less():
    for name in ("n_layer", "block_size", "vocab_size", "batch_size"):
        more = dataclasses.replace(GPT2, **{name: 2 * getattr(GPT2, name)})
        assert more.peak > GPT2.peak
    assert dataclasses.replace(GPT2, checkpointing=True).peak < GPT2.peak
    assert dataclasses.replace(GPT2, number_format="fp32").peak > GPT2.peak
    assert dataclasses.replace(GPT2, optimizer="sgd").peak < GPT2.peak


def test_rooms_are_told_for_every_machine_with_an_accelerator():
    rooms = {fit.chip.key: fit for fit in training.fits(XL)}
    assert rooms["T4"].verdict == "does not fit" and rooms["T4"].largest_batch == 0
    assert rooms["H100"].verdict == "fits" and rooms["H100"].largest_batch >= XL.batch_size
    assert "no bf16" in rooms["T4"].note and "compiler" in rooms["v5e"].note


def test_the_largest_batch_is_the_largest():
    t4 = hardware.catalog()["T4"]
    rows = training.largest_batch(GPT2, t4)
    left = [
        training.step_bytes(dataclasses.replace(GPT2, batch_size=n), t4) / t4.usable_memory
        for n in (rows, rows + 1)
    ]
    assert left[0] <= 1 - training.HEADROOM < left[1]


def test_nearly_full_is_tight():
    t4 = hardware.catalog()["T4"]
    rows = training.largest_batch(GPT2, t4) + 1
    fit = next(
        fit for fit in training.fits(dataclasses.replace(GPT2, batch_size=rows)) if fit.chip is t4
    )
    assert fit.verdict == "tight"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"n_head": 5}, "cannot share"),
        ({"batch_size": 0}, "whole number"),
        ({"batch_size": "8"}, "whole number"),
        ({"n_layer": 10**9}, "whole number"),
        ({"number_format": "fp8"}, "one of"),
        ({"optimizer": "lion"}, "one of"),
    ],
)
def test_sizes_that_no_network_has(wrong, said):
    with pytest.raises(ValueError, match=said):
        dataclasses.replace(GPT2, **wrong)
