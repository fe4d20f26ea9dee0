"""The matrix: what each condition takes away, and what its grid says."""

import json
import os
import subprocess
import sys

import pytest

from course.check import conditions


def run_restricted(code, tmp_path, **variables):
    """What an interpreter under a condition prints, as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", f"import json\n{code}"],
        env={**os.environ, "PYTHONPATH": conditions.DENIED, **variables},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def test_packages_are_not_there(tmp_path):
    code = """
import importlib.metadata, importlib.util
try:
    version = importlib.metadata.version("torch")
except importlib.metadata.PackageNotFoundError:
    version = None
print(json.dumps([importlib.util.find_spec("torch") is None, version]))
"""
    assert run_restricted(code, tmp_path, WITHOUT="torch jax") == [True, None]


def test_an_attempt_to_connect_is_refused_and_written_down(tmp_path):
    code = """
import socket
try:
    socket.create_connection(("192.0.2.1", 80), timeout=1)
    said = "connected"
except OSError as error:
    said = str(error)
print(json.dumps(said))
"""
    log = tmp_path / "attempts"
    assert "unreachable" in run_restricted(code, tmp_path, NO_NETWORK=str(log))
    assert "192.0.2.1" in log.read_text()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be bound here")
def test_one_core(tmp_path):
    code = "import os; print(json.dumps(len(os.sched_getaffinity(0))))"
    assert run_restricted(code, tmp_path, CORES="1") == 1


def results(*states):
    return [
        conditions.Result("01_a", f"condition {i}", state, 1.0, "why" if state != "ok" else "")
        for i, state in enumerate(states)
    ]


def test_the_grid_counts_and_gives_reasons():
    grid = conditions.as_grid(results("ok", "said", "n/a", "FAILED"))
    assert "4 runs: 1 FAILED, 1 n/a, 1 ok, 1 said" in grid
    assert "01_a, condition 3: why" in grid and "condition 0: " not in grid
