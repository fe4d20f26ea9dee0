"""What did the learner predict? Nothing, until somebody enters it."""

from __future__ import annotations

from typing import Any


def said(value: Any, unit: str = "") -> str:
    """Return what a title adds once a prediction was entered, and "" before.

    `value` is the form field's, None while it is empty; `unit` stands behind a number.

    >>> said(1000), said("bf16"), said(50, " %"), said(None)
    (' (you said 1,000)', ' (you said bf16)', ' (you said 50 %)', '')
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
