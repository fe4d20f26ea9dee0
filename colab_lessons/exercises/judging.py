"""The judges of exercises: whether an answer is right, and what to look at if not.

`check` never raises on an answer, whatever it is: an untouched stub gets the hint, a wrong answer
gets the misconception behind it, and Run all always reaches the end.
"""

from __future__ import annotations

import dis
import html
import importlib
import inspect
import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from colab_helpers import _units, benchmark
from colab_helpers._rich_display import bundle, error_text
from colab_lessons import session_log


@dataclass(frozen=True)
class Verdict:
    """What `check` says. `status` is "open" (not tried yet), "wrong" or "right"."""

    exercise: str
    status: str
    message: str

    def __str__(self) -> str:
        return f"Exercise {self.exercise} · {_LABELS[self.status]}: {self.message}"

    __repr__ = __str__

    def _repr_mimebundle_(self, **_: Any) -> dict:
        shown = (
            f"<div style='max-width:46em;padding:0.4em 0.8em;border-left:0.3em solid "
            f"{_COLORS[self.status]}'><b>{_LABELS[self.status]}.</b> {html.escape(self.message)}</div>"
        )
        data = {"kind": "exercise", **asdict(self)}
        return bundle(str(self), shown, data)


_LABELS = {"open": "Your turn", "wrong": "Not yet", "right": "Right"}
_MAX_ITEMS = 1000  # an answer may be endless
_MAX_CHARS = 120  # characters of an answer or an error that a verdict repeats
_PAIRS = 7  # of timings, where an answer has to be faster
_COLORS = {"open": "#6b7280", "wrong": "#d55e00", "right": "#0b7a5e"}


class Wrong(Exception):
    """Raised inside a judge: the answer is wrong, and the message names the misconception."""


@dataclass(frozen=True)
class Exercise:
    """One exercise: its id, the hint for an untouched stub, and the judge of an answer.

    The judge takes the answer and what the lesson passes along; it returns the words for a right
    answer and raises `Wrong` with the words for a wrong one.
    """

    id: str
    hint: str
    judge: Callable[..., str]


_registry: dict[str, Exercise] = {}


def exercise(id: str, hint: str) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """Register the judge below as exercise `id`.

    `hint` is what an untouched stub gets.
    """

    def register(judge: Callable[..., str]) -> Callable[..., str]:
        _registry[id] = Exercise(id, hint, judge)
        return judge

    return register


def get(id: str) -> Exercise:
    """Return the exercise `id`, such as "01.speedup"; raises KeyError with the ids there are."""
    lesson = id.split(".")[0]
    try:
        importlib.import_module(f"{__package__}.lesson_{lesson}")
    except ModuleNotFoundError as error:
        if error.name != f"{__package__}.lesson_{lesson}":  # a package that its checks need
            raise
        raise KeyError(f"No exercise {id!r}: lesson {lesson!r} has none.") from None
    if id not in _registry:
        known = ", ".join(sorted(name for name in _registry if name.startswith(f"{lesson}.")))
        raise KeyError(f"No exercise {id!r}. Lesson {lesson} has {known}.")
    return _registry[id]


def check(id: str, answer: Any, **context: Any) -> Verdict:
    """Judge `answer` to exercise `id`; `context` is what the lesson measured and the judge needs.

    >>> check("02.at_least", ...).status
    'open'
    """
    verdict = _judge(get(id), answer, context)
    session_log.record_verdict(id, verdict.status, verdict.message)
    return verdict


def _judge(known: Exercise, answer: Any, context: dict[str, Any]) -> Verdict:
    try:
        if _untouched(answer):
            return Verdict(known.id, "open", known.hint)
        return Verdict(known.id, "right", known.judge(answer, **context))
    except Wrong as reason:
        return Verdict(known.id, "wrong", str(reason))
    except (Exception, SystemExit) as error:  # an answer is the learner's own code
        message = f"Your answer raised an error ({error_line(error)}). {known.hint}"
        return Verdict(known.id, "wrong", message)


def filled(value: Any, name: str) -> Any:
    """Return what the answer's function `name` returned; raises `Wrong` if that's still the stub's dots."""
    if value is ...:
        raise Wrong(f"{name} returns the dots. Replace them.")
    return value


def error_line(error: BaseException) -> str:
    """Return an error's type and the first line of its message, even if `str(error)` raises.

    >>> error_line(IndexError("list index out of range"))
    'IndexError: list index out of range'
    """
    return error_text(error).partition("\n")[0][:_MAX_CHARS]


def shown(answer: Any) -> str:
    """Return `repr(answer)`, truncated to 120 characters; the name of its type if `repr` raises.

    >>> shown("T4"), len(shown("x" * 1000))
    ("'T4'", 120)
    """
    try:
        text = repr(answer)
    except Exception:
        return f"a {type(answer).__name__}"
    return text if len(text) <= _MAX_CHARS else f"{text[: _MAX_CHARS - 1]}…"


def number(answer: Any) -> float:
    """Return the answer as a number, or raise `Wrong` in words.

    >>> number(3)
    3.0
    """
    try:
        if not math.isnan(value := float(answer)):
            return value
    except (TypeError, ValueError, OverflowError):
        pass
    raise Wrong(f"This should be a number, not {shown(answer)}.")


