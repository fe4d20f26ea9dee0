"""The files that Sphinx reads: lessons, docs and tables, laid out as the site's pages."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from colab_helpers import _atomic_files
from colab_lessons import scoreboard
from course.classroom import handouts
from course.config import Course, CourseError
from course.site import chips, glossary, lesson_pages, problems, table_pages
from course.write import assemble

HERE = Path(__file__).parent
#: Pages that are sections of the README.
_SECTIONS = {"own.md": "Use it in your own notebook", "fork.md": "Fork it"}
_BADGE = re.compile(r"\[!\[Open in Colab\]\([^)]*\)\]\(([^)]*)\)")
_LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:)([^)\s#]*)(#[\w.-]+)?(?=\))")


def stage(course: Course, folder: Path) -> Path:
    """Write everything that Sphinx reads into `folder`, made anew, and return it."""
    shutil.rmtree(folder, ignore_errors=True)
    for page, text in {**_site_only_pages(course), **_generated_pages(course)}.items():
        _atomic_files.write(folder / page, text)
    for page, file in _pages(course).items():
        text = (course.root / file).read_text("utf-8")
        if page in _SECTIONS:
            text = section(text, _SECTIONS[page])
        # A badge's picture would be fetched from elsewhere.
        text = _BADGE.sub(r"[Open in Colab](\1){.start}", text)
        below = _appended(course).get(page, "")
        _atomic_files.write(folder / page, relink(course, page, file, text) + below)
    for lesson in course.lessons:
        notebook = lesson_pages.page(course, lesson)
        _atomic_files.write(folder / "lessons" / f"{lesson.slug}.ipynb", assemble.dumps(notebook))
    shutil.copytree(course.root / "docs" / "images", folder / "images")
    for name, inches in {"wide": (7.6, 3.4), "phone": (4.2, 3.6)}.items():
        _atomic_files.write(folder / "images" / f"job-{name}.png", scoreboard.picture(inches).png)
    _atomic_files.write(folder / "images" / "scoreboard.png", scoreboard.picture(through="99").png)
    return folder


def sources(course: Course) -> dict[str, str]:
    """Return the file that somebody edits, from the repository's top, of each page that has one."""
    own = {page: f"course/site/pages/{page}" for page in _site_only_pages(course)}
    lessons = {f"lessons/{le.slug}.ipynb": f"lessons/{le.slug}.py" for le in course.lessons}
    return own | _pages(course) | lessons


def _site_only_pages(course: Course) -> dict[str, str]:
    """Pages that only the site has, written by somebody."""
    pages = HERE / "pages"
    texts = {
        path.relative_to(pages).as_posix(): path.read_text("utf-8") for path in pages.rglob("*.md")
    }
    start = f"({course.colab_url(course.lessons[0])})"
    return {**texts, "index.md": texts["index.md"].replace("(START)", start)}


def _generated_pages(course: Course) -> dict[str, str]:
    """Pages that are made from tables and docstrings."""
    return {
        **{f"problems/{name}.md": text for name, text in problems.pages().items()},
        "lessons/index.md": lesson_pages.index(course),
        "chips.md": chips.page(),
        "glossary.md": glossary.page(course),
        "facts.md": table_pages.facts_page(),
        "published.md": table_pages.published_page(),
        "scoreboard.md": table_pages.scoreboard_page(course),
        "machines.md": table_pages.machines_page(course),
    }


def _pages(course: Course) -> dict[str, str]:
    """Pages that the repository has too -> the file there, from its top."""
    docs = course.root / "docs"
    there = {path.name: f"docs/{path.name}" for path in docs.glob("*.md")}
    for path in (docs / "teaching").glob("*.md"):
        name = "index" if path.stem == "README" else path.stem
        there[f"teaching/{name}.md"] = f"docs/teaching/{path.name}"
    there |= dict.fromkeys(_SECTIONS, "README.md")
    return there | {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}


def _appended(course: Course) -> dict[str, str]:
    """What the site adds to pages that the repository has too: what hangs below them."""
    return {
        "teaching/index.md": _downloads(course) + toctree(le.slug for le in course.lessons),
        "own.md": "\nEvery function: [the helper, module by module](api/index.md).\n",
    }


def _downloads(course: Course) -> str:
    """The section that links each lesson's handouts, which `building` puts on the site."""
    there = f"{course.repository.site}handouts/"
    lines = [
        "\n## Handouts to download\n",
        "Notebooks without solutions; in Colab, *File > Upload notebook* opens them. `make handouts` makes",
        "some whose badge opens them from your own repository.\n",
    ]
    for lesson in course.lessons:
        links = f"[handout]({there}{handouts.name(lesson)}.ipynb)"
        if handouts.has_short_version(lesson):
            links += f", [for 45 minutes]({there}{handouts.name(lesson, short=True)}.ipynb)"
        lines.append(f"- {lesson.number:02d} {lesson.title}: {links}")
    return "\n".join([*lines, ""])


def toctree(pages: Iterable[str]) -> str:
    """Return the lines that hang pages below the one that they stand on."""
    return "\n".join(["", "```{toctree}", ":hidden:", "", *pages, "```", ""])


def section(readme: str, title: str) -> str:
    """Return a section of the README as a page of its own. Raises `CourseError` where there is none."""
    match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", readme, re.S | re.M)
    if match is None:
        raise CourseError(f"README.md has no section '## {title}', which the site has as a page.")
    return f"# {title}\n{match.group(1)}"


def _page_by_file(course: Course) -> Mapping[str, str]:
    """The repository's files -> where the site has them."""
    return {
        **{file: page for page, file in _pages(course).items()},
        **{f"notebooks/{one.slug}.ipynb": f"lessons/{one.slug}.ipynb" for one in course.lessons},
        "README.md": "index.md",
        "docs/images/job.png": "images/job.png",
        "docs/teaching/": "teaching/index.md",
    }


def relink(course: Course, page: str, file: str, text: str) -> str:
    """Return a page's text; its links lead to other pages, or to the repository where there is none.

    `page` is its place on the site, and `file` the one in the repository by which its links go.
    """
    places = _page_by_file(course)

    def moved(match: re.Match[str]) -> str:
        target, anchor = match.group(1), match.group(2) or ""
        if not target:
            return match.group()
        path = os.path.normpath(PurePosixPath(file).parent / target)
        path += "/" if target.endswith("/") else ""
        here = PurePosixPath(page).parent
        if path in places:
            return os.path.relpath(places[path], here) + anchor
        return f"{course.repository.url}/blob/{course.repository.branch}/{path.rstrip('/')}{anchor}"

    return _LINK.sub(moved, text)
