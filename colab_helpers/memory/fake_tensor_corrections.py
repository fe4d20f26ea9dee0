"""Corrections for what FakeTensorMode does not model.

There are four: real tensors that a step uses are converted; a step that asks for a value gets one; operations
that refuse tensors without data get some; and what oneDNN's LSTM keeps for the backward pass on a CPU, and
allocates in it, is counted, from what the layer itself takes for a few rows.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import accumulate
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    unset_fake_temporarily,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map

from colab_helpers.memory.fake_scalars import EQUAL, READ, FakeScalar, FakeScalars
from colab_helpers.memory.tracker_base import TraceError
from colab_helpers.runtime import capture_stderr

_RECURRENT = torch.ops.aten.mkldnn_rnn_layer.default
_RECURRENT_BACKWARD = torch.ops.aten.mkldnn_rnn_layer_backward.default
#: Rows of two small runs: the workspace grows in proportion to the rows, rounded up to pages.
_FEW, _MORE = 16, 48
#: Operations whose fake-tensor kernel rejects inputs that the real one accepts. cuDNN's recurrent layer
#: wants a buffer of weights that fake ones don't have.
_STRICTER = ("_cudnn_rnn", "_grouped_mm", "_scaled_grouped_mm", "_scaled_mm")


class FakeTensorCorrectionMode(TorchDispatchMode):
    """Returns a value when the step reads one, and counts what kernels take for themselves.

    What a step makes on "meta" is made on the CPU, where its model is taken to be. `made` are all tensors
    that operations returned; `uncounted` names operations that take memory which nobody knows.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fake_scalars = FakeScalars()
        self.made: list[weakref.ref] = []
        self.uncounted: set[str] = set()
        self.tracker: Any = None  # the one that counts, while it does

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if getattr(kwargs.get("device"), "type", "") == "meta":  # as its model: taken for the CPU's
            kwargs["device"] = torch.device("cpu")
        if function is READ:
            return self.fake_scalars.read(args[0])
        if function is EQUAL:
            return self.fake_scalars.equal(*args[:2])
        try:
            result = function(*args, **kwargs)
        except (UnsupportedFakeTensorException, UnsupportedOperatorException) as error:
            raise _refused(function, error) from error
        except RuntimeError as error:
            if function._schema.name.partition("::")[2] not in _STRICTER:
                raise
            raise _refused(function, error) from error
        if function is _RECURRENT:
            *outputs, workspace = result
            result = (*outputs, workspace.new_empty(_workspace_bytes(args)))
        elif function is _RECURRENT_BACKWARD:
            self._pass(result, _scratch_bytes(args))
        self._see(function, args, kwargs, result)
        return result

    def note(self, tensors: Any) -> None:
        """Remember tensors without data, so that those that stay alive can be found."""
        found = (t for t in tree_iter(tensors) if isinstance(t, FakeTensor))
        self.made += (weakref.ref(tensor) for tensor in found)

    def _see(self, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        self.fake_scalars.follow(function, args, kwargs, result)
        self.note(result)
        given = (t for t in tree_iter((args, kwargs)) if isinstance(t, torch.Tensor))
        name = function._schema.name.partition("::")[2]
        if "convolution" in name:
            self.uncounted.add("convolutions")
        if name.endswith("mm") and any(t.layout != torch.strided for t in given):
            self.uncounted.add("products of sparse tensors")

    def _pass(self, result: Any, bytes: int) -> None:
        """Count scratch memory, which a kernel frees before it returns `result`."""
        if self.tracker is not None and bytes > 0:
            self.tracker.register(result)
            first = next(t for t in tree_iter(result) if isinstance(t, torch.Tensor))
            self.tracker.register(first.new_empty(bytes, dtype=torch.uint8))


def _refused(function: Any, error: Exception) -> TraceError:
    why = str(error).splitlines()[0]
    where = ", or trace it with the model on the CPU" if "cudnn" in function._schema.name else ""
    return TraceError(
        f"{function._schema.name} doesn't run on tensors without data ({why}). The real step may run: "
        f"measure it with memory.track{where}."
    )


@contextmanager
def formatted_like_numbers() -> Iterator[None]:
    """Let `f"{loss:.3f}"` print what `loss.item()` gives, as for a real tensor."""

    def format_number(tensor: FakeTensor, how: str) -> str:
        return format(tensor.item(), how) if tensor.dim() == 0 else object.__format__(tensor, how)

    FakeTensor.__format__ = format_number  # type: ignore
    try:
        yield
    finally:
        del FakeTensor.__format__  # that of Tensor is back


@contextmanager
def loader_workers_refused() -> Iterator[None]:
    """Refuse loaders with workers before a worker starts, or a batch that is wanted later is taken."""
    from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter as Loader

    def refuse(loader: Any, *_: Any) -> None:
        vars(loader).setdefault("_shutdown", True)  # one that never started has nothing to end
        raise TraceError(
            "The step reads a DataLoader with workers, and a trace's tensors can't pass between processes. "
            "Make the batch in the step, as with torch.randint(...), or use num_workers=0 for the trace."
        )

    before = Loader.__init__, Loader._next_data
    Loader.__init__ = Loader._next_data = refuse  # type: ignore
    try:
        yield
    finally:
        Loader.__init__, Loader._next_data = before  # type: ignore


class ExternalTensorMode(TorchDispatchMode):
    """Puts fake tensors in the place of real ones that a step uses: a data set, a mask, a frozen model.

    So nothing writes to them, and they do not count: they are there already. A real tensor that is
    trained would get a fake gradient, and is refused.
    """

    def __init__(self, mode: FakeTensorMode, fakes: FakeTensorCorrectionMode):
        super().__init__()
        self.mode, self.fakes = mode, fakes
        self.tracker: Any = None  # the one that counts, while it does

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is READ and not isinstance(args[0], FakeTensor):
            with unset_fake_temporarily():
                return args[0].item()
        inside, named = tree_map(self._fake, (args, kwargs or {}))
        return function(*inside, **named)

    def _fake(self, thing: Any) -> Any:
        if not isinstance(thing, torch.Tensor) or isinstance(thing, FakeTensor):
            return thing
        if thing.requires_grad and torch.is_grad_enabled():
            raise TraceError(
                f"The step trains a tensor of shape {tuple(thing.shape)} that is not in `model`. Pass "
                "footprint a module with all trained parameters, such as nn.ModuleList([one, other])."
            )
        fake = self.mode.from_tensor(thing.detach() if thing.requires_grad else thing)
        self.fakes.note(fake)
        if thing.numel() == 1 and thing.layout == torch.strided:
            with unset_fake_temporarily():
                self.fakes.fake_scalars.note(fake, FakeScalar(thing.item(), assumed=False))
        if self.tracker is not None:
            self.tracker.register(fake, counted=False)
        return fake


def _workspace_bytes(args: tuple) -> int:
    """Bytes that a layer with these arguments keeps; the first is (length, rows, features)."""
    shapes, settings = [tuple(t.shape) for t in args[:7]], args[7:]
    return _for_rows(_kept_by_layer, shapes, (settings, torch.is_grad_enabled()))


def _scratch_bytes(args: tuple) -> int:
    """Bytes that the backward pass of a layer takes beside its results."""
    shapes = [tuple(t.shape) for t in args[:7]]
    reverse, mode, hidden, layers, biases, train, both, sizes, batch_first = args[13:22]
    settings = (reverse, sizes, mode, hidden, layers, biases, both, batch_first, train)
    # What is missing it makes itself, and what lies in another order it copies.
    grads = tuple(None if one is None else one.is_contiguous() for one in args[10:13])
    return _for_rows(_taken_by_backward, shapes, (settings, args[0].is_contiguous(), grads))


def _for_rows(measured: Callable[..., int], shapes: list[tuple], settings: tuple) -> int:
    """What `measured` gives for as many rows as `shapes` have, from two runs with few."""
    length, rows, features = shapes[0]

    def of(some: int) -> int:
        states = [(*shape[:-2], some, shape[-1]) for shape in shapes[5:7]]
        fewer = ((length, some, features), *shapes[1:5], *states)
        return measured(fewer, _frozen(settings))

    if rows <= _MORE:
        return of(rows)
    few, more = of(_FEW), of(_MORE)
    return round(few + (more - few) / (_MORE - _FEW) * (rows - _FEW))


def _frozen(thing: Any) -> Any:
    return tuple(map(_frozen, thing)) if isinstance(thing, list | tuple) else thing


@cache
def _kept_by_layer(shapes: tuple, settings: tuple) -> int:
    """Run the real layer once, and see what it keeps: far less where there are no gradients."""
    layer, training = settings
    with unset_fake_temporarily(), torch.set_grad_enabled(training):
        *_, workspace = _RECURRENT(*(torch.zeros(shape) for shape in shapes), *layer)
        return workspace.untyped_storage().nbytes() if workspace is not None else 0


@cache
def _taken_by_backward(shapes: tuple, settings: tuple) -> int:
    """Run the real layer once forward and backward, and see how much more than its results it takes."""
    from torch.profiler import ProfilerActivity, profile

    layer, in_order, grads_in_order = settings
    reverse, sizes, mode, hidden, layers, biases, both, batch_first, train = layer
    with unset_fake_temporarily(), torch.enable_grad():
        given = [_zeros(shapes[0], in_order), *(torch.zeros(shape) for shape in shapes[1:])]
        *outputs, workspace = _RECURRENT(*given, *layer)
        grads = [
            None if order is None else _zeros(one.shape, order)
            for one, order in zip(outputs, grads_in_order, strict=True)
        ]
        cpu = [ProfilerActivity.CPU]
        with capture_stderr(), profile(activities=cpu, profile_memory=True) as seen:
            results = _RECURRENT_BACKWARD(
                *given, *outputs, *grads, reverse, mode, hidden, layers, biases, train, both, sizes,
                batch_first, workspace,
            )  # fmt: skip
        events = seen.profiler.kineto_results.events()
        in_time = sorted(events, key=lambda event: event.start_ns())
        peak = max(accumulate((event.nbytes() for event in in_time), initial=0))
        return max(0, peak - sum(t.nbytes for t in results))


def _zeros(shape: tuple, in_order: bool) -> torch.Tensor:
    """Zeros of `shape`, in memory with the first two axes exchanged unless they are `in_order`."""
    if in_order:
        return torch.zeros(shape)
    return torch.zeros(shape[1], shape[0], *shape[2:]).transpose(0, 1)
