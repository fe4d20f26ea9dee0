"""Several devices: real or simulated, and the strategy or mesh that fits them.

Several devices can be simulated on any CPU: XLA and TensorFlow split it into as many as you ask for,
each with a name and a queue of its own. They are slower than real chips and compute the same.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass

from colab_helpers import runtime

_COUNT = "--xla_force_host_platform_device_count"
#: Threads of XLA for each simulated device: one that waits for the others holds a thread meanwhile.
_THREADS_A_DEVICE = 4


class TooLateError(RuntimeError):
    """A setting that has to precede an import came after it: what to do stands in the message."""


class ProgramError(RuntimeError):
    """A program in a process of its own failed: its last lines stand in the message."""


@dataclass(frozen=True)
class Choice:
    """A way to use the devices of a machine, and why it can be chosen."""

    name: str
    because: str

    def __str__(self) -> str:
        return f"{self.name}: {self.because}"


def simulate_jax(count: int = 8, chip: bool = True) -> None:
    """Make JAX show `count` CPU devices beside any real chip; best called before `import jax`.

    `chip=False` keeps JAX off GPUs and TPUs, so that another framework can have them. Where JAX has
    started already on a CPU, its devices are counted anew. Raises `ValueError` for a count below 1,
    and `TooLateError` where JAX has started on a chip, or is too old to count again.
    Source: docs.jax.dev, "Introduction to parallel programming".
    """
    if count < 1:
        raise ValueError(f"count is {count}: ask for 1 device or more.")
    if _jax_has_started():
        _count_again(count, chip)
        return
    flags = re.sub(rf"{_COUNT}=\d+", "", os.environ.get("XLA_FLAGS", "")).strip()
    os.environ["XLA_FLAGS"] = f"{flags} {_COUNT}={count}".strip()
    # With few threads, devices that wait for each other's sums can starve the one they wait for.
    os.environ.setdefault("NPROC", str(_THREADS_A_DEVICE * count))
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leave a GPU room for others
    platforms = os.environ.get("JAX_PLATFORMS", "")
    if not chip:
        os.environ["JAX_PLATFORMS"] = "cpu"
        if "jax" in sys.modules:  # imported, not started: it has read the variable already
            sys.modules["jax"].config.update("jax_platforms", "cpu")
    elif platforms and "cpu" not in platforms:
        os.environ["JAX_PLATFORMS"] = f"{platforms},cpu"


def choose_keras_backend(name: str) -> None:
    """Make Keras compute with "jax", "tensorflow" or "torch"; call it before `import keras`.

    Raises `TooLateError` when Keras has started with another one: it chooses once a process. `name` is
    one of those three.
    """
    keras = sys.modules.get("keras")
    if keras is not None and keras.backend.backend() != name:
        raise TooLateError(
            f"Keras has started with {keras.backend.backend()} and chooses once a process. "
            f"Run what needs {name} with devices.run_in_subprocess, or restart the session."
        )
    os.environ["KERAS_BACKEND"] = name


def run_in_subprocess(program: str, *, limit: float = 300, **environment: str) -> str:
    """Run Python code in a process of its own, with these settings, and return what it prints.

    For settings that one process cannot hold both ways. JAX in it keeps to the CPU unless
    `JAX_PLATFORMS` says otherwise: one process owns a TPU. Raises `ProgramError` when it fails, or has
    not ended after `limit` seconds. `program` is its source; `environment` names variables and their
    values; `limit` is in seconds.

    >>> run_in_subprocess("import os; print(os.environ['COLOUR'])", COLOUR="blue")
    'blue\\n'
    """
    settings = {**os.environ, "JAX_PLATFORMS": "cpu", **environment}
    command = [sys.executable, "-c", program]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=settings)
    except subprocess.TimeoutExpired:
        raise ProgramError(
            f"The program had not ended after {limit:g} s, and was stopped."
        ) from None
    if done.returncode:
        tail = "\n".join(done.stderr.strip().splitlines()[-3:])
        raise ProgramError(
            f"The program ended with code {done.returncode}. Its last words:\n{tail}"
        )
    return done.stdout


def list_strategies(
    evidence: runtime.Evidence, logical_devices: int, chip_is_free: bool = True
) -> tuple[Choice, ...]:
    """Return the tf.distribute strategies that a machine offers, best first, each with its reason.

    `chip_is_free` is False when another framework holds the TPU. `evidence` is what `runtime.observe`
    gives; `logical_devices` counts those that TensorFlow shows.

    >>> [choice.name for choice in list_strategies(runtime.Evidence(), 4)]
    ['MirroredStrategy', 'default']
    """
    offered = [Choice("default", "one device, always there: what the others are compared with")]
    if logical_devices > 1:
        text = f"{logical_devices} devices in one machine, each with a copy of the weights"
        offered.insert(0, Choice("MirroredStrategy", text))
    has_tpu = runtime.describe(evidence).accelerator == "TPU"
    if has_tpu and chip_is_free and "tensorflow-tpu" in evidence.packages:
        offered.insert(0, Choice("TPUStrategy", "a TPU, free, and a TensorFlow built for it"))
    return tuple(offered)


def all_reduce_seconds(count: int, size: float, bandwidth: float, latency: float = 0.0) -> float:
    """Return the seconds in which `count` chips add up `size` bytes of gradient in a ring.

    Each chip sends 2 (count - 1) / count times the bytes, in 2 (count - 1) messages; `bandwidth` is
    what a chip sends, in bytes/s, `latency` in s a message. A model, not a measurement. Source:
    Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
    J. Parallel Distrib. Comput. 69(2), 2009.

    >>> all_reduce_seconds(1, 1e9, 1e9), all_reduce_seconds(4, 1e9, 1e9)
    (0.0, 1.5)
    """
    return 2 * (count - 1) / count * size / bandwidth + 2 * (count - 1) * latency


def scaling_efficiency(
    count: int, step: float, size: float, bandwidth: float, latency: float = 0.0
) -> float:
    """Return the share of `count` chips' time that is work: step / (step + all-reduce). A model.

    `step` is one chip's own seconds, the same for any count: each chip brings its own rows. Nothing is
    hidden behind the computing, as frameworks partly do, so real efficiency can be better. `size` is
    the gradient's bytes; `bandwidth` is what a chip sends, in bytes/s; `latency` is in s a message.

    >>> scaling_efficiency(1, 0.1, 4e7, 1e11), scaling_efficiency(2, 1.0, 1e9, 1e9)
    (1.0, 0.5)
    """
    return step / (step + all_reduce_seconds(count, size, bandwidth, latency))


def _jax_has_started() -> bool:
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bool(getattr(bridge, "_backends", None))


def _count_again(count: int, chip: bool) -> None:
    import jax
    from jax.extend import backend

    on_chip = jax.default_backend() != "cpu"
    if len(jax.devices("cpu")) == count and (chip or not on_chip):
        return
    if on_chip or not hasattr(jax.config, "jax_num_cpu_devices"):
        raise TooLateError(
            f"JAX {jax.__version__} has started on {jax.devices()[0].device_kind}, and chooses its "
            "devices once. Runtime > Restart session, then run from the top."
        )
    backend.clear_backends()
    jax.config.update("jax_num_cpu_devices", count)
