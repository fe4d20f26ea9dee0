"""The lesson's own function for accumulating gradients, on any split of a batch."""

import jupytext
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from course import table


@pytest.fixture(scope="module")
def names():
    """What `gradient`, as lesson 06 defines it, sees; nothing else of its cell is run."""
    lesson = jupytext.read(table.ROOT / "lessons" / "06_memory_management.py")
    [cell] = [cell for cell in lesson.cells if "def gradient(" in cell.source]
    start = cell.source.index("def gradient(")
    names = {"torch": torch, "F": F, "nn": nn, "device": "cpu"}
    exec(cell.source[start : cell.source.index("\n\n\n", start)], names)
    return names


def batch(names, rows, seed):
    generator = torch.Generator().manual_seed(seed)
    names["x"] = torch.randn(rows, 64, generator=generator)
    names["y"] = torch.randint(10, (rows,), generator=generator)
    return names["gradient"]


@settings(max_examples=100, deadline=None)
@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=8), seed=st.integers(0, 999))
def test_weighted_by_rows_it_equals_the_big_batch(names, sizes, seed):
    rows = sum(sizes)
    gradient = batch(names, rows, seed)
    whole = gradient(nn.LayerNorm(32), [rows], lambda n: 1)
    parts = gradient(nn.LayerNorm(32), sizes, lambda n: n / rows)
    torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-6)


def test_a_plain_mean_does_not(names):
    gradient = batch(names, 40, 0)
    whole = gradient(nn.LayerNorm(32), [40], lambda n: 1)
    plain = gradient(nn.LayerNorm(32), [30, 10], lambda n: 0.5)
    assert (plain - whole).norm() > 0.01 * whole.norm()
