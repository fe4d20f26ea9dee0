"""Checks of this machine's TPU, and of who uses it."""

from __future__ import annotations

from colab_helpers.preflight.state import State
from colab_helpers.problem_schema import Finding


def tpu_without_tensorflow(state: State) -> Finding | None:
    """A TPU runtime has no TensorFlow, and old notebooks expect it."""
    if state.runtime.accelerator != "TPU" or "tensorflow" in state.runtime.frameworks:
        return None
    since = "; Colab took it out on 2025-03-07" if state.runtime.platform == "colab" else ""
    return state.report("tpu-without-tensorflow", f"This TPU runtime has no TensorFlow{since}.")


def tpu_in_use(state: State) -> Finding | None:
    """Another process has opened the TPU, which only one can own."""
    if not state.symptoms.tpu_holders:
        return None
    pids = ", ".join(map(str, state.symptoms.tpu_holders))
    return state.report("tpu-in-use", f"The TPU is held by another process (pid {pids}).")
