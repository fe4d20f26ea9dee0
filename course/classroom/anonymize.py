"""What files say, without anything that only one student wrote: names, paths, messages, free text.

What stays is the course's own: its questions, choices, units and judges' words, names of chips and errors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from nbformat import NotebookNode

from colab_helpers import hardware
from colab_lessons import measurements
from colab_lessons.measurements import Record
from colab_lessons.predictions import Prediction
from colab_lessons.session_log import ExerciseResult, Run
from course.classroom import questions
from course.classroom.submissions import CellError, Submission, mask

_PROCESSOR = re.compile(
    r"(AMD|Intel|Apple|Arm|ARM|Google|Ampere|AWS)( [A-Z][\w-]{1,12}){1,3}(, \d+ cores?)?"
)
#: In a judge's words: what the learner's own code raised, whose text may quote a path or a name.
_RAISED = re.compile(r"\((\w{1,60}): .*\)", re.DOTALL)
_ERROR = re.compile(r"[A-Za-z_][\w.]{0,60}(?=:|$)")


def anonymize(
    built: Mapping[str, NotebookNode], received: Sequence[Submission]
) -> list[Submission]:
    """Return `received` with numbers for files, and without what only one student wrote.

    `built` are the course's own notebooks, by the names of the lessons.
    """
    files = {one.file: f"file {place}" for place, one in enumerate(received, 1)}
    choices = {
        question.name: set(question.choices)
        for notebook in built.values()
        for question in questions.predictions_in(notebook)
    }
    meanings = {
        value.meaning
        for slug in built
        for own in measurements.load(slug)
        for value in own.values.values()
    }
    said = Counter(
        (one.lesson, id, mask(tried.message))
        for one in received
        if not one.duplicate_of
        for id, tried in one.exercises.items()
    )
    return [_without_words(one, files, choices, meanings, said) for one in received]


def _without_words(
    one: Submission,
    files: Mapping[str, str],
    choices: Mapping[str, set[str]],
    meanings: set[str],
    said: Mapping[tuple, int],
) -> Submission:
    kept = {
        id: replace(tried, message=_shared(one, id, tried, said))
        for id, tried in one.exercises.items()
    }
    return replace(
        one,
        file=files[one.file],
        duplicate_of=files.get(one.duplicate_of, ""),
        record=_record(one.record, meanings) if one.record else None,
        predictions={n: _prediction(p, choices.get(n, set())) for n, p in one.predictions.items()},
        exercises=kept,
        errors=tuple(map(_error, one.errors)),
        problems=tuple(mask(text.partition(": ")[0]) for text in one.problems),
    )


def _shared(one: Submission, id: str, tried: ExerciseResult, said: Mapping[tuple, int]) -> str:
    """The judge's words, if more than one student got them; what one alone got may quote them."""
    words = mask(tried.message)
    if said[one.lesson, id, words] < 2:
        return "(a message that only this student got)"
    return _RAISED.sub(r"(\1)", words)  # two who sit together read the same file


def _prediction(one: Prediction, choices: set[str]) -> Prediction:
    guess, measured = (
        value if not isinstance(value, str) or value in choices else "another answer"
        for value in (one.guess, one.measured)
    )
    return replace(one, guess=guess, measured=measured, unit=one.unit if len(one.unit) <= 8 else "")


def _record(record: Record, meanings: set[str]) -> Record:
    run = record.run.id if re.fullmatch(r"[0-9a-f-]{1,40}", record.run.id) else ""
    return replace(
        record,
        device=_device(record.device),
        values={key: value for key, value in record.values.items() if value.meaning in meanings},
        run=Run(run, "", ""),
        predictions={},
        exercises={},
    )


def _device(name: str) -> str:
    chip = hardware.find_chip(name)
    if chip is not None:
        return chip.name
    return name if _PROCESSOR.fullmatch(name) else "another device"


def _error(error: CellError) -> CellError:
    kind = _ERROR.match(error.text)
    return replace(error, text=kind[0] if kind else "an error")
