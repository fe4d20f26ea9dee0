"""How do I show it? The course's plots: one style, units on the axes, the finding in the title.

Every plot is a `Picture`: the value of a cell, with alt text for those who hear it. Pictures stand
on a white card, so that they read the same in light and dark themes. Colour is never the only
difference: every curve has its own marker or dash. No pyplot, so no backend and no global state.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from colab_helpers import _units
from colab_helpers.hardware import Chip, Device

#: Okabe and Ito's colours, which colour-blind readers can tell apart (jfly.uni-koeln.de/color).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = ("o", "s", "^", "D", "v", "P")
INK, GREY = "#1f2933", "#6b7280"
_DPI = 160
_STYLE = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.grid": True,
    "grid.color": "#e5e7eb",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
}


@dataclass(frozen=True)
class Picture:
    """A finished figure as PNG bytes, its alt text, and its width in pixels on the page."""

    png: bytes
    alt: str
    width: int

    def __repr__(self) -> str:
        return f"[figure] {self.alt}"

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict, dict]:
        data = {"image/png": self.png, "text/plain": repr(self)}
        return data, {"image/png": {"alt": self.alt, "width": self.width}}

    def save(self, path: str | Path) -> None:
        """Write the picture to a PNG file."""
        Path(path).write_bytes(self.png)


@contextmanager
def canvas(width: float = 7.2, height: float = 4.0, columns: int = 1) -> Iterator[Any]:
    """Give a figure and its axes in the course's style; sizes in inches.

    >>> with canvas(3, 2) as (figure, axes):
    ...     _ = axes.plot([1, 2], [3, 4])
    ...     picture = finish(figure, alt="A line from 3 up to 4.")
    >>> picture
    [figure] A line from 3 up to 4.
    """
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(1, columns)
        yield figure, axes


def finish(figure: Figure, alt: str) -> Picture:
    """Turn a figure into a picture. `alt` says what a reader would see; it must not be empty."""
    if not alt.strip():
        raise ValueError("A picture needs alt text: one sentence that says what it shows.")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI)
    return Picture(buffer.getvalue(), alt, round(figure.get_figwidth() * 100))


def race(
    sizes: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    *,
    title: str,
    xlabel: str,
    limits: Mapping[str, Sequence[float]] | None = None,
    recorded: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None,
    crossing: float | None = None,
    prediction: float | None = None,
) -> Picture:
    """Plot seconds over size on log-log axes: who is faster where.

    `curves` and `limits` hold seconds by contender for every size; limits (from data sheets) are
    dashed, `recorded` curves (sizes, seconds) from other machines are grey. `crossing` and
    `prediction` are sizes to mark.
    """
    with canvas() as (figure, axes):
        for i, (name, seconds) in enumerate(curves.items()):
            axes.plot(sizes, seconds, color=COLOURS[i], marker=MARKERS[i], label=name)
        for i, (name, seconds) in enumerate((limits or {}).items()):
            axes.plot(sizes, seconds, color=INK, lw=1.2, ls=_DASHES[i % 4], label=name)
        for i, (name, (x, y)) in enumerate((recorded or {}).items()):
            axes.plot(x, y, color="#9ca3af", lw=1.2, marker=MARKERS[-1 - i], ms=4, label=name)
        lowest = min(min(seconds) for seconds in curves.values())
        axes.set(xscale="log", yscale="log", xlabel=xlabel, title=title)
        axes.set_ylim(bottom=lowest / 30)  # room for the marks; a limit may leave at the bottom
        _mark(axes, prediction, "you said", 0.13, ":", before=True)
        _mark(axes, crossing, "crossing", 0.05, "-", before=False)
        _size_ticks(axes, sizes)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short_seconds(value)))
        axes.set_ylabel("time for one call")
        axes.legend(loc="upper left", frameon=True, framealpha=1, edgecolor="white")
        return finish(figure, _race_alt(title, sizes, curves, limits, recorded))


def bars(
    values: Mapping[str, float],
    *,
    title: str,
    unit: str,
    limits: Mapping[str, float] | None = None,
    paper: Collection[str] = (),
    claims: Mapping[str, tuple[float, float]] | None = None,
    log: bool = False,
) -> Picture:
    """Plot one horizontal bar a value, with its number; a dot with `log`, where length means nothing.

    `limits` (same keys) are dashed marks. Names in `paper` are figures from data sheets, not
    measured: they are hollow. `claims` maps a text to the range (low, high) it speaks of.
    """
    names = list(values)
    extra = 0.45 if claims else 0
    with canvas(height=0.9 + 0.42 * len(names) + extra) as (figure, axes):
        for i, name in enumerate(names):
            _one(axes, i, values[name], hollow=name in paper, dot=log)
            text = "  " + _with_unit(values[name], unit)
            axes.text(values[name], i, text, va="center", fontsize=9)
            if limits and name in limits:
                mark = axes.plot(
                    [limits[name]] * 2, [i - 0.36, i + 0.36], color=INK, ls="--", lw=1.4
                )
                mark[0].set_label(
                    "_" if axes.get_legend_handles_labels()[0] else "data-sheet limit"
                )
        top = max([*values.values(), *(limits or {}).values(), *(7200 for _ in claims or ())])
        axes.set_yticks(range(len(names)), names)
        axes.set(xlabel=_axis_unit(unit), ylim=(len(names) - 0.45, -0.55))
        # Over the whole picture: beside long names there is no room for a long title.
        figure.suptitle(title, x=0.01, ha="left", size=11, weight="bold")
        axes.set_xscale("log" if log else "linear")
        axes.set_xlim(min(values.values()) / 3 if log else 0, top * (6 if log else 1.25))
        if limits:
            axes.legend(
                loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.2, handlelength=1.5
            )
        _claims(axes, claims or {})
        if unit == "s" and log:
            _time_ticks(axes)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: _with_unit(v, unit, short=True)))
        axes.grid(axis="y", visible=False)
        return finish(figure, _bars_alt(title, values, unit, limits, paper, claims))


def lines(
    x: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    ideal: Mapping[str, Sequence[float]] | None = None,
) -> Picture:
    """Plot curves on plain axes; `ideal` curves are dashed."""
    with canvas() as (figure, axes):
        for i, (name, y) in enumerate(curves.items()):
            axes.plot(x, y, color=COLOURS[i], marker=MARKERS[i], label=name)
        for i, (name, y) in enumerate((ideal or {}).items()):
            axes.plot(x, y, color=INK, lw=1.2, ls=_DASHES[i], label=name)
        axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
        axes.set_ylim(bottom=0)
        if all(float(value).is_integer() for value in x) and len(x) <= 12:
            axes.set_xticks(list(x))
        axes.legend(loc="best")
        ends = "; ".join(f"{name} from {y[0]:.3g} to {y[-1]:.3g}" for name, y in curves.items())
        return finish(figure, f"Line plot. {title}. {ylabel} over {xlabel}: {ends}.")


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
    "Roofline", CACM 52(4), 2009.
    """
    intensities = [2.0**k for k in range(-5, 13)]
    with canvas(8.4, 4.4) as (figure, axes):
        for i, roof in enumerate(roofs):
            x = sorted([*intensities, roof.peak / roof.bandwidth])  # with the ridge itself
            top = [min(roof.peak, value * roof.bandwidth) for value in x]
            dash = "-" if roof.measured else _DASHES[i % 4]
            kind = "measured" if roof.measured else "data sheet"
            axes.plot(x, top, color=INK, ls=dash, lw=1.4, label=f"{roof.name} ({kind})")
        for i, (name, (x, y)) in enumerate(points.items()):
            axes.plot(x, y, color=COLOURS[i], marker=MARKERS[i], ms=9, ls="", label=name)
        axes.set(xscale="log", yscale="log", title=title)
        axes.set_xlabel("arithmetic intensity: operations for each byte moved (FLOP/byte)")
        axes.set_ylabel("speed reached")
        axes.yaxis.set_major_formatter(
            FuncFormatter(lambda v, _: _with_unit(v, "FLOP/s", short=True))
        )
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        found = "; ".join(
            f"{name} at {x:.3g} FLOP/byte reaches {_units.quantity(y, 'FLOP/s')}"
            for name, (x, y) in points.items()
        )
        return finish(figure, f"Roofline plot. {title}. {found}.")


