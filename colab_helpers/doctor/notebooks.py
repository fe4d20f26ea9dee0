"""What does a notebook ask for that is gone, and what will it lose or wait for?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from colab_helpers.doctor.problems import Finding, report

#: The problems that `explain_notebook` finds.
IN_NOTEBOOKS = ("tpu-old-code", "tpu-retired", "drive-small-files", "resume-anew")

#: Colab's names, in metadata, for TPUs that it no longer has (colabtools #5566).
_RETIRED_TPUS = {"V28": "v2-8"}

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

#: A folder of files, or a file in a loop, read where each of them is a journey.
_ON_DRIVE = (
    r"(listdir|glob|imread|Image\.open|ImageFolder|image_dataset_from_directory|flow_from_directory)"
    r"\(\s{0,99}[frb]?['\"]/content/g?drive/"
)


def explain_notebook(notebook: Mapping[str, Any]) -> tuple[Finding, ...]:
    """Say what a notebook, as parsed JSON, asks for that is gone, and what it will lose or wait for.

    >>> [f.id for f in explain_notebook({"metadata": {"colab": {"gpuType": "V28"}}, "cells": []})]
    ['tpu-retired']
    """
    found = []
    asked = str(_inside(notebook, "metadata", "colab").get("gpuType", "")).upper()
    if asked in _RETIRED_TPUS:
        seen = f"The notebook asks for a TPU {_RETIRED_TPUS[asked]}, which Colab has retired."
        found.append(report("tpu-retired", seen, platform="colab"))
    listed = notebook.get("cells")
    cells = [_code(cell) for cell in listed] if isinstance(listed, list) else []
    for number, code in enumerate(cells, start=1):
        for pattern, instead in _OLD_CODE.items():
            if match := re.search(pattern, code):
                seen = f"{_place(number)} has {match.group()}."
                found.append(report("tpu-old-code", seen, platform="colab", remedy=instead))
        if match := re.search(_ON_DRIVE, code):
            seen = f"{_place(number)} reads files from a mounted Drive: {match.group()}…"
            found.append(report("drive-small-files", seen, platform="colab"))
    if _forgets_the_optimiser("\n".join(cells)):
        seen = "The notebook loads a model's state to train on, and no optimiser's."
        found.append(report("resume-anew", seen, platform="colab"))
    return tuple(found)


def _place(number: int) -> str:
    return f"Cell {number}, text cells counted too,"


def _forgets_the_optimiser(code: str) -> bool:
    """Whether PyTorch code trains, keeps states in a file, and takes up some but no optimiser's."""
    trains_and_keeps = (r"\.backward\(", r"torch\.save\(", r"\.load_state_dict\(")
    takes_it_up = r"(opt\w{0,20}|trainer\w{0,20})(\[\w+\])?\.load_state_dict\("
    return all(re.search(one, code) for one in trains_and_keeps) and not re.search(
        takes_it_up, code, re.IGNORECASE
    )


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
