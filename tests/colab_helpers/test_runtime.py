import os
import sys
import tomllib
from pathlib import Path

import pytest

from colab_helpers import runtime
from colab_helpers.runtime import system_info

MACHINES = tomllib.loads((Path(__file__).parent / "environments.toml").read_text("utf-8"))[
    "machine"
]


def recorded(machine):
    told = ("env", "shell", "nvidia_smi", "packages", "system", "machine")
    return runtime.SystemInfo(
        **{key: machine[key] for key in told if key in machine},
        paths=tuple(machine.get("paths", ())),
        pci=tuple(map(tuple, machine.get("pci", ()))),
    )


@pytest.mark.parametrize("machine", MACHINES, ids=[m["name"] for m in MACHINES])
def test_recorded_machines_are_recognized(machine):
    found = runtime.describe(recorded(machine))
    assert (found.platform, found.accelerator) == (machine["platform"], machine["accelerator"])
    assert found.tpu == machine.get("tpu")


def test_this_machine_is_described():
    found = runtime.describe()
    assert found.cores >= 1 and found.ram_total > 2**28 and found.disk_free > 0
    assert found.python.startswith(f"{sys.version_info.major}.{sys.version_info.minor}")
    assert found.ram_available <= found.ram_total


def test_only_watched_variables_are_kept(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("COLAB_RELEASE_TAG", "1")
    kept = runtime.probe().env
    assert "HF_TOKEN" not in kept and kept["COLAB_RELEASE_TAG"] == "1"


@pytest.mark.parametrize("name", ["tensorflow", "tensorflow-cpu", "tensorflow-tpu"])
def test_tensorflow_is_found_under_any_of_its_names(name):
    found = runtime.describe(runtime.SystemInfo(packages={name: "2.20.0"}))
    assert found.frameworks == {"tensorflow": "2.20.0"}


MIB = 2**20


def container(folder, limit, used, cached=0):
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 1\ninactive_file {cached}\nactive_file 7\n")
    return system_info._container(folder)


@pytest.mark.parametrize(
    ("limit", "used", "cached", "left"),
    [
        (8192 * MIB, 8000 * MIB, 0, 192 * MIB),
        (8192 * MIB, 8000 * MIB, 3000 * MIB, 3192 * MIB),  # cached files can be dropped
        (8192 * MIB, 9000 * MIB, 0, 0),
        (8192 * MIB, 100 * MIB, 200 * MIB, 8192 * MIB),
    ],
)
def test_what_a_container_has_left_counts(tmp_path, limit, used, cached, left):
    assert container(tmp_path, limit, used, cached) == (limit, left)


def test_a_containers_memory_is_what_this_process_can_have(monkeypatch):
    monkeypatch.setattr(system_info, "_container", lambda: (64 * MIB, 5 * MIB))
    assert system_info._ram() == (64 * MIB, 5 * MIB)
    monkeypatch.setattr(system_info, "_container", lambda: (2**60, 2**59))  # wider than the machine
    assert system_info._ram()[0] < 2**50


def test_a_dropped_mount_does_not_stop_the_description(monkeypatch):
    def gone(path):
        raise OSError(107, "Transport endpoint is not connected")

    monkeypatch.setattr(system_info.shutil, "disk_usage", gone)
    found = runtime.describe()
    assert (found.disk_total, found.disk_free) == (0, 0)


def test_a_package_installed_by_half_is_not_counted(monkeypatch):
    def version(name):
        if name == "numpy":
            return None  # metadata without a version
        if name == "torch":
            raise UnicodeDecodeError("utf-8", b"x", 0, 1, "cut off")
        return "1.0"

    monkeypatch.setattr(system_info.importlib.metadata, "version", version)
    found = runtime.probe().packages
    assert "numpy" not in found and "torch" not in found and found["jax"] == "1.0"


@pytest.mark.parametrize(
    ("value", "accelerator"),
    [
        ("", "none"),
        ("-1", "none"),
        ("NoDevFiles", "none"),
        ("0", "GPU"),
        ("1,0", "GPU"),
        ("GPU-8f", "GPU"),
    ],
)
def test_gpus_hidden_from_cuda_are_none(value, accelerator):
    seen = runtime.SystemInfo(
        env={"CUDA_VISIBLE_DEVICES": value}, nvidia_smi=True, paths=("/dev/nvidia0",)
    )
    assert runtime.describe(seen).accelerator == accelerator


def test_cores_are_those_this_process_may_use():
    if hasattr(os, "sched_getaffinity"):
        assert runtime.describe().cores == len(os.sched_getaffinity(0))


def test_after_a_quiet_block_stderr_is_there_again_and_a_failure_tells_what_was_said():
    code = """
import os
from colab_helpers import runtime
with runtime.capture_stderr():
    os.write(2, b"hidden ")
os.write(2, b"shown ")
try:
    with runtime.capture_stderr():
        os.write(2, b"noise ")
        raise ValueError
except ValueError:
    os.write(2, b"end")
"""
    import subprocess

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "shown noise end")
