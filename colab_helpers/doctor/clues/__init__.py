"""What do an error, and the session it was raised in, show beyond the table?

The table knows what many people met. A clue is drawn from this one case: from the numbers in the
message, from what is installed and loaded here, from the files that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from colab_helpers.doctor.clues import (
    calls,
    cases,
    devices,
    files,
    keys,
    libraries,
    memory,
    mistakes,
    modules,
    packages,
    sizes,
    tensors,
    tracebacks,
    values,
)
from colab_helpers.doctor.clues.clue import Clue, Raised

__all__ = ["ONLY_HERE", "Clue", "Raised", "look"]

#: Known problems that no text shows: a clue finds them.
ONLY_HERE = (
    "another-python",
    "name-not-there",
    "no-such-key",
    "own-call",
    "values-of-the-line",
    *mistakes.SHOWN,
)

_LOOKS: tuple[Callable[[Raised], Iterable[Clue]], ...] = (
    mistakes.clues,
    calls.clues,
    memory.clues,
    tensors.clues,
    files.clues,
    keys.clues,
    modules.clues,
    libraries.clues,
    packages.clues,
    tracebacks.clues,
    devices.clues,
)


def look(raised: Raised) -> tuple[Clue, ...]:
    """Return the clues to `raised`, the surest first; () where there are none.

    One look that fails leaves the others alone: the reader has an error already.
    """
    found = [clue for each in _LOOKS for clue in _try(each, raised)]
    if not found:
        found = _try(values.clues, raised)
    of_the_text = _try(cases.clues, raised)  # the session, if it shows anything, says more
    return tuple(dict.fromkeys([*_try(sizes.clues, raised), *found, *of_the_text]))


def _try(each: Callable[[Raised], Iterable[Clue]], raised: Raised) -> list[Clue]:
    found: list[Clue] = []
    try:
        found.extend(each(raised))
    except Exception:  # what it had found before stays
        return found
    return found
