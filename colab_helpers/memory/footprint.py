"""The memory of a training step, predicted by running it on tensors without data."""

from __future__ import annotations

import gc
import logging
import random
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import torch
from torch import nn
from torch.func import functional_call

from colab_helpers import _units
from colab_helpers.memory.state_rollback import ReachableState, containers, holders
from colab_helpers.memory.storage_tracker import StorageTracker, count_storages
from colab_helpers.memory.tracker_base import TraceError, tensor_bytes


@dataclass(frozen=True, repr=False)
class Footprint:
    """Bytes of one training step. `peak` is the most at one moment, not the sum of the parts.

    Attributes:
        parameters: Bytes of the model's parameters and buffers.
        gradients: Bytes of their gradients.
        optimizer_state: Bytes that the optimizer keeps.
        activations: What the forward pass leaves for the backward pass, the loss included.
        peak: The most bytes at one moment.
        assumed_reads: How often the step read a value that depends on data, and got one that was assumed.
            Where it decides between branches by such values, the real step may take the other one.
        uncounted: Operations that take memory beside their results, of which nobody knows how much.
    """

    parameters: int
    gradients: int
    optimizer_state: int
    activations: int
    peak: int
    assumed_reads: int = 0
    uncounted: tuple[str, ...] = ()

    @property
    def parts(self) -> dict[str, int]:
        """The four parts that last, by name."""
        return {
            "parameters": self.parameters,
            "gradients": self.gradients,
            "optimizer state": self.optimizer_state,
            "activations": self.activations,
        }

    def __str__(self) -> str:
        parts = ", ".join(
            f"{name} {_units.format_mib(count)}" for name, count in self.parts.items()
        )
        return f"{_units.format_mib(self.peak)} at the peak ({parts}){self.caveat}"

    __repr__ = __str__

    @property
    def caveat(self) -> str:
        """Say after a semicolon what a real step may do differently; "" if nothing is known."""
        reads, names = self.assumed_reads, " and ".join(self.uncounted)
        values = "1 value" if reads == 1 else f"{reads:,} values"
        said = (
            f"; {values} that the step read {'was' if reads == 1 else 'were'} assumed"
            if reads
            else ""
        )
        return said + (f"; not counted: what {names} take inside" if names else "")


def footprint(
    model: nn.Module,
    forward: Callable[[int], torch.Tensor],
    batch_size: int,
    optimizer: torch.optim.Optimizer | None,
    watch: Callable[[StorageTracker], AbstractContextManager] | None = None,
    foreach: bool | None = None,
) -> Footprint:
    """Return the bytes of a training step, without allocating or computing anything.

    The step runs with PyTorch's fake tensors, which have shapes and no data, and every storage is counted as
    in `track`. Real tensors that the step uses, such as a data set, don't count. Where the step reads a
    value, as `.item()` and `if` do, a float is 0.5, an integer 1 and a bool True, and comparisons are made
    with these; the result tells how often. Afterwards the model, the optimizer and the generators of PyTorch,
    Python and NumPy are as they were, and so is whatever else of yours the step has put a tensor into: a
    gradient scaler, a list of losses, a cached mask. Not included is what no framework knows beforehand:
    CUDA's context, the workspaces of its libraries, rounding to blocks.

    Source of the parts: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
    Models" (2020), section 3.

    Args:
        model: The model that is trained. One on PyTorch's "meta" device is taken as one on the CPU.
        forward: Called with the batch size, it makes a batch, runs `model` and returns the loss.
        batch_size: Examples per step.
        optimizer: An optimizer for parameters of `model` alone; None for inference, where `forward` runs
            once without gradients and may return anything.
        watch: Called with the tracker, it returns a context manager in which the counted step runs.
        foreach: True for the multi-tensor implementation, which PyTorch uses on CUDA and which costs memory;
            None is as on the model's own device.

    Returns:
        The bytes by part, and the peak.

    Raises:
        ValueError: `batch_size` is below 1.
        TraceError: A shape depends on values, the loss is not a scalar, trained parts are outside `model`,
            the step uses what no trace can (the message says what instead), or it keeps a fake tensor where
            it can't be taken away again, as a generator does (the message names the holder).

    >>> model = nn.Linear(100, 10)
    >>> loss = lambda batch_size: model(torch.zeros(batch_size, 100)).sum()
    >>> footprint(model, loss, 50, torch.optim.Adam(model.parameters())).parts
    {'parameters': 4040, 'gradients': 4040, 'optimizer state': 8088, 'activations': 20004}
    """
    if not isinstance(batch_size, Integral) or batch_size < 1:
        raise ValueError(f"batch_size must be a positive integer (got {batch_size!r}).")
    _check(model, optimizer)
    state = ReachableState(forward, model, optimizer)
    try:
        found, made = _trace(model, forward, batch_size, optimizer, watch or nullcontext, foreach)
    except TraceError:
        raise
    except Exception as error:
        error.add_note(
            "Raised while memory.footprint ran the step on tensors without data. If the step runs on "
            "real data, measure it with memory.track."
        )
        raise
    finally:  # after Ctrl-C too
        state.restore(_is_fake)
    _check_nothing_is_left(made, state)
    return found


