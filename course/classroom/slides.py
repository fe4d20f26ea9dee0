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
from dataclasses import dataclass, field, replace

import markupsafe
import nbformat
from markdown_it import MarkdownIt
from nbformat import NotebookNode

from colab_doctor import log
from colab_helpers._output import RECORD_MIME
from course.classroom import template
from course.classroom.blocks import (
    HEIGHT,
    Block,
    code,
    code_height,
    fitting,
    height_of,
    size_beside,
)
from course.write import assemble
from course.write.parts import Note, Part

#: Sizes of what a cell says: most lines, letters and pixels a line.
_SAID = ((9, 72, 34), (15, 86, 30), (22, 106, 24))
_LEAD = 110  # most pixels of a paragraph that leads to code
_ASKED = (44, 64)  # of a prediction: letters a line, pixels a line
#: Words that go on from something which is said, not shown.
_POINTING = re.compile(r"<(?:p|ul>\s*<li)>(And|But|It|So|That|Then|These|They|This|Those)\b")
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


def of(part: Part, notes: Iterable[Note] = ()) -> list[Slide]:
    """Return the slides of one part; the first has its minutes, and each what the presenter may need."""
    made = _paged(_blocks(part, "words")) or _paged(_blocks(part, ""))
    mine = [note for note in notes if note.part == part.title]
    slides = [
        _slide(page, part.title, mine, 0 if i else part.minutes) for i, page in enumerate(made)
    ]
    return slides or [Slide(part.title, "", minutes=part.minutes)]


@dataclass(frozen=True)
class _Page:
    """A slide as it fills up: what the class sees, and what is said to it."""

    heading: str
    shown: list[Block] = field(default_factory=list)
    said: list[Block] = field(default_factory=list)

    def takes(self, block: Block) -> bool:
        """Whether it goes below what is there: it fits, and nothing there wants to end the slide."""
        height = sum(one.height for one in self.shown) + block.height + block.below
        return height <= HEIGHT and not self.shown[-1].last and not block.alone


def _paged(blocks: Iterable[Block]) -> list[_Page]:
    """Blocks on slides, in order. Words are said: with the block before them, or the one that they begin."""
    pages: list[_Page] = []
    words: list[Block] = []
    heading, is_new = "", True  # whether nothing was shown since the heading
    for block in blocks:
        if block.heading:
            if not is_new:
                pages[-1].said.extend(words)
                words = []
            heading, is_new = block.heading, True
        elif block.kind == "words":
            words.append(block)
        else:
            lead = [replace(one, kind="") for one in _leading(words, block)]
            said, words = words[: len(words) - len(lead)], []
            if is_new:
                pages.append(_Page(heading, said=said))
            else:
                before, after = _parted(said, pages[-1], block)
                pages[-1].said.extend(before)
                begins = said or lead or block.kind == "predict"
                if begins or not pages[-1].takes(block):
                    pages.append(_Page(heading, said=after))
            pages[-1].shown.extend([*lead, block])
            is_new = False
    if pages:
        pages[-1].said.extend(words)
    return pages


def _leading(words: list[Block], block: Block) -> list[Block]:
    """Of the words before a block, those that are shown: what a question goes on from, or a short line."""
    if block.kind == "code" and words and words[-1].height <= _LEAD:
        alone = "<li>" not in words[-1].html and not _POINTING.match(words[-1].html)
        return words[-1:] if alone and words[-1].height + block.height <= HEIGHT else []
    if block.kind != "predict":
        return []
    begin = len(words) - 1
    while begin > 0 and _POINTING.match(words[begin].html):
        begin -= 1
    lead = words[max(begin, 0) :]
    return lead if sum(one.height for one in lead) + block.height <= HEIGHT else []


def _parted(said: list[Block], page: _Page, block: Block) -> tuple[list[Block], list[Block]]:
    """Words between two blocks: what is about the one before, and what introduces the next one."""
    if page.shown[-1].kind == "code" and not page.shown[-1].last:
        return [], said  # code that has said nothing yet
    introduces = len(said) > 1 and block.kind == "code"
    return (said[:-1], said[-1:]) if introduces else (said, [])


def _slide(page: _Page, title: str, notes: list[Note], minutes: int) -> Slide:
    kind = next((block.kind for block in page.shown if block.kind), "")
    body = "\n".join(block.html for block in page.shown)
    if all(' fragment">' in block.html for block in page.shown):  # or it would be empty at first
        body = body.replace(' fragment">', '">')
    said = markupsafe.Markup("\n".join(block.html for block in page.said))
    text = _NOTES.render(minutes=minutes, said=said, notes=notes)
    return Slide(page.heading or title, body, kind, text, minutes)


def _blocks(part: Part, words: str) -> Iterator[Block]:
    """What a part has to show; its paragraphs are of the kind `words`, but those of tasks are shown."""
    is_task = any(assemble.EXERCISE in assemble.tags_of(cell) for cell in part.cells)
    for cell in part.cells:
        tags = assemble.tags_of(cell)
        if assemble.SOLUTION in tags:
            yield from _solution(cell)
        elif cell.cell_type == "markdown":
            yield from _words(cell.source, "" if is_task else words)
        elif _TAKEN.search(cell.source):
            yield from _takeaways(cell)
            break  # what follows keeps a record
        else:
            yield from _cell(cell, assemble.EXERCISE in tags)


