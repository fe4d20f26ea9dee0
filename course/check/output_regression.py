"""A stored notebook against a run of today, compared as nbval compares.

The lesson has been run by papermill already: nbval's own run would do it a second time. Only this module
knows nbval; another tool would take its place here.
"""

from __future__ import annotations

from types import SimpleNamespace

from nbformat import NotebookNode
from nbval.plugin import IPyNbCell, nocolors

from course.write.assemble import COMPARE

#: What of an output is left alone: nbval's own list, and what libraries write to stderr.
_SKIPPED = (
    "metadata", "traceback", "prompt_number", "output_type", "name", "execution_count",
    "image/png", "image/jpeg", "stderr",
)  # fmt: skip


def compare_stored_outputs(name: str, stored: NotebookNode, ran: NotebookNode) -> list[str]:
    """Say which tagged cells of a `stored` notebook show something else in the one that `ran`.

    Cells are matched by their ids; `name` is the lesson's, for the messages.
    """
    tagged = [cell for cell in stored.cells if COMPARE in cell.metadata.get("tags", [])]
    if not tagged:
        return [f"{name}: no cell is tagged {COMPARE}."]
    by_id = {cell.id: cell for cell in ran.cells}
    missing = [cell.id for cell in tagged if cell.id not in by_id]
    if missing:
        return [f"{name}: cells {', '.join(missing)} were not run."]
    found = [(cell.id, _difference(cell.outputs, by_id[cell.id].outputs)) for cell in tagged]
    return [f"{name}: {id}: a stored output differs: {why}" for id, why in found if why]


def _difference(stored: list[NotebookNode], new: list[NotebookNode]) -> str:
    """What differs, in nbval's words; "" where nothing does."""
    said: list[str] = []
    # nbval compares in a method of a pytest item, which it makes only for notebooks that it runs itself.
    item = SimpleNamespace(colors=nocolors, sanitize=lambda value: value)
    item.format_output_compare = lambda key, old, now: said.append(f"{key}: {old} is now {now}")
    if IPyNbCell.compare_outputs(item, new, stored, _SKIPPED):
        return ""
    return " ".join(" ".join(said or item.comparison_traceback).split())[:300]
