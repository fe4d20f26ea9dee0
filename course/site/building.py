"""Building the site, within a limit on its weight."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jupytext

import colab_doctor
from colab_helpers import _atomic_files
from course import npm
from course.classroom import handouts
from course.config import Course, CourseError
from course.site import browser_python, gpu_page_data, lesson_pages, problems, staging

#: A page without its pictures; the whole site. In bytes.
MAX_PAGE_BYTES, MAX_SITE_BYTES = 10**6, 40 * 10**6


#: Labels of the theme that differ from the visible text; voice-control users say that (WCAG 2.5.3).
_MISNAMED = re.compile(
    r'(<summary|search-button-field[^>]*?) aria-label="(?:Toggle hidden content|Search)"'
)


def build(course: Course, folder: Path, with_python: bool = True) -> Path:
    """Build the site in `folder`/html, made anew, and return that place.

    `with_python`: put Python in, which the doctor and the planner need; it is fetched once. Raises
    `CourseError` with Sphinx's words where it warns of anything, or where the site is too heavy.
    """
    source, html = staging.stage(course, folder / "source"), folder / "html"
    shutil.rmtree(html, ignore_errors=True)  # or pages that are gone would stay
    _run_sphinx(course, source, html, folder / "doctrees")
    for page in (html / "_static").glob("*.html"):
        page.unlink()  # the theme's own building blocks, which are no pages
    for page in html.rglob("*.html"):
        _atomic_files.write(page, _MISNAMED.sub(r"\1", page.read_text("utf-8")))
    for lesson in course.lessons:  # for machines to read: words and code, no pictures as numbers
        text = jupytext.writes(lesson_pages.page(course, lesson), fmt="md")
        _atomic_files.write(html / "_sources" / "lessons" / f"{lesson.slug}.ipynb.txt", text)
    (html / "llms-full.txt").unlink(missing_ok=True)  # it would have the pictures
    _add_handouts(course, html / "handouts", folder / "class")
    _atomic_files.write(html / ".nojekyll", "")  # or GitHub leaves out folders such as _static
    _atomic_files.write(html / "problems.json", problems.as_json(course.repository.site))
    _atomic_files.write(html / "_static" / "addresses.json", _addresses())
    _atomic_files.write(html / "_static" / "gpu.json", gpu_page_data.rivals())
    if with_python:
        browser_python.provide(course, html, npm.cache(course))
    if heavy := size_problems(html):
        raise CourseError("\n".join(heavy))
    return html


def size_problems(html: Path) -> list[str]:
    """Say which pages, or whether the whole, weigh more than they may."""
    pages = {path: path.stat().st_size for path in html.rglob("*.html")}
    heavy = [
        f"{path.relative_to(html)} has {size / 1e6:.1f} MB: a page may have {MAX_PAGE_BYTES / 1e6:.0f}."
        for path, size in pages.items()
        if size > MAX_PAGE_BYTES
    ]
    whole = sum(path.stat().st_size for path in html.rglob("*") if path.is_file())
    if whole > MAX_SITE_BYTES:
        heavy.append(f"The site has {whole / 1e6:.0f} MB: it may have {MAX_SITE_BYTES / 1e6:.0f}.")
    return heavy


def _run_sphinx(course: Course, source: Path, html: Path, doctrees: Path) -> None:
    settings = {
        "version": course.repository.version,
        "release": course.repository.version,
        "ogp_site_url": course.repository.site,
        "html_baseurl": course.repository.site,
        "html_theme_options.github_url": course.repository.url,
    }
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-E", "-q", "-W", "--keep-going"]
    command += ["-c", str(staging.HERE), "-d", str(doctrees)]
    command += [word for name, value in settings.items() for word in ("-D", f"{name}={value}")]
    done = subprocess.run(
        [*command, str(source), str(html)],
        cwd=course.root,
        env={**os.environ, "PYTHONPATH": str(course.root), "EDITED": _edit_urls(course)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise CourseError(f"Sphinx could not build the site:\n{done.stderr.strip()[-4000:]}")


def _add_handouts(course: Course, folder: Path, scratch: Path) -> None:
    """Put the notebooks that students get into `folder`, for download."""
    folder.mkdir(parents=True)
    for path in handouts.write(
        course, course.lessons, handouts.Location.parse(course, ""), scratch
    ):
        if path.parent.name == "students" and path.suffix == ".ipynb":
            shutil.copy(path, folder)


def _edit_urls(course: Course) -> str:
    """Where to edit each page, as JSON; "" is for pages that are made from tables."""
    there = f"{course.repository.url}/edit/{course.repository.branch}/"
    pages = {page: there + file for page, file in staging.sources(course).items()}
    return json.dumps({**pages, "": course.repository.url})


def _addresses() -> str:
    """Each problem's place, for links that pages make themselves."""
    known = colab_doctor.known_problems()
    return json.dumps({id: problems.place(id).replace(".md#", ".html#") for id in known})
