"""What the page "The GPU in front of you" draws beside the reader's GPU."""

from __future__ import annotations

import json

from colab_helpers import chip_throughput
from colab_lessons import measurements

#: Seconds that a wait takes beside the launch: lesson 01's estimate, low and high.
_WAIT = 4e-6, 10e-6


def rivals() -> str:
    """Return a T4's published speeds and one recorded CPU core's, in FLOP/s, bytes/s and s, as JSON."""
    t4 = chip_throughput.rates("T4")
    core = measurements.load("01_enable_gpu")[0].values
    trip = [t4["launch"].low + _WAIT[0], t4["launch"].high + _WAIT[1]]
    rates = {"fp32": t4["fp32"].value, "memory": t4["memory"].value, "trip": trip}
    own = {"flops": core["peak"].number, "call": core["call"].number}
    return json.dumps({"t4": rates, "core": own})
