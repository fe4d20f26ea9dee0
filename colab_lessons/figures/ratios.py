"""Ratios as dots about a line at 1, and what is paid for what."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from colab_helpers import _units
from colab_helpers.figures.style import (
    COLOURS,
    INK,
    Picture,
    canvas,
    finish,
    give_credit,
    look,
)
from colab_helpers.published import Published

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
    published: Sequence[Published] = (),
) -> Picture:
    """Plot for each name a row of dots, one a series, on a log axis about the line at 1.

    `values` maps a name to series and ratios; a series may be missing in some rows. `one` says what the
    line at 1 stands for. Rows in `hollow` were not measured here; `published` are credited below.
    `xlabel` says of what the ratios are; `title` holds the finding.
    """
    series = list(dict.fromkeys(kind for row in values.values() for kind in row))
    with canvas(8.4, 1.3 + 0.5 * len(values)) as (figure, axes):
        axes.axvline(1, color=INK, lw=1.2)
        for y, (name, row) in enumerate(values.items()):
            for kind, ratio in row.items():
                _dot(axes, ratio, y, series.index(kind), name in hollow)
        for i, kind in enumerate(series):
            own = look(i)
            axes.plot([], [], own["marker"], color=own["color"], ms=9, label=kind)
        axes.text(1, -0.62, f" {one}", va="center", size=9)
        axes.set_xscale("log")
        low = min(min(row.values()) for row in values.values())
        high = max(max(row.values()) for row in values.values())
        axes.set(xlabel=xlabel, ylim=(len(values) - 0.45, -0.95))
        axes.set_xlim(min(low, 1) / 1.6, max(high, 1) * 1.9)
        axes.set_yticks(range(len(values)), list(values))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: _units.times(v)))
        axes.xaxis.set_minor_formatter(FuncFormatter(lambda v, _: ""))
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        figure.suptitle(title, x=0.01, ha="left", size=11, weight="bold")
        readings = "; ".join(
            f"{name}: " + ", ".join(f"{kind} {_units.times(v)}" for kind, v in row.items())
            for name, row in values.items()
        )
        credit = give_credit(figure, published)
        return finish(figure, f"Dots about a line at 1, {one}. {title}. {readings}.{credit}")


def _dot(axes: Axes, ratio: float, y: int, place: int, hollow: bool) -> None:
    own = look(place)
    face = "white" if hollow else own["color"]
    axes.plot(ratio, y, own["marker"], ms=9, mfc=face, mec=own["color"], mew=1.6)
    beside = (0, 7) if place % 2 == 0 else (0, -14)  # so that two near each other can be read
    label: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "bbox": _WHITE}
    axes.annotate(_units.times(ratio), (ratio, y), xytext=beside, size=8, **label)


def trade(
    points: Mapping[str, tuple[float, float]], *, title: str, xlabel: str, ylabel: str
) -> Picture:
    """Plot what is paid (x) against what is left (y), in per cent of the plain way at (100, 100).

    `points` maps a way to both; `xlabel` and `ylabel` say what they are; `title` holds the finding.
    """
    with canvas(7.2, 4.4) as (figure, axes):
        axes.axhline(100, color=INK, lw=0.8, ls=":")
        axes.axvline(100, color=INK, lw=0.8, ls=":")
        height = -100.0  # of the label below: none may lie on another
        for name, (x, y) in sorted(points.items(), key=lambda item: item[1][1]):
            height = max(height + 6, y)
            left = any(
                x < other < 1.7 * x and abs(at - height) < 5 for other, at in points.values()
            )
            axes.plot(x, y, "o", ms=9, color=COLOURS[0])
            axes.annotate(
                name, (x, height), xytext=(-8 if left else 8, 8 if y == 100 else 0), size=9, va="center",
                textcoords="offset points", ha="right" if left else "left",
            )  # fmt: skip
        paid = [x for x, _ in points.values()]
        axes.set(title=title, xlabel=xlabel, ylabel=ylabel, ylim=(0, 125), xscale="log")
        axes.xaxis.set_minor_locator(NullLocator())
        low, high = min(paid) / 1.8, 2 * max(paid)
        axes.set_xlim(low, high)
        axes.set_xticks([tick for k in range(-4, 20) if low <= (tick := 100 * 2.0**k) <= high])
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f} %"))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f} %"))
        readings = "; ".join(f"{name} {x:.0f} % and {y:.0f} %" for name, (x, y) in points.items())
        return finish(figure, f"Points: {xlabel} against {ylabel}. {title}. {readings}.")
