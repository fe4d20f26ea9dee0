"""How far plans are from the truth: what was predicted and then measured."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib import resources

FILE = "accuracy.json"


@dataclass(frozen=True)
class Trial:
    """A network predicted, then measured, on `device`: bytes at the peak, and seconds of a step."""

    device: str
    network: str
    optimizer: str
    date: str
    predicted_peak: int
    measured_peak: int
    predicted_seconds: float
    measured_seconds: float

    @property
    def peak_off(self) -> float:
        """Per cent by which the predicted peak is too high."""
        return 100 * (self.predicted_peak / self.measured_peak - 1)

    @property
    def time_off(self) -> float:
        """Per cent by which the predicted time is too long."""
        return 100 * (self.predicted_seconds / self.measured_seconds - 1)


@dataclass(frozen=True)
class Run:
    """A run that somebody else has published, beside the ceilings of a traced step, in seconds a step.

    `row` is the id of a row of `published`, `point` its place in the series.
    """

    row: str
    point: str
    chip: str
    what: str
    ceilings: float
    measured: float

    @property
    def factor(self) -> float:
        """How many times as long as the ceilings allow."""
        return self.measured / self.ceilings


@functools.cache
def trials() -> tuple[Trial, ...]:
    """Return what was predicted and measured on machines of the course; `make accuracy` adds this one.

    >>> all(abs(trial.peak_off) < 2 for trial in trials())
    True
    """
    return tuple(Trial(**row) for row in _read()["trials"])


@functools.cache
def runs() -> tuple[Run, ...]:
    """Return the published runs and their ceilings.

    >>> all(run.factor > 1 for run in runs())
    True
    """
    return tuple(Run(**row) for row in _read()["runs"])


def slack() -> float:
    """Return how many times as long as its ceilings the slowest of the published runs took.

    >>> 1 < slack() < 20
    True
    """
    return max(run.factor for run in runs())


def _read() -> dict:
    return json.loads(resources.files("colab_helpers.plan").joinpath(FILE).read_text("utf-8"))
