"""Times over sizes on log-log axes, and one value or range per row on a log axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, NullLocator

from colab_helpers import _units
from colab_helpers.figures.style import (
    COLORS,
    GRAY,
    INK,
    Picture,
    canvas,
    finish,
    line_style,
    short_seconds,
    size_ticks,
    time_ticks,
    with_unit,
)

Band = tuple[Sequence[float], Sequence[float]]
_RECORDED = "our run"  # in the name of a curve that another machine measured


def loglog(
    sizes: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    bands: Mapping[str, Band] | None = None,
    shade: Sequence[float] = (),
    prediction: float | None = None,
) -> Picture:
    """Plot seconds over size on log-log axes: who is faster where.

    `curves` hold measured seconds by contender for every size, hollow where the name has "our run" in it;
    `bands` hold the low and the high ends of what is expected. Each is named at its right end. `shade` are
    one or two sizes between which they cross, `prediction` is the reader's. `sizes` rise; `xlabel` and
    `ylabel` say what the axes are, `title` holds the finding.
    """
    with canvas(7.6, 4.1) as (figure, axes):
        for i, (name, seconds) in enumerate(curves.items()):
            style = line_style(i + 2 if i else 0)  # 1 and 2 are of what is estimated and recorded
            if _RECORDED in name:
                style |= {"color": COLORS[2], "mfc": "white"}
            axes.plot(sizes, seconds, **style)
            _name(axes, sizes[-1], seconds[-1], name, style["color"])
        for name, (low, high) in (bands or {}).items():
            axes.fill_between(sizes, low, high, color=COLORS[1], alpha=0.3, lw=1)
            _name(axes, sizes[-1], (low[-1] * high[-1]) ** 0.5, name, COLORS[1])
        axes.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel, title=title)
        axes.set_xlim(sizes[0] / 1.15, sizes[-1] * (sizes[-1] / sizes[0]) ** 0.24)  # room for names
        if shade:
            axes.axvspan(shade[0], shade[-1] * 1.001, color=GRAY, alpha=0.18, lw=0)
            axes.axvline(shade[0], color=GRAY, lw=1)
            axes.annotate(
                f"{float(f'{shade[0]:.2g}'):,g}", (shade[0], 0.94), xycoords=("data", "axes fraction"),
                xytext=(4, 0), textcoords="offset points", fontsize=9, color=INK,
            )  # fmt: skip
        if prediction is not None and prediction > 0:
            axes.axvline(prediction, color=COLORS[3], ls=":", lw=1.6)
            axes.annotate(
                f"you said {prediction:,.0f}", (prediction, 0.03), xycoords=("data", "axes fraction"),
                xytext=(4, 0), textcoords="offset points", fontsize=9, color="#9b3f75",
            )  # fmt: skip
        _ticks(axes, sizes)
        axes.yaxis.set_major_formatter(lambda value, _: short_seconds(value))
        return finish(figure, _loglog_alt(title, sizes, curves, bands or {}))


def dot_plot(
    rows: Mapping[str, float | tuple[float, float]],
    *,
    title: str,
    unit: str,
    xlabel: str,
    inches: tuple[float, float] | None = None,
) -> Picture:
    """Plot one value or one range a row on a log axis, each with its number beside it.

    `rows` maps a name to a number in `unit`, or to (low, high). What is measured has "measured" in its
    name and is filled; what is published or recorded is a hollow square, all else a hollow diamond.
    `xlabel` says what it is, `title` holds the finding; `inches` are the figure's width and height.
    """
    with canvas(*(inches or (7.6, 1.5 + 0.45 * len(rows)))) as (figure, axes):
        ends = []
        for i, (name, value) in enumerate(rows.items()):
            low, high = value if isinstance(value, tuple) else (value, value)
            ends += [low, high]
            own = "measured" in name
            theirs = "published" in name or "recorded" in name or _RECORDED in name
            color = COLORS[0] if own else COLORS[2] if theirs else COLORS[1]
            face, mark = (color if own else "white"), ("o" if own else "s" if theirs else "D")
            axes.plot([low, high], [i, i], color=color, lw=7 if high > low else 0, alpha=0.35)
            axes.plot([low, high], [i, i], mark, ms=9, mfc=face, mec=color, mew=1.8)
            text = with_unit(low, unit, short=True) if low == high else _both(low, high, unit)
            axes.annotate(
                text, (high, i), xytext=(11, 0), textcoords="offset points", va="center",
                fontsize=10, color=INK,
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set_xlim(min(ends) / 1.8, max(ends) * 6)
        axes.set_yticks(range(len(rows)), list(rows))
        axes.set(xlabel=xlabel, ylim=(len(rows) - 0.5, -0.5), title=title)
        if unit == "s":
            time_ticks(axes)
        axes.xaxis.set_major_formatter(lambda v, _: with_unit(v, unit, short=True))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.grid(axis="y", visible=False)
        said = "; ".join(
            f"{name} {with_unit(v, unit) if not isinstance(v, tuple) else _both(*v, unit)}"
            for name, v in rows.items()
        )
        hollow = any("measured" not in name for name in rows)
        note = "Hollow: not measured here." if hollow else ""
        figure.supxlabel(note, x=0.01, ha="left", size=7.5, color=GRAY)
        return finish(figure, f"One row for each contender, log axis. {title}. {said}. {note}")


def _both(low: float, high: float, unit: str) -> str:
    return f"{with_unit(low, unit)} to {with_unit(high, unit)}"


def _name(axes: Axes, x: float, y: float, text: str, color: str) -> None:
    axes.annotate(
        text, (x, y), xytext=(8, 0), textcoords="offset points", va="center", fontsize=10,
        color=color, weight="bold",
    )  # fmt: skip


def _ticks(axes: Axes, sizes: Sequence[float]) -> None:
    """The sizes themselves, or powers of ten where they are those."""
    powers = [size for size in sizes if math.log10(size).is_integer()]
    if len(powers) > 2:
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_xticks([size for size in powers if round(math.log10(size)) % 2 == 0 or size < 10])
        axes.xaxis.set_minor_locator(NullLocator())
        return
    size_ticks(axes, sizes)


def _loglog_alt(
    title: str,
    sizes: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    bands: Mapping[str, Band],
) -> str:
    ends = "; ".join(
        f"{name} from {_units.format_duration(y[0])} to {_units.format_duration(y[-1])}"
        for name, y in curves.items()
    )
    expected = "".join(
        f" Band: {name}, from {_both(low[0], high[0], 's')} to {_both(low[-1], high[-1], 's')}."
        for name, (low, high) in bands.items()
    )
    return f"Log-log plot. {title}. Sizes {sizes[0]:g} to {sizes[-1]:g}: {ends}.{expected}"
