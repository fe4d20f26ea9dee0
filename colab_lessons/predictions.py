"""What the learner predicted, beside what came out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

_MAX_CHARS = 120  # characters of an answer that a record keeps


def your_prediction(value: Any, unit: str = "") -> str:
    """Return what a title adds once a prediction was entered, and "" before.

    `value` is the form field's, None while it is empty; `unit` stands behind a number.

    >>> your_prediction(1000), your_prediction("bf16"), your_prediction(50, "%"), your_prediction(None)
    (' (you said 1,000)', ' (you said bf16)', ' (you said 50%)', '')
    """
    if value is None or value == "":
        return ""
    text = (
        f"{value:,g}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else value
    )
    return f" (you said {text}{unit})"


@dataclass(frozen=True)
class Prediction:
    """A prediction beside what was measured, both in `unit`; `guess` is None where none was entered.

    Numbers stay numbers, and everything else becomes a short text: a record has to be plain data.

    >>> Prediction(10, 1.7, "×"), Prediction(None, "run").made
    (Prediction(guess=10, measured=1.7, unit='×'), False)
    """

    guess: float | str | None
    measured: float | str | None
    unit: str = ""

    def __post_init__(self) -> None:
        for name in ("guess", "measured"):
            object.__setattr__(self, name, _plain(getattr(self, name)))

    @property
    def made(self) -> bool:
        """Whether somebody entered one."""
        return self.guess is not None

    @property
    def times_off(self) -> float | None:
        """The guess over what was measured: 10 is ten times too much; None for words and zeros.

        >>> Prediction(100, 10).times_off, Prediction(0, 10).times_off
        (10.0, None)
        """
        if isinstance(self.guess, str) or isinstance(self.measured, str):
            return None
        if not self.guess or not self.measured or self.guess * self.measured < 0:
            return None
        ratio = self.guess / self.measured
        return ratio if 0 < ratio < math.inf else None


def _plain(value: Any) -> float | str | None:
    if value is None or value == "":
        return None
    if isinstance(value, int) and abs(value) < 2**53:
        return value
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return str(value)[:_MAX_CHARS]
    return number if math.isfinite(number) else str(number)
