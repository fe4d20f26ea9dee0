"""The course's job in small: trained, killed, resumed, evaluated."""

import dataclasses
import math
import warnings

import pytest
import torch

from colab_lessons import models, shakespeare, training

SMALL = models.GPTConfig(block_size=32, n_layer=1, n_head=2, n_embd=16)
RECIPE = training.TrainConfig(steps=6, batch_size=4, warm_up=2, evaluate_every=2)
CPU = torch.device("cpu")


def test_a_batch_is_text_and_the_same_text_one_character_on():
    text = shakespeare.load("test")
    ids, targets = training.batch(text, 5, 20, torch.Generator().manual_seed(1))
    assert ids.shape == targets.shape == (5, 20)
    assert shakespeare.decode(ids[0]) in shakespeare.read("test")
    assert torch.equal(ids[:, 1:], targets[:, :-1])


def test_a_model_that_knows_nothing_needs_the_bits_of_96_characters():
    class Nothing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def forward(self, ids):
            return torch.zeros(*ids.shape, 96) * self.weight

    text = shakespeare.load("test")
    for windows in (None, 3):
        bits = training.bits_per_character(Nothing(), text, 1000, windows)
        assert bits == pytest.approx(math.log2(96))


def test_the_learning_rate_rises_and_falls_to_a_tenth():
    recipe = training.TrainConfig()
    rates = [recipe.rate(step) for step in range(recipe.steps)]
    assert rates[0] == pytest.approx(recipe.learning_rate / 100)
    assert max(rates) == pytest.approx(recipe.learning_rate)
    assert rates.index(max(rates)) in (99, 100)
    assert recipe.rate(recipe.steps) == pytest.approx(recipe.learning_rate / 10)


def test_a_resumed_training_is_the_one_that_was_left_alone(tmp_path):
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    whole = training.TrainingRun(RECIPE, tmp_path / "whole", CPU, SMALL)
    whole.train(lambda line: None)

    class Killed(Exception):
        pass

    def kill(line):
        if line.startswith("step 4"):
            raise Killed

    with pytest.raises(Killed):
        training.TrainingRun(RECIPE, tmp_path / "killed", CPU, SMALL).train(kill)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the learning rate is the schedule's: none is replaced
        resumed = training.TrainingRun(RECIPE, tmp_path / "killed", CPU, SMALL)
    assert resumed.done == 2  # step 4 was said before it was saved
    said = []
    resumed.train(said.append)
    assert [line.split(":")[0] for line in said] == ["step 4", "step 6"]
    assert resumed.record["losses"] == whole.record["losses"]
    assert resumed.record["evaluated"] == whole.record["evaluated"]
    assert len(resumed.record["seconds"]) == RECIPE.steps
    for mine, theirs in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert list(whole.record["samples"]) == ["0"]


def test_a_sample_is_the_same_for_the_same_seed():
    torch.manual_seed(0)
    model = models.GPT(SMALL)
    first, again, other = (training.sample(model, "To be", 40, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert first.startswith("To be") and len(first) == 45


def test_a_folder_belongs_to_one_training(tmp_path):
    training.TrainingRun(RECIPE, tmp_path, CPU, SMALL).train(lambda line: None)
    longer = dataclasses.replace(RECIPE, steps=8)
    assert training.TrainingRun(longer, tmp_path, CPU, SMALL).done == 6
    for other in (dataclasses.replace(RECIPE, seed=1), dataclasses.replace(RECIPE, steps=2)):
        with pytest.raises(ValueError, match="holds 6 steps"):
            training.TrainingRun(other, tmp_path, CPU, SMALL)


def test_a_sample_needs_a_prompt_and_a_temperature():
    for words in ({"prompt": ""}, {"temperature": 0}):
        with pytest.raises(ValueError, match="temperature be above 0"):
            training.sample(models.GPT(SMALL), count=1, **words)
