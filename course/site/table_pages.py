"""Pages of facts, of published measurements, and of the machines that ran the lessons."""

from __future__ import annotations

import itertools
import re

from colab_helpers import _units, platform_facts, published_results
from colab_lessons import measurements, scoreboard
from course.config import Course
from course.write.tables import table


def scoreboard_page(course: Course) -> str:
    """Return the scoreboard: what the course's job takes, and where each line is measured."""
    slugs = {f"{lesson.number:02d}": lesson.slug for lesson in course.lessons}
    body = (
        (row.what, row.number, _section_link(slugs[row.lesson], row), row.source)
        for row in scoreboard.rows()
    )
    alt = " ".join(scoreboard.picture(through="99").alt.split())
    return f"""# The scoreboard

One job runs through the course: a GPT of ten million parameters learns to imitate Shakespeare in
{scoreboard.STEPS:,} steps. Each lesson that measures it adds its lines.

```{{image}} images/scoreboard.png
:class: figure
:alt: {alt}
```

{table(("the job, or the trained model", "takes or reaches", "measured in", "where it comes from"), body)}
"""


def _section_link(slug: str, row: scoreboard.Row) -> str:
    anchor = re.sub(r"[^\w -]", "", row.section.lower()).replace(" ", "-")
    return f"[{row.lesson}: {row.section}](lessons/{slug}.ipynb#{anchor})"


def facts_page() -> str:
    """Return every fact about the platforms, with who says so and when to look again."""
    lines = [
        "# Facts, with their dates",
        "",
        "Platforms change under a course. Each sentence stands once.",
    ]
    for fact in platform_facts.all_facts():
        if fact.id == "machines":
            continue
        lines += [
            "",
            f"(fact-{fact.id})=",
            f"- {fact.text} [{fact.source}]({fact.url}); {platform_facts.CONFIDENCE[fact.confidence]}, "
            f"seen {fact.seen}, to be looked at again by {fact.review}.",
        ]
    return "\n".join([*lines, "", "The machines of Colab's menu: [chips](chips.md).", ""])


def published_page() -> str:
    """Return every measurement that others have published and the course quotes."""
    lines = [
        "# What others measured",
        "",
        "Looked up at its source before it came here; figures draw it hollow.",
    ]
    rows = sorted(published_results.all_rows().values(), key=lambda row: row.topic)
    for topic, several in itertools.groupby(rows, key=lambda row: row.topic):
        body = table(
            ("chip", "what", "measured", "conditions", "by"),
            (
                (
                    row.chip,
                    row.what,
                    _measured(row),
                    _literal(f"{row.conditions}; {row.software}"),
                    f"[{_literal(row.source)}]({row.url}), {row.when}",
                )
                for row in several
            ),
        )
        lines += [
            "",
            f"## {topic.replace('-', ' ').capitalize()}",
            "",
            f":::{{div}} sortable\n\n{body}\n\n:::",
        ]
    return "\n".join([*lines, ""])


def machines_page(course: Course) -> str:
    """Return what ran the lessons at full size: devices, dates, versions."""
    rows = [
        (
            record.device,
            f"[{lesson.number:02d}](lessons/{lesson.slug}.ipynb)",
            record.date,
            _versions(record),
        )
        for lesson in course.lessons
        for record in measurements.load(lesson.slug)
    ]
    lines = [
        "# Reference machines",
        "",
        "What a lesson shows of other hardware comes from these full runs, from",
        "[published measurements](published.md) or from a data sheet, and says which. A chip that is missing",
        "here has not run the lessons yet.",
        "",
        table(("device", "lesson", "run on", "versions"), rows),
        "",
        "Yours can be among them: [how to contribute a record](contributing.md).",
        "",
    ]
    return "\n".join(lines)


def _measured(row: published_results.PublishedResult) -> str:
    if len(row.y) == 1:
        return _quantity(row.y[0], row.unit)
    least, most = (_quantity(number, row.unit) for number in (min(row.y), row.value))
    return f"{least} to {most}, {len(row.y)} values of {row.x_name}"


def _quantity(number: float, unit: str) -> str:
    if unit in ("FLOP/s", "B/s", "B"):
        return _units.format_si(number, unit)
    return _units.format_duration(number) if unit == "s" else f"{number:,.4g} {unit}"


def _versions(record: measurements.Record) -> str:
    return ", ".join(f"{name} {version}" for name, version in record.versions.items() if version)


def _literal(text: str) -> str:
    """Text of others, in which a bar would end a cell of the table."""
    return text.replace("|", r"\|")
