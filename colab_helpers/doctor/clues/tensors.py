"""Which of the tensors at hand does not fit the others: by its device, its type or its shape?"""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

from colab_helpers.doctor.clues.clue import Clue, Raised, frames
from colab_helpers.doctor.clues.installed import is_of_packages

_NAME = re.compile(r"[A-Za-z_]\w{0,60}(?:\.[A-Za-z_]\w{0,60}){0,4}")


@dataclass(frozen=True)
class _Kind:
    """One way of not fitting: how errors say it, the known problem, and what to do about the odd one out."""

    says: re.Pattern[str]
    problem: str
    remedy: str


_KINDS = {
    "device": _Kind(
        re.compile(
            r"on the same device|different devices|not on the expected device"
            r"|Input type .* and weight type|can't convert \w+:\d device"
        ),
        "two-devices",
        "Move the odd one to where the others are: `.to(device)`, for a tensor with its result kept "
        "(`x = x.to(device)`). A tensor that the line makes anew needs `device=` itself.",
    ),
    "dtype": _Kind(
        re.compile(
            r"same dtype|expected scalar type|expected m1 and m2|Input type .* and bias type"
        ),
        "mixed-dtypes",
        "Give the odd one the type of the others, as `x.to(model.dtype)` does, or run the line under "
        '`torch.autocast("cuda", dtype=…)`.',
    ),
    "shape": _Kind(
        re.compile(
            r"shapes cannot be multiplied|size of tensor a|Sizes of tensors must match|[Ss]ize mismatch"
            r"|ncompatible shapes|input batch_size|could not be broadcast|not aligned|core dimension"
        ),
        "tensor-shapes",
        "Two of these must agree in a dimension and do not: follow the one with the wrong number back to "
        "where it is made (a batch that was dropped, axes in another order, a layer's input size).",
    ),
}
_MOST = 6  # tensors that are named


@dataclass(frozen=True)
class _Tensor:
    """A tensor, or a model by its parameters: how the cell names it, and what it is."""

    name: str
    device: str
    dtype: str
    shape: str

    def told(self, kind: str) -> str:
        what = {"device": f"on {self.device}", "dtype": self.dtype, "shape": self.shape}[kind]
        return f"`{self.name}` {'is ' if kind != 'shape' else ''}{what}"


def clues(raised: Raised) -> Iterator[Clue]:
    """Yield what the tensors of the failing line are, where `raised` says that they do not fit."""
    for error in raised.chain[-1:]:
        kind = next((kind for kind, one in _KINDS.items() if one.says.search(raised.text)), "")
        frame = next(
            (one for one in frames(error) if not is_of_packages(one.f_code.co_filename)), None
        )
        if not kind or frame is None:
            continue
        named = [each for each in _named(frame) if getattr(each, kind)]
        if len(named) > 1 and len({getattr(each, kind) for each in named}) > 1:
            told = ", ".join(each.told(kind) for each in named[:_MOST])
            found = _KINDS[kind]
            yield Clue(found.problem, f"In the line that failed: {told}.", found.remedy)


def _named(frame: FrameType) -> Iterator[_Tensor]:
    """Tensors and models that the failing line names; all of its function where the line is not known."""
    seen = {**frame.f_globals, **frame.f_locals}
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    names = _NAME.findall(line) or [name for name in frame.f_locals if name[:1] != "_"]
    for name in dict.fromkeys(names):
        parts = name.split(".")
        shorter = (".".join(parts[:count]) for count in range(len(parts), 0, -1))  # `x` of `x.view`
        yield from [each for one in shorter if (each := _tensor(one, _value(one, seen)))][:1]


def _value(name: str, seen: Mapping[str, Any]) -> Any:
    """What a dotted name stands for; nothing is called, and no property is run but a model's parts."""
    first, *rest = name.split(".")
    value = seen.get(first)
    for part in rest:
        inside = getattr(value, "__dict__", {})
        modules = inside.get("_modules", {}) if isinstance(inside, dict) else {}
        value = inside.get(part, modules.get(part))
    return value


def _tensor(name: str, value: Any) -> _Tensor | None:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.nn.Module):
        first = next(value.parameters(), None)
        if first is None:
            return None
        weight = getattr(value, "weight", None)
        shape = f"has weights of {tuple(weight.shape)}" if isinstance(weight, torch.Tensor) else ""
        return _Tensor(name, _device(first), _dtype(first), shape)
    if type(value).__module__.partition(".")[0] not in ("torch", "numpy", "jax", "jaxlib"):
        return None
    sizes = getattr(value, "shape", None)
    if not isinstance(sizes, tuple):
        return None
    return _Tensor(name, _device(value), _dtype(value), f"has {tuple(sizes)}")


def _device(value: Any) -> str:
    return str(getattr(value, "device", ""))


def _dtype(value: Any) -> str:
    return str(getattr(value, "dtype", "")).removeprefix("torch.")
