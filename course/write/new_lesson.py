"""The files of a new lesson: a row in the table, a text, judges, a teacher's page."""

from __future__ import annotations

import re
from pathlib import Path

from colab_helpers import _atomic_files
from course.config import Course, CourseError

#: What is filled in, by `str.format`: a row, a text, judges, a teacher's page.
TEMPLATES = Path(__file__).parent / "templates"


def create(course: Course, number: str, name: str, title: str) -> list[Path]:
    """Write the files of lesson `number` ("08") called `name` ("plan"), and return them.

    Nothing that is there is touched but course.toml, which gets a row, last. Raises `CourseError` for
    a number or a name that is taken, or is none.
    """
    if not re.fullmatch(r"\d\d", number) or not re.fullmatch(r"[a-z][a-z0-9_]*", name) or not title:
        raise CourseError(
            'Write NN=10 (two figures), NAME=my_topic (small letters) and TITLE="My topic".'
        )
    taken = {lesson.number: lesson.slug for lesson in course.lessons}
    if int(number) in taken:
        raise CourseError(f"Lesson {number} is there: {taken[int(number)]}.")
    words = {"number": int(number), "nn": number, "slug": f"{number}_{name}", "title": title}
    root, slug = course.root, words["slug"]
    texts = {
        root / "lessons" / f"{slug}.py": _filled("lesson.py", words),
        root / "colab_lessons" / "exercises" / f"lesson_{number}.py": _filled("judges.py", words),
        root / "docs" / "teaching" / f"{slug}.md": _filled("page.md", words),
    }
    there = [p for p, text in texts.items() if p.exists() and p.read_text("utf-8") != text]
    if there:
        raise CourseError(f"There is a {there[0].relative_to(root)} already.")
    table = root / "course" / "course.toml"
    quoted = title.replace("\\", "\\\\").replace('"', '\\"')
    row = _filled("row.toml", words | {"title": quoted})
    texts[table] = f"{table.read_text('utf-8').rstrip()}\n{row}"
    return [_atomic_files.write(path, text) for path, text in texts.items()]


def _filled(name: str, words: dict) -> str:
    return (TEMPLATES / f"{name}.txt").read_text("utf-8").format(**words)
