"""What do an error, and the session it was raised in, show beyond the table?

The table knows what many people met. A clue is drawn from this one case: from the numbers in the
message, from what is installed and loaded here, from the files that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from colab_helpers.doctor.clues import (
    devices,
    files,
    libraries,
    memory,
    modules,
    packages,
    tensors,
    tracebacks,
)
from colab_helpers.doctor.clues.clue import Clue, Raised

__all__ = ["ONLY_HERE", "Clue", "Raised", "look"]

#: Known problems that no text shows: a clue finds them.
ONLY_HERE = ("another-python", "name-not-there")

_LOOKS: tuple[Callable[[Raised], Iterable[Clue]], ...] = (
    memory.clues,
    tensors.clues,
    files.clues,
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
    found: list[Clue] = []
    for each in _LOOKS:
        try:
            found += each(raised)
        except Exception:
            continue
    return tuple(dict.fromkeys(found))
