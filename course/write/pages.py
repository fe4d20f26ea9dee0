"""Which parts of README and docs are written by the course itself, and what do they say?

A part between `<!-- NAME: ... -->` and `<!-- end NAME -->` is generated: edit the course table or
the timings, not the page.
"""

from __future__ import annotations

import base64
import functools
import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from colab_helpers import _files, doctor, facts, hardware, preflight
from colab_helpers.doctor import clues
from colab_helpers.lessons import reference
from course.run import execute
from course.table import Course, CourseError, Lesson
from course.write import assemble, parts, planner
from course.write import doctor as doctor_page
from course.write.tables import table


@dataclass(frozen=True)
class Timing:
    """Seconds that one lesson took at full size, on which device, when."""

    seconds: float
    device: str
    date: str


def timings_path(course: Course) -> Path:
    """The file that holds the measured run times."""
    return course.root / "docs" / "timings.json"


def read_timings(course: Course) -> dict[str, Timing]:
    """Return the measured run time of each lesson by slug; empty before the first run."""
    path = timings_path(course)
    if not path.exists():
        return {}
    try:
        rows = json.loads(path.read_text("utf-8"))
        return {slug: Timing(**entry) for slug, entry in rows.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise CourseError(
            f"docs/{path.name} cannot be read ({error}). Restore it (git checkout docs/{path.name}), or "
            "delete it: `make notebooks` measures anew."
        ) from error


def write_timing(course: Course, outcome: execute.Outcome) -> None:
    """Keep the run time of a lesson that ran to its end at full size."""
    device = hardware.list_devices().main.short_name
    kept = {slug: vars(timing) for slug, timing in read_timings(course).items()}
    taken = Timing(round(outcome.seconds, 1), device, date.today().isoformat())
    text = json.dumps({**kept, outcome.name: vars(taken)}, indent=1, sort_keys=True)
    _files.write(timings_path(course), text + "\n")


def render(course: Course) -> dict[Path, str]:
    """Return the text that every page with generated parts should have.

    Pages lead to the last release, also while work on the next one goes on.
    """
    course = course.published
    pages = {
        course.root / "README.md": {
            "site": site_line(course),
            "lessons": lesson_table(course),
            "fork": fork_lines(course),
            "own": own_lines(course),
        }
    }
    pages[course.root / doctor.PAGE] = {"problems": problem_list()}
    for place, text in problem_pages().items():
        pages[course.root / place] = {"problems": text}
    pages[course.root / "docs" / "doctor.md"] = {
        "own": own_lines(course),
        "action": action_lines(course),
        "short": doctor_page.short(),
        "unrelated": doctor_page.unrelated(),
        "words": doctor_page.words(),
        "judged": doctor_page.judged_table(),
        "categories": doctor_page.categories_table(),
        "mismatches": doctor_page.mismatches_table(),
        "sessions": doctor_page.sessions_table(),
    }
    pages[course.root / "docs" / "planner.md"] = {
        "trials": planner.trials_table(),
        "runs": planner.runs_table(),
        "terms": planner.terms_table(),
    }
    timings = read_timings(course)
    for lesson in course.lessons:
        page = course.root / "docs" / "teaching" / f"{lesson.slug}.md"
        pages[page] = {
            "facts": teaching_facts(course, lesson, timings),
            "parts": parts_table(course, lesson),
            "measured": measured_table(course, lesson),
        }
    return {path: _fill(path, parts) for path, parts in pages.items()}


def recorded_outputs(course: Course) -> list[Path]:
    """The files with outputs of cells that not every machine can run."""
    folder = course.root / "colab_helpers" / "lessons" / "reference" / "outputs"
    return sorted(folder.glob("*.json"))


def write(course: Course) -> list[Path]:
    """Bring the generated parts up to date and return the pages that changed."""
    changed = []
    for path, text in render(course).items():
        if path.read_text("utf-8") != text:
            _files.write(path, text)
            changed.append(path)
    return changed


def write_picture(course: Course, path: Path) -> Path | None:
    """Write the first race plot of the stored notebooks to `path`: the README's picture."""
    stored = [course.notebook(lesson) for lesson in course.lessons]
    for notebook in (notebook for notebook in stored if notebook.exists()):
        for png, alt in execute.pictures(assemble.read(notebook)):
            if alt.startswith("Log-log plot"):
                return _files.write(path, base64.b64decode(png))
    return None


def lesson_table(course: Course) -> str:
    """The table of lessons: badge, title, hardware, minutes, what the reader measures."""
    rows = (
        (
            course.badge(lesson),
            f"[{lesson.number:02d} {lesson.title}](notebooks/{lesson.slug}.ipynb)",
            lesson.hardware,
            str(lesson.minutes),
            lesson.measures,
        )
        for lesson in course.lessons
    )
    return table(("open", "lesson", "asks for", "minutes", "you measure or work out"), rows)


def site_line(course: Course) -> str:
    """The line of the README that leads to the course's pages on the web."""
    site = course.repository.site
    pages = {
        "the lessons with their outputs": "",
        "what does my error mean?": "explain.html",
        "will my model fit?": "fits.html",
        "chips side by side": "chips.html",
    }
    return f"**On the web:** {', '.join(f'[{name}]({site}{page})' for name, page in pages.items())}"


def fork_lines(course: Course) -> str:
    """The lines of the README that name the repository."""
    return (
        f"```bash\ngit clone {course.repository.url}\ncd {course.repository.slug.split('/')[1]}\n"
        "make course   # set up, run every lesson, write the report\n"
        "make test     # every notebook, the helper and the tools, checked\n```"
    )


def own_lines(course: Course) -> str:
    """The lines of the README that install the helper alone."""
    return f'```\n%pip install --no-deps "colab-helpers @ {course.repository.helper}"\n```'


def action_lines(course: Course) -> str:
    """The workflow that looks through somebody's own notebooks."""
    action = f"{course.repository.slug}/.github/actions/runs-on-colab@main"
    return (
        "```yaml\nname: runs on Colab\non: [push, pull_request]\njobs:\n  look:\n"
        "    runs-on: ubuntu-latest\n    steps:\n      - uses: actions/checkout@v7\n"
        f'      - uses: {action}\n        with:\n          notebooks: "notebooks/*.ipynb"\n```'
    )


def problem_list() -> str:
    """Every known problem by group, with a place for its id and the way to its page."""
    lines = []
    for group, rows in problem_groups().items():
        lines += [f"## {group}", ""]
        for row in rows:
            page = row.page.removeprefix("docs/")
            lines.append(f'- <a name="{row.id}"></a>[{row.title}]({page}#{row.id})')
        lines.append("")
    return "\n".join(lines).strip()


def problem_pages() -> dict[str, str]:
    """The page of each group by its place: what each problem means, the way out, who says so."""
    pages = {}
    for rows in problem_groups().values():
        lines = [*(f"- [{row.title}](#{row.id})" for row in rows), ""]
        for row in rows:
            place = f'<a name="{row.id}"></a>'
            lines += [place, "", f"## {row.title}", "", *problem_lines(row), ""]
        pages[rows[0].page] = "\n".join(lines).strip()
    return pages


@functools.cache
def problem_groups() -> Mapping[str, tuple[doctor.Problem, ...]]:
    """Return the known problems by group, in the order of the list."""
    known = doctor.known_problems().values()
    rows = itertools.groupby(known, key=lambda problem: problem.group)
    return {group: tuple(problems) for group, problems in rows}


def problem_lines(problem: doctor.Problem) -> list[str]:
    """What a page says of a problem below its title, as lines of Markdown."""
    quoted = facts.quote(*problem.facts).facts
    return [
        problem.text,
        "",
        f"**On Colab:** {problem.remedy}" if problem.elsewhere else f"**Do:** {problem.remedy}",
        "",
        *([f"**Elsewhere:** {problem.elsewhere}", ""] if problem.elsewhere else []),
        *(["If the error shows more, the cause may be:", ""] if problem.cases else []),
        *(f"- {case.seen} {_case(case)}" for case in problem.cases),
        *([""] if problem.cases else []),
        *(f"> {fact.text} ([{fact.source}]({fact.url}), {fact.seen})\n" for fact in quoted),
        f"<sub>`{problem.id}` · {_found_by(problem)} · {', '.join(map(_source, problem.sources))} "
        f"· {facts.CONFIDENCE[problem.confidence]}, {problem.seen}</sub>",
    ]


def _case(case: doctor.Case) -> str:
    elsewhere = f" *Elsewhere:* {case.elsewhere}" if case.elsewhere else ""
    sources = f" <sub>{', '.join(map(_source, case.sources))}</sub>" if case.sources else ""
    return f"{case.remedy}{elsewhere}{sources}"


def _found_by(problem: doctor.Problem) -> str:
    """How somebody who has this problem can learn of it."""
    checks = {check.__name__.replace("_", "-") for check in preflight.CHECKS}
    ways = [
        "card" if problem.lessons and problem.id in checks else "",
        "doctor" if problem.id in checks - set(preflight.ON_THE_CARD_ONLY) else "",
        "doctor --error" if problem.errors else "",
        "doctor --notebook" if problem.id in doctor.IN_NOTEBOOKS else "",
        "the card below an error" if problem.id in clues.ONLY_HERE else "",
    ]
    named = ", ".join(way for way in ways if way)
    return f"found by: {named}" if named else "nothing on the machine shows it"


def _source(source: str) -> str:
    """A link to a source: an issue as owner/name#number, or an address."""
    repository, hash_, number = source.partition("#")
    if hash_ and not source.startswith("https://"):
        name = repository.partition("/")[2]
        return f"[{name} #{number}](https://github.com/{repository}/issues/{number})"
    host, _, path = source.removeprefix("https://").partition("/")
    return f"[{host}, {path.rstrip('/').rpartition('/')[2]}]({source})"


def teaching_facts(course: Course, lesson: Lesson, timings: Mapping[str, Timing]) -> str:
    """Objectives, class time, measured run time and addresses of one lesson."""
    timing = timings.get(lesson.slug)
    ran = (
        f"{timing.seconds:.0f} s on {timing.device} ({timing.date})"
        if timing
        else "not measured yet"
    )
    lines = [
        f"{course.badge(lesson)} · [Colab's own slide view]({course.colab_url(lesson)}#slideshowMode=true); "
        f"for the deck, `make slides LESSONS={lesson.number:02d}`",
        "",
        f"- class time: {lesson.minutes} minutes; Run all: {ran}",
        f"- asks for: {lesson.hardware}; runs on any machine",
        "- afterwards the learner can:",
        *(f"    - {objective}" for objective in lesson.objectives),
    ]
    return "\n".join(lines)


def parts_table(course: Course, lesson: Lesson) -> str:
    """The parts of a lesson with their minutes, in the whole lesson and in the short cut."""
    divided = parts.of(lesson, assemble.build(course, lesson))
    short = min(parts.SHORT, lesson.minutes)
    rows = (
        (
            str(part.minutes),
            part.title,
            "keep" if part.short == part.minutes else str(part.short) if part.short else "drop",
        )
        for part in divided
        if part.minutes
    )
    return table(("minutes", "part", f"in {short} minutes"), rows)


def measured_table(course: Course, lesson: Lesson) -> str:
    """What full runs of a lesson measured: a row a value, a column a reference machine."""
    folder = course.root / "colab_helpers" / "lessons" / "reference"
    records = reference.load(lesson.slug, folder)
    if not records:
        return "No full run of this lesson has been recorded yet."
    meanings = {name: value.meaning for record in records for name, value in record.values.items()}
    rows = (
        (meaning, *(str(record.values.get(name, "–")) for record in records))
        for name, meaning in meanings.items()
    )
    return table(("measured", *(record.label for record in records)), rows)


def _literal(text: str) -> str:
    """Text as a pattern's replacement, in which backslashes mean nothing."""
    return text.replace("\\", r"\\")


def _fill(path: Path, parts: Mapping[str, str]) -> str:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise CourseError(f"The page {path} cannot be read: {error.strerror}.") from error
    for name, content in parts.items():
        pattern = re.compile(rf"(<!-- {name}:[^\n]*-->\n).*?(<!-- end {name} -->)", re.S)
        text, count = pattern.subn(rf"\1\n{_literal(content)}\n\n\2", text)
        if count != 1:
            raise CourseError(
                f"{path.name} needs one part '<!-- {name}: … -->' to '<!-- end {name} -->'; it has {count}."
            )
    return text
