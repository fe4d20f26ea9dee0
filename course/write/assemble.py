"""Building a lesson's notebook from its text.

`lessons/NN_slug.py` (py:percent text) goes in; out comes a notebook with title, badge, setup cell,
exercises with their folded solutions, navigation, Colab metadata and fixed cell ids. The same text
always gives the same bytes; outputs of an earlier run are kept where the cell did not change.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import html
import json
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from colab_helpers import _atomic_files, hardware
from colab_helpers._rich_display import RECORD_MIME
from colab_lessons import recorded_outputs
from course.config import Course, CourseError, Lesson
from course.write import output_digests, slide_types

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
_SITE_LINK = re.compile(
    r"https://[\w-]+\.github\.io/(?:[\w.-]+/)?(gpu\.html|problems/[a-z]+\.html#[\w-]+)"
)
EXERCISE, COMPARE, SOLUTION = "exercise", "nbval-check-output", "solution"
PARAMETERS, SIZES = "parameters", "sizes"


def build(course: Course, lesson: Lesson, solved: bool = False) -> NotebookNode:
    """Return the notebook of a lesson, without outputs; if `solved`, its solutions run as cells too."""
    source = course.source(lesson)
    if not source.exists():
        raise CourseError(f"{source.name} is in course.toml but not in lessons/. Write it there.")
    body = source_cells(source.read_text("utf-8"))
    cells = [_title(course, lesson), _set_up(course, lesson)]
    for cell in body:
        cells += _exercise(cell, lesson, solved) if EXERCISE in tags_of(cell) else [_plain(cell)]
    cells.append(_navigation(course, lesson))
    for cell in cells:
        cell.source = move_links(course, cell.source)
    _assign_ids(cells, lesson)
    slide_types.add(cells)
    return new_notebook(cells=cells, metadata=_metadata(lesson))


@functools.lru_cache(maxsize=32)
def source_cells(text: str) -> tuple[NotebookNode, ...]:
    """Return the cells of a lesson's source, to be read only: a text is taken apart once."""
    return tuple(jupytext.reads(text, fmt="py:percent").cells)


def write(course: Course, lesson: Lesson) -> Path:
    """Build the learner's notebook into notebooks/, keeping outputs of cells that did not change."""
    return _atomic_files.write(course.notebook(lesson), render(course, lesson))


def write_all(texts: Mapping[Path, str]) -> list[Path]:
    """Write those texts that differ from what is there, in their order, and return their files."""
    changed = [
        path for path, text in texts.items() if not path.exists() or path.read_text("utf-8") != text
    ]
    return [_atomic_files.write(path, texts[path]) for path in changed]


def render(course: Course, lesson: Lesson) -> str:
    """Return the text that the stored notebook should have.

    Outputs of cells that did not change are kept, and lead to the course's present address. A stored
    notebook that cannot be read is made anew, without outputs.
    """
    fresh, path = build(course, lesson), course.notebook(lesson)
    if path.exists():
        with contextlib.suppress(UnreadableNotebookError):
            _keep_outputs(fresh, read(path))
    return dumps_relinked(course, fresh)


def dumps_relinked(course: Course, notebook: NotebookNode) -> str:
    """Return a notebook's text; links in its outputs, such as a card's, lead to this course."""
    for cell in notebook.cells:
        if cell.get("outputs"):
            moved = move_links(course, json.dumps(cell.outputs))
            cell.outputs = [NotebookNode(output) for output in json.loads(moved)]
    return dumps(notebook)


def move_links(course: Course, text: str) -> str:
    """Make links to the site's pages, of whichever fork, lead to this course's."""
    return _SITE_LINK.sub(rf"{course.repository.site}\1", text)


class UnreadableNotebookError(CourseError):
    """A file in notebooks/ that is cut off, in conflict, or no notebook."""


def read(path: Path) -> NotebookNode:
    """Return the notebook stored at `path`. Raises `UnreadableNotebookError`, naming the file."""
    try:
        notebook = nbformat.reads(path.read_text("utf-8"), as_version=4)
        nbformat.validate(notebook)
    except OSError as error:
        raise UnreadableNotebookError(f"{path.name} cannot be read: {error.strerror}.") from error
    except Exception as error:  # nbformat raises many kinds for a file that is no notebook
        text = str(error).strip().splitlines() or [type(error).__name__]
        raise UnreadableNotebookError(
            f"{path.name} is no readable notebook ({text[0][:120]}). `make build` makes it anew from its "
            "lesson, `make notebooks` fills in its outputs."
        ) from error
    return notebook


