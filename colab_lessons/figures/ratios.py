"""Ratios as dots about a line at 1."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from colab_helpers import _units
from colab_helpers.figures.style import INK, Picture, canvas, finish, give_credit, line_style
from colab_helpers.published_results import PublishedResult

_WHITE = {
    "facecolor": "white",
    "edgecolor": "none",
    "pad": 0.4,
}  # so that no line runs through a label


def ratios(
    values: Mapping[str, Mapping[str, float]],
    *,
    title: str,
    xlabel: str,
    one: str,
    hollow: Collection[str] = (),
    published: Sequence[PublishedResult] = (),
) -> Picture:
    """Plot for each name a row of dots, one a series, on a log axis about the line at 1.

    `values` maps a name to series and ratios; a series may be missing in some rows. `one` says what the
    line at 1 stands for. Rows in `hollow` were not measured here; `published` are credited below.
    `xlabel` says of what the ratios are; `title` holds the finding.
    """
    series = list(dict.fromkeys(kind for row in values.values() for kind in row))
    with canvas(8.4, 1.3 + 0.5 * len(values), title=title) as (figure, axes):
        axes.axvline(1, color=INK, lw=1.2)
        for y, (name, row) in enumerate(values.items()):
            for kind, ratio in row.items():
                place = series.index(kind)
                beside = 0.22 * (place - (len(series) - 1) / 2)  # so that no dot hides another
                _dot(axes, ratio, y + beside, place, name in hollow)
        for i, kind in enumerate(series):
            own = line_style(i)
            axes.plot([], [], own["marker"], color=own["color"], ms=9, label=kind)
        axes.text(1, -0.62, f" {one}", va="center", size=9)
        axes.set_xscale("log")
        low = min(min(row.values()) for row in values.values())
        high = max(max(row.values()) for row in values.values())
        axes.set(xlabel=xlabel, ylim=(len(values) - 0.45, -0.95))
        axes.set_xlim(min(low, 1) / 1.6, max(high, 1) * 1.9)
        axes.set_yticks(range(len(values)), list(values))
        axes.xaxis.set_major_formatter(lambda v, _: _units.format_ratio(v))
        axes.xaxis.set_minor_formatter(lambda v, _: "")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        readings = "; ".join(
            f"{name}: " + ", ".join(f"{kind} {_units.format_ratio(v)}" for kind, v in row.items())
            for name, row in values.items()
        )
        credit = give_credit(figure, published)
        return finish(figure, f"Dots about a line at 1, {one}. {title}. {readings}.{credit}")


def _dot(axes: Axes, ratio: float, y: float, place: int, hollow: bool) -> None:
    own = line_style(place)
    face = "white" if hollow else own["color"]
    axes.plot(ratio, y, own["marker"], ms=9, mfc=face, mec=own["color"], mew=1.6)
    label: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "bbox": _WHITE}
    where = (0, 7) if place == 0 else (14, -3)
    axes.annotate(_units.format_ratio(ratio), (ratio, y), xytext=where, size=8, **label)
