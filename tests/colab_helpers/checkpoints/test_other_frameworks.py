"""JAX's trees and Keras's models go through the same files."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy
import pytest

from colab_helpers import checkpoints
from colab_helpers.checkpoints import CheckpointError, CheckpointWarning, Store

ROOT = Path(__file__).parents[3]
jax = pytest.importorskip("jax")


def tree(seed=0, width=3):
    weights = jax.random.normal(jax.random.key(seed), (4, width))
    return {
        "w": weights,
        "key": jax.random.key(seed),
        "half": weights.astype("bfloat16"),
        "step": 3,
    }


def test_a_tree_comes_back_to_the_last_bit_in_one_file(tmp_path):
    store = Store(tmp_path)
    assert checkpoints.resume_jax(store, tree(1))[0] == 0
    saved = checkpoints.save_jax(store, 7, tree())
    assert [path.name for path in tmp_path.iterdir()] == [saved.path.name]
    step, back = checkpoints.resume_jax(store, tree(1))
    assert step == 7 and back["step"] == 3
    for name in ("w", "half"):
        assert numpy.array_equal(numpy.asarray(back[name]), numpy.asarray(tree()[name]))
    assert (jax.random.key_data(back["key"]) == jax.random.key_data(tree()["key"])).all()


def test_another_tree_is_named(tmp_path):
    store = Store(tmp_path)
    checkpoints.save_jax(store, 7, tree())
    with pytest.raises(
        CheckpointError, match=r"another tree: half is \(4, 3\) bfloat16 there and \(4, 5\)"
    ):
        checkpoints.resume_jax(store, tree(width=5))
    with pytest.raises(CheckpointError, match="missing here"):
        checkpoints.resume_jax(store, {"w": tree()["w"]})


class Adam(NamedTuple):
    """As the states of optax are: named tuples in named tuples."""

    count: object
    mu: dict


def test_states_of_optimisers_are_told_by_their_paths(tmp_path):
    def state(fill, dtype="float32"):
        mu = {"w": jax.numpy.full((2, 3), fill, dtype)}
        return {
            "params": {0: jax.numpy.ones(3)},
            "opt": (Adam(jax.numpy.array(fill, "int32"), mu), ()),
        }

    store = Store(tmp_path)
    checkpoints.save_jax(store, 7, state(4))
    _, back = checkpoints.resume_jax(store, state(0))
    assert isinstance(back["opt"][0], Adam) and int(back["opt"][0].count) == 4
    assert float(back["opt"][0].mu["w"].sum()) == 24
    with pytest.raises(
        CheckpointError, match=r"opt/0/mu/w is .* float32 there and .* bfloat16 here"
    ):
        checkpoints.resume_jax(store, state(0, "bfloat16"))


@pytest.mark.parametrize("kind", ["outside", "link", "device"])
def test_an_archive_that_orbax_did_not_write_is_refused(tmp_path, kind):
    def write(path):
        member = tarfile.TarInfo(
            {"outside": "../out", "link": "state/l", "device": "state/d"}[kind]
        )
        member.type = {
            "outside": tarfile.REGTYPE,
            "link": tarfile.SYMTYPE,
            "device": tarfile.FIFOTYPE,
        }[kind]
        member.linkname = "/etc"
        with tarfile.open(path, "w") as archive:
            archive.addfile(member)

    store = Store(tmp_path / "run")
    store.write(1, ".orbax.tar", write)
    with pytest.raises(CheckpointError, match="which Orbax does not write"):
        checkpoints.resume_jax(store, tree())


def test_half_an_archive_is_named_and_the_one_before_it_is_read(tmp_path):
    store = Store(tmp_path)
    checkpoints.save_jax(store, 7, tree())
    path = checkpoints.save_jax(store, 8, tree(1)).path
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.warns(CheckpointWarning, match="it was cut off"):
        assert checkpoints.resume_jax(store, tree(2))[0] == 7


KERAS = """
import numpy, sys, warnings
import keras
from colab_helpers import checkpoints

keras.utils.set_random_seed(0)
free = keras.layers.Dropout(0.5, seed=None if keras.config.backend() != "torch" else 1)
drop = free, keras.layers.Dense(16), keras.layers.Dropout(0.5, seed=3)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16), *drop, keras.layers.Dense(1)])
model.compile("adam", "mse")
x, y = numpy.ones((32, 8), "float32"), numpy.ones((32, 1), "float32")
fit = {"epochs": 1, "shuffle": False, "verbose": 0}
model.fit(x, y, **fit)
store = checkpoints.Store(sys.argv[1])
assert checkpoints.resume_keras(store) == (0, None)
checkpoints.save_keras(store, 1, model)
wanted = model.fit(x, y, **fit).history["loss"]
step, back = checkpoints.resume_keras(store)
assert step == 1
found = back.fit(x, y, **fit).history["loss"]
assert found == wanted, (found, wanted)
"""


@pytest.mark.slow  # lesson 09 does it with one of them
@pytest.mark.parametrize("backend", ["tensorflow", "torch", "jax"])
def test_keras_goes_on_with_its_optimiser_and_its_dropout(tmp_path, backend):
    environment = os.environ | {"KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", KERAS, str(tmp_path)]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr[-2000:]


def test_a_file_of_keras_alone_is_told_from_ours(tmp_path):
    from colab_helpers.checkpoints import keras as ours

    class Model:
        variables = (SimpleNamespace(path="dropout/seed_generator_state"),)

    def write(path):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("config.json", "{}")

    store = Store(tmp_path)
    store.write(1, ".keras", write)
    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(CheckpointError, match="has 0 seeds and its model 1: save with save_keras"),
    ):
        patch.setitem(
            sys.modules,
            "keras",
            SimpleNamespace(saving=SimpleNamespace(load_model=lambda _: Model)),
        )
        ours.resume_keras(store)
