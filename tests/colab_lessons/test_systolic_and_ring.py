"""Diagrams and dots: what they tell those who cannot see them, and what they draw."""

import numpy as np

from colab_helpers import memory
from colab_lessons import figures


def test_an_array_of_multipliers_tells_how_many_work_and_lets_the_product_fall_out():
    rows, weights = np.array([[1, 2], [3, 1]]), np.array([[1, 2], [3, 4]])
    picture = figures.systolic(rows, weights, title="T")
    assert "2 × 2 multipliers in 4 steps, 2 rows of data" in picture.alt
    assert picture.alt.endswith("At work in each step: 1, 3, 3, 1.")


def test_a_ring_tells_how_many_parts_are_complete():
    seen = np.array([[[1, 1], [1, 2], [2, 2]], [[1, 1], [2, 1], [2, 2]]])
    picture = figures.ring(seen, title="T")
    assert picture.alt.startswith("2 workers with 2 parts each, in 2 steps. T.")
    assert picture.alt.endswith("Complete parts after each step: 0, 2, 4.")


def test_an_emptied_cache_leaves_no_segment():
    card = memory.Allocator(100 * 2**20)
    kept, gone = card.allocate(4 * 2**20), card.allocate(30 * 2**20)
    card.free(gone)
    assert len(card.segments()) == 2
    card.empty_cache()
    assert [sum(size for size, _ in segment) for segment in card.segments()] == [20 * 2**20]
    card.free(kept)
    card.empty_cache()
    assert card.segments() == []
