import io
import math

import matplotlib
import matplotlib.image
import numpy as np
import pytest

from colab_lessons import figures

PNG = b"\x89PNG\r\n"


def pictures():
    sizes = [16, 64, 256]
    curves = {"one": [1e-6, 1e-5, 1e-3], "two": [1e-5, 2e-5, 1e-4]}
    return {
        "race": figures.loglog(
            sizes, curves, title="Two win", xlabel="n", ylabel="time", shade=[80, 100], prediction=64,
            bands={"T4, expected": ([1e-6, 1e-6, 1e-5], [2e-6, 2e-6, 2e-5])},
        ),
        "race of crowds": figures.loglog(
            [1, 10, 100], curves, title="Two win", xlabel="n", ylabel="time"
        ),
        "contenders": figures.dot_plot(
            {"me, measured": 60.0, "T4": (6.0, 9.0)}, title="t", unit="s", xlabel="time"
        ),
        "bars": figures.bars({"a": 1.0, "b": 2.0}, title="b", unit="s"),
        "log bars": figures.bars(
            {"a": 5.0, "b": 5000.0}, title="b", unit="s", log=True, paper=["b"],
            claims={"2 to 5 min": (120, 300), "more": (3600, float("inf"))},
        ),
        "lines": figures.lines([1, 2], {"m": [1, 2]}, title="t", xlabel="x", ylabel="y"),
        "roofline": figures.roofline(
            {"T4": (4e12, 240e9)}, title="t", dashed={"T4": (8e12, 320e9)}, points=[(1, 2e11), (100, 3e12)],
            names={"product": (300, 4e12)}, marks={"one text": 1.0},
        ),
    }  # fmt: skip


@pytest.fixture(scope="module")
def drawn():
    return pictures()


def test_pictures_have_alt_text_and_size(drawn):
    for name, picture in drawn.items():
        data, metadata = picture._repr_mimebundle_()
        assert data["image/png"].startswith(PNG), name
        assert len(metadata["image/png"]["alt"]) > 20, name
        assert 400 < metadata["image/png"]["width"] < 1000, name
        assert data["text/plain"] == f"[figure] {metadata['image/png']['alt']}", name


def test_alt_text_tells_what_is_seen(drawn):
    assert drawn["race"].alt == (
        "Log-log plot. Two win. Sizes 16 to 256: one from 1.00 µs to 1.00 ms; "
        "two from 10.0 µs to 100 µs. Band: T4, expected, from 1.00 µs to 2.00 µs to 10.0 µs to 20.0 µs."
    )
    assert "T4 6.00 s to 9.00 s" in drawn["contenders"].alt
    assert "b 1.4 h (hatched)" in drawn["log bars"].alt


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


def test_no_two_curves_differ_by_color_alone():
    assert len(set(figures.MARKERS)) == len(figures.MARKERS) >= len(figures.COLORS)


@pytest.fixture
def axes_of(monkeypatch):
    """Draw a picture and return the axes it was made from."""
    made = []
    savefig = matplotlib.figure.Figure.savefig

    def keep(figure, *args, **options):
        made.append(figure)
        return savefig(figure, *args, **options)

    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", keep)

    def draw(function, *args, **options):
        function(*args, **options)
        return made[-1].axes

    return draw


def test_measured_recorded_and_expected_times_look_different(axes_of):
    sizes = [16, 64, 256]
    [axes] = axes_of(
        figures.loglog, sizes, {"one": [1e-6, 1e-5, 1e-3], "a GPU, our run": [2e-6] * 3}, title="T",
        xlabel="n", ylabel="t", bands={"T4": ([1e-6] * 3, [4e-6] * 3)},
    )  # fmt: skip
    one, recorded = axes.lines
    [band] = axes.collections
    assert list(one.get_xdata()) == sizes and list(one.get_ydata()) == [1e-6, 1e-5, 1e-3]
    assert {y for _, y in band.get_paths()[0].vertices} == {1e-6, 4e-6}
    assert recorded.get_markerfacecolor() == "white" != one.get_markerfacecolor()
    assert one.get_color() != recorded.get_color()
    assert axes.get_xscale() == axes.get_yscale() == "log"


@pytest.mark.parametrize("count", [6, 7, 12])
def test_many_curves_each_have_their_own_look(axes_of, count):
    curves = {f"curve {i}": [1.0, 2.0] for i in range(count)}
    [axes] = axes_of(figures.loglog, [1, 2], curves, title="T", xlabel="n", ylabel="t")
    looks = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in axes.lines}
    assert len(looks) == count
    [axes] = axes_of(figures.lines, [1, 2], curves, title="T", xlabel="x", ylabel="y")
    assert (
        len({(line.get_color(), line.get_marker(), line.get_linestyle()) for line in axes.lines})
        == count
    )


