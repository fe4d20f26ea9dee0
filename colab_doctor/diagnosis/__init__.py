"""What an error, and the packages that are installed here, show beyond the table.

The table has what many people met. A diagnosis is drawn from this one case: the numbers in the message,
the sizes that it carries, the versions that are installed and loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from colab_doctor.diagnosis import memory, package_conflicts, shapes
from colab_doctor.diagnosis.base import Diagnosis, Failure, frames
from colab_doctor.problem_table import known_problems
from colab_helpers.problem_schema import fix_on

__all__ = ["Diagnosis", "Failure", "diagnose"]


def diagnose(failure: Failure) -> tuple[Diagnosis, ...]:
    """Return the diagnoses of `failure`, the most certain first; () if there are none.

    A diagnosis that raises is left out, so that it does not hide the reader's own error.
    """
    looks = (shapes.diagnose, memory.diagnose, package_conflicts.diagnose, _cases)
    return tuple(dict.fromkeys(one for look in looks for one in _try(look, failure)))


def _cases(failure: Failure) -> Iterator[Diagnosis]:
    """The first case of the known problem that the text, or the functions it came through, show."""
    known = known_problems().get(failure.problem_id)
    if known is None or not known.cases:
        return
    called = [frame.f_code.co_name for error in failure.chain for frame in frames(error)]
    functions = "\n".join(f"in {name}" for name in reversed(called))
    text = f"{functions}\n{failure.text}".lower()
    for case in known.cases:
        if case.is_shown_by(text):
            yield Diagnosis(failure.problem_id, case.meaning, fix_on(failure.platform, case))
            return


def _try(look: Callable[[Failure], Iterable[Diagnosis]], failure: Failure) -> list[Diagnosis]:
    found: list[Diagnosis] = []
    try:
        found.extend(look(failure))
    except Exception:  # what it had found before stays
        return found
    return found
