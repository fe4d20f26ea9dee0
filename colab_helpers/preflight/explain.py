"""What does this error mean, and what does that old notebook ask for that is gone?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from colab_helpers.preflight.problems import finding, known_problems
from colab_helpers.preflight.state import Finding

#: The problems that `explain_notebook` finds.
IN_NOTEBOOKS = ("tpu-old-code", "tpu-retired")

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
    """Say what an error means, and the way out; None for one that is not known.

    >>> explain_error("The TPU is already in use by process with pid 42.").id
    'tpu-in-use'
    """
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    for problem in known_problems().values():
        if any(re.search(pattern, text) for pattern in problem.errors):
            return finding(problem.id, severity="stop")
    return None


def explain_notebook(notebook: Mapping[str, Any]) -> tuple[Finding, ...]:
    """Say what an old notebook, as parsed JSON, asks for that is gone, and what replaces it.

    >>> [f.id for f in explain_notebook({"metadata": {"colab": {"gpuType": "V28"}}, "cells": []})]
    ['tpu-retired']
    """
    found = []
    asked = str(notebook.get("metadata", {}).get("colab", {}).get("gpuType", "")).upper()
    if asked in _RETIRED_TPUS:
        chip = _RETIRED_TPUS[asked]
        found.append(finding("tpu-retired", f"The notebook asks for a TPU {chip}, now retired."))
    for number, cell in enumerate(notebook.get("cells", []), start=1):
        source = "".join(cell.get("source", ""))
        for pattern, instead in _OLD_CODE.items():
            if cell.get("cell_type") == "code" and (match := re.search(pattern, source)):
                seen = f"Cell {number} has {match.group()}, from the days of TPU nodes."
                found.append(finding("tpu-old-code", seen, f"Write instead: {instead}."))
    return tuple(found)
