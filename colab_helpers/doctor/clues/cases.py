"""Which of a known problem's causes does the text of an error give away?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from colab_helpers.doctor.clues.clue import Clue, Raised
from colab_helpers.doctor.problems import known_problems


def clues(raised: Raised) -> Iterator[Clue]:
    """Yield the first case of the problem that the text of `raised` shows."""
    known = known_problems().get(raised.known)
    text = raised.text.lower()
    for case in known.cases if known else ():
        if re.search(case.shows, text):
            yield Clue(raised.known, case.seen, case.way_out(raised.platform))
            return
