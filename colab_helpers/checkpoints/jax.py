"""Checkpoints of JAX training: Orbax's folder, in one archive."""

from __future__ import annotations

import errno
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from colab_helpers.checkpoints.store import CheckpointError, Saved, Store, refuse_another

SUFFIX = ".orbax.tar"


def save_jax(store: Store, step: int, state: Any) -> Saved:
    """Write a tree of arrays as the checkpoint of `step`; return what became of it.

    `state` holds whatever a step reads: parameters, optimiser, keys. Orbax writes a folder of a dozen
    files or more, on the machine's own disk; one archive of them goes into `store`, since each file is
    a journey to a Drive. What happens when the disk refuses is told at `Store.write`.
    """
    import orbax.checkpoint as ocp

    def write(path: Path) -> None:
        with tempfile.TemporaryDirectory() as folder, ocp.StandardCheckpointer() as orbax:
            try:
                orbax.save(Path(folder, "state"), state)
                orbax.wait_until_finished()
            except ValueError as error:
                if "RESOURCE_EXHAUSTED" in str(error):  # TensorStore's word for a full disk
                    raise OSError(errno.ENOSPC, str(error)) from error
                raise
            with tarfile.open(path, "w") as archive:
                archive.add(Path(folder, "state"), "state")

    return store.write(step, SUFFIX, write)


def resume_jax(store: Store, like: Any) -> tuple[int, Any]:
    """Return how many steps are done and the tree of the newest checkpoint that is whole.

    (0, `like`) where there is none. `like` is a tree of the same shapes, such as the state of a fresh
    start; arrays go where its arrays are. Raises `CheckpointError` for another tree, and where no file of
    `store` is whole.
    """
    found = store.read(SUFFIX, lambda path: _read(path, like))
    return (0, like) if found is None else (found[0].step, found[1])


def _read(path: Path, like: Any) -> Any:
    import orbax.checkpoint as ocp

    with tempfile.TemporaryDirectory() as folder, ocp.StandardCheckpointer() as orbax:
        _unpack(path, Path(folder))
        kept = orbax.metadata(Path(folder, "state")).item_metadata.tree
        refuse_another(path, "tree", _shapes(kept), _shapes(like))
        return orbax.restore(Path(folder, "state"), like)


def _unpack(path: Path, folder: Path) -> None:
    """Unpack plain files and folders below `folder`, and nothing else: an archive may hold worse."""
    with tarfile.open(path) as archive:
        for member in archive:
            target = (folder / member.name).resolve()
            if not target.is_relative_to(folder.resolve()) or not (
                member.isreg() or member.isdir()
            ):
                raise CheckpointError(
                    f"{path.name} holds {member.name!r}, which Orbax does not write."
                )
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                shutil.copyfileobj(archive.extractfile(member), file)  # type: ignore[arg-type]


def _shapes(tree: Any) -> dict[str, str]:
    """The shape of each leaf by its place; of a random key that of its numbers, as Orbax keeps it."""
    import jax

    # Orbax keeps named tuples and classes as dicts: all are told by their path alone.
    return {
        jax.tree_util.keystr(place, simple=True, separator="/"): _shape(_numbers(leaf))
        for place, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def _shape(leaf: Any) -> str:
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    return f"{shape} {dtype}" if shape else "a number"


def _numbers(leaf: Any) -> Any:
    import jax

    is_key = isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(leaf) if is_key else leaf
