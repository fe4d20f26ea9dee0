"""Processors drawn lane by lane."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from colab_helpers import _units
from colab_helpers.figures.style import COLORS, Picture, canvas, finish, look
from colab_helpers.hardware import Chip, Device


def simd_lanes(cpu: Device, chips: Sequence[Chip], *, title: str) -> Picture:
    """Draw processors as what they are: a few large lanes, or thousands of small ones.

    Every square is a lane of the CPU's vector units, an fp32 lane of a GPU, a multiplier of a TPU.
    `cpu` stands first, then `chips`, each with its memory, bandwidth and peak below. `title` holds the
    finding.
    """
    ram = f"{_units.gib(cpu.memory_total)} memory" if cpu.memory_total else ""
    with canvas(8.4, 4.5, columns=1 + len(chips)) as (figure, axes):
        yours = f"your CPU, {cpu.cores} cores\nat least {cpu.fp32_lanes} fp32 lanes"
        _grid(axes[0], cpu.fp32_lanes, COLORS[0], yours, ram)
        for i, chip in enumerate(chips):
            # What these lanes compute in.
            theirs = "fp32" if chip.kind == "GPU" else chip.best_format
            text = (
                f"{chip.memory / 1e9:.0f} GB memory\n{_units.quantity(chip.bandwidth, 'B/s')}\n"
                f"{_units.quantity(chip.peak[theirs], 'FLOP/s')} in {theirs}"
            )
            what = "fp32 lanes" if chip.kind == "GPU" else "multipliers"
            _grid(
                axes[i + 1],
                chip.fp32_lanes,
                look(i + 1)["color"],
                f"{chip.name}\n{chip.fp32_lanes:,} {what}",
                text,
            )
        counts = "; ".join(f"{chip.name} {chip.fp32_lanes:,}" for chip in chips)
        alt = f"{title}. Squares for the lanes of each processor: your CPU {cpu.fp32_lanes}; {counts}."
        figure.get_layout_engine().set(rect=(0.01, 0.05, 0.98, 0.87))  # room for the text below
        figure.suptitle(title, x=0.01, ha="left", size=11, weight="bold", y=0.985)
        return finish(figure, alt)


def _grid(axes: Axes, lanes: int | None, color: str, title: str, text: str) -> None:
    """One square a lane, in a square field: few are large, many are small."""
    count = lanes or 1
    side = math.isqrt(count - 1) + 1
    edge = 0.8 if side < 100 else 1.0
    corners = np.array([(0, 0), (edge, 0), (edge, edge), (0, edge)]) - edge / 2
    places = np.array([(i % side, -(i // side)) for i in range(count)])
    squares = places[:, None, :] + corners
    axes.set_title(title, fontsize=10, loc="center")
    axes.set_xlim(-0.6, side - 0.4)
    axes.set_ylim(-side + 0.4, 0.6)
    axes.set_aspect("equal")
    axes.axis("off")
    axes.add_collection(PolyCollection(list(squares), facecolor=color, edgecolor="none"))
    axes.text(0.5, -0.06, text, transform=axes.transAxes, ha="center", va="top", fontsize=9)
