"""The operations of a step, counted while it runs on tensors without data."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from colab_helpers import _units
from colab_helpers.memory.allocator import Allocator, Block
from colab_helpers.memory.footprint import Footprint, footprint, quiet
from colab_helpers.memory.storage_tracker import Change, StorageTracker, written_arguments
from colab_helpers.memory.tracker_base import tensors_in

#: Names of number formats, as data sheets have them.
_FORMATS = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
}
#: Gather-like operations: count only the rows that are read.
_LOOK_UPS = (
    "embedding", "_embedding_bag", "index", "index_select", "gather", "nll_loss_forward",
    "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class TracedOp:
    """One kind of call: which operation, on which shapes, and how often in a step.

    `flops` and `bytes_accessed` (bytes read and written) are of one call; `format` is the number format of
    its first floating-point tensor, "" where there is none.
    """

    name: str
    count: int
    flops: int
    bytes_accessed: int
    format: str

    @property
    def family(self) -> str:
        """Say what it mostly is: "matmuls", "convolutions", "attention", "recurrent" or "the rest"."""
        if "convolution" in self.name:
            return "convolutions"
        if "attention" in self.name:
            return "attention"
        if "rnn" in self.name:
            return "recurrent"
        return "matmuls" if self.flops else "the rest"


@dataclass(frozen=True, repr=False)
class StepTrace:
    """What a step does: bytes by part, operations, and every allocation, release and resize in order.

    The `changes` begin with what is there before the step. `device` is the kind of device the model is on.
    """

    batch_size: int
    footprint: Footprint
    operations: tuple[TracedOp, ...]
    changes: tuple[Change, ...]
    device: str

    @property
    def flops(self) -> int:
        """Floating-point operations of the step: matmuls, convolutions, attention, recurrent layers."""
        return sum(one.count * one.flops for one in self.operations)

    @property
    def bytes_accessed(self) -> int:
        """Bytes read and written by all operations, as if each began with empty caches."""
        return sum(one.count * one.bytes_accessed for one in self.operations)

    @property
    def num_ops(self) -> int:
        """Number of operations that compute or copy, views excluded."""
        return sum(one.count for one in self.operations)

    def replay(self, card: Allocator) -> int:
        """Run this step's allocations on `card`; return the peak of its reserved bytes.

        Rounding, pools and fragmentation are as in CUDA's own allocator.

        Raises:
            OutOfMemoryError: The step does not fit.
        """
        held: dict[int, Block] = {}
        for change in self.changes:
            before = held.pop(change.storage, None)
            size = change.bytes + (before.requested if before else 0)
            if size:
                held[change.storage] = card.allocate(size)
            if before:
                card.free(before)
        return card.counts["reserved"].peak

    def __str__(self) -> str:
        return (
            f"{_units.format_si(self.flops, 'FLOP')}, {_units.format_si(self.bytes_accessed, 'B')} moved by "
            f"{self.num_ops:,} operations, {self.footprint}"
        )

    __repr__ = __str__


def trace_step(
    model: nn.Module,
    forward: Callable[[int], Any],
    batch_size: int,
    optimizer: torch.optim.Optimizer | None,
    foreach: bool | None = None,
) -> StepTrace:
    """Return the operations and allocations of one step, without allocating or computing anything.

    FLOP are PyTorch's own count (`torch.utils.flop_counter`). Attention and recurrent layers on a CPU, which
    it doesn't know, count two per multiply-add.

    Args:
        model: The model that is trained, as in `memory.footprint`.
        forward: Called with the batch size, it returns the loss.
        batch_size: Examples per step.
        optimizer: None for inference.
        foreach: True for what PyTorch does on CUDA.

    Raises:
        ValueError, TraceError: As in `memory.footprint`.

    >>> model = nn.Linear(100, 10)
    >>> loss = lambda batch_size: model(torch.zeros(batch_size, 100)).sum()
    >>> work = trace_step(model, loss, 50, torch.optim.SGD(model.parameters()))
    >>> work.flops, work.footprint.parameters
    (200000, 4040)
    """
    recorder = _Recorder()
    found = footprint(model, forward, batch_size, optimizer, recorder.beside, foreach)
    parameters = next(model.parameters(), None)
    device = "cpu" if parameters is None or parameters.is_meta else parameters.device.type
    return StepTrace(batch_size, found, recorder.operations(), tuple(recorder.changes), device)


class _Recorder(TorchDispatchMode):
    """Writes down each operation, and keeps the changes of the tracker beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[Change] = []
        self._kinds: dict[tuple, TracedOp] = {}
        self._counts: Counter[tuple] = Counter()

    def beside(self, tracker: StorageTracker) -> _Recorder:
        """Record while `tracker` counts."""
        self.changes = tracker.changes
        return self

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
        new = [t for t in tensors_in(result) if t.untyped_storage()._cdata not in before]
        if (new and "empty" not in function._schema.name) or function._schema.is_mutable:
            self._count(function, args, kwargs, result, given, new)
        return result

    def _count(
        self, function: Any, args: Any, kwargs: Any, result: Any, given: list, new: list
    ) -> None:
        leaves, structure = tree_flatten((args, kwargs))
        key = (function, repr([_shape(leaf) for leaf in leaves]), structure)
        self._counts[key] += 1
        if key in self._kinds:
            return
        name = function._schema.name.partition("::")[2]
        read = new if name in _LOOK_UPS else given
        written = list(tensors_in(written_arguments(function, args, kwargs)))
        formats = [_FORMATS[tensor.dtype] for tensor in given if tensor.dtype in _FORMATS]
        self._kinds[key] = TracedOp(
            name=name,
            count=0,  # known at the end
            flops=_flop(function, args, kwargs, result),
            bytes_accessed=sum(_bytes_of(tensor) for tensor in [*read, *new, *written]),
            format=formats[0] if formats else "",
        )

    def operations(self) -> tuple[TracedOp, ...]:
        """Return what was seen, equal calls as one."""
        return tuple(replace(one, count=self._counts[key]) for key, one in self._kinds.items())


def _shape(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return tuple(leaf.shape), leaf.stride(), leaf.dtype
    return leaf


def _bytes_of(tensor: torch.Tensor) -> int:
    """Bytes that passing over a tensor moves: one that repeats a few numbers has only those."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


@functools.cache
def _formulas() -> Mapping[Any, Callable[..., Any]]:
    """PyTorch's own formulas for FLOP, by operation."""
    # Without Triton it warns that it cannot count Triton's kernels, which no trace sees.
    with quiet("torch.utils.flop_counter"):
        # Not public under this name, so imported where it is used.
        from torch.utils.flop_counter import flop_registry
    return flop_registry


def _flop(function: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> int:
    if function is torch.ops.aten.convolution_backward.default:
        return _convolution_backward_flop(args)
    formula = _formulas().get(function._overloadpacket)
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
    gradient, inputs, weight, _, *how = args[:8]
    forward = _formulas()[torch.ops.aten.convolution]
    once = forward(inputs, weight, None, *how, out_val=gradient)
    return int(once) * sum(args[10][:2])


def _scores_flop(query: torch.Tensor, key: torch.Tensor) -> int:
    """Two for each pair of query and key, and width of a head; masked pairs are not deducted."""
    return 2 * prod(query.shape) * key.shape[-2]


def _recurrent_flop(args: Any) -> int:
    """Two for each weight, sequence and position: input (seq_len, batch, width), two tables of weights."""
    seq_len, batch, _ = args[0].shape
    return 2 * seq_len * batch * sum(prod(table.shape) for table in args[1:3])
