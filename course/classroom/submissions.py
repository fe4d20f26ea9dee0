"""A notebook that somebody handed in, read and never run; nothing in it is trusted.

A notebook may have another name, moved or deleted cells, no outputs, an older record, or be no notebook
at all. What can be read is kept; what cannot is told in `problems`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from nbconvert.filters import strip_ansi
from nbformat import NotebookNode

import colab_doctor
from colab_lessons.measurements import Record
from colab_lessons.predictions import Prediction
from colab_lessons.session_log import ExerciseResult
from course.classroom import questions
from course.classroom.untrusted_notebook import (
    STATUS,
    Cell,
    Notebook,
    machine_outputs,
    parse,
    records,
    text_of,
)
from course.config import Course
from course.write import assemble

MAX_BYTES = 50 * 10**6  # of a file; a larger one is not opened: reading takes 28 times as much
_MAX_ERRORS, _MAX_PROBLEMS = 20, 5  # of a notebook
_MAX_TEXT = 20_000  # letters of a traceback that are looked at
_MIN_SHARED_CELLS = 3  # that a lesson's notebook still has in common with the lesson
_NOT_HANDED_IN = (".ipynb_checkpoints", "__MACOSX")
_NBGRADERS = ("autograded", "feedback", "release", "source")


@dataclass(frozen=True)
class _Known:
    """A lesson as it is handed out, and what its stored notebook shows: nobody's own work."""

    slug: str
    cells: NotebookNode
    stored: Mapping[str, str]
    runs: frozenset[str]


@dataclass(frozen=True)
class CellError:
    """A cell that ended in an error: its first line, and the known problem's id and title, or ""."""

    text: str
    id: str = ""
    title: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Submission:
    """What one file says. `lesson` is None for a file that is no lesson of this course."""

    file: str
    lesson: str | None = None
    record: Record | None = None
    predictions: Mapping[str, Prediction] = field(default_factory=dict)
    exercises: Mapping[str, ExerciseResult] = field(default_factory=dict)
    errors: tuple[CellError, ...] = ()
    ran: int = 0
    problems: tuple[str, ...] = ()
    duplicate_of: str = ""
    copies: int = 0  # other files with the same content or run
    saved: str = ""  # when the file was written, and how large it is

    @property
    def untouched(self) -> bool:
        """Whether nothing was run in it."""
        return self.lesson is not None and not self.ran


def read_folder(course: Course, folder: Path) -> list[Submission]:
    """Read every file below `folder`, in the order of their names.

    A copy of another file, or an earlier save of the same run, says so in `duplicate_of`.
    """
    known = [_known(course, lesson.slug) for lesson in course.lessons]
    found, keys = [], []
    for path in sorted(folder.rglob("*"), key=lambda path: str(path).lower()):
        hidden = path.name.startswith("._") or path.name == ".DS_Store"
        if path.is_dir() or hidden or set(_NOT_HANDED_IN) & set(path.parts):
            continue
        if _is_graders_copy(folder, path):
            continue
        name = os.fsencode(path.relative_to(folder)).decode("utf-8", "replace")
        handed, digest = _read(known, path, name)
        run = handed.record.run.id if handed.record else ""
        found.append(replace(handed, saved=_saved(path)))
        keys.append(
            [
                key
                for key in (digest if handed.ran else "", f"{handed.lesson} {run}" if run else "")
                if key
            ]
        )
    return _without_copies(found, keys)


def _is_graders_copy(folder: Path, path: Path) -> bool:
    """Whether nbgrader made `path` of a file that stands beside it in `submitted`."""
    parts = path.relative_to(folder).parts
    return any(
        part in _NBGRADERS and folder.joinpath(*parts[:place], "submitted").is_dir()
        for place, part in enumerate(parts[:-1])
    )


def _saved(path: Path) -> str:
    try:
        stat = path.stat()
    except OSError:
        return "no file"
    written = datetime.fromtimestamp(stat.st_mtime).strftime("%Y-%m-%d %H:%M")
    return f"{written}, {stat.st_size:,} byte{'s' * (stat.st_size != 1)}"


