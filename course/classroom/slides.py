"""Which slides does a lesson make? An idea a slide, a prediction before its result, nothing said twice.

Words, code and figures are the lesson's own. What a slide can hold is reckoned in pixels of a page of
1280 × 720; a test opens every deck in a browser and looks whether it was reckoned rightly.
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
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer, TextLexer

from colab_helpers.doctor import raised
from course.classroom import template
from course.write import assemble
from course.write.parts import Note, Part

HEIGHT = 590  # pixels below a slide's title
_TEXT = (74, 40)  # letters a line, pixels a line
#: Sizes of code: up to so high a cell has this one; letters a line, pixels a line.
_CODE = ((340, 62, 38), (440, 74, 31), (HEIGHT - 60, 84, 28))
_SAID = ((13, 86, 30), (21, 106, 24))  # of what a cell says: most lines, letters and pixels a line
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_FORM = re.compile(r"#\s*@title\b|\w+ = .*# @param")
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


@dataclass(frozen=True)
class _Block:
    """A piece of a slide and the pixels that it takes; `last` ends its slide, `alone` has one to itself."""

    html: str
    height: int
    kind: str = ""
    heading: str = ""
    last: bool = False
    alone: bool = False


def sizes(source: str) -> str:
    """Return the cell with a lesson's sizes as a class meets it: without the small ones for checks.

    >>> sizes("FAST = False  # small\\nN = 2 if FAST else 512  # of a matrix")
    'N = 512  # of a matrix'
    """
    lines = source.encode().split(b"\n")
    choices = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.IfExp) and getattr(node.test, "id", "") == "FAST"
    ]
    choices.sort(key=lambda node: -node.col_offset)  # from the right, so that places stay right
    for node in choices:
        line, full = lines[node.lineno - 1], node.orelse
        chosen = line[full.col_offset : full.end_col_offset]
        lines[node.lineno - 1] = line[: node.col_offset] + chosen + line[node.end_col_offset :]
    return "\n".join(line.decode() for line in lines if not line.startswith(b"FAST"))


def of(part: Part, notes: Iterable[Note] = ()) -> list[Slide]:
    """Return the slides of one part; the first has its minutes, and each what the presenter may need."""
    made = [replace(slide, title=slide.title or part.title) for slide in _paged(_blocks(part))]
    mine = [note for note in notes if note.part == part.title]
    text = _NOTES.render(minutes=part.minutes, notes=mine)
    first, *rest = [replace(slide, notes=text) for slide in made or [Slide(part.title, "")]]
    return [replace(first, minutes=part.minutes), *rest]


def code(source: str) -> str:
    """Return Python as HTML, coloured, with its long lines wrapped under themselves."""
    return f'<pre class="code size-{_size(source)}">{_coloured(source)}</pre>'


def _paged(blocks: Iterable[_Block]) -> Iterator[Slide]:
    """Blocks on slides, in order: a new one where the next does not fit, or wants to stand alone."""
    page: list[_Block] = []
    heading = ""
    for block in blocks:
        full = sum(one.height for one in page) + block.height > HEIGHT
        if page and (full or block.alone or block.heading or page[-1].last):
            yield _slide(page, heading)
            page = []
        heading = block.heading or heading
        if block.html:
            page.append(block)
    if page:
        yield _slide(page, heading)


def _slide(page: list[_Block], heading: str) -> Slide:
    kind = next((block.kind for block in page if block.kind), "")
    body = "\n".join(block.html for block in page)
    if all(' fragment">' in block.html for block in page):  # or the slide would be empty at first
        body = body.replace(' fragment">', '">')
    return Slide(heading, body, kind)


def _blocks(part: Part) -> Iterator[_Block]:
    title, solved = "", []
    for cell in part.cells:
        tags = assemble.tags_of(cell)
        title = next(iter(re.findall(r"(?m)^### (.+)$", cell.source)), title)
        if assemble.SOLUTION in tags:
            solved += list(_solution(cell, title))
        elif cell.cell_type == "markdown":
            yield from _words(cell.source)
        else:
            yield from _cell(cell, assemble.EXERCISE in tags)
    yield from solved  # one press after its task would be too soon


def _words(text: str) -> Iterator[_Block]:
    """Paragraphs, lists and tables; a heading of the third level begins a slide, a prediction has its own."""
    heading = ""
    for piece in _pieces(text):
        if piece.startswith("### "):
            heading = piece[4:].strip().replace("`", "")
            yield _Block("", 0, heading=heading)
            continue
        rendered = _MARKDOWN.render(piece)
        if "**Predict" in piece:
            yield _Block(rendered, HEIGHT, kind="predict", last=True, alone=True)
        else:
            yield _Block(rendered, _height(piece))


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
        if _height("\n".join([*tables[-1], row])) > HEIGHT:
            tables.append(head)
        tables[-1] = [*tables[-1], row]
    return ["\n".join(table) for table in tables]


def _halves(piece: str) -> list[str]:
    """A paragraph that would fill a slide, as two."""
    plain = not re.match(r"([-*>|#]|\d+\.|```)", piece)
    if not plain or _height(piece) <= HEIGHT // 2:
        return [piece]
    sentences = re.split(r"(?<=[.?:)]) +(?=[A-Z(*`])", " ".join(piece.split()))
    middle = math.ceil(len(sentences) / 2)
    return [" ".join(half) for half in (sentences[:middle], sentences[middle:]) if half]


def _height(piece: str) -> int:
    letters, pixels = (64, 36) if piece.startswith("|") else _TEXT  # columns wrap by themselves
    if piece.startswith("```"):
        return 32 * (len(piece.splitlines()) - 2) + 40
    rows = piece.splitlines() if re.match(r"([-*|]|\d+\.)", piece) else [" ".join(piece.split())]
    extra = 14 * len(rows) if piece.startswith("|") else 0
    return pixels * sum(math.ceil(len(row) / letters) for row in rows) + 24 + extra


def _cell(cell: NotebookNode, is_exercise: bool) -> Iterator[_Block]:
    source = _CHECK.sub("", cell.source).strip() if is_exercise else cell.source.strip()
    source = _told_to_class(re.sub(r"(?m)\A# needs: .*\n", "", source))
    outputs = [] if is_exercise else list(_outputs(cell))
    if outputs and outputs[-1].kind == "figure":  # how it is drawn is in the notebook
        source = re.sub(r"(?ms)^figures\..*", "", source).strip()
    if not _FORM.match(source) and source:
        pieces = list(_fitting(source))
        for i, piece in enumerate(pieces):
            ends = i + 1 == len(pieces) and not outputs
            yield _Block(code(piece), _code_height(piece), kind="code", last=ends)
    for i, block in enumerate(outputs):
        yield replace(block, last=i + 1 == len(outputs))


def _told_to_class(source: str) -> str:
    """Code without what adds a prediction to a title, and without rows of empty lines."""
    source = re.sub(r"\{said\([^}]*\)\}| \+ said\([^)]*\)", "", source)
    return re.sub(r"\n{3,}", "\n\n", source).strip()


def _fitting(source: str) -> Iterator[str]:
    """Code in pieces that a slide can hold, cut at empty lines, or where there is none in the middle."""
    if _code_height(source) <= HEIGHT - 60:
        yield source
        return
    lines = source.splitlines()
    if len(lines) < 2:
        yield source
        return
    empty = [i for i, line in enumerate(lines) if not line.strip()]
    flush = [i for i, line in enumerate(lines) if i and line[:1].strip() and line[0] not in ")]}"]
    middle = min(empty or flush or [len(lines) // 2], key=lambda i: abs(i - len(lines) / 2))
    for half in (lines[:middle], lines[middle:]):
        yield from _fitting("\n".join(half).strip("\n"))


def _size(source: str) -> int:
    """The largest of the sizes in which code is not too high; the smallest where it always is."""
    fitting = [i for i, (most, *_) in enumerate(_CODE) if _code_height(source, i) <= most]
    return fitting[0] if fitting else len(_CODE) - 1


def _code_height(source: str, size: int | None = None) -> int:
    _, letters, pixels = _CODE[_size(source) if size is None else size]
    rows = (
        math.ceil(len(line.strip()) / max(20, letters - 2 - _indent(line)))
        for line in source.splitlines()
    )
    return pixels * sum(max(1, row) for row in rows) + 44


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _outputs(cell: NotebookNode) -> Iterator[_Block]:
    """What a cell showed: figures on a slide of their own, words below the code on the next click."""
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if isinstance(data.get("image/png"), str):
            yield _figure(data["image/png"], output)
        elif text := _text(output):
            yield _said(text)


def _said(text: str) -> _Block:
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
    return _Block(f'<pre class="said size-{int(small)} fragment">{shown}</pre>', pixels * rows + 40)


def _figure(png: str, output: NotebookNode) -> _Block:
    told = output.get("metadata", {}).get("image/png", {})
    alt = str(told.get("alt", "")) if isinstance(told, dict) else ""
    try:  # whatever a file says is a picture
        picture = base64.b64encode(base64.b64decode(png, validate=False)).decode()
    except ValueError:
        picture = ""
    shown = f'<img src="data:image/png;base64,{picture}" alt="{html.escape(alt)}">'
    return _Block(shown, HEIGHT, kind="figure", alone=True, last=True)


def _text(output: NotebookNode) -> str:
    if output.output_type == "stream":
        text = "" if output.name == "stderr" else output.text
    elif output.output_type == "error":
        text = f"{output.ename}: {output.evalue}"
    else:
        text = output.get("data", {}).get("text/plain", "")
    text = raised.plain("".join(text)).strip("\n")
    quoted = re.fullmatch(r"(['\"])(.*)\1", text.strip(), re.S)
    return quoted[2] if quoted else text


def _solution(cell: NotebookNode, title: str) -> Iterator[_Block]:
    """The folded solution of the task with this title."""
    if found := _SOLUTION.search(cell.source):
        source = html.unescape(found[1]).strip("\n")
        yield _Block("", 0, heading=f"One solution of {title}")
        for piece in _fitting(source):
            yield _Block(code(piece), _code_height(piece), kind="code", last=True)


def _coloured(source: str) -> str:
    lexer = TextLexer() if source.startswith("%") else PythonLexer()
    coloured = highlight(source, lexer, HtmlFormatter(nowrap=True)).rstrip("\n").split("\n")
    indents = [_indent(line) + 2 for line in source.rstrip("\n").split("\n")]
    style = "padding-left:{0}ch;text-indent:-{0}ch"  # what is wrapped stands under its own line
    return "".join(
        f'<span class="line" style="{style.format(indent)}">{line or " "}</span>'
        for line, indent in zip(coloured, indents, strict=True)
    )


def with_outputs(fresh: NotebookNode, executed: NotebookNode) -> NotebookNode:
    """Return the lesson `fresh` with the outputs of cells that `executed` has too."""
    taken = nbformat.from_dict(fresh)
    by_source = {cell.source: cell for cell in executed.cells if cell.cell_type == "code"}
    for cell in taken.cells:
        if cell.cell_type == "code" and cell.source in by_source:
            cell.outputs = by_source[cell.source].get("outputs", [])
    return taken
