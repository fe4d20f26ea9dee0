"""Whether a run was sound: it ended, nothing warned, stubs are open, solutions right.

Every check returns problems in words; an empty list is a pass.
"""

from __future__ import annotations

import re

import nbformat
from nbformat import NotebookNode

from course.run import execute
from course.write import assemble

#: A CUDA build of PyTorch says so on a machine with CUDA's compiler and without a GPU.
_NO_WARNING = "No CUDA runtime is found, using CUDA_HOME"


def run_problems(outcome: execute.Outcome) -> list[str]:
    """Judge a run: it ended, nothing warned, a record came out, stubs are open, solutions right."""
    if not outcome.ok:
        return [f"{outcome.name}: {outcome.problem}"]
    notebook = outcome.notebook
    problems = [
        f"{outcome.name}: {execute.describe_cell(notebook, index)} wrote to stderr: {text.strip()[:200]}"
        for index, text in execute.stderr(notebook)
        if not re.search(_NO_WARNING, text)
    ]
    records = execute.records(notebook)
    if sum(record["kind"] == "record" for record in records) != 1:
        problems.append(
            f"{outcome.name}: no record of its measurements; end with measurements.record(…)."
        )
    return problems + exercise_problems(notebook)


def device_problems(outcome: execute.Outcome, kind: str) -> list[str]:
    """Check that a lesson was measured on an accelerator of this kind, and not beside it."""
    if not outcome.ok:
        return []  # said already
    records = execute.records(outcome.notebook)
    return [
        f"{outcome.name}: measured on {record['device']}, not on a {kind}: "
        "its framework does not use the one that is there."
        for record in records
        if record["kind"] == "record" and record["device_kind"] != kind
    ]


def exercise_problems(notebook: NotebookNode) -> list[str]:
    """Check exercises of a run: an untouched stub is open, a solution is right."""
    problems = []
    for index, cell in enumerate(notebook.cells):
        tags = assemble.tags_of(cell)
        wanted = (
            "right" if assemble.SOLUTION in tags else "open" if assemble.EXERCISE in tags else None
        )
        if wanted is None or cell.cell_type != "code":
            continue
        where = execute.describe_cell(notebook, index)
        verdicts = execute.records(nbformat.v4.new_notebook(cells=[cell]))
        found = [v["status"] for v in verdicts if v["kind"] == "exercise"]
        if found != [wanted]:
            kind = "solution" if wanted == "right" else "untouched stub"
            judged = f"judged {found or 'not at all'}, not {wanted!r}"
            problems.append(f"{where}: the {kind} is {judged}. {_message(cell)}".rstrip())
    return problems


def _message(cell: NotebookNode) -> str:
    """What the judge said."""
    texts = [output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", [])]
    return " ".join(text for text in texts if text.startswith("Exercise"))
