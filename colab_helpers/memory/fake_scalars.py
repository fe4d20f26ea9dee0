"""The values that a step reads from tensors without data.

Each storage stands for one number: 0.5 where nothing is known of a float, 1 of an integer, True of a bool.
Comparisons, `isnan`, `any` and simple arithmetic are carried out with it, so that a branch goes the way of
that number: `torch.rand(()) < 0.0` is False.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils._pytree import tree_iter, tree_map

from colab_helpers.memory.storage_tracker import written_arguments
from colab_helpers.memory.tracker_base import TraceError

READ = torch.ops.aten._local_scalar_dense.default
EQUAL = torch.ops.aten.equal.default
#: Operations of which the result of one number is that of all.
_COMPUTED = set(
    """abs add all amax amin any bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp clamp_max clamp_min
    clone _to_copy div eq exp floor ge gt isfinite isinf isnan isneginf isposinf le log log2 logical_and
    logical_not logical_or logical_xor lt max maximum mean min minimum mul ne neg pow reciprocal remainder
    round rsqrt rsub sign sqrt sub sum where""".split()
)
#: Operations that repeat the numbers of their first argument.
_REPEATING = set("cat copy expand gather index_select repeat roll stack".split())
_FILLING = {
    "zeros": 0,
    "ones": 1,
    "zeros_like": 0,
    "ones_like": 1,
    "new_zeros": 0,
    "new_ones": 1,
    "zero": 0,
}
#: Operations whose number is the argument at this place.
_FULL = {"full": 1, "full_like": 1, "new_full": 2, "fill": 1, "scalar_tensor": 0}
_KNOWN = {*_FILLING, *_FULL}
_MOST_READS = 5_000


@dataclass(frozen=True)
class FakeScalar:
    """The value of every element of a fake tensor; `assumed` where real data could give another."""

    value: Any
    assumed: bool


class FakeScalars:
    """The stand-ins of living storages, and how often an assumed one was read."""

    def __init__(self) -> None:
        self.reads = 0
        self._known: dict[int, tuple[FakeScalar, weakref.ref]] = {}

    def read(self, tensor: torch.Tensor) -> Any:
        """Return what `tensor.item()` gives, and count it where it is assumed."""
        found = self.of(tensor)
        self.reads += found.assumed
        if self.reads > _MOST_READS:
            raise TraceError(
                f"The step asked for over {_MOST_READS:,} values, and a trace has only shapes: is it a loop "
                "that ends on a value? Limit its rounds, or measure the step with memory.track."
            )
        return found.value

    def equal(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        """Return what `torch.equal(one, other)` gives, and count it where it is assumed."""
        if one.shape != other.shape:
            return False
        first, second = self.of(one), self.of(other)
        self.reads += first.assumed or second.assumed
        return bool(first.value == second.value)

    def of(self, tensor: torch.Tensor) -> FakeScalar:
        """Return the value of `tensor`; an assumed default where none is known."""
        if not _plain(tensor):
            return FakeScalar(_default(tensor.dtype), True)
        constant = getattr(tensor, "constant", None)
        if constant is not None and constant.numel() == 1:
            with unset_fake_temporarily():
                return FakeScalar(constant.item(), False)
        known = self._known.get(tensor.untyped_storage()._cdata)
        return known[0] if known else FakeScalar(_default(tensor.dtype), True)

    def note(self, tensor: torch.Tensor, value: FakeScalar) -> None:
        """Let `tensor` and all its views stand for `value`."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        reference = weakref.ref(storage, lambda _: self._known.pop(key, None))
        self._known[key] = (value, reference)

    def follow(self, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Work out and keep the value of `result`, which `function(*args, **kwargs)` returned."""
        name = function._schema.name.partition("::")[2]
        changed = written_arguments(function, args, kwargs) if function._schema.is_mutable else ()
        written = [t for t in tree_iter(changed) if isinstance(t, FakeTensor) and _plain(t)]
        given = _tensors((args, kwargs))
        name = name.removesuffix("_") if written else name
        if name.startswith("_foreach_"):
            self._follow_each(name.removeprefix("_foreach_"), args, kwargs, written)
            return
        results = written or [
            t for t in tree_iter(result) if isinstance(t, FakeTensor) and _plain(t)
        ]
        if not results or self._is_view(results[0], given, written):
            return
        # Known of numbers and masks, and where all was known. The rest, nearly everything, has the default.
        small = results[0].numel() == 1 or results[0].dtype == torch.bool
        small |= name.startswith(("bitwise_", "logical_"))  # masks of whole numbers
        value = None
        if small or name in _KNOWN or not any(self.of(t).assumed for t in given):
            value = self._result(name, function, args, kwargs, given, results[0])
        for tensor in results:
            if value is not None and (small or not value.assumed):
                part = written and tensor.nbytes < tensor.untyped_storage().nbytes()
                self.note(tensor, replace(value, assumed=True) if part else value)
            else:
                self._known.pop(tensor.untyped_storage()._cdata, None)

    def _follow_each(self, name: str, args: Any, kwargs: Any, written: list) -> None:
        """Foreach operations: only the one-element step counters are tracked."""
        for place, tensor in enumerate(written):
            own = [arg[place] if isinstance(arg, list | tuple) else arg for arg in args]
            value = None
            if tensor.numel() == 1 and name in _COMPUTED and len(written) == len(args[0]):
                operation = getattr(torch, name)
                value = self._result(name, operation, own, kwargs, _tensors(own), tensor)
            if value is None:
                self._known.pop(tensor.untyped_storage()._cdata, None)
            else:
                self.note(tensor, value)

    def _is_view(self, result: torch.Tensor, given: list, written: list) -> bool:
        key = result.untyped_storage()._cdata
        return not written and any(t.untyped_storage()._cdata == key for t in given if _plain(t))

    def _result(
        self, name: str, function: Any, args: Any, kwargs: Any, given: list, result: torch.Tensor
    ) -> FakeScalar | None:
        if name in _FILLING:
            return FakeScalar(_FILLING[name], False)
        if name in _FULL:
            place = _FULL[name]
            value = args[place] if len(args) > place else kwargs.get("fill_value")
            return self.of(value) if isinstance(value, torch.Tensor) else FakeScalar(value, False)
        if name in _REPEATING:
            found = {self.of(t) for t in given[name == "copy" :]}
            return found.pop() if len(found) == 1 else None
        if name not in _COMPUTED or not all(map(_plain, given)):
            return None
        assumed = any(self.of(t).assumed for t in given)
        try:
            with unset_fake_temporarily():
                few = tree_map(self._one_of, (args, kwargs))
                done = function(*few[0], **few[1])
                first = next(t for t in tree_iter(done) if isinstance(t, torch.Tensor))
                known_sum = name == "sum" and not assumed
                times = given[0].numel() // result.numel() if known_sum else 1
                return FakeScalar(first.item() * times, assumed)
        except Exception:  # these arguments mean nothing for a single number
            return None

    def _one_of(self, thing: Any) -> Any:
        """A real tensor of a single number in the place of a fake one."""
        if not isinstance(thing, torch.Tensor):
            return torch.device("cpu") if isinstance(thing, torch.device) else thing
        return torch.full((1,) * thing.dim(), self.of(thing).value, dtype=thing.dtype)


def _default(dtype: torch.dtype) -> bool | int | float | complex:
    """1 as a value of this type, or 0.5 for a float: some steps divide by 1 - value."""
    if dtype is torch.bool:
        return True
    return 0.5 if dtype.is_floating_point else 1j**0 if dtype.is_complex else 1


def _tensors(things: Any) -> list[torch.Tensor]:
    return [thing for thing in tree_iter(things) if isinstance(thing, torch.Tensor)]


def _plain(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided
