"""Processes that a notebook starts: what they return, how they fail, and that none stays behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from colab_lessons import rank_processes, recorded_outputs
from tests import slow
from tests.colab_lessons import test_scripts

torch = pytest.importorskip("torch")


def test_returns_what_each_rank_returned():
    def add(rank, device, start):
        from torch import distributed

        x = torch.tensor([start + rank], device=device)
        distributed.all_reduce(x)
        print("a rank may print")  # and it isn't taken for its answer
        return [rank, int(x)]

    assert rank_processes.run(add, start=5) == [[0, 11], [1, 11]]


def test_a_failing_rank_is_named_with_its_error():
    def fail(rank, device):
        if rank == 1:
            raise ValueError("no such layer\nat all")
        return "fine"

    with pytest.raises(RuntimeError, match=r"Rank 1: ValueError after 0.* s: no such layer$"):
        rank_processes.run(fail)
    fine, failed = rank_processes.run(fail, check=False)
    assert fine == "fine" and failed.code == 1 and "no such layer" in str(failed)


def test_a_killed_rank_breaks_the_connection_of_the_other():
    def die(rank, device):
        from torch import distributed

        for step in range(10):
            if rank == 1 and step == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            distributed.all_reduce(torch.ones(1000, device=device))

    other, killed = rank_processes.run(die, check=False)
    assert str(killed) == "killed by SIGKILL"
    assert "peer" in str(other) and "/" not in str(other)


def test_a_rank_that_is_alone_waits_until_the_timeout():
    def uneven(rank, device):
        from torch import distributed

        for _ in range(3 - rank):
            distributed.all_reduce(torch.ones(1000, device=device))
        time.sleep(4 * rank)
        return "fine"

    waited, fine = rank_processes.run(uneven, timeout=1, check=False)
    assert fine == "fine" and "Timed out" in str(waited)


def test_recorded_results_stand_in_where_processes_cannot_connect(tmp_path, monkeypatch, capsys):
    def mixed(rank, device):
        if rank:
            raise OSError("gone")
        return [1, 2.5]

    mixed.__module__ = "__main__"  # as in a notebook
    monkeypatch.setenv(rank_processes.RECORD_FOLDER_VARIABLE, str(tmp_path))
    kept = rank_processes.run(mixed, check=False)
    monkeypatch.setattr(recorded_outputs, "FOLDER", tmp_path)
    monkeypatch.setattr(rank_processes, "why_unavailable", lambda: "there is no network at all")
    assert rank_processes.run(mixed, check=False) == kept
    said = capsys.readouterr().out
    assert said.startswith("Not run here: there is no network at all.\nRecorded on ")
    with pytest.raises(RuntimeError, match="Nothing is recorded for other"):
        rank_processes.run(other)


def other(rank, device):
    return None


NOTEBOOK = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
from torch import distributed
import torch
from colab_lessons import rank_processes

def train(rank, device, folder):
    open(f"{folder}/{os.getpid()}", "w").close()
    while True:
        distributed.all_reduce(torch.ones(1000))

rank_processes.run(train, folder=sys.argv[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("number", slow.after(1, [signal.SIGKILL, signal.SIGINT]))
def test_no_process_outlives_the_notebook(tmp_path, number):
    shared = set(Path("/dev/shm").glob("*")) if Path("/dev/shm").exists() else set()
    notebook = subprocess.Popen(
        [sys.executable, "-c", NOTEBOOK, tmp_path], stderr=subprocess.DEVNULL
    )
    _until(lambda: len(list(tmp_path.iterdir())) == 2)
    ids = [int(path.name) for path in tmp_path.iterdir()]
    assert all(map(_lives, ids))
    for _ in range(20):  # Python may drop an interrupt that comes inside a destructor: press again
        notebook.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            notebook.wait(5)
            break
    _until(lambda: not any(map(_lives, ids)))
    if shared:
        assert set(Path("/dev/shm").glob("*")) <= shared


def _until(holds, seconds=180):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def _lives(process):
    try:  # a zombie has ended: only its parent has not been told
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.slow
def test_the_script_to_keep_runs_under_torchrun_and_goes_on(tmp_path):
    script = (
        test_scripts.card("11_many_devices", "python") + "\nprint(f'from {start}\\n', end='')\n"
    )
    (tmp_path / "train.py").write_text(script)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    for start in (0, 10):
        said = test_scripts.run(tmp_path, None, *torchrun, "train.py")
        assert said.count(f"from {start}") == 2


def test_a_rank_that_takes_too_long_is_not_said_to_be_killed():
    class Process:
        exitcode = -9
        kill = join = lambda self: None

    class Silent:
        poll = staticmethod(lambda seconds: False)

    said = str(rank_processes._receive_result(Process(), Silent(), end=0.0))
    assert "without a result" in said and "SIGKILL" not in said
