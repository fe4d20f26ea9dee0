"""What were the values in the line that failed?

Most mistakes in training code are a value of another shape, type or kind than its line expects. Where
nothing more exact is known, the values themselves are what a colleague would ask for first.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType
from typing import Any

from colab_helpers.doctor.clues.clue import Clue, Raised, names_in, stands_for
from colab_helpers.doctor.clues.line import Failed, failed

_MOST = 6  # values that are named
_MOST_ITEMS = 4  # of a list
#: Whole numbers up to this count are looked through for the smallest and the largest.
_MOST_NUMBERS = 1_000_000
_PLAIN = (bool, int, float)
#: Known problems of which the values are told as well.
_ALSO = (
    "arrays-to-join", "broadcast-shapes", "channels-first", "classes-from-zero", "collate-sizes",
    "expanded-size", "features-differ", "gather-index",
    "image-shape", "image-too-small", "index-too-large", "keras-data-kind", "keras-input-shape",
    "keras-target-rank", "label-range", "labels-and-output", "labels-not-0-1", "layer-dimensions",
    "lengths-differ", "mask-length", "mixed-dtypes", "not-a-tensor", "one-value-wanted", "ragged-array",
    "reshape-size", "rnn-state-size", "sklearn-1d", "target-size", "tensor-shapes", "tensorflow-dtypes",
    "text-to-tensor", "truth-of-many", "vmap-sizes", "wrong-label-type",
)  # fmt: skip


def clues(raised: Raised) -> Iterator[Clue]:
    """Yield what the line that failed worked with, where `raised` is unknown or a matter of values."""
    error = raised.chain[-1] if raised.chain else None
    if error is None or raised.known not in ("", *_ALSO):
        return
    own = failed(error)
    if own is None or own.raises:  # it says itself what is wrong
        return
    values = _values(own)
    about_none = "NoneType" in raised.text
    told = [f"`{name}`: {what}" for name, value in values.items() if (what := describe(value))]
    if any(map(_tells, values.values())) or (
        about_none and any(value is None for value in values.values())
    ):
        yield Clue(
            "values-of-the-line",
            f"{'; '.join(told[:_MOST])}.",
            "" if raised.known else _remedy(own, about_none),  # the table's is better
        )


def describe(value: Any) -> str:
    """Return what a `value` is in a few words, without running code of its own; "" for what says nothing.

    >>> describe([1, 2]), describe(None)
    ('list of 2: 1, 2', 'None')
    """
    if value is None:
        return "None"
    if type(value) in _PLAIN:
        return repr(value)
    if type(value) in (str, bytes):
        return f"{type(value).__name__} of {len(value)} characters"
    if _is_array(value):
        return _array(value)
    if _is_model(value):
        return _model(value)
    if type(value) in (list, tuple, dict, set):
        return _items(value)
    return ""


def _values(own: Failed) -> dict[str, Any]:
    """Names of the piece of code with their values, those that stand for anything."""
    seen, found = own.seen, {}
    for name in names_in(own.code):
        parts = name.split(".")
        for count in range(len(parts), 0, -1):  # `x` of `x.view`
            shorter = ".".join(parts[:count])
            value = stands_for(shorter, seen)
            if value is not None or (count == 1 and shorter in seen):
                found[shorter] = value
                break
    return found


def _tells(value: Any) -> bool:
    """Whether a value may be what does not fit: a tensor, a list of them, a model."""
    items = value[:_MOST_ITEMS] if type(value) in (list, tuple) else [value]
    return any(_is_array(each) or _is_model(each) for each in items)


def _is_array(value: Any) -> bool:
    """Whether it is a tensor, an array or a table of a known library."""
    home = type(value).__module__.partition(".")[0]
    known = home in ("torch", "numpy", "jax", "jaxlib", "tensorflow", "keras", "pandas")
    return (
        known and not isinstance(value, type) and _shape(value) is not None and not _is_model(value)
    )


def _shape(value: Any) -> tuple[Any, ...] | None:
    try:
        shape = value.shape
        known = issubclass(type(shape), tuple) or type(shape).__name__ == "TensorShape"
        return tuple(shape) if known else None  # AutoGraph's undefined values are endless
    except Exception:  # none, or one that is not known yet
        return None


def _array(value: Any) -> str:
    kind, shape = type(value).__name__, _shape(value)
    told = f"{kind} of shape {shape}"
    if dtype := str(getattr(value, "dtype", "")).removeprefix("torch."):
        told += f", {getattr(value.dtype, 'name', dtype)}"
    device = str(getattr(value, "device", ""))
    if device.partition(":")[0] not in ("", "cpu") and "/" not in device:
        told += f" on {device}"
    return told + _range(value)


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
    return f", values from {int(value.min())} to {int(value.max())}"


def _is_model(value: Any) -> bool:
    kinds = _loaded("torch", "nn.Module"), _loaded("keras", "layers.Layer")
    return any(isinstance(kind, type) and issubclass(type(value), kind) for kind in kinds)


def _loaded(module: str, name: str) -> Any:
    """A class of a module, if the session has imported that."""
    found = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _model(value: Any) -> str:
    """A layer with its sizes, a model by the shapes that go in and come out, if it has them."""
    name = type(value).__name__
    if type(value).__module__.startswith("torch.nn") and not vars(value).get("_modules"):
        return repr(value)
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
    if isinstance(value, dict):
        keys = [repr(key)[:30] for key in list(value)[:_MOST_ITEMS] if isinstance(key, str | int)]
        return f"{told}: {', '.join(keys)}{' …' if count > len(keys) else ''}" if keys else told
    if kind == "set" or not value:
        return told
    items = [_item(each) for each in value[:_MOST_ITEMS]]
    return f"{told}: {', '.join(items)}{' …' if count > len(items) else ''}"


def _item(value: Any) -> str:
    if _is_array(value):
        return f"shape {_shape(value)}"
    if value is None or type(value) in _PLAIN:
        return repr(value)
    return type(value).__name__


def _remedy(own: Failed, about_none: bool) -> str:
    if about_none:
        return (
            "Find where the None comes from: a function without `return`, a method that changes its "
            "object and returns nothing, a lookup that found nothing."
        )
    called = _called(own)
    if called and _is_model(value := stands_for(called, own.seen)):
        called = type(value).__name__
        return f"Compare them with what the documentation of `{called}` says that it takes."
    if "." in called or _is_of_a_library(stands_for(called, own.seen)):
        return f"Compare them with what the message asks for; `help({called})` says what goes in."
    return "Compare them with what the message asks for."


def _is_of_a_library(value: Any) -> bool:
    kinds = (type, FunctionType, BuiltinFunctionType)
    return isinstance(value, kinds) and value.__module__ != "__main__"


def _called(own: Failed) -> str:
    """The name of what the piece of code calls, as its reader would write it; "" for anything else."""
    try:
        tree = ast.parse(own.code, mode="eval").body
    except SyntaxError:  # a whole statement, or a part of one
        return ""
    called = ast.unparse(tree.func) if isinstance(tree, ast.Call) else ""
    return called if re.fullmatch(r"[\w.]+", called) else ""
