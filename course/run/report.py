"""The report of a run: one self-contained page."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from jinja2 import Environment

from colab_helpers import _atomic_files, preflight
from colab_lessons.measurements import Record, RecordError
from course.config import Course, CourseError
from course.run import execute

_PAGE = Path(__file__).with_suffix(".html")


def write(course: Course, outcomes: Sequence[execute.Outcome], path: Path) -> Path:
    """Write the report of a run to `path` and return it. Raises `CourseError` where it cannot be."""
    template = Environment(autoescape=True).from_string(_PAGE.read_text("utf-8"))
    page = template.render(
        when=datetime.now().strftime("%Y-%m-%d %H:%M"),
        host=platform.platform(terse=True),
        card=str(preflight.status_card()),
        passed=sum(outcome.ok for outcome in outcomes),
        lessons=[_lesson(outcome) for outcome in outcomes],
    )
    try:
        return _atomic_files.write(path, page)
    except OSError as error:
        raise CourseError(f"The report {path} could not be written: {error.strerror}.") from error


def _lesson(outcome: execute.Outcome) -> dict:
    unreadable = _unreadable(execute.records(outcome.notebook))
    return {
        "name": outcome.name,
        "problem": "; ".join(filter(None, (outcome.problem, *unreadable))),
        "seconds": outcome.seconds,
        "slowest": _slowest(outcome.notebook),
    }


def _unreadable(handed: Sequence[dict]) -> Iterator[str]:
    """Say of each record that can't be read why not."""
    for entry in handed:
        if entry.get("kind") == "record":
            try:
                Record.from_dict(entry)
            except RecordError as error:
                yield str(error)


def _slowest(notebook: execute.NotebookNode) -> str:
    """The cell that took longest, with its seconds."""
    durations = [cell.metadata.get("papermill", {}).get("duration") or 0 for cell in notebook.cells]
    if not any(durations):
        return ""
    index = durations.index(max(durations))
    return f"{execute.describe_cell(notebook, index)}: {durations[index]:.1f} s"


def as_text(outcomes: Sequence[execute.Outcome]) -> str:
    """Return one line a lesson, for a terminal."""
    width = max((len(outcome.name) for outcome in outcomes), default=0)
    return "\n".join(
        f"{o.name:<{width}}  {'ok' if o.ok else 'FAILED':<6}  {o.seconds:6.1f} s  {o.problem}"
        for o in outcomes
    )
