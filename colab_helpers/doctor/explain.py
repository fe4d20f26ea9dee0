"""What does this error mean, and what is the way out?"""

from __future__ import annotations

import builtins
import functools
import html
import math
import re
import string
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass

from colab_helpers import runtime
from colab_helpers._output import bundle, edged, error_text, with_code
from colab_helpers.doctor import raised
from colab_helpers.doctor.clues import Clue, Raised, look
from colab_helpers.doctor.clues.asked import OFTEN
from colab_helpers.doctor.clues.mistakes import SHOWN
from colab_helpers.doctor.imports import distribution
from colab_helpers.doctor.problems import Finding, Problem, known_problems, link, report, way_out

#: How to ask, where nothing is known.
ASKING = (
    "If you ask for help, include the last line of the traceback and the ten above it, the smallest cell "
    "that still fails, and what `!colab-helpers doctor` prints."
)
#: Known problems of two packages, which own code that asks for a wrong name looks like.
_OF_PACKAGES = ("library-mismatch", "sklearn-others")
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
#: Titles that are named for an unknown error, and how much of its weight in words one has to share.
_MOST_TITLES, _ENOUGH, _LEAST_WORDS = 2, 0.4, 3
_OF_ANY_ERROR = {name.lower() for name in dir(builtins) if name.endswith(("Error", "Exception"))}


@dataclass(frozen=True)
class Explanation:
    """What is known of an error: `finding`, or None; a second cause in `also`; the nearest titles.

    `nearest` has (title, link) of known problems that share words with an unknown error: where to
    look next, and not what it means. `clues` are what this error, and the session that raised it, show
    beyond the table, the surest first.
    """

    finding: Finding | None
    also: Finding | None = None
    nearest: tuple[tuple[str, str], ...] = ()
    clues: tuple[Clue, ...] = ()

    def __bool__(self) -> bool:
        return self.finding is not None

    @property
    def id(self) -> str:
        """The known problem's id; "" for an unknown error."""
        return self.finding.id if self.finding else ""

    def __str__(self) -> str:
        if self.finding is None:
            near = [f"  {title}\n  {link}" for title, link in self.nearest]
            said = ["Possibly related:", *near] if near else []
            return "\n".join(["This error is not in the table.", *said, ASKING])
        second = ["", "The text shows a second problem:", _lines(self.also)] if self.also else []
        here = [_in_this_case(each, self.finding) for each in self.clues]
        return "\n".join([*here, _lines(self.finding), *second])

    __repr__ = __str__

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        data = {"kind": "explained", **asdict(self)}
        return bundle(str(self), self._html(), data)

    def _html(self) -> str:
        if self.finding is None:
            near = "".join(f"<br>{_linked(html.escape(t), link)}" for t, link in self.nearest)
            said = f"Possibly related:{near}<br>" if near else ""
            return _card(f"This error is not in the table.<br>{said}{with_code(ASKING)}")
        here = "".join(
            f"<b>In this case:</b> {with_code(each.seen)}<br>"
            + (
                f"<b>What to do in this case:</b> {with_code(each.remedy)}<br>"
                if each.remedy
                else ""
            )
            for each in self.clues
        )
        told = _told(self.finding)
        if any(each.id == self.finding.id and each.remedy for each in self.clues):  # more exact
            told = f"<details><summary>In general</summary>{told}</details>"
            here = f"{_title(self.finding)}<br>{here}"
        elif any(each.remedy for each in self.clues):  # another problem, which goes before this one
            told = f"{_title(self.finding)}<br>{told}"
        else:
            here = f"{_title(self.finding)}<br>{here}"
        second = (
            f"<p style='margin:0.6em 0 0'><b>Also:</b> {_title(self.also)}<br>{_told(self.also)}</p>"
            if self.also
            else ""
        )
        return _card(f"{here}{told}{second}")


def explain_error(error: str | BaseException, platform: str | None = None) -> Explanation:
    """Say what an error means, and the way out; a falsy explanation for one that is not known.

    `error` is an exception, or a text: a line, a traceback, a whole log. What was raised last counts
    before what was raised earlier, and both before the log around them. An exception is also looked at
    together with the session that raised it. `platform` is where it was raised, as `runtime.describe`
    names it; when left out, where its paths say, or here.

    >>> explain_error("The TPU is already in use by process with pid 42.").id
    'tpu-in-use'
    """
    exceptions = [] if isinstance(error, str) else _led_to(error)
    text = raised.plain(error if isinstance(error, str) else _printed(exceptions))
    known = _known(text)
    here = platform or raised.place(text) or runtime.describe().platform
    findings = [_finding(problem, name, here) for problem, name in known[:2]]
    causes = tuple(each for each in exceptions if each is error or _is_cause(each, exceptions))
    clues = look(Raised(text, here, causes, findings[0].id if findings else ""))
    return _explanation(findings, clues, text, here)


def _known(text: str) -> list[tuple[Problem, str]]:
    """Problems that a text shows, the one to name first, with what was caught of each."""
    messages = raised.raised(text)
    if not messages:
        places = [text]
    elif raised.only_wraps(messages[0], text):
        places = [text.replace(messages[0], ""), *messages]
    else:
        places = messages
    known = _without_general(match for place in places for match in _matches(place))
    return _deepest_first(known, text) if known else []


