"""The parts of README and docs that are generated.

A part between `<!-- NAME: ... -->` and `<!-- end NAME -->` is written from the course table, the timings
and the records: edit those, not the page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from colab_helpers import _atomic_files, hardware
from colab_lessons import measurements, scoreboard
from course.config import Course, CourseError, Lesson
from course.write import assemble, lesson_outline
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


def write_timing(course: Course, slug: str, seconds: float) -> None:
    """Keep the seconds of a lesson that ran to its end at full size."""
    device = hardware.list_devices().main.short_name
    kept = {slug: vars(timing) for slug, timing in read_timings(course).items()}
    taken = Timing(round(seconds, 1), device, date.today().isoformat())
    text = json.dumps({**kept, slug: vars(taken)}, indent=1, sort_keys=True)
    _atomic_files.write(timings_path(course), text + "\n")


def render(course: Course) -> dict[Path, str]:
    """Return the text that every page with generated parts should have.

    Pages lead to the last release, also while work on the next one goes on.
    """
    from course.write import planner_tables  # imports PyTorch, which a release doesn't need

    course = course.published
    pages = {
        course.root / "README.md": {
            "job": job_lines(),
            "site": site_line(course),
            "lessons": lesson_table(course),
            "fork": fork_lines(course),
            "own": own_lines(course),
        }
    }
    pages[course.root / "docs" / "doctor.md"] = {
        "own": own_lines(course),
        "action": action_lines(course),
    }
    pages[course.root / "docs" / "planner.md"] = {
        "peaks": planner_tables.peaks_table(),
        "trials": planner_tables.trials_table(),
        "checks": planner_tables.checks_table(),
        "runs": planner_tables.runs_table(),
        "serving": planner_tables.serving_table(),
        "terms": planner_tables.terms_table(),
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
    folder = course.root / "colab_lessons" / "measurements" / "outputs"
    return sorted(folder.glob("*.json"))


def write(course: Course) -> list[Path]:
    """Bring the generated parts up to date and return the pages that changed."""
    return assemble.write_all(render(course))


def write_picture(path: Path) -> Path:
    """Draw the job on several machines to `path`: the README's picture."""
    return _atomic_files.write(path, scoreboard.picture().png)


def job_lines() -> str:
    """The course's job on several machines, and the first lines that the model writes after it."""
    board = scoreboard.show("01")
    told = "; ".join(f"{row.what}: {row.number}" for row in board.rows)
    written = scoreboard.job_record("amd-epyc-2-cores")["samples"]["1000"].split("\n")[:8]
    return "\n".join(
        [
            f"![Time to train the course's model, on a log scale. {told}.](docs/images/job.png)",
            "",
            "The running example trains a small GPT on Shakespeare. "
            f"After {scoreboard.STEPS:,} steps it writes:",
            "",
            "```text",
            *(line.rstrip() for line in written),
            "```",
        ]
    )


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
    return table(("open", "lesson", "runtime", "minutes", "you measure or work out"), rows)


def site_line(course: Course) -> str:
    """The line of the README that leads to the course's pages on the web."""
    site = course.repository.site
    pages = {
        "the lessons with their outputs": "",
        "what does my error mean?": "explain.html",
        "known problems": "problems/",
        "will my model fit?": "fits.html",
        "the GPU in front of you": "gpu.html",
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
    action = f"{course.repository.slug}/.github/actions/runs-on-colab@{course.repository.branch}"
    return (
        "```yaml\nname: runs on Colab\non: [push, pull_request]\njobs:\n  look:\n"
        "    runs-on: ubuntu-latest\n    steps:\n      - uses: actions/checkout@v7\n"
        f'      - uses: {action}\n        with:\n          notebooks: "notebooks/*.ipynb"\n```'
    )


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
        f"- runtime: {lesson.hardware}; runs on any machine",
        "- afterwards the learner can:",
        *(f"    - {objective}" for objective in lesson.objectives),
    ]
    return "\n".join(lines)


def parts_table(course: Course, lesson: Lesson) -> str:
    """The parts of a lesson with their minutes, in the whole lesson and in the short cut."""
    divided = lesson_outline.split_into_parts(lesson, assemble.build(course, lesson))
    short = min(lesson_outline.SHORT_MINUTES, lesson.minutes)
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
    folder = course.root / "colab_lessons" / "measurements"
    records = measurements.load(lesson.slug, folder)
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
