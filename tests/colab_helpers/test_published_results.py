"""Measurements of others: complete, dated, in the course's units, and drawn as theirs."""

import dataclasses
from datetime import date, timedelta

import pytest

from colab_helpers import hardware, published_results
from colab_helpers.figures import style
from colab_lessons import figures

ROWS = published_results.all_rows().values()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_row_says_who_measured_what_where_and_when(row):
    assert (
        row.source
        and row.url.startswith("https://")
        and row.when
        and row.conditions
        and row.software
    )
    assert row.confidence in "HM" and row.seen < row.review <= row.seen + timedelta(days=366)
    assert row.chip_key == "" or row.chip_key in hardware.catalog()
    assert len(row.y) == len(row.x) or (not row.x and len(row.y) == 1 and not row.x_name)
    assert all(y > 0 for y in row.y) and row.unit not in published_results._UNITS


@pytest.mark.parametrize(
    "row", [r for r in ROWS if r.unit in ("FLOP/s", "B/s") and r.chip_key], ids=lambda r: r.id
)
def test_no_row_is_better_than_the_data_sheet_or_absurdly_worse(row):
    chip = hardware.catalog()[row.chip_key]
    if row.topic == "matmul":
        formats = row.x if row.x_name == "format" else [row.id.rpartition("-")[2]]
        for name, rate in zip(
            formats, row.y if row.x_name == "format" else [row.value], strict=True
        ):
            limit = chip.peak.get(str(name), max(chip.peak.values()))
            assert 0.005 * limit < rate <= 1.02 * limit, (
                name,
                rate,
                limit,
            )  # bf16 is emulated on a T4
    elif row.topic == "bandwidth":
        assert 0.3 * chip.bandwidth < row.value <= chip.bandwidth
    elif row.topic == "cache":
        assert row.y[-1] <= chip.bandwidth < row.y[1]  # memory at the end, cache at the start


def test_units_are_the_courses():
    assert published_results.get("matmul-t4-formats").points["fp16"] == 41.91e12
    assert published_results.get("upload-t4-pinned").value == 9.7e9
    assert published_results.get("full-t4").value == 160 * 2**20
    with pytest.raises(KeyError, match="Available: allreduce-ethernet"):
        published_results.get("nothing")


def test_a_row_grows_old():
    row = published_results.get("copy-t4")
    assert row.is_due(row.review + timedelta(days=1)) and not row.is_due(row.review)
    assert isinstance(row.seen, date)


def test_a_figure_says_whose_the_hollow_marks_are():
    rate, copy = map(published_results.get, ("matmul-l4-fp32", "copy-t4"))
    words = {"title": "t", "xlabel": "x", "ylabel": "y"}
    for log in (False, True):
        lines = figures.lines([1, 2], {"you": [1, 2]}, published=[rate], log=log, **words)
        bars = figures.bars({"you": 2e10}, title="t", unit="B/s", published={"T4": copy}, log=log)
        assert "#120, 2026-01-12" in lines.alt
        assert "chsasank/device-benchmarks, 2025-04-15" in bars.alt
        for picture in (lines, bars):
            assert "Hollow marks were published by others" in picture.alt
            assert picture.png.startswith(b"\x89PNG")


def test_hollow_marks_are_hollow():
    looks = [
        style.published_style(published_results.get(f"matmul-{name}-fp32"))
        for name in ("l4", "a100", "h100")
    ]
    assert {look["mfc"] for look in looks} == {"white"}
    assert len({look["color"] for look in looks} - {style.line_style(0)["color"]}) == 3
    assert (
        style.published_style(published_results.get("stairs-a100")) == looks[1]
    )  # a chip looks alike everywhere


def test_measurements_of_others_never_enter_a_record():
    from colab_lessons import measurements

    row = published_results.get("copy-t4")
    with pytest.raises((TypeError, AttributeError, ValueError)):
        measurements.Record.from_dict(dataclasses.asdict(row))
    record = measurements.record("02_check_hardware", True, copied=row)
    assert record.values == {} and record.series == {}
