"""Hours against dollars: what a job takes on each machine."""

from __future__ import annotations

from collections.abc import Mapping

from colab_helpers.figures.style import INK, Picture, canvas, finish, line_style

Range = tuple[float, float]


def prices(
    jobs: Mapping[str, tuple[Range, Range]], *, title: str, deadline: tuple[str, float], best: str
) -> Picture:
    """Plot each machine as a line from the fast and cheap end of its estimate to the slow and expensive one.

    `jobs` maps a machine to ((least, most) hours, (least, most) dollars); one that costs nothing lies on the
    axis. `deadline` is a text and hours; `best` is drawn thick. `title` holds the finding.
    """
    with canvas(8.4, 4.2) as (figure, axes):
        for i, (name, (hours, dollars)) in enumerate(jobs.items()):
            style = line_style(i) | {"lw": 5 if name == best else 2}
            axes.plot(hours, dollars, **style, clip_on=False)
            axes.annotate(
                name, (hours[1], dollars[1]), xytext=(7, 4), textcoords="offset points", fontsize=9,
                color=style["color"], weight="bold" if name == best else "normal", va="bottom",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
            )  # fmt: skip
        axes.axvline(deadline[1], color=INK, lw=1.1, ls="--", zorder=0.9)
        top = 1.12 * max(dollars[1] for _, dollars in jobs.values())
        axes.text(deadline[1], top, f" {deadline[0]}", va="top", fontsize=9)
        axes.set(xlabel="hours", ylabel="dollars", title=title, ylim=(0, top))
        axes.set_xlim(0, 1.3 * max(hours[1] for hours, _ in jobs.values()))
        parts = "; ".join(
            f"{name} {hours[0]:.1f} to {hours[1]:.1f} hours, {dollars[0]:.1f} to {dollars[1]:.1f} dollars"
            for name, (hours, dollars) in jobs.items()
        )
        return finish(figure, f"Dollars over hours. {title}. {deadline[0]}. {parts}.")
