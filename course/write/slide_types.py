"""How a cell is presented: `slideshow.slide_type` in its metadata, which nbconvert, RISE and VS Code read.

A heading of the second level begins a slide. Questions, code and figures are subslides below it, prose is
what the presenter says, and what only prepares the notebook is skipped. A type in the lesson's text wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from nbformat import NotebookNode

_SKIPPED = {"navigation", "parameters", "set-up", "sizes"}
_SHOWN = re.compile(
    r"(?m)^(###? |[-|] |\d+\. |```)|\*\*Predict"
)  # headings, lists, tables, questions
_FIELD = re.compile(r"\w+ = .*# @param")
_IMPORTS = re.compile(r"(?m)^(import |from |#|%).*\n?|\s+")


def add(cells: Iterable[NotebookNode]) -> None:
    """Give each cell the type that it should have, unless its lesson says another."""
    for cell in cells:
        cell.metadata.setdefault("slideshow", {"slide_type": slide_type(cell)})


def slide_type(cell: NotebookNode) -> str:
    """Return "slide", "subslide", "notes" or "skip" for a cell of a lesson's notebook."""
    tags = set(cell.metadata.get("tags", []))
    if tags & _SKIPPED:
        return "skip"
    if "solution" in tags:
        return "notes"
    if cell.cell_type == "markdown":
        if cell.source.startswith(("# ", "## ")):
            return "slide"
        return "subslide" if _SHOWN.search(cell.source) else "notes"
    is_form = cell.metadata.get("cellView") == "form"
    silent = is_form and not re.search(r"\bfigures\.|\bprint\(", cell.source)
    if silent or _FIELD.match(cell.source) or not _IMPORTS.sub("", cell.source):
        return "skip"
    return "subslide"
