"""Lessons run one after the other: what has run is kept, whatever happens."""

import asyncio
import dataclasses
import gc
import signal
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from nbclient.exceptions import DeadKernelError

from course import config
from course.__main__ import main
from course.config import CourseError
from course.run import execute, lessons
from course.write import assemble
from tests import slow
from tests.toy import add_second_lesson, run_command

SLOW = "import time\ntime.sleep(60)\ntotal = sum("


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch):
    """Other jobs on this machine are not what these tests are about."""
    monkeypatch.setattr("course.run.machine_noise.reference_matmul_seconds", lambda: 1.0)


@pytest.fixture
def two(toy_course, monkeypatch):
    """A course of two toys on the command line."""
    course = add_second_lesson(toy_course)
    monkeypatch.setattr("course.__main__.load", lambda: config.load(course.root))
    return course


def interrupt_in_the_second(course, command, tmp_path):
    """Run a command in a process of its own; Ctrl-C when its second lesson has begun."""
    second = course.source(course.lessons[1])
    second.write_text(second.read_text().replace("total = sum(", SLOW), "utf-8")
    process = run_command(
        course.root, [command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    said = ""
    deadline = time.monotonic() + 60
    while "02_toy: cell 1" not in said and time.monotonic() < deadline:
        said += process.stdout.readline()
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    return process.returncode, said + rest


@pytest.mark.timeout(180)
def test_ctrl_c_still_gives_the_report_of_what_has_run(two, tmp_path):
    code, said = interrupt_in_the_second(two, "run", tmp_path)
    assert code == 130, said
    assert "Traceback" not in said and "01_toy: ok" in said and "02_toy: stopped by Ctrl-C" in said
    page = (two.root / "build" / "course" / "report.html").read_text()
    assert "1 of 2 lessons ran to their end" in page
    assert "the total" in (two.root / "build" / "course" / "results.html").read_text()
    assert not [line for line in processes() if str(two.root) in line]  # no kernel is left


@pytest.mark.parametrize(
    ("error", "told"), [(DeadKernelError("Kernel died"), False), (OSError("x"), True)]
)
def test_a_kernel_that_was_stopped_is_not_told_as_a_fault(caplog, error, told):
    async def watch_it():
        raise error

    async def leave_it():
        task = asyncio.ensure_future(watch_it())
        await asyncio.sleep(0)
        del task
        gc.collect()

    # In a thread of its own: a browser's tests have a loop here.
    other = threading.Thread(target=lambda: asyncio.run(leave_it()))
    other.start()
    other.join()
    assert ("never retrieved" in caplog.text) == told


def processes():
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout.splitlines()


@pytest.mark.parametrize("command", ["notebooks", "reference"])
@pytest.mark.parametrize("way", ["-p FAST=true", "environment"])
def test_a_run_with_fast_is_refused_before_it_begins(two, capsys, monkeypatch, command, way):
    if way == "environment":
        monkeypatch.setenv("FAST", "1")
        assert main([command]) == 1
    else:
        assert main([command, *way.split()]) == 1
    assert "asks for small ones" in capsys.readouterr().err
    assert not (two.root / "build").exists()


def test_a_folder_that_cannot_be_written_is_told_before_anything_runs(two, capsys):
    (two.root / "build").write_text("a file where the folder should be")
    assert main(["run"]) == 1
    told = capsys.readouterr()
    assert "nothing could be kept of a run" in told.err and "ok" not in told.out


@pytest.mark.parametrize("length", slow.after(1, [95, 20, 150]))
def test_a_long_tmpdir_is_no_obstacle(toy_course, tmp_path, monkeypatch, length):
    """The address of a socket has some hundred bytes at most."""
    folder = Path("/tmp") / ("t" * max(1, length - 5))
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    source = tmp_path / "toy.ipynb"
    source.write_text(assemble.dumps(assemble.build(toy_course, toy_course.lessons[0])))
    outcome = execute.run(source, tmp_path / "out.ipynb")
    assert outcome.ok, outcome.problem


def test_another_checkouts_helper_is_named(toy_course, monkeypatch, tmp_path):
    lessons.check_environment(toy_course)  # this environment has this checkout's
    monkeypatch.setattr(lessons.colab_helpers, "__file__", str(tmp_path / "other" / "__init__.py"))
    with pytest.raises(CourseError, match="Give it an environment of its own"):
        lessons.check_environment(toy_course)


@pytest.mark.parametrize(
    ("framework", "installed", "cuda", "words"),
    [
        ("torch", (), "12.8", ""),
        ("torch", (), "", "build without CUDA"),
        ("torch", (), None, "build without CUDA"),
        ("tensorflow", ("tensorflow",), "", ""),
        ("tensorflow", ("tensorflow-cpu",), "12.8", "build for CPUs"),
        ("jax", ("jax", "jax-cuda13-plugin"), "", ""),
        ("jax", ("jax",), "12.8", "no plugin for CUDA"),
    ],
)
def test_a_framework_without_a_gpu_build_is_named(
    monkeypatch, toy_course, framework, installed, cuda, words
):
    found = [SimpleNamespace(name=name) for name in installed]
    monkeypatch.setattr(lessons.metadata, "distributions", lambda: found)
    monkeypatch.setattr(lessons._environment_probes, "torch_cuda", lambda: cuda)
    lesson = dataclasses.replace(toy_course.lessons[0], framework=framework)
    why = lessons.missing_gpu_build(lesson)
    assert (words in why) if words else why == ""


def test_a_run_on_a_busy_machine_is_repeated_and_not_kept_if_it_stays_busy(
    toy_course, monkeypatch, tmp_path, capsys
):
    kept, folder = [], tmp_path / "out"
    times = iter([1.0, 1.3, 1.0, 1.05])  # disturbed once, then quiet
    monkeypatch.setattr("course.run.machine_noise.reference_matmul_seconds", lambda: next(times))
    keep = lambda lesson, outcome: kept.append(outcome)  # noqa: E731
    batch = lessons.run_lessons(
        toy_course, toy_course.lessons, folder, (), keep, require_quiet=True
    )
    assert batch.ok and len(kept) == 1 and "not quiet" in capsys.readouterr().out
    times = iter([1.0, 0.5] * 3)  # never quiet
    batch = lessons.run_lessons(
        toy_course, toy_course.lessons, folder, (), keep, require_quiet=True
    )
    assert not batch.ok and len(kept) == 1 and "never quiet" in batch.outcomes[0].problem
