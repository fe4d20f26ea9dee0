"""A lesson as slides: an idea a slide, a prediction before its result.

Words, code and figures are the lesson's own. What a slide can hold is reckoned in pixels of a page of
1280 × 720; a test opens every deck in a browser and looks whether it was reckoned rightly.

Why not nbconvert: its decks load from other hosts, and in November 2026 13 of lesson 03's slides were higher
than the page. Here none is, a deck is one file, and it has a version for 45 minutes.
"""

from __future__ import annotations

import ast
import base64
import html
import itertools
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import nbformat
from markdown_it import MarkdownIt
from nbformat import NotebookNode

from colab_doctor import log
from colab_helpers._output import RECORD_MIME
from course.classroom import template
from course.classroom.blocks import HEIGHT, Block, code, code_height, fitting, height_of
from course.write import assemble
from course.write.parts import Note, Part

_SAID = ((13, 86, 30), (21, 106, 24))  # of what a cell says: most lines, letters and pixels a line
_ASKED = (44, 64)  # of a prediction: letters a line, pixels a line
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_FORM = re.compile(r"#\s*@title\b|\w+ = .*# @param")
_TAKEN = re.compile(r"(?m)^takeaways = ")
_QUOTED = re.compile(r"\A(replay\.watch\(.*\n)?facts\.quote\([^)]*\)\s*\Z")
_CHECK = re.compile(r"(?m)^exercises\.check\(.*\Z", re.S)
_SOLUTION = re.compile(r"<pre><code>(.*?)</code></pre>", re.S)
_NOTES = template("notes.html")


@dataclass(frozen=True)
class Slide:
    """One page: title, its HTML, and what only the presenter sees. `kind` is a class for its style."""

    title: str
    body: str
    kind: str = ""
    notes: str = ""
    minutes: int = 0


class _AtFullSize(ast.NodeTransformer):
    """Leaves what a lesson takes without FAST, where no size is given."""

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        test = ast.unparse(node.test)
        if test == "FAST":
            return self.visit(node.orelse)
        return self.visit(node.body) if test.endswith(" is None") else self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        return self.visit(node.values[-1])


def sizes(source: str) -> str:
    """Return the cell with a lesson's sizes as a class meets it: without the small ones for checks.

    >>> sizes("N = N or (2 if FAST else 512)  # of a matrix")
    'N = 512  # of a matrix'
    """
    found = []
    for line in source.splitlines():
        code, mark, comment = line.partition("  # ")
        tree = _AtFullSize().visit(ast.parse(code))
        if tree.body:
            found.append(f"{ast.unparse(tree)}{mark}{comment}")
    return "\n".join(found)


def of(part: Part, notes: Iterable[Note] = ()) -> list[Slide]:
    """Return the slides of one part; the first has its minutes, and each what the presenter may need."""
    made = [replace(slide, title=slide.title or part.title) for slide in _paged(_blocks(part))]
    mine = [note for note in notes if note.part == part.title]
    text = _NOTES.render(minutes=part.minutes, notes=mine)
    first, *rest = [replace(slide, notes=text) for slide in made or [Slide(part.title, "")]]
    return [replace(first, minutes=part.minutes), *rest]


def _paged(blocks: Iterable[Block]) -> Iterator[Slide]:
    """Blocks on slides, in order: a new one where the next does not fit, or wants to stand alone."""
    page: list[Block] = []
    heading = ""
    for block in blocks:
        full = sum(one.height for one in page) + block.height > HEIGHT
        ended = page and page[-1].last and (len(page) > 1 or page[-1].kind)
        new = block.alone or bool(block.heading)
        if block.kind == "predict":  # words may lead to the question; code and what it said may not
            new = any(one.kind or "<pre" in one.html for one in page)
        if page and (full or new or ended):
            yield _slide(page, heading)
            page = []
        heading = block.heading or heading
        if block.html:
            page.append(block)
    if page:
        yield _slide(page, heading)


def _slide(page: list[Block], heading: str) -> Slide:
    kind = next((block.kind for block in page if block.kind), "")
    body = "\n".join(block.html for block in page)
    if all(' fragment">' in block.html for block in page):  # or the slide would be empty at first
        body = body.replace(' fragment">', '">')
    return Slide(heading, body, kind)


