"""The cells of a lesson's slides: what of each of its cells a class sees, and what the presenter says."""

from __future__ import annotations

import ast
import contextlib
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator

import nbformat
from nbconvert.filters import strip_ansi
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from colab_helpers._rich_display import RECORD_MIME
from course.classroom import questions
from course.write import assemble, lesson_outline

_MAX_CHARS = 84  # letters of a line of code that are as wide as a slide, in 22 pixels
_CHECK = re.compile(r"(?m)^exercises\.check\(.*\Z", re.S)
_TAKEAWAYS = "takeaways = {"
_QUOTED = re.compile(r"facts\.quote\([^)]*\)\s*\Z")
_DRAWING = re.compile(r"(?ms)^figures\..*")
#: What only the notebook needs: a line on packages, and what adds a prediction to a title.
_NOT_FOR_CLASS = re.compile(
    r"(?m)\A# needs: .*\n|\{your_prediction\([^}]*\)\}| \+ your_prediction\([^)]*\)"
)


def slides_of_part(
    part: lesson_outline.Part, asked: Iterable[lesson_outline.Note]
) -> Iterator[NotebookNode]:
    """Return the cells of one part. What is shown first comes below the heading; the rest are subslides."""
    heading = text(f"## {part.title}", "slide")
    heading.metadata["slideshow"]["data"] = {"timing": 60 * part.minutes}
    yield heading
    yield text(f"**{part.minutes} minute{'s' * (part.minutes != 1)} for this part.**", "notes")
    pieces = list(_order_notes(piece for cell in part.cells for piece in _pieces(cell)))
    if told := _questions(asked):
        seen = [place for place, piece in enumerate(pieces) if _alt_text(piece)]
        pieces.insert(seen[0] + 2 if seen else len(pieces), text(told, "notes"))
    is_empty = True  # whether nothing is below the heading
    for piece in pieces:
        slideshow = piece.metadata["slideshow"]
        if slideshow["slide_type"] == "subslide" and is_empty:
            slideshow["slide_type"] = "-"
        is_heading = re.fullmatch(r"### .+", piece.source) is not None
        is_empty = is_heading or (is_empty and slideshow["slide_type"] == "notes")
        yield piece


def text(source: str, kind: str) -> NotebookNode:
    """Return a cell of text; `kind` is its slide type."""
    return new_markdown_cell(source, metadata={"slideshow": {"slide_type": kind}})


def _order_notes(pieces: Iterable[NotebookNode]) -> Iterator[NotebookNode]:
    """Put notes with the output they follow (but the last before code), all others with the next piece."""
    words: list[NotebookNode] = []
    last: NotebookNode | None = None
    for piece in pieces:
        kind = piece.metadata["slideshow"]["slide_type"]
        if kind == "notes":
            words.append(piece)
            continue
        about = len(words) if last and last.get("outputs") else 0
        if about > 1 and piece.cell_type == "code":
            about -= 1
        yield from words[:about]
        yield piece
        if alt := _alt_text(piece):
            yield text(alt, "notes")
        yield from words[about:]
        words, last = [], piece
    yield from words


def _questions(asked: Iterable[lesson_outline.Note]) -> str:
    """What the page for teachers has for a part: it is read where the part's first figure is seen."""
    told: list[str] = []
    for note in asked:
        told += (
            [note.text, f"**{note.answer}**"] if note.answer else [f"On other chips: {note.text}"]
        )
    return "\n\n".join(told)


def _alt_text(piece: NotebookNode) -> str:
    images = (
        output.get("metadata", {}).get("image/png", {}) for output in piece.get("outputs", [])
    )
    return next((image["alt"] for image in images if "alt" in image), "")


def _pieces(cell: NotebookNode) -> Iterator[NotebookNode]:
    """A cell as what is shown and what is said of it, each a cell of its own."""
    kind = cell.metadata["slideshow"]["slide_type"]
    if cell.cell_type == "code":
        yield from _code(cell, kind)
    elif assemble.SOLUTION in assemble.tags_of(cell):
        yield text(cell.source, "notes")
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
        yield from (text(one, "notes") for one in said)
        yield text("\n\n".join(shown), kind)
        said = []
    yield from (text(one, "notes") for one in said)


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
        yield from (text(one.text, "notes") for one in outputs if "text" in one)
        return
    if kind == "skip":
        for question in questions.predictions_in(NotebookNode(cells=[cell])):
            if question.choices:
                yield text(" · ".join(f"`{choice}`" for choice in question.choices), "-")
        return
    if _TAKEAWAYS in cell.source:
        lines = [line for one in outputs for line in one.get("text", "").splitlines()]
        items = (re.sub(r"(.+?): ", r"- **\1**: ", line, count=1) for line in lines)
        yield text("\n".join(items), "subslide")
        return
    source = _NOT_FOR_CLASS.sub("", _CHECK.sub("", cell.source)).strip()
    if any("data" in one for one in outputs):  # how it is drawn is in the notebook
        source = _DRAWING.sub("", source).strip()
    if cell.metadata.get("cellView") == "form":
        source = ""
    if source:
        yield _cell(_wrap_code(source), [], "-" if is_exercise else "subslide")
    for output in outputs:
        line = output.get("text", "\n")  # one alone is said
        if not source and "\n" not in line:
            yield text(line, "notes")
        else:
            yield _cell("", [output], "fragment" if source and "text" in output else "subslide")


def _wrap_code(source: str) -> str:
    """Code whose lines fit on a slide: where one is too long, as ruff breaks it."""
    if max(map(len, source.splitlines())) <= _MAX_CHARS:
        return source
    command = [sys.executable, "-m", "ruff", "format", "--isolated", f"--line-length={_MAX_CHARS}"]
    command += ["--config=format.skip-magic-trailing-comma=true", "--stdin-filename=cell.ipy", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True)
    return source if done.returncode else done.stdout.strip()


def _output(output: NotebookNode) -> NotebookNode | None:
    """An output as the class sees it: a figure or plain text; None for messages and records."""
    data = output.get("data", {})
    if RECORD_MIME in data or output.get("name") == "stderr":
        return None
    if isinstance(data.get("image/png"), str):
        return nbformat.v4.new_output("display_data", data, metadata=output.get("metadata", {}))
    if output.output_type == "error":
        said = f"{output.ename}: {output.evalue}"
    else:
        said = "".join(output.get("text") or data.get("text/plain", "")).strip("\n")
    with contextlib.suppress(ValueError, SyntaxError):  # of a string, what it says
        value = ast.literal_eval(said)
        said = value if isinstance(value, str) else said
    said = strip_ansi(said)
    return nbformat.v4.new_output("stream", text=said) if said else None


def _cell(source: str, outputs: list[NotebookNode], kind: str) -> NotebookNode:
    return new_code_cell(source, outputs=outputs, metadata={"slideshow": {"slide_type": kind}})
