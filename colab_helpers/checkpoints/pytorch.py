"""Checkpoints of PyTorch training: everything that a step reads, in one file of `torch.save`."""

from __future__ import annotations

import io
import pickle
import random
import sys
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.serialization import get_unsafe_globals_in_checkpoint

from colab_helpers.checkpoints.store import (
    CheckpointError,
    CheckpointWarning,
    ResumeResult,
    SaveResult,
    Store,
    UnreadableError,
    check_compatible,
)

SUFFIX = ".pt"
#: The layout of a file's contents. A file with a different one is refused, never guessed at.
FORMAT = 2
_FIRST_SUFFIX = ".safetensors"  # of format 1
_PLAIN = (bool, int, float, type(None))
_TENSORS = (torch.Tensor, torch.nn.Parameter)


class RandomState:
    """The global random number generators of Python, NumPy and PyTorch.

    Dropout, shuffling and augmentation read them, so a resume without them takes another path. Workers of a
    DataLoader have generators of their own, seeded anew when an epoch begins: what they draw is not
    resumed in the middle of one. Draw in the training process, or resume at the start of an epoch.

    >>> kept = RandomState().state_dict()
    >>> first = torch.rand(1)
    >>> RandomState().load_state_dict(kept)
    >>> bool(torch.rand(1) == first)
    True
    """

    def state_dict(self) -> dict[str, Any]:
        """Return each generator's state: CUDA's once it is initialized, MPS's where there is one."""
        state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
        if numpy := sys.modules.get("numpy"):
            state["numpy"] = _without_arrays(numpy.random.get_state())
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
                "Saved with MPS and resumed without it: the MPS generator was not restored.",
                CheckpointWarning,
                stacklevel=2,
            )
        kept, here = state.get("cuda", []), torch.cuda.device_count()
        if kept and len(kept) != here:
            warnings.warn(
                f"Saved with {len(kept)} GPUs and resumed with {here}: the CUDA generators were not "
                "restored, so the run will not be the same bit for bit.",
                CheckpointWarning,
                stacklevel=2,
            )
        elif kept:
            torch.cuda.set_rng_state_all([one.cpu() for one in kept])


def save(store: Store, step: int, parts: Mapping[str, Any]) -> SaveResult:
    """Write a checkpoint.

    The file is `torch.save`'s, and `torch.load(weights_only=True)` reads it. For disk errors see
    `Store.write`.

    Args:
        store: Where the file goes.
        step: The number of steps that are done.
        parts: What a step reads and changes, by name: models, optimizers, schedulers, scalers and anything
            else with `state_dict`; `RandomState()`; generators of PyTorch, NumPy and Python; lists and
            dicts, such as the losses so far.

    Returns:
        The path, the size and the seconds that it took.

    Raises:
        CheckpointError: A part holds something that could not be read back. Nothing is written.
        ValueError: `step` is below 0, or no integer.

    >>> import tempfile
    >>> store, model = Store(tempfile.mkdtemp()), torch.nn.Linear(2, 2)
    >>> saved = save(store, 10, {"model": model})
    >>> resume(store, {"model": model}).step
    10
    """
    for name in parts:
        if not isinstance(name, str):
            raise CheckpointError(f"The name of a part must be a string (got {name!r}).")
    try:
        state = {name: _storable(_state_of(part, name), name) for name, part in parts.items()}
    except RecursionError as error:
        raise CheckpointError("A list or dict contains itself, or is nested too deep.") from error
    content = {
        "format": FORMAT,
        "torch": str(torch.__version__),
        "classes": {name: _class_of(part) for name, part in parts.items()},
        "trained": _storable(
            {name: _trained(p, parts) for name, p in parts.items() if _is_optimizer(p)}, "trained"
        ),
        "parts": state,
    }
    return store.write(step, SUFFIX, lambda path: _write(path, content))


