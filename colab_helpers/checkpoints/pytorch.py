"""Checkpoints of PyTorch training: everything that a step reads, in one safetensors file."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from colab_helpers.checkpoints.pack import Packer, unpack
from colab_helpers.checkpoints.store import (
    CheckpointError,
    CheckpointWarning,
    Resumed,
    Saved,
    Store,
    UnreadableError,
    refuse_another,
)

SUFFIX = ".safetensors"
#: Of what stands in the file. One that is newer or older is refused, never guessed at.
FORMAT = "1"


class RandomState:
    """The generators that Python, NumPy and PyTorch draw from when nobody names one.

    Dropout, shuffling and augmentation read them, so a resume without them takes another path.

    >>> kept = RandomState().state_dict()
    >>> first = torch.rand(1)
    >>> RandomState().load_state_dict(kept)
    >>> bool(torch.rand(1) == first)
    True
    """

    def state_dict(self) -> dict[str, Any]:
        """Return the state of each generator; of CUDA's and others only where they are in use."""
        state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
        if numpy := sys.modules.get("numpy"):
            state["numpy"] = numpy.random.get_state()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["cuda"] = torch.cuda.get_rng_state_all()
        if torch.backends.mps.is_available():
            state["mps"] = torch.mps.get_rng_state()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put the generators back into `state`; a `CheckpointWarning` for those of absent devices."""
        random.setstate(state["python"])
        if "numpy" in state:
            import numpy

            numpy.random.set_state(state["numpy"])
        torch.set_rng_state(state["torch"].cpu())
        if "mps" in state and torch.backends.mps.is_available():
            torch.mps.set_rng_state(state["mps"])
        elif "mps" in state:
            warnings.warn(
                "Saved on a Mac's GPU and resumed without one: its random numbers start over.",
                CheckpointWarning,
                stacklevel=2,
            )
        kept, here = state.get("cuda", []), torch.cuda.device_count()
        if kept and len(kept) != here:
            warnings.warn(
                f"Saved with {len(kept)} GPUs and resumed with {here}: their random numbers start over, so "
                "the run is not the same to the bit.",
                CheckpointWarning,
                stacklevel=2,
            )
        elif kept:
            torch.cuda.set_rng_state_all([one.cpu() for one in kept])


def save(store: Store, step: int, parts: Mapping[str, Any]) -> Saved:
    """Write a checkpoint of `step`, the number of steps that are done; return what became of it.

    `parts` maps names to what a step reads and changes: models, optimisers, schedulers, scalers and
    whatever else has `state_dict`; `RandomState()`; generators of PyTorch, NumPy and Python; lists and
    dicts, such as the losses so far. There is no pickle in the file: tensors in the safetensors format,
    and the rest in JSON. Raises `CheckpointError` for state that neither can hold. What happens when the
    disk refuses is told at `Store.write`.

    >>> import tempfile
    >>> store, model = Store(tempfile.mkdtemp()), torch.nn.Linear(2, 2)
    >>> saved = save(store, 10, {"model": model})
    >>> resume(store, {"model": model}).step
    10
    """
    _need_packages()
    packer = Packer()
    for name in parts:
        if not isinstance(name, str) or name.startswith("__"):
            raise CheckpointError(f"A part is called {name!r}: give it a word for a name.")
    tree = {name: packer.pack(_state_of(part, name), name) for name, part in parts.items()}
    # One entry: several would stand in another order in each file, and equal states in unequal files.
    kinds = {name: type(part).__name__ for name, part in parts.items() if _is_optimizer(part)}
    head = {"format": FORMAT, "torch": torch.__version__, "kinds": kinds, "tree": tree}
    about = {"checkpoint": json.dumps(head)}
    return store.write(step, SUFFIX, lambda path: _write(path, packer.tensors, about))


def resume(store: Store, parts: Mapping[str, Any]) -> Resumed:
    """Put `parts` into the state of the newest whole checkpoint of `store`; return how many steps are done.

    `parts` must have the names that were saved. Names, kinds, shapes and an optimiser's groups are looked
    at before anything is changed. Raises `CheckpointError` for a file of other parts, of another model or
    in another format, and where no file is whole (see `Store.read`).
    """
    _need_packages()
    found = store.read(SUFFIX, _read)
    if found is None:
        return Resumed(0, None)
    file, (kinds, state) = found
    _check(file.path, kinds, state, parts)
    for name, part in parts.items():
        if _is_optimizer(part):
            _tell_of_another_rate(part, state[name], name)
        try:
            _load(part, state[name])
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"{file.path.name}: {name!r} does not fit what the program has now: {error}"
            ) from error
    return Resumed(file.step, file.path)


def _need_packages() -> None:
    """Raise `CheckpointError` now, rather than after a hundred steps."""
    missing = [name for name in ("safetensors", "numpy") if importlib.util.find_spec(name) is None]
    if missing:
        raise CheckpointError(
            f"Checkpoints need safetensors and numpy, and {' and '.join(missing)} cannot be found here: "
            f"%pip install {' '.join(missing)}"
        )


def _write(path: Path, tensors: Mapping[str, torch.Tensor], about: dict[str, str]) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    try:
        save_file(dict(tensors), path, about)
    except KeyError as error:
        raise CheckpointError(f"safetensors has no format for {error}: convert it.") from error
    except SafetensorError as error:  # it tells of the disk in words only
        raise _as_os_error(error) from error


def _as_os_error(error: Exception) -> Exception:
    """The disk's own error, which safetensors hides in a text such as "… (os error 28)"."""
    _, _, number = str(error).partition("os error ")
    digits = number.partition(")")[0]
    if digits.isdecimal():
        return OSError(int(digits), str(error))
    return CheckpointError(
        f"safetensors refuses to write it: {error}. Are there very long lists in it?"
    )


