"""Devices that do not exist, and settings that come too late."""

import json
import os
import subprocess
import sys
import types

import pytest

from colab_helpers import simulated_devices


def run_python(program, **environment):
    """What a fresh interpreter finds, as JSON on its last line."""
    settings = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "", **environment}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, check=True, timeout=300, env=settings,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def test_jax_shows_as_many_devices_as_asked_for():
    program = """
from colab_helpers import simulated_devices
simulated_devices.simulate_jax(5)
import jax
print(len(jax.devices("cpu")))
"""
    assert run_python(program) == 5


def test_a_started_jax_counts_again_without_a_restart():
    program = """
import jax
before = len(jax.devices("cpu"))
from colab_helpers import simulated_devices
simulated_devices.simulate_jax(4)
print([before, len(jax.devices("cpu")), float(jax.numpy.ones(3).sum())])
"""
    assert run_python(program) == [1, 4, 3.0]


def test_steps_queued_without_waiting_do_not_deadlock():
    """Eight devices on few cores: with one thread a core, an all-reduce waits for ever."""
    program = """
from colab_helpers import simulated_devices
simulated_devices.simulate_jax(8)
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices("cpu")), ("data",))
rows, everywhere = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
step = jax.jit(lambda w, x: w - 0.01 * jax.grad(lambda w: ((x @ w) ** 2).mean())(w))
w = jax.device_put(np.ones((64, 64), "f"), everywhere)
for _ in range(300):
    w = step(w, jax.device_put(np.ones((128, 64), "f"), rows))
print(int(float(w.sum()) < 64 * 64))
"""
    assert run_python(program) == 1


def test_jax_imported_and_not_started_still_keeps_off_the_chip():
    program = """
import jax, json
from colab_helpers import simulated_devices
simulated_devices.simulate_jax(2, use_accelerator=False)
print(json.dumps([jax.config.jax_platforms, jax.device_count()]))
"""
    assert run_python(program, JAX_PLATFORMS="") == ["cpu", 2]


@pytest.mark.parametrize(
    ("before", "chip", "after"),
    [("", True, None), ("", False, "cpu"), ("tpu", True, "tpu,cpu"), ("tpu,cpu", True, "tpu,cpu")],
)
def test_who_gets_the_chip(monkeypatch, before, chip, after):
    for name in ("XLA_FLAGS", "NPROC", "XLA_PYTHON_CLIENT_PREALLOCATE", "JAX_PLATFORMS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(simulated_devices, "_jax_has_started", lambda: False)
    if before:
        monkeypatch.setenv("JAX_PLATFORMS", before)
    config = types.SimpleNamespace(seen=before or None)
    config.update = lambda name, value: setattr(config, "seen", value)
    monkeypatch.setitem(sys.modules, "jax", types.SimpleNamespace(config=config))  # not started
    simulated_devices.simulate_jax(8, use_accelerator=chip)
    simulated_devices.simulate_jax(8, use_accelerator=chip)  # twice is as good as once
    import os

    assert os.environ.get("JAX_PLATFORMS") == after == config.seen
    assert os.environ["XLA_FLAGS"] == "--xla_force_host_platform_device_count=8"
