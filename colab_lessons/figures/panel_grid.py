"""The same question asked of several things: one panel for each, with a common vertical axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from colab_helpers.figures.style import INK, Picture, canvas, finish, line_style

Runs = Sequence[Sequence[float]]


def panels(
    values: Mapping[str, Mapping[str, Runs]],
    x: Sequence[str],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    top: float,
    line: tuple[float, str] | None = None,
) -> Picture:
    """Plot for each panel a line for each kind over `x`: the median of its runs, and each run as a dot.

    `values` maps a panel to kinds, and a kind to one list of runs for each of `x`. What lies above `top`,
    or is no number, is drawn at the top. `line` is a level across all panels, and its name. `title` holds
    the finding.
    """
    with canvas(8.4, 3.6, columns=len(values), title=title) as (figure, axes):
        axes = np.atleast_1d(axes)
        for axis, (name, kinds) in zip(axes, values.items(), strict=True):
            for i, (kind, runs) in enumerate(kinds.items()):
                shown = [sorted(min(v, top) if v == v else top for v in one) for one in runs]
                style = line_style(i)
                axis.plot([one[len(one) // 2] for one in shown], **style, label=kind)
                for j, one in enumerate(shown):
                    axis.plot([j] * len(one), one, style["marker"], ms=3, color=style["color"])
            if line:
                axis.axhline(line[0], color=INK, lw=0.9, ls=":")
                axis.text(0, line[0], f" {line[1]}", va="bottom", fontsize=8)
            axis.set_xticks(range(len(x)), x)
            axis.set(title=name, ylim=(0, top * 1.04), xlabel=xlabel)
        for axis in axes[1:]:
            axis.set_yticklabels([])
        axes[0].set_ylabel(ylabel)
        axes[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        said = "; ".join(
            f"{name}, {kind}: "
            + ", ".join(
                f"{at} {sorted(one)[len(one) // 2]:.2g}" for at, one in zip(x, runs, strict=True)
            )
            for name, kinds in values.items()
            for kind, runs in kinds.items()
        )
        return finish(figure, f"{len(values)} panels, {ylabel} over {xlabel}. {title}. {said}.")
