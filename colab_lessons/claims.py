"""A sentence that holds for a number, or says so where it doesn't.

    holds(ratio, 0, 1.5, "A thousand elements take as long as one.", fast=FAST)

It is silent where the sentence is true. Where it isn't, it prints one line with the value that came out, and
a lesson that was stored with such a line doesn't build.
"""

from __future__ import annotations

from colab_helpers import runtime

#: How the line begins.
MARK = "Not on this machine: "


def holds(value: float, low: float, high: float, sentence: str, *, fast: bool = False) -> None:
    """Print what came out where `value` isn't between `low` and `high`, so that `sentence` is false.

    Args:
        value: What the experiment gave; None or NaN is outside every range.
        low: The least for which the sentence is true.
        high: The most.
        sentence: The claim, as the lesson makes it.
        fast: Small sizes, at which nothing is claimed. On a fake GPU nothing is claimed either.

    >>> holds(1.02, 0.5, 1.5, "A thousand elements take as long as one.")
    >>> holds(7.3, 0.5, 1.5, "A thousand elements take as long as one.")
    Not on this machine: A thousand elements take as long as one. The value is 7.3, not 0.5 to 1.5.
    """
    if fast or runtime.describe().platform == "fake-gpu":
        return
    if value is None or not low <= value <= high:
        shown = "missing" if value is None else f"{value:.3g}"
        print(f"{MARK}{sentence} The value is {shown}, not {low:g} to {high:g}.")
