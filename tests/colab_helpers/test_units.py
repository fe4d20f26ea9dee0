"""Numbers as people read them, at and beside every border."""

import pytest

from colab_helpers import _units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-9, "1.00 ns"), (999e-9, "999 ns"), (1e-6, "1.00 µs"), (0.00123, "1.23 ms"), (1, "1.00 s"),
        (119.9, "120 s"), (120, "2.0 min"), (3599, "60.0 min"), (3600, "1.0 h"), (10_080, "2.8 h"),
        (172_799, "48.0 h"), (172_800, "2.0 days"), (0, "0 s"),
    ],
)  # fmt: skip
def test_seconds(value, text):
    assert _units.format_duration(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (8.1e12, "8.10 TFLOP/s"), (0, "0 FLOP/s"), (1, "1.00 FLOP/s"), (999, "999 FLOP/s"),
        (1000, "1.00 kFLOP/s"), (1e6, "1.00 MFLOP/s"), (1e9, "1.00 GFLOP/s"), (1e15, "1.00 PFLOP/s"),
        (1e19, "10000 PFLOP/s"), (-2e3, "-2.00 kFLOP/s"), (float("inf"), "inf FLOP/s"),
        (1e-3, "1.00 mFLOP/s"),
        (12.34, "12.3 FLOP/s"), (999.6, "1.00 kFLOP/s"),
    ],
)  # fmt: skip
def test_quantity(value, text):
    assert _units.format_si(value, "FLOP/s") == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(4.237, "4.2×"), (9.94, "9.9×"), (10, "10×"), (83.2, "83×"), (1234.5, "1,234×"), (1, "1.0×"),
     (0.95, "0.95×"), (0.0437, "0.044×"), (0, "0.0×"), (float("nan"), "nan×")],
)  # fmt: skip
def test_times(ratio, text):
    assert _units.format_ratio(ratio) == text
