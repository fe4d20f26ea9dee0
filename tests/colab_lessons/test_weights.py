"""The trained model as it ships: eight bits, the loss that its record says, and a text that it writes."""

import re

import pytest
import torch
from safetensors.torch import load_file, save_file

from colab_lessons import models, scoreboard, shakespeare, training, weights

RECORD = scoreboard.job_record("amd-epyc-2-cores")


@pytest.fixture(scope="module")
def trained():
    return models.trained()


def test_a_matrix_comes_back_within_half_a_step_of_its_row():
    state = {
        "w": torch.randn(5, 40) * torch.tensor([1e-3, 1, 1e3, 1, 1])[:, None],
        "b": torch.ones(3),
        "norm.scale": torch.ones(4),  # a weight of this name is no scale
    }
    packed = weights.quantize(state)
    again = weights.dequantize(packed)
    assert again.keys() == state.keys()
    assert packed["w"].dtype == torch.int8 and torch.equal(again["b"], state["b"])
    assert ((again["w"] - state["w"]).abs() <= 0.501 * packed["w.scale"][:, None]).all()


def test_the_file_is_small_and_all_matrices_in_it_have_eight_bits():
    assert weights.SHIPPED.stat().st_size < 12e6
    matrices = [weight for weight in load_file(weights.SHIPPED).values() if weight.dim() == 2]
    assert len(matrices) == 26 and {weight.dtype for weight in matrices} == {torch.int8}


def test_its_loss_is_that_of_float32(trained):
    bits = training.bits_per_character(trained, shakespeare.load("test"), windows=64)
    assert bits == pytest.approx(RECORD["evaluated"][-1]["test"], abs=0.01)
    for play, whole in RECORD["bits_float32"].items():
        assert RECORD["bits_shipped"][play] == pytest.approx(whole, abs=0.01)


def test_what_it_writes_is_english(trained):
    written = training.sample(trained, count=120)
    words = re.findall("[A-Za-z']+", written)
    assert written.startswith("ROMEO:\n") and len(words) > 15
    known = set(re.findall("[A-Za-z']+", shakespeare.read()))
    assert sum(word in known for word in words) > 0.7 * len(words)
    assert training.sample(trained, count=20) == written[:27]  # of one seed, one text


def test_a_file_of_your_own_is_loaded_instead(tmp_path):
    model = models.GPT()
    torch.save(model.state_dict(), tmp_path / "mine.pt")
    save_file(weights.quantize(model.state_dict()), tmp_path / "mine.safetensors")
    ids = torch.randint(96, (1, 20))
    expected = model(ids)
    torch.testing.assert_close(models.trained(tmp_path / "mine.pt")(ids), expected)
    torch.testing.assert_close(
        models.trained(tmp_path / "mine.safetensors")(ids), expected, atol=0.1, rtol=0.1
    )


def test_the_card_says_what_the_record_says():
    card = (weights.SHIPPED.parent / "README.md").read_text("utf-8")
    for play in RECORD["bits_float32"]:
        numbers = (RECORD[f"bits_{name}"][play] for name in ("float32", "shipped"))
        row = f"| *{play}* | " + " | ".join(f"{bits:.4f}" for bits in numbers) + " |"
        assert row in card, row
    assert f"{models.trained().parameter_count:,} parameters" in card
    assert f"{len(shakespeare.read()):,} characters" in card
