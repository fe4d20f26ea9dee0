"""Rooflines of several machines, with the points that trace one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from colab_helpers import _units
from colab_helpers.figures.style import GRAY, INK, Picture, canvas, finish, line_style, with_unit

#: FLOP/s and bytes/s of a machine.
Roof = tuple[float, float]
#: The least ratio of two names' heights on the log axis.
_APART = 1.55


def roofline(
    machines: Mapping[str, Roof],
    *,
    title: str,
    dashed: Mapping[str, Roof] | None = None,
    points: Sequence[tuple[float, float]] = (),
    names: Mapping[str, tuple[float, float]] | None = None,
    marks: Mapping[str, float] | None = None,
) -> Picture:
    """Plot FLOP/s over FLOP per byte: each machine's roof, and where work lies below it.

    `machines` are drawn solid and `dashed` ones, by the same names in the same colors, broken. `points`
    are (intensity, FLOP/s) in order, joined; `names` are single ones with a text. `marks` are intensities
    with a text at the bottom. `title` holds the finding. Source of the plot: Williams, Waterman,
    Patterson, "Roofline", CACM 52(4), 2009.
    """
    every = {**(dashed or {}), **machines}
    seen = (
        [x for x, _ in points] + [x for x, _ in (names or {}).values()] + [*(marks or {}).values()]
    )
    ridges = [peak / bandwidth for peak, bandwidth in every.values()]
    low, high = min(seen + ridges) / 2, max(seen + ridges) * 2
    x = np.geomspace(low, high, 300)
    with canvas(8.0, 4.5) as (figure, axes):
        order = [*machines, *(name for name in dashed or {} if name not in machines)]
        for i, name in enumerate(order):
            color = line_style(i)["color"]
            if name in machines:
                _roof(axes, x, machines[name], color, "-")
            if name in (dashed or {}):
                _roof(axes, x, (dashed or {})[name], color, "--")
        _name_ends(axes, high, {name: every[name][0] for name in order})
        if points:
            axes.plot(*zip(*points, strict=True), "o-", color=INK, ms=7, lw=1, zorder=3)
        for text, place in (names or {}).items():
            axes.plot(*place, "s", color=INK, ms=7, zorder=3)
            axes.annotate(
                text, place, xytext=(0, 9), textcoords="offset points", ha="center", fontsize=9
            )
        axes.set(xscale="log", yscale="log", xlim=(low, high))
        axes.set_title(title, pad=32 if marks else 10)
        axes.set(xlabel="FLOP for each byte moved", ylabel="speed")
        for text, at in (marks or {}).items():
            axes.axvline(at, color=GRAY, lw=1, ls=":")
            axes.annotate(
                text, (at, 1), xycoords=("data", "axes fraction"), xytext=(0, 3), ha="center",
                textcoords="offset points", fontsize=8.5, color=INK, va="bottom", linespacing=1.0,
            )  # fmt: skip
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_major_formatter(lambda value, _: with_unit(value, "FLOP/s", short=True))
        return finish(figure, _alt(title, machines, dashed or {}, points, names or {}, marks or {}))


def _name_ends(axes: Axes, x: float, peaks: Mapping[str, float]) -> None:
    """Each name at the right end of its roof, with room between them."""
    highest = float("inf")
    for name, peak in sorted(peaks.items(), key=lambda entry: -entry[1]):
        highest = min(peak, highest / _APART)
        color = line_style([*peaks].index(name))["color"]
        axes.annotate(
            name, (x, highest), xytext=(5, 0), textcoords="offset points", va="center",
            color=color, weight="bold", fontsize=9.5, annotation_clip=False,
        )  # fmt: skip


def _roof(axes: Axes, x: np.ndarray, roof: Roof, color: str, dash: str) -> None:
    peak, bandwidth = roof
    axes.plot(x, np.minimum(peak, bandwidth * x), color=color, lw=1.8, ls=dash)


def _alt(
    title: str,
    machines: Mapping[str, Roof],
    dashed: Mapping[str, Roof],
    points: Sequence[tuple[float, float]],
    names: Mapping[str, tuple[float, float]],
    marks: Mapping[str, float],
) -> str:
    def say(kind: str, some: Mapping[str, Roof]) -> str:
        each = "; ".join(
            f"{name} {_units.format_si(peak, 'FLOP/s')}, {_units.format_si(bandwidth, 'B/s')}"
            for name, (peak, bandwidth) in some.items()
        )
        return f" {kind}: {each}." if some else ""

    traced = "; ".join(f"{x:.2g} FLOP/byte {_units.format_si(y, 'FLOP/s')}" for x, y in points)
    single = "; ".join(f"{text} at {x:.3g}" for text, (x, _) in names.items())
    lines = "; ".join(f"{text} at {at:.3g}" for text, at in marks.items())
    parts = [f" Points: {traced}." if points else "", f" Also: {single}." if names else ""]
    parts += [f" Marked: {lines}." if marks else ""]
    return f"Roofline plot. {title}.{say('Solid', machines)}{say('Dashed', dashed)}{''.join(parts)}"
