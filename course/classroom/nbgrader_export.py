"""A lesson as nbgrader's source, for those who grade with it.

nbgrader makes the students' version itself, from the markers that the lesson has anyway. It wants to be
told which cells hold an answer, and which ones judge it: https://nbgrader.readthedocs.io, metadata
schema 3.
"""

from __future__ import annotations

import re

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from course.config import Course, CourseError, Lesson
from course.write import assemble

SCHEMA = 3
POINTS = 1  # an exercise
CONFIG = '''\
"""nbgrader's settings for this course: an open exercise keeps its dots, so that its cell runs."""

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "colab-accelerators"
c.ClearSolutions.code_stub = {"python": "# your answer: replace the dots above"}
c.ExecutePreprocessor.timeout = 600
'''
_CHECK = re.compile(r"(?m)^(exercises\.check\(.*)\Z", re.S)


def assignment(course: Course, lesson: Lesson) -> NotebookNode:
    """Return a lesson as the source of an nbgrader assignment, a point an exercise, without outputs."""
    notebook = assemble.build(course, lesson)
    sources = iter(_exercises(course, lesson))
    cells: list[NotebookNode] = []
    for cell in notebook.cells:
        tags = assemble.tags_of(cell)
        if assemble.EXERCISE in tags:
            cells += _answer_and_test(next(sources), cell.id)
        elif assemble.SOLUTION not in tags:
            cells.append(cell)
    notebook.cells = cells
    return notebook


def _exercises(course: Course, lesson: Lesson) -> list[str]:
    body = assemble.source_cells(course.source(lesson).read_text("utf-8"))
    return [cell.source for cell in body if assemble.EXERCISE in assemble.tags_of(cell)]


def _answer_and_test(source: str, id: str) -> list[NotebookNode]:
    """The answer, between nbgrader's markers, and the cell that judges it."""
    found = _CHECK.search(source)
    if not found:
        raise CourseError(
            "An exercise does not end in exercises.check(…), so nbgrader cannot be told how it is judged. It "
            f"begins with {source.splitlines()[0]!r}."
        )
    check = found[1].strip()
    answer = _CHECK.sub("", source).strip()
    judge = (
        f'verdict = {check}\ndisplay(verdict)\nassert verdict.status == "right", verdict.message'
    )
    return [
        new_code_cell(
            answer, id=id, metadata={"nbgrader": _metadata(f"answer-{id}", solution=True)}
        ),
        new_code_cell(
            judge,
            id=f"{id}-judge",
            metadata={
                "nbgrader": {**_metadata(f"judge-{id}", grade=True), "points": POINTS},
                "tags": ["raises-exception"],  # Run all goes on, to the record at the end
            },
        ),
    ]


def _metadata(grade_id: str, grade: bool = False, solution: bool = False) -> dict:
    return {
        "schema_version": SCHEMA,
        "grade_id": grade_id,
        "grade": grade,
        "solution": solution,
        "locked": grade,
        "task": False,
    }
