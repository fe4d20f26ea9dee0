"""Bars beside each other: for each name one bar a series."""

from __future__ import annotations

from collections.abc import Mapping

from colab_helpers.figures.bars import fit_numbers
from colab_helpers.figures.style import Picture, axis_unit, canvas, finish, line_style, with_unit


def grouped_bars(values: Mapping[str, Mapping[str, float]], *, title: str, unit: str) -> Picture:
    """Plot bars beside each other: for each name one bar a series, such as predicted and measured.

    `values` maps a name to series and numbers, in `unit` ("s", "B", "B/s", "FLOP/s" or any word); `title`
    holds the finding.
    """
    names, series = list(values), list(next(iter(values.values())))
    height = 0.8 / len(series)
    inches = 0.9 + 0.24 * len(names) * (len(series) + 0.6)
    with canvas(height=inches, title=title) as (figure, axes):
        numbers = {}
        for j, kind in enumerate(series):
            for i, name in enumerate(names):
                number, y = values[name][kind], i - 0.4 + (j + 0.5) * height
                label = kind if i == 0 else None
                axes.barh(y, number, height=0.9 * height, label=label, color=line_style(j)["color"])
                text = axes.text(number, y, "  " + with_unit(number, unit), va="center", fontsize=9)
                numbers[text] = number
        top = max(max(row.values()) for row in values.values())
        axes.set_yticks(range(len(names)), names)
        axes.set(xlabel=axis_unit(unit), xlim=(0, top * 1.25), ylim=(len(names) - 0.45, -0.55))
        above = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0.2}
        axes.legend(ncols=len(series), **above)
        axes.locator_params(axis="x", nbins=5)
        axes.xaxis.set_major_formatter(lambda v, _: with_unit(v, unit, short=True))
        fit_numbers(numbers, figure, axes)
        axes.grid(axis="y", visible=False)
        readings = "; ".join(
            f"{name}: " + ", ".join(f"{kind} {with_unit(v, unit)}" for kind, v in row.items())
            for name, row in values.items()
        )
        return finish(figure, f"Grouped bars. {title}. {readings}.")
