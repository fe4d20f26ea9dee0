"""Records of what lessons measured, here and on other machines.

A record holds what one lesson measured on one machine: device, versions, date, numbers. Records of
reference machines lie beside this file, written by `make reference`, never by hand.
"""

from __future__ import annotations

import contextlib
import html
import json
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

from colab_helpers import _atomic_files, _units, hardware, runtime
from colab_helpers._rich_display import bundle
from colab_lessons import recorded_outputs, session_log
from colab_lessons.predictions import Prediction
from colab_lessons.session_log import ExerciseResult, Run

SCHEMA = 1
FOLDER = Path(__file__).parent


class RecordError(ValueError):
    """A file that is not a reference record: what was seen, and what to do."""


@dataclass(frozen=True)
class Value:
    """One measured number with its unit and, in words, what it is.

    >>> told = [(0.00123, "s"), (8.1e12, "FLOP/s"), (180.4, ""), (1.5, "×"), (28.9, "%")]
    >>> print(*(Value(number, unit, "") for number, unit in told), sep="; ")
    1.23 ms; 8.10 TFLOP/s; 180; 1.5×; 28.9%
    """

    number: float
    unit: str
    meaning: str

    def __str__(self) -> str:
        if self.unit == "s":
            return _units.format_duration(self.number)
        if self.unit == "×":
            return _units.format_ratio(self.number)
        if self.unit == "bytes" and abs(self.number) >= 1000:
            return _units.format_si(self.number, "B")
        if self.unit == "bytes":
            return f"{self.number:,.3g} bytes"
        if self.unit == "":
            return f"{self.number:,.3g}" if abs(self.number) < 100 else f"{self.number:,.0f}"
        return _units.format_si(self.number, self.unit)