def store_outputs(course: Course, lesson: Lesson, executed: NotebookNode) -> Path:
    """Write the learner's notebook with the outputs of a run, and nothing else of that run.

    Raises `CourseError` for a run with FAST: its small sizes are not what readers should see.
    """
    if is_fast(executed):
        raise CourseError(f"{lesson.slug} ran with FAST, for checks only: it is not stored.")
    fresh = build(course, lesson)
    _keep_outputs(fresh, executed)
    _record_parts(lesson, fresh)
    text = dumps_relinked(course, fresh)
    digests = {
        cell_key(cell): output_digests.digest(cell, course.repository)
        for cell in _with_outputs(fresh)
    }
    path = _atomic_files.write(course.notebook(lesson), text)
    output_digests.save(course, lesson, digests)  # last: it vouches for what is there
    return path


def changed_outputs(course: Course, lesson: Lesson, notebook: NotebookNode) -> list[int]:
    """Return the places of cells whose outputs are not those that `store_outputs` wrote."""
    known = output_digests.load(course, lesson)
    return [
        index
        for index, cell in enumerate(notebook.cells)
        if (cell.get("outputs") or cell_key(cell) in known)
        and known.get(cell_key(cell)) != output_digests.digest(cell, course.repository)
    ]


def _with_outputs(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.get("outputs")]


def is_fast(executed: NotebookNode) -> bool:
    """Say whether the record of a run says that it was one with FAST."""
    shown = (output for cell in _with_outputs(executed) for output in cell.outputs)
    handed = (output.get("data", {}).get(RECORD_MIME, {}) for output in shown)
    return any(record.get("kind") == "record" and record.get("fast") for record in handed)


def dumps(notebook: NotebookNode) -> str:
    """Return a notebook in canonical form: fixed key order, one indent, a final newline."""
    return json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def sources(notebook: NotebookNode) -> list[tuple[str, str, str]]:
    """Return what of a notebook must equal its lesson: id, type and source of every cell."""
    return [(cell.get("id", ""), cell.cell_type, cell.source) for cell in notebook.cells]


def _title(course: Course, lesson: Lesson) -> NotebookNode:
    lines = [
        f"# {lesson.number:02d} · {lesson.title}",
        "",
        *([lesson.hook, ""] if lesson.hook else []),
        course.badge(lesson),
        "",
        "After this lesson you can:",
        *(f"- {objective}" for objective in lesson.objectives),
        "",
        f"**{lesson.minutes} minutes.** {lesson.runs_on}",
    ]
    return new_markdown_cell("\n".join(lines), metadata={"tags": ["title"]})


def _set_up(course: Course, lesson: Lesson) -> NotebookNode:
    # The learner may be far from the repository: only the notebook is opened, so it brings us in.
    repository = course.repository
    optional = f", {' '.join(lesson.optional)!r}" if lesson.optional else ""
    wants = (
        f"{lesson.slug!r}, {lesson.accelerator!r}, {lesson.chip!r}, {' '.join(lesson.packages)!r}"
    )
    helper = f"{repository.version} of {repository.slug}"
    text = f"""\
# @title Set up: run this cell first
try:
    from colab_helpers import preflight  # the course's own package: it measures, explains and checks
except ImportError:  # not here yet: this needs the Internet (on Kaggle: Settings > Internet > On)
    %pip install -q --no-deps "colab-helpers @ {repository.helper}"
    from colab_helpers import preflight
%reload_ext colab_doctor
preflight.status_card({wants}{optional}, helper={helper!r})"""
    metadata = {"cellView": "form", "tags": ["set-up"]}
    return new_code_cell(text, metadata=metadata)


def _navigation(course: Course, lesson: Lesson) -> NotebookNode:
    position = course.lessons.index(lesson)
    around = []
    if position > 0:
        before = course.lessons[position - 1]
        around.append(f"Back: [{before.number:02d} {before.title}]({course.colab_url(before)})")
    if position + 1 < len(course.lessons):
        after = course.lessons[position + 1]
        around.append(f"Next: [{after.number:02d} {after.title}]({course.colab_url(after)})")
    around.append(f"[All lessons]({course.repository.url}#lessons)")
    return new_markdown_cell(" · ".join(around), metadata={"tags": ["navigation"]})