def _explanation(
    findings: list[Finding], clues: tuple[Clue, ...], text: str, platform: str
) -> Explanation:
    """What the table says and what was seen here, in the order in which to read them."""
    first = findings[0].id if findings else ""
    proven = [each for each in clues if _goes_before(each, first)]
    if clues and (not findings or proven):
        shown = (proven or clues)[0]  # the table does not know it, or means something else
        findings = [_of_clue(shown, platform), *([] if shown.leaves_no_other else findings)]
        clues = tuple(each for each in clues if each != shown)
    if not findings:
        message = next(iter(raised.raised(text)), text)
        return Explanation(None, nearest=tuple(_nearest(message)))
    return Explanation(findings[0], findings[1] if len(findings) > 1 else None, clues=clues)


def _goes_before(clue: Clue, first: str) -> bool:
    """Whether what was seen here means more than what the table says of the text."""
    if clue.id in ("restart-needed", "broken-install", "own-call", *SHOWN):
        return first != clue.id
    return clue.id == "name-not-there" and first in (
        OFTEN if clue.leaves_no_other else _OF_PACKAGES
    )


def _of_clue(clue: Clue, platform: str) -> Finding:
    return report(clue.id, clue.seen, platform=platform, remedy=clue.remedy, severity="stop")


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


def _printed(exceptions: list[BaseException]) -> str:
    """Exceptions as Python prints them, one below the other."""
    return "\n".join(map(_as_printed, exceptions))


def _as_printed(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception_only(type(error), error))
    except Exception:  # an exception whose text cannot be made
        return error_text(error)


def _matches(text: str, problems: Iterable[Problem] | None = None) -> list[tuple[Problem, str]]:
    """Problems, of all or of those given, that a text shows, in its order, with what was caught."""
    lowered = text.translate(_LOWER)  # of the same length
    met: list[tuple[int, Problem, str]] = []
    for problem in known_problems().values() if problems is None else problems:
        for pattern in _compiled(problem.id):
            if match := pattern.search(lowered):
                caught = text[slice(*match.span(1))] if pattern.groups else ""
                met.append((match.start(), problem, caught))
                break
    return [(problem, caught) for _, problem, caught in sorted(met, key=lambda row: row[0])]


@functools.cache
def _compiled(id: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern) for pattern in known_problems()[id].errors)


def _deepest_first(known: list[tuple[Problem, str]], text: str) -> list[tuple[Problem, str]]:
    """Put before the first problem what hides behind it, where the log shows that."""
    hidden = _matches(text, [known_problems()[id] for id in known[0][0].in_log])[:1]
    found = [problem for problem, _ in hidden]
    return [*hidden, *(row for row in known if row[0] not in found)]


def _without_general(matches: Iterable[tuple[Problem, str]]) -> list[tuple[Problem, str]]:
    """Each problem once, without those that give way to a specific one that was met too."""
    met: dict[str, tuple[Problem, str]] = {}
    for problem, caught in matches:
        met.setdefault(problem.id, (problem, caught))
    exact = [row for row in met.values() if not row[0].is_general] or list(met.values())
    left = [row for row in exact if not met.keys() & set(row[0].yields_to)]
    return sorted(left, key=lambda row: row[0].severity == "note")  # what stops comes first


def _finding(problem: Problem, caught: str, platform: str) -> Finding:
    remedy = way_out(problem.id, platform)
    if caught:
        remedy = re.sub(r"\bNAME\b", distribution(caught), remedy)
    return report(problem.id, problem.text, platform=platform, remedy=remedy, severity="stop")


def _nearest(text: str) -> Iterator[tuple[str, str]]:
    """Titles that share the telling words of a text."""
    rarity = _rarity()
    words = {word for word in _words(text[:2000]) if word in rarity}
    whole = math.fsum(rarity[word] for word in words)
    scores = Counter(
        {
            # Exact, so that equal scores are equal in whatever order a set gives its words.
            problem.id: math.fsum(rarity[word] for word in words & _words_of(problem.id))
            for problem in known_problems().values()
        }
    )
    for id, score in scores.most_common(_MOST_TITLES):
        if len(words & _words_of(id)) >= _LEAST_WORDS and score >= _ENOUGH * whole:
            yield known_problems()[id].title, link(id)


@functools.cache
def _words_of(id: str) -> frozenset[str]:
    problem = known_problems()[id]
    return frozenset(_words(f"{problem.title} {problem.text}"))


@functools.cache
def _rarity() -> Mapping[str, float]:
    count = Counter(word for id in known_problems() for word in _words_of(id))
    return {word: math.log(len(known_problems()) / times) for word, times in count.items()}


def _words(text: str) -> set[str]:
    """The words of a text, but those that any error may begin with."""
    return set(re.findall(r"[a-z_]{3,40}", text.translate(_LOWER))) - _OF_ANY_ERROR


def _in_this_case(clue: Clue, finding: Finding) -> str:
    """A clue as lines above what is known; the way out only where that is another one."""
    told = f"In this case: {clue.seen}\n"
    return (
        told
        if clue.remedy in ("", finding.remedy)
        else f"{told}\nWhat to do in this case: {clue.remedy}\n"
    )


def _lines(finding: Finding) -> str:
    title = known_problems()[finding.id].title
    return f"{title}\n\n{finding.seen}\n\nWhat to do: {finding.remedy}\n\nMore: {finding.link}"


def _title(finding: Finding) -> str:
    return f"<b>{with_code(known_problems()[finding.id].title)}</b>"


def _told(finding: Finding) -> str:
    more = _linked("More about this problem", finding.link)
    return f"{with_code(finding.seen)}<br><b>What to do:</b> {with_code(finding.remedy)}<br>{more}"


def _linked(text: str, address: str) -> str:
    return f"<a href='{html.escape(address)}'>{text}</a>"


def _card(inside: str) -> str:
    return f"<div style='max-width:46em'>{edged(inside, 'note')}</div>"
