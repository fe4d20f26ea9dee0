"""What does this error mean, and what does that old notebook ask for? TPUs changed most."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from colab_helpers.preflight.state import Finding

#: Error text (a pattern) -> id, what it means, the way out.
#: Sources: colabtools #5203 and #4481, tensorflow #96203, jax #10192 and #22070, gvisor #11545;
#: TensorFlow 2.21, run.
_ERRORS = {
    r"No OpKernel was registered to support Op '?ConfigureDistributedTPU": (
        "tpu-plain-tensorflow",
        "This TensorFlow has no code for TPUs. Old notebooks ran with another build.",
        'Use JAX, or Keras with os.environ["KERAS_BACKEND"] = "jax". TensorFlow on a TPU needs '
        "the package tensorflow-tpu in place of tensorflow.",
    ),
    r"TPU is already in use by process|libtpu.so.* already in use|/dev/(vfio|accel)\S*.*busy": (
        "tpu-in-use",
        "One process owns a TPU, and another one has it: a second notebook, kernel or framework.",
        "Runtime > Restart session in the other one, then use one framework a session. If it stays "
        "busy: Runtime > Disconnect and delete runtime.",
    ),
    r"COLAB_TPU_ADDR|jax\.tools\.colab_tpu|provide a TPU Name to connect to|grpc://\S+:8470": (
        "tpu-node",
        "This looks for a TPU elsewhere in the network. Such TPU nodes are gone since 2024.",
        'Nothing to connect to: jax.devices(), or TPUClusterResolver(tpu="local").',
    ),
}

#: Colab's names, in metadata, for TPUs that it no longer has (colabtools #5566).
_RETIRED_TPUS = {"V28": "v2-8"}

#: Code (a pattern) -> what replaces it.
_OLD_CODE = {
    r"COLAB_TPU_ADDR": "nothing: the TPU is in your machine, and jax.devices() finds it",
    r"TPUClusterResolver(\.connect)?\(\s*((tpu\s*=\s*)?(''|\"\"))?\s*\)": (
        'TPUClusterResolver(tpu="local"), with tensorflow-tpu; or JAX'
    ),
    r"experimental_connect_to_cluster": "nothing: there is no cluster to connect to",
    r"distribute\.experimental\.TPUStrategy": "tf.distribute.TPUStrategy",
    r"jax\.tools\.colab_tpu": "nothing: jax.devices() finds the TPU",
}


def explain_error(error: str | BaseException) -> Finding | None:
    """Say what an error about TPUs means, and the way out; None for one that is not known.

    >>> explain_error("The TPU is already in use by process with pid 42.").id
    'tpu-in-use'
    """
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    for pattern, (id, seen, remedy) in _ERRORS.items():
        if re.search(pattern, text):
            return Finding(id, "stop", seen, remedy)
    return None


def explain_notebook(notebook: Mapping[str, Any]) -> tuple[Finding, ...]:
    """Say what an old notebook, as parsed JSON, asks for that is gone, and what replaces it.

    >>> [f.id for f in explain_notebook({"metadata": {"colab": {"gpuType": "V28"}}, "cells": []})]
    ['tpu-retired']
    """
    found = []
    asked = str(notebook.get("metadata", {}).get("colab", {}).get("gpuType", "")).upper()
    if asked in _RETIRED_TPUS:
        found.append(
            Finding(
                "tpu-retired",
                "warn",
                f"The notebook asks for a TPU {_RETIRED_TPUS[asked]}, which Colab has retired.",
                "Runtime > Change runtime type > v5e-1 TPU > Save.",
            )
        )
    for number, cell in enumerate(notebook.get("cells", []), start=1):
        source = "".join(cell.get("source", ""))
        for pattern, instead in _OLD_CODE.items():
            if cell.get("cell_type") == "code" and (match := re.search(pattern, source)):
                seen = f"Cell {number} has {match.group()}, from the days of TPU nodes."
                found.append(Finding("tpu-old-code", "warn", seen, f"Write instead: {instead}."))
    return tuple(found)
