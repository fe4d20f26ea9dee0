"""What a lesson asks its readers to predict and to solve, with the answers it offers."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

_MAX_CHARS = 2000  # letters of a line that may be a form field
_FIELD = re.compile(r"(\w+) *= *(.+)")
_ASKED = re.compile(r"\*\*Predict\.\*\*\s*(.+?)(?:\n\s*\n|\Z)", re.S)
_CHECKED = re.compile(r'exercises\.check\("([^"]+)"')


@dataclass(frozen=True)
class Question:
    """A prediction: the name of its form field, the question in words, and the answers to choose from."""

    name: str
    text: str
    choices: tuple[str, ...] = ()


def predictions_in(notebook: Any) -> list[Question]:
    """Return the predictions of a lesson's notebook in order; fields that begin filled in are settings.

    Where one question has several fields, each says which it is: "Which is faster? (first guess)".
    """
    found: list[Question] = []
    text = ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            if asked := _ASKED.search(cell.source):
                text = " ".join(asked[1].split())
            continue
        found += [
            Question(name, text or name, _choices(how))
            for name, value, how in _fields(cell.source)
            if value == "None"
        ]
    times = Counter(question.text for question in found)
    return [
        one
        if times[one.text] == 1
        else replace(one, text=f"{one.text} ({one.name.replace('_', ' ')})")
        for one in found
    ]


def exercises(notebook: Any) -> dict[str, str]:
    """Return the exercises of a lesson by id: the title above each, as in "2 · Move only what is needed"."""
    found, title = {}, ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            title = next(iter(re.findall(r"(?m)^### (.+)$", cell.source)), title)
        elif checked := _CHECKED.search(cell.source):
            found[checked[1]] = title
    return found


def entered(notebook: Any) -> dict[str, object]:
    """Return what stands in the form fields of somebody's notebook, by name; nothing is executed.

    A field that holds anything but a plain number, text or None is left out.
    """
    found: dict[str, object] = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            for name, text, _ in _fields(cell.source):
                try:
                    value = ast.literal_eval(text)
                except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                    continue
                if value is None or isinstance(value, (int, float, str)):
                    found[name] = value
    return found


def _fields(source: str) -> Iterator[tuple[str, str, str]]:
    """Name, value and kind of each form field in a cell."""
    for line in source.splitlines():
        if len(line) <= _MAX_CHARS and "@param" in line:
            before, _, how = line.partition("@param")
            field = _FIELD.fullmatch(before.rstrip().removesuffix("#").rstrip())
            if field:
                yield field[1], field[2], how.strip()


def _choices(how: str) -> tuple[str, ...]:
    listed = re.match(r"\[.*?\]", how)
    return tuple(map(str, ast.literal_eval(listed[0]))) if listed else ()
