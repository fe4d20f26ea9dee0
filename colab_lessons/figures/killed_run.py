"""The lives of a killed run, over one that was never interrupted."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from colab_helpers.figures.style import Picture, canvas, finish, line_style


def killed_run(
    whole: Mapping[int, float],
    lived: Mapping[str, Mapping[int, float]],
    *,
    title: str,
    xlabel: str = "step",
    ylabel: str = "loss",
) -> Picture:
    """Plot the lives of one run over an uninterrupted one, which is the broad gray band.

    `whole` and each of `lived` map steps to values; a cross stands where a life ends before the last step.
    `xlabel` and `ylabel` say what they are; `title` holds the finding.
    """
    with canvas() as (figure, axes):
        axes.plot(list(whole), list(whole.values()), color="#cbd5e1", lw=7, label="uninterrupted")
        for i, (name, life) in enumerate(lived.items()):
            axes.plot(
                list(life),
                list(life.values()),
                color=line_style(i)["color"],
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
                    color=line_style(i)["color"],
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


def _log(axes: Axes) -> None:
    """A vertical axis in steps of ten, with plain numbers."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
