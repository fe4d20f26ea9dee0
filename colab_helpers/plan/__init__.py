"""Plans: whether a model fits on a chip, how long it takes, what it costs.

`trace_step` runs your own step with tensors that have no data, and writes down what it does. `estimates`
says what Colab's machines would make of it: whether it fits, seconds, compute units; `show` prints it.
`cheapest` chooses by a deadline.
"""

from __future__ import annotations

from colab_helpers.hardware.overheads import overheads
from colab_helpers.plan.command import show
from colab_helpers.plan.estimates import (
    Estimate,
    ceilings,
    cheapest,
    estimates,
    seconds_on,
)
from colab_helpers.plan.trace import Operation, StepTrace, trace_step

__all__ = [
    "Estimate",
    "Operation",
    "StepTrace",
    "ceilings",
    "cheapest",
    "estimates",
    "overheads",
    "seconds_on",
    "show",
    "trace_step",
]
