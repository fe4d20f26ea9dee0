"""What does a lesson ask its readers to predict, and which answers does it offer?"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from nbformat import NotebookNode

_FORM = re.compile(r"(?m)^(?P<name>\w+) = (?P<value>.+?) +# @param *(?P<how>.*)$")
_ASKED = re.compile(r"\*\*Predict\.\*\*\s*(.+?)(?:\n\s*\n|\Z)", re.S)


@dataclass(frozen=True)
class Question:
    """A prediction: the name of its form field, the question in words, and the answers to choose from."""

    name: str
    text: str
    choices: tuple[str, ...] = ()


def of(notebook: NotebookNode) -> list[Question]:
    """Return the predictions of a lesson's notebook in order; fields that begin filled in are settings."""
    found: list[Question] = []
    text = ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            if asked := _ASKED.search(cell.source):
                text = " ".join(asked[1].split())
            continue
        found += [
            Question(field["name"], text or field["name"], _choices(field["how"]))
            for field in _FORM.finditer(cell.source)
            if field["value"] == "None"
        ]
    return found


def entered(notebook: NotebookNode) -> dict[str, object]:
    """Return what stands in the form fields of somebody's notebook, by name; nothing is executed.

    A field that holds anything but a plain number, text or None is left out.
    """
    found: dict[str, object] = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            for field in _FORM.finditer(cell.source):
                try:
                    value = ast.literal_eval(field["value"])
                except (ValueError, SyntaxError, MemoryError, RecursionError):
                    continue
                if value is None or isinstance(value, (int, float, str)):
                    found[field["name"]] = value
    return found


def _choices(how: str) -> tuple[str, ...]:
    listed = re.match(r"\[.*?\]", how)
    return tuple(map(str, ast.literal_eval(listed[0]))) if listed else ()
