"""What chips should do: one value for each quantity, from published rows, and who else asks for it."""

import tomllib
from importlib import resources

import pytest

from colab_helpers import chip_throughput, published_results
from colab_helpers.formulas import training
from colab_helpers.hardware import catalog
from colab_lessons import measurements
from course.site import chips

#: Rates of a T4 on Colab, each with its one value: what every lesson and page says.
T4 = {
    "fp32": 4.17e12,
    "fp16": 41.91e12,
    "bf16": 2.46e12,
    "memory": 240e9,
    "upload": 9.7e9,
    "download": 11.1e9,
    "upload-pageable": 3.748e9,
}
#: Published rows that no rate rests on: (row, point), the rate, its unit of work.
UNUSED = [
    ("matmul-t4-formats-kaggle", "fp32", "fp32"),
    ("matmul-t4-formats-kaggle", "fp16", "fp16"),
    ("matmul-t4-formats-kaggle", "bf16", "bf16"),
    ("copy-t4-cuda", "", "memory"),
]


@pytest.mark.parametrize("quantity", T4)
def test_a_t4_has_one_value_for_each_quantity(quantity):
    rate = chip_throughput.rates("T4")[quantity]
    assert rate.value == pytest.approx(T4[quantity]) and rate.rows
    assert rate.confidence == ("M" if quantity == "upload-pageable" else "H")


@pytest.mark.parametrize(("row", "point", "quantity"), UNUSED)
def test_rows_that_were_not_used_agree_within_a_tenth(row, point, quantity):
    rate = chip_throughput.rates("T4")[quantity]
    assert row not in " ".join(rate.rows)
    found = published_results.get(row)
    assert (found.points[point] if point else found.value) == pytest.approx(rate.value, rel=0.1)


def test_every_row_is_there_and_none_is_of_another_chip():
    text = resources.files("colab_helpers").joinpath("chip_throughput.toml").read_text("utf-8")
    for rate in tomllib.loads(text)["rate"]:
        for name in rate["rows"]:
            row = published_results.get(name.partition(":")[0])
            assert row.chip_key in (rate["chip"], "") or rate["chip"] == "GPU", rate
        assert rate["confidence"] != "L" or rate["note"]


def test_what_nobody_measured_is_inferred_and_says_so():
    g4 = chip_throughput.rates("G4")
    assert g4["bf16"].confidence == "L" and "data sheet" in g4["bf16"].note
    low, high = chip_throughput.fraction_of_peak("memory")
    assert (g4["memory"].low, g4["memory"].high) == pytest.approx(
        (low * catalog()["G4"].bandwidth, high * catalog()["G4"].bandwidth)
    )
    pcie = chip_throughput.rates("A100-80-PCIe")  # another card's matmul, but not its memory
    assert (pcie["bf16"].confidence, pcie["memory"].confidence) == ("H", "L")
    assert "launch" not in chip_throughput.rates("v5e") and "launch" in g4


def test_seconds_add_up_at_most_and_overlap_at_best():
    t4 = chip_throughput.rates("T4")
    work = t4.seconds(flops=4.17e12, bytes_accessed=120e9, launches=1000)
    assert work.low == pytest.approx(1.0)
    assert work.high == pytest.approx(1 + 0.5 + 0.02)
    assert "not validated on hardware" in str(work)
    assert t4.seconds() == chip_throughput.TimeRange(0.0, 0.0, t4.name)
    with pytest.raises(KeyError, match="Available: bf16"):
        t4.seconds(flops=1, dtype="fp8")
    with pytest.raises(ValueError, match="negative: flops=-1"):
        t4.seconds(flops=-1)
    with pytest.raises(KeyError, match="Available: T4"):
        chip_throughput.rates("T5")


def test_a_chip_counts_as_checked_only_with_a_record_of_the_course():
    devices = {measurements.read(path).device for path in measurements.FOLDER.glob("*.json")}
    for key in chip_throughput._rows().keys() & catalog().keys():
        names = [catalog()[key].name, *catalog()[key].match]
        seen = any(all(word in device for word in names[1:]) for device in devices)
        assert chip_throughput.rates(key).checked == seen, key


def test_planner_and_chips_page_ask_the_same_module():
    model = training.Transformer(12, 768, 12, 1024, 50257, number_format="half")
    [t4] = [fit for fit in training.fits(model) if fit.chip.key == "T4"]
    assert t4.seconds == pytest.approx(model.hardware_flops / T4["fp16"])
    row = next(line for line in chips.page().splitlines() if line.startswith("| T4 |"))
    assert "4.17" in row and "41.9" in row and "240" in row and "17.4" in row and "175" in row
