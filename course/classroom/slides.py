"""A lesson as slides: nbconvert's, with reveal.js in the file and type that reads from the last row.

The notebook says which cell is a slide (`course.write.slide_types`). A deck shows headings, questions, code
and figures; prose and the questions of the page for teachers become speaker notes. The page itself splits
what doesn't fit on a slide (`templates/deck/split.js`): only a browser knows how high a text is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import nbformat
from nbconvert import SlidesExporter
from nbformat import NotebookNode
from nbformat.v4 import new_notebook
from pygments.formatters import HtmlFormatter

from colab_helpers import _atomic_files
from course import npm
from course.classroom import TEMPLATES, slide_content, template
from course.config import Course, CourseError, Lesson
from course.write import assemble, lesson_outline

#: Of reveal.js, what a deck needs: https://revealjs.com, MIT.
_REVEAL = ("dist/reset.css", "dist/reveal.css", "dist/reveal.js", "dist/plugin/notes.js", "LICENSE")
_COLORS = "a11y-high-contrast-light"


def write(
    course: Course, lesson: Lesson, folder: Path, executed: NotebookNode | None = None
) -> list[tuple[Path, int]]:
    """Write a lesson's decks into `folder`; return their paths and minutes.

    There is the whole lesson, and the cut of 45 minutes where that is shorter. Outputs are those of the
    stored notebook, or of `executed`, a run of the teacher's own. Raises `CourseError` where reveal.js
    cannot be fetched.
    """
    ran = assemble.read(course.notebook(lesson)) if executed is None else executed
    notebook = _with_outputs(assemble.build(course, lesson), ran)
    whole = [part for part in lesson_outline.split_into_parts(lesson, notebook) if part.minutes]
    decks = {lesson.slug: whole}
    if sum(part.minutes for part in whole) > lesson_outline.SHORT_MINUTES:
        decks[f"{lesson.slug}-{lesson_outline.SHORT_MINUTES}"] = lesson_outline.cut(whole)
    written = []
    for name, chosen in decks.items():
        text = page(course, lesson, prepared(course, lesson, notebook, chosen))
        minutes = sum(part.minutes for part in chosen)
        written.append((_atomic_files.write(folder / f"{name}.html", text), minutes))
    return written


def prepared(
    course: Course, lesson: Lesson, notebook: NotebookNode, chosen: Iterable[lesson_outline.Part]
) -> NotebookNode:
    """Return a notebook of slides: the title, and of the parts that were chosen what a class sees."""
    chosen = list(chosen)
    cells = list(_title(course, lesson, sum(part.minutes for part in chosen)))
    notes = lesson_outline.notes(course, lesson)
    for part in chosen:
        asked = [note for note in notes if note.part == part.title]
        cells += slide_content.slides_of_part(part, asked)
    return new_notebook(cells=cells, metadata=notebook.metadata)


def page(course: Course, lesson: Lesson, deck: NotebookNode) -> str:
    """Return a notebook of slides as one HTML file with everything in it."""
    fetched = npm.files(npm.REVEAL, _REVEAL, npm.cache(course))
    files = {name: content.decode("utf-8") for name, content in fetched.items()}
    scripts = [files["dist/reveal.js"], files["dist/plugin/notes.js"]]
    if any("</script" in text for text in scripts):
        raise CourseError("reveal.js cannot be put into a page: it contains the end of a script.")
    resources = {
        "title": f"{lesson.number:02d} · {lesson.title}",
        "license": f"reveal.js {npm.REVEAL.version}\n{files['LICENSE']}",
        "styles": [
            files["dist/reset.css"],
            files["dist/reveal.css"],
            HtmlFormatter(style=_COLORS).get_style_defs(".highlight"),
            (TEMPLATES / "deck" / "deck.css").read_text("utf-8"),
        ],
        "scripts": [*scripts, (TEMPLATES / "deck" / "split.js").read_text("utf-8")],
    }
    exporter = SlidesExporter(
        template_name="deck", extra_template_basedirs=[str(TEMPLATES)], exclude_anchor_links=True
    )
    text, _ = exporter.from_notebook_node(deck, {"deck": resources})
    return text


def count_without_output(course: Course, lesson: Lesson, executed: NotebookNode) -> int:
    """Count cells that show something in the stored notebook, and nothing in the teacher's own run."""
    shown = {cell.source for cell in executed.cells if cell.get("outputs")}
    stored = assemble.read(course.notebook(lesson)).cells
    return sum(bool(cell.get("outputs")) and cell.source not in shown for cell in stored)


def _with_outputs(fresh: NotebookNode, executed: NotebookNode) -> NotebookNode:
    taken = nbformat.from_dict(fresh)
    by_source = {cell.source: cell for cell in executed.cells if cell.cell_type == "code"}
    for cell in taken.cells:
        if cell.cell_type == "code" and cell.source in by_source:
            cell.outputs = by_source[cell.source].get("outputs", [])
    return taken


def _title(course: Course, lesson: Lesson, minutes: int) -> Iterator[NotebookNode]:
    aims = "\n".join(f"- {objective}" for objective in lesson.objectives)
    yield slide_content.text(
        f"# {lesson.number:02d} · {lesson.title}\n\n{lesson.hook}\n\nAfter this lesson you can:\n\n{aims}\n\n"
        f"{minutes} minutes · [Open it in Colab]({course.colab_url(lesson)})",
        "slide",
    )
    heard = template("expected.html").render(answers=lesson_outline.wrong_answers(course, lesson))
    yield slide_content.text(f"Space turns, F fills the screen.\n\n{heard}", "notes")
