import math

import pytest

from colab_lessons import curves


def test_crossover_between_two_sizes():
    sizes = [1, 10, 100, 1000]
    line, flat = [1, 10, 100, 1000], [50, 50, 50, 50]
    assert curves.crossover(sizes, line, flat) == pytest.approx(50)
    assert curves.crossover(sizes, flat, line) is None
    assert curves.crossover(sizes, flat, [1, 1, 1, 1]) == 1
    with pytest.raises(ValueError, match="one time a size"):
        curves.crossover(sizes, line, [1])


def test_crossover_counts_from_the_last_loss():
    times = [10, 10, 10, 10]
    wobbly = [5, 20, 20, 5]
    assert curves.crossover([1, 2, 4, 8], times, wobbly) == pytest.approx(math.sqrt(4 * 8))
