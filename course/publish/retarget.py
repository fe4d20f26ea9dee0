"""How does a fork make every badge and set-up cell point at itself?"""

from __future__ import annotations

import re
from pathlib import Path

from course.build import assemble, pages
from course.table import Course, CourseError, load


def retarget(course: Course, repository: str, branch: str | None = None) -> list[Path]:
    """Write owner/name (and a branch) into pyproject.toml, rebuild, and return the changed files.

    Raises `CourseError` when `repository` is not owner/name.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+", repository):
        raise CourseError(f"REPO={repository}: write owner/name, as in REPO=ada/gpu-course.")
    project = course.root / "pyproject.toml"
    text = project.read_text("utf-8")
    text = re.sub(r'(?m)^(Repository = )".*"$', rf'\1"https://github.com/{repository}"', text)
    if branch:
        text = re.sub(r'(?m)^(branch = )"[^"]*"', rf'\1"{branch}"', text)
    project.write_text(text, "utf-8")
    moved = load(course.root)
    changed = [project, *(assemble.write(moved, lesson) for lesson in moved.lessons)]
    return [*changed, *_move_links(course, moved), *pages.write(moved)]


def _move_links(old: Course, new: Course) -> list[Path]:
    """Point the links in stored and recorded outputs, such as a card's, at the new address.

    Returns the files with recorded outputs.
    """
    notebooks = [new.notebook(lesson) for lesson in new.lessons]
    recorded = list((new.root / "colab_helpers" / "reference" / "outputs").glob("*.json"))
    for path in (*notebooks, *recorded):
        text = path.read_text("utf-8")
        moved = text.replace(f"{old.repository.url}/", f"{new.repository.url}/")
        path.write_text(moved, "utf-8")
    return recorded
