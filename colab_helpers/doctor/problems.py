"""Which problems are known, what does each mean, and where can one read more?

The words stand once, in `problems.toml`. A `Finding` is one of them, met: checks and explained errors
add what was seen here.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from importlib import metadata, resources

from colab_helpers._dated import Dated

#: Where the repository has the list of all problems; each group has a page of its own beside it.
PAGE = "docs/troubleshooting.md"
#: Where the pages are: the list, and those of the groups.
PAGES = re.compile(r"docs/(?:troubleshooting|problems/[a-z-]{1,60})\.md")
_RESTART = re.compile("Runtime > Restart session")


@dataclass(frozen=True)
class Case:
    """One of several causes of a problem, which an error's own text gives away.

    Such a text has all the patterns in `shows`, and none of those in `unless`; `seen` says what it is;
    `remedy`, `elsewhere` and `sources` as of a problem.
    """

    shows: tuple[str, ...]
    seen: str
    remedy: str
    elsewhere: str = ""
    unless: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    def is_shown_by(self, text: str) -> bool:
        """Return whether a `text`, in lower case, is of this cause.

        >>> Case(("lora", "shape"), "It is x.", "Do y.").is_shown_by("lora_a.weight: another shape")
        True
        """
        others = any(re.search(pattern, text) for pattern in self.unless)
        return not others and all(re.search(pattern, text) for pattern in self.shows)

    def way_out(self, platform: str) -> str:
        """Return the remedy on a `platform`, as `runtime.Runtime.platform` names it.

        >>> Case(("x",), "It is x.", "Do y.").way_out("local")
        'Do y.'
        """
        return _on(platform, self.remedy, self.elsewhere)


@dataclass(frozen=True)
class Problem(Dated):
    """One row of `problems.toml`; the file says what each field means."""

    id: str
    group: str
    severity: str
    title: str
    text: str
    remedy: str
    sources: tuple[str, ...]
    seen: date
    review: date
    confidence: str
    elsewhere: str = ""
    errors: tuple[str, ...] = ()
    yields_to: tuple[str, ...] = ()
    in_log: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()
    lessons: bool = True

    @property
    def page(self) -> str:
        """Where the repository has the page of the group.

        >>> known_problems()["tpu-in-use"].page
        'docs/problems/tpu.md'
        """
        return f"docs/problems/{re.sub(r'[^a-z]+', '-', self.group.lower()).strip('-')}.md"

    @property
    def is_general(self) -> bool:
        """Whether every other problem says more of an error than this one."""
        return self.yields_to == ("*",)


@dataclass(frozen=True)
class Finding:
    """A problem with its way out. `severity` is "stop", "warn" or "note"; `link` leads to more."""

    id: str
    severity: str
    seen: str
    remedy: str
    link: str = ""

    def __str__(self) -> str:
        return "\n".join(filter(None, (self.seen, self.remedy, self.link)))

    __repr__ = __str__


@functools.cache
def known_problems() -> Mapping[str, Problem]:
    """Return every known problem by id, in the order of the page.

    >>> known_problems()["little-disk"].severity
    'warn'
    """
    text = resources.files("colab_helpers.doctor").joinpath("problems.toml").read_text("utf-8")
    return {row["id"]: _problem(row) for row in tomllib.loads(text)["problem"]}


def way_out(id: str, platform: str) -> str:
    """Return the remedy of a problem on a platform, as `runtime.Runtime.platform` names it.

    `id` is one of `known_problems()`; raises KeyError for another.

    >>> way_out("restart-needed", "local")
    'Restart the kernel, then run from the top.'
    """
    known = known_problems()[id]
    return _on(platform, known.remedy, known.elsewhere)


def _on(platform: str, remedy: str, elsewhere: str) -> str:
    """The way out on a platform; what only Colab's menu calls so, in words for any notebook."""
    if platform.startswith("colab"):
        return remedy
    return elsewhere or _RESTART.sub(_restart_the_kernel, remedy)


def _restart_the_kernel(menu: re.Match[str]) -> str:
    before = menu.string[: menu.start()].rstrip()
    return "restart the kernel" if before and before[-1] not in ".:" else "Restart the kernel"


def report(id: str, seen: str, *, platform: str, remedy: str = "", severity: str = "") -> Finding:
    """Return the finding of a known problem, with the link to the page that says more.

    `seen`: what was met here, in words. `platform` chooses the way out, unless `remedy` gives another.
    `id` is one of `known_problems()`; `severity` is the table's when left out.
    """
    return Finding(
        id,
        severity or known_problems()[id].severity,
        seen,
        remedy or way_out(id, platform),
        link(id),
    )


def link(id: str) -> str:
    """Return the address that tells all of a problem, or its place in a clone, not installed.

    `id` is one of `known_problems()`.

    >>> link("little-disk").endswith("docs/problems/session-and-files.md#little-disk")
    True
    """
    return f"{_at(known_problems()[id].page)}#{id}"


def page() -> str:
    """Return the address of the list of all problems, or its place in a clone, not installed."""
    return _at(PAGE)


def _at(file: str) -> str:
    return f"{_address()}/blob/HEAD/{file}" if _address() else file


def repository() -> str:
    """Return owner/name of the repository that this helper comes from; "" where it is not known."""
    return "/".join(_address().rstrip("/").split("/")[-2:])


@functools.cache
def _address() -> str:
    try:
        urls = metadata.metadata("colab-helpers").get_all("Project-URL") or []
    except Exception:  # not installed, or by half
        return ""
    named = (entry.partition(", ") for entry in urls)
    return {name: address for name, _, address in named}.get("Repository", "")


def _problem(row: Mapping) -> Problem:
    lists = {
        key: tuple(row[key])
        for key in ("sources", "errors", "yields_to", "in_log", "facts")
        if key in row
    }
    cases = tuple(map(_case, row.get("cases", ())))
    return Problem(**{**row, **lists, "cases": cases})


def _case(row: Mapping) -> Case:
    lists = {key: tuple(row[key]) for key in ("shows", "unless", "sources") if key in row}
    return Case(**{**row, **lists})
