"""The report of a run: one self-contained page."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from jinja2 import Environment

from colab_helpers import _files, preflight
from colab_lessons.reference import Record, RecordError
from course.run import execute
from course.table import Course, CourseError
from course.write import outputs

_PAGE = Environment(autoescape=True).from_string("""\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Course report</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; --line: #8886; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
td, th { text-align: left; padding: 0.25rem 1rem 0.25rem 0; border-bottom: 1px solid var(--line);
         vertical-align: top; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.failed { font-weight: bold; border-left: 0.3rem solid #d55e00; padding-left: 0.6rem; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; }
figcaption, small { opacity: 0.75; } pre { white-space: pre-wrap; }
</style></head><body>
<h1>Course report</h1>
<p>{{ when }} on {{ host }}. {{ passed }} of {{ lessons | length }} lessons ran to their end.</p>
<pre>{{ card }}</pre>
<table><tr><th>lesson</th><th>status</th><th class="number">seconds</th><th>slowest cell</th></tr>
{% for lesson in lessons %}<tr><td><a href="#{{ lesson.name }}">{{ lesson.name }}</a></td>
<td>{% if lesson.problem %}<span class="failed">{{ lesson.problem }}</span>{% else %}ok{% endif %}</td>
<td class="number">{{ "%.1f" | format(lesson.seconds) }}</td><td>{{ lesson.slowest }}</td></tr>
{% endfor %}</table>
{% for lesson in lessons %}<section id="{{ lesson.name }}"><h2>{{ lesson.name }}</h2>
{% if lesson.exercises %}<p>Exercises: {{ lesson.exercises }}</p>{% endif %}
{% if lesson.measured %}<table>{% for meaning, value in lesson.measured %}
<tr><td>{{ meaning }}</td><td class="number">{{ value }}</td></tr>{% endfor %}</table>{% endif %}
{% for image, alt in lesson.images %}<figure><img src="data:image/png;base64,{{ image }}"
alt="{{ alt }}"></figure>{% endfor %}
</section>{% endfor %}
</body></html>
""")


def write(course: Course, outcomes: Sequence[execute.Outcome], path: Path) -> Path:
    """Write the report of a run to `path` and return it. Raises `CourseError` where it cannot be."""
    page = _PAGE.render(
        when=datetime.now().strftime("%Y-%m-%d %H:%M"),
        host=platform.platform(terse=True),
        card=str(preflight.status_card()),
        passed=sum(outcome.ok for outcome in outcomes),
        lessons=[_lesson(outcome) for outcome in outcomes],
    )
    try:
        return _files.write(path, page)
    except OSError as error:
        raise CourseError(f"The report {path} could not be written: {error.strerror}.") from error


def _lesson(outcome: execute.Outcome) -> dict:
    notebook = outcome.notebook
    handed = execute.records(notebook)
    measured, unreadable = _records(handed)
    checks = [
        f"{entry.get('exercise')} {entry.get('status')}"
        for entry in handed
        if entry.get("kind") == "exercise"
    ]
    return {
        "name": outcome.name,
        "problem": "; ".join(filter(None, (outcome.problem, *unreadable))),
        "seconds": outcome.seconds,
        "slowest": _slowest(notebook),
        "exercises": ", ".join(checks),
        "measured": [(v.meaning, str(v)) for record in measured for v in record.values.values()],
        "images": outputs.pictures(notebook),
    }


def _records(handed: Sequence[dict]) -> tuple[list[Record], list[str]]:
    """The records that can be read, and for the others why not."""
    found, problems = [], []
    for entry in handed:
        if entry.get("kind") == "record":
            try:
                found.append(Record.from_dict(entry))
            except RecordError as error:
                problems.append(str(error))
    return found, problems


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
