"""How often to save: Young's formula."""

from __future__ import annotations

import math


def best_interval(cost: float, between: float) -> float:
    """Return the seconds from one checkpoint to the next that lose least time.

    `cost` are the seconds that a checkpoint takes, `between` the seconds from one failure to the next on
    average. Source: Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9),
    1974. It holds where `cost` is small beside `between`. Raises ValueError for what is not positive.

    >>> round(best_interval(cost=2, between=3600))
    120
    """
    _positive(cost=cost, between=between)
    return math.sqrt(2 * cost * between)


def lost_share(interval: float, cost: float, between: float) -> float:
    """Return the share of time that is lost with a checkpoint each `interval` seconds: saving and redoing.

    A failure comes in the middle of an interval on average. `cost` and `between` are as in
    `best_interval`, and so are the errors.

    >>> round(lost_share(interval=120, cost=2, between=3600), 4)
    0.0333
    """
    _positive(interval=interval, cost=cost, between=between)
    return cost / interval + interval / (2 * between)


def _positive(**seconds: float) -> None:
    for name, value in seconds.items():
        if not value > 0:
            raise ValueError(f"{name} is {value}: give seconds above 0.")
