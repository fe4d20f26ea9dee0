"""What do the two sizes in the message say of each other?"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from colab_helpers.doctor.clues.clue import Clue, Raised

#: How messages name two sizes that should be one.
_PAIRS = (
    re.compile(r"cannot be multiplied \(\d{1,9}x(\d{1,9}) and (\d{1,9})x\d{1,9}\)"),
    re.compile(r"tensor a \((\d{1,9})\) must match the size of tensor b \((\d{1,9})\)"),
    re.compile(r"size (\d{1,9}) is different from (\d{1,9})"),
    re.compile(r"dimensions must be equal, but are (\d{1,9}) and (\d{1,9}) for", re.IGNORECASE),
    re.compile(r"numbers of samples: \[(\d{1,9}), (\d{1,9})\]"),
    re.compile(r"\((\d{1,9}),?\) and \((\d{1,9}),?\)"),
)
_CHANNELS = re.compile(
    r"expected input\[(?:\d{1,9}, ){1,4}(\d{1,9})\] to have (\d{1,9}) channels, but got (\d{1,9})"
)
_SMALLEST = 8  # of a side; below, squares are everywhere
_MOST = 16  # times a side


def clues(raised: Raised) -> Iterator[Clue]:
    """Yield what the numbers of `raised` have to do with each other, where two sizes do not fit."""
    channels = _CHANNELS.search(raised.text)
    if channels and channels[1] == channels[2] != channels[3]:
        seen = f"The last size of the input is {channels[1]}, as many as channels are wanted: they are last."
        yield Clue("channels-first", seen, "")
    pair = next((match for each in _PAIRS if (match := each.search(raised.text))), None)
    if pair is None:
        return
    seen = _relation(int(pair[1]), int(pair[2]))
    if seen:
        yield Clue("tensor-shapes", seen, "")


def is_flattened(one: int, other: int) -> bool:
    """Say whether of `one` size and the `other` one is a side, and the other all of its picture.

    >>> is_flattened(28, 784), is_flattened(3072, 32), is_flattened(28, 785)
    (True, True, False)
    """
    small, large = sorted((one, other))
    return small >= _SMALLEST and large in (small**2, 3 * small**2)


def _relation(one: int, other: int) -> str:
    """What two sizes have to do with each other; "" for nothing.

    >>> _relation(28, 784)
    '784 = 28 × 28: one of the two was flattened or reshaped, and the other was not.'
    """
    small, large = sorted((one, other))
    if small < _SMALLEST:
        return ""
    if is_flattened(one, other):
        told = "3 × " if large == 3 * small**2 else ""
        how = "one of the two was flattened or reshaped, and the other was not."
        return f"{large} = {told}{small} × {small}: {how}"
    if large - small == 1:
        why = "a value too many was kept, or a picture with an odd side was halved."
        return f"{large} and {small} differ by one: {why}"
    side = math.isqrt(large // small)
    if 1 < side <= _MOST and small * side**2 == large:
        return f"{large} = {side} × {side} × {small}: as if pictures had {side} times the width and height."
    return ""
