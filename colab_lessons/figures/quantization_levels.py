"""The levels that a rounded number can have, under a histogram of what is rounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from colab_helpers.figures.style import INK, Picture, canvas, finish, line_style


def quantization_levels(
    values: Sequence[float], kinds: Mapping[str, Sequence[float]], *, title: str, xlabel: str
) -> Picture:
    """Plot a histogram of `values` from -1 to 1, and below it a row of ticks for each kind of levels.

    `kinds` maps a name to its levels. `title` holds the finding, `xlabel` says what the values are.
    """
    with canvas(8.4, 3.4, title=title) as (figure, axes):
        heights, _, _ = axes.hist(values, bins=81, range=(-1, 1), color=INK, alpha=0.3)
        step = 0.16 * max(heights)
        for i, (name, ticks) in enumerate(kinds.items()):
            y = -(i + 0.75) * step
            color = line_style(i)["color"]
            axes.vlines(ticks, y - 0.35 * step, y + 0.35 * step, color=color, lw=2.5)
            axes.text(1.04, y, f"{name}: {len(ticks)}", va="center", color=color, fontsize=9)
        axes.set(xlim=(-1.02, 1.02), ylim=(-(len(kinds) + 0.4) * step, None), xlabel=xlabel)
        axes.set_yticks([])
        axes.grid(visible=False)
        middle = np.mean(np.abs(values) < 0.5)
        said = "; ".join(
            f"{name}: {len(ticks)} levels, {sum(abs(t) < 0.5 for t in ticks)} of them within a half"
            for name, ticks in kinds.items()
        )
        return finish(figure, f"Histogram, {middle:.0%} of it within a half. {title}. {said}.")
