"""Handouts: notebooks without answers, a sheet to predict on, solutions."""

from __future__ import annotations

import ast
import inspect
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from colab_helpers import _atomic_files
from colab_lessons import exercises
from course.classroom import nbgrader_export, questions, template
from course.config import COLAB, Course, CourseError, Lesson
from course.publish import source_zip
from course.write import assemble, lesson_outline

_SHEET = template("predictions.html")
_NOT_TODAY = "Not for today: these cells are folded. They run, and need no reading."
_MIN_LETTERS = 25  # letters from which a judge's words say something without what is filled in


@dataclass(frozen=True)
class Location:
    """Where handouts will lie on GitHub, so that their badges open them."""

    slug: str
    branch: str
    folder: str

    @classmethod
    def parse(cls, course: Course, text: str) -> Location:
        """Read owner/name/branch/folder; "" is the folder `handouts` of the course's own repository.

        Raises `CourseError` for anything else. Branch names with a slash are not supported.
        """
        if not text:
            return cls(course.repository.slug, course.repository.branch, "handouts")
        plain = re.sub(r"^(https?://)?(www\.)?github\.com/", "", text.strip())
        words = re.split(r"[?#]", plain)[0].strip("/").split("/")
        if len(words) > 3 and words[2] in ("tree", "blob"):
            del words[2]  # an address copied from the browser
        owner, name, branch, *folders = [*words, "", "", ""][: max(3, len(words))]
        if not (owner and name and branch and folders and all(folders)) or {".", ".."} & set(words):
            raise CourseError(
                f"{text!r} names no place. Give owner/name/branch/folder, as in "
                "somebody/my-class/main/handouts."
            )
        return cls(f"{owner}/{name.removesuffix('.git')}", branch, "/".join(folders))

    def colab_url(self, lesson: Lesson, short: bool = False) -> str:
        """The address that opens a lesson's handout in Colab; `short` is the one for 45 minutes, if any."""
        path = quote(f"{self.branch}/{self.folder}/{name(lesson, short)}.ipynb")
        return f"{COLAB}/github/{self.slug}/blob/{path}"


def write(course: Course, lessons: Sequence[Lesson], place: Location, folder: Path) -> list[Path]:
    """Write what students, a learning platform, nbgrader and the teacher get into `folder`.

    Raises `CourseError` where a handout would still hold a solution.
    """
    written: list[Path] = []
    bundled: list[Path] = []
    _clear(course, folder)
    for lesson in lessons:
        for short in (False, True)[: 1 + has_short_version(lesson)]:
            given = for_students(course, lesson, short)
            text = assemble.dumps(relink(course, lessons, given, place, short))
            if left := leaked_lines(course, lesson, text):
                raise CourseError(f"{lesson.slug}: a handout still holds a solution: {left[0]!r}.")
            path = folder / "students" / f"{name(lesson, short)}.ipynb"
            bundled.append(_atomic_files.write(path, text))
        sheet = prediction_sheet(course, lesson)
        solved = assemble.dumps(for_teachers(course, lesson))
        source = nbgrader_export.assignment(course, lesson)
        assignment = assemble.dumps(relink(course, lessons, source, place))
        graded = folder / "nbgrader" / "source" / lesson.slug
        bundled.append(
            _atomic_files.write(folder / "students" / f"{lesson.slug}-predictions.html", sheet)
        )
        written += [
            _atomic_files.write(folder / "teacher" / f"{lesson.slug}-solved.ipynb", solved),
            _atomic_files.write(graded / f"{lesson.slug}.ipynb", assignment),
        ]
    config = _atomic_files.write(folder / "nbgrader" / "nbgrader_config.py", nbgrader_export.CONFIG)
    contents = {file.name: file.read_bytes() for file in bundled}
    packed = source_zip.zip_files(folder / "students.zip", contents)
    return [*bundled, *written, config, packed]


def has_short_version(lesson: Lesson) -> bool:
    """Whether a class of 45 minutes leaves parts of the lesson out."""
    return lesson.minutes > lesson_outline.SHORT_MINUTES


def name(lesson: Lesson, short: bool = False) -> str:
    """Return the file's name without its ending; `short` is the handout for 45 minutes, if any."""
    return (
        f"{lesson.slug}-{lesson_outline.SHORT_MINUTES}"
        if short and has_short_version(lesson)
        else lesson.slug
    )


def for_students(course: Course, lesson: Lesson, short: bool = False) -> NotebookNode:
    """Return a lesson's notebook without outputs and without solutions; `short` is for 45 minutes.

    Of parts that those leave out, the code stays, folded: later cells and the record need it. Colab is
    asked to leave its AI features off.
    """
    notebook = assemble.build(course, lesson)
    notebook.metadata.setdefault("colab", {})["generative_ai_disabled"] = True
    notebook.cells = [
        cell for cell in notebook.cells if assemble.SOLUTION not in assemble.tags_of(cell)
    ]
    if short:
        notebook.cells = list(_cut(notebook.cells))
    return notebook


