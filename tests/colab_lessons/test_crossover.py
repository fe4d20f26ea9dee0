import math

import pytest

from colab_lessons import crossover


def test_crossover_between_two_sizes():
    sizes = [1, 10, 100, 1000]
    line, flat = [1, 10, 100, 1000], [50, 50, 50, 50]
    assert crossover.crossover(sizes, line, flat) == pytest.approx(50)
    assert crossover.crossover(sizes, flat, line) is None
    assert crossover.crossover(sizes, flat, [1, 1, 1, 1]) == 1
    assert crossover.crossover(sizes, flat, flat) is None  # a tie is no win
    with pytest.raises(ValueError, match="one time a size"):
        crossover.crossover(sizes, line, [1])


def test_crossover_counts_from_the_last_loss():
    times = [10, 10, 10, 10]
    wobbly = [5, 20, 20, 5]
    assert crossover.crossover([1, 2, 4, 8], times, wobbly) == pytest.approx(math.sqrt(4 * 8))