def _read(path: Path) -> tuple[dict[str, str], dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get("checkpoint", "{}"))
            if about.get("format") != FORMAT:
                raise CheckpointError(
                    f"{path.name} has format {about.get('format', 'unknown')}, and this version of "
                    f"colab_helpers reads {FORMAT}. Resume with the version that wrote it, or begin from "
                    "the start in an empty folder. The file was left as it is."
                )
            # Copies: what is read stays a window into the file, which may vanish or change.
            tensor = lambda name: file.get_tensor(name).clone()  # noqa: E731
            state = {name: unpack(node, tensor) for name, node in about["tree"].items()}
            return about.get("kinds", {}), state
    except SafetensorError as error:
        raise UnreadableError(f"{path.name} is no file of safetensors: {error}") from error
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise UnreadableError(f"{path.name} does not say what is in it ({error!r})") from error


def _check(
    path: Path, kinds: Mapping[str, str], state: Mapping[str, Any], parts: Mapping[str, Any]
) -> None:
    """Raise `CheckpointError` where the file has other parts, another model's tensors or optimiser."""
    if set(parts) != set(state):
        raise CheckpointError(
            f"{path.name} has {', '.join(sorted(state))}; you asked for {', '.join(sorted(parts))}. "
            "Resume with the names that were saved: what is left out would start over."
        )
    for name, part in parts.items():
        kept = state[name]
        if isinstance(part, torch.nn.Module):
            there, here = _shapes(name, kept), _shapes(name, part.state_dict())
            refuse_another(path, "model", there, here, _hint(name, there, here))
        elif _is_optimizer(part):
            if (kind := kinds.get(name, type(part).__name__)) != type(part).__name__:
                raise CheckpointError(
                    f"{path.name}: {name!r} is {kind} there and {type(part).__name__} here. Nothing was "
                    "loaded."
                )
            now, then = _groups(part.state_dict()), _groups(kept)
            if now != then:
                raise CheckpointError(
                    f"{path.name}: {name!r} does not fit: it has {then} weights in each group there, and "
                    f"{now} here. Nothing was loaded."
                )
        elif isinstance(part, list | dict) and not isinstance(kept, type(part)):
            raise CheckpointError(
                f"{path.name}: {name!r} is a {type(kept).__name__} there and a {type(part).__name__} here. "
                "Nothing was loaded."
            )


def _hint(name: str, *shapes: Mapping[str, str]) -> str:
    """What to do where one side has the names of a wrapper and the other has not."""
    wrapped = tuple(f"{name}.{wrapper}" for wrapper in ("_orig_mod.", "module."))
    there, here = ({key for key in one if key.startswith(wrapped)} for one in shapes)
    if there == here:
        return ""
    return " Save and load the model inside its wrapper: model._orig_mod or model.module."


def _is_optimizer(part: Any) -> bool:
    return hasattr(part, "param_groups")


def _tell_of_another_rate(part: Any, state: Mapping[str, Any], name: str) -> None:
    """A `CheckpointWarning` where the file's learning rate replaces the one that the program has set."""
    for now, then in zip(part.param_groups, state["param_groups"], strict=True):
        here, there = (group.get("initial_lr", group.get("lr")) for group in (now, then))
        if here != there:
            warnings.warn(
                f"{name!r}: the checkpoint's lr={there} replaces lr={here}. Set it after resume if you "
                "want another.",
                CheckpointWarning,
                stacklevel=3,
            )
            return


def _groups(state: Mapping[str, Any]) -> list[int]:
    return [len(group["params"]) for group in state.get("param_groups", [])]


def _shapes(name: str, state: Mapping[str, Any]) -> dict[str, str]:
    return {
        f"{name}.{key}": f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
        if isinstance(value, torch.Tensor)
        else "a value"
        for key, value in state.items()
    }


def _state_of(part: Any, name: str) -> Any:
    if hasattr(part, "state_dict"):
        return part.state_dict()
    if isinstance(part, list | dict):
        return part
    if isinstance(part, torch.Generator):
        return part.get_state()
    if isinstance(part, random.Random):
        return part.getstate()
    if hasattr(part, "bit_generator"):  # NumPy's
        return part.bit_generator.state
    raise CheckpointError(
        f"{name!r}, a {type(part).__name__}, has no state_dict, and is no generator, list or dict. For the "
        "order of a shuffled loader, use checkpoints.Batches."
    )


def _load(part: Any, state: Any) -> None:
    if hasattr(part, "load_state_dict"):
        part.load_state_dict(state)
    elif isinstance(part, list):
        part[:] = state
    elif isinstance(part, dict):
        part.clear()
        part.update(state)
    elif isinstance(part, torch.Generator):
        part.set_state(state)
    elif isinstance(part, random.Random):
        part.setstate(state)
    else:
        part.bit_generator.state = state