def _cut(cells: Sequence[NotebookNode]) -> Iterator[NotebookNode]:
    """Fold the code of the parts that the 45-minute version leaves out."""
    title = ""  # of the part that is left out
    for cell in cells:
        if cell.cell_type == "markdown":
            before, *heading = re.split(r"(?m)^(?=## )", cell.source, maxsplit=1)
            kept = [] if title else [before]
            if heading:
                name = heading[0].splitlines()[0].removeprefix("## ")
                title = name if "short-0" in assemble.tags_of(cell) else ""
                kept += [f"## {name}\n\n{_NOT_TODAY}"] if title else heading
            cell.source = "".join(kept).strip()
        elif title and not cell.source.startswith(("# @title", "%")):
            cell.source = f'# @title {title} {{ display-mode: "form" }}\n{cell.source}'
        if cell.source:
            yield cell


def for_teachers(course: Course, lesson: Lesson) -> NotebookNode:
    """Return a lesson's notebook with solutions as cells that run, and what the judge knows below each."""
    notebook = assemble.build(course, lesson, solved=True)
    cells: list[NotebookNode] = []
    for cell in notebook.cells:
        cells.append(cell)
        if assemble.SOLUTION in assemble.tags_of(cell):
            [id] = questions.exercises(NotebookNode(cells=[cell]))
            reasons = _reasons(id)
            cells.append(new_markdown_cell(reasons, id=f"{cell.id}-why"))
    notebook.cells = cells
    return notebook


def prediction_sheet(course: Course, lesson: Lesson) -> str:
    """Return a page to print: every prediction of a lesson, with room for what one says and what it was."""
    asked = questions.predictions_in(assemble.build(course, lesson))
    return _SHEET.render(title=f"{lesson.number:02d} · {lesson.title}", questions=asked)


def relink(
    course: Course,
    lessons: Sequence[Lesson],
    notebook: NotebookNode,
    place: Location,
    short: bool = False,
) -> NotebookNode:
    """Return `notebook` with its badge and navigation links pointing at the handouts of `lessons`.

    Links to other lessons are removed, since those notebooks contain solutions.
    """
    others = [course.colab_url(lesson) for lesson in course.lessons if lesson not in lessons]
    for cell in notebook.cells:
        if "navigation" in assemble.tags_of(cell):
            ways = cell.source.split(" · ")
            cell.source = " · ".join(way for way in ways if not any(url in way for url in others))
        for lesson in lessons:
            cell.source = cell.source.replace(
                course.colab_url(lesson), place.colab_url(lesson, short)
            )
    return notebook


def _clear(course: Course, folder: Path) -> None:
    """Delete what an earlier call wrote here: its links may point at another place."""
    for lesson in course.lessons:
        for name in (lesson.slug, f"{lesson.slug}-{lesson_outline.SHORT_MINUTES}"):
            (folder / "students" / f"{name}.ipynb").unlink(missing_ok=True)
        (folder / "students" / f"{lesson.slug}-predictions.html").unlink(missing_ok=True)
        (folder / "teacher" / f"{lesson.slug}-solved.ipynb").unlink(missing_ok=True)
        shutil.rmtree(folder / "nbgrader" / "source" / lesson.slug, ignore_errors=True)


def leaked_lines(course: Course, lesson: Lesson, text: str) -> list[str]:
    """Return lines of the lesson's solutions that stand in `text`, and not in what students get anyway."""
    solved = assemble.build(course, lesson, solved=True)
    given = "\n".join(
        cell.source for cell in solved.cells if assemble.SOLUTION not in assemble.tags_of(cell)
    )
    lines = {
        line.strip()
        for cell in solved.cells
        if assemble.SOLUTION in assemble.tags_of(cell)
        for line in cell.source.splitlines()
    }
    telling = [line for line in lines if len(line) > 8 and line not in given]
    return sorted(
        line
        for line in telling
        if json.dumps(line, ensure_ascii=False)[1:-1] in text or line in text
    )


def _reasons(id: str) -> str:
    """What the judge of an exercise looks at, and what it says to wrong answers it knows."""
    judge = exercises.get(id).judge
    asked = " ".join((inspect.getdoc(judge) or "").split())
    known = "\n".join(f"- {text}" for text in _messages(inspect.getsource(judge)))
    answers = f"\n\nIt answers wrong ones with, among others:\n\n{known}" if known else ""
    return f"**The judge** (`{id}`) looks at: {asked} Run the cell above for its reason.{answers}"


def _messages(source: str) -> Iterator[str]:
    """The texts of `raise Wrong(...)`, with … for what is filled in."""
    for node in ast.walk(ast.parse(inspect.cleandoc(source))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Wrong" and node.args:
            parts = getattr(node.args[0], "values", [node.args[0]])
            text = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts
            )
            if len(text.replace("…", "").strip()) > _MIN_LETTERS:
                yield text
