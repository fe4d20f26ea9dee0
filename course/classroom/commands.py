"""A teacher's commands, one function each; it returns the exit code."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from course.config import Course, CourseError

if TYPE_CHECKING:
    from nbformat import NotebookNode


def slides(course: Course, options: argparse.Namespace) -> int:
    """Write the decks of lessons, from their stored notebooks or from a run of the teacher's own."""
    from course.classroom import slides, submissions

    chosen, executed = course.select(options.lessons), None
    if options.source:
        executed = _read_notebook(options.source)
        slug = submissions.lesson_of(course, executed)
        if slug is None:
            raise CourseError(f"{options.source.name} is no lesson of this course.")
        if options.lessons and [slug] != [lesson.slug for lesson in chosen]:
            raise CourseError(f"{options.source.name} is a run of {slug}: ask for that one alone.")
        chosen = course.select([slug])
    folder = options.folder or course.root / "build" / "slides"
    for lesson in chosen:
        for path, minutes in slides.write(course, lesson, folder, executed):
            print(f"{path}: slides for {minutes} minutes")
        if executed and (without := slides.count_without_output(course, lesson, executed)):
            print(
                f"{without} cells of {options.source.name} have no output that the course's own run has: run "
                "all cells, and save the notebook with its outputs."
            )
    return 0


def _read_notebook(path: Path) -> NotebookNode:
    from course.write import assemble

    if not path.is_file():
        raise CourseError(f"There is no notebook {path}.")
    try:
        return assemble.read(path)
    except assemble.UnreadableNotebookError as error:
        raise CourseError(
            f"{path.name} cannot be read as a notebook. Download it anew: in Colab, File > Download > "
            "Download .ipynb."
        ) from error


def handouts(course: Course, options: argparse.Namespace) -> int:
    """Write what students and teachers get."""
    from course.classroom import handouts

    place = handouts.Location.parse(course, options.place)
    folder = options.folder or course.root / "build" / "class"
    chosen = course.select(options.lessons)
    handouts.write(course, chosen, place, folder)
    print(f"{folder / 'students'}: notebooks without answers, and sheets to predict on")
    print(f"{folder / 'students.zip'}: the same for a learning platform")
    print(
        f"{folder / 'teacher'}: solutions, and what the judges know; {folder / 'nbgrader'}: for nbgrader"
    )
    print(
        f"Badges open https://github.com/{place.slug}/tree/{place.branch}/{place.folder}: put the students' "
        "notebooks there."
    )
    return 0


def class_report(course: Course, options: argparse.Namespace) -> int:
    """Read what students handed in, and write the page."""
    from colab_helpers import _atomic_files
    from course.classroom import class_page, class_summary, submissions

    if not options.folder.is_dir():
        raise CourseError(
            f"{options.folder} is no folder. Give the one with the students' notebooks."
        )
    received = submissions.read_folder(course, options.folder)
    if not received:
        raise CourseError(f"There is no notebook (*.ipynb) in {options.folder} or below.")
    work = class_summary.summarize(course, received)
    target = options.out or course.root / "build" / "class"
    page = _atomic_files.write(
        target / "class.html", class_page.page(work, received, options.names)
    )
    counted = len(received) - len(work.left_out)
    print(f"{counted} of {len(received)} notebooks count\n{page}")
    return 0


def results(course: Course, options: argparse.Namespace) -> int:
    """Write a learner's page on the lessons that they ran."""
    from course.classroom import learner_page

    if not options.folder.is_dir():
        raise CourseError(
            f"{options.folder} is no folder. Give the one with the notebooks that you ran."
        )
    target = options.out or course.root / "build" / "results.html"
    page, lessons = learner_page.write(course, options.folder, target)
    if not lessons:
        raise CourseError(
            f"No notebook in {options.folder} was run to its end. In Colab: Runtime > Run all, then File > "
            "Download > Download .ipynb."
        )
    print(f"{page}: {lessons} lesson{'s' if lessons > 1 else ''}")
    return 0