def _plain(cell: NotebookNode) -> NotebookNode:
    metadata = {key: cell.metadata[key] for key in ("tags", "slideshow") if key in cell.metadata}
    if cell.cell_type == "markdown":
        return new_markdown_cell(cell.source, metadata=metadata)
    if re.match(r"#\s*@title", cell.source):
        metadata["cellView"] = "form"
    return new_code_cell(cell.source, metadata=metadata)


def _exercise(cell: NotebookNode, lesson: Lesson, with_solution: bool) -> list[NotebookNode]:
    """The stub with its check, and the solution: folded text, or a cell that runs."""
    stub, solved, solution = _split(cell.source, lesson)
    task = new_code_cell(stub, metadata={"tags": [EXERCISE, COMPARE]})
    if with_solution:
        return [task, new_code_cell(solved, metadata={"tags": [SOLUTION]})]
    folded = (
        "<details><summary>Solution (try first)</summary>\n\n"
        f"<pre><code>{html.escape(solution, quote=False)}</code></pre>\n\n</details>"
    )
    return [task, new_markdown_cell(folded, metadata={"tags": [SOLUTION]})]


def _split(source: str, lesson: Lesson) -> tuple[str, str, str]:
    """Return the learner's stub, the cell with the solution in place, and the solution alone."""
    lines = source.splitlines()
    if lines.count(BEGIN) != 1 or lines.count(END) != 1 or lines.index(BEGIN) > lines.index(END):
        raise CourseError(
            f"{lesson.slug}: an exercise needs one '{BEGIN}' and, below it, one '{END}'. "
            f"Its first line: {lines[0] if lines else ''!r}."
        )
    begin, end = lines.index(BEGIN), lines.index(END)
    before, solution, after = lines[:begin], lines[begin + 1 : end], lines[end + 1 :]
    stub = "\n".join([*before, "", *after]).strip()
    return stub, "\n".join([*before, *solution, *after]), "\n".join(solution)


def _assign_ids(cells: list[NotebookNode], lesson: Lesson) -> None:
    """Give every cell an id that follows from its text, so that moving a cell moves its id."""
    seen: dict[str, int] = {}
    for cell in cells:
        text = f"{lesson.slug}/{cell.cell_type}/{cell.source}"
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        seen[digest] = seen.get(digest, 0) + 1
        cell["id"] = f"{digest}-{seen[digest]}"


def _metadata(lesson: Lesson) -> dict:
    colab: dict = {"provenance": [], "toc_visible": True}
    metadata: dict = {
        "colab": colab,
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    if lesson.accelerator:
        metadata["accelerator"] = lesson.accelerator
        colab["gpuType"] = lesson.gpu_type
    return metadata


def _keep_outputs(fresh: NotebookNode, old: NotebookNode) -> None:
    # The setup cell is known by its tag: a fork changes its address, not what it shows.
    earlier = {cell_key(cell): cell for cell in old.cells if cell.cell_type == "code"}
    for cell in fresh.cells:
        if cell.cell_type == "code" and cell_key(cell) in earlier:
            cell.outputs = earlier[cell_key(cell)].outputs
            cell.execution_count = earlier[cell_key(cell)].execution_count


def _record_parts(lesson: Lesson, notebook: NotebookNode) -> None:
    """Keep what cells with needs put out, for machines that lack what they need.

    A machine that lacks something itself has replayed, and must not overwrite what was recorded.
    """
    code = [(cell.source, cell.outputs) for cell in notebook.cells if cell.cell_type == "code"]
    complete = not any(recorded_outputs.missing(source) for source, _ in code)
    if complete and any(recorded_outputs.needs(source) for source, _ in code):
        device = hardware.list_devices().main.short_name
        recorded_outputs.record_outputs(lesson.slug, device, date.today().isoformat(), code)


def cell_key(cell: NotebookNode) -> str:
    """Return what a cell is known by when outputs are kept: the setup cell's address may change."""
    return "set-up" if "set-up" in tags_of(cell) else cell.get("id", "")


def tags_of(cell: NotebookNode) -> list[str]:
    """Return the tags of a cell."""
    return list(cell.metadata.get("tags", []))
