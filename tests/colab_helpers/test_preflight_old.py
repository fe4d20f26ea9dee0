"""Errors and notebooks from the days of other TPUs, as recorded, and what the preflight says."""

import json

import pytest

from colab_helpers import preflight
from colab_helpers.__main__ import main

#: error as recorded -> id. Sources: TensorFlow 2.21 (run); jax #22070, #10192; colabtools #4481.
ERRORS = {
    "TPUs not found in the cluster. Failed in initialization: No OpKernel was registered to support "
    "Op 'ConfigureDistributedTPU' used by {{node ConfigureDistributedTPU}} with these attrs: "
    '[embedding_config="", is_global_init=false]\nRegistered devices: [CPU]': "tpu-plain-tensorflow",
    "Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by process with pid "
    "176028. Not attempting to load libtpu.so in this process.": "tpu-in-use",
    "libtpu.so already in use by another process probably owned by another user.": "tpu-in-use",
    "ValueError: Please provide a TPU Name to connect to.": "tpu-node",
    "KeyError: 'COLAB_TPU_ADDR'": "tpu-node",
    "ModuleNotFoundError: No module named 'jax.tools.colab_tpu'": "tpu-node",
    "open(/dev/vfio/0): Device or resource busy: Couldn't open iommu group": "tpu-in-use",
    "failed to connect to all addresses: grpc://10.60.12.2:8470": "tpu-node",
}
REMEDIES = {
    "tpu-plain-tensorflow": "KERAS_BACKEND",
    "tpu-in-use": "Restart session",
    "tpu-node": "jax.devices()",
}


@pytest.mark.parametrize("error", ERRORS)
def test_recorded_error_is_explained(error):
    finding = preflight.explain_error(error)
    assert finding.id == ERRORS[error]
    assert REMEDIES[finding.id] in finding.remedy


def test_an_exception_is_explained_like_its_text():
    assert preflight.explain_error(KeyError("COLAB_TPU_ADDR")).id == "tpu-node"


@pytest.mark.parametrize("error", ["", "ValueError: shapes do not match", "Unable to load libtpu"])
def test_other_errors_are_not_explained(error):
    assert preflight.explain_error(error) is None


def notebook(*cells, **colab):
    cells = [{"cell_type": "code", "source": source} for source in cells]
    return {"metadata": {"colab": colab}, "cells": cells}


def test_notebook_that_asks_for_a_retired_tpu():
    [finding] = preflight.explain_notebook(notebook(gpuType="V28"))
    assert finding.id == "tpu-retired" and "v5e-1 TPU" in finding.remedy


def test_old_lines_are_found_with_their_cell_and_what_replaces_them():
    old = notebook(
        "import os",
        ["tpu = TPUClusterResolver()\n", "tf.config.experimental_connect_to_cluster(tpu)\n"],
        "strategy = tf.distribute.experimental.TPUStrategy(tpu)",
        "tpu = TPUClusterResolver(tpu='')",
        "from jax.tools.colab_tpu import setup_tpu",
        gpuType="T4",
    )
    seen = [finding.seen for finding in preflight.explain_notebook(old)]
    assert [text.split(" has ")[0] for text in seen] == [
        "Cell 2",
        "Cell 2",
        "Cell 3",
        "Cell 4",
        "Cell 5",
    ]


def test_todays_notebook_is_left_alone():
    assert preflight.explain_notebook(notebook("jax.devices()", gpuType="V5E1")) == ()
    assert preflight.explain_notebook({}) == ()


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (json.dumps(notebook("import jax")), 0, "nothing in it asks"),
        (json.dumps(notebook(gpuType="V28")), 1, "v2-8"),
        ("no JSON", 1, "cannot be read"),
        ("[1]", 1, "cannot be read"),
    ],
)
def test_doctor_judges_a_notebook(tmp_path, capsys, content, code, words):
    path = tmp_path / "old.ipynb"
    path.write_text(content)
    assert main(["doctor", "--notebook", str(path)]) == code
    assert words in capsys.readouterr().out
