"""Plans: whether a model fits on a chip, how long it takes, what it costs.

`trace_step` runs your own step with tensors that have no data, and writes down what it does. `estimates`
says what Colab's machines would make of it: whether it fits, seconds, compute units; `format_plan` makes a
table of it. `cheapest` chooses by a deadline. `serve` says by formula how fast a language model answers, and
how many users it has room for.
"""

from __future__ import annotations

from colab_helpers.formulas.serving import checks as serving_checks
from colab_helpers.formulas.serving import serve
from colab_helpers.hardware.memory_overheads import overheads
from colab_helpers.plan.estimates import Estimate, cheapest, estimates, roofline_seconds, seconds_on
from colab_helpers.plan.plan_command import format_plan
from colab_helpers.plan.step_trace import StepTrace, TracedOp, trace_step

__all__ = [
    "Estimate",
    "StepTrace",
    "TracedOp",
    "cheapest",
    "estimates",
    "format_plan",
    "overheads",
    "roofline_seconds",
    "seconds_on",
    "serve",
    "serving_checks",
    "trace_step",
]