def _without_copies(found: list[Submission], keys: list[list[str]]) -> list[Submission]:
    """Of files that share a key, the one recorded and then saved last counts; else the first by name."""
    kept: dict[str, int] = {}
    order = sorted(range(len(found)), key=lambda place: recorded(found[place]), reverse=True)
    same: dict[int, str] = {}
    for place in order:
        other = next((kept[key] for key in keys[place] if key in kept), None)
        if other is not None:
            same[place] = found[other].file
        for key in keys[place]:
            kept.setdefault(key, place if other is None else other)
    copies = Counter(same.values())
    return [
        replace(one, duplicate_of=same.get(place, ""), copies=copies[one.file])
        for place, one in enumerate(found)
    ]


def recorded(handed: Submission) -> tuple[str, str]:
    """Return what orders copies of a run in time: when it was recorded, when the file was saved."""
    return handed.record.run.recorded if handed.record else "", handed.saved


def _known(course: Course, slug: str) -> _Known:
    [lesson] = course.select([slug])
    path = course.notebook(lesson)
    stored = parse(path.read_bytes()) if path.exists() else Notebook(())
    runs = {
        data.get("run", {}).get("id", "")
        for data in machine_outputs(stored)
        if data.get("kind") == "record"
    }
    shown = {cell.source: _shown(cell) for cell in stored.cells if cell.outputs}
    return _Known(slug, assemble.build(course, lesson), shown, frozenset(runs - {""}))


def _shown(cell: Cell) -> str:
    return json.dumps(cell.outputs, sort_keys=True)


def _read(known: Sequence[_Known], path: Path, name: str) -> tuple[Submission, str]:
    """Return the submission in a file, and the SHA-256 of its content, "" if it wasn't read."""
    if path.suffix.lower() != ".ipynb":
        return Submission(name, problems=("not called .ipynb",)), ""
    try:
        if not path.is_file():
            return Submission(name, problems=("no file that can be read",)), ""
        if path.stat().st_size > MAX_BYTES:
            return Submission(
                name, problems=(f"larger than {MAX_BYTES / 1e6:.0f} MB: not opened",)
            ), ""
        content = path.read_bytes()
        notebook = parse(content)
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        words = (getattr(error, "strerror", None) or str(error)).splitlines()
        message = (words or [type(error).__name__])[0][:120]
        return Submission(name, problems=(f"no readable notebook ({message})",)), ""
    return _read_known(known, notebook, name), hashlib.sha256(content).hexdigest()


def _read_known(known: Sequence[_Known], notebook: Notebook, name: str) -> Submission:
    problems: list[str] = []
    found = list(records(notebook, problems))
    lesson = _lesson(known, notebook, found)
    if lesson is None:
        return Submission(name, problems=("no lesson of this course",))
    notebook = _own(notebook, lesson)
    mine = [one for one in found if one.lesson == lesson.slug and one.run.id not in lesson.runs]
    if any(one.run.id in lesson.runs for one in found):
        problems.append("not run to its end: its record is the one that the course came with")
    record = max(mine, key=lambda one: one.run.recorded, default=None)
    predictions, changed = _predictions(lesson.cells, notebook, record)
    if changed:
        problems.append(f"prediction changed after the run: {', '.join(changed)}")
    return Submission(
        name,
        lesson.slug,
        record,
        predictions,
        _exercises(set(questions.exercises(lesson.cells)), notebook, record),
        tuple(_errors(notebook)),
        sum(bool(cell.outputs or cell.execution_count) for cell in notebook.cells),
        tuple(dict.fromkeys(problems))[:_MAX_PROBLEMS],
    )


def _own(notebook: Notebook, lesson: _Known) -> Notebook:
    """A notebook without what the course's own one came with: outputs, and counts that tell of no run."""
    came = [
        bool(cell.outputs) and lesson.stored.get(cell.source) == _shown(cell)
        for cell in notebook.cells
    ]
    return Notebook(
        tuple(
            replace(cell, outputs=(), execution_count=None)
            if is_theirs or (any(came) and not cell.outputs)
            else cell
            for cell, is_theirs in zip(notebook.cells, came, strict=True)
        )
    )


