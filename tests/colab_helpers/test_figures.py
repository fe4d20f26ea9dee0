import base64
import io

import matplotlib
import matplotlib.image
import pytest

from colab_helpers import figures, hardware

PNG = b"\x89PNG\r\n"
CHIPS = hardware.catalogue()
CPU = hardware.Device("CPU", "Xeon", "", 2**34, cores=2)


def pictures():
    sizes = [16, 64, 256]
    curves = {"one": [1e-6, 1e-5, 1e-3], "two": [1e-5, 2e-5, 1e-4]}
    return {
        "race": figures.race(
            sizes, curves, title="Two win", xlabel="n", limits={"T4 limit": [1e-9, 1e-8, 1e-7]},
            recorded={"old": ([16, 64], [1e-4, 1e-3])}, crossing=100, prediction=64,
        ),
        "race without extras": figures.race(sizes, curves, title="Two win", xlabel="n"),
        "bars": figures.bars({"a": 1.0, "b": 2.0}, title="b", unit="s", limits={"a": 0.5}),
        "log bars": figures.bars(
            {"a": 5.0, "b": 5000.0}, title="b", unit="s", log=True, paper=["b"],
            claims={"2 to 5 min": (120, 300), "more": (3600, float("inf"))},
        ),
        "lines": figures.lines([1, 2], {"m": [1, 2]}, title="t", xlabel="x", ylabel="y"),
        "roofline": figures.roofline(
            [figures.Roof("T4", 8.1e12, 320e9)], {"a + b": (1 / 12, 1e9)}, title="t"
        ),
        "lanes": figures.lanes(CPU, [CHIPS["T4"], CHIPS["v5e"]]),
    }  # fmt: skip


@pytest.fixture(scope="module")
def drawn():
    return pictures()


@pytest.mark.parametrize("name", list(pictures()))
def test_picture_has_alt_text_and_size(drawn, name):
    data, metadata = drawn[name]._repr_mimebundle_()
    assert data["image/png"].startswith(PNG)
    assert len(metadata["image/png"]["alt"]) > 20
    assert 400 < metadata["image/png"]["width"] < 1000
    assert data["text/plain"] == f"[figure] {metadata['image/png']['alt']}"


def test_alt_text_tells_what_is_seen(drawn):
    assert drawn["race"].alt == (
        "Log-log plot. Two win. Sizes 16 to 256: one from 1.00 µs to 1.00 ms; "
        "two from 10.0 µs to 100 µs. Also drawn: T4 limit; old."
    )
    assert "b 1.4 h (data sheet)" in drawn["log bars"].alt
    assert "2,560" in drawn["lanes"].alt


def test_pictures_stand_on_white_so_that_both_themes_read_them(drawn):
    image = matplotlib.image.imread(io.BytesIO(drawn["bars"].png))
    assert tuple(image[0, 0, :3]) == (1, 1, 1) and image[0, 0, 3] == 1


def test_drawing_leaves_global_style_and_pyplot_alone():
    before = dict(matplotlib.rcParams)
    pictures()
    assert dict(matplotlib.rcParams) == before


def test_picture_without_alt_text_is_refused():
    with figures.canvas() as (figure, _), pytest.raises(ValueError, match="needs alt text"):
        figures.finish(figure, alt=" ")


def test_no_two_curves_differ_by_colour_alone():
    assert len(set(figures.MARKERS)) == len(figures.MARKERS) >= len(figures.COLOURS)


def test_picture_can_be_saved(tmp_path, drawn):
    drawn["bars"].save(tmp_path / "bars.png")
    assert (tmp_path / "bars.png").read_bytes() == drawn["bars"].png
    assert base64.b64encode(drawn["bars"].png)


def test_grouped_bars_say_each_reading():
    rows = {"weights": {"predicted": 4e6, "measured": 4.1e6}}
    picture = figures.grouped(rows, title="Close", unit="B", hollow=("predicted",))
    assert "weights: predicted 4.00 MB, measured 4.10 MB" in picture.alt


def test_timeline_names_its_phases_and_its_peak():
    picture = figures.timeline([1000, 3000, 0], [(0, "forward")], title="T", budget=4000)
    assert "Phases: forward. Peak 3.00 kB" in picture.alt


def test_bits_are_read_out():
    picture = figures.bit_layout({"bf16": ("0", "01111111", "1000000")}, title="1.5")
    assert "bf16 0 01111111 1000000" in picture.alt


def test_histogram_tells_the_share_that_is_lost():
    picture = figures.histogram(
        {"before": [2.0**-30, 2.0**-20, 1.0, 2.0]},
        title="T", xlabel="gradient", lost_below=2.0**-24, lost="0 in fp16",
    )  # fmt: skip
    assert "before: 25% below the limit" in picture.alt


def test_spans_say_who_holds_what():
    picture = figures.spans({"device 0": (0, 2), "device 1": (2, 4)}, title="T", xlabel="row")
    assert "device 0 0 to 1; device 1 2 to 3" in picture.alt
