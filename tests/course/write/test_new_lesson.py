"""A lesson that was just created runs, is judged, and is stored."""

import importlib.util
import sys

import pytest

from course.config import CourseError, load
from course.run import execute, outcome_checks
from course.write import assemble, generated_sections, new_lesson


@pytest.fixture
def created(toy_course):
    written = new_lesson.create(toy_course, "98", "next", 'Plan "before" you pay')
    return load(toy_course.root), [path.relative_to(toy_course.root).as_posix() for path in written]


def test_it_has_a_row_a_text_judges_and_a_page(created):
    course, written = created
    assert written == [
        "lessons/98_next.py", "colab_lessons/exercises/lesson_98.py",
        "docs/teaching/98_next.md", "course/course.toml",
    ]  # fmt: skip
    [_, lesson] = course.lessons
    assert (lesson.number, lesson.slug, lesson.title) == (98, "98_next", 'Plan "before" you pay')
    assert generated_sections.write(course)


@pytest.mark.timeout(120)
def test_it_runs_and_its_solution_is_right(created, monkeypatch, tmp_path):
    course, _ = created
    judges = course.root / "colab_lessons" / "exercises" / "lesson_98.py"
    name = "colab_lessons.exercises.lesson_98"
    spec = importlib.util.spec_from_file_location(name, judges)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    from colab_lessons import exercises

    monkeypatch.setitem(sys.modules, name, module)
    assert exercises.check("98.first", 54).status == "right"
    assert (
        exercises.check("98.first", 27).status == exercises.check("98.first", 9).status == "wrong"
    )
    source = tmp_path / "98_next.ipynb"
    source.write_text(assemble.dumps(assemble.build(course, course.lessons[1])), "utf-8")
    # The kernel has no such judges: it reaches its exercise, which is the last but one cell.
    outcome = execute.run(source, tmp_path / "out.ipynb", execute.Settings({"FAST": True}))
    assert "No exercise '98.first'" in outcome.problem
    assert outcome_checks.run_problems(outcome)
    del exercises.judging._registry["98.first"]


@pytest.mark.parametrize(
    ("number", "name", "title", "words"),
    [
        ("9", "next", "T", "two figures"), ("98", "Next it", "T", "small letters"),
        ("98", "next", "", "TITLE"),
        ("01", "again", "T", "Lesson 01 is there: 01_toy"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_and_nothing_is_written(toy_course, number, name, title, words):
    before = sorted(toy_course.root.rglob("*"))
    with pytest.raises(CourseError, match=words):
        new_lesson.create(toy_course, number, name, title)
    assert sorted(toy_course.root.rglob("*")) == before
