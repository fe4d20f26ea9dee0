"""The glossary: the course's terms, each with the number that belongs to it and where it is measured."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from colab_lessons import measurements
from course.config import Course, CourseError, Lesson

TERMS = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class Term:
    """A term: what it means, and what a `section` of a `lesson` measures of it: `says` has {} for `value`."""

    name: str
    text: str
    lesson: int
    section: str
    value: str
    says: str


def terms() -> list[Term]:
    """Return all terms, by their names."""
    rows = tomllib.loads(TERMS.read_text("utf-8"))["term"]
    return sorted((Term(**row) for row in rows), key=lambda term: term.name.lower())


def page(course: Course) -> str:
    """Return the page. Raises `CourseError` for a term whose number or section isn't there."""
    lines = [
        "# Glossary",
        "",
        "Each term has a number that belongs to it, as the named machine measured it. Yours will differ: the",
        "lesson measures it in front of you.",
        "",
        "```{glossary}",
    ]
    for term in terms():
        [lesson] = course.select([str(term.lesson)])
        place = f"lessons/{lesson.slug}.ipynb#{_anchor(course, lesson, term)}"
        lines += [
            term.name,
            f"  {term.text} {_number(lesson, term)} [Lesson {lesson.number:02d}, *{term.section}*]({place})",
            "",
        ]
    return "\n".join([*lines, "```", ""])


def _number(lesson: Lesson, term: Term) -> str:
    """The term's number in words, from the newest full run of its lesson."""
    records = [one for one in measurements.load(lesson.slug) if term.value in one.values]
    if not records:
        raise CourseError(
            f"glossary.toml, {term.name}: no record of {lesson.slug} has {term.value}."
        )
    newest = max(records, key=lambda one: one.date)
    said = term.says.format(f"**{newest.values[term.value]}**")
    return f"{said} ({newest.device}, {newest.date})"


def _anchor(course: Course, lesson: Lesson, term: Term) -> str:
    """The address of a section on its page. Raises `CourseError` where the lesson has none of that name."""
    text = (course.root / "lessons" / f"{lesson.slug}.py").read_text("utf-8")
    if not re.search(rf"(?m)^# #+ {re.escape(term.section)}$", text):
        raise CourseError(
            f"glossary.toml, {term.name}: {lesson.slug} has no section {term.section!r}."
        )
    return re.sub(r"[^\w\- ]", "", term.section.lower()).replace(" ", "-")
