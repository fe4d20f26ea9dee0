"""What does a notebook that somebody handed in say? It is read and never run, and nothing in it is trusted.

A notebook may have another name, moved or deleted cells, no outputs, an older record, or be no notebook
at all. What can be read is kept; what cannot is told in `problems`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from colab_helpers import doctor
from colab_helpers._output import RECORD_MIME
from colab_helpers.lessons.predictions import Prediction
from colab_helpers.lessons.reference import Record, RecordError
from colab_helpers.lessons.session import Tried
from course.classroom import questions
from course.table import Course, Lesson
from course.write import assemble

MOST_BYTES = 10**9  # of a file; a larger one is not opened
_MOST_ERRORS, _MOST_TEXT = 20, 20_000  # of a notebook; letters of a traceback that are looked at
_FEWEST_CELLS = 3  # that a lesson's notebook still has in common with the lesson
_STATUS = ("open", "wrong", "right")


@dataclass(frozen=True)
class Failed:
    """A cell that ended in an error: its first line, and the known problem's id and title, or ""."""

    text: str
    id: str = ""
    title: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Handed:
    """What one file says. `lesson` is None for a file that is no lesson of this course."""

    file: str
    lesson: str | None = None
    record: Record | None = None
    predictions: Mapping[str, Prediction] = field(default_factory=dict)
    exercises: Mapping[str, Tried] = field(default_factory=dict)
    errors: tuple[Failed, ...] = ()
    ran: int = 0
    problems: tuple[str, ...] = ()
    same_as: str = ""

    @property
    def untouched(self) -> bool:
        """Whether nothing was run in it."""
        return self.lesson is not None and not self.ran


def read_folder(course: Course, folder: Path) -> list[Handed]:
    """Read every notebook below `folder`, in the order of their names.

    A copy of an earlier file, or another one of the same run, says so in `same_as`.
    """
    known = {lesson.slug: assemble.build(course, lesson) for lesson in course.lessons}
    found: list[Handed] = []
    first: dict[str, str] = {}
    for path in sorted(folder.rglob("*.ipynb"), key=lambda path: str(path).lower()):
        if ".ipynb_checkpoints" in path.parts or not path.is_file():
            continue
        handed, digest = _read(course, known, path, str(path.relative_to(folder)))
        run = handed.record.run.id if handed.record else ""
        keys = [digest, *([f"{handed.lesson} {run}"] if run else [])]
        same = next((first[key] for key in keys if key in first), "")
        found.append(replace(handed, same_as=same))
        for key in keys:
            first.setdefault(key, handed.file)
    return found


def _read(
    course: Course, known: Mapping[str, NotebookNode], path: Path, name: str
) -> tuple[Handed, str]:
    """What a file says, and what it is known by."""
    try:
        if path.stat().st_size > MOST_BYTES:
            return Handed(name, problems=("larger than 1 GB: not opened",)), name
        content = path.read_bytes()
        notebook = _notebook(content)
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        told = error.strerror if isinstance(error, OSError) else str(error).splitlines()[0][:120]
        return Handed(name, problems=(f"no readable notebook ({told})",)), name
    return _said(course, known, notebook, name), hashlib.sha256(content).hexdigest()


def _notebook(content: bytes) -> NotebookNode:
    """The cells of a file, whatever else it holds: text as text, and nothing that is not of its kind."""
    data = json.loads(content.decode("utf-8", "replace"))
    if not isinstance(data, dict) or not isinstance(data.get("cells"), list):
        raise ValueError("no list of cells")
    return NotebookNode(cells=[_cell(cell) for cell in data["cells"] if isinstance(cell, dict)])


def _cell(cell: Mapping[str, Any]) -> NotebookNode:
    outputs = cell.get("outputs") if isinstance(cell.get("outputs"), list) else []
    count = cell.get("execution_count")
    return NotebookNode(
        cell_type=str(cell.get("cell_type", "")),
        source=_text(cell.get("source")),
        execution_count=count if isinstance(count, int) else None,
        outputs=[output for output in outputs or [] if isinstance(output, dict)],
        metadata=NotebookNode(),
    )


def _text(value: Any) -> str:
    lines = value if isinstance(value, list) else [value]
    return "".join(line for line in lines if isinstance(line, str))


def _said(
    course: Course, known: Mapping[str, NotebookNode], notebook: NotebookNode, name: str
) -> Handed:
    problems: list[str] = []
    slug = _lesson(known, notebook)
    if slug is None:
        return Handed(name, problems=("no lesson of this course",))
    lesson = next(lesson for lesson in course.lessons if lesson.slug == slug)
    records = [entry for entry in _records(notebook, problems) if entry.lesson == slug]
    record = max(records, key=lambda entry: entry.run.recorded, default=None)
    predictions, changed = _predictions(known[slug], notebook, record)
    problems += [f"prediction changed after the run: {one}" for one in changed]
    ran = [cell for cell in notebook.cells if cell.outputs or cell.execution_count]
    return Handed(
        name,
        slug,
        record,
        predictions,
        _exercises(lesson, notebook, record),
        tuple(_errors(notebook)),
        len(ran),
        tuple(problems),
    )


