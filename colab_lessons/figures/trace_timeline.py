"""One step of a training loop: what the CPU and the GPU did when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.ticker import MaxNLocator

from colab_helpers.figures.style import COLORS, Picture, canvas, finish, short_seconds

_THINNEST = 1 / 1500  # of the width: what is shorter is drawn as wide, or it could not be seen


def trace_timeline(
    rows: Mapping[str, Sequence[tuple[float, float]]], seconds: float, *, title: str
) -> Picture:
    """Draw a row of blocks per name.

    Args:
        rows: Start and duration of each event, in seconds from the step's start, by the row's name.
        seconds: Duration of the step.
        title: What is shown.
    """
    with canvas(8.4, 1.1 + 0.36 * len(rows), title=title) as (figure, axes):
        for place, spans in enumerate(rows.values()):
            blocks = [(at, max(took, seconds * _THINNEST)) for at, took in spans]
            axes.broken_barh(
                blocks, (place - 0.4, 0.8), facecolor=COLORS[place % len(COLORS)], lw=0
            )
        axes.set_yticks(range(len(rows)), rows)
        axes.xaxis.set_major_locator(MaxNLocator(8))
        axes.set(ylim=(len(rows) - 0.5, -0.5), xlim=(0, seconds), xlabel="time")
        axes.xaxis.set_major_formatter(lambda value, _: short_seconds(value))
        axes.grid(axis="y", visible=False)
        counts = ", ".join(f"{name}: {len(spans):,} events" for name, spans in rows.items())
        return finish(figure, f"Events over {short_seconds(seconds)}. {title}. {counts}.")
