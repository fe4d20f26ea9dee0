"""Removed and deprecated APIs in a notebook's code, and what to write today."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from colab_doctor.notebook.cells import Cell
from colab_doctor.notebook.name_resolution import Use, aliases, assignments, own_names, uses
from colab_helpers._data_files import load_toml
from colab_helpers._import_names import canonicalize_name
from colab_helpers.runtime_images import is_older

#: Fields of a row that name something, and those that have patterns.
BY_NAME = ("names", "below", "calls", "methods", "hooks", "keywords", "keywords_below", "variables")
BY_PATTERN = ("magics", "commands", "lines", "strings", "calls_as")
#: A requirement as somebody writes it to pip: name, extras, comparison, version.
_REQUIREMENT = re.compile(
    r"([A-Za-z][\w.-]{0,80})(?:\[[\w,. -]{0,80}\])?((?:,?\s?(?:[=~!<>]=|[<>])\s?[\w.*]{1,40}){1,6})"
)
_LIMIT = re.compile(r"(==|<=|<|~=)\s?(\d\w{0,20}(?:\.\w{1,20}){0,4})(\.\*)?")
#: A release of a package by its git tag.
_TAG = re.compile(r"/([\w-]{1,80})(?:\.git)?@v?(\d[\w.]{1,40})")
#: A wheel by its file name: of which Python it is.
_WHEEL = re.compile(r"[\w.+%-]{1,120}-cp(\d)(\d{1,2})-[\w.-]{1,80}\.whl")
_INSTALLS = re.compile(r"\b(pip3?|uv|conda|mamba)\b.{0,200}\binstall\b")


@dataclass(frozen=True)
class Removed:
    """One row of `removed.toml`; the file says what each field means."""

    id: str
    effect: str
    why: str
    instead: str
    source: str
    names: tuple[str, ...] = ()
    exactly: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    keywords_below: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    magics: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    strings: tuple[str, ...] = ()
    calls_as: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    before: str = ""
    unless: tuple[str, ...] = ()
    today: Mapping[str, str] = field(default_factory=dict, compare=False)
    stub: bool = False
    guards: bool = True


@dataclass(frozen=True)
class Occurrence:
    """Something retired, where it was met first: cell and line count from 1, `code` is what is there.

    `names` are what it is, all on that line; `cells` has further cells; `note` says more of a version.
    """

    row: Removed
    cell: int
    line: int
    code: str
    names: tuple[str, ...]
    cells: tuple[int, ...] = ()
    note: str = ""

    @property
    def instead(self) -> str:
        """What to write today: for these names, where the table has that; else for all of the row."""
        reasons = [
            f"`{self.row.today[name]}` for `{name}`"
            for name in self.names
            if name in self.row.today
        ]
        return "; ".join(dict.fromkeys(reasons)) or self.row.instead


@functools.cache
def rows() -> Sequence[Removed]:
    """Return every row of the table, in its order.

    >>> rows()[0].effect in ("fails", "misleads", "warns")
    True
    """
    return tuple(_row(row) for row in _table()["retired"])


def find(read: Iterable[Cell]) -> list[Occurrence]:
    """Return what is retired in the cells of a notebook, each name once, in the order of the cells.

    `read` are the cells, as `cells.cells` yields them.
    """
    read = list(read)
    trees = [tree for cell in read for tree in cell.trees]
    known, assigned = aliases(trees), assignments(trees)
    taken_back, own = _taken_back(read), own_names(trees, known)
    met: dict[tuple[str, str], tuple[str, int, int]] = {}  # a name -> the place where it is told
    places: dict[tuple[str, int, int], Occurrence] = {}
    for cell in read:
        for row, line, what, note in _in_cell(cell, known, assigned):
            if (row.id in taken_back and not what.startswith("keras.")) or what in own:
                continue
            code = cell.lines[line - 1].strip() if 0 < line <= len(cell.lines) else what
            where = met.setdefault((row.id, what), (row.id, cell.number, line))
            place = places.setdefault(where, Occurrence(row, cell.number, line, code, ()))
            names = (*place.names, *(() if what in place.names else (what,)))
            notes = f"{place.note} {note}".strip() if note not in place.note else place.note
            others = sorted({*place.cells, cell.number} - {place.cell})
            places[where] = replace(place, names=names, note=notes, cells=tuple(others))
    return list(places.values())


def _taken_back(read: Iterable[Cell]) -> set[str]:
    """Rows that don't hold for this notebook: it installs an older release, or switches the old names on."""
    code = "\n".join(cell.text for cell in read)
    pins: dict[str, tuple[str, str]] = {}
    for cell in read:
        for _, command in cell.commands:
            if _INSTALLS.search(command) and not [*_pins(command)]:
                pins |= {name: limit for name, limit, _ in _limits(command)}
                pins |= {
                    canonicalize_name(name): ("==", tag) for name, tag in _TAG.findall(command)
                }
    found = set()
    for row in rows():
        package, _, first = row.before.partition(" ")
        comparison, version = pins.get(package, ("", first))
        is_before = is_older(version, first) or (comparison == "<" and not is_older(first, version))
        if is_before or _first(row.unless, code):
            found.add(row.id)
    return found