def lanes(cpu: Device, chips: Sequence[Chip]) -> Picture:
    """Draw processors as what they are: a few large lanes, or thousands of small ones.

    Every square is a lane of the CPU's vector units, an fp32 lane of a GPU, a multiplier of a TPU.
    """
    ram = f"{_units.gib(cpu.memory_total)} memory" if cpu.memory_total else ""
    with canvas(8.4, 4.5, columns=1 + len(chips)) as (figure, axes):
        title = f"your CPU, {cpu.cores} cores\n{cpu.lanes} fp32 lanes"
        _grid(axes[0], cpu.lanes, COLOURS[0], title, ram)
        for i, chip in enumerate(chips):
            text = (
                f"{chip.memory / 1e9:.0f} GB memory\n{_units.quantity(chip.bandwidth, 'B/s')}\n"
                f"{_units.quantity(chip.peak[chip.best_format], 'FLOP/s')} in {chip.best_format}"
            )
            what = "fp32 lanes" if chip.kind == "GPU" else "multipliers"
            _grid(
                axes[i + 1], chip.lanes, COLOURS[i + 1], f"{chip.name}\n{chip.lanes:,} {what}", text
            )
        counts = "; ".join(f"{chip.name} {chip.lanes:,}" for chip in chips)
        alt = f"Squares for the lanes of each processor: your CPU {cpu.lanes}; {counts}."
        figure.get_layout_engine().set(rect=(0.01, 0.05, 0.98, 0.87))  # room for the text below
        figure.suptitle(
            "One square is one lane. Those of the TPU are too small to draw apart.",
            size=10,
            y=0.985,
        )
        return finish(figure, alt)


