"""What the pictures have in common: style, alt text, units on the axes."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import EngFormatter, LogFormatter, NullLocator, ScalarFormatter
from PIL import Image

from colab_helpers import _atomic_files, _units
from colab_helpers.published_results import PublishedResult

#: Okabe and Ito's colors, which color-blind readers can tell apart (jfly.uni-koeln.de/color).
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = ("o", "s", "^", "D", "v", "P")
INK, GRAY, PALE = "#1f2933", "#6b7280", "#d1d5db"
_DPI = 160
_STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GRAY,
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
DASHES = ("--", "-.", ":", (0, (6, 2)))


def line_style(number: int) -> dict[str, Any]:
    """Color, marker and dash of curve `number`, from 0: each its own, however many there are.

    >>> line_style(0)["color"] == line_style(6)["color"], line_style(0)["ls"] == line_style(6)["ls"]
    (True, False)
    """
    rounds, place = divmod(number, len(COLORS))
    return {
        "color": COLORS[place],
        "marker": MARKERS[(place + rounds) % len(MARKERS)],
        "ls": ("-", *DASHES)[rounds % (1 + len(DASHES))],
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
        """Write the picture to a PNG file.

        `path` is replaced atomically. Raises OSError where it cannot be written.
        """
        _atomic_files.write(path, self.png)


@contextmanager
def canvas(
    width: float = 7.2, height: float = 4.0, columns: int = 1, rows: int = 1, title: str = ""
) -> Iterator[Any]:
    """Give a figure and its axes in the course's style; sizes in inches.

    `width` and `height` are of the whole figure; with `columns` or `rows` above 1 there is an array of
    axes. `title` stands at the left, above all of them.

    >>> with canvas(3, 2) as (figure, axes):
    ...     _ = axes.plot([1, 2], [3, 4])
    ...     picture = finish(figure, alt="A line from 3 up to 4.")
    >>> picture
    [figure] A line from 3 up to 4.
    """
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, columns)
        if title:
            figure.suptitle(title, x=0.01, ha="left", size=11, weight="bold")
        yield figure, axes


def finish(figure: Figure, alt: str) -> Picture:
    """Turn a figure into a picture. `alt` says what a reader would see; it must not be empty."""
    if not alt.strip():
        raise ValueError("Every figure needs alt text: one sentence that describes what it shows.")
    _without_formulas(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI)
    return Picture(with_palette(buffer.getvalue()), alt, round(figure.get_figwidth() * 100))


def _without_formulas(figure: Figure) -> None:
    """Render `$` literally; keep mathtext only in tick labels that are powers of ten."""
    powers: set[Text] = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        for ticks in (axis.major, axis.minor):
            if isinstance(ticks.formatter, LogFormatter | ScalarFormatter):
                powers |= {*axis.get_ticklabels(minor=ticks is axis.minor)}
    for text in figure.findobj(Text):
        text.set_parse_math(text in powers)


def with_palette(png: bytes) -> bytes:
    """Return `png` with at most 64 colors, a third as large: notebooks and records keep figures."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    few = image.quantize(64, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    buffer = io.BytesIO()
    few.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


#: Chips that others have measured: each is drawn alike wherever it occurs.
_CHIPS = ("H100", "A100", "L4", "H200", "T4", "V100")


def published_style(row: PublishedResult) -> dict[str, Any]:
    """The style of a published curve: hollow markers, a thin line, one color per chip.

    `row` is the measurement.
    """
    chip = row.chip.split()[0]
    place = _CHIPS.index(chip) if chip in _CHIPS else len(_CHIPS) - 1
    own = line_style((3 + place) % len(COLORS))
    return {**own, "mfc": "white", "mew": 1.4, "lw": 1.0, "ms": 6, "ls": "-"}


def give_credit(figure: Figure, published: Sequence[PublishedResult]) -> str:
    """Credit the sources of a figure's hollow, published data below it; return the text for its alt text.

    `published` are the measurements that are drawn; "" for none.
    """
    if not published:
        return ""
    chips: dict[str, list[str]] = {}
    for row in published:
        chips.setdefault(row.credit, []).append(row.chip)
    credits = "; ".join(f"{', '.join(dict.fromkeys(names))}: {who}" for who, names in chips.items())
    lines = textwrap.wrap(
        f"Hollow: published by others. {credits}.", round(17 * figure.get_figwidth())
    )
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", size=7.5, color=GRAY)
    return f" Hollow marks were published by others: {credits}."


def time_ticks(axes: Axes) -> None:
    """Ticks at ten, sixty and so on: people count long times in minutes and hours.

    `axes` is the plot whose x axis is in seconds, on a log scale.
    """
    low, high = axes.get_xlim()
    ticks = [*(10.0**k for k in range(-9, 2)), 60, 600, 3600, 36_000, 360_000]
    axes.set_xticks([tick for tick in ticks if low <= tick <= high])
    axes.xaxis.set_minor_locator(NullLocator())


def size_ticks(axes: Axes, sizes: Sequence[float]) -> None:
    """Ticks at the measured sizes, thinned to about seven.

    `axes` is the plot whose x axis has the `sizes`.
    """
    shown = list(sizes)[:: max(1, len(sizes) // 7)]
    axes.set_xticks(shown, [f"{size:g}" for size in shown])
    axes.xaxis.set_minor_locator(NullLocator())


def short_seconds(value: float) -> str:
    """A duration for an axis, without trailing zeros.

    `value` is in seconds.
    """
    if value == 60:
        return "1 min"
    return re.sub(r"(\.\d*?)0+ ", r"\1 ", _units.format_duration(value)).replace(". ", " ")


def with_unit(value: float, unit: str, short: bool = False) -> str:
    """A number with its unit; `short` for an axis.

    `value` is in `unit`: "s", "B", "B/s", "FLOP/s" or any word.
    """
    if unit == "s":
        return short_seconds(value) if short else _units.format_duration(value)
    if unit in ("FLOP/s", "B/s", "B"):
        return EngFormatter(unit)(value) if short else _units.format_si(value, unit)
    number = f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"
    return number if short else f"{number}{unit if unit == '%' else f' {unit}'}".rstrip()


def axis_unit(unit: str) -> str:
    """What an axis in this unit shows."""
    return {"s": "time", "B/s": "bandwidth", "FLOP/s": "speed", "B": "memory"}.get(unit, unit)
