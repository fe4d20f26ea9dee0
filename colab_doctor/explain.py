"""What an error means, and what fixes it."""

from __future__ import annotations

import html
import re
import string
import traceback
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from colab_doctor import pasted_log
from colab_doctor.diagnosis import Diagnosis, Failure, diagnose
from colab_doctor.problem_table import known_problems, patterns
from colab_helpers import runtime
from colab_helpers._import_names import distribution_name
from colab_helpers._rich_display import bundle, edged, error_text, with_code
from colab_helpers.problem_schema import Finding, Problem, fix_on

#: How to ask, where nothing is known.
NOT_FOUND = (
    "This error is not in the table. If you ask for help, include the last line of the traceback and the "
    "ten above it, the smallest cell that still fails, and what `!colab-helpers card` prints."
)
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


@dataclass(frozen=True)
class Explanation:
    """What is known of an error: a `finding`, or None; a second one in `also`.

    `diagnoses` are what this error, and the session that raised it, show beyond the table, the surest
    first. It is falsy for an unknown error.
    """

    finding: Finding | None
    also: Finding | None = None
    diagnoses: tuple[Diagnosis, ...] = ()

    def __bool__(self) -> bool:
        return self.finding is not None

    @property
    def id(self) -> str:
        """The known problem's id; "" for an unknown error."""
        return self.finding.id if self.finding else ""

    @property
    def title(self) -> str:
        """The known problem's title; "" for an unknown error."""
        return known_problems()[self.id].title if self else ""

    @property
    def meaning(self) -> str:
        """What the card says it means: this case, where it was diagnosed; else the table."""
        exact = next((each for each in self.diagnoses if each.fix), None)
        values = next((each for each in self.diagnoses if not each.fix), None)
        text = exact.observation if exact else self.finding.observation if self.finding else ""
        return f"{text} Here: {values.observation}" if values else text

    @property
    def fix(self) -> str:
        """What the card says to do."""
        exact = next((each for each in self.diagnoses if each.fix), None)
        return exact.fix if exact else self.finding.fix if self.finding else ""

    def __str__(self) -> str:
        if self.finding is None:
            return NOT_FOUND
        lines = [self.title, "", self.meaning, "", f"Fix: {self.fix}", f"More: {self.finding.link}"]
        if self.also:
            lines += [f"Also: {known_problems()[self.also.id].title}: {self.also.link}"]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return bundle(str(self), self._html(), {"kind": "explained", **asdict(self)})

    def _html(self) -> str:
        if self.finding is None:
            return _card(with_code(NOT_FOUND))
        also = (
            f" · Also: {_linked(known_problems()[self.also.id].title, self.also.link)}"
            if self.also
            else ""
        )
        return _card(
            f"<b>{with_code(self.title)}</b><br>{with_code(self.meaning)}<br>"
            f"<b>Fix:</b> {with_code(self.fix)} {_linked('More', self.finding.link)}{also}"
        )


def explain_error(error: str | BaseException, platform: str | None = None) -> Explanation:
    """Say what an error means and what fixes it; a falsy explanation for one that is not known.

    `error` is an exception, or a text: a line, a traceback, a whole log. What was raised last counts
    before what was raised earlier, and both before the log around them. An exception is also looked at
    together with the session that raised it; of a group, the first one that is known counts.
    `platform` is where it was raised, as `runtime.describe` names it; when left out, where its paths
    say, or here.

    >>> explain_error("The TPU is already in use by process with pid 42.").id
    'tpu-in-use'
    """
    if isinstance(error, BaseExceptionGroup):
        each = (explain_error(inner, platform) for inner in error.exceptions)
        return next(filter(None, each), Explanation(None))
    exceptions = [] if isinstance(error, str) else _led_to(error)
    text = pasted_log.plain(
        error if isinstance(error, str) else "\n".join(map(_as_printed, exceptions))
    )
    known = _known(text)
    here = platform or pasted_log.platform(text) or runtime.describe().platform
    findings = [_finding(problem, captured, here) for problem, captured in known[:2]]
    causes = tuple(each for each in exceptions if each is error or _is_cause(each, exceptions))
    diagnoses = diagnose(Failure(text, here, causes, findings[0].id if findings else ""))
    return _explanation(findings, diagnoses, here)


