"""Errors as recorded, notebooks from the days of other TPUs, and what the preflight says."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import colab_doctor
from colab_doctor import pasted_log
from colab_doctor.__main__ import main


def test_the_way_out_depends_on_the_platform_and_names_the_package():
    error = "ModuleNotFoundError: No module named 'sklearn'"
    assert "%pip install scikit-learn" in colab_doctor.explain_error(error, "kaggle").finding.fix


def test_an_exception_is_explained_like_its_text():
    assert colab_doctor.explain_error(KeyError("COLAB_TPU_ADDR")).id == "tpu-node"


def notebook(*cells, **colab):
    cells = [{"cell_type": "code", "source": source} for source in cells]
    return {"metadata": {"colab": colab}, "cells": cells}


def test_notebook_that_asks_for_a_retired_tpu():
    [finding] = colab_doctor.explain_notebook(notebook(gpuType="V28"))
    assert finding.id == "tpu-retired" and "v5e-1 TPU" in finding.fix


def test_old_lines_are_found_with_their_cells():
    old = notebook("import os", ["x = 1\n", "tf.Session()\n"], "tf.Session()", gpuType="T4")
    [finding] = colab_doctor.explain_notebook(old)
    assert finding.observation.startswith("Cell 2, line 2 (and in 3):")


READS_DRIVE = (
    "for f in os.listdir('/content/drive/MyDrive/train'):\n    images.append(cv2.imread(f))"
)
TRAINS = "loss.backward()\noptimizer.step()\ntorch.save(model.state_dict(), path)"
LOADS = "model.load_state_dict(torch.load(path))"


def test_notebook_that_reads_each_file_from_drive():
    [finding] = colab_doctor.explain_notebook(notebook("import cv2", READS_DRIVE))
    assert finding.id == "drive-small-files" and finding.observation.startswith("Cell 2")
    assert (
        colab_doctor.explain_notebook(notebook(READS_DRIVE.replace("drive/MyDrive", "data"))) == ()
    )


@pytest.mark.parametrize(
    "line",
    [
        "optimizer.load_state_dict(state)",
        "self.opt.load_state_dict(s)",
        "optim['a'].load_state_dict(s)",
    ],
)
def test_notebook_that_resumes_without_its_optimizer(line):
    [finding] = colab_doctor.explain_notebook(notebook(TRAINS, LOADS))
    assert finding.id == "resume-anew" and "lesson 09" in finding.fix
    assert (
        colab_doctor.explain_notebook(notebook(TRAINS, LOADS, line.replace("['a']", "[a]"))) == ()
    )
    assert colab_doctor.explain_notebook(notebook(LOADS)) == ()  # it does not train


def test_todays_notebook_is_left_alone():
    assert colab_doctor.explain_notebook(notebook("jax.devices()", gpuType="V5E1")) == ()
    assert colab_doctor.explain_notebook({}) == ()


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (json.dumps(notebook("import jax")), 0, "nothing found"),
        (json.dumps(notebook(gpuType="V28")), 1, "v2-8"),
        ("\ufeff" + json.dumps(notebook("import jax")), 0, "nothing found"),
        ('{"metadata": {"colab": null}, "cells": [{"cell_type": "code"}]}', 0, "nothing found"),
        ('{"metadata": [1], "cells": [3, null, "x", [], {}]}', 0, "nothing found"),
        (
            '{"metadata": {"colab": [2]}, "cells": [{"cell_type": "code", "source": 3}]}',
            0,
            "nothing found",
        ),
        (
            '{"cells": [{"cell_type": "code", "source": [1, null, "os.environ[\\"COLAB_TPU_ADDR\\"]"]}]}',
            1,
            "Cell 1",
        ),
        ('{"cells": [{"cell_type": ["code"], "source": {"a": 1}}]}', 0, "nothing found"),
        ("no JSON", 2, "is not a notebook"),
        ("[1]", 2, "is not a notebook"),
        ('{"seconds": 3}', 2, "is not a notebook"),
        ("[" * 100_000, 2, "is not a notebook"),
    ],
)
def test_doctor_judges_a_notebook(tmp_path, capsys, content, code, words):
    path = tmp_path / "old.ipynb"
    path.write_text(content)
    assert main(["--notebook", str(path)]) == code
    told = capsys.readouterr()
    assert words in told.out + told.err and "Traceback" not in told.err


def test_a_notebook_that_is_not_there(tmp_path, capsys):
    assert main(["--notebook", str(tmp_path / "none.ipynb")]) == 2
    assert "cannot be read: No such file" in capsys.readouterr().err
    binary = tmp_path / "binary.ipynb"
    binary.write_bytes(b"\xff\xfe\x00" * 99)
    assert main(["--notebook", str(binary)]) == 2
    assert "is not a notebook" in capsys.readouterr().err


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["pipe", "/dev/zero", "folder"])
def test_what_never_ends_is_not_read(tmp_path, kind):
    path = Path(kind) if kind.startswith("/") else tmp_path / kind
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    done = in_terminal(["--notebook", str(path)])
    assert (done.returncode, done.stderr) == (2, f"{path} is not a file.\n")


def in_terminal(arguments, stdout=subprocess.PIPE):
    command = [sys.executable, "-m", "colab_doctor", *arguments]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has /dev/full")
def test_an_answer_that_cannot_be_written_is_told_in_one_line():
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = in_terminal(["--error", "CUDA out of memory"], stdout=full)
    assert (done.returncode, done.stderr) == (
        2, "The output: No space left on device.\n"
    )  # fmt: skip


def test_a_reader_that_goes_away_is_no_error():
    read, write = os.pipe()
    os.close(read)
    done = in_terminal(["--error", "CUDA out of memory"], stdout=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


HOSTILE = {
    "devices": "/dev/vfio" * 120_000,
    "libraries": "libcublas.so.12" * 70_000,
    "blanks": "TPUClusterResolver(" + " " * 1_000_000,
    "worker": "DataLoader worker " * 60_000,
    "brackets": "(" * 500_000 + ")" * 500_000,
    "lines": "\n" * 1_000_000,
    "exhausted": "RESOURCE_EXHAUSTED:" * 55_000,
    "any": "".join(chr(33 + 7919 * i % 90) for i in range(1_000_000)),
}


def test_a_long_text_is_looked_at_from_both_ends_and_no_further():
    text = "a" * 100_000 + "CUDA out of memory" + "b" * 900_000
    assert not colab_doctor.explain_error(text)
    assert len(pasted_log.plain(text)) < 70_000
    assert pasted_log.plain("x" * 65_536) == "x" * 65_536


def test_the_error_at_the_end_of_a_long_log_is_found():
    log = "INFO step\n" * 100_000
    assert (
        colab_doctor.explain_error(log + "RuntimeError: CUDA out of memory").id == "out-of-memory"
    )
    assert colab_doctor.explain_error("CUDA out of memory\n" + log).id == "out-of-memory"


def test_doctor_explains_an_error(capsys, monkeypatch):
    assert main(["--error", "CUDA out of memory"]) == 0
    assert "smaller batch" in capsys.readouterr().out
    assert main(["--error", "CUDA", "out", "of", "memory"]) == 0  # without quotes
    capsys.readouterr()
    assert main(["--error", "something else"]) == 1
    assert "not in the table" in capsys.readouterr().out
    for nothing in ("", "   "):
        assert main(["--error", nothing]) == 2
        assert "No error text given" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.StringIO("KeyError: 'COLAB_TPU_ADDR'"))
    assert main(["--json", "--error", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["finding"]["id"] == "tpu-node"


def test_an_error_without_a_text_is_not_an_error():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    assert not colab_doctor.explain_error(Mute())


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_answered(name):
    """Only that it ends."""
    colab_doctor.explain_error(HOSTILE[name], "colab")
    colab_doctor.explain_notebook(notebook(HOSTILE[name]))


def test_a_file_that_was_meant_is_named(tmp_path, capsys):
    path = tmp_path / "log.txt"
    path.write_text("CUDA out of memory")
    assert main(["--error", str(path)]) == 2
    assert f"colab-doctor --error - < {path}" in capsys.readouterr().err