def _trace(
    model: nn.Module,
    forward: Callable[[int], torch.Tensor],
    batch_size: int,
    optimizer: torch.optim.Optimizer | None,
    watch: Callable[[StorageTracker], AbstractContextManager],
    foreach: bool | None,
) -> tuple[Footprint, list[Any]]:
    """Run the step on fake tensors; return what it takes, and weak references to the tensors."""
    # Not public, so imported where it is used: the other tools work without it.
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
        FakeTensorMode,
    )

    from colab_helpers.memory.fake_tensor_corrections import (
        ExternalTensorMode,
        FakeTensorCorrectionMode,
        formatted_like_numbers,
        loader_workers_refused,
    )

    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    device = torch.device("cpu") if device.type == "meta" else device
    with (
        _random_state_kept(),
        _modules_kept(model, optimizer),
        quiet("torch._subclasses.fake_tensor"),
        formatted_like_numbers(),
        loader_workers_refused(),
        FakeTensorMode(allow_non_fake_inputs=True) as mode,
        FakeTensorCorrectionMode() as corrections,
    ):
        fakes = _fakes(model, mode)
        corrections.note(list(fakes.values()))
        fake = _fake_optimizer(optimizer, fakes, foreach) if optimizer else None
        outsiders = ExternalTensorMode(mode, corrections)
        stage = _Stage(model, forward, fake, device, fakes, outsiders, watch)
        named = {f"model.{name}": fakes[tensor] for name, tensor in _tensors_of(model)}
        try:
            found = functional_call(stage, named, (batch_size,), strict=False)
            return found, corrections.made
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            raise TraceError(
                f"This step has a data-dependent shape ({error}), and a trace has only shapes. "
                "Avoid boolean masks, nonzero and unique, or measure the step with memory.track."
            ) from error
        except RuntimeError as error:
            if "numpy() is not supported" not in str(error):
                raise
            raise TraceError(
                "The step converts a tensor to NumPy, and a trace has only shapes. Leave it out, or measure "
                "the step with memory.track."
            ) from error


def _is_fake(thing: Any) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(thing, FakeTensor)


def _check_nothing_is_left(made: list[Any], state: ReachableState) -> None:
    """Raise `TraceError` where a tensor of the trace is still alive, and name its holder."""
    if not _alive(made):
        return
    gc.collect()  # circles of objects
    if _alive(made):
        state.clear_caches()
        gc.collect()
    if left := _alive(made):
        # A kept loss also keeps its autograd graph, whose references Python can't see.
        held = (words for reference in reversed(left[-100:]) for words in holders(reference()))
        where = next(held, "a place that Python can't look into")
        raise TraceError(
            f"The step keeps a tensor of the trace in {where}. It has no data, and training with it "
            "would do nothing: make that object anew, and pass memory.footprint a step that keeps nothing, "
            "or measure the step with memory.track."
        )


def _alive(references: list[Any]) -> list[Any]:
    return [reference for reference in references if reference() is not None]