def lesson_of(course: Course, notebook: NotebookNode) -> str | None:
    """Return the name of the lesson that `notebook` is a copy of; None where it is of none."""
    known = {lesson.slug: assemble.build(course, lesson) for lesson in course.lessons}
    return _lesson(known, notebook)


def _lesson(known: Mapping[str, NotebookNode], notebook: NotebookNode) -> str | None:
    """The lesson with which a notebook has most cells in common; None where that is hardly any."""
    theirs = {cell.source.strip() for cell in notebook.cells} - {""}
    shared = {
        slug: len(theirs & {cell.source.strip() for cell in ours.cells})
        for slug, ours in known.items()
    }
    best = max(shared, key=lambda slug: shared[slug], default=None)
    return best if best and shared[best] >= _FEWEST_CELLS else None


def _records(notebook: NotebookNode, problems: list[str]) -> Iterator[Record]:
    for data in _handed_to_machines(notebook):
        if data.get("kind") == "record":
            try:
                yield _checked(Record.from_dict(data))
            except (RecordError, TypeError, ValueError) as error:
                told = str(error).partition(" Measure it again")[0]  # that is for maintainers
                problems.append(f"its record cannot be read: {told[:120]}")


def _checked(record: Record) -> Record:
    """A record whose texts are texts and whose numbers are numbers; it may have been written by hand."""
    texts = (
        record.lesson,
        record.device,
        record.date,
        record.platform,
        record.run.recorded,
        record.run.id,
    )
    units = [text for value in record.values.values() for text in (value.unit, value.meaning)]
    numbers = [value.number for value in record.values.values()]
    if not all(isinstance(text, str) for text in (*texts, *units)):
        raise ValueError("a text in it is none")
    if not all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in numbers):
        raise ValueError("a number in it is none")
    if not all(
        isinstance(one.tries, int) and one.status in _STATUS for one in record.exercises.values()
    ):
        raise ValueError("an exercise in it is none")
    if not isinstance(record.details, Mapping):
        raise ValueError("its details are none")
    return record


def _handed_to_machines(notebook: NotebookNode) -> Iterator[Mapping[str, Any]]:
    for cell in notebook.cells:
        for output in cell.outputs:
            data = output.get("data")
            handed = data.get(RECORD_MIME) if isinstance(data, dict) else None
            if isinstance(handed, dict):
                yield handed


def _predictions(
    lesson: NotebookNode, notebook: NotebookNode, record: Record | None
) -> tuple[dict[str, Prediction], list[str]]:
    """What was predicted: as the run recorded it, else as it stands in the fields; and what differs."""
    fields = questions.entered(notebook)
    found, changed = {}, []
    for question in questions.of(lesson):
        now = Prediction(fields.get(question.name), None)  # type: ignore[arg-type]
        kept = record.predictions.get(question.name) if record else None
        found[question.name] = kept or now
        if kept and question.name in fields and kept.said != now.said:
            changed.append(question.name)
    return {
        name: one for name, one in found.items() if one.made or one.measured is not None
    }, changed


def _exercises(lesson: Lesson, notebook: NotebookNode, record: Record | None) -> dict[str, Tried]:
    """The last word on each exercise: what its cell shows, and how often it was tried from the record."""
    kept = dict(record.exercises) if record else {}
    number = f"{lesson.number:02d}."
    for data in _handed_to_machines(notebook):
        id, status, message = (data.get(key) for key in ("exercise", "status", "message"))
        if data.get("kind") == "exercise" and isinstance(id, str) and status in _STATUS:
            tries = kept[id].tries if id in kept else int(status != "open")
            kept[id] = Tried(str(status), _text(message)[:600], tries)
    return {id: one for id, one in kept.items() if id.startswith(number)}


def _errors(notebook: NotebookNode) -> Iterator[Failed]:
    failed = [
        output
        for cell in notebook.cells
        for output in cell.outputs
        if output.get("output_type") == "error"
    ]
    for output in failed[:_MOST_ERRORS]:
        first = f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}".strip().splitlines()
        text = (first or ["an error without words"])[0][:200]
        traceback = output.get("traceback")
        whole = "\n".join(map(_text, traceback)) if isinstance(traceback, list) else ""
        explained = doctor.explain_error(f"{whole[-_MOST_TEXT:]}\n{text}", platform="colab")
        if explained.finding:
            known = doctor.known_problems()[explained.id]
            yield Failed(text, known.id, known.title, explained.finding.remedy)
        else:
            yield Failed(text)


def counted(handed: Sequence[Handed]) -> list[Handed]:
    """Return the files that count: lessons of this course, without copies of another file or its run.

    `handed` are the files of a folder as `read_folder` gives them.
    """
    return [one for one in handed if one.lesson is not None and not one.same_as]


def mask(message: str) -> str:
    """Return a judge's message without what is one student's own: numbers and quoted texts.

    >>> mask("Not line 2: it only adds. You wrote 'x = 3', and 1,024.5 fit.")
    'Not line …: it only adds. You wrote …, and … fit.'
    """
    without = re.sub(r"'[^']*'|\"[^\"]*\"", "…", message)
    return re.sub(r"\d[\d,._]*\d|\d", "…", without)
