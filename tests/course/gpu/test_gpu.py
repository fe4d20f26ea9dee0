"""A GPU machine without a network: what it lacks, its steps, what comes home and what is refused."""

import json
import signal
import subprocess
import sys
import tarfile

import pytest

from colab_lessons import reference
from course import table
from course.__main__ import main
from course.gpu import job, wheels
from course.table import CourseError


def test_what_is_lacking_is_named_with_all_that_it_needs():
    found = wheels.needed(["papermill"], there=["click", "requests", "pyyaml", "tqdm", "aiohttp"])
    assert {"papermill", "nbclient", "nbformat", "jupyter-client", "traitlets", "tenacity"} <= found
    assert not {"click", "requests", "pyyaml"} & found


def test_another_pythons_markers_count():
    name = "importlib-metadata"  # papermill's and others' for Pythons that have none of their own
    assert name not in wheels.needed(wheels.ROOTS, wheels.THERE, "3.12")
    assert wheels.needed(["surely-not-installed"]) == {"surely-not-installed"}


def test_a_list_of_packages_is_read_in_both_its_forms(tmp_path):
    path = tmp_path / "there.txt"
    path.write_text("Package Version\n------- -------\ntorch   2.11.0\nnumpy   2.5\n")
    assert wheels.listed(path) == ["torch", "numpy"]
    path.write_text("torch==2.11.0+cu130\njax @ file:///x\n")
    assert wheels.listed(path) == ["torch", "jax"]


def test_wheels_come_in_the_versions_of_constraints(tmp_path, monkeypatch):
    calls = []

    def run(command, **options):
        calls.append(command)
        (tmp_path / "w" / "papermill-1-py3-none-any.whl").touch()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(wheels.subprocess, "run", run)
    old = tmp_path / "w" / "old.whl"
    old.parent.mkdir()
    old.touch()
    found = wheels.fill(table.load().root, tmp_path / "w", "3.12")
    assert [path.name for path in found] == ["papermill-1-py3-none-any.whl"]  # the old one is gone
    [command] = calls
    assert "--no-deps" in command and any(word.startswith("papermill==2.") for word in command)
    assert not any(word.startswith(("torch==", "numpy==")) for word in command)


