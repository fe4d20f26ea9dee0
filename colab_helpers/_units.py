"""Numbers as people read them: seconds, bytes and rates with a fitting unit."""

from __future__ import annotations

import math

MIB, GIB = 2**20, 2**30


def format_duration(value: float) -> str:
    """Return a duration in s with three figures and a unit from ns to days.

    >>> format_duration(0.00123), format_duration(75), format_duration(10_080)
    ('1.23 ms', '75.0 s', '2.8 h')
    """
    if value >= 2 * 86_400:
        return f"{value / 86_400:.1f} days"
    if value >= 3_600:
        return f"{value / 3_600:.1f} h"
    if value >= 120:
        return f"{value / 60:.1f} min"
    return format_si(value, "s")


def format_gib(count: float) -> str:
    """Return bytes in GiB (2**30), the unit that tools usually mean by "GB"; less than 0.05 in MiB.

    >>> format_gib(15360 * 2**20), format_gib(16e9), format_gib(3 * MIB)
    ('15.0 GiB', '14.9 GiB', '3.0 MiB')
    >>> GIB == 1024 * MIB == 1024**3
    True
    """
    return f"{count / GIB:.1f} GiB" if count >= 0.05 * GIB else f"{count / MIB:.1f} MiB"


def format_mib(count: float) -> str:
    """Return bytes in MiB (2**20).

    >>> format_mib(15 * MIB), format_mib(15e6)
    ('15.00 MiB', '14.31 MiB')
    """
    return f"{count / MIB:.2f} MiB"


def format_si(value: float, unit: str) -> str:
    """Return a number with three figures and an SI prefix from nano to peta; a percentage without one.

    >>> format_si(8.1e12, "FLOP/s"), format_si(0, "B"), format_si(28.91, "%")
    ('8.10 TFLOP/s', '0 B', '28.9%')
    """
    if unit == "%":
        return f"{value:.3g}%"
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}"
    value = float(f"{value:.3g}")  # or 0.9996 s would be 1000 ms
    exponent = min(5, max(-3, math.floor(math.log10(abs(value)) / 3 + 1e-9)))
    scaled = value / 1000**exponent
    prefix = {-3: "n", -2: "µ", -1: "m", 0: "", 1: "k", 2: "M", 3: "G", 4: "T", 5: "P"}[exponent]
    decimals = max(0, 2 - math.floor(math.log10(abs(scaled)) + 1e-9))
    return f"{scaled:.{decimals}f} {prefix}{unit}"


def format_ratio(ratio: float) -> str:
    """Return a speedup: one decimal below 10, whole numbers above, two figures below 1.

    >>> format_ratio(4.237), format_ratio(83.2), format_ratio(0.0437)
    ('4.2×', '83×', '0.044×')
    """
    if ratio >= 10:
        return f"{ratio:,.0f}×"
    return f"{ratio:.1f}×" if ratio >= 1 or not ratio > 0 else f"{ratio:.2g}×"
