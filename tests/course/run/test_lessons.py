"""Lessons run one after the other: what has run is kept, whatever happens."""

import asyncio
import dataclasses
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbclient.exceptions import DeadKernelError

from course import table
from course.__main__ import main
from course.run import execute, lessons, report
from course.table import CourseError
from course.write import assemble, outputs, pages
from tests import slow
from tests.toy import add_second_lesson, edit_lesson, run_command

SLOW = "import time\ntime.sleep(60)\ntotal = sum("


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch):
    """Other jobs on this machine are not what these tests are about."""
    monkeypatch.setattr("course.run.quiet.product", lambda: 1.0)


@pytest.fixture
def two(toy_course, monkeypatch):
    """A course of two toys on the command line."""
    course = add_second_lesson(toy_course)
    monkeypatch.setattr("course.__main__.load", lambda: table.load(course.root))
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

    other = threading.Thread(
        target=lambda: asyncio.run(leave_it())
    )  # a browser's tests have a loop here
    other.start()
    other.join()
    assert ("never retrieved" in caplog.text) == told


@pytest.mark.slow  # the test above interrupts too
@pytest.mark.timeout(180)
def test_ctrl_c_keeps_the_notebooks_that_were_finished(two, tmp_path):
    code, said = interrupt_in_the_second(two, "notebooks", tmp_path)
    assert code == 130 and "Traceback" not in said, said
    stored = nbformat.read(two.notebook(two.lessons[0]), 4)
    assert stored.cells[1].execution_count == 1
    assert outputs.kept(two, two.lessons[0]) and "01_toy" in pages.read_timings(two)


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


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()", "ok"),
        (
            "from IPython.display import publish_display_data\n"
            "publish_display_data({'application/vnd.colab-helpers.record+json': {'kind': 'record'}})",
            "is not a record of schema",
        ),
        (
            "from IPython.display import publish_display_data\n"
            "publish_display_data({'application/vnd.colab-helpers.record+json': {'x': 1}, "
            "'image/png': 'AAAA'}, {'image/png': 3})",
            "ok",
        ),
    ],
)
def test_the_report_survives_what_a_lesson_shows(toy_course, tmp_path, code, words):
    edit_lesson(toy_course, "total = sum(", f"{code}\ntotal = sum(")
    source = toy_course.root / "x.ipynb"
    source.write_text(assemble.dumps(assemble.build(toy_course, toy_course.lessons[0])))
    outcome = execute.run(source, tmp_path / "out.ipynb")
    page = report.write(toy_course, [outcome], tmp_path / "report.html").read_text()
    assert words in page


def test_the_report_of_a_run_that_left_nothing(toy_course, tmp_path):
    gone = execute.Outcome("01_toy", tmp_path / "gone.ipynb", 1.0, "stopped")
    cut = tmp_path / "cut.ipynb"
    cut.write_text('{"cells": [')
    half = execute.Outcome("02_toy", cut, 1.0, "stopped")
    assert "0 of 2" in report.write(toy_course, [gone, half], tmp_path / "r.html").read_text()
    assert report.as_text([]) == ""


def test_a_report_that_cannot_be_written_is_one_line(toy_course, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CourseError, match=r"report\.html could not be written"):
        report.write(toy_course, [], tmp_path / "file" / "report.html")


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


def test_without_a_short_folder_kernels_talk_through_ports(toy_course, tmp_path, monkeypatch):
    monkeypatch.setattr(execute, "LONGEST_SOCKET_FOLDER", 1)
    source = tmp_path / "toy.ipynb"
    source.write_text(assemble.dumps(assemble.build(toy_course, toy_course.lessons[0])))
    assert execute.run(source, tmp_path / "out.ipynb").ok


