"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; `head` and each of `rows` are as many cells.

    >>> print(table(["", "A100"], [["bytes", "40"]]))
    | | A100 |
    |---|---|
    | bytes | 40 |
    """
    return "\n".join([_row(head), "|---" * len(head) + "|", *map(_row, rows)])


def _row(cells: Sequence[str]) -> str:
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"
