"""Which of the tensors at hand does not fit the others: by its device, its type or its shape?"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from colab_helpers.doctor.clues.clue import Clue, Raised, frames
from colab_helpers.doctor.clues.describe import weights
from colab_helpers.doctor.clues.line import Failed
from colab_helpers.doctor.clues.names import beginnings, names_in, parts_of, stands_for
from colab_helpers.doctor.clues.sizes import is_flattened

_WHOLE = re.compile(r"\b(Long|Int|Short|Byte|Char|Bool|int64|int32|uint8|long|int|unsigned char)\b")
_MOST = 6  # tensors that are named
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

    def told(self, kind: str) -> str:
        what = {"device": f"is on {self.device}", "dtype": f"is {self.dtype}", "shape": self.shape}
        return f"`{self.name}` {what[kind]}"


def clues(raised: Raised) -> Iterator[Clue]:
    """Yield what the tensors of the failing line are, where `raised` says that they do not fit."""
    kind = next((kind for kind, (says, _) in _KINDS.items() if says.search(raised.text)), "")
    if raised.error is None or not kind:
        return
    named = _fitting(kind, _named(raised.own) if raised.own else (), raised.text)
    if kind == "shape" and (found := _PRODUCT.search(raised.text)) and _in_a_layer(raised.error):
        yield _layer(found)
    differ = len({getattr(each, kind) for each in named}) > 1
    if len(named) > 1 and (differ or kind == "shape"):  # (3, 4) @ (3, 4) does not fit either
        told = ", ".join(each.told(kind) for each in named[:_MOST])
        seen = f"In the line that failed, {told}."
        if kind == "shape" and raised.known:  # the table says what to do about each operation
            yield Clue("values-of-the-line", seen, "")
        else:
            yield Clue(_KINDS[kind][1], seen, _remedy(kind, named, raised.text))


def _in_a_layer(error: BaseException) -> bool:
    return any(frame.f_code.co_filename.endswith("linear.py") for frame in frames(error))


def _layer(found: re.Match[str]) -> Clue:
    _, gets, expects, gives = found.groups()
    remedy = (
        f"`Linear({gets}, {gives})` fits what comes in. Or fix what comes in: flatten with "
        "`x.flatten(1)`, which keeps the batch; check the image size and the layers before."
    )
    if is_flattened(int(gets), int(expects)):
        remedy = "Flatten what goes in: `x.flatten(1)`, which keeps the batch."
    return Clue(
        "tensor-shapes",
        f"A layer `Linear({expects}, {gives})` expects {expects} values per row, and gets {gets}.",
        remedy,
    )


def _remedy(kind: str, named: list[_Tensor], text: str) -> str:
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
    told = [each for each in named if getattr(each, kind)]
    if kind == "device":  # NumPy's arrays are where they always are, single numbers may be anywhere
        return [each for each in told if each.of_torch and each.shape != "has shape ()"]
    if kind == "dtype" and not _WHOLE.search(text):  # ids, labels and masks stand in most lines
        return [each for each in told if "float" in each.dtype]
    return told


def _named(own: Failed) -> Iterator[_Tensor]:
    """Tensors and models that the failing code names; all of its function where that is not known."""
    seen, there = own.seen, own.frame.f_locals
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
