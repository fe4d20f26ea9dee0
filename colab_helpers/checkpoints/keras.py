"""Checkpoints of Keras training: its own file, and the generators that it leaves out."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

from colab_helpers.checkpoints.store import CheckpointError, Saved, Store

SUFFIX = ".keras"
_MEMBER = "generators.json"  # beside Keras's own members of the archive, which does not mind


def save_keras(store: Store, step: int, model: Any) -> Saved:
    """Write `model` with `Model.save` into `store` as the checkpoint of `step`; return what became of it.

    `step` is the number of steps, or epochs, that are done. Architecture, weights and optimiser are in
    Keras's file (3.15), and the seeds of layers such as Dropout are not: they are added. Where Keras
    runs on PyTorch, give such layers a `seed`: without one they draw from PyTorch's generator, and so does
    a loaded model when it is built. The order of the data is not in the file either: let it follow from
    `step`. What happens when the disk refuses is told at `Store.write`.
    """

    def write(path: Path) -> None:
        model.save(path)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(_MEMBER, json.dumps([_numbers(seed) for seed in _seeds(model)]))

    return store.write(step, SUFFIX, write)


def resume_keras(store: Store) -> tuple[int, Any]:
    """Return how many steps are done and the model of the newest checkpoint that is whole.

    (0, None) where there is none. The file is loaded in Keras's safe mode, which runs no code out of it.
    Raises `CheckpointError` where no file of `store` is whole, and Keras's own errors.
    """
    found = store.read(SUFFIX, _read)
    return (0, None) if found is None else (found[0].step, found[1])


def _read(path: Path) -> Any:
    import keras

    model = keras.saving.load_model(path)
    with zipfile.ZipFile(path) as archive:
        kept = json.loads(archive.read(_MEMBER)) if _MEMBER in archive.namelist() else []
    seeds = _seeds(model)
    if len(kept) != len(seeds):
        raise CheckpointError(
            f"{path.name} has {len(kept)} seeds and its model {len(seeds)}: save with save_keras."
        )
    for seed, value in zip(seeds, kept, strict=True):
        seed.assign(value)
    return model


def _seeds(model: Any) -> list[Any]:
    """The state of each layer's generator: a variable that is no weight."""
    return [one for one in model.variables if one.path.endswith("seed_generator_state")]


def _numbers(variable: Any) -> list[int]:
    import keras

    return keras.ops.convert_to_numpy(variable).tolist()
