"""What does this error mean, and what does that old notebook ask for that is gone?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from colab_helpers import runtime
from colab_helpers._output import error_text
from colab_helpers.preflight.problems import Finding, known_problems, report, way_out
from colab_helpers.preflight.state import DISTRIBUTION

#: The problems that `explain_notebook` finds.
IN_NOTEBOOKS = ("tpu-old-code", "tpu-retired")

#: Colab's names, in metadata, for TPUs that it no longer has (colabtools #5566).
_RETIRED_TPUS = {"V28": "v2-8"}

#: Characters of an error text that are looked at: a quarter from its beginning, the rest from its end.
_MOST = 65_536

#: Code (a pattern) -> what to do with it.
_OLD_CODE = {
    r"COLAB_TPU_ADDR|XRT_TPU_CONFIG|TPU_NAME": (
        "Delete it: the TPU is in your machine, and jax.devices() finds it."
    ),
    r"TPUClusterResolver(\.connect)?\(\s{0,99}((tpu\s{0,9}=\s{0,9})?(''|\"\"))?\s{0,99}\)": (
        'Write TPUClusterResolver(tpu="local"), with the package tensorflow-tpu; or use JAX.'
    ),
    r"experimental_connect_to_cluster": "Delete it: there is no cluster to connect to.",
    r"distribute\.experimental\.TPUStrategy": "Write tf.distribute.TPUStrategy.",
    r"jax\.tools\.colab_tpu": "Delete it: jax.devices() finds the TPU.",
    r"tensorflow\.contrib|tf\.contrib": "Gone since TensorFlow 2: tf.distribute, or JAX.",
    r"cloud-tpu-client": "Do not install it: torch_xla brings what it needs.",
}


def explain_error(error: str | BaseException, platform: str | None = None) -> Finding | None:
    """Say what an error means, and the way out; None for one that is not known.

    `platform` is where it was raised, as `runtime.describe` names it; here when left out. Of several
    problems that fit, the first of the page is named.

    >>> explain_error("The TPU is already in use by process with pid 42.").id
    'tpu-in-use'
    """
    text = _shortened(error if isinstance(error, str) else error_text(error))
    for problem in known_problems().values():
        for pattern in problem.errors:
            if match := re.search(pattern, text, re.IGNORECASE):
                here = platform or runtime.describe().platform
                remedy = way_out(problem.id, here)
                if "NAME" in remedy:
                    remedy = remedy.replace("NAME", DISTRIBUTION.get(match[1], match[1]))
                return report(
                    problem.id, problem.text, platform=here, remedy=remedy, severity="stop"
                )
    return None


def explain_notebook(notebook: Mapping[str, Any]) -> tuple[Finding, ...]:
    """Say what an old notebook, as parsed JSON, asks for that is gone, and what replaces it.

    >>> [f.id for f in explain_notebook({"metadata": {"colab": {"gpuType": "V28"}}, "cells": []})]
    ['tpu-retired']
    """
    found = []
    asked = str(_inside(notebook, "metadata", "colab").get("gpuType", "")).upper()
    if asked in _RETIRED_TPUS:
        seen = f"The notebook asks for a TPU {_RETIRED_TPUS[asked]}, which Colab has retired."
        found.append(report("tpu-retired", seen, platform="colab"))
    cells = notebook.get("cells")
    for number, cell in enumerate(cells if isinstance(cells, list) else [], start=1):
        for pattern, instead in _OLD_CODE.items():
            if match := re.search(pattern, _code(cell)):
                seen = f"Cell {number}, text cells counted too, has {match.group()}."
                found.append(report("tpu-old-code", seen, platform="colab", remedy=instead))
    return tuple(found)


def _shortened(text: str) -> str:
    """The beginning and the end of a long log, where errors say what they are."""
    if len(text) <= _MOST:
        return text
    return f"{text[: _MOST // 4]}\n…\n{text[-3 * _MOST // 4 :]}"


def _code(cell: Any) -> str:
    """The source of a code cell; "" for anything else that stands in its place."""
    if not isinstance(cell, Mapping) or cell.get("cell_type") != "code":
        return ""
    source = cell.get("source")
    lines = source if isinstance(source, list) else [source]
    return "".join(line for line in lines if isinstance(line, str))


def _inside(data: Any, *keys: str) -> Mapping[str, Any]:
    """The mapping below these keys; an empty one where something else stands there."""
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data if isinstance(data, Mapping) else {}
