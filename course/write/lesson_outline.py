"""The parts of a lesson, how long each is, and what the teacher asks there.

A part is what stands under a heading of the second level. Its minutes are tags of the cell with that
heading: `minutes-10` in the whole lesson, `short-5` in the cut of 45 minutes, where they differ.
Questions come from the lesson's page for teachers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nbformat import NotebookNode

from course.config import Course, CourseError, Lesson
from course.write import assemble

SHORT_MINUTES = 45  # minutes of the short cut
_HEADING = re.compile(r"## (.+)\n*")
_FENCED = re.compile(r"```.*?```", re.DOTALL)
_ASKED = re.compile(r"(?m)^- (\*[^*\n]+\*) <!-- (.+?) --> (.+\n)((?:  .+\n?)*)")
_TOLD = re.compile(r"(?m)^- ((?!\*).+?) <!-- (.+?) -->\n((?:  .+\n)*)")


@dataclass(frozen=True)
class Part:
    """What stands under one heading; `short` is its minutes in the cut of 45, 0 where that leaves it out."""

    title: str
    minutes: int
    short: int
    cells: tuple[NotebookNode, ...]


@dataclass(frozen=True)
class Note:
    """What a teacher's page has for one part: a question with its answer, or what other chips show."""

    part: str
    text: str
    answer: str = ""


def split_into_parts(lesson: Lesson, notebook: NotebookNode) -> list[Part]:
    """Return the parts of a lesson's notebook in order; what stands above the first heading is no part.

    Raises `CourseError` for a part without minutes, and for a heading inside a cell.
    """
    found: list[Part] = []
    for cell in notebook.cells:
        is_text = cell.cell_type == "markdown"
        if is_text and re.search(r"\n## ", cell.source):
            raise CourseError(
                f"{lesson.slug}: a heading of the second level begins a cell. Put `# %% [markdown]` before "
                f"the one in '{cell.source[:60]}'."
            )
        if is_text and (heading := _HEADING.match(cell.source)):
            minutes, short = _minutes(lesson, heading[1], cell)
            found.append(Part(heading[1], minutes, short, (cell,)))
        elif found:
            found[-1] = replace(found[-1], cells=(*found[-1].cells, cell))
    return found


def cut(parts: Sequence[Part]) -> list[Part]:
    """Return what the short cut shows: parts that have minutes there."""
    return [replace(part, minutes=part.short) for part in parts if part.short]


def problems(lesson: Lesson, parts: Sequence[Part]) -> list[str]:
    """Say where minutes do not add up to the class time, or to the short cut's."""
    whole, short = sum(part.minutes for part in parts), sum(part.short for part in parts)
    wanted = min(SHORT_MINUTES, lesson.minutes)
    found = []
    if whole != lesson.minutes:
        found.append(
            f"its parts have {whole} minutes, and course.toml says {lesson.minutes}: change a tag."
        )
    if short != wanted:
        found.append(f"the short cut has {short} minutes instead of {wanted}: change a tag.")
    found += [
        f"'{part.title}' is longer in the short cut." for part in parts if part.short > part.minutes
    ]
    return found


def estimate(parts: Sequence[Part], run_seconds: float) -> float:
    """Return the minutes that a class needs: one formula for all lessons.

    130 words of prose and 8 lines of open code a minute, 90 seconds for each prediction, two exercises of
    3 minutes, and the seconds of a full run.
    """
    cells = [cell for part in parts for cell in part.cells]
    prose = _FENCED.sub(" ", "\n".join(cell.source for cell in cells if cell.cell_type != "code"))
    code = [
        cell.source for cell in cells if cell.cell_type == "code" and "# @title" not in cell.source
    ]
    predictions = sum("# @param" in source for source in code)
    lines = sum(bool(line.strip()) for source in code for line in source.splitlines()) - predictions
    return len(prose.split()) / 130 + lines / 8 + 1.5 * predictions + 6 + run_seconds / 60


def notes(course: Course, lesson: Lesson) -> list[Note]:
    """Return what the lesson's page for teachers has for its parts, in the page's order."""
    text = _page(course, lesson)
    asked = [
        Note(part, f"{label} {_line(question)}", _line(answer).strip("*"))
        for label, part, question, answer in _ASKED.findall(text)
    ]
    stated = [Note(part, _line(first + " " + rest)) for first, part, rest in _TOLD.findall(text)]
    return asked + stated


def unmatched_questions(course: Course, lesson: Lesson) -> list[str]:
    """Say which questions of the page for teachers have no part, or no answer, where they are read."""
    text = _page(course, lesson)
    _, _, below = text.partition("\n## Questions for the class")
    written = len(re.findall(r"(?m)^[-*] ", below.partition("\n## ")[0]))
    found = [note for note in notes(course, lesson) if note.answer]
    if len(found) == written:
        return []
    return [
        f"docs/teaching/{lesson.slug}.md: {written} questions, and {len(found)} can be read. Each is a line "
        "- *At it:* <!-- the part --> question, and its **answer** below."
    ]


def wrong_answers(course: Course, lesson: Lesson) -> list[tuple[str, str]]:
    """Return what learners often say wrongly, and what to ask back, from the page for teachers."""
    text = _page(course, lesson)
    _, _, below = text.partition("## Common wrong answers")
    rows = re.findall(r"(?m)^\| (.+?) \| (.+?) \|$", below.partition("\n## ")[0])
    return [row for row in rows if row[0] != "they say"]


def _page(course: Course, lesson: Lesson) -> str:
    """The lesson's page for teachers."""
    return (course.root / "docs" / "teaching" / f"{lesson.slug}.md").read_text("utf-8")


def _minutes(lesson: Lesson, title: str, cell: NotebookNode) -> tuple[int, int]:
    tags = {
        match[1]: int(match[2])
        for tag in assemble.tags_of(cell)
        if (match := re.fullmatch(r"(minutes|short)-(\d+)", tag))
    }
    if "minutes" not in tags:
        raise CourseError(
            f"{lesson.slug}: the part '{title}' has no minutes. Tag its cell, as in "
            '# %% [markdown] tags=["minutes-5"].'
        )
    return tags["minutes"], tags.get("short", tags["minutes"])


def _line(text: str) -> str:
    return " ".join(text.split())