def _known(text: str) -> list[tuple[Problem, str]]:
    """Problems that a text shows, the one to name first, with what was captured of each."""
    messages = pasted_log.raised(text)
    if not messages:
        places = [text]
    elif pasted_log.is_wrapper_error(messages[0], text):
        places = [text.replace(messages[0], ""), *messages]
    else:
        places = messages
    known = _without_superseded(match for place in places for match in _matches(place))
    if not known:  # some show in the functions that an error came through
        each = known_problems().values()
        return [(p, "") for p in each if any(re.search(one, text.lower()) for one in p.in_frames)]
    hidden = _matches(text, [known_problems()[id] for id in known[0][0].in_log])[:1]
    found = [problem for problem, _ in hidden]
    return [*hidden, *(row for row in known if row[0] not in found)]


def _explanation(
    findings: list[Finding], diagnoses: tuple[Diagnosis, ...], platform: str
) -> Explanation:
    """What the table says and what was seen here, in the order in which to read them."""
    first = findings[0].id if findings else ""
    surer = (each for each in diagnoses if each.overrides_table and each.id != first)
    shown = next(surer, None) if findings else next(iter(diagnoses), None)
    if shown is not None:  # the table does not know it, or means something else
        problem = known_problems()[shown.id]
        seen = problem.finding(shown.observation, platform, shown.fix, severity="stop")
        findings = [seen, *findings]
        diagnoses = tuple(each for each in diagnoses if each != shown and not each.fix)
    if not findings:
        return Explanation(None)
    return Explanation(findings[0], findings[1] if len(findings) > 1 else None, diagnoses)


def _led_to(error: BaseException) -> list[BaseException]:
    """An exception and those that led to it, the oldest first."""
    found: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and all(one is not each for each in found) and len(found) < 20:
        found.append(one)
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return found[::-1]


def _is_cause(error: BaseException, exceptions: list[BaseException]) -> bool:
    """Whether somebody raised another exception from it, and not only while it was handled."""
    return any(each.__cause__ is error for each in exceptions)


def _as_printed(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception_only(type(error), error))
    except Exception:  # an exception whose text cannot be made
        return error_text(error)


def _matches(text: str, problems: Iterable[Problem] | None = None) -> list[tuple[Problem, str]]:
    """Problems, of all or of those given, that a text shows, in its order, with what was captured."""
    lowered = text.translate(_LOWER)  # of the same length
    met: list[tuple[int, Problem, str]] = []
    for problem in known_problems().values() if problems is None else problems:
        for pattern in patterns(problem.id):
            if match := pattern.search(lowered):
                captured = text[slice(*match.span(1))] if pattern.groups else ""
                met.append((match.start(), problem, captured))
                break
    return [(problem, captured) for _, problem, captured in sorted(met, key=lambda row: row[0])]


def _without_superseded(matches: Iterable[tuple[Problem, str]]) -> list[tuple[Problem, str]]:
    """Each problem once, without those that a more exact one supersedes."""
    met: dict[str, tuple[Problem, str]] = {}
    for problem, captured in matches:
        met.setdefault(problem.id, (problem, captured))
    exact = [row for row in met.values() if not row[0].is_general] or list(met.values())
    left = [row for row in exact if not met.keys() & set(row[0].superseded_by)]
    return sorted(left, key=lambda row: row[0].severity == "note")  # what stops comes first


def _finding(problem: Problem, captured: str, platform: str) -> Finding:
    fix = fix_on(platform, problem)
    if captured:
        fix = re.sub(r"\bNAME\b", distribution_name(captured), fix)
    return problem.finding(problem.meaning, platform, fix, severity="stop")


def _linked(text: str, address: str) -> str:
    return f"<a href='{html.escape(address)}'>{with_code(text)}</a>"


def _card(inside: str) -> str:
    return f"<div style='max-width:46em'>{edged(inside, 'note')}</div>"
