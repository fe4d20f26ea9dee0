"""Every lesson, on every change: static checks, a run with FAST, solutions, stored outputs."""

import re

import nbformat
import pytest

from colab_helpers.lessons import replay
from course import table
from course.write import assemble
from course.prove import comparison, runs, static
from course.run import execute, matrix
from tests.notebooks.promises import broken

COURSE = table.load()
#: What one run in `make test` goes without; `make test-matrix` takes away one after the other.
LEFT_OUT = [
    ("04_tensorflow_on_gpu", ("tensorflow",)),
    ("05_tpu_strategy", ("tensorflow",)),
    ("05_tpu_strategy", ("jax",)),
    ("06_memory_management", ("jax", "tensorflow")),
    ("07_mixed_precision", ("jax", "keras")),
]
lessons = pytest.mark.parametrize("lesson", COURSE.lessons, ids=lambda lesson: lesson.slug)


@lessons
def test_stored_notebook_is_sound(lesson):
    assert static.static_problems(COURSE, lesson) == []


@lessons
@pytest.mark.timeout(600)
def test_runs_with_fast_and_solutions_and_gives_what_is_stored(lesson, tmp_path):
    """One run serves all: every learner's cell, each solution below its stub, and nbval's comparison."""
    source = tmp_path / f"{lesson.slug}.ipynb"
    source.write_text(assemble.dumps(assemble.build(COURSE, lesson, assemble.SOLVED)), "utf-8")
    before = execute.packages()
    attempts = tmp_path / "attempts"
    hard = {**matrix.no_network(lesson, tmp_path).environment, "TZ": "Asia/Kathmandu"}
    settings = execute.Settings({"FAST": True}, {**execute.QUICK_COMPILE, **hard}, cell_limit=120)
    outcome = execute.run(source, tmp_path / "out" / source.name, settings)
    assert runs.run_problems(outcome) == []
    assert not attempts.exists(), attempts.read_text()
    assert execute.changed_packages(before, execute.packages()) == []
    [record] = [r for r in execute.records(outcome.notebook) if r["kind"] == "record"]
    assert broken(lesson.slug, {k: v["number"] for k, v in record["values"].items()}) == []
    assert comparison.compare_with_run(COURSE.notebook(lesson), outcome.path) == []
    tags = [tag for cell in outcome.notebook.cells for tag in cell.metadata.get("tags", [])]
    assert tags.count(assemble.SOLUTION) == tags.count(assemble.EXERCISE) >= 3


@pytest.mark.parametrize(("slug", "missing"), LEFT_OUT, ids=lambda value: "-".join([*value][:2]))
@pytest.mark.timeout(600)
def test_reaches_its_end_without_optional_packages(slug, missing, tmp_path):
    """Cells that need them show recorded results and say so; all others run."""
    [lesson] = COURSE.select([slug])
    assert set(missing) <= set(lesson.optional)
    source = tmp_path / f"{slug}.ipynb"
    source.write_text(assemble.dumps(assemble.build(COURSE, lesson)), "utf-8")
    lacking = matrix.without(*missing)(lesson, tmp_path).environment
    settings = execute.Settings({"FAST": True}, {**lacking, **execute.QUICK_COMPILE}, 120)
    outcome = execute.run(source, tmp_path / "out" / source.name, settings)
    assert runs.run_problems(outcome) == []
    cells = [cell for cell in outcome.notebook.cells if replay.needs(cell.source)]
    left_out = [cell for cell in cells if set(missing) & set(replay.needs(cell.source))]
    said = ["".join(o.get("text", "") for o in cell.outputs) for cell in left_out]
    assert all(re.match(r"Not run here: [\w, ]+ is not installed\.", text) for text in said)
    assert not any("Nothing is recorded" in text for text in said)
    assert sum("Recorded on" in text for text in said) == _with_outputs(lesson, missing) > 0
    [record] = [r for r in execute.records(outcome.notebook) if r["kind"] == "record"]
    assert record["parts"] == _expected_parts(cells, missing)
    assert f"{', '.join(missing)} is not installed" in str(outcome.notebook.cells[1].outputs)


def _with_outputs(lesson, missing):
    """How many cells that need it put something out where nothing was missing."""
    stored = nbformat.read(COURSE.notebook(lesson), as_version=4)
    return sum(
        bool(cell.outputs)
        for cell in stored.cells
        if cell.cell_type == "code" and set(missing) & set(replay.needs(cell.source))
    )


def _expected_parts(cells, missing):
    """Each need, with the number of its cells that ran, and of those that had to be replayed."""
    counts = {}
    for cell in cells:
        names = replay.needs(cell.source)
        for name in names:
            part = counts.setdefault(name, {})
            what = "replayed" if set(missing) & set(names) else "ran"
            part[what] = part.get(what, 0) + 1
    return counts
