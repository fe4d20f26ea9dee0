"""Which of a known problem's causes does an error give away: its text, or where it was raised?"""

from __future__ import annotations

from collections.abc import Iterator

from colab_helpers.doctor.clues.clue import Clue, Raised, frames
from colab_helpers.doctor.problems import known_problems


def clues(raised: Raised) -> Iterator[Clue]:
    """Yield the first case of the problem that `raised` shows."""
    known = known_problems().get(raised.known)
    if known is None or not known.cases:
        return
    text = f"{_functions(raised)}\n{raised.text}".lower()
    for case in known.cases:
        if case.is_shown_by(text):
            yield Clue(raised.known, case.seen, case.way_out(raised.platform))
            return


def _functions(raised: Raised) -> str:
    """The functions in which an exception was raised, as a traceback names them; its text has none."""
    called = [frame.f_code.co_name for error in raised.chain for frame in frames(error)]
    return "\n".join(f"in {name}" for name in reversed(called))