def test_a_download_that_fails_is_an_error_with_pips_words(tmp_path, monkeypatch):
    failed = subprocess.CompletedProcess([], 1, "", "ERROR: no network")
    monkeypatch.setattr(wheels.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(CourseError, match="no network"):
        wheels.fill(table.load().root, tmp_path, "3.12")


@pytest.fixture
def there(tmp_path):
    return job.GpuJob(tmp_path, tmp_path / "wheels")


def test_without_wheels_it_says_which_command_makes_them(there):
    with pytest.raises(CourseError, match="make wheels"):
        job.install(there)


def test_an_unknown_step_is_an_error(there):
    with pytest.raises(CourseError, match="No step fly"):
        [*job.run(table.load(), there, ["fly"])]


def test_steps_run_with_the_wheels_and_this_checkout_and_no_package_of_ours(there):
    assert there.environment()["PYTHONPATH"].split(":") == [str(there.root), str(there.site)]
    rehearsed = job.GpuJob(there.root, there.wheels, "T4").environment()
    assert rehearsed["FAKE_GPU"] == "T4" and len(rehearsed["PYTHONPATH"].split(":")) == 3
    with pytest.raises(KeyError):
        job.GpuJob(there.root, there.wheels, "V9000").environment()


def test_a_step_that_fails_is_named_and_the_next_one_runs(there, monkeypatch):
    program = "import sys; print('said'); sys.exit(3 if 'tests/colab_helpers' in sys.argv else 0)"
    monkeypatch.setattr(job.sys, "executable", str(fake_python(there.root, program)))
    course = table.load()
    said = [*job.run(course, job.GpuJob(there.root, there.wheels), ["tests", "compare"])]
    assert said[0].startswith("tests: ended with 3, see build/gpu/tests.log")
    assert said[1].startswith("compare: ok")
    assert (there.folder / "tests.log").read_text().strip() == "said"


def test_a_step_that_takes_too_long_is_stopped_as_by_ctrl_c(there, monkeypatch):
    program = (
        "import time\ntry:\n  time.sleep(60)\nexcept KeyboardInterrupt:\n  print('report written')"
    )
    monkeypatch.setattr(job.sys, "executable", str(fake_python(there.root, program)))
    monkeypatch.setattr(job, "LIMIT", 2.5)
    monkeypatch.setattr(job, "_ENDING", 1.0)
    heard = signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # as for what a shell runs in its background
    try:
        said, late = job.run(table.load(), there, ["compare", "tests"])
    finally:
        signal.signal(signal.SIGINT, heard)
    assert "its time was over" in said and "left out" in late
    [packed] = there.folder.glob("gpu-*.tar.gz")
    with tarfile.open(packed) as archive:
        assert "compare.log" in archive.getnames()
    assert "report written" in (there.folder / "compare.log").read_text()


def fake_python(folder, program):
    """An interpreter that runs one program, whatever it is asked for."""
    path = folder / "python"
    path.write_text(f"#!{sys.executable}\n{program}\n")
    path.chmod(0o755)
    return path


def record(lesson, platform="local", **values):
    entry = reference.record(
        lesson, False, **{k: reference.Value(v, "B", k) for k, v in values.items()}
    )
    return {**entry.to_dict(), "platform": platform, "device": "NVIDIA H200", "device_kind": "GPU"}


def executed(there, name, data):
    path = there.folder / "lessons" / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    output = {"output_type": "execute_result", "data": {reference_mime(): data}, "metadata": {}}
    cell = {"cell_type": "code", "source": "", "outputs": [output], "metadata": {}}
    path.write_text(
        json.dumps({"cells": [cell], "nbformat": 4, "nbformat_minor": 5, "metadata": {}})
    )


def reference_mime():
    from colab_helpers._output import RECORD_MIME

    return RECORD_MIME


def test_an_archive_brings_notebooks_records_and_logs_home(there, tmp_path, monkeypatch, capsys):
    executed(there, "06_memory_management", record("06_memory_management", peak=1.0))
    (there.folder / "lessons.log").write_text("said")
    archive = job.pack(there)
    with tarfile.open(archive) as packed:
        names = packed.getnames()
    assert names == [
        "lessons.log",
        "lessons/06_memory_management.ipynb",
        "records/nvidia-h200--06_memory_management.json",
    ]
    kept = tmp_path / "kept"
    monkeypatch.setattr(reference, "FOLDER", kept)
    monkeypatch.setattr(reference.write, "__defaults__", (kept,))
    assert main(["reference", "--from", str(archive)]) == 0
    [path] = kept.iterdir()
    assert reference.read(path).device == "NVIDIA H200" and path.name in capsys.readouterr().out


def test_what_was_rehearsed_is_refused_and_kept_nowhere(there, tmp_path, monkeypatch, capsys):
    executed(there, "01_enable_gpu", record("01_enable_gpu", "fake-gpu", x=1.0))
    archive = job.pack(there)
    kept = tmp_path / "kept"
    monkeypatch.setattr(reference.write, "__defaults__", (kept,))
    assert main(["reference", "--from", str(archive)]) == 1
    assert "is refused: 01_enable_gpu ran on a fake" in capsys.readouterr().out
    assert not kept.exists()


def test_a_file_that_is_no_archive_is_an_error(tmp_path, capsys):
    path = tmp_path / "x.tar.gz"
    path.write_text("no")
    assert main(["reference", "--from", str(path)]) == 1
    assert "no archive of a GPU machine" in capsys.readouterr().err


def test_two_figures_agree_or_are_named():
    from course.gpu.compare import Agreement

    close, far = Agreement("a", 1.01, 1.0, 0.02), Agreement("b", 1.3, 1.0, 0.1)
    assert close.holds and not far.holds
    assert "MORE THAN 10%" in str(far) and "MORE" not in str(close)


def test_every_lesson_has_its_step(course):
    places = [number for numbers in job.steps_of(course).values() for number in numbers]
    assert sorted(places) == [lesson.slug[:2] for lesson in course.lessons]
    assert places[-1] == "05"  # it asks for a TPU