def _in_cell(
    cell: Cell, known: dict[str, str], assigned: dict[str, str]
) -> Iterator[tuple[Removed, int, str, str]]:
    """Every retired thing in a cell: its row, the line of the cell from 1, what it is, and a note."""
    for tree in cell.trees:
        found_whole: set[tuple[str, int]] = (
            set()
        )  # a method is told only where its full address was not
        for use in uses(tree, known, assigned):
            for row in _of(use):
                again = use.kind == "method" and (row.id, use.line) in found_whole
                if not again and not (use.guarded and row.guards):
                    found_whole.add((row.id, use.line))
                    yield row, use.line, use.name.replace(":", "(…, ", 1), ""
    for line, command in cell.commands:
        yield from ((row, line, what, note) for row, what, note in _in_command(command))
    for row in rows():
        for name, rest in cell.magics:
            if _first(row.magics, f"{name} {rest}"):
                yield row, _line_of(cell, f"%{name}"), f"%{name} {rest}".strip(), ""
        if cell.unread and _first(row.lines, cell.unread):
            yield row, _line_of(cell, cell.unread), cell.unread, ""


def _of(use: Use) -> Iterable[Removed]:
    """The rows that a use of a name belongs to."""
    if use.kind == "keyword":
        address, _, keyword = use.name.partition(":")
        short = f"{address.rpartition('.')[2]}:{keyword}"
        below = (f"{module}:{keyword}" for module in _prefixes(address)[:-1])
        return [
            *_rows_by("keywords", use.name),
            *(row for row in _rows_by("keywords", short) if _is_of(address, row)),
            *_rows_by("keywords_below", *below),
        ]
    if use.kind in ("string", "call_as"):
        patterns = "strings" if use.kind == "string" else "calls_as"
        return [row for row in rows() if _first(getattr(row, patterns), use.name)]
    if use.kind != "name":
        return _rows_by(f"{use.kind}s", use.name)
    inside = _rows_by("below", *_prefixes(use.name))
    return dict.fromkeys([*_rows_by("names", use.name), *inside])


def _rows_by(field: str, *names: str) -> list[Removed]:
    return [row for name in names for row in _by_name().get((field, name), ())]


def _prefixes(dotted: str) -> list[str]:
    """The dotted name and its parents: "a", "a.b", "a.b.c"."""
    return list(itertools.accumulate(dotted.split("."), "{}.{}".format))


def _is_of(address: str, row: Removed) -> bool:
    """Whether a callable may be one of the row's packages: it is imported from there, or nobody knows."""
    package, dot, _ = address.partition(".")
    return not dot or not row.packages or package in row.packages


def _in_command(command: str) -> Iterator[tuple[Removed, str, str]]:
    command = re.sub(r"\buninstall\b[^;&|]*", "", command)
    for row in rows():
        if match := _first(row.commands, command):
            yield row, match.group().strip(), ""
    yield from _pins(command)


def _first(patterns: Iterable[str], text: str) -> re.Match[str] | None:
    return next((match for one in patterns if (match := re.search(one, text))), None)


def _line_of(cell: Cell, text: str) -> int:
    """The first line that begins with a text, or else has it."""
    begins = [at for at, line in enumerate(cell.lines, 1) if line.strip().startswith(text)]
    return next(iter([*begins, *(at for at, line in enumerate(cell.lines, 1) if text in line)]), 1)


@functools.cache
def _by_name() -> Mapping[tuple[str, str], tuple[Removed, ...]]:
    """(field, name) -> rows. What is in keras is in tensorflow.keras too, but for `exactly`."""
    found: dict[tuple[str, str], tuple[Removed, ...]] = {}
    for row in rows():
        for kind in BY_NAME:
            for name in getattr(row, kind):
                for one in (name, f"tensorflow.{name}") if name.startswith("keras.") else (name,):
                    found[kind, one] = (*found.get((kind, one), ()), row)
        for name in row.exactly:
            found["names", name] = (*found.get(("names", name), ()), row)
    return found


def _pins(command: str) -> Iterator[tuple[Removed, str, str]]:
    """Versions that were never built for the Python of today's image."""
    if not _INSTALLS.search(command):
        return
    table = _table()["pins"]
    row = next(row for row in rows() if row.id == "old-pin")
    for name, (comparison, version), written in _limits(command):
        first = table["first"].get(name)
        limit = version + ".0" * (2 - version.count("."))
        if first and (is_older(limit, first) or (comparison == "<" and limit == first)):
            yield row, written, f"{name}: the first for Python {table['python']} is {first}."
    python = int(table["python"].partition(".")[2])
    for match in _WHEEL.finditer(command):
        if (int(match[1]), int(match[2])) < (3, python) and "abi3" not in match.group():
            yield row, match.group(), f"The file is for Python {match[1]}.{match[2]}."


def _limits(command: str) -> Iterator[tuple[str, tuple[str, str], str]]:
    """Yield each package with its highest version, such as ("<", "5"), and how that was written."""
    for name, listed in _REQUIREMENT.findall(command):
        for comparison, version, star in _LIMIT.findall(listed):
            limit = comparison, version
            parts = version.split(".")[: -1 if comparison == "~=" else None]
            # 2.* and ~=2.1 allow all below the next one.
            if (comparison == "~=" or star) and parts and parts[-1].isdigit():
                limit = "<", ".".join([*parts[:-1], str(int(parts[-1]) + 1)])
            yield canonicalize_name(name), limit, f"{name}{comparison}{version}{star}"


@functools.cache
def _table() -> Mapping:
    return load_toml("colab_doctor.notebook", "removed.toml")


def _row(row: Mapping[str, Any]) -> Removed:
    fields: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in row.items()
    }
    return Removed(**fields)
