"""How long a chip should take for some work: a range, from published rates.

Every place that says what a T4 does asks this module: lessons, the planner, the pages of the site. Rates
are in `chip_throughput.toml`, by rows of `published_results`; your own machine's are those that you measured.

    from colab_helpers import chip_throughput

    t4 = chip_throughput.rates("T4")
    t4.seconds(flops=2 * 1024**3, launches=1)   # one 1,024 × 1,024 matmul in fp32
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass

from colab_helpers import _units, published_results
from colab_helpers._data_files import load_toml
from colab_helpers.hardware import Chip, catalog

#: The smallest n at which a product counts as large.
_LARGE = 2048


@dataclass(frozen=True)
class Rate:
    """A rate of a chip: FLOP/s, B/s, or seconds for a "launch".

    `low` and `high` are the ends of what was measured. `confidence` is "H" (measured on that chip), "M"
    (on one like it) or "L" (inferred); `rows` are ids in `published_results`.
    """

    low: float
    high: float
    confidence: str
    rows: tuple[str, ...] = ()
    note: str = ""

    @property
    def value(self) -> float:
        """The one number to quote: the fast end of what was measured, the middle of what is inferred."""
        return (self.low + self.high) / 2 if self.confidence == "L" else self.high


@dataclass(frozen=True)
class TimeRange:
    """Seconds as a range: `low` is the longest of its parts, as if all overlapped, `high` is their sum.

    `checked` says whether the chip has ever been compared with a run of the course.
    """

    low: float
    high: float
    chip: str
    checked: bool = False

    def __str__(self) -> str:
        low, high = _units.format_duration(self.low), _units.format_duration(self.high)
        value = low if low == high else f"{low} to {high}"
        return value if self.checked else f"{value} (estimate, not validated on hardware)"


@dataclass(frozen=True)
class Rates:
    """The rates of one chip, by quantity: dtypes, "memory", "upload", "download", "launch"."""

    chip: str
    name: str
    table: Mapping[str, Rate]
    checked: bool = False

    def __getitem__(self, quantity: str) -> Rate:
        if quantity not in self.table:
            known = ", ".join(sorted(self.table))
            raise KeyError(f"{self.name} has no rate {quantity!r}. Available: {known}.")
        return self.table[quantity]

    def __contains__(self, quantity: str) -> bool:
        return quantity in self.table

    def seconds(
        self, flops: float = 0, bytes_accessed: float = 0, launches: int = 0, dtype: str = "fp32"
    ) -> TimeRange:
        """Return how long the work should take.

        Args:
            flops: Operations in `dtype`.
            bytes_accessed: Bytes to and from the chip's own memory.
            launches: Kernels that are launched.
            dtype: The number format of the operations, such as "fp32" or "bf16".

        Returns:
            A range in seconds. The low end is the largest of these parts, as if all overlapped, and the high
            end is their sum.

        Raises:
            KeyError: The chip lacks a rate that is needed.
            ValueError: An amount is negative.

        >>> print(rates("T4").seconds(flops=2 * 2048**3, launches=1))
        4.12 ms to 4.14 ms (estimate, not validated on hardware)
        """
        if min(flops, bytes_accessed, launches) < 0:
            raise ValueError(f"An amount is negative: {flops=}, {bytes_accessed=}, {launches=}.")
        amounts = {dtype: flops, "memory": bytes_accessed}
        used = {quantity: amount for quantity, amount in amounts.items() if amount}
        least = [amount / self[quantity].high for quantity, amount in used.items()]
        most = [amount / self[quantity].low for quantity, amount in used.items()]
        if launches:
            least.append(launches * self["launch"].low)
            most.append(launches * self["launch"].high)
        return TimeRange(max(least, default=0.0), sum(most), self.name, self.checked)

    def ridge(self, dtype: str = "fp32") -> float:
        """Return the ridge point: the FLOP per byte from which compute in `dtype`, not memory, is the limit.

        >>> round(rates("T4").ridge("fp32"), 1), round(rates("T4").ridge("fp16"))
        (17.4, 175)
        """
        return self[dtype].value / self["memory"].value


def rates(chip: str) -> Rates:
    """Return the expected rates of `chip`, a key of `hardware.catalog()` such as "T4".

    Raises KeyError for a chip that is not in the catalog.

    >>> rates("T4")["fp32"].value / 1e12, rates("T4")["memory"].value / 1e9
    (4.17, 240.0)
    """
    if chip not in catalog():
        raise KeyError(f"Unknown chip {chip!r}. Available: {', '.join(catalog())}.")
    sheet = catalog()[chip]
    table = {name: _inferred(sheet, name) for name in (*_formats(sheet), "memory")}
    table |= _rows().get("GPU", {}) if sheet.kind == "GPU" else {}
    table |= {name: rate for name, rate in _rows().get(_like(chip), {}).items() if name != "memory"}
    table |= _rows().get(chip, {})
    return Rates(chip, sheet.name, table, chip in _checked())


def fraction_of_peak(quantity: str) -> tuple[float, float]:
    """Return the least and the largest fraction of the data sheet that measured chips reach.

    `quantity` is a dtype or "memory"; one that nobody measured gets the range over fp32, fp16 and bf16. Chips
    without a measured row are inferred from these.

    >>> 0.5 < fraction_of_peak("memory")[0] < fraction_of_peak("memory")[1] < 1
    True
    """
    found = []
    for key, table in _rows().items():
        if key in catalog() and quantity in table:
            promised = _promised(catalog()[key], quantity)
            if promised:
                found += [table[quantity].low / promised, table[quantity].high / promised]
    if not found:
        every = [fraction_of_peak(name) for name in ("fp32", "fp16", "bf16")]
        return min(low for low, _ in every), max(high for _, high in every)
    return min(found), max(found)


@dataclass(frozen=True)
class RateCheck:
    """A published measurement that no rate is based on, beside the prediction, both in seconds."""

    row: published_results.PublishedResult
    measured: float
    expected: TimeRange

    @property
    def ratio(self) -> float:
        """Measured over the low end: above 1 where it took longer than the rates allow."""
        return self.measured / self.expected.low


def checks() -> tuple[RateCheck, ...]:
    """Return the rates' predictions for measurements that they are not based on.

    >>> len(checks()) >= 10
    True
    """
    return tuple(_check(row) for row in _data()["check"])


def _check(row: Mapping) -> RateCheck:
    id, _, point = row["row"].partition(":")
    found = published_results.get(id)
    [value] = _values(row["row"]) or [found.value]
    per_second = {"FLOP/s": row["flop"], "B/s": row["moved"], "tokens/s": 1.0}
    seconds = value if found.unit == "s" else per_second[found.unit] / value
    wanted = rates(found.chip_key).seconds(row["flop"], row["moved"], 1, row["dtype"])
    what = f"{found.what}, {point}" if point else found.what
    return RateCheck(dataclasses.replace(found, what=what), seconds, wanted)


def _like(chip: str) -> str:
    """The A100s differ only in memory, so a matmul rate of one holds for the other."""
    return "A100-40" if chip.startswith("A100") else chip


def _formats(sheet: Chip) -> list[str]:
    return [name for name in sheet.peak if not name.startswith("int")]


def _promised(sheet: Chip, quantity: str) -> float:
    return sheet.bandwidth if quantity == "memory" else sheet.peak.get(quantity, 0.0)


def _inferred(sheet: Chip, quantity: str) -> Rate:
    low, high = fraction_of_peak(quantity)
    promised = _promised(sheet, quantity)
    note = f"{100 * low:.0f} to {100 * high:.0f}% of its data sheet"
    return Rate(low * promised, high * promised, "L", (), note)


@functools.cache
def _rows() -> Mapping[str, Mapping[str, Rate]]:
    """Measured rates by chip and quantity."""
    table: dict[str, dict[str, Rate]] = {}
    for row in _data()["rate"]:
        table.setdefault(row["chip"], {})[row["quantity"]] = _rate(row)
    return table


def _rate(row: Mapping) -> Rate:
    found = [value for name in row["rows"] for value in _values(name)]
    low, high = row.get("low", min(found)), row.get("high", max(found))
    return Rate(low, high, row["confidence"], tuple(row["rows"]), row.get("note", ""))


def _values(name: str) -> list[float]:
    """The numbers of a row: one point of it, or all of its large products."""
    id, _, point = name.partition(":")
    row = published_results.get(id)
    if point:
        return [y for x, y in row.points.items() if str(x) == point]
    if row.x_name == "n":
        return [y for n, y in row.points.items() if float(n) >= _LARGE]
    return list(row.y)


def _checked() -> Mapping[str, str]:
    return _data()["checked"]


@functools.cache
def _data() -> Mapping:
    return load_toml("colab_helpers", "chip_throughput.toml")
