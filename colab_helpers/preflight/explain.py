"""What does this error mean, and what is the way out?"""

from __future__ import annotations

import re

from colab_helpers import runtime
from colab_helpers._output import error_text
from colab_helpers.preflight.problems import Finding, known_problems, report, way_out
from colab_helpers.preflight.state import DISTRIBUTION

#: Characters of an error text that are looked at: a quarter from its beginning, the rest from its end.
_MOST = 65_536


def explain_error(error: str | BaseException, platform: str | None = None) -> Finding | None:
    """Say what an error means, and the way out; None for one that is not known.

    `platform` is where it was raised, as `runtime.describe` names it; here when left out. Of several
    problems that fit, the first of the page is named.

    >>> explain_error("The TPU is already in use by process with pid 42.").id
    'tpu-in-use'
    """
    text = _shortened(error if isinstance(error, str) else error_text(error))
    for problem in known_problems().values():
        for pattern in problem.errors:
            if match := re.search(pattern, text, re.IGNORECASE):
                here = platform or runtime.describe().platform
                remedy = way_out(problem.id, here)
                if "NAME" in remedy:
                    remedy = remedy.replace("NAME", DISTRIBUTION.get(match[1], match[1]))
                return report(
                    problem.id, problem.text, platform=here, remedy=remedy, severity="stop"
                )
    return None


def _shortened(text: str) -> str:
    """The beginning and the end of a long log, where errors say what they are."""
    if len(text) <= _MOST:
        return text
    return f"{text[: _MOST // 4]}\n…\n{text[-3 * _MOST // 4 :]}"
