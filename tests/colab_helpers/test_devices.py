"""Devices that do not exist, settings that come too late, and which strategy a machine offers."""

import json

import jax
import pytest

from colab_helpers import devices, runtime

TPU = {"pci": ((0x1AE0, 0x0063),)}
TF, TF_TPU = {"tensorflow": "2.20.0"}, {"tensorflow-tpu": "2.20.0"}


def apart(program, **environment):
    """What a fresh interpreter finds, as JSON on its last line."""
    lines = devices.run_in_subprocess(program, XLA_FLAGS="", **environment).splitlines()
    return json.loads(lines[-1])


def test_jax_shows_as_many_devices_as_asked_for():
    program = """
from colab_helpers import devices
devices.simulate_jax(5)
import jax
print(len(jax.devices("cpu")))
"""
    assert apart(program) == 5


def test_a_started_jax_counts_again_without_a_restart():
    program = """
import jax
before = len(jax.devices("cpu"))
from colab_helpers import devices
devices.simulate_jax(4)
print([before, len(jax.devices("cpu")), float(jax.numpy.ones(3).sum())])
"""
    assert apart(program) == [1, 4, 3.0]


def test_steps_queued_without_waiting_do_not_deadlock():
    """Eight devices on few cores: with one thread a core, an all-reduce waits for ever."""
    program = """
from colab_helpers import devices
devices.simulate_jax(8)
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
    assert apart(program) == 1


def test_jax_imported_and_not_started_still_keeps_off_the_chip():
    program = """
import jax, json
from colab_helpers import devices
devices.simulate_jax(2, chip=False)
print(json.dumps([jax.config.jax_platforms, jax.device_count()]))
"""
    assert apart(program, JAX_PLATFORMS="") == ["cpu", 2]


def test_jax_on_a_chip_cannot_be_counted_again(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    jax.devices()
    with pytest.raises(devices.TooLateError, match="Restart session"):
        devices.simulate_jax(len(jax.devices("cpu")), chip=False)


@pytest.mark.parametrize(
    ("before", "chip", "after"),
    [("", True, None), ("", False, "cpu"), ("tpu", True, "tpu,cpu"), ("tpu,cpu", True, "tpu,cpu")],
)
def test_who_gets_the_chip(monkeypatch, before, chip, after):
    for name in ("XLA_FLAGS", "NPROC", "XLA_PYTHON_CLIENT_PREALLOCATE", "JAX_PLATFORMS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(devices, "_jax_has_started", lambda: False)
    if before:
        monkeypatch.setenv("JAX_PLATFORMS", before)
    devices.simulate_jax(8, chip=chip)
    devices.simulate_jax(8, chip=chip)  # twice is as good as once
    import os

    assert os.environ.get("JAX_PLATFORMS") == after
    assert os.environ["XLA_FLAGS"] == "--xla_force_host_platform_device_count=8"


def test_no_devices_is_no_wish():
    with pytest.raises(ValueError, match="ask for 1 device or more"):
        devices.simulate_jax(0)


@pytest.mark.slow
def test_keras_that_has_started_with_another_backend_says_what_to_do():
    program = """
import json, keras
from colab_helpers import devices
devices.choose_keras_backend("torch")  # as it is: no complaint
try:
    devices.choose_keras_backend("jax")
except devices.TooLateError as error:
    print(json.dumps(str(error)))
"""
    said = apart(program, KERAS_BACKEND="torch")
    assert "started with torch" in said and "restart the session" in said


def test_a_program_that_fails_says_its_last_words():
    with pytest.raises(devices.ProgramError, match=r"code 1[^$]*ZeroDivisionError"):
        devices.run_in_subprocess("1 / 0")


def test_a_program_apart_keeps_off_the_chip():
    assert devices.run_in_subprocess("import os; print(os.environ['JAX_PLATFORMS'])") == "cpu\n"


@pytest.mark.parametrize(
    ("evidence", "logical", "free", "names"),
    [
        ({}, 1, True, ["default"]),
        ({}, 4, True, ["MirroredStrategy", "default"]),
        ({**TPU, "packages": TF_TPU}, 4, True, ["TPUStrategy", "MirroredStrategy", "default"]),
        ({**TPU, "packages": TF_TPU}, 4, False, ["MirroredStrategy", "default"]),
        ({**TPU, "packages": TF}, 4, True, ["MirroredStrategy", "default"]),
        ({"packages": TF_TPU}, 1, True, ["default"]),
    ],
)
def test_strategies_that_a_machine_offers(evidence, logical, free, names):
    offered = devices.list_strategies(runtime.Evidence(**evidence), logical, free)
    assert [choice.name for choice in offered] == names
    assert all(choice.because for choice in offered)


def test_all_reduce_model_approaches_twice_the_bytes():
    seconds = [devices.all_reduce_seconds(n, 1e9, 1e9) for n in (1, 2, 4, 256)]
    assert seconds == [0, 1, 1.5, pytest.approx(2 * 255 / 256)]
    assert devices.all_reduce_seconds(4, 0, 1e9, latency=1e-6) == pytest.approx(6e-6)


def test_efficiency_falls_with_chips_and_rises_with_the_step():
    curve = [devices.scaling_efficiency(2**k, 1e-3, 1e6, 1e9) for k in range(9)]
    assert curve[0] == 1 and curve == sorted(curve, reverse=True)
    assert devices.scaling_efficiency(8, 1e-1, 1e6, 1e9) > curve[3]


def test_a_program_that_does_not_end_is_stopped_and_told():
    with pytest.raises(devices.ProgramError, match=r"had not ended after 0\.5 s"):
        devices.run_in_subprocess("import time; time.sleep(60)", limit=0.5)


@pytest.mark.parametrize("count", [1, 2, 8, 256])
def test_all_reduce_by_hand(count):
    size, bandwidth, latency = 1e9, 1e11, 1e-6
    expected = sum(size / count / bandwidth + latency for _ in range(2 * (count - 1)))
    assert devices.all_reduce_seconds(count, size, bandwidth, latency) == pytest.approx(expected)
