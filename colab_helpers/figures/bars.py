"""Horizontal bars or dots, beside their limits and claims."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from colab_helpers.figures.style import (
    COLORS,
    GRAY,
    INK,
    PALE,
    Picture,
    axis_unit,
    canvas,
    finish,
    give_credit,
    line_style,
    time_ticks,
    with_unit,
)
from colab_helpers.published_results import PublishedResult

HOLLOW = {"fill": False, "hatch": "///", "edgecolor": GRAY}
_GAP = 12  # pixels around the number beside a bar


def bars(
    values: Mapping[str, float],
    *,
    title: str,
    unit: str,
    paper: Collection[str] = (),
    claims: Mapping[str, tuple[float, float]] | None = None,
    published: Mapping[str, PublishedResult] | None = None,
    marks: Mapping[str, float] | None = None,
    log: bool = False,
) -> Picture:
    """Plot one labeled horizontal bar per value; a dot with `log`, where length means nothing.

    Values named in `paper` were not measured, and are hatched. `published` maps further names to
    measurements of others, which are hollow: the largest number of each is drawn. `claims` maps a text to
    the range (low, high) it speaks of; `marks` maps a text to a value that goes through all bars, such as
    what a chip holds. `values` maps a name to its number, in `unit` ("s", "B", "B/s", "FLOP/s" or any
    word); `title` holds the finding.
    """
    theirs = published or {}
    values = {**values, **{name: row.value for name, row in theirs.items()}}
    names = list(values)
    known = {name: value for name, value in values.items() if math.isfinite(value)}
    extra = 0.45 if claims or marks else 0
    with canvas(height=0.9 + 0.42 * len(names) + extra) as (figure, axes):
        numbers = {}
        for i, name in enumerate(names):
            _one(axes, i, values[name], name in paper, name in theirs, dot=log)
            number = axes.annotate(
                with_unit(values[name], unit), (max(0, known.get(name, 0)), i), xytext=(8 if log else 5, 0),
                textcoords="offset points", va="center", fontsize=9,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6} if marks else None,
            )  # fmt: skip
            if name in known:
                numbers[number] = values[name]
        claimed = [2 * low if math.isinf(high) else high for low, high in (claims or {}).values()]
        top = max([0.0, *known.values(), *claimed, *(marks or {}).values()])
        axes.set_yticks(range(len(names)), names)
        axes.set(xlabel=axis_unit(unit), ylim=(len(names) - 0.45, -0.55))
        # Over the whole picture: beside long names there is no room for a long title.
        figure.suptitle(title, x=0.01, ha="left", size=11, weight="bold")
        axes.set_xscale("log" if log else "linear")
        least = min((value for value in values.values() if value > 0), default=1.0)
        axes.set_xlim(
            least / 3 if log else min([0, *known.values()]), (top or 1.0) * (6 if log else 1.25)
        )
        if not log:
            fit_numbers(numbers, figure, axes)
        _claims(axes, claims or {})
        _marks(axes, marks or {})
        if unit == "s" and log:
            time_ticks(axes)
        axes.xaxis.set_major_formatter(lambda v, _: with_unit(v, unit, short=True))
        if not log:
            axes.locator_params(axis="x", nbins=5)  # more would run into each other
        axes.grid(axis="y", visible=False)
        alt = _bars_alt(title, values, unit, paper, claims)
        return finish(figure, alt + give_credit(figure, [*theirs.values()]))


def _one(axes: Axes, row: int, value: float, on_paper: bool, theirs: bool, dot: bool) -> None:
    """A bar or a dot: filled for the reader's own, hollow for others'; a data sheet's hatched, or gray."""
    if dot:
        edge = GRAY if on_paper else COLORS[-1] if theirs else COLORS[0]
        face = PALE if on_paper else "white" if theirs else COLORS[0]
        axes.plot(value, row, "D" if theirs else "o", ms=9, mfc=face, mec=edge, mew=1.6)
        return
    own = {"color": COLORS[0]}
    by_others = {"facecolor": "white", "edgecolor": COLORS[-1], "linewidth": 1.6}
    axes.barh(row, value, height=0.6, **(HOLLOW if on_paper else by_others if theirs else own))


def fit_numbers(numbers: Mapping[Text, float], figure: Figure, axes: Axes) -> None:
    """Lengthen the scale until each of `numbers`, a text beside its bar's end, is inside `axes`.

    `numbers` maps the texts to their values; `figure` is what they are drawn on.
    """
    figure.draw_without_rendering()  # only now is it known what long names leave
    width = axes.bbox.width
    needed = (
        value * width / max(1, width - text.get_window_extent().width - _GAP)
        for text, value in numbers.items()
    )
    low, high = axes.get_xlim()
    axes.set_xlim(low, max([high, *needed]))


def _claims(axes: Axes, claims: Mapping[str, tuple[float, float]]) -> None:
    """Shade claimed ranges, with the text above the bars."""
    low_edge, high_edge = axes.get_xlim()
    for i, (text, (low, high)) in enumerate(claims.items()):
        high = min(high, high_edge)
        axes.axvspan(low, high, color=line_style(3 + i)["color"], alpha=0.2, lw=0)
        left = max(low, low_edge)
        middle = (left * high) ** 0.5 if left > 0 else (left + high) / 2
        axes.annotate(
            text, (middle, 0), xycoords=("data", "axes fraction"), xytext=(0, 3), ha="center",
            textcoords="offset points", fontsize=8.5, color=INK, linespacing=1.1,
        )  # fmt: skip
    if claims:
        top, bottom = axes.get_ylim()[::-1]
        axes.set_ylim(bottom + 0.7, top)


def _marks(axes: Axes, marks: Mapping[str, float]) -> None:
    """A dashed line through all bars for each, with its text above."""
    for i, (text, value) in enumerate(marks.items()):
        axes.axvline(value, color=INK, lw=1.1, ls="--")
        axes.annotate(
            text, (value, 1), xycoords=("data", "axes fraction"), xytext=(0, 2 + 10 * (i % 2)),
            textcoords="offset points", ha="center", fontsize=8.5, color=INK,
        )  # fmt: skip


def _bars_alt(
    title: str,
    values: Mapping[str, float],
    unit: str,
    paper: Collection[str],
    claims: Mapping[str, tuple[float, float]] | None,
) -> str:
    readings = "; ".join(
        f"{name} {with_unit(value, unit)}{' (hatched)' if name in paper else ''}"
        for name, value in values.items()
    )
    shaded = f" Shaded: {'; '.join(claims)}.".replace("\n", " ") if claims else ""
    return f"Bar chart. {title}. {readings}.{shaded}"