def _words(text: str, kind: str) -> Iterator[Block]:
    """Paragraphs, which are said where `kind` is "words"; lists, tables and questions are shown always."""
    pieces = _pieces(text)
    for piece in pieces if kind else itertools.chain(*map(_halves, pieces)):
        rendered = _MARKDOWN.render(piece)
        if piece.startswith("### "):
            yield Block("", 0, heading=piece[4:].strip().replace("`", ""))
        elif "**Predict" in piece:
            asked = f'<div class="question">{rendered}</div>'
            height = _ASKED[1] * math.ceil(len(piece) / _ASKED[0]) + 90
            yield Block(asked, height, kind="predict", last=True)
        elif len(sentences := _sentences(piece)) > 2:
            text = "\n".join(f"- {sentence}" for sentence in sentences)
            yield Block(_MARKDOWN.render(text), height_of(text), kind=kind)
        else:
            yield Block(rendered, height_of(piece), kind=kind if sentences else "")


def _pieces(text: str) -> list[str]:
    """The blocks of a text, as its Markdown has them; long tables in several."""
    lines = text.splitlines()
    pieces = [
        "\n".join(lines[slice(*token.map)]).strip()
        for token in _MARKDOWN.parse(text)
        if token.level == 0 and token.map and token.nesting >= 0
    ]
    return [part for piece in pieces for part in (_tables(piece) or [piece])]


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
    if source and not _FORM.match(source) and not _only_imports(source):
        below = sum(one.height for one in outputs if one.kind != "figure")
        *pieces, last = fitting(source, below)
        for piece in pieces:
            yield Block(code(piece), code_height(piece), kind="code")
        size = size_beside(last, below)
        yield Block(code(last, size), code_height(last, size), below, kind="code")
    else:  # with nothing to show above, a line is said; what has several is shown: a task may ask about it
        is_line = [one.kind != "figure" and "\n" not in one.html for one in outputs]
        outputs = [
            replace(o, kind="words") if s else o for o, s in zip(outputs, is_line, strict=True)
        ]
    for i, block in enumerate(outputs):
        yield replace(block, last=i + 1 == len(outputs))


def _only_imports(source: str) -> bool:
    return not re.sub(r"(?m)^(import |from ).*\n?|\s+", "", source)


def _takeaways(cell: NotebookNode) -> Iterator[Block]:
    """What the class takes home: each idea, and what was measured for it."""
    lines = [line for output in cell.get("outputs", []) for line in _text(output).splitlines()]
    pairs = [tuple(map(html.escape, line.split(": ", 1))) for line in lines if ": " in line]
    if pairs:
        items = "".join(f"<li><b>{idea}</b>: {measured}</li>" for idea, measured in pairs)
        yield Block(f'<ul class="taken">{items}</ul>', HEIGHT, last=True, alone=True)


def _facts(cell: NotebookNode) -> Iterator[Block]:
    """Facts that a cell quotes, each with its source: to be said."""
    for output in cell.get("outputs", []):
        for line in _text(output).splitlines():
            yield Block(f"<p>{html.escape(line.strip().removeprefix('- '))}</p>", 0, kind="words")


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
    """Words that a cell put out, on the next click; small where they are many, or a wide table."""
    lines = text.splitlines()
    few = sum(math.ceil(len(line) / _SAID[0][1]) for line in lines) <= _SAID[0][0] - 3
    wide = max(map(len, lines))
    small = 0 if few else sum(len(lines) > one[0] or wide > one[1] for one in _SAID[:-1])
    most, letters, pixels = _SAID[small]
    heights = [max(1, math.ceil(len(line) / letters)) for line in lines]
    fitting = sum(height <= most for height in itertools.accumulate(heights))
    if fitting < len(lines):
        left = len(lines) - fitting
        lines = [*lines[:fitting], f"… {left} more line{'s' * (left > 1)}"]
    shown = f'<pre class="said size-{small} fragment">{html.escape(chr(10).join(lines))}</pre>'
    return Block(shown, pixels * sum(heights[:fitting]) + 30)


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


def _solution(cell: NotebookNode) -> Iterator[Block]:
    """The folded solution of the task before it, for the presenter."""
    if found := _SOLUTION.search(cell.source):
        yield Block(f"<p>One solution:</p><pre>{found[1]}</pre>", 0, kind="words")


def with_outputs(fresh: NotebookNode, executed: NotebookNode) -> NotebookNode:
    """Return the lesson `fresh` with the outputs of cells that `executed` has too."""
    taken = nbformat.from_dict(fresh)
    by_source = {cell.source: cell for cell in executed.cells if cell.cell_type == "code"}
    for cell in taken.cells:
        if cell.cell_type == "code" and cell.source in by_source:
            cell.outputs = by_source[cell.source].get("outputs", [])
    return taken
