"""Ranges: one line a name, from at least to at most."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from matplotlib.ticker import FuncFormatter

from colab_helpers.figures.style import COLOURS, GREY, INK, Picture, canvas, finish, with_unit


def ranges(
    bounds: Mapping[str, tuple[float, float]],
    *,
    title: str,
    unit: str,
    xlabel: str,
    out: Collection[str] = (),
    reason: str = "does not fit",
    limit: tuple[str, float] | None = None,
) -> Picture:
    """Plot each range as a bar on a log axis, with both of its ends as numbers.

    Names in `out` are drawn hollow and grey, with the `reason` beside them. `limit` is a text and a value
    that goes through all bars, such as a deadline. `bounds` maps a name to (low, high) in `unit`;
    `xlabel` says what it is; `title` holds the finding.
    """
    with canvas(height=1.15 + 0.42 * len(bounds)) as (figure, axes):
        for i, (name, (low, high)) in enumerate(bounds.items()):
            lost = name in out
            colour = {"facecolor": "white", "edgecolor": GREY, "hatch": "///"} if lost else {}
            axes.barh(i, high - low, left=low, height=0.5, **(colour or {"color": COLOURS[0]}))
            text = f"{with_unit(low, unit)} to {with_unit(high, unit)}"
            axes.annotate(
                f"{text}{', ' + reason if lost else ''}", (high, i), xytext=(6, 0),
                textcoords="offset points", va="center", fontsize=9, color=GREY if lost else INK,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
            )  # fmt: skip
        if limit is not None:
            axes.axvline(limit[1], color=INK, lw=1.1, ls="--", zorder=0.9)
            axes.annotate(
                limit[0], (limit[1], 1), xycoords=("data", "axes fraction"), xytext=(0, 2),
                textcoords="offset points", ha="center", fontsize=8.5, color=INK,
            )  # fmt: skip
        ends = [end for pair in bounds.values() for end in pair] + ([limit[1]] if limit else [])
        axes.set_xscale("log")
        axes.set_xlim(min(ends) / 1.5, max(ends) * 12)
        axes.set_yticks(range(len(bounds)), list(bounds))
        axes.set(xlabel=xlabel, ylim=(len(bounds) - 0.5, -0.5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: with_unit(v, unit, short=True)))
        axes.grid(axis="y", visible=False)
        figure.suptitle(title, x=0.01, ha="left", size=11, weight="bold")
        parts = "; ".join(
            f"{name} {with_unit(low, unit)} to {with_unit(high, unit)}{', ' + reason if name in out else ''}"
            for name, (low, high) in bounds.items()
        )
        return finish(figure, f"Ranges: {xlabel}. {title}. {parts}.")