def test_bars_are_as_long_as_their_values(axes_of):
    [axes] = axes_of(figures.bars, {"a": 1.0, "b": 2.5}, title="T", unit="s", paper=["b"])
    assert [patch.get_width() for patch in axes.patches] == [1.0, 2.5]
    assert [patch.get_fill() for patch in axes.patches] == [True, False]  # b is from paper
    assert [text.get_text().strip() for text in axes.texts] == ["1.00 s", "2.50 s"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]


def test_log_bars_are_dots_and_claims_are_shaded_where_they_say(axes_of):
    claims = {"2 to 5 min": (120, 300), "more": (3600, float("inf"))}
    [axes] = axes_of(
        figures.bars, {"a": 5.0, "b": 5000.0}, title="T", unit="s", log=True, claims=claims
    )
    dots = [line.get_xdata()[0] for line in axes.lines]
    assert dots == [5.0, 5000.0]
    spans = [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in axes.patches]
    assert spans[0] == (120, 300) and spans[1][0] == 3600 and spans[1][1] == axes.get_xlim()[1]


def test_a_roof_bends_at_the_ridge_and_has_its_points(axes_of):
    [axes] = axes_of(
        figures.roofline, {"T4": (8e12, 320e9)}, title="T", points=[(1, 2e11), (50, 7e12)],
        names={"product": (300, 8e12)}, marks={"one text": 1.0}, dashed={"T4": (9e12, 400e9)},
    )  # fmt: skip
    roof, paper, points, product, mark = axes.lines
    x, y = roof.get_data()
    assert all(abs(b - min(8e12, 320e9 * a)) < 1 for a, b in zip(x, y, strict=True))
    assert paper.get_linestyle() == "--" and paper.get_color() == roof.get_color()
    assert list(points.get_xdata()) == [1, 50] and list(product.get_xdata()) == [300]
    assert list(mark.get_xdata()) == [1.0, 1.0]
    assert [text.get_text() for text in axes.texts] == ["T4", "product", "one text"]


def test_grouped_bars_do_not_lie_on_each_other(axes_of):
    rows = {"w": {"a": 1.0, "b": 2.0}, "g": {"a": 3.0, "b": 4.0}}
    [axes] = axes_of(figures.grouped_bars, rows, title="T", unit="s")
    middles = [round(patch.get_y() + patch.get_height() / 2, 3) for patch in axes.patches]
    assert middles == [-0.2, 0.8, 0.2, 1.2]
    assert [round(text.get_position()[1], 3) for text in axes.texts] == middles
    assert [text.get_text().strip() for text in axes.texts] == [
        "1.00 s",
        "3.00 s",
        "2.00 s",
        "4.00 s",
    ]
    assert axes.get_xlim() == (0, 5.0)


def test_long_times_have_ticks_at_minutes_and_hours(axes_of):
    [axes] = axes_of(figures.bars, {"a": 1e-9, "b": 1e5}, title="T", unit="s", log=True)
    low, high = axes.get_xlim()
    wanted = [*(10.0**k for k in range(-9, 2)), 60, 600, 3600, 36_000, 360_000]
    assert list(axes.get_xticks()) == [tick for tick in wanted if low <= tick <= high]
    shown = axes.xaxis.get_major_formatter()
    assert [shown(value, 0) for value in (1e-9, 60, 3600)] == ["1 ns", "1 min", "1 h"]


@pytest.mark.parametrize(
    ("value", "unit", "long", "short"),
    [
        (1500.0, "s", "25.0 min", "25 min"), (2e9, "B", "2.00 GB", "2 GB"), (1234.0, "", "1,234", "1,234"),
        (0.5, "%", "0.5%", "0.5"), (999.0, "steps", "999 steps", "999"),
        (1000.0, "steps", "1,000 steps", "1,000"),
        (2.5e12, "FLOP/s", "2.50 TFLOP/s", "2.5 TFLOP/s"), (10.0, "s", "10.0 s", "10 s"),
    ],
)  # fmt: skip
def test_numbers_with_units(value, unit, long, short):
    from colab_helpers.figures import style

    assert style.with_unit(value, unit) == long
    assert style.with_unit(value, unit, short=True) == short


@pytest.mark.parametrize(
    ("unit", "text"),
    [("s", "time"), ("B", "memory"), ("B/s", "bandwidth"), ("FLOP/s", "speed"), ("steps", "steps")],
)
def test_an_axis_says_what_it_shows(axes_of, unit, text):
    [axes] = axes_of(figures.bars, {"a": 1.0}, title="T", unit=unit)
    assert axes.get_xlabel() == text