class _Stage(nn.Module):
    """Holds the model while fake tensors stand for its own, and runs the whole step there.

    The backward pass runs here too: activation checkpointing calls the model again in it.
    """

    def __init__(
        self,
        model: nn.Module,
        run: Callable[[int], torch.Tensor],
        optimizer: torch.optim.Optimizer | None,
        device: torch.device,
        fakes: dict[torch.Tensor, torch.Tensor],
        outsiders: Any,
        watch: Callable[[StorageTracker], AbstractContextManager],
    ):
        super().__init__()
        self.model = model
        self.run, self.optimizer, self.device = run, optimizer, device
        self.fakes, self.outsiders, self.watch = list(fakes.values()), outsiders, watch

    def forward(self, batch_size: int) -> Footprint:
        """Take a first step, which makes the optimizer's state, then count a second one."""
        if self.optimizer is None:
            return self._infer(batch_size)
        with self.outsiders:
            self._loss(batch_size).backward()
            self.optimizer.step()
        self._forget_gradients()
        state = [list(entry.values()) for entry in self.optimizer.state.values()]
        with (
            count_storages(self.device, known=[self.fakes, state]) as tracker,
            self.watch(tracker),
            self.outsiders,
        ):
            self._count_with(tracker)
            standing = tracker.allocated
            loss = self._loss(batch_size)
            activations = tracker.allocated - standing
            loss.backward()
            gradients = tensor_bytes([fake.grad for fake in self.fakes if fake.grad is not None])
            self.optimizer.step()
            peak = tracker.peak
        parameters, optimizer_state = tensor_bytes(self.fakes), tensor_bytes(state)
        return Footprint(
            parameters, gradients, optimizer_state, activations, peak, *self._caveats()
        )

    def _infer(self, batch_size: int) -> Footprint:
        with (
            torch.no_grad(),
            count_storages(self.device, known=self.fakes) as tracker,
            self.watch(tracker),
            self.outsiders,
        ):
            self._count_with(tracker)
            self.run(batch_size)
            peak = tracker.peak
        return Footprint(tensor_bytes(self.fakes), 0, 0, 0, peak, *self._caveats())

    def _count_with(self, tracker: StorageTracker) -> None:
        self.outsiders.tracker = self.outsiders.fakes.tracker = tracker
        self.outsiders.fakes.fake_scalars.reads = 0

    def _caveats(self) -> tuple[int, tuple[str, ...]]:
        fakes = self.outsiders.fakes
        return fakes.fake_scalars.reads, tuple(sorted(fakes.uncounted))

    def _loss(self, batch_size: int) -> torch.Tensor:
        loss = self.run(batch_size)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
            raise TraceError(
                f"forward({batch_size}) returned {_describe(loss)}: return the loss, one number that depends "
                "on the model's parameters."
            )
        return loss

    def _forget_gradients(self) -> None:
        for fake in self.fakes:
            fake.grad = None


