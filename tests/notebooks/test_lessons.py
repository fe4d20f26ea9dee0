"""Every lesson, on every change: static checks, a run with FAST, solutions, stored outputs."""

import re
from importlib.util import find_spec

import nbformat
import pytest

from colab_helpers.lessons import replay
from course import stand_in, table
from course.prove import comparison, lines, promises, runs, static
from course.run import execute, matrix
from course.write import assemble
from tests import slow

COURSE = table.load()
#: What a lesson goes without, the first in `make test`; `make test-matrix` takes away one by one.
LEFT_OUT = [
    ("04_tensorflow_on_gpu", ("tensorflow",)),
    ("05_tpu_strategy", ("jax",)),
    ("06_memory_management", ("jax", "tensorflow")),
]
#: As which machine a lesson runs in `make test-slow`, and without what; all: `make test-matrix`.
STAND_INS = {
    "02_check_hardware": ("A100", ()),
    "04_tensorflow_on_gpu": ("two T4", ()),
    "05_tpu_strategy": ("T4", ("tensorflow",)),
    "07_mixed_precision": ("T4", ("jax", "keras")),
}
#: Lines that no CPU runs, and no GPU either: a part of their text, and what they wait for.
WAIT_FOR = {
    "This TensorFlow is built for TPUs": "tensorflow-tpu",
    'predicted["rows_that_fit"]': "libtpu, the TPU's own compiler",
    "from google.colab import drive": "somebody who ticks the box for their own Drive",
    "drive.mount(": "the same",
    'retry = "worked"': "a recovery inside except that works: it must not",
}
lessons = pytest.mark.parametrize("lesson", COURSE.lessons, ids=lambda lesson: lesson.slug)


@lessons
def test_stored_notebook_is_sound(lesson):
    assert static.static_problems(COURSE, lesson) == []


@pytest.fixture
def solved(lesson, tmp_path):
    """The lesson with a solution below each stub."""
    source = tmp_path / f"{lesson.slug}.ipynb"
    source.write_text(assemble.dumps(assemble.build(COURSE, lesson, assemble.SOLVED)), "utf-8")
    return source


def run_here(lesson, solved, tmp_path):
    """Run it on this machine, without a network and on another clock; keep which lines ran."""
    hard = {**matrix.no_network(lesson, tmp_path).environment, "TZ": "Asia/Kathmandu"}
    hard["WATCH_LINES"] = str(tmp_path / "cpu")
    settings = execute.Settings({"FAST": True}, {**execute.QUICK_COMPILE, **hard}, cell_limit=120)
    outcome = execute.run(solved, tmp_path / "out" / solved.name, settings)
    assert runs.run_problems(outcome) == []
    return outcome


@lessons
@pytest.mark.timeout(600)
def test_runs_with_fast_and_solutions_and_gives_what_is_stored(lesson, solved, tmp_path):
    """One run serves all: every learner's cell, each solution below its stub, and nbval's comparison."""
    before = execute.packages()
    outcome = run_here(lesson, solved, tmp_path)
    attempts = tmp_path / "attempts"
    assert not attempts.exists(), attempts.read_text()
    assert execute.changed_packages(before, execute.packages()) == []
    [record] = [r for r in execute.records(outcome.notebook) if r["kind"] == "record"]
    assert record["platform"] != "stand-in" and promises.broken_in([record]) == []
    assert comparison.compare_with_run(COURSE.notebook(lesson), outcome.path) == []
    tags = [tag for cell in outcome.notebook.cells for tag in cell.metadata.get("tags", [])]
    assert tags.count(assemble.SOLUTION) == tags.count(assemble.EXERCISE) >= 3


@lessons
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_lines_that_need_an_accelerator_run_as_a_machine_with_one(
    lesson, solved, tmp_path, record_property
):
    """What ran here need not run there; of all other lines nearly all do."""
    run_here(lesson, solved, tmp_path)
    machine, missing = STAND_INS.get(lesson.slug, ("T4", ()))
    environment = stand_in.environment(machine, tmp_path) | {"WATCH_LINES": str(tmp_path / "gpu")}
    if missing:
        environment["WITHOUT"] = " ".join(missing)
    settings = execute.Settings({"FAST": True}, {**execute.QUICK_COMPILE, **environment}, 120)
    as_gpu = execute.run(solved, tmp_path / "gpu.ipynb", settings)
    assert runs.run_problems(as_gpu) == [] and runs.device_problems(as_gpu, "GPU") == []
    [record] = [r for r in execute.records(as_gpu.notebook) if r["kind"] == "record"]
    assert record["platform"] == "stand-in"
    broken = promises.broken_in([record])
    if missing:  # a result is left out with its package
        broken = [one for one in broken if " is None" not in one]
    assert broken == []
    cells = [c.source for c in nbformat.read(solved, as_version=4).cells if c.cell_type == "code"]
    if missing:
        check_what_is_replayed(lesson, as_gpu, missing)
    needed, missed = lines.judge(lesson.slug, cells, tmp_path / "cpu", tmp_path / "gpu", WAIT_FOR)
    record_property("lines", [len(needed), [str(line) for line in sorted(missed)]])
    assert len(missed) <= len(needed) * (1 - lines.ENOUGH), sorted(missed)


def test_what_a_line_waits_for_is_said_of_lines_that_there_are():
    texts = "".join(
        (COURSE.root / "lessons" / f"{lesson.slug}.py").read_text() for lesson in COURSE.lessons
    )
    assert [text for text in WAIT_FOR if text not in texts] == []


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
    lacking = matrix.without(*missing)(lesson, tmp_path).environment
    settings = execute.Settings({"FAST": True}, {**lacking, **execute.QUICK_COMPILE}, 120)
    outcome = execute.run(source, tmp_path / "out" / source.name, settings)
    assert runs.run_problems(outcome) == []
    check_what_is_replayed(lesson, outcome, missing)


def check_what_is_replayed(lesson, outcome, missing):
    """Cells that need what is missing show recorded results, say so, and are counted."""
    cells = [cell for cell in outcome.notebook.cells if replay.needs(cell.source)]
    left_out = [cell for cell in cells if set(missing) & set(replay.needs(cell.source))]
    said = ["".join(o.get("text", "") for o in cell.outputs) for cell in left_out]
    assert all(re.match(r"Not run here: [\w, ]+ is not installed\.", text) for text in said)
    assert not any("Nothing is recorded" in text for text in said)
    assert sum("Recorded on" in text for text in said) == _with_outputs(lesson, missing) > 0
    [record] = [r for r in execute.records(outcome.notebook) if r["kind"] == "record"]
    assert record["parts"] == _expected_parts(cells, missing)
    absent = [name for name in lesson.optional if name in missing or not find_spec(name)]
    assert f"{', '.join(absent)} is not installed" in str(outcome.notebook.cells[1].outputs)


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
        lacking = {*missing, *replay.missing(cell.source)} & set(names)
        for name in names:
            part = counts.setdefault(name, {})
            what = "replayed" if lacking else "ran"
            part[what] = part.get(what, 0) + 1
    return counts
