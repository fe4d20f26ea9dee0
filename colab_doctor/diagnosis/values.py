"""What the values in the failing line are, and which of them does not fit the others."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from colab_doctor.diagnosis.base import Diagnosis, Failure, frames
from colab_doctor.diagnosis.code import FailedCode, beginnings, names_in, parts_of, stands_for
from colab_doctor.table import known_problems

MOST_ITEMS = 4  #: Of a list, that are told.
_LONGEST_LAYER = 100  # characters of a layer
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
    text = f"{kind} of shape {shape}"
    if dtype := str(getattr(value, "dtype", "")).removeprefix("torch."):
        text += f", {getattr(value.dtype, 'name', dtype)}"
    device = str(getattr(value, "device", ""))
    if _DEVICE.fullmatch(device) and not device.startswith("cpu"):
        text += f" on {device}"
    return text + _range(value)


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
        text = repr(value)
        return text if len(text) <= _LONGEST_LAYER else name
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
    text = f"{kind} of {count}"
    if kind == "dict":
        first = itertools.islice(value, MOST_ITEMS)
        keys = [repr(key) for key in first if type(key) in (str, int) and len(str(key)) <= 30]
        return f"{text}: {', '.join(keys)}{' …' if count > len(keys) else ''}" if keys else text
    if kind == "set" or not value:
        return text
    items = [_item(each) for each in value[:MOST_ITEMS]]
    return f"{text}: {', '.join(items)}{' …' if count > len(items) else ''}"


def _item(value: Any) -> str:
    if is_array(value):
        return f"shape {_shape(value)}"
    if value is None or type(value) in _PLAIN:
        return repr(value)
    return type(value).__name__


_MOST_VALUES = 6  # values that are named
_MOST_NUMBER = 10**12  # larger ones are cards and keys rather than sizes
#: Names of numbers that nobody wants to see under an error.
_SECRET = re.compile(
    r"(^|_)(pin|otp|cvv|ssn|iban|passw\w*|pwd|secret|card|phone|(api|access|secret|private)_?key)(_|$)",
    re.I,
)


def of_values(failure: Failure) -> Iterator[Diagnosis]:
    """Yield what the line that failed worked with, where `failure` is unknown or a matter of values."""
    known = known_problems().get(failure.known)
    own = failure.own if known is None or known.show_values else None
    if own is None or own.raises:  # it says itself what is wrong
        return
    values = _values(own)
    about_none = "NoneType" in failure.text
    described = [f"`{name}`: {what}" for name in values if (what := _safely(name, values[name]))]
    is_none = about_none and any(value is None for value in values.values())
    if is_none or any(map(_tells, values.values())):
        yield Diagnosis(
            "values-of-the-line",
            f"{'; '.join(described[:_MOST_VALUES])}.",
            "" if failure.known else _compare(about_none),  # the table's is better
        )


def _safely(name: str, value: Any) -> str:
    """What a value is; not a number that is secret by its name, nor one so long that it may be."""
    secret = _SECRET.search(name.rpartition(".")[2]) or (
        type(value) is int and abs(value) > _MOST_NUMBER
    )
    try:
        return "" if secret else describe(value)
    except Exception:  # an array that was deleted, a number too long to be written
        return ""


def _values(own: FailedCode) -> dict[str, Any]:
    """Names of the piece of code with their values, those that stand for anything."""
    seen, found = own.scope, {}
    for name in names_in(own.code):
        for shorter in beginnings(name):  # `x` of `x.view`
            value = stands_for(shorter, seen)
            if value is not None or _is_none(shorter, seen):
                found[shorter] = value
                break
    return found


def _is_none(name: str, seen: Mapping[str, Any]) -> bool:
    """Whether a name stands for None, and is not only unknown."""
    home, _, last = name.rpartition(".")
    return last in (parts_of(stands_for(home, seen)) if home else seen)


def _tells(value: Any) -> bool:
    """Whether a value may be what does not fit: a tensor, a list of them, a layer of a library."""
    items = value[:MOST_ITEMS] if type(value) in (list, tuple) else [value]
    return any(is_array(each) or (is_model(each) and not _is_own(each)) for each in items)


def _is_own(model: Any) -> bool:
    """Whether somebody wrote the class of a model: that its name stands in a line says nothing."""
    return type(model).__module__.partition(".")[0] not in ("torch", "keras", "tensorflow")


def _compare(about_none: bool) -> str:
    if about_none:
        return "Find where the None comes from: a function without `return`, or a lookup that found nothing."
    return "Compare each with what the message asks for, and follow the odd one back."


_WHOLE = re.compile(r"\b(Long|Int|Short|Byte|Char|Bool|int64|int32|uint8|long|int|unsigned char)\b")
_MOST_TENSORS = 6  # tensors that are named
#: What an error speaks of, by its words -> the known problem.
_KINDS = {
    "device": (
        re.compile(
            r"on the same device|different devices|not on the expected device"
            r"|Input type .* and weight type"
        ),
        "two-devices",
    ),
    "dtype": (
        re.compile(
            r"same dtype|expected scalar type|expected m1 and m2|Input type .* and bias type"
        ),
        "mixed-dtypes",
    ),
    "shape": (
        re.compile(
            r"shapes cannot be multiplied|size of tensor a|Sizes of tensors must match|[Ss]ize mismatch"
            r"|ncompatible shapes|input batch_size|could not be broadcast|not aligned|core dimension"
            r"|equal size|but got \d+ channels"
        ),
        "tensor-shapes",
    ),
}
#: A layer's product: its rows, and what it expects of each.
_PRODUCT = re.compile(r"mat1 and mat2 shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)")


@dataclass(frozen=True)
class _Tensor:
    """A tensor, or a model by its parameters: how the cell names it, and what it is."""

    name: str
    device: str
    dtype: str
    shape: str
    of_torch: bool = True

    def describe(self, kind: str) -> str:
        what = {"device": f"is on {self.device}", "dtype": f"is {self.dtype}", "shape": self.shape}
        return f"`{self.name}` {what[kind]}"


def of_tensors(failure: Failure) -> Iterator[Diagnosis]:
    """Yield what the tensors of the failing line are, where `failure` says that they do not fit."""
    kind = next((kind for kind, (says, _) in _KINDS.items() if says.search(failure.text)), "")
    if failure.error is None or not kind:
        return
    named = _fitting(kind, _named(failure.own) if failure.own else (), failure.text)
    if kind == "shape" and (found := _PRODUCT.search(failure.text)) and _in_a_layer(failure.error):
        yield _layer(found)
    differ = len({getattr(each, kind) for each in named}) > 1
    if len(named) > 1 and (differ or kind == "shape"):  # (3, 4) @ (3, 4) does not fit either
        listed = ", ".join(each.describe(kind) for each in named[:_MOST_TENSORS])
        observation = f"In the line that failed, {listed}."
        if kind == "shape" and failure.known:  # the table says what to do about each operation
            yield Diagnosis("values-of-the-line", observation, "")
        else:
            yield Diagnosis(_KINDS[kind][1], observation, _fix(kind, named, failure.text))


def _in_a_layer(error: BaseException) -> bool:
    return any(frame.f_code.co_filename.endswith("linear.py") for frame in frames(error))


def _layer(found: re.Match[str]) -> Diagnosis:
    _, gets, expects, gives = found.groups()
    fix = (
        f"`Linear({gets}, {gives})` fits what comes in. Or fix what comes in: flatten with "
        "`x.flatten(1)`, which keeps the batch; check the image size and the layers before."
    )
    if is_flattened(int(gets), int(expects)):
        fix = "Flatten what goes in: `x.flatten(1)`, which keeps the batch."
    return Diagnosis(
        "tensor-shapes",
        f"A layer `Linear({expects}, {gives})` expects {expects} values per row, and gets {gets}.",
        fix,
    )


def _fix(kind: str, named: list[_Tensor], text: str) -> str:
    """What to do so that these fit."""
    if kind == "device":
        return (
            "Move all to the same device. For a tensor, assign the result: `x = x.to(device)`; a "
            "model moves itself: `model.to(device)`. Give a tensor that is created in this line "
            "`device=device`."
        )
    if kind == "shape":
        return (
            "Two of these sizes should match but do not. Trace the wrong one back to where it is "
            "created: a missing `.T`, a lost batch dimension, axes in the wrong order, a wrong "
            "layer size."
        )
    if re.search(r"\b(Double|double|float64)\b", text):
        return "NumPy's numbers are float64, a model's float32: `x = x.float()`."
    if _WHOLE.search(text):
        return "Whole numbers become floats first: `x = x.float()`; of an image, `x = x.float() / 255`."
    device = next((each.device.partition(":")[0] for each in named if each.device), "cuda")
    return (
        "Give all one type: `x = x.to(next(model.parameters()).dtype)`, or run the line under "
        f'`torch.autocast("{device}")`, which chooses for each operation.'
    )


def _fitting(kind: str, named: Iterable[_Tensor], text: str) -> list[_Tensor]:
    """Those of the named that the error can mean."""
    having = [each for each in named if getattr(each, kind)]
    if kind == "device":  # NumPy's arrays are where they always are, single numbers may be anywhere
        return [each for each in having if each.of_torch and each.shape != "has shape ()"]
    if kind == "dtype" and not _WHOLE.search(text):  # ids, labels and masks stand in most lines
        return [each for each in having if "float" in each.dtype]
    return having


def _named(own: FailedCode) -> Iterator[_Tensor]:
    """Tensors and models that the failing code names; all of its function where that is not known."""
    seen, there = own.scope, own.frame.f_locals
    for name in names_in(own.code) or [name for name in there if name[:1] != "_"]:
        # `x` of `x.view`
        tensors = (_tensor(one, stands_for(one, seen)) for one in beginnings(name))
        yield from itertools.islice(filter(None, tensors), 1)


def _tensor(name: str, value: Any) -> _Tensor | None:
    torch = sys.modules.get("torch")
    if torch is not None and issubclass(type(value), torch.nn.Module):
        first = next(weights(value), None)
        if first is None:
            return None
        size = parts_of(value).get("in_features")
        shape = f"expects {size} values per row" if isinstance(size, int) else ""
        return _Tensor(name, _device(first), _dtype(first), shape)
    if type(value).__module__.partition(".")[0] not in ("torch", "numpy", "jax", "jaxlib"):
        return None
    sizes = getattr(value, "shape", None)
    if not isinstance(sizes, tuple):
        return None
    of_torch = type(value).__module__.startswith("torch")
    return _Tensor(name, _device(value), _dtype(value), f"has shape {tuple(sizes)}", of_torch)


def _device(value: Any) -> str:
    return str(getattr(value, "device", ""))


def _dtype(value: Any) -> str:
    return str(getattr(value, "dtype", "")).removeprefix("torch.")


_SMALLEST = 8  # of a side; below, squares are everywhere


def of_sizes(failure: Failure) -> Iterator[Diagnosis]:
    """Yield the two sizes of the product in `failure`, and how they may belong together."""
    product = _PRODUCT.search(failure.text)
    if product is None or failure.chain:  # with the session, the tensors themselves are named
        return
    gets, expects = int(product[2]), int(product[3])
    observation = f"the first has {gets} columns, the second {expects} rows."
    if is_flattened(gets, expects):
        small, large = sorted((gets, expects))
        observation += f" {large} = {large // small**2} × {small} × {small}: flatten the image."
    yield Diagnosis("tensor-shapes", observation, "")


def is_flattened(one: int, other: int) -> bool:
    """Say whether of `one` size and the `other` one is a side, and the other all of its picture.

    >>> is_flattened(28, 784), is_flattened(3072, 32), is_flattened(28, 785)
    (True, True, False)
    """
    small, large = sorted((one, other))
    return small >= _SMALLEST and large in (small**2, 3 * small**2)
