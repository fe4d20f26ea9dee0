"""What does a step do? Its operations, counted while it is rehearsed with tensors that have no data."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import TreeSpec, tree_flatten

from colab_helpers import _units
from colab_helpers.memory.allocator import Allocator, Block
from colab_helpers.memory.footprint import Footprint, footprint
from colab_helpers.memory.meter import tensors_in

# Without Triton it says that it cannot count Triton's kernels, which no rehearsal sees.
logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)
#: Names of number formats, as data sheets have them.
_FORMATS = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
}
#: Operations that read the places they are asked for, and not the whole table.
_LOOK_UPS = (
    "embedding", "_embedding_bag", "index", "index_select", "gather", "nll_loss_forward",
    "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward",
)  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """What is known of a tensor without its data."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True, eq=False)
class Operation:
    """One kind of call: which operation, on which shapes, and how often in a step.

    `flop` and `moved` (bytes read and written) are of one call; `format` is the number format of its
    first tensor with a decimal point, "" where there is none. `arguments` has a `Shape` for each tensor.
    """

    name: str
    count: int
    flop: int
    moved: int
    format: str
    function: Any
    arguments: tuple[Any, ...]
    structure: TreeSpec

    @property
    def family(self) -> str:
        """Say what it mostly is: "products", "convolutions", "attention", "recurrent" or "the rest"."""
        if "convolution" in self.name:
            return "convolutions"
        if "attention" in self.name:
            return "attention"
        if "rnn" in self.name:
            return "recurrent"
        return "products" if self.flop else "the rest"


@dataclass(frozen=True, repr=False)
class Work:
    """What a step does: bytes by part, operations, and every storage's birth and death in order.

    `events` are (storage, bytes): a birth with its bytes, a death with 0. `rows` is the batch, `device`
    the kind of device the model is on.
    """

    rows: int
    footprint: Footprint
    operations: tuple[Operation, ...]
    events: tuple[tuple[int, int], ...]
    device: str

    @property
    def flop(self) -> int:
        """Floating-point operations of the step, of products, convolutions, attention, recurrent layers."""
        return sum(one.count * one.flop for one in self.operations)

    @property
    def moved(self) -> int:
        """Bytes read and written by all operations, as if each began with empty caches."""
        return sum(one.count * one.moved for one in self.operations)

    @property
    def calls(self) -> int:
        """Number of operations that compute or copy; views are not counted."""
        return sum(one.count for one in self.operations)

    def families(self) -> dict[str, tuple[int, int, int]]:
        """Return (calls, FLOP, bytes moved) for each family of operations, most FLOP first."""
        table: dict[str, list[int]] = {}
        for one in self.operations:
            row = table.setdefault(one.family, [0, 0, 0])
            for i, value in enumerate((1, one.flop, one.moved)):
                row[i] += one.count * value
        rows = sorted(table.items(), key=lambda entry: entry[1][1], reverse=True)
        return {name: (calls, flop, moved) for name, (calls, flop, moved) in rows}

    def replay(self, card: Allocator) -> int:
        """Let `card`, an `Allocator`, hand out this step's memory; return what it reserved at most, in bytes.

        Raises the `OutOfMemory` of `memory.allocator` where the step does not fit: rounding, pools and
        the pieces between them are then as CUDA's own allocator would have them.
        """
        held: dict[int, Block] = {}
        for storage, size in self.events:
            if size:
                held[storage] = card.take(size)
            elif storage in held:
                card.give(held.pop(storage))
        return card.counts["reserved"].peak

    def __str__(self) -> str:
        return (
            f"{_units.quantity(self.flop, 'FLOP')}, {_units.quantity(self.moved, 'B')} moved by "
            f"{self.calls:,} operations, {self.footprint}"
        )

    __repr__ = __str__


def rehearse(
    model: nn.Module,
    forward: Callable[[int], Any],
    batch: int,
    optimizer: torch.optim.Optimizer | None,
    foreach: bool | None = None,
) -> Work:
    """Return what one step with `batch` rows does, without allocating or computing anything.

    `model`, `forward(rows)`, `batch`, `optimizer` and `foreach` are as in `memory.footprint`, and so are
    the errors. None for `optimizer` stands for inference.

    FLOP are PyTorch's own count (`torch.utils.flop_counter`) and, for the attention and the recurrent
    layer of a CPU, which that does not know, two for each product of two numbers.

    >>> model = nn.Linear(100, 10)
    >>> loss = lambda rows: model(torch.zeros(rows, 100)).sum()
    >>> work = rehearse(model, loss, 50, torch.optim.SGD(model.parameters()))
    >>> work.flop, work.footprint.parameters
    (200000, 4040)
    """
    recorder = _Recorder()
    found = footprint(model, forward, batch, optimizer, recorder.watching, foreach)
    parameters = next(model.parameters(), None)
    device = "cpu" if parameters is None or parameters.is_meta else parameters.device.type
    return Work(batch, found, recorder.operations(), tuple(recorder.events), device)