def resume(store: Store, parts: Mapping[str, Any]) -> ResumeResult:
    """Load the newest complete checkpoint of `store` into `parts`.

    Names, kinds, shapes and an optimizer's groups are checked before anything is changed, and no class is
    unpickled. In lists and dicts, trained tensors keep their identity; others are replaced by new tensors
    on the old one's device.

    Args:
        store: The folder that was saved to.
        parts: The same names as in `save`, with freshly made objects.

    Returns:
        The number of steps that are done, 0 for a fresh start, and the file.

    Raises:
        CheckpointError: The file has different parts, a different model or a different format, or no file is
            complete (see `Store.read`). If a part's own `load_state_dict` refuses, earlier parts are loaded.
    """
    found = store.read(SUFFIX, _read)
    if found is None:
        if old := store.files(_FIRST_SUFFIX):
            raise _another_format(old[0].path, 1)
        return ResumeResult(0, None)
    file, (kinds, trained, state) = found
    _check(file.path, kinds, state, parts)
    for name, then in trained.items():
        _check_order(file.path, name, then, _trained(parts[name], parts))
    for name, part in parts.items():
        if _is_optimizer(part):
            _warn_of_replaced_lr(part, state[name], name)
        if _class_of(part) and not state[name] and part.state_dict():  # a scaler that was disabled
            warnings.warn(
                f"{name!r} was saved without a state, so it stays as it is in this program.",
                CheckpointWarning,
                stacklevel=2,
            )
            continue
        try:
            _load(part, state[name])
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"{file.path.name}: {name!r} does not match what the program has now: {error}"
            ) from error
    return ResumeResult(file.step, file.path)


def _storable(value: Any, where: str) -> Any:
    """Return a copy of `value` that is read back as it was; `where` names it in errors.

    Containers are made anew and text is interned, so that equal states give equal files: pickle
    memoizes by identity.
    """
    kind = type(value)
    if kind is str:
        return sys.intern(value)
    has_data = not isinstance(value, torch.Tensor) or not value.is_meta
    if kind in _PLAIN or (kind in _TENSORS and has_data):
        return value
    if kind in (list, tuple):
        return kind(_storable(one, f"{where}[{i}]") for i, one in enumerate(value))
    if kind in (dict, OrderedDict):
        made = kind(
            (_storable(key, f"{where}, key {key!r},"), _storable(inside, f"{where}.{key}"))
            for key, inside in value.items()
        )
        if metadata := getattr(value, "_metadata", None):  # the versions of a model's modules
            vars(made)["_metadata"] = _storable(metadata, f"{where}._metadata")
        return made
    if has_data and _is_read_back(value):
        return value
    raise CheckpointError(f"{where} is a {kind.__module__}.{kind.__qualname__}. {_advice(value)}")


def _is_read_back(value: Any) -> bool:
    """Whether `torch.load` reads this single value back."""
    file = io.BytesIO()
    try:
        torch.save(value, file)
        file.seek(0)
        return type(torch.load(file, weights_only=True)) is type(value)
    except Exception:
        return False


