"""Curves and rooflines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from colab_helpers import _units
from colab_helpers.figures.style import (
    DASHES,
    INK,
    Picture,
    canvas,
    finish,
    give_credit,
    look,
    published_style,
    with_unit,
)
from colab_helpers.published import Published


def lines(
    x: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    ideal: Mapping[str, Sequence[float]] | None = None,
    published: Sequence[Published] = (),
    doubling: bool = False,
    log: bool = False,
    log_y: bool = False,
    units: tuple[str, str] = ("", ""),
) -> Picture:
    """Plot curves; `ideal` curves are dashed, `published` ones hollow. `doubling`: x counts 1, 2, 4, 8 …

    `curves` and `ideal` map a name to one y for each x, NaN where there is none; `published` have their
    own x. `log` takes both axes in steps of ten, `log_y` the vertical one; ticks are in `units` ("B",
    "B/s", "s" …) for x and y. `xlabel` and `ylabel` say what they are; `title` holds the finding.
    """
    # Where there are many the legend stands beside the curves.
    drawn = len(curves) + len(ideal or {}) + len(published)
    many = drawn > 3
    with canvas(*((8.4, 3.8) if many else ())) as (figure, axes):
        for i, (name, y) in enumerate(curves.items()):
            axes.plot(x, y, **look(i), markevery=max(1, len(x) // 25), label=name)
        for i, (name, y) in enumerate((ideal or {}).items()):
            axes.plot(x, y, color=INK, lw=1.2, ls=DASHES[i % len(DASHES)], label=name)
        for row in published:
            axes.plot(row.x, row.y, **published_style(row), label=row.label)
        axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
        if log or log_y:
            axes.set(xscale="log" if log else "linear", yscale="log")
        else:
            axes.set_ylim(bottom=0)
        for axis, unit in zip((axes.xaxis, axes.yaxis), units, strict=True):
            if unit:
                axis.set_major_formatter(
                    FuncFormatter(lambda value, _, unit=unit: with_unit(value, unit, short=True))
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
        elif not log and all(float(value).is_integer() for value in x):
            few = len(x) <= 12
            axes.xaxis.set_major_locator(FixedLocator(x) if few else MaxNLocator(integer=True))
        outside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
        if drawn > 1:  # a single curve is named by its axis
            axes.legend(**(outside if many else {"loc": "best"}))
        known = {name: [value for value in y if value == value] for name, y in curves.items()}
        ends = "; ".join(
            f"{name} from {with_unit(y[0], units[1])} to {with_unit(y[-1], units[1])}"
            for name, y in known.items()
        )
        credit = give_credit(figure, published)
        return finish(figure, f"Line plot. {title}. {ylabel} over {xlabel}: {ends}.{credit}")


@dataclass(frozen=True)
class Roof:
    """Two ceilings of one chip: FLOP/s and bytes/s. `measured` tells it from a data sheet's."""

    name: str
    peak: float
    bandwidth: float
    measured: bool = False


def roofline(
    roofs: Sequence[Roof], points: Mapping[str, tuple[float, float]], *, title: str
) -> Picture:
    """Plot FLOP/s over arithmetic intensity (FLOP per byte): ceilings, and measured points.

    `points` maps a name to (intensity, FLOP/s). Source of the plot: Williams, Waterman, Patterson,
    "Roofline", CACM 52(4), 2009. `roofs` are drawn in black, one dash each, and the first one's ridge
    parts memory-bound from compute-bound; `title` holds the finding.
    """
    intensities = [2.0**k for k in range(-5, 13)]
    with canvas(8.4, 4.4) as (figure, axes):
        for i, roof in enumerate(roofs):
            along = sorted([*intensities, roof.peak / roof.bandwidth])  # with the ridge itself
            top = [min(roof.peak, value * roof.bandwidth) for value in along]
            dash = "-" if roof.measured else DASHES[i % len(DASHES)]
            kind = "measured" if roof.measured else "data sheet"
            axes.plot(along, top, color=INK, ls=dash, lw=1.4, label=f"{roof.name} ({kind})")
        for i, (name, (x, y)) in enumerate(points.items()):
            axes.plot(x, y, **look(i) | {"ms": 9, "ls": ""}, label=name)
        axes.set(xscale="log", yscale="log", title=title)
        ridge = roofs[0].peak / roofs[0].bandwidth
        axes.axvline(ridge, color="#9ca3af", lw=0.8, zorder=0)
        for side, region in ((-1, "memory-bound"), (1, "compute-bound")):
            axes.annotate(
                region, (ridge, 0.03), xycoords=("data", "axes fraction"), xytext=(6 * side, 0),
                textcoords="offset points", ha="left" if side > 0 else "right", fontsize=9, color="#4b5563",
            )  # fmt: skip
        axes.set_xlabel("arithmetic intensity: operations for each byte moved (FLOP/byte)")
        axes.set_ylabel("speed reached")
        axes.yaxis.set_major_formatter(
            FuncFormatter(lambda v, _: with_unit(v, "FLOP/s", short=True))
        )
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        found = "; ".join(
            f"{name} at {x:.3g} FLOP/byte reaches {_units.quantity(y, 'FLOP/s')}"
            for name, (x, y) in points.items()
        )
        return finish(figure, f"Roofline plot. {title}. {found}.")
