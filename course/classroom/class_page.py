"""What the class handed in, as one page that opens offline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from course.classroom import template
from course.classroom.class_summary import (
    FAR,
    ClassWork,
    LessonWork,
    PredictionStats,
    Student,
    device_of,
)
from course.classroom.submissions import Submission

_WIDTH, _EDGE, _DOT = 740, 60, 13  # of a row of dots: pixels, room at both ends, height of a dot
_WIDEST = 1000  # times off; who is farther off stands at the edge


@dataclass(frozen=True)
class _Row:
    who: str
    chip: str
    ran: int
    predicted: str
    exercises: str
    notes: str


@dataclass(frozen=True)
class _Dot:
    x: float
    y: int
    far: bool
    title: str


def page(work: ClassWork, received: Sequence[Submission], names: bool = False) -> str:
    """Return the page. Whatever a notebook says is text there; with `names`, also what one student wrote."""
    work = work if names else work.without_names or work
    students = {one.number: one for lesson in work.lessons for one in lesson.students}
    left = {one.file: place for place, one in enumerate(work.left_out, 1)}

    def file(one: Submission) -> str:
        return f"{one.file if names else f'file {left[one.file]}'} ({one.saved})"

    def reason(one: Submission) -> str:
        if not one.duplicate_of:
            return "; ".join(one.problems)
        number = next(
            (n for n, s in students.items() if s.submission.file == one.duplicate_of), None
        )
        other = one.duplicate_of if names else f"student {number}'s" if number else "another file"
        return f"the same as {other}"

    return template("class.html").render(
        work=work,
        names=names,
        counted=len(students),
        files=len(received),
        rows=lambda lesson: [_row(one, lesson, names) for one in lesson.students],
        dots=lambda guess: _dots(guess, students, names),
        ticks=[
            {"x": _x(times), "label": _times(times)}
            for times in (0.001, 0.01, 0.1, 1, 10, 100, 1000)
        ],
        error=lambda met: met.error.text,
        who=lambda numbers: ", ".join(_who(students[number], names) for number in numbers),
        file=file,
        reason=reason,
    )


def _row(student: Student, lesson: LessonWork, names: bool) -> _Row:
    submission = student.submission
    counts = [
        sum(tried.status == status for tried in submission.exercises.values())
        for status in ("right", "wrong", "open")
    ]
    made = sum(one.made for one in submission.predictions.values())
    return _Row(
        _who(student, names),
        device_of(submission),
        submission.ran,
        f"{made} of {len(lesson.predictions)}",
        ", ".join(map(str, counts)),
        "; ".join(_notes(submission)),
    )


def _notes(submission: Submission) -> list[str]:
    """What is worth knowing of one file."""
    notes = ["nothing was run"] if submission.untouched else []
    if submission.ran and submission.record is None and not submission.problems:
        notes.append("no record: the run did not reach its end")
    if others := submission.copies:
        notes.append(f"{others} other file{'s' * (others > 1)} with the same run: see below")
    return [*notes, *submission.problems]


def _who(student: Student, names: bool) -> str:
    return student.submission.file if names else f"student {student.number}"


def _dots(guess: PredictionStats, students: dict[int, Student], names: bool) -> list[_Dot]:
    """A dot for each, one above the other where several stand at one place; heights count from below."""
    found: list[_Dot] = []
    for number, off in guess.times_off:
        x = round(_x(off), 1)
        below = [dot.y for dot in found if abs(dot.x - x) < _DOT]
        far = not 1 / FAR <= off <= FAR
        title = f"{_who(students[number], names)}: {_times(off)}"
        found.append(_Dot(x, max(below, default=0) + _DOT, far, title))
    return found


def _x(times: float) -> float:
    reach = max(-3.0, min(3.0, math.log10(times))) / math.log10(_WIDEST)
    return _WIDTH / 2 + reach * (_WIDTH / 2 - _EDGE)


def _times(off: float) -> str:
    if 0.95 < off < 1.05:
        return "right"
    times = max(off, 1 / off)
    text = f"{times:,.0f}" if times >= 10 else f"{times:.2g}"
    return f"{text} times" if off > 1 else f"1/{text}"