def items(answer: Any) -> list:
    """Return the items of an iterable answer as a list; raise `Wrong` if there are 1,000 or more.

    >>> items((3, 4))
    [3, 4]
    """
    found = list(itertools.islice(answer, _MAX_ITEMS))
    if len(found) == _MAX_ITEMS:
        raise Wrong("That is far too long: a short list is wanted here.")
    return found


def close(a: float, b: float, tolerance: float = 0.02) -> bool:
    """Say whether two numbers agree within a fraction `tolerance` of the second.

    `a` is judged; `b` is what is right.

    >>> close(101, 100), close(103, 100)
    (True, False)
    """
    return abs(a - b) <= tolerance * abs(b)


def choices(answer: Any, wanted: dict[str, str], whys: dict[tuple[str, str], str]) -> None:
    """Judge a mapping of questions to choices; raise `Wrong` at the first wrong one.

    `whys` maps (question, wrong choice) to the misconception behind it. `answer` maps questions to
    choices; `wanted` has the right ones.
    """
    given = {name: str(value).strip().lower() for name, value in dict(answer).items()}
    still_open = [name for name in wanted if given.get(name, "...") in ("...", "ellipsis", "")]
    if still_open:
        raise Wrong(f"Still without an answer: {', '.join(still_open)}.")
    for name, right in wanted.items():
        if given[name] != right.lower():
            why = whys.get((name, given[name]), "Read that one again.")
            raise Wrong(f"{name} = {shown(answer[name])}: {why}")


def require_speedup(slow: Callable[[], Any], quick: Callable[[], Any], advice: str) -> str:
    """Time both, and return how many times as fast `quick` is; raise `Wrong` below 2, with `advice`.

    `slow` and `quick` take nothing and do the same work. They are timed in pairs, in both orders, and the
    median of the pairs' ratios counts: moments in which the machine is slow decide nothing.
    """
    ratios: list[float] = []
    for turn in range(_PAIRS):
        if turn % 2:
            before, after = _best(slow), _best(quick)
        else:
            after, before = _best(quick), _best(slow)
        ratios.append(before / after)
        if turn == 2 and (min(ratios) > 3 or max(ratios) < 1.2):  # no pair is near the limit
            break
    gain = f"{_units.format_ratio(statistics.median(ratios))} as fast"
    if statistics.median(ratios) < 2:
        raise Wrong(f"{gain}, and the goal is 2×. Hint: {advice}")
    return gain


def _best(function: Callable[[], Any]) -> float:
    return benchmark.measure(function, budget=0.1).best


def field(answer: Any, name: str) -> Any:
    """Return what a mapping answers to `name`, or raise `Wrong` when that is still open.

    `answer` is a mapping, in which dots stand for what is open.

    >>> field({"rows": 3, "parts": ...}, "rows")
    3
    """
    value = dict(answer).get(name, ...)
    if value is ...:
        raise Wrong(f"Still without an answer: {name}.")
    return value


def right_lines(answer: Any, right: Mapping[int, str], wrong: Mapping[int, str]) -> None:
    """Judge a set of line numbers; raise `Wrong` at the first that is too much, then at the first missing.

    `answer` is the learner's set; `right` and `wrong` map a line to the words about it.
    """
    given = {int(line) for line in items(answer)}
    for line in sorted(given - set(right)):
        raise Wrong(f"Not {wrong.get(line, f'line {line}: there is none.')}")
    for line in sorted(set(right) - given):
        raise Wrong(f"One is missing. Think of {right[line]}")


def in_order(answer: Any, steps: Sequence[str], rules: Iterable[tuple[str, str, str]]) -> None:
    """Judge a list that puts five `steps` in order; raise `Wrong` at the first rule it breaks.

    A rule is (early, late, why): `why` is said when `early` does not stand before `late`. `answer` is
    the learner's list; `rules` are tried in their order.
    """
    if isinstance(answer, str):
        raise Wrong("Give a list of five words, not one text.")
    given = [str(step).strip().lower() for step in items(answer)]
    if sorted(given) != sorted(steps):
        raise Wrong(f"Use each of these once: {', '.join(sorted(steps))}.")
    place = {step: position for position, step in enumerate(given)}
    for early, late, why in rules:
        if place[early] > place[late]:
            raise Wrong(why)


#: What Python puts before a function's first own instruction.
_PROLOGUE = {"RESUME", "COPY_FREE_VARS", "MAKE_CELL", "NOP", "CACHE"}


def _untouched(answer: Any) -> bool:
    if isinstance(answer, dict):
        return bool(answer) and all(value is ... for value in answer.values())
    if inspect.isfunction(answer):
        return _returns_dots(answer)
    if isinstance(answer, tuple):
        return bool(answer) and all(value is ... for value in answer)
    return answer is ... or answer is None


def _returns_dots(function: Callable) -> bool:
    """A stub `def f(…): return ...` that nobody has filled in: whatever it does, it only returns dots."""
    steps = [step for step in dis.get_instructions(function) if step.opname not in _PROLOGUE]
    return len(steps) <= 2 and steps[0].argval is ...
