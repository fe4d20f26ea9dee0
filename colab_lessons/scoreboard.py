"""What the course's job takes, a line per way of running it, and the reader's own numbers in place.

    from colab_lessons import scoreboard

    scoreboard.show("01", {"one CPU core": 4100})  # seconds for 1,000 steps

`scoreboard.toml` says from which record each number comes.
"""

from __future__ import annotations

import functools
import html
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colab_helpers import _units, chip_throughput
from colab_helpers._rich_display import bundle

if TYPE_CHECKING:
    from colab_helpers.figures.style import Picture

_FOLDER = Path(__file__).parent
#: The job: parameters of `models.GPT`, steps, sequences per step, tokens per sequence.
PARAMETERS, STEPS, SEQUENCES, TOKENS = 10_773_504, 1_000, 32, 256
#: FLOPs of the job by the rule of six: per parameter and token two forward, four backward.
FLOPS = 6 * PARAMETERS * STEPS * SEQUENCES * TOKENS


@dataclass(frozen=True)
class Row:
    """One line: `low` to `high` in `unit` (equal where it was measured), and where that comes from.

    `own` is the reader's name for it, `section` the part of the lesson that measures it.
    """

    lesson: str
    what: str
    unit: str
    low: float
    high: float
    source: str
    own: str = ""
    section: str = ""

    @property
    def number(self) -> str:
        """The number or the range, with its unit.

        >>> Row("01", "", "s", 120, 270, "").number
        '2 to 4.5 min'
        """
        if self.unit == "s":
            return _minutes(self.low, self.high)
        if float(self.high).is_integer():
            return f"{self.high:,.0f} {self.unit}"
        return _units.format_si(self.high, self.unit)


@dataclass(frozen=True)
class Scoreboard:
    """The lines up to one lesson, as text and as a table."""

    rows: Sequence[Row]
    title: str = "The course's job so far"

    def __str__(self) -> str:
        wide = max(len(row.what) for row in self.rows)
        lines = [f"  {row.what:<{wide}}  {row.number:>15}   {row.source}" for row in self.rows]
        return "\n".join([self.title, *lines])

    __repr__ = __str__

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        cell = "style='text-align:left;padding:0.15em 1em 0.15em 0'"
        body = "".join(
            "<tr>" + "".join(f"<td {cell}>{html.escape(text)}</td>" for text in line) + "</tr>"
            for line in ((row.what, row.number, row.source) for row in self.rows)
        )
        table = f"<table><caption {cell}>{html.escape(self.title)}</caption>{body}</table>"
        return bundle(str(self), table, {"kind": "scoreboard", "rows": len(self.rows)})


def show(lesson: str, own: Mapping[str, float] | None = None) -> Scoreboard:
    """Return the lines of all lessons up to one.

    Args:
        lesson: Its two digits, as "03".
        own: The reader's numbers, by the name of their line, in its unit; a line's name may go on behind
            it, as in "your GPU, Tesla T4".

    >>> print(show("01", {"your GPU, Tesla T4": 150}).rows[2].what)
    your GPU, Tesla T4
    """
    shown = []
    for row in rows():
        if row.lesson <= lesson:
            mine = [name for name in own or {} if row.own and name.startswith(row.own)]
            shown.append(_replaced(row, mine[0], (own or {})[mine[0]]) if mine else row)
    return Scoreboard(tuple(shown))


def picture(inches: tuple[float, float] | None = None, through: str = "01") -> Picture:
    """Draw the times of all lessons up to one; `inches` are the figure's width and height."""
    from colab_lessons import figures  # matplotlib takes a second

    drawn: dict[str, float | tuple[float, float]] = {}
    for row in rows():
        if row.lesson <= through and row.unit == "s":
            how = "measured" if row.low == row.high else "estimated"
            name = row.what.replace(", ", "\n") + f", {how}"
            drawn[name] = row.low if row.low == row.high else (row.low, row.high)
    title = f"{STEPS:,} training steps of a small GPT"
    return figures.dot_plot(drawn, unit="s", xlabel="time", title=title, inches=inches)


@functools.cache
def rows() -> tuple[Row, ...]:
    """Return all lines, in the order of the table.

    >>> rows()[0].lesson
    '01'
    """
    table = tomllib.loads((_FOLDER / "scoreboard.toml").read_text("utf-8"))
    return tuple(_row(line) for line in table["row"])


def _row(line: Mapping[str, Any]) -> Row:
    if "expected" in line:
        low, high = _expected(line["expected"])
        share = _share_of_h100()
        source = (
            f"estimated: at a measured fp32 matmul speed, and at {share:.0%} of it, as on the H100"
        )
    else:
        low = high = _recorded(line)
        record = _read(line["record"])
        when = date.fromisoformat(record["date"])
        source = f"measured on {record['device']}, {when:%B %Y}"
    named = line["lesson"], line["what"], line["unit"]
    return Row(*named, low, high, source, line.get("own", ""), line["section"])


def _replaced(row: Row, name: str, number: float) -> Row:
    what = row.what if name == row.own else name
    return replace(row, what=what, low=number, high=number, source="measured here")


def _recorded(line: Mapping[str, Any]) -> float:
    value: Any = _read(line["record"])
    for key in line["value"]:
        value = value[key]
    return float(sum(value) if isinstance(value, list) else value) * line.get("times", 1)


def _expected(chip: str) -> tuple[float, float]:
    """Seconds for the job on a chip: at its matmul speed, and at the share of that which an H100 reaches."""
    least = FLOPS / chip_throughput.rates(chip)["fp32"].value
    return least, least / _share_of_h100()


def _share_of_h100() -> float:
    record = job_record("nvidia-h100")
    speed = 2 * 2048**3 / record["lesson_01"]["matmul"]["2048"]  # FLOP/s
    return FLOPS / speed / (STEPS * record["steps"]["as written"]["seconds_waiting_each_step"])


def job_record(name: str) -> dict:
    """Return a record of the job that comes with the course; `name` is its file in `job_records`.

    >>> job_record("nvidia-h100")["device"]
    'NVIDIA H100 80GB HBM3'
    """
    return _read(f"job_records/{name}.json")


@functools.cache
def _read(file: str) -> dict:
    return json.loads((_FOLDER / file).read_text("utf-8"))


def _minutes(low: float, high: float) -> str:
    unit, size = ("s", 1) if high < 60 else ("min", 60) if high < 7200 else ("h", 3600)
    ends = dict.fromkeys(
        f"{end / size:.2g}" if end / size < 10 else f"{end / size:,.0f}" for end in (low, high)
    )
    return f"{' to '.join(ends)} {unit}"
