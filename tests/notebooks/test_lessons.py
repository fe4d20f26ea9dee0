"""Every lesson, on every change: static checks, a run with FAST, solutions, stored outputs."""

import pytest

from course import build, execute, table, verify

COURSE = table.load()
lessons = pytest.mark.parametrize("lesson", COURSE.lessons, ids=lambda lesson: lesson.slug)


@lessons
def test_stored_notebook_is_sound(lesson):
    assert verify.static_problems(COURSE, lesson) == []


@lessons
@pytest.mark.timeout(600)
def test_runs_with_fast_and_solutions(lesson, tmp_path):
    """One run serves both: every learner's cell, and each solution right below its stub."""
    source = tmp_path / f"{lesson.slug}.ipynb"
    source.write_text(build.dumps(build.build(COURSE, lesson, build.SOLVED)), "utf-8")
    before = execute.packages()
    settings = execute.Settings(parameters={"FAST": True}, cell_limit=120)
    outcome = execute.run(source, tmp_path / "out" / source.name, settings)
    assert verify.run_problems(outcome) == []
    assert execute.changed_packages(before, execute.packages()) == []
    tags = [tag for cell in outcome.notebook.cells for tag in cell.metadata.get("tags", [])]
    assert tags.count(build.SOLUTION) == tags.count(build.EXERCISE) >= 3


@lessons
@pytest.mark.timeout(600)
def test_stored_outputs_are_what_a_run_gives(lesson):
    assert verify.compare_stored_outputs(COURSE.notebook(lesson)) == []
