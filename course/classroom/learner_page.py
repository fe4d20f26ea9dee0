"""What one learner measured, from the notebooks that they ran: a page to keep, to show, to send."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from colab_helpers import _atomic_files, chip_throughput, platform_facts
from colab_lessons.measurements import Value
from colab_lessons.predictions import Prediction
from course.classroom import class_summary, submissions, template
from course.classroom.untrusted_notebook import Notebook, parse, text_of
from course.config import Course
from course.write import output_digests

_RATES = {
    "peak": ("fp32", "FLOP/s"),
    "bandwidth": ("memory", "B/s"),
}  # a record's value -> expected


@dataclass(frozen=True)
class Result:
    """One lesson's results: the run that counts, and what its cells show."""

    work: class_summary.LessonWork
    one: submissions.Submission
    learned: tuple[str, ...]
    pictures: Sequence[tuple[str, str]]


def write(course: Course, folder: Path, target: Path) -> tuple[Path, int]:
    """Write the page on the notebooks in `folder` to `target`; return its path and the number of lessons.

    Of several runs of a lesson the newest counts. Nothing in them is run. Without any no page is written.
    """
    handed = submissions.counted(submissions.read_folder(course, folder))
    newest = {one.lesson: one for one in sorted(handed, key=submissions.recorded) if one.record}
    work = class_summary.summarize(course, list(newest.values()))
    found = [_result(folder, lesson) for lesson in work.lessons]
    page = template("results.html").render(results=found, chips=list(_chips(found)), said=_said)
    return _atomic_files.write(target, page) if found else target, len(found)


def _result(folder: Path, work: class_summary.LessonWork) -> Result:
    [student] = work.students
    notebook = parse((folder / student.submission.file).read_bytes())
    shown = output_digests.pictures(output for cell in notebook.cells for output in cell.outputs)
    return Result(work, student.submission, tuple(_learned(notebook)), shown)


def _said(prediction: Prediction) -> str:
    guess = prediction.guess
    return str(guess) if isinstance(guess, str) else str(Value(guess or 0, prediction.unit, ""))


def _learned(notebook: Notebook) -> Iterator[str]:
    """The lines of what to take away, with the learner's own numbers."""
    for cell in notebook.cells:
        if "takeaways = {" in cell.source:
            for output in cell.outputs:
                yield from text_of(output.get("text")).splitlines()


def _chips(results: Sequence[Result]) -> Iterator[tuple[str, dict[str, str], str]]:
    """What the learner's machines reached, and below what Colab's chips reach as others measured."""
    for device in dict.fromkeys(class_summary.device_of(result.one) for result in results):
        mine = [
            r.one.record
            for r in results
            if class_summary.device_of(r.one) == device and r.one.record
        ]
        values = {
            key: record.values[key] for record in mine for key in _RATES if key in record.values
        }
        if values:
            yield device, {key: str(value) for key, value in values.items()}, "yours"
    for chip in platform_facts.machine_table().by_chip:
        rates = chip_throughput.rates(chip)
        known = {
            key: str(Value(rates[rate].value, unit, ""))
            for key, (rate, unit) in _RATES.items()
            if rate in rates
        }
        guessed = [rates[rate].confidence == "L" for rate, _ in _RATES.values() if rate in rates]
        source = "partly from its data sheet" if any(guessed) else "measured by others"
        yield rates.chip, known, "from its data sheet" if all(guessed) else source