def _blocks(part: Part) -> Iterator[Block]:
    title, solved = "", []
    for cell in part.cells:
        tags = assemble.tags_of(cell)
        title = next(iter(re.findall(r"(?m)^### (.+)$", cell.source)), title)
        if assemble.SOLUTION in tags:
            solved += list(_solution(cell, title))
        elif cell.cell_type == "markdown":
            yield from _words(cell.source)
        elif _TAKEN.search(cell.source):
            yield from _takeaways(cell)
            break  # what follows keeps a record
        else:
            yield from _cell(cell, assemble.EXERCISE in tags)
    yield from solved  # one press after its task would be too soon


def _words(text: str) -> Iterator[Block]:
    """Paragraphs, lists and tables; a heading of the third level begins a slide, a prediction ends it."""
    heading = ""
    for piece in _pieces(text):
        if piece.startswith("### "):
            heading = piece[4:].strip().replace("`", "")
            yield Block("", 0, heading=heading)
            continue
        rendered = _MARKDOWN.render(piece)
        if "**Predict" in piece:
            asked = f'<div class="question">{rendered}</div>'
            height = _ASKED[1] * math.ceil(len(piece) / _ASKED[0]) + 90
            yield Block(asked, height, kind="predict", last=True)
        elif len(sentences := _sentences(piece)) > 2:
            text = "\n".join(f"- {sentence}" for sentence in sentences)
            yield Block(_MARKDOWN.render(text), height_of(text))
        else:
            yield Block(rendered, height_of(piece))


def _pieces(text: str) -> list[str]:
    """The blocks of a text, as its Markdown has them; long paragraphs by sentences."""
    lines = text.splitlines()
    pieces = [
        "\n".join(lines[slice(*token.map)]).strip()
        for token in _MARKDOWN.parse(text)
        if token.level == 0 and token.map and token.nesting >= 0
    ]
    return [part for piece in pieces for part in (_tables(piece) or _halves(piece))]


def _tables(piece: str) -> list[str]:
    """A table in pieces that a slide can hold, each with its head; none for what is no table."""
    if not piece.startswith("|"):
        return []
    head, rows = piece.splitlines()[:2], piece.splitlines()[2:]
    tables = [head]
    for row in rows:
        if height_of("\n".join([*tables[-1], row])) > HEIGHT:
            tables.append(head)
        tables[-1] = [*tables[-1], row]
    return ["\n".join(table) for table in tables]


def _halves(piece: str) -> list[str]:
    """A paragraph that would fill a slide, as two."""
    if len(sentences := _sentences(piece)) < 2 or height_of(piece) <= HEIGHT // 2:
        return [piece]
    middle = math.ceil(len(sentences) / 2)
    return [" ".join(half) for half in (sentences[:middle], sentences[middle:]) if half]


def _sentences(piece: str) -> list[str]:
    """The sentences of a paragraph, which a class reads one by one; none of lists, quotations and code."""
    if re.match(r"([-*>|#]|\d+\.|```)", piece) and not piece.startswith("**"):
        return []
    return re.split(
        r"(?:(?<=[.?!])|(?<=[.?!]\)))(?<!\be\.g\.) +(?=[A-Z(*`\d])", " ".join(piece.split())
    )


def _cell(cell: NotebookNode, is_exercise: bool) -> Iterator[Block]:
    if _QUOTED.search(cell.source):
        yield from _facts(cell)
        return
    source = _CHECK.sub("", cell.source).strip() if is_exercise else cell.source.strip()
    source = _told_to_class(re.sub(r"(?m)\A# needs: .*\n", "", source))
    outputs = [] if is_exercise else list(_outputs(cell))
    if outputs and outputs[-1].kind == "figure":  # how it is drawn is in the notebook
        source = re.sub(r"(?ms)^figures\..*", "", source).strip()
        source = source if "\n" in source else ""  # one line before it makes a number for its title
    if not _FORM.match(source) and source:
        pieces = list(fitting(source))
        for i, piece in enumerate(pieces):
            ends = i + 1 == len(pieces) and not outputs
            yield Block(code(piece), code_height(piece), kind="code", last=ends)
    for i, block in enumerate(outputs):
        yield replace(block, last=i + 1 == len(outputs))


