"""A notebook's cells, split into Python, shell commands and magics.

Cells are read as code: magics and shell lines are taken out and kept, a cell that does not parse is read
statement by statement, and comments are ignored.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

#: Cell magics whose cell is still Python; below any other stands something else.
_STILL_PYTHON = ("time", "timeit", "capture", "prun", "memit", "mprun", "lprun", "debug")
_SHELL = ("bash", "sh", "shell", "script", "cmd")
_MAGIC = re.compile(r"\s{0,200}(?:[\w.,\[\] ]{1,200}= ?)?(%{1,2}|!{1,2})\s{0,9}(.{0,5000})")
#: Quotes and brackets; triple quotes first, escaped ones skipped.
_PARTS = re.compile(r"""(?<!\\)(?:'{3}|"{3}|['"#()\[\]{}])""")
#: Characters of a cell that are read: more is data.
_MAX_CHARACTERS = 200_000


@dataclass(frozen=True)
class Cell:
    """One code cell: `number` counts all cells from 1; what Python reads, what the shell, which magics.

    `trees` has the syntax trees of what parses, `unread` the first line of what does not. `commands` are
    shell lines, also those of %pip, each with its line of the cell from 1; `magics` are (name, rest).
    """

    number: int
    trees: tuple[ast.Module, ...]
    unread: str
    commands: tuple[tuple[int, str], ...]
    magics: tuple[tuple[str, str], ...]
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """The whole cell, as it was written."""
        return "\n".join(self.lines)


def cells(notebook: Mapping[str, Any]) -> Iterator[Cell]:
    """Yield the code cells of a notebook, given as parsed JSON; what is no cell is left out.

    >>> [cell.commands for cell in cells({"cells": [{"cell_type": "code", "source": "!ls"}]})]
    [((1, 'ls'),)]
    """
    listed = notebook.get("cells")
    for number, cell in enumerate(listed if isinstance(listed, list) else [], start=1):
        source = _source(cell)
        if source.strip():
            yield _read(number, source[:_MAX_CHARACTERS])


def inside(data: Any, *keys: str) -> Mapping[str, Any]:
    """Return the mapping of `data` below these `keys`; an empty one where something else stands there."""
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data if isinstance(data, Mapping) else {}


def _source(cell: Any) -> str:
    """The source of a code cell; "" for anything else that stands in its place."""
    if not isinstance(cell, Mapping) or cell.get("cell_type") != "code":
        return ""
    source = cell.get("source")
    lines = source if isinstance(source, list) else [source]
    return "".join(line for line in lines if isinstance(line, str))


def _read(number: int, source: str) -> Cell:
    lines = source.split("\n")
    python: list[str] = []
    commands: list[tuple[int, str]] = []
    magics: list[tuple[str, str]] = []
    first = next((line for line in lines if line.strip()), "")
    if first.startswith("%%"):
        name, _, rest = first[2:].partition(" ")
        magics.append((name, rest))
        if name in _SHELL:
            below = lines.index(first) + 1
            commands = [(at, _command(line)) for at, line in enumerate(lines[below:], below + 1)]
        if name not in _STILL_PYTHON:
            return Cell(number, (), "", tuple(commands), tuple(magics), tuple(lines))
    goes_on = _goes_on(lines)
    for at, line in _logical(lines):
        match = None if at in goes_on else _MAGIC.match(line)
        if match is None or (match[1] == "%%" and line != first):
            python.append("" if match else line)
            continue
        kept, text = _keep_indent(line), match[2].strip()
        name, _, rest = text.partition(" ")
        if match[1].startswith("!") or name in ("pip", "pip3", "conda", "mamba", "uv"):
            commands.append((at, _command(text)))
        elif not line.startswith("%%"):
            magics.append((name, rest.strip()))
        python.append(kept + "\n" * line.count("\n"))
    trees, unread = _parse("\n".join(python))
    return Cell(number, trees, unread, tuple(commands), tuple(magics), tuple(lines))


def _command(line: str) -> str:
    """A shell line without its comment."""
    return re.sub(r"(^|\s)#.*", "", line)


def _goes_on(lines: list[str]) -> set[int]:
    """Numbers, from 1, of the lines that continue brackets, a text or a backslash: they can't be magics."""
    inside, depth, quote, continued = set(), 0, "", False
    for at, line in enumerate(lines, start=1):
        if depth or quote or continued:
            inside.add(at)
        elif _MAGIC.match(line):
            continue
        continued = line.endswith("\\")
        for part in _PARTS.findall(line):
            if quote:
                quote = "" if part == quote else quote
            elif part == "#":
                break
            elif part[0] in "'\"":
                quote = part
            else:
                depth = max(0, depth + (1 if part in "([{" else -1))
        quote = quote if len(quote) == 3 else ""  # a short one ends with its line
    return set() if depth or quote else inside  # unbalanced: treat no line as a continuation


def _logical(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; a shell line that ends in a backslash goes on in the next one."""
    at = 0
    while at < len(lines):
        line, start = lines[at], at + 1
        if line.lstrip()[:1] in ("!", "%"):
            while line.endswith("\\") and at + 1 < len(lines):
                at += 1
                line = line[:-1] + "\n" + lines[at]
        yield start, line
        at += 1


def _keep_indent(line: str) -> str:
    """A statement that does nothing, where a magic stood below an `if`."""
    return line[: len(line) - len(line.lstrip())] + "pass"


def _parse(source: str) -> tuple[tuple[ast.Module, ...], str]:
    """The syntax trees of a cell, and the first line that is no Python."""
    tree = _tree(source)
    if tree is not None:
        return (tree,), ""
    trees, unread = [], ""
    for start, chunk in _statements(source):
        tree = _tree(chunk)
        if tree is None:
            unread = unread or chunk.strip().partition("\n")[0]
        else:
            trees.append(ast.increment_lineno(tree, start))
    return tuple(trees), unread


def _statements(source: str) -> Iterator[tuple[int, str]]:
    """Chunks that begin in the first column, with the number of lines above each."""
    chunk: list[str] = []
    start = 0
    for at, line in enumerate(source.split("\n")):
        begins = line[:1] not in ("", " ", "\t", "#", ")", "]", "}")
        if begins and chunk and not re.match(r"(else|elif|except|finally)\b", line):
            yield start, "\n".join(chunk)
            chunk, start = [], at
        chunk.append(line)
    yield start, "\n".join(chunk)


def _tree(source: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():  # of escapes in somebody else's strings
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
