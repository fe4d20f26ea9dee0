"""Simulated devices for JAX, which must be asked for before it starts.

XLA can split any CPU into as many devices as you ask for, each with a name and a queue of its own.
They are slower than real chips and compute the same results.
"""

from __future__ import annotations

import os
import re
import sys

_COUNT = "--xla_force_host_platform_device_count"
#: Threads of XLA for each simulated device: one that waits for the others holds a thread meanwhile.
_THREADS_A_DEVICE = 4


class TooLateError(RuntimeError):
    """A setting was made after the import that it has to precede; the message says what to do."""


def simulate_jax(count: int = 8, use_accelerator: bool = True) -> None:
    """Make JAX show `count` CPU devices beside any real chip; best called before `import jax`.

    `use_accelerator=False` keeps JAX off GPUs and TPUs, for other frameworks to use. Where JAX has
    started already on a CPU, its devices are counted anew. Raises `ValueError` for a count below 1,
    and `TooLateError` where JAX has started on a chip, or is too old to count again.
    It sets XLA_FLAGS, NPROC, XLA_PYTHON_CLIENT_PREALLOCATE and JAX_PLATFORMS for this process and its
    children. Source: docs.jax.dev, "Introduction to parallel programming".
    """
    if count < 1:
        raise ValueError(f"count must be a positive integer (got {count}).")
    if _jax_has_started():
        _count_again(count, use_accelerator)
        return
    flags = re.sub(rf"{_COUNT}=\d+", "", os.environ.get("XLA_FLAGS", "")).strip()
    os.environ["XLA_FLAGS"] = f"{flags} {_COUNT}={count}".strip()
    # With few threads, devices that wait for each other's sums can starve the one they wait for.
    os.environ.setdefault("NPROC", str(_THREADS_A_DEVICE * count))
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leave a GPU room for others
    platforms = os.environ.get("JAX_PLATFORMS", "")
    wanted = platforms
    if not use_accelerator:
        wanted = "cpu"
    elif platforms and "cpu" not in platforms:
        wanted = f"{platforms},cpu"
    if wanted:
        os.environ["JAX_PLATFORMS"] = wanted
        if "jax" in sys.modules:  # imported, not started: it has read the variable already
            sys.modules["jax"].config.update("jax_platforms", wanted)


def _jax_has_started() -> bool:
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bool(getattr(bridge, "_backends", None))


def _count_again(count: int, use_accelerator: bool) -> None:
    import jax
    from jax.extend import backend

    on_chip = jax.default_backend() != "cpu"
    try:
        counted = len(jax.devices("cpu"))
    except RuntimeError:  # JAX_PLATFORMS leaves the CPU out
        counted = 0
    if counted == count and (use_accelerator or not on_chip):
        return
    if on_chip or not hasattr(jax.config, "jax_num_cpu_devices"):
        raise TooLateError(
            f"JAX {jax.__version__} has already initialized on {jax.devices()[0].device_kind}, and "
            "cannot change its devices. Choose Runtime > Restart session, then run from the top."
        )
    backend.clear_backends()
    jax.config.update("jax_num_cpu_devices", count)
