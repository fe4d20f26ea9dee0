"""The table of known problems as pages: one a topic, one address a problem."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

import colab_doctor
from colab_helpers import platform_facts
from colab_helpers.problem_schema import Problem
from course.write.tables import table


def by_topic() -> Mapping[str, list[Problem]]:
    """Return the known problems of each topic, in the order of the list."""
    found: dict[str, list[Problem]] = {topic: [] for topic in colab_doctor.TOPICS}
    for problem in colab_doctor.known_problems().values():
        found[problem.topic].append(problem)
    return found


def pages() -> dict[str, str]:
    """Return the pages of problems by name: an index, and a page for each topic."""
    return {"index": _index(), **{topic: _page(topic, rows) for topic, rows in by_topic().items()}}


def place(id: str) -> str:
    """Return the address of a problem's place on the site. Raises KeyError for an unknown one."""
    return f"problems/{colab_doctor.known_problems()[id].topic}.md#{id}"


def as_json(address: str) -> str:
    """Return the table as data for other tools; `address` is where the site lives."""
    rows = [
        {**asdict(problem), "address": address + place(problem.id).replace(".md#", ".html#")}
        for problem in colab_doctor.known_problems().values()
    ]
    return json.dumps({"problems": rows}, indent=1, default=str)


def _page(topic: str, rows: list[Problem]) -> str:
    lines = [f"# {colab_doctor.TOPICS[topic]}: known problems", ""]
    for row in rows:
        lines += [f"({row.id})=", f"## {row.title}", "", *_lines(row), ""]
    return "\n".join(lines)


def _lines(problem: Problem) -> list[str]:
    """What a page says of a problem below its title, as lines of Markdown."""
    quoted = platform_facts.quote(*problem.facts).facts
    here = "On Colab" if problem.elsewhere else "Fix"
    cases = [
        f"- {case.meaning} **Fix:** {case.fix}{_sources(case.sources)}" for case in problem.cases
    ]
    return [
        problem.meaning,
        "",
        f"**{here}:** {problem.fix}",
        "",
        *([f"**Elsewhere:** {problem.elsewhere}", ""] if problem.elsewhere else []),
        *([f"**More:** {problem.more}", ""] if problem.more else []),
        *(["The text of the error may show more:", "", *cases, ""] if cases else []),
        *(f"> {fact.text} ([{fact.source}]({fact.url}), {fact.seen})\n" for fact in quoted),
        f"<sub>`{problem.id}` · {', '.join(map(_source, problem.sources))} · {problem.seen}</sub>",
    ]


def _sources(sources: tuple[str, ...]) -> str:
    return f" <sub>{', '.join(map(_source, sources))}</sub>" if sources else ""


def _source(source: str) -> str:
    """A link to a source: an issue as owner/name#number, or an address."""
    repository, hash_, number = source.partition("#")
    if hash_ and not source.startswith("https://"):
        name = repository.partition("/")[2]
        return f"[{name} #{number}](https://github.com/{repository}/issues/{number})"
    host, _, path = source.removeprefix("https://").partition("/")
    return f"[{host}, {path.rstrip('/').rpartition('/')[2]}]({source})"


def _index() -> str:
    topics = by_topic()
    names = colab_doctor.TOPICS
    counted = table(
        ("where", "problems"),
        ((f"[{names[topic]}]({topic}.md)", str(len(rows))) for topic, rows in topics.items()),
    )
    lines = [
        "# Known problems",
        "",
        "Each has its own address, the fix, and who says so. You have an error text?",
        "[Paste it](../explain.md), and read what it means.",
        "",
        counted,
        "",
    ]
    for topic, rows in topics.items():
        titles = (f"- [{row.title}]({topic}.md#{row.id})" for row in rows)
        lines += [f"## {names[topic]}", "", *titles, ""]
    return "\n".join([*lines, "```{toctree}", ":hidden:", "", *topics, "```", ""])
