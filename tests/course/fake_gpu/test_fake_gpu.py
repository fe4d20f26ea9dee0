"""The fake GPU: PyTorch, NVML and the helper in it, TensorFlow and JAX, and what it is never taken for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from course import fake_gpu
from tests import slow

HERE = Path(__file__).parent


def run_as(machine, tmp_path, *words):
    """Run Python as that machine; return what it prints."""
    env = {**os.environ, **fake_gpu.environment(machine, tmp_path), "TF_CPP_MIN_LOG_LEVEL": "3"}
    for left_by_another_test in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES", "JAX_PLATFORMS"):
        env.pop(left_by_another_test, None)
    done = subprocess.run(
        [sys.executable, *words], env=env, capture_output=True, text=True, cwd=HERE.parents[2]
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.parametrize("machine", slow.after(1, ["two T4", "Apple GPU"]))
def test_pytorch_and_the_helper_inside_of_it(machine, tmp_path, monkeypatch):
    options = ["-q", "-p", "no:cacheprovider", "-p", "pytest_timeout", "-o", "addopts="]
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others only take time
    assert " passed" in run_as(
        machine, tmp_path, "-m", "pytest", *options, str(HERE / "machine_suite.py")
    )


def test_every_machine_is_a_chip_of_the_catalog():
    from colab_helpers.hardware import catalog, find_chip

    for machine in fake_gpu.machines().values():
        if machine.is_nvidia:
            chip = find_chip(machine.name, machine.driver_mib * 2**20)
            assert (chip.capability, chip.memory_mib) == (machine.capability, machine.driver_mib)
            assert machine.memory < machine.driver_mib * 2**20 and chip.key in catalog()


@pytest.mark.slow  # lesson 04 runs as this machine too
def test_tensorflow_sees_cards_splits_them_and_places_work_there(tmp_path):
    code = """
import json, tensorflow as tf
gpus = tf.config.list_physical_devices("GPU")
tf.config.set_logical_device_configuration(gpus[0], [tf.config.LogicalDeviceConfiguration(1024)] * 2)
names = [d.name for d in tf.config.list_logical_devices()]
with tf.device("GPU:2"):
    placed = tf.ones(2) + 1
try:
    tf.config.set_soft_device_placement(False)
    with tf.device("GPU:7"):
        tf.ones(2) + 1
    refused = False
except (RuntimeError, tf.errors.InvalidArgumentError):
    refused = True
memory = tf.config.experimental.get_memory_info("GPU:0")["current"] >= 0
print(json.dumps([len(gpus), names, placed.device[-5:], (tf.ones(2) + 1).device[-5:], refused, memory]))
"""
    told = json.loads(run_as("two T4", tmp_path, "-c", code).splitlines()[-1])
    names = ["/device:CPU:0", "/device:GPU:0", "/device:GPU:1", "/device:GPU:2"]
    assert told == [2, names, "GPU:2", "GPU:0", True, True]


def test_nvidia_smi_prints_its_table_and_its_fields(tmp_path):
    environment = fake_gpu.environment("two T4", tmp_path)
    ask = [
        "nvidia-smi",
        "--query-gpu=name,memory.total,compute_cap",
        "--format=csv,noheader,nounits",
    ]

    def smi(*words):
        env = {**os.environ, **environment}
        return subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout

    assert smi(*ask) == "Tesla T4, 15360, 7.5\n" * 2
    table = smi("nvidia-smi").splitlines()
    assert {len(line) for line in table if line} == {91} and sum(
        "Tesla T4" in line for line in table
    ) == 2


def test_an_unknown_machine_is_an_error(tmp_path):
    with pytest.raises(KeyError):
        fake_gpu.environment("V9000", tmp_path)
