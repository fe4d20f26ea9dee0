"""What were the values in the line that failed?

Most mistakes in training code are a value of another shape, type or kind than its line expects. Where
nothing more exact is known, the values themselves are what a colleague would ask for first.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any

from colab_helpers.doctor.clues.clue import Clue, Raised
from colab_helpers.doctor.clues.describe import MOST_ITEMS, describe, is_array, is_model
from colab_helpers.doctor.clues.line import Failed
from colab_helpers.doctor.clues.names import beginnings, names_in, parts_of, stands_for

_MOST = 6  # values that are named
_MOST_NUMBER = 10**12  # larger ones are cards and keys rather than sizes
#: Names of numbers that nobody wants to see under an error.
_SECRET = re.compile(
    r"(^|_)(pin|otp|cvv|ssn|iban|passw\w*|pwd|secret|card|phone|(api|access|secret|private)_?key)(_|$)",
    re.I,
)
#: Known problems of which the values are told as well.
_ALSO = (
    "arrays-to-join", "broadcast-shapes", "channels-first", "classes-from-zero", "collate-sizes",
    "expanded-size", "features-differ", "gather-index",
    "image-shape", "image-too-small", "index-too-large", "keras-data-kind", "keras-input-shape",
    "keras-target-rank", "label-range", "labels-and-output", "labels-not-0-1", "layer-dimensions",
    "lengths-differ", "mask-length", "mixed-dtypes", "not-a-tensor", "one-value-wanted", "ragged-array",
    "reshape-size", "rnn-state-size", "sklearn-1d", "sklearn-nan", "target-size", "tensor-shapes",
    "tensorflow-dtypes", "text-to-tensor", "tokenizer-input", "truth-of-many", "vmap-sizes",
    "wrong-label-type",
)  # fmt: skip


def clues(raised: Raised) -> Iterator[Clue]:
    """Yield what the line that failed worked with, where `raised` is unknown or a matter of values."""
    own = raised.own if raised.known in ("", *_ALSO) else None
    if own is None or own.raises:  # it says itself what is wrong
        return
    values = _values(own)
    about_none = "NoneType" in raised.text
    told = [f"`{name}`: {what}" for name in values if (what := _told(name, values[name]))]
    is_none = about_none and any(value is None for value in values.values())
    if is_none or any(map(_tells, values.values())):
        yield Clue(
            "values-of-the-line",
            f"{'; '.join(told[:_MOST])}.",
            "" if raised.known else _remedy(own, about_none),  # the table's is better
        )


def _told(name: str, value: Any) -> str:
    """What a value is; not a number that is secret by its name, nor one so long that it may be."""
    secret = _SECRET.search(name.rpartition(".")[2]) or (
        type(value) is int and abs(value) > _MOST_NUMBER
    )
    try:
        return "" if secret else describe(value)
    except Exception:  # an array that was deleted, a number too long to be written
        return ""


def _values(own: Failed) -> dict[str, Any]:
    """Names of the piece of code with their values, those that stand for anything."""
    seen, found = own.seen, {}
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


def _remedy(own: Failed, about_none: bool) -> str:
    if about_none:
        return (
            "Find where the None comes from: a function without `return`, a method that changes its "
            "object and returns nothing, a lookup that found nothing."
        )
    called = _called(own)
    value = stands_for(called, own.seen) if called else None
    if is_model(value) and not _is_own(value):
        called = type(value).__name__
        return f"Compare them with what the documentation of `{called}` says that it takes."
    if _is_of_a_library(value) or ("." in called and not is_model(value)):
        return f"Compare them with what the message asks for; `help({called})` says what goes in."
    return "Compare them with what the message asks for."


def _is_of_a_library(value: Any) -> bool:
    kinds = (type, FunctionType, BuiltinFunctionType)
    return issubclass(type(value), kinds) and value.__module__ != "__main__"


def _called(own: Failed) -> str:
    """The name of what the piece of code calls, as its reader would write it; "" for anything else."""
    tree = own.expression
    called = ast.unparse(tree.func) if isinstance(tree, ast.Call) else ""
    return called if re.fullmatch(r"[\w.]+", called) else ""
