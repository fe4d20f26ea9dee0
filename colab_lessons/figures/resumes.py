"""Resumed runs, each over the one that was never interrupted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from colab_helpers.figures.style import COLOURS, GREY, INK, PALE, Picture, canvas, finish, look


def lives(
    whole: Mapping[int, float],
    lived: Mapping[str, Mapping[int, float]],
    *,
    title: str,
    xlabel: str = "step",
    ylabel: str = "loss",
) -> Picture:
    """Plot the lives of one run over an uninterrupted one, which is the broad grey band.

    `whole` and each of `lived` map steps to values; a cross stands where a life ends before the last step.
    `xlabel` and `ylabel` say what they are; `title` holds the finding.
    """
    with canvas() as (figure, axes):
        axes.plot(list(whole), list(whole.values()), color="#cbd5e1", lw=7, label="uninterrupted")
        for i, (name, life) in enumerate(lived.items()):
            axes.plot(
                list(life),
                list(life.values()),
                color=look(i)["color"],
                lw=1.6,
                ls=("-", "--")[i % 2],
                label=name,
            )
            if max(life) < max(whole):
                axes.plot(
                    max(life),
                    life[max(life)],
                    "X",
                    ms=13,
                    color=look(i)["color"],
                    mec="white",
                    label="killed",
                )
        _log(axes)
        axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
        axes.legend()
        parts = "; ".join(
            f"{name} from step {min(life)} to {max(life)}" for name, life in lived.items()
        )
        return finish(figure, f"Line plot, {ylabel} over {xlabel}. {title}. {parts}.")


def resumes(
    whole: Sequence[float],
    resumed: Mapping[str, Sequence[float]],
    *,
    title: str,
    since: int,
    seeds: Sequence[Sequence[float]] = (),
    xlabel: str = "step",
    ylabel: str = "loss",
) -> Picture:
    """Plot each resumed curve over the one that was never interrupted, on a log axis.

    `whole` has a value for each step from 0 on; `resumed` maps a name to its values from step `since` to
    the same end. `seeds` are such curves of runs that differ by chance alone: a grey band from the least to
    the most. Beside each name stands its average, that of all such runs being 1, or else that of the
    uninterrupted one.
    `xlabel` and `ylabel` say what the axes are; `title` holds the finding.
    """
    columns = min(4, len(resumed))
    rows = -(-len(resumed) // columns)
    reference = sum(map(sum, seeds)) / len(seeds) if seeds else sum(whole[since:])
    steps = range(len(whole))
    shown = [value for curve in (whole[since // 2 :], *resumed.values()) for value in curve]
    band = list(zip(*seeds, strict=True))
    verdicts = {}
    with canvas(9.2, 0.7 + 2.0 * rows, columns=columns, rows=rows) as (figure, grid):
        panels = list(getattr(grid, "flat", [grid]))  # a single one is no array
        for axes, (name, curve) in zip(panels, resumed.items(), strict=False):
            same = list(curve) == list(whole[since:])
            verdicts[name] = "the same to the bit" if same else f"{sum(curve) / reference:.2f} ×"
            if band:
                low, high = map(min, band), map(max, band)
                axes.fill_between(
                    steps[since:], [*low], [*high], color=PALE, lw=0, label="other seeds"
                )
            axes.plot(steps, whole, color=GREY, lw=1.2, label="uninterrupted")
            axes.plot(steps[since:], curve, color=COLOURS[1], lw=1.8, label="resumed")
            axes.axvline(since, color=INK, lw=0.8, ls=":")
            _log(axes)
            axes.set_xlim(since - (len(whole) - since) / 3, len(whole) - 1)
            axes.set_ylim(0.8 * min(shown), 1.4 * max(shown))
            axes.set_title(f"{name}: {verdicts[name]}", fontsize=9)
            axes.label_outer()
        for axes in panels[len(resumed) :]:
            axes.axis("off")
        panels[len(resumed) - 1].legend(loc="upper right", fontsize=7.5, borderaxespad=0.2)
        figure.supxlabel(xlabel, fontsize=10)
        figure.supylabel(ylabel, fontsize=10)
        figure.suptitle(title, x=0.01, ha="left", size=11, weight="bold")
        parts = "; ".join(f"{name}: {text}" for name, text in verdicts.items())
        return finish(figure, f"Small line plots, {ylabel} over {xlabel}. {title}. {parts}.")


def _log(axes: Axes) -> None:
    """A vertical axis in steps of ten, with plain numbers."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
