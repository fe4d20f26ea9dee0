"""The room that a piece of a slide takes, in pixels of a page of 1280 × 720."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer, TextLexer

HEIGHT = 590  # pixels below a slide's title
_TEXT = (74, 40)  # letters a line, pixels a line
#: Sizes of code: up to so high a cell has this one; letters a line, pixels a line.
_CODE = ((340, 64, 38), (440, 77, 31), (HEIGHT - 60, 87, 28))


@dataclass(frozen=True)
class Block:
    """A piece of a slide and the pixels that it takes, and what belongs `below` it.

    `last` ends its slide, `alone` has one to itself.
    """

    html: str
    height: int
    below: int = 0
    kind: str = ""
    heading: str = ""
    last: bool = False
    alone: bool = False


def height_of(piece: str) -> int:
    """Return the pixels that a paragraph, list, table or quoted block takes, given as Markdown."""
    letters, pixels = (64, 36) if piece.startswith("|") else _TEXT  # columns wrap by themselves
    if piece.startswith("```"):
        return 32 * (len(piece.splitlines()) - 2) + 40
    rows = piece.splitlines() if re.match(r"([-*|]|\d+\.)", piece) else [" ".join(piece.split())]
    extra = 14 * len(rows) if piece.startswith("|") else 0
    return pixels * sum(math.ceil(len(row) / letters) for row in rows) + 24 + extra


def code(source: str, size: int | None = None) -> str:
    """Return Python as HTML, coloured, with its long lines wrapped under themselves."""
    return f'<pre class="code size-{_size(source) if size is None else size}">{_coloured(source)}</pre>'


def code_height(source: str, size: int | None = None) -> int:
    """Return the pixels that code takes, in its own size or in another of the sizes for code."""
    _, letters, pixels = _CODE[_size(source) if size is None else size]
    rows = (
        math.ceil(len(line.strip()) / max(20, letters - 2 - _indent(line)))
        for line in source.splitlines()
    )
    return pixels * sum(max(1, row) for row in rows) + 44


def fitting(source: str, below: int = 0) -> Iterator[str]:
    """Code in pieces, the last with room `below`; cut at empty lines, or else in the middle."""
    size = len(_CODE) - 1
    if code_height(source, size) <= (HEIGHT - below if 0 < below <= HEIGHT // 2 else HEIGHT - 60):
        yield source
        return
    lines = source.splitlines()
    if len(lines) < 2:
        yield source
        return
    empty = [i for i, line in enumerate(lines) if not line.strip()]
    flush = [i for i, line in enumerate(lines) if i and line[:1].strip() and line[0] not in ")]}"]
    middle = min(empty or flush or [len(lines) // 2], key=lambda i: abs(i - len(lines) / 2))
    yield from fitting("\n".join(lines[:middle]).strip("\n"))
    yield from fitting("\n".join(lines[middle:]).strip("\n"), below)


def _size(source: str) -> int:
    """The largest of the sizes in which code is not too high; the smallest where it always is."""
    fitting = [i for i, (most, *_) in enumerate(_CODE) if code_height(source, i) <= most]
    return fitting[0] if fitting else len(_CODE) - 1


def size_beside(source: str, below: int) -> int:
    """Return the largest size in which code leaves `below` pixels; its own where none does."""
    sizes = range(_size(source), len(_CODE))
    return next((i for i in sizes if code_height(source, i) + below <= HEIGHT), sizes[0])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _coloured(source: str) -> str:
    lexer = TextLexer() if source.startswith("%") else PythonLexer()
    coloured = highlight(source, lexer, HtmlFormatter(nowrap=True)).rstrip("\n").split("\n")
    indents = [_indent(line) + 2 for line in source.rstrip("\n").split("\n")]
    style = "padding-left:{0}ch;text-indent:-{0}ch"  # what is wrapped stands under its own line
    return "".join(
        f'<span class="line" style="{style.format(indent)}">{line or " "}</span>'
        for line, indent in zip(coloured, indents, strict=True)
    )
