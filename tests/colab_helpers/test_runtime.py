import os
import sys
import tomllib
from pathlib import Path

import pytest

from colab_helpers import runtime

MACHINES = tomllib.loads((Path(__file__).parent / "environments.toml").read_text("utf-8"))[
    "machine"
]


def evidence(machine):
    told = ("env", "shell", "nvidia_smi", "packages", "system", "machine")
    return runtime.Evidence(
        **{key: machine[key] for key in told if key in machine},
        paths=tuple(machine.get("paths", ())),
        pci=tuple(map(tuple, machine.get("pci", ()))),
    )


@pytest.mark.parametrize("machine", MACHINES, ids=[m["name"] for m in MACHINES])
def test_recorded_machines_are_recognised(machine):
    found = runtime.describe(evidence(machine))
    assert (found.platform, found.accelerator) == (machine["platform"], machine["accelerator"])
    assert found.tpu == machine.get("tpu")


def test_there_are_enough_recorded_machines():
    assert len(MACHINES) >= 12
    assert {m["platform"] for m in MACHINES} == set(runtime.PLATFORM_NAMES)


def test_this_machine_is_described():
    found = runtime.describe()
    assert found.cores >= 1 and found.ram_total > 2**28 and found.disk_free > 0
    assert found.python.startswith(f"{sys.version_info.major}.{sys.version_info.minor}")
    assert found.ram_available <= found.ram_total


def test_only_watched_variables_are_kept(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("COLAB_GPU", "1")
    kept = runtime.observe().env
    assert "HF_TOKEN" not in kept and kept["COLAB_GPU"] == "1"


@pytest.mark.parametrize("name", ["tensorflow", "tensorflow-cpu", "tensorflow-tpu"])
def test_tensorflow_is_found_under_any_of_its_names(name):
    found = runtime.describe(runtime.Evidence(packages={name: "2.20.0"}))
    assert found.frameworks == {"tensorflow": "2.20.0"}


def test_frameworks_are_found_without_being_imported():
    code = "import sys; from colab_helpers import runtime; runtime.describe(); print(*sys.modules)"
    import subprocess

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "tensorflow", "jax", "numpy", "psutil"} & set(done.stdout.split())


def test_container_limit_counts(monkeypatch, tmp_path):
    monkeypatch.setattr(runtime, "_container_limit", lambda: 2**30)
    total, available = runtime._ram()
    assert total == 2**30 and available <= 2**30


def test_cores_are_those_this_process_may_use():
    if hasattr(os, "sched_getaffinity"):
        assert runtime.describe().cores == len(os.sched_getaffinity(0))