def _takeaways(cell: NotebookNode) -> Iterator[Block]:
    """What the class takes home: each idea, and what was measured for it."""
    lines = [line for output in cell.get("outputs", []) for line in _text(output).splitlines()]
    pairs = [tuple(map(html.escape, line.split(": ", 1))) for line in lines if ": " in line]
    if pairs:
        items = "".join(f"<li><b>{idea}</b>: {measured}</li>" for idea, measured in pairs)
        yield Block(f'<ul class="taken">{items}</ul>', HEIGHT, last=True, alone=True)


def _facts(cell: NotebookNode) -> Iterator[Block]:
    """Facts that a cell quotes, as a list, each with its source behind it."""
    for output in cell.get("outputs", []):
        for line in _text(output).splitlines():
            fact, _, source = line.strip().removeprefix("- ").rpartition(" [")
            fact, source = (fact, f" [{source}") if fact else (source, "")
            shown = f'{html.escape(fact)}<span class="small">{html.escape(source)}</span>'
            yield Block(f"<ul><li>{shown}</li></ul>", height_of(f"- {fact}{source}"))


def _told_to_class(source: str) -> str:
    """Code without what adds a prediction to a title, and without rows of empty lines."""
    source = re.sub(r"\{said\([^}]*\)\}| \+ said\([^)]*\)", "", source)
    return re.sub(r"\n{3,}", "\n\n", source).strip()


def _outputs(cell: NotebookNode) -> Iterator[Block]:
    """What a cell showed: figures on a slide of their own, words below the code on the next click."""
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if RECORD_MIME in data:  # the class page reads it; the class need not
            continue
        if isinstance(data.get("image/png"), str):
            yield _figure(data["image/png"], output)
        elif text := _text(output):
            yield _output(text)


def _output(text: str) -> Block:
    """Words that a cell put out, on the next click; small where they are wide or many."""
    lines = text.splitlines()
    small = len(lines) > _SAID[0][0] or max(map(len, lines)) > _SAID[0][1]
    most, letters, pixels = _SAID[small]
    heights = [max(1, math.ceil(len(line) / letters)) for line in lines]
    fitting = sum(height <= most for height in itertools.accumulate(heights))
    if fitting < len(lines):
        left = len(lines) - fitting
        lines = [*lines[:fitting], f"… {left} more line{'s' * (left > 1)}"]
    rows = sum(heights[:fitting]) + 1
    shown = html.escape("\n".join(lines))
    return Block(f'<pre class="said size-{int(small)} fragment">{shown}</pre>', pixels * rows + 40)


def _figure(png: str, output: NotebookNode) -> Block:
    image = output.get("metadata", {}).get("image/png", {})
    alt = str(image.get("alt", "")) if isinstance(image, dict) else ""
    try:  # whatever a file says is a picture
        picture = base64.b64encode(base64.b64decode(png, validate=False)).decode()
    except ValueError:
        picture = ""
    shown = f'<img src="data:image/png;base64,{picture}" alt="{html.escape(alt)}">'
    return Block(shown, HEIGHT, kind="figure", alone=True, last=True)


def _text(output: NotebookNode) -> str:
    if output.output_type == "stream":
        text = "" if output.name == "stderr" else output.text
    elif output.output_type == "error":
        text = f"{output.ename}: {output.evalue}"
    else:
        text = output.get("data", {}).get("text/plain", "")
    text = log.plain("".join(text)).strip("\n")
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, str) else text


def _solution(cell: NotebookNode, title: str) -> Iterator[Block]:
    """The folded solution of the task with this title."""
    if found := _SOLUTION.search(cell.source):
        source = html.unescape(found[1]).strip("\n")
        yield Block("", 0, heading=f"One solution of {title}")
        for piece in fitting(source):
            yield Block(code(piece), code_height(piece), kind="code", last=True)


def with_outputs(fresh: NotebookNode, executed: NotebookNode) -> NotebookNode:
    """Return the lesson `fresh` with the outputs of cells that `executed` has too."""
    taken = nbformat.from_dict(fresh)
    by_source = {cell.source: cell for cell in executed.cells if cell.cell_type == "code"}
    for cell in taken.cells:
        if cell.cell_type == "code" and cell.source in by_source:
            cell.outputs = by_source[cell.source].get("outputs", [])
    return taken
