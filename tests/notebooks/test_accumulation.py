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
def accumulated():
    """`accumulated` as lesson 06 defines it, and nothing else of its cell."""
    lesson = jupytext.read(table.ROOT / "lessons" / "06_memory_management.py")
    [cell] = [cell for cell in lesson.cells if "def accumulated(" in cell.source]
    start = cell.source.index("def accumulated(")
    names = {"torch": torch, "F": F}
    exec(cell.source[start : cell.source.index("\n\n\n", start)], names)
    return names["accumulated"]


@settings(max_examples=100, deadline=None)
@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=8), seed=st.integers(0, 999))
def test_weighed_by_rows_it_equals_the_big_batch(accumulated, sizes, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 4))
    rows = sum(sizes)
    x, y = torch.randn(rows, 8), torch.randint(4, (rows,))
    big = accumulated(model, x, y, [rows], lambda n: 1)
    small = accumulated(model, x, y, sizes, lambda n: n / rows)
    torch.testing.assert_close(small, big, rtol=1e-4, atol=1e-6)


def test_a_plain_mean_does_not(accumulated):
    torch.manual_seed(0)
    model = nn.Linear(8, 4)
    x, y = torch.randn(40, 8), torch.randint(4, (40,))
    big = accumulated(model, x, y, [40], lambda n: 1)
    plain = accumulated(model, x, y, [30, 10], lambda n: 0.5)
    assert (plain - big).norm() > 0.01 * big.norm()