class _Recorder(TorchDispatchMode):
    """Writes down each operation and each storage that is born or dies."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[int, int]] = []
        self._alive: dict[int, weakref.ref] = {}
        self._born = 0
        self._calls: dict[tuple, list] = {}

    @contextmanager
    def watching(self, standing: Any) -> Iterator[None]:
        """Watch a step; the `standing` tensors were there before it."""
        for tensor in tensors_in(standing):
            self._note(tensor)
        with self:
            yield
        self._alive.clear()  # what dies from here on is the end of the rehearsal

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.is_inference_mode_enabled():  # there, operations arrive that others are made of
            with self:
                result = function.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = function(*args, **kwargs)
        given = list(tensors_in((args, kwargs)))
        before = {tensor.untyped_storage()._cdata for tensor in given}
        made = list(tensors_in(result))
        new = [tensor for tensor in made if tensor.untyped_storage()._cdata not in before]
        for tensor in new:
            self._note(tensor)
        if (new and "empty" not in function._schema.name) or function._schema.is_mutable:
            self._count(function, args, kwargs, result, given, new)
        return result

    def _count(
        self, function: Any, args: Any, kwargs: Any, result: Any, given: list, new: list
    ) -> None:
        leaves, structure = tree_flatten((args, kwargs))
        shapes = tuple(_shape(leaf) for leaf in leaves)
        key = (function, repr(shapes), structure)
        if key not in self._calls:
            name = function._schema.name.partition("::")[2]
            read = new if name in _LOOK_UPS else given
            written = list(tensors_in(_written(function, args, kwargs)))
            moved = sum(_bytes_of(tensor) for tensor in [*read, *new, *written])
            formats = [_FORMATS[tensor.dtype] for tensor in given if tensor.dtype in _FORMATS]
            flop = _flop(function, args, kwargs, result)
            self._calls[key] = [
                0, name, flop, moved, (formats or [""])[0], function, shapes, structure
            ]  # fmt: skip
        self._calls[key][0] += 1

    def operations(self) -> tuple[Operation, ...]:
        """Return what was seen, equal calls as one."""
        return tuple(Operation(name, count, *rest) for count, name, *rest in self._calls.values())

    def _note(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        address = storage._cdata
        if address in self._alive or not storage.nbytes():
            return
        self._born += 1
        number = self._born
        self.events.append((number, storage.nbytes()))

        def died(_: Any) -> None:
            if self._alive.pop(address, None) is not None:
                self.events.append((number, 0))

        self._alive[address] = weakref.ref(storage, died)


def _shape(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return Shape(tuple(leaf.shape), tuple(leaf.stride()), leaf.dtype)
    return leaf


def _written(function: Any, args: Any, kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments that an operation changes in place."""
    places = enumerate(function._schema.arguments)
    return [
        args[i] if i < len(args) else kwargs.get(argument.name)
        for i, argument in places
        if argument.alias_info is not None and argument.alias_info.is_write
    ]


def _bytes_of(tensor: torch.Tensor) -> int:
    """Bytes that passing over a tensor moves: one that repeats a few numbers has only those."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


def _flop(function: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> int:
    # Not public under this name, so imported where it is used.
    from torch.utils.flop_counter import flop_registry

    if function is torch.ops.aten.convolution_backward.default:
        return _convolution_backward_flop(args)
    formula = flop_registry.get(function._overloadpacket)
    if formula is not None:
        return int(formula(*args, **kwargs, out_val=result))
    name = function._schema.name
    if "mkldnn_rnn_layer" in name:
        return _recurrent_flop(args) * (2 if name.endswith("backward") else 1)
    if "attention_for_cpu" in name:
        # Forward two products; backward five, since it forms the scores again.
        return 5 * _scores_flop(*args[1:3]) if "backward" in name else 2 * _scores_flop(*args[:2])
    return 0


def _convolution_backward_flop(args: Any) -> int:
    """As many as forward for each gradient that is wanted; PyTorch's own formula forgets the groups."""
    from torch.utils.flop_counter import flop_registry

    gradient, inputs, weight, _, *how = args[:8]
    forward = flop_registry[torch.ops.aten.convolution]
    once = forward(inputs, weight, None, *how, out_val=gradient)
    return int(once) * sum(args[10][:2])


def _scores_flop(query: torch.Tensor, key: torch.Tensor) -> int:
    """Two for each pair of query and key, and width of a head; masked pairs are not deducted."""
    return 2 * prod(query.shape) * key.shape[-2]


def _recurrent_flop(args: Any) -> int:
    """Two for each weight, row and moment: input (moments, rows, width), two tables of weights."""
    moments, rows, _ = args[0].shape
    return 2 * moments * rows * sum(prod(table.shape) for table in args[1:3])
