"""Mechanisms drawn from their state, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from colab_helpers import _units
from colab_helpers.figures.style import COLOURS, INK, Picture, canvas, finish, look

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


def path(steps: Sequence[str], *, title: str) -> Picture:
    """Draw what to click, one box after the other. `steps` are their texts; `title` says what for."""
    with canvas(8.4, 1.25) as (figure, axes):
        x = 0.0
        for i, text in enumerate(steps):
            width = 0.5 + 0.115 * len(text)
            last = i == len(steps) - 1
            axes.add_patch(
                Rectangle((x, 0), width, 0.8, fc=COLOURS[0] if last else "white", ec=INK)
            )
            axes.text(
                x + width / 2, 0.4, text, ha="center", va="center", color="white" if last else INK
            )
            if not last:
                axes.annotate(
                    "",
                    (x + width + 0.45, 0.4),
                    (x + width + 0.05, 0.4),
                    arrowprops={"arrowstyle": "->"},
                )
            x += width + 0.5
        axes.set(xlim=(-0.05, x), ylim=(-0.1, 0.9))
        axes.axis("off")
        figure.suptitle(title, x=0.01, ha="left", size=11, weight="bold")
        return finish(figure, f"{title}: {', then '.join(steps)}.")


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


def blocks(
    snapshots: Mapping[str, Sequence[Sequence[tuple[int, str]]]], *, title: str, capacity: int
) -> Picture:
    """Draw how memory is divided: for each moment one line of segments, each made of blocks.

    `snapshots` maps a moment to segments; a segment is a sequence of (bytes, state), with the state "used"
    or "free". `capacity` is the card's, in bytes; `title` holds the finding.
    """
    with canvas(8.4, 1.0 + 0.5 * len(snapshots)) as (figure, axes):
        for y, segments in enumerate(snapshots.values()):
            x = 0
            for segment in segments:
                whole = sum(size for size, _ in segment)
                for size, state in segment:
                    _block(axes, x, y, size, state)
                    x += size
                axes.add_patch(
                    Rectangle((x - whole, y - 0.36), whole, 0.72, fill=False, edgecolor=INK, lw=1.6)
                )
            used, free = (_total(segments, state) for state in ("used", "free"))
            text = f"{_mib(used)} used,\n{_mib(used + free)} held"
            axes.text(capacity * 1.01, y, text, va="center", size=9)
        axes.axvline(capacity, color=INK, lw=1.2, ls="--")
        axes.text(capacity, -0.62, f"the card: {_mib(capacity)} ", ha="right", va="center", size=9)
        axes.set_yticks(range(len(snapshots)), list(snapshots))
        axes.set(xlim=(0, capacity * 1.2), ylim=(len(snapshots) - 0.45, -0.85), xticks=[])
        axes.grid(visible=False)
        figure.suptitle(title, x=0.01, ha="left", size=11, weight="bold")
        said = "; ".join(
            f"{moment}: {len(segments)} segments, {_mib(_total(segments, 'used'))} used, "
            f"{_mib(_total(segments, 'free'))} free in them"
            for moment, segments in snapshots.items()
        )
        return finish(figure, f"Blocks of memory. {title}. {said}.")


def _block(axes: Axes, x: float, y: float, size: int, state: str) -> None:
    used = state == "used"
    block = Rectangle((x, y - 0.36), size, 0.72, lw=0.8, fill=used, hatch="" if used else "///")
    block.set(facecolor=COLOURS[0] if used else "white", edgecolor="white" if used else "#9ca3af")
    axes.add_patch(block)


def _mib(count: int) -> str:
    return f"{count / _units.MIB:.4g} MiB"


def _total(segments: Sequence[Sequence[tuple[int, str]]], state: str) -> int:
    return sum(size for segment in segments for size, kind in segment if kind == state)
