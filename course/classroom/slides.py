"""A lesson as slides: nbconvert's, with reveal.js in the file and type that reads from the last row.

The notebook says which cell is a slide (`course.write.slide_types`). A deck shows headings, questions, code
and figures; prose and the questions of the page for teachers become speaker notes. The page itself splits
what doesn't fit on a slide (`templates/deck/split.js`): only a browser knows how high a text is.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import nbformat
from nbconvert import SlidesExporter
from nbconvert.filters import strip_ansi
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from pygments.formatters import HtmlFormatter

from colab_helpers import _files
from colab_helpers._output import RECORD_MIME
from course import npm
from course.classroom import TEMPLATES, template
from course.table import Course, CourseError, Lesson
from course.write import assemble, parts

#: Of reveal.js, what a deck needs: https://revealjs.com, MIT.
_REVEAL = ("dist/reset.css", "dist/reveal.css", "dist/reveal.js", "dist/plugin/notes.js", "LICENSE")
_COLORS = "a11y-high-contrast-light"
_CHECK = re.compile(r"(?m)^exercises\.check\(.*\Z", re.S)
_TAKEAWAYS = "takeaways = {"
_QUOTED = re.compile(r"facts\.quote\([^)]*\)\s*\Z")
_DRAWING = re.compile(r"(?ms)^figures\..*")
#: What only the notebook needs: a line on packages, and what adds a prediction to a title.
_NOT_FOR_CLASS = re.compile(
    r"(?m)\A# needs: .*\n|\{(said|guessed)\([^}]*\)\}| \+ (said|guessed)\([^)]*\)"
)


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
    whole = [part for part in parts.of(lesson, notebook) if part.minutes]
    decks = {lesson.slug: whole}
    if sum(part.minutes for part in whole) > parts.SHORT:
        decks[f"{lesson.slug}-{parts.SHORT}"] = parts.cut(whole)
    written = []
    for name, chosen in decks.items():
        text = page(course, lesson, prepared(course, lesson, notebook, chosen))
        minutes = sum(part.minutes for part in chosen)
        written.append((_files.write(folder / f"{name}.html", text), minutes))
    return written


def prepared(
    course: Course, lesson: Lesson, notebook: NotebookNode, chosen: Iterable[parts.Part]
) -> NotebookNode:
    """Return a notebook of slides: the title, and of the parts that were chosen what a class sees."""
    chosen = list(chosen)
    cells = list(_title(course, lesson, notebook, sum(part.minutes for part in chosen)))
    for part in chosen:
        asked = [note for note in parts.notes(course, lesson) if note.part == part.title]
        cells += _part(part, asked)
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


def _title(
    course: Course, lesson: Lesson, notebook: NotebookNode, minutes: int
) -> Iterator[NotebookNode]:
    aims = "\n".join(f"- {objective}" for objective in lesson.objectives)
    yield _text(
        f"# {lesson.number:02d} · {lesson.title}\n\nAfter this lesson you can:\n\n{aims}\n\n"
        f"{minutes} minutes · **Space** turns, **S** opens the presenter's view, **F** fills the screen\n\n"
        f"[{course.colab_url(lesson)}]({course.colab_url(lesson)})",
        "slide",
    )
    yield _text(
        template("expected.html").render(answers=parts.wrong_answers(course, lesson)), "notes"
    )
    for cell in notebook.cells:
        if assemble.SIZES in assemble.tags_of(cell):
            yield _text(f"```python\n{cell.source}\n```", "notes")


def _part(part: parts.Part, asked: Iterable[parts.Note]) -> Iterator[NotebookNode]:
    """The cells of one part. What is shown first comes below the heading; the rest are subslides."""
    heading = _text(f"## {part.title}", "slide")
    heading.metadata["slideshow"]["data"] = {"timing": 60 * part.minutes}
    yield heading
    yield _text(_for_presenter(part.minutes, asked), "notes")
    is_empty = True  # whether nothing is below the heading
    for piece in (piece for cell in part.cells for piece in _pieces(cell)):
        slideshow = piece.metadata["slideshow"]
        if slideshow["slide_type"] == "subslide" and is_empty:
            slideshow["slide_type"] = "-"
        is_heading = re.fullmatch(r"### .+", piece.source) is not None
        is_empty = is_heading or (is_empty and slideshow["slide_type"] == "notes")
        yield piece


def _for_presenter(minutes: int, asked: Iterable[parts.Note]) -> str:
    told = (
        f"{note.text}<br>**{note.answer}**" if note.answer else f"Elsewhere: {note.text}"
        for note in asked
    )
    plural = "s" * (minutes != 1)
    return "\n\n".join([f"**{minutes} minute{plural} for this part**", *told])


def _pieces(cell: NotebookNode) -> Iterator[NotebookNode]:
    """A cell as what is shown and what is said of it, each a cell of its own."""
    kind = cell.metadata["slideshow"]["slide_type"]
    if cell.cell_type == "code":
        yield from _code(cell, kind)
    elif assemble.SOLUTION in assemble.tags_of(cell):
        yield _text(cell.source, "notes")
    else:
        yield from _paragraphs(cell.source)


def _paragraphs(source: str) -> Iterator[NotebookNode]:
    """Questions, lists, tables, code and the text of tasks are shown; other prose is said."""
    is_task = False
    said: list[str] = []
    for block in _blocks(re.sub(r"\A## .*\n*", "", source)):
        if block.startswith("### "):
            is_task = block[4:5].isdigit()
            shown, kind = [block], "subslide"
        elif "**Predict" in block:  # with what it is about
            shown, kind = [*said[-1:], block], "subslide"
            said = said[:-1]
        elif is_task or re.match(r"[-|>]|\d+\. |```", block):
            shown, kind = [block], "-" if is_task else "subslide"
        else:
            said.append(block)
            continue
        yield from (_text(one, "notes") for one in said)
        yield _text("\n\n".join(shown), kind)
        said = []
    yield from (_text(one, "notes") for one in said)


def _blocks(source: str) -> list[str]:
    """The paragraphs of a text; fenced code stays in one piece."""
    pieces = re.split(r"(?ms)^(```.*?^```)$", source)
    found = [
        block.strip()
        for i, piece in enumerate(pieces)
        for block in ([piece] if i % 2 else re.split(r"\n\s*\n", piece))
    ]
    return [block for block in found if block]


def _code(cell: NotebookNode, kind: str) -> Iterator[NotebookNode]:
    is_exercise = assemble.EXERCISE in assemble.tags_of(cell)
    outputs = [] if is_exercise else [one for one in map(_output, cell.outputs) if one]
    if _QUOTED.search(cell.source):
        yield from (_text(one.text, "notes") for one in outputs if "text" in one)
        return
    if kind == "skip":
        return
    if _TAKEAWAYS in cell.source:
        lines = [line for one in outputs for line in one.get("text", "").splitlines()]
        items = (re.sub(r"(.+?): ", r"- **\1**: ", line, count=1) for line in lines)
        yield _text("\n".join(items), "subslide")
        return
    source = _NOT_FOR_CLASS.sub("", _CHECK.sub("", cell.source)).strip()
    if any("data" in one for one in outputs):  # how it is drawn is in the notebook
        source = _DRAWING.sub("", source).strip()
    if cell.metadata.get("cellView") == "form":
        source = ""
    if source:
        yield _cell(source, [], "-" if is_exercise else "subslide")
    for output in outputs:
        text = output.get("text", "\n")  # a line alone is said
        if not source and "\n" not in text:
            yield _text(text, "notes")
        else:
            yield _cell("", [output], "fragment" if source and "text" in output else "subslide")


def _output(output: NotebookNode) -> NotebookNode | None:
    """An output as the class sees it: a figure or plain text; None for messages and records."""
    data = output.get("data", {})
    if RECORD_MIME in data or output.get("name") == "stderr":
        return None
    if isinstance(data.get("image/png"), str):
        return nbformat.v4.new_output("display_data", data, metadata=output.get("metadata", {}))
    if output.output_type == "error":
        text = f"{output.ename}: {output.evalue}"
    else:
        text = output.get("text") or data.get("text/plain", "")
    text = "".join(text).strip("\n")
    with contextlib.suppress(ValueError, SyntaxError):  # of a string, what it says
        value = ast.literal_eval(text)
        text = value if isinstance(value, str) else text
    text = strip_ansi(text)
    return nbformat.v4.new_output("stream", text=text) if text else None


def _text(source: str, kind: str) -> NotebookNode:
    return new_markdown_cell(source, metadata={"slideshow": {"slide_type": kind}})


def _cell(source: str, outputs: list[NotebookNode], kind: str) -> NotebookNode:
    return new_code_cell(source, outputs=outputs, metadata={"slideshow": {"slide_type": kind}})
