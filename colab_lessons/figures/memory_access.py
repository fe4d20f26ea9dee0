"""What the threads of a kernel touched: who wrote each cell, and what one warp read together."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from colab_helpers.figures.style import COLORS, INK, Picture, canvas, finish
from colab_lessons.cuda_simulator import SECTOR_BYTES, WatchedArray, group_by_warp

_WRONG = "#c0392b"
_SHOWN = 32  # rows and columns of a large matrix


def writers(watched: WatchedArray, *, title: str) -> Picture:
    """Draw an array of one or two dimensions: each cell in the color of the block that wrote it.

    In a cell stands the thread within its block. Cells that nobody wrote are empty, those that several
    threads wrote say how many, and writes outside the array of `watched` are red, beyond its edge.
    `title` holds the finding.
    """
    rows, columns = (1, *watched.shape)[-2:]
    written: dict[tuple[int, ...], list] = {}
    for access in watched.writes:
        written.setdefault((0, *access.cell)[-2:], []).append(access)
    lost = {(0, *access.cell)[-2:]: access for access in watched.written_outside}
    blocks = sorted({access.block for access in [*watched.writes, *watched.written_outside]})
    height = max([rows, *(row + 1 for row, _ in lost)])
    width = max([columns, *(column + 1 for _, column in lost)])
    with canvas(8.4, 0.8 + 0.34 * height, title=title) as (figure, axes):
        for row in range(rows):
            for column in range(columns):
                made = written.get((row, column), [])
                color = COLORS[blocks.index(made[0].block) % len(COLORS)] if made else "none"
                text = "" if not made else _name(made[0]) if len(made) == 1 else f"{len(made)} ×"
                _cell(axes, row, column, text, color)
        for (row, column), access in lost.items():
            _cell(axes, row, column, _name(access), "none", edge=_WRONG)
        axes.set(xlim=(-0.1, width + 0.1), ylim=(height + 0.1, -0.1), aspect="equal", anchor="W")
        axes.axis("off")
        once = sum(len(made) == 1 for made in written.values())
        return finish(
            figure,
            f"{rows} × {columns} cells. {title}. {once} of {watched.size} written by one thread, by "
            f"{len(blocks)} blocks; {len(lost)} writes outside.",
        )


def _name(access) -> str:
    """The thread within its block: one number, or two where a block is flat."""
    x, y = access.thread
    return f"{x}" if len(access.cell) == 1 else f"{x},{y}"


def _cell(axes: Axes, row: int, column: int, text: str, color: str, edge: str = INK) -> None:
    box: dict = {"facecolor": color, "edgecolor": edge, "lw": 1.6 if edge != INK else 0.8}
    axes.add_patch(Rectangle((column + 0.04, row + 0.04), 0.92, 0.92, **box))
    ink = edge if color == "none" else "white"
    axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=8, color=ink)


def sectors(panels: Mapping[str, WatchedArray], *, title: str, book: str = "reads") -> Picture:
    """Draw memory as matrices: what the first warp touches with its first instruction, and what comes along.

    `panels` maps a name to an array of two dimensions. Numbers that were asked for are dark, the rest of
    their sectors of 32 bytes is light. Of a large matrix the
    upper left corner is shown. `book` is "reads" or "writes"; `title` holds the finding.
    """
    said = []
    height = 3.0 if len(panels) < 4 else 2.1
    with canvas(8.4, height, columns=len(panels), title=title) as (figure, axes):
        for axis, (name, watched) in zip(np.atleast_1d(axes), panels.items(), strict=True):
            group = next(iter(group_by_warp(getattr(watched, book))), [])
            touched = {watched.sector(access.cell) for access in group}
            shade = np.array(
                [watched.sector(cell) in touched for cell in np.ndindex(*watched.shape)],
                dtype=float,
            ).reshape(watched.shape)
            for access in group:
                shade[access.cell] = 2
            shade = shade[:_SHOWN, :_SHOWN]
            axis.imshow(_colored(shade), interpolation="nearest")
            axis.set_title(name, fontsize=10, loc="left")
            plural = "s" if len(touched) != 1 else ""
            label = f"{len(touched)} sector{plural}" if group else "nothing yet"
            axis.set_xlabel(label, loc="left")
            axis.set(xticks=[], yticks=[], anchor="W")
            for edge in range(shade.shape[0]):
                axis.axhline(edge - 0.5, color="white", lw=0.4)
            for edge in range(0, shade.shape[1], SECTOR_BYTES // watched.array.itemsize):
                axis.axvline(edge - 0.5, color="white", lw=1)  # where a sector begins
            axis.grid(visible=False)
            numbers = len({access.cell for access in group})
            said.append(f"{name}: {numbers} numbers in {len(touched)} sectors")
        return finish(figure, f"Memory of {len(panels)} arrays. {title}. {'; '.join(said)}.")


def _colored(shade: np.ndarray) -> np.ndarray:
    """0 nothing, 1 came along, 2 asked for -> RGB."""
    table = np.array([[0.93, 0.93, 0.94], [0.97, 0.80, 0.62], [0.84, 0.37, 0.0]])
    return table[shade.astype(int)]