@dataclass(frozen=True)
class Series:
    """A measured curve: `y` in `unit` over `x`."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    unit: str
    meaning: str


@dataclass(frozen=True)
class Record:
    """What one lesson measured on one machine. `fast` marks the small sizes of a test run.

    What the learner predicted and tried belongs to a run; a reference record has none of it.
    """

    lesson: str
    device: str
    kind: str
    date: str
    platform: str
    fast: bool
    details: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    series: Mapping[str, Series] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    predictions: Mapping[str, Prediction] = field(default_factory=dict)
    exercises: Mapping[str, ExerciseResult] = field(default_factory=dict)
    run: Run = field(default_factory=Run)

    @property
    def label(self) -> str:
        """Device and date, short enough for a legend."""
        return f"{self.device}, {self.date}"

    def to_dict(self) -> dict:
        """Return plain data, ready for JSON."""
        return {"schema": SCHEMA, "kind": "record", **_renamed(asdict(self), "kind", "device_kind")}

    @classmethod
    def from_dict(cls, data: Any, origin: str = "this record") -> Record:
        """Read what `to_dict` wrote. Raises `RecordError`, naming `origin`."""
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            schema = data.get("schema") if isinstance(data, dict) else None
            raise RecordError(
                f"{origin} is not a record of schema {SCHEMA} (schema: {schema!r}). "
                "Measure it again with `make reference`, or delete it."
            )
        plain = {key: value for key, value in data.items() if key not in ("schema", "kind")}
        try:
            plain = _renamed(plain, "device_kind", "kind")
            plain["values"] = {k: Value(**v) for k, v in plain["values"].items()}
            plain["series"] = {k: _series(v) for k, v in plain["series"].items()}
            plain["run"] = Run(**plain.get("run", {}))
            for name, kind in (("predictions", Prediction), ("exercises", ExerciseResult)):
                plain[name] = {k: kind(**v) for k, v in plain.get(name, {}).items()}
            return cls(**plain)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise RecordError(
                f"{origin} lacks something or has too much: {error}. "
                "Measure it again with `make reference`, or delete it."
            ) from error

    def _repr_mimebundle_(self, **_: Any) -> dict:
        others = [other for other in load(self.lesson) if other.label != self.label]
        return bundle(str(self), _as_html(self, others), self.to_dict())

    def __str__(self) -> str:
        return _as_text(self)


def record(
    lesson: str,
    fast: bool,
    device: hardware.Device | None = None,
    predicted: Mapping[str, Prediction] | None = None,
    **measured: Value | Series,
) -> Record:
    """Return the record of this lesson on this machine, to be shown as the last value of a lesson.

    `device` is what was measured: by default the accelerator, or the CPU where there is none. `fast`
    marks a run with small sizes. `predicted` has the predictions by the names of their form fields.

    >>> record("01_enable_gpu", True, speedup=Value(2.0, "×", "faster")).values["speedup"].number
    2.0
    """
    place, device = runtime.describe(), device or hardware.list_devices().main
    return Record(
        lesson=lesson,
        device=device.short_name,
        kind=device.kind,
        date=date.today().isoformat(),
        platform=place.platform,
        fast=fast,
        details={k: v for k, v in device.to_dict().items() if v not in (None, ())},
        versions={"python": place.python, **place.frameworks, **_libraries()},
        values={k: v for k, v in measured.items() if isinstance(v, Value)},
        series={k: v for k, v in measured.items() if isinstance(v, Series)},
        parts=recorded_outputs.tally(),
        predictions=predicted or {},
        exercises={
            id: one for id, one in session_log.exercise_results().items() if id[:2] == lesson[:2]
        },
        run=session_log.run(),
    )


def _libraries() -> dict[str, str]:
    """The versions of what only a few cells use; cells whose library is missing record nothing."""
    found = {}
    for name in (
        "bitsandbytes",
        "libtpu",
        "numba",
        "peft",
        "ray",
        "torchao",
        "transformers",
        "triton",
    ):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def series(x: Iterable[float], y: Iterable[float], unit: str, meaning: str) -> Series:
    """Return a curve from any iterables of numbers; raises ValueError when lengths differ.

    `x` and `y` have the same length; `y` is in `unit`; `meaning` says in words what it is.
    """
    xs, ys = tuple(map(float, x)), tuple(map(float, y))
    if len(xs) != len(ys):
        raise ValueError(f"{meaning}: {len(xs)} x values and {len(ys)} y values.")
    if not all(map(math.isfinite, (*xs, *ys))):
        raise ValueError(f"{meaning}: a value is not finite.")
    return Series(xs, ys, unit, meaning)


def read(path: Path) -> Record:
    """Read one record. Raises `RecordError` for a file that is none.

    `path` is a file that `write` wrote.
    """
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(
            f"{path.name} cannot be read: {error}. Delete it, or restore it."
        ) from error
    return Record.from_dict(data, path.name)


def load(lesson: str, folder: Path = FOLDER) -> list[Record]:
    """Return the reference records of a lesson. A broken file is named in a warning and left out.

    `folder` holds the records: the package's own when left out.
    """
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(read(path))
        except RecordError as error:
            warnings.warn(str(error), stacklevel=2)
    return [entry for entry in found if entry.lesson == lesson and not entry.fast]


def write(entry: Record, folder: Path = FOLDER) -> Path:
    """Write a record to `folder` and return its path.

    Raises `RecordError` for a run with FAST, and for one in which nothing was measured. `entry` is the
    record; the file is named after its device and lesson.
    """
    if not entry.values and not entry.series:
        raise RecordError(
            f"{entry.lesson} measured nothing on {entry.device}: that is no reference."
        )
    if entry.platform == "fake-gpu":
        raise RecordError(
            f"{entry.lesson} ran on a fake {entry.device}: nothing was measured there."
        )
    if entry.fast:
        raise RecordError(f"{entry.lesson} ran with FAST: such numbers are no reference.")
    slug = "-".join("".join(c if c.isalnum() else " " for c in entry.device.lower()).split())
    learners = ("predictions", "exercises", "run")
    measured = {name: part for name, part in entry.to_dict().items() if name not in learners}
    text = json.dumps(measured, indent=1, sort_keys=True) + "\n"
    return _atomic_files.write(folder / f"{slug}--{entry.lesson}.json", text)


def _as_text(mine: Record) -> str:
    rows = [(value.meaning, str(value)) for value in mine.values.values()]
    width = max((len(meaning) for meaning, _ in rows), default=0)
    lines = [f"{meaning:<{width}}  {text}" for meaning, text in rows] or [
        "nothing was measured here"
    ]
    return "\n".join([f"Measured on {mine.label}:", *lines])


def _as_html(mine: Record, others: Sequence[Record]) -> str:
    cell = "style='text-align:left;padding:0.15em 0.8em 0.15em 0'"
    heads = ["", f"You, {mine.device}", *(f"Reference: {other.label}" for other in others)]
    body = []
    for key, value in mine.values.items():
        theirs = [str(other.values[key]) if key in other.values else "" for other in others]
        cells = "".join(f"<td {cell}>{html.escape(t)}</td>" for t in [str(value), *theirs])
        body.append(f"<tr><td {cell}>{html.escape(value.meaning)}</td>{cells}</tr>")
    head = "".join(f"<th {cell}>{html.escape(text)}</th>" for text in heads)
    if not mine.values:
        return "<p>Nothing was measured here.</p>"
    small = "<p><small>Small sizes (FAST): these numbers are no reference.</small></p>"
    return f"<table><tr>{head}</tr>{''.join(body)}</table>" + (small if mine.fast else "")


def _series(data: Mapping[str, Any]) -> Series:
    return Series(tuple(data["x"]), tuple(data["y"]), data["unit"], data["meaning"])


def _renamed(data: dict, old: str, new: str) -> dict:
    return {new if key == old else key: value for key, value in data.items()}
