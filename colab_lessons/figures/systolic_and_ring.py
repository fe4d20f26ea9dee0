"""Mechanisms drawn from their state, step by step."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from colab_helpers.figures.style import INK, Picture, canvas, finish, line_style

_IDLE = "#e5e7eb"


def systolic(rows: np.ndarray, weights: np.ndarray, *, title: str) -> Picture:
    """Draw the product of `rows` and `weights` in a systolic array, one frame for each step.

    `rows` (number of rows, side) enter from the left, each number one step after the one above it;
    `weights` (side, side) stay in the multipliers. Sums move down and fall out below. `title` holds the
    finding.
    """
    side, count = len(weights), len(rows)
    steps = count + 2 * side - 2
    height = 0.6 + 8.4 / steps * (side + 1.7) / (side + 0.8)
    with canvas(8.4, height, title=title) as (figure, axes):
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
                        va="center", size=11, weight="bold", color=line_style(row)["color"],
                    )  # fmt: skip
        axes.set(xlim=(-0.1, steps * (side + 0.8) - 0.7), ylim=(side + 0.9, -0.8))
        axes.set_aspect("equal")
        axes.axis("off")
        field = f"An array of {side} × {side} multipliers in {steps} steps, {count} rows of data"
        return finish(
            figure, f"{field}. {title}. At work in each step: {', '.join(map(str, busy))}."
        )


def _multiplier(
    axes: Axes, left: float, i: int, j: int, row: int, rows: np.ndarray, weights: np.ndarray
) -> bool:
    """One multiplier of a frame: its product, and the sum that leaves it; whether it works at all."""
    works = 0 <= row < len(rows)
    color = line_style(row)["color"] if works else _IDLE
    axes.add_patch(Rectangle((left + j, i), 0.92, 0.92, facecolor=color, edgecolor="white"))
    x, ink = left + j + 0.46, "white" if works else INK
    if works:
        product = f"{rows[row, i]:g} × {weights[i, j]:g}"
        total = f"{rows[row, : i + 1] @ weights[: i + 1, j]:g}"
        axes.text(x, i + 0.3, product, ha="center", va="center", size=8.5, color=ink)
        axes.text(x, i + 0.67, f"↓ {total}", ha="center", va="center", size=8.5, color=ink)
    else:
        axes.text(x, i + 0.48, f"{weights[i, j]:g}", ha="center", va="center", size=8.5, color=ink)
    return works


def ring(seen: np.ndarray, *, title: str) -> Picture:
    """Draw an all-reduce in a ring, one frame for each step.

    `seen` (workers, steps + 1, parts) says how many workers' numbers are in each part that a worker
    holds, at first and after each step. What a worker has just received has a frame; what is complete
    is filled. `title` holds the finding.
    """
    workers, frames, parts = seen.shape
    height = 0.9 + 8.4 / frames * (workers + 1) / (parts + 0.8)
    with canvas(8.4, height, title=title) as (figure, axes):
        for frame in range(frames):
            left = frame * (parts + 0.8)
            name = f"step {frame}" if frame else "at first"
            axes.text(left + parts / 2, -0.3, name, ha="center", fontsize=9)
            for worker, part in np.ndindex(workers, parts):
                count = seen[worker, frame, part]
                new = bool(frame) and count != seen[worker, frame - 1, part]
                _part(axes, left + part, worker, count, count == workers, new)
        for worker in range(workers):
            axes.text(-0.25, worker + 0.48, f"worker {worker}", ha="right", va="center", size=9)
        axes.set(xlim=(-2.6, frames * (parts + 0.8) - 0.7), ylim=(workers + 0.2, -0.9))
        axes.set_aspect("equal")
        axes.axis("off")
        complete = ", ".join(str(int((seen[:, k] == workers).sum())) for k in range(frames))
        field = f"{workers} workers with {parts} parts each, in {frames - 1} steps"
        return finish(figure, f"{field}. {title}. Complete parts after each step: {complete}.")


def _part(axes: Axes, x: float, y: float, count: int, complete: bool, new: bool) -> None:
    """One part of a frame: how many workers' numbers are in it."""
    color = line_style(0)["color"] if complete else _IDLE
    edge = line_style(1)["color"] if new else "white"
    axes.add_patch(
        Rectangle((x + 0.04, y + 0.04), 0.84, 0.84, facecolor=color, edgecolor=edge, lw=1.8)
    )
    ink = "white" if complete else INK
    axes.text(x + 0.46, y + 0.48, str(count), ha="center", va="center", size=9, color=ink)
