"""Plans: whether a model fits on a chip, how long it takes, what it costs.

`rehearse` runs your own step with tensors that have no data, and writes down what it does. `time_alone`
says how long this machine should take for it, `offers` what Colab's machines would say: whether it fits,
seconds, compute units; `show` prints it. `cheapest` chooses by a deadline.
"""

from __future__ import annotations

from colab_helpers.hardware.overheads import terms
from colab_helpers.plan.command import show
from colab_helpers.plan.offers import (
    Offer,
    ceilings,
    cheapest,
    largest_batch,
    offers,
    seconds_on,
)
from colab_helpers.plan.timing import Expected, time_alone
from colab_helpers.plan.work import Operation, Work, rehearse

__all__ = [
    "Expected",
    "Offer",
    "Operation",
    "Work",
    "ceilings",
    "cheapest",
    "largest_batch",
    "offers",
    "rehearse",
    "seconds_on",
    "show",
    "terms",
    "time_alone",
]
