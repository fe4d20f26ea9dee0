"""Slides as one file that opens without a network."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path

import markupsafe
from nbformat import NotebookNode
from pygments.formatters import HtmlFormatter

from colab_helpers import _files
from course import npm
from course.classroom import TEMPLATES, slides, template
from course.table import Course, CourseError, Lesson
from course.write import assemble, parts

#: Of reveal.js, what a deck needs: https://revealjs.com, MIT.
_REVEAL = ("dist/reset.css", "dist/reveal.css", "dist/reveal.js", "dist/plugin/notes.js", "LICENSE")
_STYLE = TEMPLATES / "deck.css"
_COLOURS = "a11y-high-contrast-light"
_PAGE = template("deck.html")
_TITLE = template("title.html")


@dataclass(frozen=True)
class Deck:
    """The slides of one lesson in one cut, and the minutes of its parts."""

    slides: tuple[slides.Slide, ...]
    minutes: int


def make(course: Course, lesson: Lesson, notebook: NotebookNode, short: bool = False) -> Deck:
    """Return the slides of a lesson from its `notebook` with outputs; `short` is the cut of 45 minutes."""
    chosen = parts.of(lesson, notebook)
    chosen = parts.cut(chosen) if short else [part for part in chosen if part.minutes]
    notes = parts.notes(course, lesson)
    minutes = sum(part.minutes for part in chosen)
    opening = _TITLE.render(
        objectives=lesson.objectives, minutes=minutes, address=course.colab_url(lesson)
    )
    expected = template("expected.html").render(answers=parts.wrong_answers(course, lesson))
    sizes = [c.source for c in notebook.cells if assemble.SIZES in assemble.tags_of(c)]
    said = expected + "".join(f"<pre>{html.escape(source)}</pre>" for source in sizes)
    title = slides.Slide(f"{lesson.number:02d} · {lesson.title}", opening, "title", said)
    body = [slide for part in chosen for slide in slides.of(part, notes)]
    return Deck((title, *body), minutes)


def page(lesson: Lesson, deck: Deck, cache: Path) -> str:
    """Return a deck as one HTML file with everything in it; reveal.js is fetched once into `cache`.

    Raises `CourseError` where it cannot be fetched.
    """
    files = {
        name: text.decode("utf-8") for name, text in npm.files(npm.REVEAL, _REVEAL, cache).items()
    }
    scripts = {name: files[f"dist/{name}.js"] for name in ("reveal", "plugin/notes")}
    if any("</script" in text for text in scripts.values()):
        raise CourseError("reveal.js cannot stand inside of a page: it has an end of a script.")
    colours = HtmlFormatter(style=_COLOURS).get_style_defs(".code")
    styles = [files["dist/reset.css"], files["dist/reveal.css"], colours, _STYLE.read_text("utf-8")]
    return _PAGE.render(
        number=f"{lesson.number:02d}",
        title=lesson.title,
        version=npm.REVEAL.version,
        licence=markupsafe.Markup(files["LICENSE"]),
        styles=markupsafe.Markup("\n".join(styles)),
        slides=[
            _marked(slide, ahead) for slide, ahead in zip(deck.slides, _ahead(deck), strict=True)
        ],
        reveal=markupsafe.Markup(scripts["reveal"]),
        notes=markupsafe.Markup(scripts["plugin/notes"]),
    )


def write(
    course: Course, lesson: Lesson, folder: Path, executed: NotebookNode | None = None
) -> list[tuple[Path, Deck]]:
    """Write a lesson's decks into `folder`: the whole one, and the short one where that is another.

    Outputs are those of the stored notebook, or of `executed`, a run of the teacher's own.
    """
    ran = assemble.read(course.notebook(lesson)) if executed is None else executed
    notebook = slides.with_outputs(assemble.build(course, lesson), ran)
    written = []
    for short in (False, True):
        deck = make(course, lesson, notebook, short)
        if short and deck.minutes == lesson.minutes:
            continue
        name = f"{lesson.slug}-{parts.SHORT}.html" if short else f"{lesson.slug}.html"
        path = _files.write(folder / name, page(lesson, deck, npm.cache(course)))
        written.append((path, deck))
    return written


def without_output(course: Course, lesson: Lesson, executed: NotebookNode) -> int:
    """Count cells that show something in the stored notebook, and nothing in the teacher's own run."""
    shown = {cell.source for cell in executed.cells if cell.get("outputs")}
    stored = assemble.read(course.notebook(lesson)).cells
    return sum(bool(cell.get("outputs")) and cell.source not in shown for cell in stored)


def _ahead(deck: Deck) -> list[int]:
    """Seconds for the presenter's clock; what comes before the first part shares its time."""
    seconds = [60 * slide.minutes for slide in deck.slides]
    first = next((place for place, time in enumerate(seconds) if time), 0)
    seconds[0], seconds[first] = seconds[first], 0 if first else seconds[first]
    return seconds


def _marked(slide: slides.Slide, seconds: int) -> dict:
    """A slide for the page: its body is HTML already, its title is text."""
    return {
        "title": slide.title,
        "body": markupsafe.Markup(slide.body),
        "notes": markupsafe.Markup(slide.notes),
        "kind": slide.kind,
        "minutes": slide.minutes,
        "seconds": seconds,
    }
