"""Mechanisms drawn from their state, step by step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from colab_helpers import _units
from colab_helpers.figures.style import COLOURS, INK, Picture, canvas, finish, look

_IDLE = "#e5e7eb"
#: Frames of a systolic array in one line.
_COLUMNS = 7


def systolic(working: np.ndarray, *, title: str) -> Picture:
    """Draw a field of multipliers in each step: which row of the data does each of them work on?

    `working` has the shape (steps, side, side) and holds the number of a row, or -1 where a multiplier
    is idle; `title` holds the finding.
    """
    steps, side = working.shape[:2]
    lines = math.ceil(steps / _COLUMNS)
    columns = min(steps, _COLUMNS)
    with canvas(8.4, 0.35 + 1.2 * lines) as (figure, axes):
        for step in range(steps):
            left, top = (step % columns) * (side + 1), step // columns * (side + 1.4)
            axes.text(left + side / 2, top - 0.25, f"step {step + 1}", ha="center", fontsize=9)
            for (line, column), row in np.ndenumerate(working[step]):
                _multiplier(axes, left + column, top + line, int(row))
        axes.set(xlim=(-0.2, columns * (side + 1)), ylim=(lines * (side + 1.4), -0.9))
        axes.set_aspect("equal")
        axes.axis("off")
        figure.suptitle(title, x=0.01, ha="left", size=11, weight="bold")
        busy = ", ".join(str(int((frame >= 0).sum())) for frame in working)
        field = f"A field of {side} × {side} multipliers in {steps} steps"
        return finish(figure, f"{field}. {title}. At work in each step: {busy}.")


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


def _multiplier(axes: Axes, x: float, y: float, row: int) -> None:
    colour = _IDLE if row < 0 else look(row)["color"]
    axes.add_patch(Rectangle((x, y), 0.92, 0.92, facecolor=colour, edgecolor="white"))
    if row >= 0:
        axes.text(x + 0.46, y + 0.48, str(row), ha="center", va="center", size=9, color="white")


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
