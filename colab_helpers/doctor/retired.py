"""What in this code is gone, or will be, and what does one write today?"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources

from colab_helpers.colab_images import is_older
from colab_helpers.doctor.cells import Cell
from colab_helpers.doctor.imports import normal
from colab_helpers.doctor.uses import Use, aliases, uses

#: A requirement as somebody writes it to pip: name, extras, comparison, version.
_REQUIREMENT = re.compile(
    r"([A-Za-z][\w.-]{0,80})(?:\[[\w,. -]{0,80}\])?(==|<=|<|~=)([\w.]{1,40})"
)
#: A wheel by its file name: of which Python it is.
_WHEEL = re.compile(r"[\w.+%-]{1,120}-cp(\d)(\d{1,2})-[\w.-]{1,80}\.whl")
_INSTALLS = re.compile(r"\b(pip3?|uv|conda|mamba)\b.{0,200}\binstall\b")


@dataclass(frozen=True)
class Retired:
    """One row of `retired.toml`; the file says what each field means."""

    id: str
    effect: str
    why: str
    instead: str
    source: str
    names: frozenset[str] = frozenset()
    below: tuple[str, ...] = ()
    methods: frozenset[str] = frozenset()
    hooks: frozenset[str] = frozenset()
    keywords: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()
    magics: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    guards: bool = True


@dataclass(frozen=True)
class Place:
    """Something retired, where it was met first: cell and line count from 1, `code` is what is there."""

    row: Retired
    cell: int
    line: int
    code: str
    cells: tuple[int, ...] = field(default=())


@functools.cache
def rows() -> Sequence[Retired]:
    """Return every row of the table, in its order.

    >>> rows()[0].effect in ("fails", "misleads", "warns")
    True
    """
    return tuple(_row(row) for row in _table()["retired"])


def find(read: Iterable[Cell]) -> list[Place]:
    """Return what is retired in the cells of a notebook, each name once, in the order of the cells.

    `read` are the cells, as `cells.cells` yields them.
    """
    read = list(read)
    known = aliases(tree for cell in read for tree in cell.trees)
    met: dict[tuple[str, str], Place] = {}
    for cell in read:
        for row, line, what in _in_cell(cell, known):
            code = cell.lines[line - 1].strip() if 0 < line <= len(cell.lines) else what
            place = met.setdefault((row.id, what), Place(row, cell.number, line, code))
            if cell.number not in (place.cell, *place.cells):
                others = (*place.cells, cell.number)
                met[row.id, what] = Place(row, place.cell, place.line, place.code, others)
    return list(met.values())


def _in_cell(cell: Cell, known: dict[str, str]) -> Iterator[tuple[Retired, int, str]]:
    for tree in cell.trees:
        for use in uses(tree, known):
            for row in _by_name().get((use.kind, _without_tail(use)), ()) or _below(use):
                if not (use.guarded and row.guards):
                    yield row, use.line, use.name
    for line, command in cell.commands:
        for row in rows():
            for pattern in row.commands:
                if match := re.search(pattern, command):
                    yield row, line, match.group()
        yield from ((row, line, what) for row, what in _pins(command))
    for name, rest in cell.magics:
        for row in rows():
            if any(re.match(pattern, f"{name} {rest}") for pattern in row.magics):
                yield row, 1, f"%{name} {rest}".strip()
    if cell.unread:
        for row in rows():
            if any(re.match(pattern, cell.unread) for pattern in row.lines):
                yield row, 1 + _index(cell.lines, cell.unread), cell.unread


def _index(lines: Sequence[str], line: str) -> int:
    return next((at for at, one in enumerate(lines) if one.strip() == line), 0)


def _without_tail(use: Use) -> str:
    """tensorflow.keras is keras for most that is asked here."""
    return use.name


@functools.cache
def _by_name() -> Mapping[tuple[str, str], list[Retired]]:
    found: dict[tuple[str, str], list[Retired]] = {}
    for row in rows():
        for kind in ("name", "method", "hook", "keyword", "variable"):
            for name in getattr(row, f"{kind}s"):
                found.setdefault((kind, name), []).append(row)
                if name.startswith("keras."):
                    found.setdefault((kind, f"tensorflow.{name}"), []).append(row)
    return found


def _below(use: Use) -> Iterator[Retired]:
    """Rows that name a module of which this is a part, or a callable by its last name alone."""
    if use.kind == "keyword":
        address, _, keyword = use.name.partition(":")
        yield from _by_name().get(("keyword", f"{address.rpartition('.')[2]}:{keyword}"), ())
    elif use.kind == "name":
        address = use.name.removeprefix("tensorflow.") if use.name.startswith("tensorflow.keras") else use.name
        for row in rows():
            if any(f"{name}.".startswith(f"{one}.") for one in row.below for name in (address, use.name)):
                yield row


def _pins(command: str) -> Iterator[tuple[Retired, str]]:
    """Versions that were never built for the Python of today's image."""
    if not _INSTALLS.search(command):
        return
    table = _table()["pins"]
    row = next(row for row in rows() if row.id == "old-pin")
    for name, comparison, version in _REQUIREMENT.findall(command):
        first = table["first"].get(normal(name))
        limit = version.replace(".*", "")
        if first and (is_older(limit, first) or (comparison == "<" and limit == first)):
            yield row, f"{name}{comparison}{version}"
    python = int(table["python"].partition(".")[2])
    for match in _WHEEL.finditer(command):
        if (int(match[1]), int(match[2])) < (3, python) and "abi3" not in match.group():
            yield row, match.group()


@functools.cache
def _table() -> Mapping:
    text = resources.files("colab_helpers.doctor").joinpath("retired.toml").read_text("utf-8")
    return tomllib.loads(text)


def _row(row: Mapping) -> Retired:
    sets = {
        key: frozenset(row[key])
        for key in ("names", "methods", "hooks", "keywords", "variables")
        if key in row
    }
    lists = {key: tuple(row[key]) for key in ("below", "magics", "commands", "lines") if key in row}
    return Retired(**{**row, **sets, **lists})
