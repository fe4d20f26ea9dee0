"""What is a value, in a few words? Of texts only their length; nothing of its own is run."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator
from typing import Any

from colab_helpers.doctor.clues.names import parts_of

MOST_ITEMS = 4  #: Of a list, that are told.
_LONGEST = 100  # characters of a layer
#: Whole numbers up to this count are looked through for the smallest and the largest.
_MOST_NUMBERS = 1_000_000
_PLAIN = (bool, int, float)
_DEVICE = re.compile(r"\w{1,20}(:\d{1,4})?")


def describe(value: Any) -> str:
    """Return what a `value` is in a few words, without running code of its own; "" for what says nothing.

    >>> describe([1, 2]), describe(None)
    ('list of 2: 1, 2', 'None')
    """
    if value is None:
        return "None"
    if type(value) in _PLAIN:
        return repr(value)
    if type(value) is str:
        return f"str of {len(value)} characters"
    if type(value) is bytes:
        return f"{len(value)} bytes"
    if is_array(value):
        return _array(value)
    if is_model(value):
        return _model(value)
    if type(value) in (list, tuple, dict, set):
        return _items(value)
    return ""


def is_array(value: Any) -> bool:
    """Say whether a `value` is a tensor, an array or a table of a known library.

    >>> is_array([1, 2])
    False
    """
    home = type(value).__module__.partition(".")[0]
    known = home in ("torch", "numpy", "jax", "jaxlib", "tensorflow", "keras", "pandas")
    if not known or issubclass(type(value), type) or is_model(value):
        return False
    return _shape(value) is not None


def _shape(value: Any) -> tuple[Any, ...] | None:
    try:
        shape = value.shape
        known = issubclass(type(shape), tuple) or type(shape).__name__ == "TensorShape"
        return tuple(shape) if known else None  # AutoGraph's undefined values are endless
    except Exception:  # none, or one that is not known yet
        return None


def _array(value: Any) -> str:
    kind, shape = type(value).__name__, _shape(value)
    if type(value).__module__ == "numpy" and kind != "ndarray":  # a single number
        return repr(value)
    told = f"{kind} of shape {shape}"
    if dtype := str(getattr(value, "dtype", "")).removeprefix("torch."):
        told += f", {getattr(value.dtype, 'name', dtype)}"
    device = str(getattr(value, "device", ""))
    if _DEVICE.fullmatch(device) and not device.startswith("cpu"):
        told += f" on {device}"
    return told + _range(value) + _missing(value)


def _missing(value: Any) -> str:
    """How many values of a table, or of a column of one, are missing."""
    pandas = sys.modules.get("pandas")
    kinds = (pandas.DataFrame, pandas.Series) if pandas is not None else ()
    if type(value) not in kinds or value.size > _MOST_NUMBERS:
        return ""
    counts = value.isna().sum()
    if counts.ndim == 0:
        return f", {counts} missing" if counts else ""
    columns = [
        f"{count} in {name!r}" for name, count in counts.items() if count and type(name) is str
    ]
    return f", missing: {', '.join(columns[:MOST_ITEMS])}" if columns else ""


def _range(value: Any) -> str:
    """The smallest and the largest of whole numbers, such as labels and ids, where they are at hand."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and type(value) is torch.Tensor:
        whole = value.device.type == "cpu" and value.dtype in (torch.int64, torch.int32)
        count = value.numel()
    elif numpy is not None and type(value) is numpy.ndarray:
        whole, count = value.dtype.kind in "iu", value.size
    else:
        return ""
    if not whole or not 1 < count <= _MOST_NUMBERS:
        return ""
    least, most = int(value.min()), int(value.max())
    return f", values from {least} to {most}" if least < most else f", all {least}"


def is_model(value: Any) -> bool:
    """Say whether a `value` is a model or a layer of PyTorch or Keras.

    >>> is_model("a name")
    False
    """
    kinds = _loaded("torch", "nn.Module"), _loaded("keras", "layers.Layer")
    return any(isinstance(kind, type) and issubclass(type(value), kind) for kind in kinds)


def weights(model: Any) -> Iterator[Any]:
    """Yield the weights of a `model` of PyTorch and of its parts, without asking its own methods.

    >>> list(weights("a name"))
    []
    """
    left = [model]
    while left:
        inside = parts_of(left.pop(0))
        yield from (each for each in inside.get("_parameters", {}).values() if each is not None)
        left[:0] = [each for each in inside.get("_modules", {}).values() if each is not None]


def _loaded(module: str, name: str) -> Any:
    """A class of a module, if the session has imported that."""
    found = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _model(value: Any) -> str:
    """A layer with its sizes, a model by the shapes that go in and come out, if it has them."""
    name = type(value).__name__
    if type(value).__module__.startswith("torch.nn") and not parts_of(value).get("_modules"):
        told = repr(value)
        return told if len(told) <= _LONGEST else name
    shapes = [_shape_of(value, f"{end}_shape") for end in ("input", "output")]
    if all(shapes):
        return f"{name} from {shapes[0]} to {shapes[1]}"
    return name


def _shape_of(value: Any, name: str) -> str:
    try:
        shape = getattr(value, name) if type(value).__module__.startswith("keras.") else None
    except Exception:  # Keras knows it when the model is built
        return ""
    return str(shape) if isinstance(shape, tuple) else ""


def _items(value: Any) -> str:
    kind, count = type(value).__name__, len(value)
    told = f"{kind} of {count}"
    if kind == "dict":
        first = itertools.islice(value, MOST_ITEMS)
        keys = [repr(key) for key in first if type(key) in (str, int) and len(str(key)) <= 30]
        return f"{told}: {', '.join(keys)}{' …' if count > len(keys) else ''}" if keys else told
    if kind == "set" or not value:
        return told
    items = [_item(each) for each in value[:MOST_ITEMS]]
    return f"{told}: {', '.join(items)}{' …' if count > len(items) else ''}"


def _item(value: Any) -> str:
    if is_array(value):
        return f"shape {_shape(value)}"
    if value is None or type(value) in _PLAIN:
        return repr(value)
    return type(value).__name__