def lesson_of(course: Course, notebook: Any) -> str | None:
    """Return the name of the lesson that `notebook` is a copy of; None where it is of none."""
    found = _lesson([_known(course, lesson.slug) for lesson in course.lessons], notebook, [])
    return found.slug if found else None


def _lesson(known: Sequence[_Known], notebook: Any, records: Sequence[Record]) -> _Known | None:
    """The lesson with which a notebook has most cells in common, or else the one that it has a record of."""
    theirs = {cell.source.strip() for cell in notebook.cells} - {""}
    shared = [len(theirs & {cell.source.strip() for cell in one.cells.cells}) for one in known]
    if max(shared, default=0) >= _MIN_SHARED_CELLS:
        return known[shared.index(max(shared))]
    named = {record.lesson for record in records}
    return next((one for one in known if one.slug in named), None)


def _predictions(
    lesson: NotebookNode, notebook: Notebook, record: Record | None
) -> tuple[dict[str, Prediction], list[str]]:
    """What was predicted: as the run recorded it, else as it stands in the fields; and what differs."""
    fields = questions.entered(notebook)
    found, changed = {}, []
    for question in questions.predictions_in(lesson):
        now = Prediction(fields.get(question.name), None)  # type: ignore[arg-type]
        kept = record.predictions.get(question.name) if record else None
        found[question.name] = kept or now
        if kept and question.name in fields and kept.guess != now.guess:
            changed.append(question.name)
    return {
        name: one for name, one in found.items() if one.made or one.measured is not None
    }, changed


def _exercises(
    known: set[str], notebook: Notebook, record: Record | None
) -> dict[str, ExerciseResult]:
    """The last word on each exercise: what its cell shows, and how often it was tried from the record."""
    kept = dict(record.exercises) if record else {}
    for data in machine_outputs(notebook):
        id, status, message = (data.get(key) for key in ("exercise", "status", "message"))
        if data.get("kind") == "exercise" and isinstance(id, str) and status in STATUS:
            tries = max(kept[id].tries if id in kept else 0, int(status != "open"))
            kept[id] = ExerciseResult(str(status), text_of(message)[:600], tries)
    return {id: one for id, one in kept.items() if id in known}


def _errors(notebook: Notebook) -> Iterator[CellError]:
    failed = [
        output
        for cell in notebook.cells
        for output in cell.outputs
        if output.get("output_type") == "error"
    ]
    for output in failed[:_MAX_ERRORS]:
        named = (text_of(output.get(part)).strip() for part in ("ename", "evalue"))
        first = strip_ansi(": ".join(filter(None, named))[:_MAX_TEXT]).strip().splitlines()
        text = (first or ["an error without words"])[0][:200]
        traceback = output.get("traceback")
        whole = "\n".join(map(text_of, traceback)) if isinstance(traceback, list) else ""
        explained = colab_doctor.explain_error(f"{whole[-_MAX_TEXT:]}\n{text}", platform="colab")
        if explained.finding:
            known = colab_doctor.known_problems()[explained.id]
            yield CellError(text, known.id, known.title, explained.fix)
        else:
            yield CellError(text)


def counted(handed: Sequence[Submission]) -> list[Submission]:
    """Return the files that count: lessons of this course, without copies of another file or its run.

    `handed` are the files of a folder as `read_folder` gives them.
    """
    return [one for one in handed if one.lesson is not None and not one.duplicate_of]


def mask(message: str) -> str:
    """Return a message without what is one student's own: paths, numbers and quoted texts.

    >>> mask("Not line 2: it only adds. You wrote 'x = 3', and 1,024.5 fit.")
    'Not line …: it only adds. You wrote …, and … fit.'
    >>> mask("That isn't it: don't divide.")
    "That isn't it: don't divide."
    """
    without = re.sub(r"(?:[A-Za-z]:)?[\\/][^\s'\"]+", "…", message)  # a path may hold a name
    without = re.sub(r"(?<!\w)'[^']*'(?!\w)|\"[^\"]*\"", "…", without)
    return re.sub(r"\d[\d,._]*\d|\d", "…", without)