def _tensors_of(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters and buffers by name; a tied one by each of its names."""
    yield from model.named_parameters(remove_duplicate=False)
    yield from model.named_buffers(remove_duplicate=False)


def _fakes(model: nn.Module, mode: Any) -> dict[torch.Tensor, torch.Tensor]:
    """A tensor without data for each parameter and buffer."""
    fakes: dict[torch.Tensor, torch.Tensor] = {}
    wholes: dict[Any, torch.Tensor] = {}  # storages of which a tensor is only a part
    for _, tensor in _tensors_of(model):
        if tensor not in fakes:
            fake = _part(tensor, mode, wholes)
            if fake is None:
                fake = _without_data(tensor.detach(), mode)
            trained = isinstance(tensor, nn.Parameter)
            fakes[tensor] = nn.Parameter(fake, tensor.requires_grad) if trained else fake
    return fakes


def _part(tensor: torch.Tensor, mode: Any, wholes: dict[Any, torch.Tensor]) -> torch.Tensor | None:
    """A view of a whole storage without data, where `tensor` is one; None for any other tensor."""
    plain = type(tensor) in (torch.Tensor, nn.Parameter) and tensor.layout == torch.strided
    if not plain or tensor.device.type == "meta":
        return None
    storage = tensor.untyped_storage()
    if storage.nbytes() <= tensor.nbytes:
        return None
    key = storage._cdata, tensor.dtype
    if key not in wholes:
        from torch._subclasses.fake_tensor import unset_fake_temporarily

        with unset_fake_temporarily():
            whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(storage)
        wholes[key] = mode.from_tensor(whole)
    return wholes[key].as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def _without_data(tensor: torch.Tensor, mode: Any) -> torch.Tensor:
    if tensor.device.type != "meta":
        return mode.from_tensor(tensor)
    from torch._subclasses.fake_tensor import FakeTensor

    return FakeTensor(mode, tensor, torch.device("cpu"))


def _fake_optimizer(
    optimizer: torch.optim.Optimizer, fakes: dict[torch.Tensor, torch.Tensor], foreach: bool | None
) -> torch.optim.Optimizer:
    """The same optimizer for the fake tensors, without state, hooks, or a scheduler's own `step`."""
    fake: Any = object.__new__(
        type(optimizer)
    )  # copying would leave a subclass's own attributes out
    vars(fake).update(vars(optimizer))
    vars(fake).pop("step", None)  # a scheduler's, which counts
    fake.state = defaultdict(dict)
    fake.param_groups = [_group(group, fakes, foreach) for group in optimizer.param_groups]
    for name in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"):
        setattr(fake, name, OrderedDict())
    return fake


def _group(
    group: dict[str, Any], fakes: dict[torch.Tensor, torch.Tensor], foreach: bool | None
) -> dict[str, Any]:
    own = {**group, "params": [fakes[p] for p in group["params"]]}
    # On CUDA, PyTorch defaults to the foreach implementation, but not for fake tensors.
    at_once = bool(own["params"]) and all(p.device.type == "cuda" for p in own["params"])
    wanted = at_once if foreach is None else foreach
    if wanted and group.get("foreach", False) is None and not group.get("fused"):
        own["foreach"] = True
    return own


def _check(model: nn.Module, optimizer: torch.optim.Optimizer | None) -> None:
    """Raise `TraceError` for what cannot be traced at all."""
    if not isinstance(model, nn.Module):
        kind = type(model).__name__
        raise TraceError(
            f"`model` is a {kind}. Give one module: nn.ModuleList([one, other]) holds several."
        )
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        kind = type(optimizer).__name__
        raise TraceError(
            f"`optimizer` is a {kind}. Give one optimizer that trains all parts, or None."
        )
    if isinstance(optimizer, torch.optim.LBFGS):
        raise TraceError("LBFGS computes its loss several times a step: use memory.track.")
    if any(nn.parameter.is_lazy(tensor) for _, tensor in _tensors_of(model)):
        raise TraceError(
            "The model has lazy layers, which take their shapes from a first batch: run one through "
            "it before."
        )
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        raise TraceError(
            "A TorchScript module cannot be traced: use the nn.Module that it was made from."
        )
    if optimizer is None:
        return
    inside = set(model.parameters())
    groups = optimizer.param_groups
    outside = sum(p not in inside for group in groups for p in group["params"])
    if outside:
        raise TraceError(
            f"{outside} parameters of the optimizer are not in `model`. Pass footprint a module that "
            "contains all trained parameters, such as nn.ModuleList([one, other])."
        )


@contextmanager
def quiet(logger: str) -> Iterator[None]:
    """Silence PyTorch's `logger`: before an error of the step it logs twenty lines."""
    log = logging.getLogger(logger)
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


@contextmanager
def _modules_kept(model: nn.Module, optimizer: torch.optim.Optimizer | None) -> Iterator[None]:
    """Put back what a step writes into its modules and its optimizer: caches, logs, gradients, rates."""
    places = containers([*map(vars, model.modules()), vars(optimizer) if optimizer else {}])
    try:
        yield
    finally:
        for place, before in places:
            place.write(place.holder, before)


@contextmanager
def _random_state_kept() -> Iterator[None]:
    """Every generator that a user's step may draw from is put back."""
    numpy = sys.modules.get("numpy")
    before = random.getstate()
    numpys = numpy.random.get_state() if numpy else None
    cuda = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=cuda):
        try:
            yield
        finally:
            random.setstate(before)
            if numpy:
                numpy.random.set_state(numpys)


def _describe(thing: Any) -> str:
    if isinstance(thing, torch.Tensor):
        return f"a tensor of shape {tuple(thing.shape)}, requires_grad={thing.requires_grad}"
    kind = type(thing).__name__
    return f"{'an' if kind[0].lower() in 'aeio' else 'a'} {kind}"
