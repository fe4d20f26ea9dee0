"""Where one curve of times overtakes another."""

from __future__ import annotations

import math
from collections.abc import Sequence


def crossover(
    sizes: Sequence[float], first: Sequence[float], second: Sequence[float]
) -> float | None:
    """Return the size from which on `second` (seconds) stays faster than `first`, or None.

    `sizes` rise; `first` and `second` hold seconds, one a size. Between two sizes the curves are taken
    as straight on log-log axes. A curve that does not win at the largest size has no crossover. Raises
    `ValueError` where the lengths differ.

    >>> round(crossover([1, 10, 100], [1, 10, 100], [10, 10, 10]))
    10
    """
    if not len(sizes) == len(first) == len(second):
        raise ValueError("crossover needs one time a size for both contenders.")
    lead = [math.log(b / a) for a, b in zip(first, second, strict=True)]  # below 0: second wins
    if lead[-1] >= 0:
        return None
    last_loss = max((i for i, value in enumerate(lead) if value >= 0), default=None)
    if last_loss is None:
        return float(sizes[0])
    share = lead[last_loss] / (lead[last_loss] - lead[last_loss + 1])
    low, high = math.log(sizes[last_loss]), math.log(sizes[last_loss + 1])
    return float(math.exp(low + share * (high - low)))
