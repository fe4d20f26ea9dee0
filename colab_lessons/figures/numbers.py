"""Numbers bit by bit, and how many of them are spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.patches import Rectangle

from colab_helpers.figures.style import COLOURS, INK, Picture, canvas, finish, look

_PARTS = (("sign", INK), ("exponent: range", COLOURS[1]), ("mantissa: digits", COLOURS[0]))


def bit_layout(
    rows: Mapping[str, tuple[str, str, str]], *, title: str, notes: Mapping[str, str] | None = None
) -> Picture:
    """Draw numbers bit by bit: name -> (sign, exponent, mantissa) as strings of 0 and 1.

    `rows` has one number a row, `notes` (same keys) what stands beside its name; `title` holds the
    finding.
    """
    with canvas(8.4, 0.9 + 0.42 * len(rows)) as (figure, axes):
        for y, parts in enumerate(rows.values()):
            x = 0
            for (label, colour), bits in zip(_PARTS, parts, strict=True):
                for i, bit in enumerate(bits):
                    name = label if y == 0 and i == 0 else None
                    box: dict = {
                        "facecolor": colour,
                        "edgecolor": "white",
                        "lw": 1.2,
                        "label": name,
                    }
                    axes.add_patch(Rectangle((x, y - 0.36), 1, 0.72, **box))
                    axes.text(x + 0.5, y, bit, ha="center", va="center", fontsize=7, color="white")
                    x += 1
        names = [f"{name}  {(notes or {}).get(name, '')}".rstrip() for name in rows]
        axes.set_yticks(range(len(rows)), names)
        axes.tick_params(left=False, bottom=False, labelbottom=False)
        axes.set(xlim=(0, 32), ylim=(len(rows) - 0.5, -0.6))
        axes.grid(visible=False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        figure.suptitle(title, x=0.01, ha="left", size=11, weight="bold")
        axes.legend(loc="lower right", ncols=1)
        said = "; ".join(f"{name} {' '.join(parts)}" for name, parts in rows.items())
        return finish(figure, f"Bits of numbers: sign, exponent, mantissa. {title}. {said}.")


def histogram(
    groups: Mapping[str, Sequence[float]],
    *,
    title: str,
    xlabel: str,
    lost_below: float,
    lost: str,
    infinite_above: float | None = None,
) -> Picture:
    """Plot how magnitudes (above 0) are spread over powers of two; shade what a format loses.

    `groups` maps a name to magnitudes; what is under `lost_below` is shaded and named `lost`, and so is what
    lies above `infinite_above`, as infinite; `xlabel` says what is counted; `title` holds the finding.
    """
    powers = {name: np.log2(np.asarray(values)) for name, values in groups.items()}
    low = min(float(p.min()) for p in powers.values())
    high = max(float(p.max()) for p in powers.values())
    edges = np.arange(np.floor(low), np.ceil(high) + 1)
    with canvas() as (figure, axes):
        for i, (name, values) in enumerate(powers.items()):
            axes.hist(
                values, bins=edges, histtype="step", lw=1.8, color=look(i)["color"], label=name,
                ls=("-", "--", ":")[i % 3],
            )  # fmt: skip
        limit = float(np.log2(lost_below))
        axes.axvspan(min(low, limit) - 1, limit, color=COLOURS[3], alpha=0.2, lw=0, label=lost)
        if infinite_above:
            high = max(high, float(np.log2(infinite_above)) + 3)
            beyond = {"color": COLOURS[4], "alpha": 0.2, "lw": 0, "label": "infinite"}
            axes.axvspan(float(np.log2(infinite_above)), high + 1, **beyond)
        axes.set_xlim(min(low, limit) - 1, high + 1)
        ticks = [int(t) for t in axes.get_xticks() if float(t).is_integer()]
        axes.set_xticks(ticks, [f"2$^{{{t}}}$" for t in ticks])
        axes.set_xlim(min(low, limit) - 1, high + 1)
        axes.set(title=title, xlabel=xlabel, ylabel="how many")
        # Left of what is infinite, so that it lies over no colour.
        right = np.log2(infinite_above) if infinite_above else high + 1
        axes.legend(
            loc="upper right", bbox_to_anchor=(right, 1), bbox_transform=axes.get_xaxis_transform()
        )
        shares = "; ".join(
            f"{name}: {(values < limit).mean():.0%} below the limit"
            for name, values in powers.items()
        )
        return finish(figure, f"Histogram. {title}. {shares}.")
