"""Who was busy when: lanes with a bar for each piece of work, over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from colab_helpers.figures.style import Picture, canvas, finish, line_style, short_seconds

Span = tuple[float, float, str]


def activity_timeline(lanes: Mapping[str, Mapping[str, Sequence[Span]]], *, title: str) -> Picture:
    """Draw what each side did: one lane below the other, and an empty lane where somebody waited.

    `lanes` maps a name, such as "wait in each step", to its sides, and each side, such as "Python" or
    "device", to spans of (start, end, what) in seconds; a lane whose side is "" goes
    by its name alone. `title` holds the finding.
    """
    rows = [(name, side, spans) for name, sides in lanes.items() for side, spans in sides.items()]
    kinds = list(dict.fromkeys(what for _, _, spans in rows for _, _, what in spans))
    height = 0.42 if len(rows) <= 8 else 0.27
    with canvas(8.4, 1.1 + height * len(rows), title=title) as (figure, axes):
        for i, (_, _, spans) in enumerate(rows):
            for what in kinds:
                bars = [(start, end - start) for start, end, kind in spans if kind == what]
                style = {
                    "facecolor": line_style(kinds.index(what))["color"],
                    "edgecolor": "white",
                    "lw": 0.8,
                }
                axes.broken_barh(bars, (i - 0.36, 0.72), label=what if i == 0 else None, **style)
        for what in kinds:  # also those that the first lane has not
            axes.broken_barh(
                [], (0, 0), facecolor=line_style(kinds.index(what))["color"], label=what
            )
        axes.set_yticks(
            range(len(rows)), [f"{name}: {side}".removesuffix(": ") for name, side, _ in rows]
        )
        axes.set(ylim=(len(rows) - 0.5, -0.5), xlim=(0, None), xlabel="time")
        axes.xaxis.set_major_formatter(lambda value, _: short_seconds(value))
        axes.grid(axis="y", visible=False)
        handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        axes.legend(handles.values(), handles, loc="center left", bbox_to_anchor=(1.0, 0.5))
        described = "; ".join(f"{name}, {side}: {_busy(spans)}" for name, side, spans in rows)
        return finish(figure, f"Lanes over time. {title}. {described}.")


def _busy(spans: Sequence[Span]) -> str:
    end = max((end for _, end, _ in spans), default=0.0)
    busy = sum(end - start for start, end, _ in spans)
    return f"busy {busy / end:.0%} of {short_seconds(end)}" if end else "idle"
