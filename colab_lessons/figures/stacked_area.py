"""Memory over time, one kind on top of the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from colab_helpers import _units
from colab_helpers.figures.style import INK, Picture, canvas, finish, line_style, with_unit

_HATCHES = ("", "//", "\\\\", "..", "xx")


def stacked_area(
    kinds: Mapping[str, Sequence[int]], marks: Sequence[tuple[int, str]], *, title: str
) -> Picture:
    """Plot the live bytes of each kind after each allocation or release, stacked.

    `kinds` maps a name to bytes, all of one length; `marks` (position, name) begin phases; `title` holds
    the finding.
    """
    whole = np.sum([*kinds.values()], axis=0)
    with canvas(8.4, 3.9) as (figure, axes):
        bottom = np.zeros(len(whole))
        for i, (name, live) in enumerate(kinds.items()):
            top = bottom + np.asarray(live)
            axes.fill_between(
                range(len(whole)), bottom, top, step="post", label=name, lw=0, alpha=0.85,
                color=line_style(i)["color"], hatch=_HATCHES[i % len(_HATCHES)], edgecolor="white",
            )  # fmt: skip
            bottom = top
        high = whole.max() * 1.25
        for i, (position, name) in enumerate(marks):  # in three lines, for phases can be short
            axes.axvline(position, color=INK, lw=0.8, ls=":")
            axes.text(position, high * (1 - 0.06 * (i % 3)), f" {name}", va="top", fontsize=9)
        axes.set(title=title, xlabel="allocations and releases, in order", ylim=(0, high))
        axes.set_xlim(0, len(whole))
        axes.set_ylabel("bytes alive")
        axes.yaxis.set_major_formatter(lambda v, _: with_unit(v, "B", short=True))
        handles, names = axes.get_legend_handles_labels()
        axes.legend(handles[::-1], names[::-1], loc="center left", bbox_to_anchor=(1.0, 0.5))
        at = int(whole.argmax())
        parts = ", ".join(
            f"{_units.format_si(live[at], 'B')} {name}" for name, live in kinds.items()
        )
        said = f"Peak {_units.format_si(whole.max(), 'B')}: {parts}"
        phases = ", ".join(name for _, name in marks)
        return finish(figure, f"Memory over time, stacked. {title}. Phases: {phases}. {said}.")
