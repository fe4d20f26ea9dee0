"""A class's work together: who was off and in which direction, what was hard, what failed."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nbformat import NotebookNode

from colab_helpers import hardware
from colab_lessons.measurements import Value
from colab_lessons.predictions import Prediction
from course.classroom import questions
from course.classroom.anonymize import anonymize
from course.classroom.questions import Question
from course.classroom.submissions import CellError, Submission, counted, mask
from course.config import Course
from course.write import assemble

NEAR = 2  # times too much or too little that count as near
FAR = 10  # times that a class should talk about


@dataclass(frozen=True)
class Student:
    """One file that counts, with the number that stands for whoever handed it in."""

    number: int
    submission: Submission


@dataclass(frozen=True)
class PredictionStats:
    """The answers to one question: (number of the student, prediction)."""

    question: Question
    answers: tuple[tuple[int, Prediction], ...]

    @property
    def made(self) -> list[tuple[int, Prediction]]:
        """Those who predicted something."""
        return [(number, one) for number, one in self.answers if one.made]

    @property
    def times_off(self) -> list[tuple[int, float]]:
        """Those who can be told by how many times they were off, from too little to too much."""
        found = [(number, one.times_off) for number, one in self.made]
        return sorted(((n, off) for n, off in found if off is not None), key=lambda pair: pair[1])

    @property
    def too_little(self) -> list[int]:
        """Those who said less than a tenth of what was measured."""
        return [number for number, off in self.times_off if off < 1 / FAR]

    @property
    def too_much(self) -> list[int]:
        """Those who said more than ten times what was measured."""
        return [number for number, off in self.times_off if off > FAR]

    @property
    def near(self) -> list[int]:
        """Those who were off by less than a factor of two."""
        return [number for number, off in self.times_off if 1 / NEAR < off < NEAR]

    @property
    def not_compared(self) -> int:
        """How many said something that no factor can be told for: a word, zero, a negative number, no run."""
        return len(self.made) - len(self.times_off) if self.times_off else 0

    @property
    def words(self) -> list[tuple[str, int, int]]:
        """For answers in words: each with how often it was said, and how often it was what came out."""
        answers = Counter(str(one.guess) for _, one in self.made if isinstance(one.guess, str))
        was = Counter(str(one.measured) for _, one in self.answers if isinstance(one.measured, str))
        return [
            (word, answers[word], was[word])
            for word in sorted(answers | was, key=lambda w: -answers[w])
        ]

    @property
    def measured(self) -> str:
        """What came out in this class, from least to most."""
        numbers = [
            (one.measured, one.unit)
            for _, one in self.answers
            if isinstance(one.measured, (int, float)) and not isinstance(one.measured, bool)
        ]
        if not numbers:
            return ""
        low, high = (pick(numbers, key=lambda pair: pair[0]) for pick in (min, max))
        texts = [str(Value(number, unit, "")) for number, unit in (low, high)]
        return texts[0] if texts[0] == texts[1] else f"{texts[0]} to {texts[1]}"


@dataclass(frozen=True)
class Task:
    """One exercise: which students stand where, and wrong answers by the mistake that its judge named."""

    id: str
    title: str
    by_status: Mapping[str, tuple[int, ...]]
    mistakes: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Machine:
    """A chip in the room: how many had it, its data sheet in a few words, what each lesson measured there."""

    name: str
    students: tuple[int, ...]
    sheet: str
    measured: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ErrorGroup:
    """An error that was met: its text, what it means where that is known, and by whom."""

    error: CellError
    students: tuple[int, ...]


@dataclass(frozen=True)
class LessonWork:
    """What a class handed in for one lesson."""

    slug: str
    title: str
    students: tuple[Student, ...]
    predictions: tuple[PredictionStats, ...]
    tasks: tuple[Task, ...]

    @property
    def topics(self) -> list[str]:
        """What to talk about: where most were far off, the commonest mistake, what most left open."""
        found = [_far_off(self.predictions)]
        hard = max(self.tasks, key=lambda task: len(task.by_status["wrong"]), default=None)
        if hard and hard.mistakes:
            wrong = len(hard.by_status["wrong"])
            text, who = hard.mistakes[0]
            same = f"; {len(who)} of them made the same mistake: {text}" if len(who) > 1 else "."
            found.append(f"Exercise {hard.title}: {wrong} have a wrong answer{same}")
        left = max(self.tasks, key=lambda task: len(task.by_status["open"]), default=None)
        if left and 2 * len(left.by_status["open"]) > len(self.students):
            many = f"{len(left.by_status['open'])} of {len(self.students)}"
            found.append(f"Exercise {left.title} is open for {many}.")
        return [topic for topic in found if topic]


@dataclass(frozen=True)
class ClassWork:
    """All that a class handed in; `left_out` are files that do not count, and `problems` say why.

    `without_names` is the same without anything that only one student wrote.
    """

    lessons: tuple[LessonWork, ...]
    machines: tuple[Machine, ...]
    errors: tuple[ErrorGroup, ...]
    left_out: tuple[Submission, ...]
    without_names: ClassWork | None = None

    @property
    def compared(self) -> list[tuple[str, list[str]]]:
        """What was measured, a row a value, beside each other on the machines that measured anything."""
        there = [dict(machine.measured) for machine in self.measuring]
        meanings = sorted({meaning for one in there for meaning in one})
        return [(meaning, [one.get(meaning, "") for one in there]) for meaning in meanings]

    @property
    def measuring(self) -> list[Machine]:
        """The machines that measured anything."""
        return [machine for machine in self.machines if machine.measured]


def summarize(course: Course, received: Sequence[Submission]) -> ClassWork:
    """Return what files say together; `received` is what `submissions.read_folder` gives."""
    built = {lesson.slug: assemble.build(course, lesson) for lesson in course.lessons}
    hidden = _summarize(course, built, anonymize(built, received))
    return replace(_summarize(course, built, received), without_names=hidden)


def _summarize(
    course: Course, built: Mapping[str, NotebookNode], received: Sequence[Submission]
) -> ClassWork:
    students = [Student(number, one) for number, one in enumerate(counted(received), 1)]
    lessons = [
        LessonWork(
            lesson.slug,
            f"{lesson.number:02d} · {lesson.title}",
            tuple(mine),
            tuple(_predictions(questions.predictions_in(built[lesson.slug]), mine)),
            tuple(_tasks(questions.exercises(built[lesson.slug]), mine)),
        )
        for lesson in course.lessons
        if (mine := [one for one in students if one.submission.lesson == lesson.slug])
    ]
    kept = {one.submission.file for one in students}
    return ClassWork(
        tuple(lessons),
        tuple(_machines(students)),
        tuple(_errors(students)),
        tuple(one for one in received if one.file not in kept),
    )


def _far_off(predictions: Sequence[PredictionStats]) -> str:
    """The question at which most were off by more than ten; "" where nobody was."""
    far = max(predictions, key=lambda one: len(one.too_much) + len(one.too_little), default=None)
    much, little = (len(far.too_much), len(far.too_little)) if far else (0, 0)
    if far is None or not much + little:
        return ""
    ways = {True: "mostly too much", False: "mostly too little"}
    way = ways[much > little] if much != little else "in both directions"
    asked = far.question.text.replace("*", "").replace("`", "")
    return (
        f"{asked} {much + little} of {len(far.times_off)} were off by more than {FAR} times, {way}."
    )


def _predictions(
    asked: Iterable[Question], students: Sequence[Student]
) -> Iterable[PredictionStats]:
    for question in asked:
        answers = [
            (one.number, one.submission.predictions[question.name])
            for one in students
            if question.name in one.submission.predictions
        ]
        yield PredictionStats(question, tuple(answers))


def _tasks(titles: Mapping[str, str], students: Sequence[Student]) -> Iterable[Task]:
    for id, title in titles.items():
        by_status: dict[str, list[int]] = {"right": [], "wrong": [], "open": []}
        mistakes: dict[str, list[int]] = defaultdict(list)
        texts: dict[str, str] = {}  # one student's words stand for all who made the same mistake
        for one in students:
            tried = one.submission.exercises.get(id)
            if tried is not None:
                by_status[tried.status].append(one.number)
                if tried.status == "wrong":
                    mistakes[mask(tried.message)].append(one.number)
                    texts.setdefault(mask(tried.message), tried.message)
        ordered = sorted(mistakes.items(), key=lambda item: (-len(item[1]), item[0]))
        yield Task(
            id,
            title.replace("`", ""),
            {status: tuple(numbers) for status, numbers in by_status.items()},
            tuple((texts[kind].replace("`", ""), tuple(numbers)) for kind, numbers in ordered),
        )


def _machines(students: Sequence[Student]) -> Iterable[Machine]:
    by_name: dict[str, list[Student]] = defaultdict(list)
    for one in students:
        if one.submission.record:
            by_name[device_of(one.submission)].append(one)
    for name, mine in sorted(by_name.items(), key=lambda item: (-len(item[1]), item[0])):
        values: dict[tuple[str, str], list[Value]] = defaultdict(list)
        for one in mine:
            record = one.submission.record
            if record and record.platform != "fake-gpu" and not record.fast:
                for value in record.values.values():
                    values[f"{record.lesson[:2]}: {value.meaning}", value.unit].append(value)
        measured = tuple((meaning, _range(found)) for (meaning, _), found in sorted(values.items()))
        yield Machine(name, tuple(one.number for one in mine), _sheet(name), measured)


def device_of(submission: Submission) -> str:
    """The chip that a record names; a fake GPU and small sizes are said."""
    record = submission.record
    if record is None:
        return ""
    more = " (fake GPU: nothing measured)" if record.platform == "fake-gpu" else ""
    return f"{record.device}{more or (' (small sizes)' if record.fast else '')}"[:120]


def _sheet(name: str) -> str:
    chip = hardware.find_chip(name)
    if chip is None:
        return ""
    peaks = ", ".join(f"{Value(peak, 'FLOP/s', '')} in {key}" for key, peak in chip.peak.items())
    return f"{peaks}; {Value(chip.bandwidth, 'B/s', '')}; {Value(chip.memory, 'B', '')}"


def _range(values: Sequence[Value]) -> str:
    numbers = sorted(value.number for value in values)
    unit = values[0].unit
    texts = [
        str(Value(number, unit, ""))
        for number in (numbers[0], statistics.median(numbers), numbers[-1])
    ]
    return texts[1] if len(numbers) == 1 else f"{texts[1]} ({texts[0]} to {texts[2]})"


def _errors(students: Sequence[Student]) -> Iterable[ErrorGroup]:
    met: dict[str, list[int]] = defaultdict(list)
    first: dict[str, CellError] = {}
    for one in students:
        for error in one.submission.errors:
            key = error.id or mask(error.text)
            first.setdefault(key, error)
            if one.number not in met[key]:
                met[key].append(one.number)
    for key, numbers in sorted(met.items(), key=lambda item: (-len(item[1]), item[0])):
        yield ErrorGroup(first[key], tuple(numbers))
