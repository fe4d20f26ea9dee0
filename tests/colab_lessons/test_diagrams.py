"""Diagrams and dots: what they tell those who cannot see them, and what they draw."""

import numpy as np

from colab_helpers import memory, published
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
    kept, gone = card.take(4 * 2**20), card.take(30 * 2**20)
    card.give(gone)
    assert len(card.segments()) == 2
    card.empty_cache()
    assert [sum(size for size, _ in segment) for segment in card.segments()] == [20 * 2**20]
    card.give(kept)
    card.empty_cache()
    assert card.segments() == []


def test_ratios_tell_each_reading_and_credit_others():
    row = published.get("matmul-t4-formats")
    values = {"here": {"bf16": 4.0, "fp16": 0.01}, "T4": {"fp16": 10.0}}
    picture = figures.ratios(
        values, title="T", xlabel="x", one="fp32", hollow=("T4",), published=[row]
    )
    assert "here: bf16 4.0×, fp16 0.01×; T4: fp16 10×" in picture.alt
    assert row.credit in picture.alt


def test_activity_tells_how_busy_each_side_was():
    lanes = {"starved": {"": [(0.0, 1.0, "trains"), (3.0, 4.0, "trains")]}, "idle": {"": []}}
    picture = figures.activity(lanes, title="T")
    assert "starved, : busy 50%" in picture.alt and "idle, : idle" in picture.alt


def test_panels_tell_each_median_and_stacked_memory_tells_its_parts():
    picture = figures.panels(
        {"a": {"fp16": [[1.0, 9.0, 2.0], [float("nan"), 5.0, 5.0]]}},
        ["1", "2"], title="T", xlabel="x", ylabel="loss", top=3,
    )  # fmt: skip
    assert "a, fp16: 1 2" in picture.alt
    stacked = figures.stacked({"weights": [4, 4], "rest": [0, 8]}, [(0, "begin")], title="T")
    assert "Peak 12.0 B: 4.00 B weights, 8.00 B rest" in stacked.alt
