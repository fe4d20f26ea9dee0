"""The id and times of this kernel session, and the exercises that were judged in it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class Run:
    """One life of a kernel: an id of its own, when the helper was first used in it, and until when.

    Times are in UTC, as in 2026-11-22T15:44:00+00:00. The id is random and says nothing about who ran it.
    """

    id: str = ""
    began: str = ""
    recorded: str = ""


@dataclass(frozen=True)
class ExerciseResult:
    """What became of an exercise: its last status and message, and how often an answer was judged.

    `tries` does not count looks at a stub that nobody had filled in.
    """

    status: str
    message: str
    tries: int = 0


_ID, _BEGAN = uuid.uuid4().hex, datetime.now(UTC)
_results: dict[str, ExerciseResult] = {}


def record_verdict(exercise: str, status: str, message: str) -> None:
    """Keep what `exercises.check` said: `exercise` is its id, `status` "open", "wrong" or "right".

    `message` is what the learner read.

    >>> record_verdict("99.sum", "wrong", "Read that again.")
    >>> exercise_results()["99.sum"].tries
    1
    """
    before = _results[exercise].tries if exercise in _results else 0
    _results[exercise] = ExerciseResult(status, message, before + (status != "open"))


def exercise_results() -> dict[str, ExerciseResult]:
    """Return every exercise that was judged in this run, by its id."""
    return dict(_results)


def run() -> Run:
    """Return this run, as it is now.

    >>> len(run().id)
    32
    """
    return Run(_ID, _stamp(_BEGAN), _stamp(datetime.now(UTC)))


def _stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
