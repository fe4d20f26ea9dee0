"""Waiting for every device that has been given work, so that a clock stops when it is done.

Nothing is started by waiting: a framework that is not imported, or has not touched its devices yet,
has no work to wait for.
"""

from __future__ import annotations

import sys
from typing import Any


def synchronize(result: Any = None) -> None:
    """Wait until all work handed to any accelerator so far is done.

    `result` is what the work returned. JAX has no queue to wait for, so its arrays in `result`, however
    deeply nested, are waited for; if there are none, all live JAX arrays are. Waits for every GPU that
    PyTorch has used, for Apple's and Intel's, and for TensorFlow's. Sources: torch.cuda.synchronize,
    torch.accelerator.synchronize, tf.test.experimental.sync_devices, jax.block_until_ready.

    >>> synchronize()
    """
    if torch := sys.modules.get("torch"):
        _wait_for_torch(torch)
    if tensorflow := sys.modules.get("tensorflow"):
        _wait_for_tensorflow(tensorflow)
    if jax := sys.modules.get("jax"):
        _wait_for_jax(jax, result)


def _wait_for_torch(torch: Any) -> None:
    cuda = getattr(torch, "cuda", None)  # absent while PyTorch is half imported
    if cuda is None:
        return
    if cuda.is_initialized():
        here = cuda.current_device()
        for index in range(cuda.device_count()):
            # A GPU without a byte of ours has no work of ours; waiting for it would set it up.
            if index == here or cuda.memory_reserved(index):
                cuda.synchronize(index)
        return
    for name in ("mps", "xpu"):
        backend = getattr(torch, name, None)
        if backend is not None and _is_there(torch, name):
            backend.synchronize()


def _is_there(torch: Any, name: str) -> bool:
    """Whether Apple's GPU is there, or Intel's has been started: waiting must not start it."""
    return bool(torch.backends.mps.is_available() if name == "mps" else torch.xpu.is_initialized())


def _wait_for_tensorflow(tensorflow: Any) -> None:
    # Asking TensorFlow for its devices would start it, and with it take a GPU's memory.
    eager = sys.modules.get("tensorflow.python.eager.context")
    context = getattr(eager, "_context", None)
    if context is None or not getattr(context, "_initialized", True):
        return
    if tensorflow.config.list_physical_devices("GPU"):
        tensorflow.test.experimental.sync_devices()


def _wait_for_jax(jax: Any, result: Any) -> None:
    if not hasattr(jax, "tree_util"):  # half imported
        return
    try:
        if any(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(result)):
            jax.block_until_ready(result)
            return
    except (TypeError, ValueError, RuntimeError):
        pass  # a dict whose keys cannot be sorted, or an array that was donated: wait for all
    bridge = sys.modules.get("jax._src.xla_bridge")
    for platform in list(getattr(bridge, "_backends", None) or ()):
        jax.block_until_ready([a for a in jax.live_arrays(platform) if not a.is_deleted()])
