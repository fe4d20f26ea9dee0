"""Memory over time."""

from __future__ import annotations

from collections.abc import Sequence

from colab_helpers import _units
from colab_helpers.figures.style import COLORS, INK, Picture, canvas, finish, with_unit


def timeline(
    live: Sequence[int], marks: Sequence[tuple[int, str]], *, title: str, budget: int | None = None
) -> Picture:
    """Plot live bytes after each allocation or release; `marks` (position, name) begin phases.

    `live` is in bytes; `budget`, in bytes too, is drawn dashed; `title` holds the finding.
    """
    with canvas(height=3.6) as (figure, axes):
        axes.step(range(len(live)), live, where="post", color=COLORS[0], lw=1.4)
        axes.fill_between(range(len(live)), live, step="post", color=COLORS[0], alpha=0.2, lw=0)
        top = max([*live, budget or 0]) * 1.25
        for i, (position, name) in enumerate(marks):  # in three lines, for phases can be short
            axes.axvline(position, color=INK, lw=0.8, ls=":")
            axes.text(position, top * (1 - 0.06 * (i % 3)), f" {name}", va="top", fontsize=9)
        if budget:
            axes.axhline(budget, color=INK, lw=1.2, ls="--", label="budget")
            axes.legend(loc="lower right")
        axes.set(title=title, xlabel="allocations and releases, in order", ylim=(0, top))
        axes.set_xlim(0, len(live))
        axes.set_ylabel("bytes alive")
        axes.yaxis.set_major_formatter(lambda v, _: with_unit(v, "B", short=True))
        phases = ", ".join(name for _, name in marks)
        peak = _units.quantity(max(live), "B")
        return finish(figure, f"Memory over time. {title}. Phases: {phases}. Peak {peak}.")
