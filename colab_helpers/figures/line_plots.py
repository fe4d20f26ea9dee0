"""Line plots of one or more curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter

from colab_helpers.figures.style import (
    DASHES,
    INK,
    Picture,
    canvas,
    finish,
    give_credit,
    line_style,
    published_style,
    with_unit,
)
from colab_helpers.published_results import PublishedResult


def lines(
    x: Sequence[float],
    curves: Mapping[str, Sequence[float] | Mapping[float, float]],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    ideal: Mapping[str, Sequence[float]] | None = None,
    published: Sequence[PublishedResult] = (),
    doubling: bool = False,
    log: bool = False,
    log_y: bool = False,
    units: tuple[str, str] = ("", ""),
) -> Picture:
    """Plot curves; `ideal` curves are dashed, `published` ones hollow. `doubling`: x counts 1, 2, 4, 8 …

    `curves` and `ideal` map a name to one y for each x, NaN where there is none; a curve may also map its
    own x to y, and `published` have their own x. `log` takes both axes in steps of ten, `log_y` the vertical
    one; ticks are in `units` ("B", "B/s", "s" …) for x and y. `xlabel` and `ylabel` say what they are;
    `title` holds the finding.
    """
    # With many curves the legend goes beside them.
    drawn = len(curves) + len(ideal or {}) + len(published)
    many = drawn > 3
    points = {
        name: ([*y], [*y.values()]) if isinstance(y, Mapping) else (x, y)
        for name, y in curves.items()
    }
    with canvas(*((8.4, 3.8) if many else ())) as (figure, axes):
        for i, (name, (own_x, y)) in enumerate(points.items()):
            axes.plot(own_x, y, **line_style(i), markevery=max(1, len(x) // 25), label=name)
        for i, (name, y) in enumerate((ideal or {}).items()):
            color = line_style(len(curves) + i)["color"] if len(ideal or {}) > 1 else INK
            axes.plot(x, y, color=color, lw=1.4, ls=DASHES[i % len(DASHES)], label=name)
        for row in published:
            axes.plot(row.x, row.y, **published_style(row), label=row.label)
        axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
        if log or log_y:
            axes.set(xscale="log" if log else "linear", yscale="log")
        else:
            axes.set_ylim(bottom=None if axes.dataLim.y0 < 0 else 0)
        for axis, unit in zip((axes.xaxis, axes.yaxis), units, strict=True):
            if unit:
                axis.set_major_formatter(
                    lambda value, _, unit=unit: with_unit(value, unit, short=True)
                )
        low, high = axes.get_ylim()
        if units[1] and (log or log_y) and high < 100 * low:  # powers of ten alone would be too few
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_minor_formatter(NullFormatter())
        if doubling:
            axes.set_xscale("log", base=2)
            ticks: list[float] = []
            for value in sorted({*x, *(float(value) for row in published for value in row.x)}):
                if not ticks or value >= 1.4 * ticks[-1]:  # nearer ones would write over each other
                    ticks.append(value)
            axes.set_xticks(ticks, [f"{value:g}" for value in ticks])
        elif not log and len(x) and all(float(value).is_integer() for value in x):
            few = len(x) <= 12
            axes.xaxis.set_major_locator(FixedLocator(x) if few else MaxNLocator(integer=True))
        outside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
        if drawn > 1:  # a single curve is named by its axis
            shown = axes.get_lines()  # given one by one: names that begin with _ would be left out
            axes.legend(
                shown,
                [str(line.get_label()) for line in shown],
                **(outside if many else {"loc": "best"}),
            )
        known = {name: [value for value in y if value == value] for name, (_, y) in points.items()}
        ends = "; ".join(
            f"{name} from {with_unit(y[0], units[1])} to {with_unit(y[-1], units[1])}"
            if y
            else f"{name} without a value"
            for name, y in known.items()
        )
        credit = give_credit(figure, published)
        return finish(figure, f"Line plot. {title}. {ylabel} over {xlabel}: {ends}.{credit}")
