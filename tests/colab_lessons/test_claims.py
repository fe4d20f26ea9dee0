"""Sentences that hold, and what is printed where they don't."""

import math

import pytest

from colab_helpers import runtime
from colab_lessons.claims import MARK, holds


@pytest.mark.parametrize("value", [1, 1.5, 2])
def test_a_true_sentence_is_silent(value, capsys):
    holds(value, 1, 2, "It doubles.")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("value", [0.999, 2.001, math.nan, math.inf, None])
def test_a_false_one_is_one_line_with_the_value(value, capsys):
    holds(value, 1, 2, "It doubles.")
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{MARK}It doubles.") and "not 1 to 2" in line


def test_small_sizes_and_a_fake_gpu_are_not_judged(capsys, monkeypatch):
    holds(7, 1, 2, "It doubles.", fast=True)
    here = runtime.describe()
    monkeypatch.setattr(
        runtime, "describe", lambda: type(here)(**{**vars(here), "platform": "fake-gpu"})
    )
    holds(7, 1, 2, "It doubles.")
    assert capsys.readouterr().out == ""
