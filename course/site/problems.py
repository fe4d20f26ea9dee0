"""How do the known problems become pages? One page a group, one address a problem."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import PurePosixPath

from colab_helpers import doctor
from course.write import pages as written
from course.write.tables import table


def pages() -> dict[str, str]:
    """Return the pages of problems by name: an index, and a page for each group."""
    texts = {_name(rows): _page(group, rows) for group, rows in written.problem_groups().items()}
    return {"index": _index(), **texts}


def place(id: str) -> str:
    """Return the address of a problem's place on the site. Raises KeyError for an unknown one."""
    return f"{on_site(doctor.known_problems()[id].page)}#{id}"


def on_site(page: str) -> str:
    """Return where the site has a group's `page` of the repository."""
    return page.removeprefix("docs/")


def as_json(address: str) -> str:
    """Return the table as data for other tools; `address` is where the site lives."""
    rows = [
        {
            **asdict(problem),
            "errors": list(problem.errors),
            "address": address + place(problem.id).replace(".md#", ".html#"),
        }
        for problem in doctor.known_problems().values()
    ]
    return json.dumps({"problems": rows}, indent=1, default=str)


def _name(rows: tuple[doctor.Problem, ...]) -> str:
    return PurePosixPath(rows[0].page).stem


def _page(group: str, rows: tuple[doctor.Problem, ...]) -> str:
    lines = [f"# {group}: known problems", ""]
    for row in rows:
        lines += [f"({row.id})=", f"## {row.title}", "", *written.problem_lines(row), ""]
    return "\n".join(lines)


def _index() -> str:
    counted = table(
        ("where", "problems"),
        (
            (f"[{group}]({_name(rows)}.md)", str(len(rows)))
            for group, rows in written.problem_groups().items()
        ),
    )
    lines = [
        "# Known problems",
        "",
        "Each has an address of its own, the way out, and who says so. You have an error text?",
        "[Paste it](../explain.md), and read what it means.",
        "",
        counted,
        "",
    ]
    for group, rows in written.problem_groups().items():
        titles = (f"- [{row.title}]({_name(rows)}.md#{row.id})" for row in rows)
        lines += [f"## {group}", "", *titles, ""]
    lines += [
        "```{toctree}",
        ":hidden:",
        "",
        *map(_name, written.problem_groups().values()),
        "```",
        "",
    ]
    return "\n".join(lines)
