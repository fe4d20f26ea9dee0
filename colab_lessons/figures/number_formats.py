"""The bits of floating-point numbers (sign, exponent, mantissa), and how the numbers are spaced."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.patches import Rectangle

from colab_helpers.figures.style import COLORS, INK, Picture, canvas, finish

_PARTS = (("sign", INK), ("exponent: range", COLORS[1]), ("mantissa: digits", COLORS[0]))


def bit_layout(
    rows: Mapping[str, tuple[str, str, str]], *, title: str, notes: Mapping[str, str] | None = None
) -> Picture:
    """Draw numbers bit by bit: name -> (sign, exponent, mantissa) as strings of 0 and 1.

    `rows` has one number a row, `notes` (same keys) what stands beside its name; `title` holds the
    finding.
    """
    with canvas(8.4, 0.9 + 0.42 * len(rows), title=title) as (figure, axes):
        for y, parts in enumerate(rows.values()):
            x = 0
            for (label, color), bits in zip(_PARTS, parts, strict=True):
                for i, bit in enumerate(bits):
                    name = label if y == 0 and i == 0 else None
                    box: dict = {"facecolor": color, "edgecolor": "white", "lw": 1.2, "label": name}
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
        axes.legend(loc="lower right", ncols=1)
        said = "; ".join(f"{name} {' '.join(parts)}" for name, parts in rows.items())
        return finish(figure, f"Bits of numbers: sign, exponent, mantissa. {title}. {said}.")
