"""A stored notebook as a page of the site."""

from __future__ import annotations

import re

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from colab_helpers._rich_display import RECORD_MIME
from course.config import Course, Lesson
from course.write import assemble
from course.write.tables import table

_WHITE_ON = re.compile(
    r"color: #ffffff; text-decoration-color: #ffffff; background-color: #([0-9a-f]{6})"
)
_TITLE = re.compile(r"# @title (?P<title>[^{\n]+)")


def page(course: Course, lesson: Lesson) -> NotebookNode:
    """Return a lesson's stored notebook as the site shows it.

    Setup and bookkeeping cells are folded, records and the way to other lessons, which the site has
    itself, are left out, and badges are links with words, since nothing comes from elsewhere.
    """
    notebook = assemble.read(course.notebook(lesson))
    cells = [_title(course, lesson)]
    for cell in notebook.cells[1:]:
        if "navigation" in assemble.tags_of(cell):
            continue
        if cell.cell_type == "code":
            _fold(cell)
        cells.append(cell)
    notebook.cells = cells
    notebook.metadata["language_info"]["pygments_lexer"] = "ipython3"  # which knows `!` and `%`
    return notebook


def index(course: Course) -> str:
    """Return the page that lists the lessons."""
    rows = (
        (
            f"[{lesson.number:02d} {lesson.title}]({lesson.slug}.ipynb)",
            lesson.hardware,
            str(lesson.minutes),
            lesson.measures,
        )
        for lesson in course.lessons
    )
    lines = [
        "# Lessons",
        "",
        "Each is a notebook that runs everywhere, also where there is no accelerator. Here you see what it",
        "measured when it was last stored; *Open in Colab* makes the numbers yours.",
        "",
        table(("lesson", "runtime", "minutes", "you measure or work out"), rows),
        "",
        "```{toctree}",
        ":hidden:",
        "",
        *(lesson.slug for lesson in course.lessons),
        "```",
    ]
    return "\n".join(lines) + "\n"


def kaggle(course: Course, lesson: Lesson) -> str:
    """The address that opens a lesson on Kaggle."""
    place = f"{course.repository.url}/blob/{course.repository.ref}/notebooks/{lesson.slug}.ipynb"
    return f"https://kaggle.com/kernels/welcome?src={place}"


def readable(text: str) -> str:
    """Return a cell's HTML; heads of tables without words are plain cells, and text stands out.

    JAX draws white on every color; on bright ones black is easier to read.
    """
    text = re.sub(r"<th([^>]*)></th>", r"<td\1></td>", text)
    return _WHITE_ON.sub(lambda match: _black_on_bright(match.group(1)), text)


def _black_on_bright(background: str) -> str:
    """The style of a span; the weights of the colors are those of BT.709."""
    red, green, blue = (int(background[i : i + 2], 16) / 255 for i in (0, 2, 4))
    bright = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2 > 0.18
    ink = "#000000" if bright else "#ffffff"
    return f"color: {ink}; text-decoration-color: {ink}; background-color: #{background}"


def _title(course: Course, lesson: Lesson) -> NotebookNode:
    objectives = "\n".join(f"- {objective}" for objective in lesson.objectives)
    hook = f"{lesson.hook}\n\n" if lesson.hook else ""
    buttons = " ".join(
        f"[{name}]({address}){{.start}}"
        for name, address in (
            ("Open in Colab", course.colab_url(lesson)),
            ("Open in Kaggle", kaggle(course, lesson)),
        )
    )
    return new_markdown_cell(
        f"# {lesson.number:02d} · {lesson.title}\n\n{hook}{buttons}\n\n"
        f"**{lesson.minutes} minutes.** {lesson.runs_on} "
        f"[For teachers](../teaching/{lesson.slug}.md)\n\nAfter this lesson you can:\n\n{objectives}",
        id="title",
    )


def _fold(cell: NotebookNode) -> None:
    """Fold what is not the lesson, and leave out records, which are for programs."""
    for output in cell.outputs:
        data = output.get("data", {})
        data.pop(RECORD_MIME, None)
        if "text/html" in data:
            data["text/html"] = readable("".join(data["text/html"]))
    titled = _TITLE.match(cell.source)
    if cell.metadata.get("cellView") != "form" or titled is None:
        return
    cell.metadata["tags"] = [*assemble.tags_of(cell), "hide-input"]
    title = titled.group("title").strip()
    cell.metadata["mystnb"] = {"code_prompt_show": title, "code_prompt_hide": title}
