"""Lessons on a real Colab machine, with a stand-in for Google's tool that keeps its manners.

As google-colab-cli 0.7.5 does, it goes on after a cell that raised, writes NAME_output.ipynb beside
the notebook, and keeps no metadata of outputs.
"""

import dataclasses
import os
import subprocess
import sys

import pytest

from course import table
from course.__main__ import main
from course.run import colab
from course.table import CourseError
from tests.toy import add_second_lesson, edit_lesson

TOOL = """#!{python}
import os, sys
from pathlib import Path
if sys.argv[1:] == ["version"]:
    sys.exit(print("Version: " + os.environ.get("VERSION", "0.7.5")))
words = sys.argv[3:]  # after --auth oauth2
with open({log!r}, "a") as log:
    log.write(" ".join(words[:1] + words[3:4]) + "\\n")
if words[0] == os.environ.get("FAILS"):
    sys.exit("[colab] Backend rejected accelerator 'T4'.")
if words[0] == "stop":
    print(os.environ.get("STOP", "[colab] Session terminated."))
if words[0] == "exec":
    import nbclient, nbformat
    path = Path(words[words.index("-f") + 1])
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(notebook, allow_errors=True, kernel_name="python3")
    client.execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "metadata" in output:
                output["metadata"] = {{}}
    nbformat.write(notebook, path.with_name(path.stem + "_output.ipynb"))
"""


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """A folder on PATH with the stand-in, somebody who is signed in, and what was called."""
    folder, log = tmp_path / "bin", tmp_path / "calls"
    folder.mkdir()
    path = folder / "colab"
    path.write_text(TOOL.format(python=sys.executable, log=str(log)))
    path.chmod(0o755)
    token = tmp_path / colab._TOKEN
    token.parent.mkdir(parents=True)
    token.write_text("{}")
    monkeypatch.setattr(colab.Path, "home", lambda: tmp_path)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return log


@pytest.fixture
def two_toys(toy_course, monkeypatch):
    """A course of two toys, which asks for no accelerator: there is none here."""
    course = add_second_lesson(toy_course)
    lessons = tuple(dataclasses.replace(lesson, accelerator="") for lesson in course.lessons)
    course = dataclasses.replace(course, lessons=lessons)
    monkeypatch.setattr("course.__main__.load", lambda: course)
    monkeypatch.setattr(colab.archive, "zip_repository", lambda root, path: path.write_bytes(b""))
    return course


def test_lessons_run_and_notebooks_and_records_are_kept(two_toys, tool, capsys):
    assert main(["colab", "--gpu", "t4"]) == 0
    told = capsys.readouterr().out
    assert "01_toy: ok" in told and "02_toy: ok" in told
    folder = two_toys.root / "build" / "colab" / "T4"
    assert (folder / "02_toy_output.ipynb").exists()
    assert len(list((folder / "records").glob("*--01_toy.json"))) == 1
    calls = tool.read_text().split("\n")
    assert calls[0] == "new --gpu" and calls[-2] == "stop"
    assert [call.split()[0] for call in calls[1:-2]] == [
        "upload", "exec", "restart-kernel", "exec",
    ]  # fmt: skip


def test_a_cell_that_raises_is_named_and_the_other_lesson_runs(two_toys, tool, capsys):
    edit_lesson(two_toys, "total = sum(", "total = 1 / 0 * sum(")
    assert main(["colab"]) == 1
    told = capsys.readouterr().out
    assert "01_toy: 01_toy: cell 7 (total = 1 / 0" in told and "ZeroDivisionError" in told
    assert "02_toy: ok" in told
    assert tool.read_text().split("\n")[-2] == "stop"


def test_a_lesson_that_measured_beside_the_chip_is_named(two_toys, tool, monkeypatch, capsys):
    lessons = tuple(dataclasses.replace(one, accelerator="GPU") for one in two_toys.lessons)
    with_gpu = dataclasses.replace(two_toys, lessons=lessons)
    monkeypatch.setattr("course.__main__.load", lambda: with_gpu)
    assert main(["colab", "01", "--gpu", "T4"]) == 1
    assert "not on a GPU" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["new", "upload"])
def test_what_the_tool_says_is_passed_on_and_the_machine_is_given_back(
    two_toys, tool, monkeypatch, capsys, command
):
    monkeypatch.setenv("FAILS", command)
    assert main(["colab", "--gpu", "T4"]) == 1
    assert f"`colab {command}` failed: [colab] Backend rejected" in capsys.readouterr().err
    assert "stop" in tool.read_text().split()


def test_a_restart_that_fails_is_told_for_its_lesson(two_toys, tool, monkeypatch, capsys):
    monkeypatch.setenv("FAILS", "restart-kernel")
    assert main(["colab"]) == 1
    told = capsys.readouterr().out
    assert "01_toy: ok" in told and "02_toy: `colab restart-kernel` failed" in told


def test_a_machine_that_the_tool_lost_is_told(two_toys, tool, monkeypatch, capsys):
    monkeypatch.setenv("STOP", "[colab] Session 'course-x' not found.")
    monkeypatch.setenv("FAILS", "exec")
    assert main(["colab", "01"]) == 1
    assert "Manage sessions" in capsys.readouterr().err


def test_a_command_that_hangs_is_told(tool, monkeypatch):
    monkeypatch.setattr(colab, "TOOL", "sleep")
    monkeypatch.setattr(colab.subprocess, "run", _never_answers)
    with pytest.raises(CourseError, match="took longer than 1 s"):
        colab._Session("oauth2", "x").call("new", limit=1)


def _never_answers(command, **options):
    raise subprocess.TimeoutExpired(command, options["timeout"])


def test_a_lesson_without_a_notebook_is_named(two_toys, tool, monkeypatch, capsys):
    monkeypatch.setenv("FAILS", "exec")
    assert main(["colab"]) == 1
    assert "01_toy: `colab exec` failed" in capsys.readouterr().out


def test_without_the_tool_two_lines_say_what_to_do(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["colab", "--gpu", "T4"]) == 1
    lines = capsys.readouterr().err.strip().split("\n")
    assert len(lines) == 2 and 'pip install "google-colab-cli>=0.7.5"' in lines[1]


def test_an_old_tool_is_refused(tool, monkeypatch, capsys):
    monkeypatch.setenv("VERSION", "0.6.0")
    assert main(["colab"]) == 1
    assert "older than 0.7.5" in capsys.readouterr().err


def test_without_a_login_two_lines_say_what_to_do(tool, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    (tmp_path / colab._TOKEN).unlink()
    assert main(["colab", "--gpu", "T4"]) == 1
    lines = capsys.readouterr().err.strip().split("\n")
    assert len(lines) == 2 and "not signed in" in lines[0]
    credentials = tmp_path / colab._GCLOUD
    credentials.parent.mkdir(parents=True)
    credentials.touch()
    assert colab.sign_in_method() == "adc"


@pytest.mark.parametrize(
    ("gpu", "tpu", "words"),
    [("T4", "v5e1", "not both"), ("K80", "", "T4, L4"), ("", "v2-8", "v5e1")],
)
def test_machines_that_colab_has_not(gpu, tpu, words):
    with pytest.raises(CourseError, match=words):
        colab.choose(gpu, tpu)


def test_the_lessons_chips_are_known_to_the_tool():
    for lesson in table.load().lessons:
        known = colab.GPUS if lesson.accelerator == "GPU" else [t.upper() for t in colab.TPUS]
        assert lesson.gpu_type in known
