import os
import signal

import pytest

from course import config
from course.__main__ import main
from course.run import execute, lessons
from tests.toy import add_second_lesson, edit_lesson, run_toy

KILL = f"import signal\nos.kill(os.getpid(), {int(signal.SIGKILL)})\ntotal = sum("


def shown(outcome):
    return [o.get("data", {}) for c in outcome.notebook.cells for o in c.get("outputs", [])]


def test_sound_lesson_runs(toy_course):
    outcome = run_toy(toy_course, settings=execute.Settings(parameters={"FAST": True}))
    assert outcome.ok and outcome.seconds > 0
    [record] = [r for r in execute.records(outcome.notebook) if r["kind"] == "record"]
    assert record["fast"] is True and record["values"]["total"]["number"] == 45


def test_fast_can_come_from_the_environment(toy_course):
    outcome = run_toy(toy_course, settings=execute.Settings(environment={"FAST": "1"}))
    assert [r["fast"] for r in execute.records(outcome.notebook) if r["kind"] == "record"] == [True]
    assert "FAST" not in os.environ


def test_cell_that_raises_is_one_line_and_earlier_outputs_are_kept(toy_course):
    edit_lesson(toy_course, '"the same everywhere"', "raise ValueError('no\\nnot at all')")
    outcome = run_toy(toy_course)
    assert outcome.problem == "cell 8 (raise ValueError('no\\nnot at all')) raised ValueError: no"
    assert "45" in [data.get("text/plain") for data in shown(outcome)]


def test_killed_kernel_is_one_line_and_earlier_outputs_are_kept(toy_course):
    edit_lesson(toy_course, "total = sum(", KILL)
    outcome = run_toy(toy_course)
    assert outcome.problem == "the kernel died in cell 7 (import signal): killed, or out of memory"
    assert any("image/png" in data for data in shown(outcome))


def test_hanging_cell_is_stopped_and_named(toy_course):
    edit_lesson(toy_course, "total = sum(", "import time\ntime.sleep(90)\ntotal = sum(")
    outcome = run_toy(toy_course, settings=execute.Settings(cell_timeout=10))
    assert outcome.problem == "cell 7 (import time) ran longer than 10 s and was stopped"
    assert outcome.seconds < 40


def test_cell_numbers_do_not_count_what_papermill_injects(toy_course):
    edit_lesson(toy_course, "total = sum(", "total = 1 / 0 * sum(")
    outcome = run_toy(toy_course, settings=execute.Settings(parameters={"FAST": True}))
    assert outcome.problem.startswith("cell 7 (total = 1 / 0")


@pytest.fixture
def toy_command(toy_course, monkeypatch):
    """Run the command line on a course whose two lessons are toys, the first of them broken."""
    add_second_lesson(toy_course)
    monkeypatch.setattr("course.__main__.load", lambda: config.load(toy_course.root))
    edit_lesson(toy_course, "total = sum(", KILL)
    return toy_course.root


def test_a_lesson_that_dies_does_not_stop_the_others(toy_command, capsys):
    assert main(["run", "-p", "FAST=true"]) == 1
    told = capsys.readouterr().out
    assert "01_toy: the kernel died in cell 7" in told and "02_toy: ok" in told
    page = (toy_command / "build" / "course" / "report.html").read_text()
    assert "1 of 2 lessons ran to their end" in page
    assert "the kernel died in cell 7" in page
    assert "the total" in (toy_command / "build" / "course" / "results.html").read_text()


def test_unknown_parameter_and_lesson_on_the_command_line(toy_command, capsys):
    assert main(["run", "02", "-p", "FASTER=true"]) == 1
    assert "no parameter FASTER; the parameters cell has FAST" in capsys.readouterr().out
    assert main(["run", "77"]) == 1
    assert "No lesson 77. There are: 01_toy, 02_toy." in capsys.readouterr().err
    assert main(["run", "02", "-p", "FAST"]) == 1
    assert "write NAME=VALUE" in capsys.readouterr().err


def test_required_accelerator_that_is_missing(toy_command, capsys, monkeypatch):
    import colab_helpers.runtime as runtime

    plain = runtime.describe(runtime.SystemInfo())
    monkeypatch.setattr(runtime, "describe", lambda: plain)
    assert main(["run", "--require", "GPU"]) == 1
    assert "This needs a GPU; this machine has: none." in capsys.readouterr().err


def test_required_accelerator_that_a_lesson_did_not_use(toy_command, capsys, monkeypatch):
    """The machine has a GPU, and the lesson measured on the CPU."""
    import colab_helpers.runtime as runtime

    with_gpu = runtime.describe(runtime.SystemInfo(nvidia_smi=True, paths=("/dev/nvidia0",)))
    with monkeypatch.context() as patched:
        patched.setattr(runtime, "describe", lambda *_: with_gpu)
        patched.setattr(lessons, "missing_gpu_build", lambda lesson: "")
        assert main(["run", "02", "--require", "GPU"]) == 1
    told = capsys.readouterr().out
    assert "02_toy: ok" in told and "not on a GPU: its framework does not use" in told
