"""Times over sizes on log-log axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from colab_helpers import _units
from colab_helpers.figures.style import (
    COLOURS,
    DASHES,
    INK,
    Picture,
    canvas,
    finish,
    give_credit,
    look,
    published_style,
    short_seconds,
    size_ticks,
)
from colab_helpers.published import Published


def race(
    sizes: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    *,
    title: str,
    xlabel: str,
    limits: Mapping[str, Sequence[float]] | None = None,
    recorded: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None,
    published: Sequence[Published] = (),
    crossing: float | None = None,
    prediction: float | None = None,
) -> Picture:
    """Plot seconds over size on log-log axes: who is faster where.

    `curves` and `limits` hold seconds by contender for every size; limits (from data sheets) are
    dashed, `recorded` curves (sizes, seconds) from other machines are grey, `published` ones, in
    seconds too, are hollow. `crossing` and `prediction` are sizes to mark. `sizes` rise; `xlabel` says
    what they are; `title` holds the finding.
    """
    many = len(curves) + len(limits or {}) + len(recorded or {}) + len(published) > 4
    with canvas(*((8.4, 4.2) if many else ())) as (figure, axes):
        for i, (name, seconds) in enumerate(curves.items()):
            axes.plot(sizes, seconds, **look(i), label=name)
        for i, (name, seconds) in enumerate((limits or {}).items()):
            axes.plot(sizes, seconds, color=INK, lw=1.2, ls=DASHES[i % len(DASHES)], label=name)
        for i, (name, (x, y)) in enumerate((recorded or {}).items()):
            other = look(i) | {"color": "#9ca3af", "lw": 1.2, "ms": 4}
            axes.plot(x, y, **other, label=name)
        for row in published:
            axes.plot(row.x, row.y, **published_style(row), label=row.label)
        lowest = min(min(seconds) for seconds in curves.values())
        axes.set(xscale="log", yscale="log", xlabel=xlabel, title=title)
        axes.set_ylim(bottom=lowest / 30)  # room for the marks; a limit may leave at the bottom
        _mark(axes, prediction, "you said", 0.13, ":", before=True)
        _mark(axes, crossing, "crossing", 0.05, "-", before=False)
        farthest = max([sizes[-1], *(float(x) for row in published for x in row.x)])
        beyond = [sizes[-1] * 2**k for k in range(1, 20) if sizes[-1] * 2**k <= farthest]
        size_ticks(axes, [*sizes, *beyond])
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_seconds(value)))
        axes.set_ylabel("time for one call")
        beside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
        inside = {"loc": "upper left", "frameon": True, "framealpha": 1, "edgecolor": "white"}
        axes.legend(**(beside if many else inside))
        alt = _race_alt(title, sizes, curves, limits, recorded)
        return finish(figure, alt + give_credit(figure, published))


def _mark(
    axes: Axes, size: float | None, text: str, height: float, dash: str, before: bool
) -> None:
    """Mark a size; its text stands before or behind the line, unless an edge is near."""
    if size is None:
        return
    axes.axvline(size, color=COLOURS[3], ls=dash, lw=1.4, zorder=1)
    low, high = axes.get_xlim()
    share = math.log(size / low) / math.log(high / low)
    left_half = share < 0.25 or (not before and share < 0.75)
    axes.annotate(
        f"{text}: {size:,.0f}", (size, height), xycoords=("data", "axes fraction"),
        xytext=(4 if left_half else -4, 0), textcoords="offset points",
        ha="left" if left_half else "right", va="center",
        fontsize=9, color="#9b3f75", bbox={"fc": "white", "ec": "none", "pad": 1},
    )  # fmt: skip


def _race_alt(
    title: str,
    sizes: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    limits: Mapping[str, Any] | None,
    recorded: Mapping[str, Any] | None,
) -> str:
    ends = "; ".join(
        f"{name} from {_units.seconds(y[0])} to {_units.seconds(y[-1])}"
        for name, y in curves.items()
    )
    others = [*(limits or {}), *(recorded or {})]
    also = f" Also drawn: {'; '.join(others)}." if others else ""
    also += "" if also.endswith(".") or not also else "."
    return f"Log-log plot. {title}. Sizes {sizes[0]:g} to {sizes[-1]:g}: {ends}.{also}"
