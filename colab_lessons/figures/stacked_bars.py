"""Bars that are made of parts."""

from __future__ import annotations

from collections.abc import Mapping

from colab_helpers.figures.style import (
    INK,
    Picture,
    axis_unit,
    canvas,
    finish,
    line_style,
    with_unit,
)

_HATCHES = ("", "//", "..", "xx", "\\\\")


def stacked_bars(
    values: Mapping[str, Mapping[str, float]],
    *,
    unit: str,
    title: str,
    marks: Mapping[str, float] | None = None,
) -> Picture:
    """Plot one bar for each name, its parts in a row, and the sum behind it.

    `values` maps a name to parts and numbers in `unit`; every name has the same parts. `marks` are lines
    across all bars, such as a card's memory. `title` holds the finding.
    """
    names, kinds = list(values), list(next(iter(values.values())))
    sums = {name: sum(row.values()) for name, row in values.items()}
    with canvas(8.4, 0.42 * len(names) + 1.5, title=title) as (figure, axes):
        left = [0.0] * len(names)
        for i, kind in enumerate(kinds):
            widths = [values[name][kind] for name in names]
            axes.barh(
                range(len(names)), widths, left=left, height=0.62, label=kind, alpha=0.9,
                color=line_style(i)["color"], hatch=_HATCHES[i % len(_HATCHES)], edgecolor="white",
            )  # fmt: skip
            left = [start + width for start, width in zip(left, widths, strict=True)]
        top = max([*sums.values(), *(marks or {}).values()])
        for y, end in enumerate(sums.values()):
            in_the_way = [at for at in (marks or {}).values() if end <= at < end + 0.16 * top]
            axes.text(
                max([end, *in_the_way]), y, "  " + with_unit(end, unit), va="center", fontsize=9
            )
        for name, at in (marks or {}).items():
            axes.axvline(at, color=INK, lw=1, ls="--")
            axes.text(at, -0.62, f"{name} {with_unit(at, unit)} ", ha="right", fontsize=9)
        axes.set_yticks(range(len(names)), names)
        axes.set(xlabel=axis_unit(unit), xlim=(0, 1.16 * top), ylim=(len(names) - 0.45, -0.8))
        axes.xaxis.set_major_formatter(lambda v, _: with_unit(v, unit, short=True))
        axes.grid(axis="y", visible=False)
        axes.legend(ncols=len(kinds), loc="upper center", bbox_to_anchor=(0.4, -0.22))
        readings = "; ".join(
            f"{name} {with_unit(sums[name], unit)}: "
            + ", ".join(f"{kind} {with_unit(v, unit)}" for kind, v in row.items())
            for name, row in values.items()
        )
        lines = "".join(f" {name}: {with_unit(at, unit)}." for name, at in (marks or {}).items())
        return finish(figure, f"Bars made of parts. {title}. {readings}.{lines}")
