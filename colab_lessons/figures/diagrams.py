"""Mechanisms drawn from their state, step by step."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from colab_helpers.figures.style import INK, Picture, canvas, finish, look

_IDLE = "#e5e7eb"


def systolic(rows: np.ndarray, weights: np.ndarray, *, title: str) -> Picture:
    """Draw the product of `rows` and `weights` in a systolic array, one frame for each step.

    `rows` (number of rows, side) enter from the left, each number one step after the one above it;
    `weights` (side, side) stay in the multipliers. Sums move down and fall out below. `title` holds the
    finding.
    """
    side, count = len(weights), len(rows)
    steps = count + 2 * side - 2
    with canvas(8.4, 0.6 + 8.4 / steps * (side + 1.7) / (side + 0.8)) as (figure, axes):
        busy = []
        for step in range(steps):
            left = step * (side + 0.8)
            axes.text(left + side / 2, -0.25, f"step {step + 1}", ha="center", fontsize=9)
            work = [
                _multiplier(axes, left, i, j, step - i - j, rows, weights)
                for i, j in np.ndindex(side, side)
            ]
            busy.append(sum(work))
            for j in range(side):  # what fell out of each column after the step
                row = step - (side - 1) - j
                if 0 <= row < count:
                    axes.text(
                        left + j + 0.46, side + 0.4, f"{rows[row] @ weights[:, j]:g}", ha="center",
                        va="center", size=11, weight="bold", color=look(row)["color"],
                    )  # fmt: skip
        axes.set(xlim=(-0.1, steps * (side + 0.8) - 0.7), ylim=(side + 0.9, -0.8))
        axes.set_aspect("equal")
        axes.axis("off")
        figure.suptitle(title, x=0.01, ha="left", size=11, weight="bold")
        field = f"An array of {side} × {side} multipliers in {steps} steps, {count} rows of data"
        return finish(
            figure, f"{field}. {title}. At work in each step: {', '.join(map(str, busy))}."
        )


def _multiplier(
    axes: Axes, left: float, i: int, j: int, row: int, rows: np.ndarray, weights: np.ndarray
) -> bool:
    """One multiplier of a frame: its product, and the sum that leaves it; whether it works at all."""
    works = 0 <= row < len(rows)
    colour = look(row)["color"] if works else _IDLE
    axes.add_patch(Rectangle((left + j, i), 0.92, 0.92, facecolor=colour, edgecolor="white"))
    x, ink = left + j + 0.46, "white" if works else INK
    if works:
        product = f"{rows[row, i]:g} × {weights[i, j]:g}"
        total = f"{rows[row, : i + 1] @ weights[: i + 1, j]:g}"
        axes.text(x, i + 0.3, product, ha="center", va="center", size=8.5, color=ink)
        axes.text(x, i + 0.67, f"↓ {total}", ha="center", va="center", size=8.5, color=ink)
    else:
        axes.text(x, i + 0.48, f"{weights[i, j]:g}", ha="center", va="center", size=8.5, color=ink)
    return works
