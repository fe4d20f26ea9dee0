"""What others have measured on chips: dated, with source.

Each row of `published_results.toml` was looked up again at its source before it came here. Figures draw them
hollow and name the source: they replace nothing that you can measure yourself.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from colab_helpers._data_files import load_toml
from colab_helpers._dated_entry import Dated

#: Units as sources write them -> (factor, unit of the course).
_UNITS = {
    "TFLOP/s": (1e12, "FLOP/s"),
    "GFLOP/s": (1e9, "FLOP/s"),
    "GB/s": (1e9, "B/s"),
    "GB": (1e9, "B"),
    "GiB": (2**30, "B"),
    "MiB": (2.0**20, "B"),
}


@dataclass(frozen=True)
class PublishedResult(Dated):
    """A published measurement.

    `y` is in `unit` ("FLOP/s", "B/s", "B", "s" or a word); `x`, whose meaning is `x_name`, are numbers or
    names. A row without a series has one number in `y` and no `x`. `when` is as the source gives it;
    `seen` is the day on which it was read there, `review` the day to look again.
    """

    id: str
    topic: str
    chip: str
    chip_key: str
    what: str
    unit: str
    y: tuple[float, ...]
    conditions: str
    software: str
    when: str
    source: str
    url: str
    confidence: str
    seen: date
    review: date
    x_name: str = ""
    x: tuple[float | str, ...] = ()

    @property
    def value(self) -> float:
        """The only number, or the largest one of a series."""
        return max(self.y)

    @property
    def points(self) -> dict[float | str, float]:
        """The series, `y` by `x`."""
        return dict(zip(self.x, self.y, strict=True))

    @property
    def label(self) -> str:
        """What a legend says: the chip, and that it is not yours."""
        return f"{self.chip}, published"

    @property
    def credit(self) -> str:
        """The source and its date.

        >>> get("copy-t4").credit
        'chsasank/device-benchmarks, 2025-04-15'
        """
        return self.source + ("" if self.when == "not given" else f", {self.when}")


def get(id: str) -> PublishedResult:
    """Return one measurement by its id in `published_results.toml`; raises KeyError with the ids there are.

    `id` is a string such as "matmul-l4-fp32".

    >>> get("upload-t4-pinned").value / 1e9
    9.7
    """
    known = all_rows()
    if id not in known:
        raise KeyError(f"Unknown measurement {id}. Available: {', '.join(sorted(known))}.")
    return known[id]


@functools.cache
def all_rows() -> Mapping[str, PublishedResult]:
    """Return every measurement by its id."""
    table = load_toml("colab_helpers", "published_results.toml")
    rows = [_read(row) for row in table["measurement"]]
    return {row.id: row for row in rows}


def _read(row: dict) -> PublishedResult:
    factor, unit = _UNITS.get(row["unit"], (1.0, row["unit"]))
    numbers = row.pop("y", None) or [row.pop("value")]
    scaled = tuple(factor * number for number in numbers)
    return PublishedResult(**row | {"unit": unit, "y": scaled, "x": tuple(row.get("x", ()))})