_DASHES = ("--", "-.", ":", (0, (6, 2)))


def _grid(axes: Axes, count: int, colour: str, title: str, text: str) -> None:
    """One square a lane, in a square field: few are large, many are small."""
    side = math.isqrt(count - 1) + 1
    edge = 0.8 if side < 100 else 1.0
    corners = np.array([(0, 0), (edge, 0), (edge, edge), (0, edge)]) - edge / 2
    places = np.array([(i % side, -(i // side)) for i in range(count)])
    squares = places[:, None, :] + corners
    axes.set_title(title, fontsize=10, loc="center")
    axes.set_xlim(-0.6, side - 0.4)
    axes.set_ylim(-side + 0.4, 0.6)
    axes.set_aspect("equal")
    axes.axis("off")
    axes.add_collection(PolyCollection(squares, facecolor=colour, edgecolor="none"))
    axes.text(0.5, -0.06, text, transform=axes.transAxes, ha="center", va="top", fontsize=9)


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


def _one(axes: Axes, row: int, value: float, hollow: bool, dot: bool) -> None:
    """A bar or a dot; hollow for what nobody measured."""
    if dot:
        face = "white" if hollow else COLOURS[0]
        axes.plot(value, row, "o", ms=9, mfc=face, mec=GREY if hollow else COLOURS[0], mew=1.6)
        return
    look = {"fill": False, "hatch": "///", "edgecolor": GREY} if hollow else {"color": COLOURS[0]}
    axes.barh(row, value, height=0.6, **look)


def _claims(axes: Axes, claims: Mapping[str, tuple[float, float]]) -> None:
    """Shade the ranges that somebody claims, with the text above the bars."""
    low_edge, high_edge = axes.get_xlim()
    for i, (text, (low, high)) in enumerate(claims.items()):
        high = min(high, high_edge)
        axes.axvspan(low, high, color=COLOURS[3 + i], alpha=0.2, lw=0)
        middle = (max(low, low_edge) * high) ** 0.5
        axes.annotate(
            text, (middle, 0), xycoords=("data", "axes fraction"), xytext=(0, 3), ha="center",
            textcoords="offset points", fontsize=8.5, color=INK, linespacing=1.1,
        )  # fmt: skip
    if claims:
        top, bottom = axes.get_ylim()[::-1]
        axes.set_ylim(bottom + 0.7, top)


def _time_ticks(axes: Axes) -> None:
    """Ticks at ten, sixty and so on: people count long times in minutes and hours."""
    low, high = axes.get_xlim()
    ticks = [*(10.0**k for k in range(-9, 2)), 60, 600, 3600, 36_000, 360_000]
    axes.set_xticks([tick for tick in ticks if low <= tick <= high])
    axes.xaxis.set_minor_locator(NullLocator())


def _size_ticks(axes: Axes, sizes: Sequence[float]) -> None:
    shown = list(sizes)[:: max(1, len(sizes) // 7)]
    axes.set_xticks(shown, [f"{size:g}" for size in shown])
    axes.xaxis.set_minor_locator(NullLocator())


def _short_seconds(value: float) -> str:
    if value == 60:
        return "1 min"
    return re.sub(r"(\.\d*?)0+ ", r"\1 ", _units.seconds(value)).replace(". ", " ")


def _with_unit(value: float, unit: str, short: bool = False) -> str:
    if unit == "s":
        return _short_seconds(value) if short else _units.seconds(value)
    if unit in ("FLOP/s", "B/s", "B"):
        text = _units.quantity(value, unit)
        return re.sub(r"(\.\d*?)0+ ", r"\1 ", text).replace(". ", " ") if short else text
    return f"{value:,.3g}" if short else f"{value:,.3g} {unit}".rstrip()


def _axis_unit(unit: str) -> str:
    return {"s": "time", "B/s": "bandwidth", "FLOP/s": "speed", "B": "memory"}.get(unit, unit)


def _bars_alt(
    title: str,
    values: Mapping[str, float],
    unit: str,
    limits: Mapping[str, float] | None,
    paper: Collection[str],
    claims: Mapping[str, tuple[float, float]] | None,
) -> str:
    readings = "; ".join(
        f"{name} {_with_unit(value, unit)}{' (data sheet)' if name in paper else ''}"
        for name, value in values.items()
    )
    dashed = " Dashed marks: limits from data sheets." if limits else ""
    shaded = f" Shaded: {'; '.join(claims)}.".replace("\n", " ") if claims else ""
    return f"Bar chart. {title}. {readings}.{dashed}{shaded}"


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
    return f"Log-log plot. {title}. Sizes {sizes[0]:g} to {sizes[-1]:g}: {ends}.{also}"
