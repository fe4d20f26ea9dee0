"""Known problems: rows of TOML, what each means, what fixes it, and where its page is.

A `Problem` is a row; a `Finding` is one that was met here. Checks take their rows from
`preflight/problems.toml`, `colab_doctor` adds those that an error shows. The fields of a row::

    id              the same in findings, pages and links
    severity        "stop" (fix it first), "warn" or "note"
    title           what a user sees, or would type into a search box
    meaning, fix    the card: with the title at most 45 words. NAME is replaced by what is missing
    elsewhere       the fix on other machines than Colab, where it differs
    more            further fixes, on the page alone
    errors          patterns of error texts, lower case, every repeat with an upper bound
    superseded_by   problems that are named instead where they are met too; ["*"]: any other
    in_log          problems that are the true cause where the log above the error shows them
    in_frames       patterns of the whole traceback, used where the message alone is ambiguous
    facts           dated facts (platform_facts.toml) that the page quotes
    sources         owner/name#number is an issue or pull request on GitHub; else an address
    seen, review    when it was last checked, and when to check again
    on_lesson_card  false: not on a lesson's card
    topic           its page; left out where the file is the topic
    cases           causes that the text itself tells apart: all patterns of `shows`, none of `unless`
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from importlib import metadata

from colab_helpers._data_files import load_toml
from colab_helpers._dated_entry import Dated

_RESTART = re.compile("Runtime > Restart session")


@dataclass(frozen=True)
class Case:
    """One cause of a problem: a text shows it by all patterns in `shows` and none in `unless`."""

    shows: tuple[str, ...]
    meaning: str
    fix: str
    elsewhere: str = ""
    unless: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    def is_shown_by(self, text: str) -> bool:
        """Return whether `text`, in lower case, shows this cause.

        >>> Case(("lora", "shape"), "It is x.", "Do y.").is_shown_by("lora_a.weight: another shape")
        True
        """
        if any(re.search(pattern, text) for pattern in self.unless):
            return False
        return all(re.search(pattern, text) for pattern in self.shows)


@dataclass(frozen=True)
class Problem(Dated):
    """One row; the module's docstring says what each field means."""

    id: str
    topic: str
    severity: str
    title: str
    meaning: str
    fix: str
    sources: tuple[str, ...]
    seen: date
    review: date
    confidence: str = "H"
    elsewhere: str = ""
    more: str = ""
    errors: tuple[str, ...] = ()
    superseded_by: tuple[str, ...] = ()
    in_log: tuple[str, ...] = ()
    in_frames: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()
    on_lesson_card: bool = True

    @property
    def is_general(self) -> bool:
        """Whether every other problem is more specific about an error than this one."""
        return self.superseded_by == ("*",)

    @property
    def link(self) -> str:
        """The address of its place on the site; a path below it where the site is not known."""
        return f"{_site()}problems/{self.topic}.html#{self.id}"

    def finding(
        self, observation: str, platform: str, fix: str = "", severity: str = ""
    ) -> Finding:
        """Return this problem as met on a `platform`, which `runtime.Runtime.platform` names.

        `observation` says what was seen here; `fix` and `severity` are the row's when left out.
        """
        return Finding(
            self.id,
            severity or self.severity,
            observation,
            fix or fix_on(platform, self),
            self.link,
        )


@dataclass(frozen=True)
class Finding:
    """A problem that was met: what was seen, what to do, and the page that says more."""

    id: str
    severity: str
    observation: str
    fix: str
    link: str = ""

    def __str__(self) -> str:
        return "\n".join(filter(None, (self.observation, self.fix, self.link)))

    __repr__ = __str__


def fix_on(platform: str, row: Problem | Case) -> str:
    """Return the fix on a `platform`: Colab's menu entries in words that fit any notebook.

    `row` is a problem or one of its cases.

    >>> fix_on("local", Case((), "", "Runtime > Restart session, then run from the top."))
    'Restart the kernel, then run from the top.'
    >>> fix_on("local", Case((), "", "Runtime > Change runtime type > T4 GPU > Save."))
    'On Colab: Runtime > Change runtime type > T4 GPU > Save.'
    """
    if platform.startswith("colab"):
        return row.fix
    fix = row.elsewhere or _RESTART.sub(_restart_the_kernel, row.fix)
    return f"On Colab: {fix}" if re.match("(Runtime >|Disconnect and delete)", fix) else fix


def _restart_the_kernel(menu: re.Match[str]) -> str:
    before = menu.string[: menu.start()].rstrip()
    return "restart the kernel" if before and before[-1] not in ".:" else "Restart the kernel"


def read(package: str, file: str) -> Iterator[Problem]:
    """Yield the problems of a TOML `file` that lies in a `package`; the file's name is the topic.

    >>> next(read("colab_helpers", "preflight/problems.toml")).topic
    'gpu'
    """
    topic = file.rpartition("/")[2].removesuffix(".toml")
    yield from (_problem({"topic": topic, **row}) for row in load_toml(package, file)["problem"])


def _problem(row: Mapping) -> Problem:
    cases = tuple(Case(**_tuples(case)) for case in row.get("cases", ()))
    return Problem(**{**_tuples(row), "cases": cases})


def _tuples(row: Mapping) -> dict:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


@functools.cache
def repository() -> str:
    """Return the URL of the repository that this helper comes from; "" where it is not known."""
    try:
        urls = metadata.metadata("colab-helpers").get_all("Project-URL") or []
    except Exception:  # not installed, or only partially
        return ""
    named = (entry.partition(", ") for entry in urls)
    return {name: address for name, _, address in named}.get("Repository", "").rstrip("/")


def _site() -> str:
    """The address of the pages on the web, as GitHub Pages gives it."""
    owner, _, name = "/".join(repository().split("/")[-2:]).partition("/")
    if not name:
        return ""
    host = f"https://{owner.lower()}.github.io/"
    return host if name.lower() == f"{owner.lower()}.github.io" else f"{host}{name}/"