def _advice(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "Only plain tensors with data are saved: save its values as one."
    if hasattr(value, "__array__"):  # NumPy's
        return "NumPy's are not saved: torch.from_numpy(…) makes a tensor of an array, float(…) a number."
    if isinstance(value, dict | list | tuple):
        return "Of containers, dict, OrderedDict, list and tuple are saved: convert it to one."
    return (
        "Tensors, numbers, text, lists and dicts are saved. A class would have to be unpickled, which can "
        "run any code: keep it in the program."
    )


def _without_arrays(state: Any) -> Any:
    """Return the state of a generator of NumPy with lists for its arrays; NumPy takes either."""
    if isinstance(state, dict):
        return {key: _without_arrays(inside) for key, inside in state.items()}
    if isinstance(state, tuple):
        return tuple(map(_without_arrays, state))
    return state.tolist() if hasattr(state, "__array__") else state


def _write(path: Path, content: dict[str, Any]) -> None:
    try:
        with path.open("wb", buffering=0) as file:
            torch.save(content, file)
    except RuntimeError as error:
        if isinstance(
            error.__context__, OSError
        ):  # torch ends its archive after an error of the disk
            raise error.__context__ from error
        raise


def _read(path: Path) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
    try:
        classes = get_unsafe_globals_in_checkpoint(path)
        content = {} if classes else torch.load(path, map_location="cpu", weights_only=True)
    except (LookupError, pickle.UnpicklingError, RuntimeError, TypeError, ValueError) as error:
        raise UnreadableError(
            f"{path.name} is not a file of torch.save ({error!r:.200})"
        ) from error
    if classes:
        raise UnreadableError(
            f"{path.name} contains {', '.join(sorted(classes)[:3])}: no class is unpickled, because "
            "that can execute arbitrary code"
        )
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else None
        raise _another_format(path, found or "unknown")
    return content.get("classes", {}), content.get("trained", {}), content["parts"]


def _another_format(path: Path, found: Any) -> CheckpointError:
    return CheckpointError(
        f"{path.name} has format {found}, and this version of colab_helpers reads {FORMAT}. Resume with the "
        "version that wrote it, or begin from the start in an empty folder. The file was left as it is."
    )


def _check(
    path: Path, kinds: Mapping[str, str], state: Mapping[str, Any], parts: Mapping[str, Any]
) -> None:
    """Raise `CheckpointError` where the file has other parts, another model's tensors or optimizer."""
    if set(parts) != set(state):
        raise CheckpointError(
            f"{path.name} contains {', '.join(sorted(state))}; you asked for {', '.join(sorted(parts))}. "
            "Resume with the names that were saved: anything you omit would start from scratch."
        )
    for name, part in parts.items():
        try:
            _check_part(path, name, kinds[name], state[name], part)
        except (AttributeError, KeyError, TypeError) as error:  # it was saved from something else
            raise CheckpointError(
                f"{path.name}: {name!r} is a {type(part).__name__} in this program, and something else "
                "in the checkpoint. Nothing was loaded."
            ) from error


def _check_part(path: Path, name: str, kind: str, kept: Any, part: Any) -> None:
    """Raise `CheckpointError` where `kept`, saved from a `kind`, does not fit `part`.

    `kind` is "" for a part without a class of its own.
    """
    if kind != _class_of(part):
        _check_kind(
            path, name, kind or _kind_of(kept), _class_of(part) or f"a {type(part).__name__}"
        )
    if isinstance(part, torch.nn.Module):
        mine = part.state_dict()
        there, here = (_shapes(name, state, mine) for state in (kept, mine))
        check_compatible(path, "model", there, here, _hint(name, there, here))
    elif hasattr(part, "bit_generator"):  # NumPy's
        _check_kind(path, name, kept["bit_generator"], type(part.bit_generator).__name__)
    elif _is_optimizer(part):
        now, then = _groups(part.state_dict()), _groups(kept)
        if now != then:
            raise CheckpointError(
                f"{path.name}: {name!r} does not match: the checkpoint has {then} parameters per "
                f"group, this program {now}. Nothing was loaded."
            )
    elif isinstance(part, list | dict):
        if isinstance(part, list) != isinstance(kept, list):
            _check_kind(path, name, f"a {type(kept).__name__}", f"a {type(part).__name__}")
    elif not kind:  # a generator
        _check_kind(path, name, _kind_of(kept), _kind_of(_state_of(part, name)))


def _kind_of(state: Any) -> str:
    if isinstance(state, torch.Tensor):
        return f"a tensor of shape {tuple(state.shape)}"
    return f"a {'dict' if isinstance(state, dict) else type(state).__name__}"


def _check_kind(path: Path, name: str, then: str, now: str) -> None:
    if then != now:
        raise CheckpointError(
            f"{path.name}: {name!r} is {then} in the checkpoint and {now} in this program. "
            "Nothing was loaded."
        )


def _trained(optimizer: Any, parts: Mapping[str, Any]) -> list[list[str]]:
    """Each group's parameters as text: the name in a model of `parts`, if it has one, and the shape.

    An optimizer's state knows them by their places alone.
    """
    names: dict[int, str] = {}
    for part, module in sorted(parts.items()):  # one in two models goes by the first one's name
        if isinstance(module, torch.nn.Module):
            for name, parameter in module.named_parameters():
                names.setdefault(id(parameter), f"{part}.{name} ")
    return [
        [f"{names.get(id(p), '')}{tuple(p.shape)}" for p in group["params"]]
        for group in optimizer.param_groups
    ]


def _check_order(path: Path, name: str, then: list[list[str]], now: list[list[str]]) -> None:
    """Raise `CheckpointError` where an optimizer's state would go to other parameters than its own."""
    for group, (before, here) in enumerate(zip(then, now, strict=True)):
        for place, (theirs, mine) in enumerate(zip(before, here, strict=True)):
            if theirs != mine:
                raise CheckpointError(
                    f"{path.name}: parameter {place} of group {group} of {name!r} is {theirs} in the "
                    f"checkpoint and {mine} in this program. Give the optimizer its parameters in the same "
                    "order. Nothing was loaded."
                )


def _hint(name: str, *shapes: Mapping[str, str]) -> str:
    """What to do where one side has the names of a wrapper and the other has not."""
    wrapped = tuple(f"{name}.{wrapper}" for wrapper in ("_orig_mod.", "module."))
    there, here = ({key for key in one if key.startswith(wrapped)} for one in shapes)
    if there == here:
        return ""
    return " Save and load the model inside its wrapper: model._orig_mod or model.module."


def _class_of(part: Any) -> str:
    """The class of a part with a state of its own; "" for a model, which may be wrapped, and all others."""
    own = hasattr(part, "state_dict") and not isinstance(part, torch.nn.Module)
    return type(part).__name__ if own else ""


def _is_optimizer(part: Any) -> bool:
    return hasattr(part, "param_groups")


def _warn_of_replaced_lr(part: Any, state: Mapping[str, Any], name: str) -> None:
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


def _shapes(name: str, state: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Shapes and dtypes in `state`, but for what in `now`, the program's, has no shape of its own yet."""
    return {
        f"{name}.{key}": f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
        if isinstance(value, torch.Tensor)
        else "a value"
        for key, value in state.items()
        if not key.endswith("_extra_state") and not is_lazy(now.get(key, value))
    }


def _state_of(part: Any, name: str) -> Any:
    if hasattr(part, "state_dict"):
        return part.state_dict()
    if isinstance(part, list):
        return list(part)
    if isinstance(part, dict):
        return dict(part)
    if isinstance(part, torch.Generator):
        return part.get_state()
    if isinstance(part, random.Random):
        return part.getstate()
    if hasattr(part, "bit_generator"):  # NumPy's
        return _without_arrays(part.bit_generator.state)
    raise CheckpointError(
        f"{name!r}, a {type(part).__name__}, has no state_dict and is not a generator, list or dict. "
        "To resume a shuffled DataLoader, use checkpoints.ResumableBatchSampler."
    )


def _load(part: Any, state: Any) -> None:
    if hasattr(part, "load_state_dict"):
        part.load_state_dict(state)
    elif isinstance(part, list | dict):
        _put(part, state)
    elif isinstance(part, torch.Generator):
        part.set_state(state)
    elif isinstance(part, random.Random):
        part.setstate(state)
    else:
        part.bit_generator.state = state


def _put(old: Any, new: Any) -> Any:
    """Return `new`, inside of what the program holds where it can be: its containers and leaf tensors."""
    if isinstance(old, list) and isinstance(new, list):
        inside = [*old, *[None] * len(new)]
        old[:] = [_put(before, after) for before, after in zip(inside, new, strict=False)]
        return old
    if isinstance(old, dict) and isinstance(new, dict):
        made = {key: _put(old.get(key), value) for key, value in new.items()}
        old.clear()
        old.update(made)
        return old
    if not isinstance(old, torch.Tensor) or not isinstance(new, torch.Tensor):
        return new
    if old.is_leaf and old.requires_grad and old.shape == new.shape:
        with torch.no_grad():  # an optimizer has this very tensor
            old.copy_(new)
        return old
    return new.to(old.device)  # a new tensor: the old one may share its memory with a model
