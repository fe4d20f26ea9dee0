"""The scoreboard: each line from its record, and the reader's numbers in place."""

import gzip
import json
import tomllib
from pathlib import Path

import pytest

from colab_helpers import chip_throughput
from colab_lessons import models, scoreboard

FOLDER = Path(scoreboard.__file__).parent
TABLE = tomllib.loads((FOLDER / "scoreboard.toml").read_text("utf-8"))["row"]


def test_the_job_is_the_models_size():
    assert models.GPT().parameter_count == scoreboard.PARAMETERS
    assert models.GPTConfig().block_size == scoreboard.TOKENS


@pytest.mark.parametrize("at", range(len(TABLE)))
def test_a_line_is_what_its_record_says(at):
    line, row = TABLE[at], scoreboard.rows()[at]
    if "record" in line:
        found = json.loads((FOLDER / line["record"]).read_text("utf-8"))
        for key in line["value"]:
            found = found[key]
        total = sum(found) if isinstance(found, list) else found
        assert row.low == row.high == pytest.approx(total * line.get("times", 1))
        assert "measured" in row.source and "2026" in row.source
    else:
        best = scoreboard.FLOPS / chip_throughput.rates(line["expected"])["fp32"].value
        assert row.low == pytest.approx(best) and 1.5 * best < row.high < 4 * best
        assert "estimated" in row.source


def test_no_number_is_typed_in():
    assert all(
        isinstance(value, str | list) or key == "times"
        for row in TABLE
        for key, value in row.items()
    )


def test_the_readers_numbers_stand_in_their_lines():
    board = scoreboard.show("01", {"one CPU core": 3000, "your GPU, NVIDIA L4": 90})
    assert "50 min   measured here" in str(board).splitlines()[1]
    assert any(
        "your GPU, NVIDIA L4" in line and "1.5 min" in line for line in str(board).splitlines()
    )
    assert str(board) == board._repr_mimebundle_()["text/plain"]
    assert scoreboard.show("00").rows == ()


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((22.2, 22.2), "22 s"),
        ((127, 276), "2.1 to 4.6 min"),
        ((8000, 8000), "2.2 h"),
        ((5300, 5300), "88 min"),
    ],
)
def test_times_are_told_in_the_unit_of_the_longer(ends, text):
    assert scoreboard.Row("01", "", "s", *ends, "").number == text


def test_matmuls_are_little_more_than_half_of_an_h100s_step():
    """Lesson 01 says so, of the profile that comes with the course."""
    profile = FOLDER / "job_records" / "nvidia-h100-three-steps.json.gz"
    events = json.loads(gzip.decompress(profile.read_bytes()))["traceEvents"]
    kernels = [each for each in events if each.get("cat") == "kernel"]
    matmuls = [each for each in kernels if "gemm" in each["name"]]
    step = scoreboard.job_record("nvidia-h100")["steps"]["as written"]["seconds_waiting_each_step"]
    assert 0.5 < sum(each["dur"] for each in matmuls) / 3e6 / step < 0.6
    assert (
        sum(each["dur"] for each in kernels) / 3e6 / step < 0.8
    )  # the rest of it waits for Python