def test_another_checkouts_helper_is_named(toy_course, monkeypatch, tmp_path):
    lessons.check_environment(toy_course)  # this environment has this checkout's
    monkeypatch.setattr(lessons.colab_helpers, "__file__", str(tmp_path / "other" / "__init__.py"))
    with pytest.raises(CourseError, match="Give it an environment of its own"):
        lessons.check_environment(toy_course)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["drift", "--freeze", "/nowhere"], "/nowhere cannot be read"),
        (["drift", "--freeze", "/"], "/ cannot be read"),
        (["drift", "--freeze", sys.executable], "cannot be read"),
    ],
)
def test_lists_that_cannot_be_read_are_named(arguments, words, capsys):
    assert main(arguments) == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("course/course.toml", "[[lesson]\n", "course.toml is no valid TOML"),
        ("course/course.toml", "lesson = 3\n", "a [[lesson]] lacks something"),
        ("course/course.toml", "[[lesson]]\nnumber = 1\n", "a [[lesson]] lacks something"),
        ("pyproject.toml", "", "pyproject.toml lacks"),
        ("docs/timings.json", "", "timings.json cannot be read"),
        ("docs/timings.json", "[1]", "timings.json cannot be read"),
    ],
)
def test_a_damaged_file_is_named(two, monkeypatch, capsys, name, content, words):
    path = two.root / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    assert main(["build"]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("name", ["docs/teaching/01_toy.md", "README.md", "lessons/01_toy.py"])
def test_a_deleted_file_is_named(two, capsys, name):
    (two.root / name).unlink()
    assert main(["build"]) == 1
    assert Path(name).name in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_checkout_is_told(two, capsys):
    (two.root / "notebooks").mkdir()
    (two.root / "notebooks").chmod(0o555)
    assert main(["build"]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_a_disk_that_is_full_is_told_in_one_line(two, capsys, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "x")

    monkeypatch.setattr(assemble._files, "write", full)
    assert main(["build"]) == 1
    assert "No space left on device" in capsys.readouterr().err


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
    monkeypatch.setattr(lessons._traces, "torch_cuda", lambda: cuda)
    lesson = dataclasses.replace(toy_course.lessons[0], framework=framework)
    why = lessons.without_gpu_build(lesson)
    assert (words in why) if words else why == ""


def test_a_gpu_run_without_any_such_framework_ends_in_one_line(two, capsys, monkeypatch):
    monkeypatch.setattr(lessons, "require", lambda kind: None)
    monkeypatch.setattr(lessons, "without_gpu_build", lambda lesson: "a build for CPUs")
    assert main(["run", "--require", "GPU"]) == 1
    told = capsys.readouterr()
    assert (
        "01_toy: left out: a build for CPUs." in told.out and "nothing can be measured" in told.err
    )


@pytest.mark.timeout(120)
def test_digests_in_conflict_are_made_anew_and_a_result_that_cannot_be_kept_stops_no_other(
    two, capsys, monkeypatch
):
    path = outputs.path(two)
    path.parent.mkdir(exist_ok=True)
    path.write_text("<<<<<<< HEAD")
    store = assemble.store_outputs

    def fails_once(course, lesson, executed):
        if lesson.slug == "01_toy":
            raise OSError(28, "No space left on device")
        return store(course, lesson, executed)

    monkeypatch.setattr(assemble, "store_outputs", fails_once)
    assert main(["notebooks"]) == 1
    told = capsys.readouterr().out
    assert "01_toy: it ran, and could not be kept" in told and "02_toy: ok" in told
    assert outputs.kept(two, two.lessons[1])


def test_a_run_on_a_busy_machine_is_repeated_and_not_kept_if_it_stays_busy(
    toy_course, monkeypatch, tmp_path, capsys
):
    kept, folder = [], tmp_path / "out"
    times = iter([1.0, 1.3, 1.0, 1.05])  # disturbed once, then quiet
    monkeypatch.setattr("course.run.quiet.product", lambda: next(times))
    keep = lambda lesson, outcome: kept.append(outcome)  # noqa: E731
    ran = lessons.run_each(toy_course, toy_course.lessons, folder, (), keep, quiet_only=True)
    assert ran.ok and len(kept) == 1 and "not quiet" in capsys.readouterr().out
    times = iter([1.0, 0.5] * 3)  # never quiet
    ran = lessons.run_each(toy_course, toy_course.lessons, folder, (), keep, quiet_only=True)
    assert not ran.ok and len(kept) == 1 and "never quiet" in ran.outcomes[0].problem
