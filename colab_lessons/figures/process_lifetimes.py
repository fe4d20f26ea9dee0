"""How long processes lived."""

from __future__ import annotations

from collections.abc import Mapping

from colab_helpers.figures.style import INK, Picture, canvas, finish, line_style


def lifetimes(
    lived: Mapping[str, tuple[float, float]], *, end: float, mark: str, title: str
) -> Picture:
    """Plot for each process a bar from its first to its last sign of life, in seconds.

    At 0 there's a line called `mark`. A process seen later than 0.75 × `end` counts as alive; the
    others get a cross. `title` holds the finding.
    """
    with canvas(8.4, 0.42 * len(lived) + 1.3, title=title) as (figure, axes):
        said = []
        for y, (name, (start, last)) in enumerate(lived.items()):
            alive = last > 0.75 * end
            style = line_style(0 if alive else 1)
            axes.barh(y, last - start, left=start, height=0.5, color=style["color"])
            sign, text = (">", "goes on") if alive else ("x", "ends")
            axes.plot([last], [y], sign, color=INK, ms=7)
            axes.text(last + 0.06, y, text, va="center", fontsize=9)
            said.append(f"{name} {text}")
        axes.axvline(0, color=INK, lw=1, ls="--")
        axes.text(0.03, -0.62, mark, fontsize=9)
        axes.set_yticks(range(len(lived)), list(lived))
        earliest = min(start for start, _ in lived.values())
        axes.set(xlabel="seconds", xlim=(1.2 * earliest, 1.35 * end), ylim=(len(lived) - 0.4, -0.9))
        axes.grid(axis="y", visible=False)
        return finish(figure, f"Lifetimes around the moment: {mark}. {title}. {'; '.join(said)}.")