def test_each_contender_is_named_at_its_end_and_the_guess_is_marked(axes_of):
    [axes] = axes_of(
        figures.loglog, [1, 10, 100], {"a": [1, 2, 3]}, title="T", xlabel="n", ylabel="t",
        bands={"b": ([1, 1, 1], [2, 2, 2])}, prediction=10, shade=[5, 7],
    )  # fmt: skip
    assert [text.get_text() for text in axes.texts] == ["a", "b", "5", "you said 10"]
    assert axes.texts[0].xy == (100, 3) and axes.get_xlim()[1] > 200


def test_what_is_not_measured_here_is_hollow(axes_of):
    rows = {"mine, measured": 5.0, "T4, expected": (2.0, 4.0)}
    [axes] = axes_of(figures.dot_plot, rows, title="T", unit="s", xlabel="t")
    faces = [line.get_markerfacecolor() for line in axes.lines if line.get_markersize() == 9]
    assert faces == [figures.COLORS[0], "white"]
    assert [text.get_text() for text in axes.texts] == ["5 s", "2.00 s to 4.00 s"]


def test_sizes_have_ticks_where_something_was_measured(axes_of):
    sizes = [2**k for k in range(4, 20)]
    [axes] = axes_of(figures.loglog, sizes, {"a": sizes}, title="T", xlabel="n", ylabel="t")
    assert list(axes.get_xticks()) == sizes[::2]
    assert [label.get_text() for label in axes.get_xticklabels()][:2] == ["16", "64"]


@pytest.mark.parametrize(
    ("curves", "ideal", "width"), [(3, 0, 7.2), (2, 1, 7.2), (4, 0, 8.4), (3, 2, 8.4)]
)
def test_a_long_legend_stands_beside_the_curves(axes_of, curves, ideal, width):
    [axes] = axes_of(
        figures.lines, [1, 2], {f"c{i}": [1, 2] for i in range(curves)}, title="T", xlabel="x", ylabel="y",
        ideal={f"i{i}": [1, 2] for i in range(ideal)},
    )  # fmt: skip
    assert round(float(axes.figure.get_size_inches()[0]), 2) == width


@pytest.mark.parametrize("draw", [figures.bars, figures.grouped_bars])
def test_numbers_beside_bars_stand_inside_however_long_the_names(axes_of, draw):
    values = {"a network with a name that goes on and on and on, on a card": 2.4, "short": 1.0}
    rows = values if draw is figures.bars else {name: {"x": v} for name, v in values.items()}
    [axes] = axes_of(draw, rows, title="T", unit="times")
    axes.figure.draw_without_rendering()
    right = axes.bbox.x1
    assert all(text.get_window_extent().x1 <= right for text in axes.texts)


def test_device_rows_show_even_the_shortest_event(axes_of):
    rows = {"kernels": [(0.0, 0.01), (0.05, 1e-9)], "copies": []}
    [axes] = axes_of(figures.trace_timeline, rows, 0.1, title="T")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["kernels", "copies"]
    widths = [path.get_extents().width for path in axes.collections[0].get_paths()]
    assert min(widths) > 1e-5 and max(widths) == pytest.approx(0.01)
    assert "kernels: 2 events" in figures.trace_timeline(rows, 0.1, title="T").alt
    assert "kernels idle in" in figures.trace_timeline(rows, 0.1, title="T", idle_of="kernels").alt


@pytest.mark.filterwarnings("error")
def test_values_that_cannot_be_drawn_are_told_and_break_nothing():
    nothing = [math.nan, math.nan]
    drawn = figures.lines(
        [1, 2], {"none": nothing, "one": [1.0, math.nan]}, title="t", xlabel="x", ylabel="y"
    )
    assert "none without a value" in drawn.alt and "one from 1" in drawn.alt
    assert figures.bars({"a": 0.0, "b": 1.0}, unit="s", title="t", log=True).alt
    assert figures.bars({"a": 0.0}, unit="s", title="t").alt


def test_numbers_below_zero_odd_names_and_gaps_are_drawn(tmp_path):
    words = {"title": "From $5 to $10", "xlabel": "x", "ylabel": "y"}
    assert figures.lines([1, 2], {"_a": [-1, -2], "$b$": [1, math.nan]}, **words).png
    assert figures.lines([], {"a": {1.5: 2, 2.5: 3}}, **words).png
    assert figures.lines(np.arange(3), {"a": [1, 2, 3]}, **words).png
    assert figures.stacked_bars({"$\\bad{ $": {"part": 1.0}}, unit="s", title="$5").png
    assert figures.bars({"a": -1}, title="t", unit="s", claims={"x": (-2, 1)}).png
    for values in ({"a": -3, "b": -1}, {"a": -1, "b": 2}, {"b": math.nan, "a": 1}, {}):
        assert figures.bars(values, title="t", unit="s").png
