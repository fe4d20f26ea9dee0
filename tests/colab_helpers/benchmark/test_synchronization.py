"""Work is waited for on every device that has been given some, and nothing is started by it."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from colab_helpers import benchmark


def torch_with(gpus=0, used=(), current=0, mps=False, xpu=False):
    """As much of PyTorch as waiting uses: GPUs, those with memory in use, other accelerators."""
    waited = []
    cuda = SimpleNamespace(
        is_initialized=lambda: gpus > 0,
        current_device=lambda: current,
        device_count=lambda: gpus,
        memory_reserved=lambda index: 2**21 if index in used else 0,
        synchronize=waited.append,
    )
    there = {
        name: SimpleNamespace(
            is_available=lambda yes=yes: yes,
            is_initialized=lambda yes=yes: yes,
            synchronize=lambda name=name: waited.append(name),
        )
        for name, yes in {"mps": mps, "xpu": xpu}.items()
    }
    fake = SimpleNamespace(cuda=cuda, backends=SimpleNamespace(mps=there["mps"]), **there)
    return fake, waited


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ({}, []),
        ({"gpus": 1}, [0]),
        ({"gpus": 2, "used": (0, 1)}, [0, 1]),
        ({"gpus": 2, "used": (1,), "current": 1}, [1]),  # the first one is not set up by waiting
        ({"gpus": 3, "used": (2,)}, [0, 2]),
        ({"mps": True}, ["mps"]),
        ({"xpu": True}, ["xpu"]),
    ],
)
def test_every_device_that_pytorch_uses_is_waited_for(monkeypatch, machine, expected):
    fake, waited = torch_with(**machine)  # without torch.accelerator, as before 2.6
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    benchmark.synchronize()
    assert waited == expected


@pytest.mark.parametrize(
    ("context", "gpus", "expected"),
    [
        (SimpleNamespace(_initialized=True), ["GPU:0"], 1),
        (SimpleNamespace(_initialized=True), [], 0),
        (SimpleNamespace(_initialized=False), ["GPU:0"], 0),
        (None, ["GPU:0"], 0),
    ],
)
def test_tensorflow_is_waited_for_once_it_has_started(monkeypatch, context, gpus, expected):
    waited, asked = [], []

    def devices(kind):
        asked.append(kind)
        return gpus

    fake = SimpleNamespace(
        config=SimpleNamespace(list_physical_devices=devices),
        test=SimpleNamespace(
            experimental=SimpleNamespace(sync_devices=lambda: waited.append("tensorflow"))
        ),
    )
    monkeypatch.setitem(sys.modules, "tensorflow", fake)
    started = SimpleNamespace(_context=context)
    monkeypatch.setitem(sys.modules, "tensorflow.python.eager.context", started)
    benchmark.synchronize()
    assert len(waited) == expected
    assert bool(asked) == bool(context and context._initialized)


class Array:
    """As much of a JAX array as waiting uses."""

    def __init__(self, waited):
        self.waited = waited

    def is_deleted(self):
        return False

    def block_until_ready(self):
        self.waited.append(self)
        return self


def jax_with(alive, monkeypatch, started=("cpu",)):
    fake = SimpleNamespace(
        Array=Array,
        tree_util=SimpleNamespace(
            tree_leaves=lambda tree: tree if isinstance(tree, list) else [tree]
        ),
        block_until_ready=lambda arrays: [array.block_until_ready() for array in arrays],
        live_arrays=lambda platform: alive[platform],
    )
    monkeypatch.setitem(sys.modules, "jax", fake)
    bridge = SimpleNamespace(_backends=dict.fromkeys(started))
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", bridge)


@pytest.mark.parametrize("result", [None, 3.0, ["text"]])
def test_a_jax_function_that_returns_no_array_is_waited_for(monkeypatch, result):
    waited = []
    alive = {"cpu": [Array(waited)], "tpu": [Array(waited)]}
    jax_with(alive, monkeypatch, started=("cpu", "tpu"))
    benchmark.synchronize(result)
    assert waited == [*alive["cpu"], *alive["tpu"]]


def test_a_jax_result_is_waited_for_and_nothing_else(monkeypatch):
    waited = []
    result = [Array(waited), Array(waited)]
    jax_with({"cpu": [Array(waited)]}, monkeypatch)
    benchmark.synchronize(result)
    assert waited == result


def test_jax_is_not_started_by_waiting():
    code = """
import sys, jax
from colab_helpers import benchmark
benchmark.synchronize(); benchmark.synchronize(3)
print(bool(sys.modules["jax._src.xla_bridge"]._backends))
x = jax.numpy.ones(3) + 1
benchmark.synchronize(); benchmark.synchronize([x, {"a": x}])
print(bool(sys.modules["jax._src.xla_bridge"]._backends), len(jax.live_arrays("cpu")) > 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True"]


def test_odd_results_are_waited_for_all_the_same():
    jax = pytest.importorskip("jax")
    donated = jax.numpy.ones(3)
    donated.delete()
    benchmark.synchronize({1: jax.numpy.ones(3), "a": 2})  # keys that cannot be sorted
    benchmark.synchronize([donated])
