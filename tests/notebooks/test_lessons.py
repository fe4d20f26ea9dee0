"""Every lesson, on every change: static checks, a run with FAST, solutions, stored outputs."""

import re
from importlib.util import find_spec

import nbformat
import pytest

from colab_lessons import recorded_outputs
from course import config, fake_gpu
from course.check import conditions, notebook_lint, output_regression, record_assertions
from course.run import execute, outcome_checks
from course.write import assemble
from tests import slow

COURSE = config.load()
#: What a lesson goes without, the first in `make test`; `course conditions` takes away one by one.
LEFT_OUT = [("04_tensorflow_on_gpu", ("tensorflow",)), ("05_tpu_strategy", ("jax",))]
#: As which machine a lesson runs in `make test-slow`; all others as a T4.
FAKE_GPUS = {"02_check_hardware": "A100", "04_tensorflow_on_gpu": "two T4"}
lessons = pytest.mark.parametrize("lesson", COURSE.lessons, ids=lambda lesson: lesson.slug)


def assert_none(problems):
    """Fail with one problem a line: what is still missing in a new lesson reads like a list."""
    if problems:
        pytest.fail("\n".join(["", *problems]), pytrace=False)


@lessons
def test_stored_notebook_is_sound(lesson):
    assert_none(notebook_lint.static_problems(COURSE, lesson))


@pytest.fixture
def solved(lesson, tmp_path):
    """The lesson with a solution below each stub."""
    source = tmp_path / f"{lesson.slug}.ipynb"
    source.write_text(assemble.dumps(assemble.build(COURSE, lesson, solved=True)), "utf-8")
    return source


@lessons
@pytest.mark.timeout(900)
def test_runs_with_fast_and_solutions(lesson, solved, tmp_path):
    """Every learner's cell, and each solution below its stub; without a network, on another clock.

    What tagged cells show is what is stored.
    """
    before = execute.packages()
    hard = {**conditions.no_network(lesson, tmp_path).environment, "TZ": "Asia/Kathmandu"}
    settings = execute.Settings({"FAST": True}, {**execute.QUICK_COMPILE, **hard}, cell_timeout=400)
    outcome = execute.run(solved, tmp_path / "out" / solved.name, settings)
    assert_none(outcome_checks.run_problems(outcome))
    stored = nbformat.read(COURSE.notebook(lesson), as_version=4)
    assert_none(output_regression.compare_stored_outputs(lesson.slug, stored, outcome.notebook))
    attempts = tmp_path / "attempts"
    assert not attempts.exists(), attempts.read_text()
    assert execute.changed_packages(before, execute.packages()) == []
    [record] = [r for r in execute.records(outcome.notebook) if r["kind"] == "record"]
    assert record["platform"] != "fake-gpu" and record_assertions.violations_in([record]) == []
    tags = [tag for cell in outcome.notebook.cells for tag in cell.metadata.get("tags", [])]
    assert tags.count(assemble.SOLUTION) == tags.count(assemble.EXERCISE) >= 3


@lessons
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_runs_as_a_machine_with_a_gpu(lesson, solved, tmp_path):
    """The lines that only a GPU reaches: PyTorch, NVML and TensorFlow answer as one would."""
    environment = fake_gpu.environment(FAKE_GPUS.get(lesson.slug, "T4"), tmp_path)
    settings = execute.Settings({"FAST": True}, {**execute.QUICK_COMPILE, **environment}, 120)
    as_gpu = execute.run(solved, tmp_path / "gpu.ipynb", settings)
    assert_none(outcome_checks.run_problems(as_gpu))
    if lesson.accelerator == "GPU":  # one that asks for none may measure on the CPU
        assert_none(outcome_checks.device_problems(as_gpu, "GPU"))
    [record] = [r for r in execute.records(as_gpu.notebook) if r["kind"] == "record"]
    assert record["platform"] == "fake-gpu"
    assert record_assertions.violations_in([record]) == []


@pytest.mark.parametrize(
    ("slug", "missing"), slow.after(1, LEFT_OUT), ids=lambda value: "-".join([*value][:2])
)
@pytest.mark.timeout(600)
def test_reaches_its_end_without_optional_packages(slug, missing, tmp_path):
    """Cells that need them show recorded results and say so; all others run."""
    [lesson] = COURSE.select([slug])
    assert set(missing) <= set(lesson.optional)
    source = tmp_path / f"{slug}.ipynb"
    source.write_text(assemble.dumps(assemble.build(COURSE, lesson)), "utf-8")
    lacking = conditions.without(*missing)(lesson, tmp_path).environment
    settings = execute.Settings({"FAST": True}, {**lacking, **execute.QUICK_COMPILE}, 120)
    outcome = execute.run(source, tmp_path / "out" / source.name, settings)
    assert_none(outcome_checks.run_problems(outcome))
    check_replayed_cells(lesson, outcome, missing)


def check_replayed_cells(lesson, outcome, missing):
    """Cells that need what is missing show recorded results, say so, and are counted."""
    cells = [cell for cell in outcome.notebook.cells if recorded_outputs.needs(cell.source)]
    left_out = [cell for cell in cells if set(missing) & set(recorded_outputs.needs(cell.source))]
    said = ["".join(o.get("text", "") for o in cell.outputs) for cell in left_out]
    assert all(re.match(r"Not run here: [\w, ]+ is not installed\.", text) for text in said)
    assert not any("Nothing is recorded" in text for text in said)
    assert sum("Recorded on" in text for text in said) == _with_outputs(lesson, missing) > 0
    [record] = [r for r in execute.records(outcome.notebook) if r["kind"] == "record"]
    assert record["parts"] == _expected_parts(cells, missing)
    absent = [name for name in lesson.optional if name in missing or not find_spec(name)]
    assert f"Not installed: {', '.join(absent)}" in str(outcome.notebook.cells[1].outputs)


def _with_outputs(lesson, missing):
    """How many cells that need it put something out where nothing was missing."""
    stored = nbformat.read(COURSE.notebook(lesson), as_version=4)
    return sum(
        bool(cell.outputs)
        for cell in stored.cells
        if cell.cell_type == "code" and set(missing) & set(recorded_outputs.needs(cell.source))
    )


def _expected_parts(cells, missing):
    """Each need, with the number of its cells that ran, and of those that had to be replayed."""
    counts = {}
    for cell in cells:
        names = recorded_outputs.needs(cell.source)
        lacking = {*missing, *recorded_outputs.missing(cell.source)} & set(names)
        for name in names:
            part = counts.setdefault(name, {})
            what = "replayed" if lacking else "ran"
            part[what] = part.get(what, 0) + 1
    return counts
