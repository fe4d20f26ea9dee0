"""One step of a training loop: what the CPU and the GPU did when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.ticker import MaxNLocator

from colab_helpers.figures.style import COLORS, GRAY, PALE, Picture, canvas, finish, short_seconds

_THINNEST = 1 / 1500  # of the width: what is shorter is drawn as wide, or it could not be seen
#: Start and duration of each event, in seconds from the step's start, by the row's name.
Rows = Mapping[str, Sequence[tuple[float, float]]]


def trace_timeline(rows: Rows, seconds: float, *, title: str, idle_of: str = "") -> Picture:
    """Draw a row of blocks per name.

    Args:
        rows: The events.
        seconds: Duration of the step.
        title: What is shown.
        idle_of: First word of the rows of a device, such as "GPU": where none of them has an event for
            1/1500 of the step, the picture is shaded.
    """
    with canvas(8.4, 1.1 + 0.36 * len(rows), title=title) as (figure, axes):
        for place, spans in enumerate(rows.values()):
            blocks = [(at, max(took, seconds * _THINNEST)) for at, took in spans]
            axes.broken_barh(
                blocks, (place - 0.4, 0.8), facecolor=COLORS[place % len(COLORS)], lw=0
            )
        events = [e for name in rows if idle_of and name.startswith(idle_of) for e in rows[name]]
        idle = _gaps(events, seconds) if events else []
        for start, end in idle:
            axes.axvspan(start, end, color=PALE, alpha=0.7, lw=0, zorder=0)
        if idle:
            start, end = max(idle, key=lambda gap: gap[1] - gap[0])
            words = {"ha": "center", "va": "center", "fontsize": 8, "color": GRAY}
            axes.text((start + end) / 2, len(rows) - 1, f"{idle_of} idle", **words)
        axes.set_yticks(range(len(rows)), rows)
        axes.xaxis.set_major_locator(MaxNLocator(8))
        axes.set(ylim=(len(rows) - 0.5, -0.5), xlim=(0, seconds), xlabel="time")
        axes.xaxis.set_major_formatter(lambda value, _: short_seconds(value))
        axes.grid(axis="y", visible=False)
        counts = ", ".join(f"{name}: {len(spans):,} events" for name, spans in rows.items())
        shaded = f" {idle_of} idle in {len(idle)} stretches." if idle else ""
        return finish(figure, f"Events over {short_seconds(seconds)}. {title}. {counts}.{shaded}")


def _gaps(events: Sequence[tuple[float, float]], seconds: float) -> list[tuple[float, float]]:
    """Start and end of each stretch that could be seen without an event.

    >>> _gaps([(0.1, 0.5), (0.2, 0.1)], 1.0)
    [(0.0, 0.1), (0.6, 1.0)]
    """
    until, found = 0.0, []
    for at, took in [*sorted(events), (seconds, 0.0)]:
        if at - until > seconds * _THINNEST:
            found.append((until, at))
        until = max(until, at + took)
    return found
