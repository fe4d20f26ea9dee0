"""Old notebooks: what they ask for that is gone, and what they will lose or wait for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from colab_doctor.notebook import cells, missing_imports, removed_apis
from colab_doctor.problem_table import known_problems
from colab_helpers._import_names import distribution_name
from colab_helpers.problem_schema import Finding

#: The problems that `explain_notebook` finds.
NOTEBOOK_PROBLEMS = (
    "retired",
    "not-on-colab",
    "tpu-retired",
    "tpu-notebook-tensorflow",
    "drive-small-files",
    "resume-anew",
)

#: Colab's names, in metadata, for TPUs that it no longer has (colabtools #5566).
_RETIRED_TPUS = {"V28": "v2-8"}
_SEVERITY = {"fails": "stop", "misleads": "warn", "warns": "note"}

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
    read = list(cells.cells(notebook))
    gone = removed_apis.find(read)
    return (
        *_in_metadata(notebook),
        *map(_of_place, sorted(gone, key=lambda place: (place.cell, place.line))),
        *_absent(notebook, read, {(place.cell, place.line) for place in gone}),
        *_slow(read),
        *_incomplete(read),
    )


def _in_metadata(notebook: Mapping[str, Any]) -> Iterator[Finding]:
    asked = str(cells.inside(notebook, "metadata", "colab").get("gpuType", "")).upper()
    if asked in _RETIRED_TPUS:
        seen = f"The notebook asks for a TPU {_RETIRED_TPUS[asked]}, which Colab has retired."
        yield known_problems()["tpu-retired"].finding(seen, "colab")
    kernel = cells.inside(notebook, "metadata", "kernelspec")
    if str(kernel.get("name", "")).startswith("python2"):
        seen = "The notebook asks for Python 2, which Colab no longer has."
        yield known_problems()["retired"].finding(seen, "colab", severity="stop")


def _of_place(place: removed_apis.Occurrence) -> Finding:
    row = place.row
    also = f" (and in {', '.join(map(str, place.cells))})" if place.cells else ""
    seen = f"Cell {place.cell}, line {place.line}{also}: {place.code[:120]}"
    fix = " ".join(filter(None, (row.why, place.note, f"Today: {place.instead}")))
    return known_problems()["retired"].finding(seen, "colab", fix, _SEVERITY[row.effect])


def _absent(
    notebook: Mapping[str, Any], read: list[cells.Cell], named: Set[tuple[int, int]]
) -> Iterator[Finding]:
    """Imports that fail on the machine which the notebook asks for; not those `named` as gone already."""
    runtime = "tpu" if _asks_for_tpu(notebook) else "gpu"
    for module, cell, line in missing_imports.missing(read, runtime):
        if (cell, line) in named:
            continue
        place = f"Cell {cell}, line {line}: import {module}"
        if module == "tensorflow":
            yield known_problems()["tpu-notebook-tensorflow"].finding(place, "colab")
        else:
            name = distribution_name(module)
            fix = (
                "Colab does not bring it. A file of your own: upload it, or clone its repository, in the "
                f"first cell. A package: `%pip install` it there (its name may be {name}; look it up)."
            )
            yield known_problems()["not-on-colab"].finding(place, "colab", fix)


def _asks_for_tpu(notebook: Mapping[str, Any]) -> bool:
    asked = str(cells.inside(notebook, "metadata").get("accelerator", "")).upper()
    kind = str(cells.inside(notebook, "metadata", "colab").get("gpuType", "")).upper()
    return asked == "TPU" and kind not in _RETIRED_TPUS


def _slow(read: Iterable[cells.Cell]) -> Iterator[Finding]:
    for cell in read:
        if match := re.search(_ON_DRIVE, cell.text):
            seen = f"Cell {cell.number} reads files from a mounted Drive: {match.group()}…"
            yield known_problems()["drive-small-files"].finding(seen, "colab")


def _incomplete(read: Iterable[cells.Cell]) -> Iterator[Finding]:
    if _forgets_the_optimizer("\n".join(cell.text for cell in read)):
        seen = "The notebook loads a model's state to train on, and no optimizer's."
        yield known_problems()["resume-anew"].finding(seen, "colab")


def _forgets_the_optimizer(code: str) -> bool:
    """Whether PyTorch code trains, keeps states in a file, and takes up some but no optimizer's."""
    trains_and_keeps = (r"\.backward\(", r"torch\.save\(", r"\.load_state_dict\(")
    takes_it_up = r"(opt\w{0,20}|trainer\w{0,20})(\[\w+\])?\.load_state_dict\("
    return all(re.search(one, code) for one in trains_and_keeps) and not re.search(
        takes_it_up, code, re.IGNORECASE
    )
