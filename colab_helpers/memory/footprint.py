"""What will a training step need? The step itself, rehearsed with tensors that have no data."""

from __future__ import annotations

import copy
import random
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.func import functional_call

from colab_helpers import _units
from colab_helpers.memory.meter import tensor_bytes
from colab_helpers.memory.storages import count_storages

#: Where a module keeps what it was given.
_REGISTERS = ("_parameters", "_buffers", "_modules")


class RehearsalError(ValueError):
    """The step cannot be rehearsed: which line stands in the way, and what to do."""


@dataclass(frozen=True, repr=False)
class Footprint:
    """Bytes of one training step. `peak` is the worst moment, not the sum of the parts.

    `activations` is what the forward pass leaves for the backward pass, the loss included.
    """

    parameters: int
    gradients: int
    optimizer_state: int
    activations: int
    peak: int

    @property
    def parts(self) -> dict[str, int]:
        """The four parts that last, by name."""
        return {
            "parameters": self.parameters,
            "gradients": self.gradients,
            "optimiser state": self.optimizer_state,
            "activations": self.activations,
        }

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {_units.mib(count)}" for name, count in self.parts.items())
        return f"{_units.mib(self.peak)} at most ({parts})"

    __repr__ = __str__


def footprint(
    model: nn.Module,
    forward: Callable[[int], torch.Tensor],
    batch: int,
    optimizer: torch.optim.Optimizer,
) -> Footprint:
    """Return the bytes of a training step with `batch` rows, without allocating or computing any.

    `forward(rows)` makes a batch, runs `model` and returns the loss. It runs with PyTorch's fake
    tensors, which have shapes and no data, and every storage is counted as in `track`; so does
    `optimizer`, with a state of its own. Where the step asks for a value, as `.item()` does, it reads
    1. The model, the optimiser and all random generators are
    afterwards as they were. What no framework tells beforehand is not in it: CUDA's context, the
    workspaces of its libraries, rounding to blocks. Raises `ValueError` for a batch below 1, and
    `RehearsalError` for a step whose shapes depend on values, or a loss that is no number.
    Source of the parts: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion
    Parameter Models" (2020), section 3.

    >>> model = nn.Linear(100, 10)
    >>> loss = lambda rows: model(torch.zeros(rows, 100)).sum()
    >>> footprint(model, loss, 50, torch.optim.Adam(model.parameters())).parts
    {'parameters': 4040, 'gradients': 4040, 'optimiser state': 8088, 'activations': 20004}
    """
    if not isinstance(batch, int) or batch < 1:
        raise ValueError(f"batch is {batch!r}: give a number of rows, 1 or more.")
    # Not public, so imported where it is used: the other tools work without it.
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
        FakeTensorMode,
    )

    from colab_helpers.memory.stand_ins import StandIns

    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    with (
        _random_state_kept(),
        _modules_kept(model),
        FakeTensorMode(allow_non_fake_inputs=True) as mode,
        StandIns(),
    ):
        fakes = _fakes(model, mode)
        stage = _Stage(model, forward, _twin(optimizer, fakes), device, fakes)
        named = {f"model.{name}": fakes[tensor] for name, tensor in _tensors_of(model)}
        try:
            return functional_call(stage, named, (batch,), strict=False)
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            raise RehearsalError(
                f"A shape in this step depends on values ({error}), and a rehearsal has only shapes. "
                "Leave out boolean masks, nonzero and unique, or measure the step with memory.track."
            ) from error


class _Stage(nn.Module):
    """Holds the model while fake tensors stand for its own, and runs the whole step there.

    The backward pass runs here too: activation checkpointing calls the model again in it.
    """

    def __init__(
        self,
        model: nn.Module,
        run: Callable[[int], torch.Tensor],
        optimizer: torch.optim.Optimizer,
        device: torch.device,
        fakes: dict[torch.Tensor, torch.Tensor],
    ):
        super().__init__()
        self.model = model
        self.run, self.optimizer, self.device = run, optimizer, device
        self.fakes = list(fakes.values())

    def forward(self, rows: int) -> Footprint:
        """Take a first step, which makes the optimiser's state, then count a second one."""
        self._loss(rows).backward()
        self.optimizer.step()
        self._forget_gradients()
        state = [list(entry.values()) for entry in self.optimizer.state.values()]
        with count_storages(self.device, known=[self.fakes, state]) as meter:
            standing = meter.live
            loss = self._loss(rows)
            activations = meter.live - standing
            loss.backward()
            gradients = tensor_bytes([fake.grad for fake in self.fakes if fake.grad is not None])
            self.optimizer.step()
            peak = meter.peak
        return Footprint(
            parameters=tensor_bytes(self.fakes),
            gradients=gradients,
            optimizer_state=tensor_bytes(state),
            activations=activations,
            peak=peak,
        )

    def _loss(self, rows: int) -> torch.Tensor:
        loss = self.run(rows)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
            raise RehearsalError(
                f"forward({rows}) returned {_describe(loss)}: return the loss, one number that depends "
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
    """A stand-in without data for each parameter and buffer."""
    fakes: dict[torch.Tensor, torch.Tensor] = {}
    for _, tensor in _tensors_of(model):
        if tensor not in fakes:
            fake = mode.from_tensor(tensor.detach())
            trained = isinstance(tensor, nn.Parameter)
            fakes[tensor] = nn.Parameter(fake, tensor.requires_grad) if trained else fake
    return fakes


def _twin(
    optimizer: torch.optim.Optimizer, fakes: dict[torch.Tensor, torch.Tensor]
) -> torch.optim.Optimizer:
    """The same optimiser for the stand-ins, without state, hooks, or a scheduler's own `step`."""
    twin: Any = copy.copy(optimizer)  # Optimizer.__getstate__ leaves hooks and patches out
    twin.state = defaultdict(dict)
    twin.param_groups = [_group(group, fakes) for group in optimizer.param_groups]
    for name in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"):
        setattr(twin, name, OrderedDict())
    return twin


def _group(group: dict[str, Any], fakes: dict[torch.Tensor, torch.Tensor]) -> dict[str, Any]:
    own = {**group, "params": [fakes[p] for p in group["params"] if p in fakes]}
    # PyTorch would take its way for all weights at once on CUDA, but not for tensors of this kind.
    on_cuda = bool(own["params"]) and all(p.device.type == "cuda" for p in own["params"])
    if on_cuda and group.get("foreach", False) is None and not group.get("fused"):
        own["foreach"] = True
    return own


@contextmanager
def _modules_kept(model: nn.Module) -> Iterator[None]:
    """What a forward pass writes into its modules, such as a cache, is put back."""
    kept = [(module, dict(vars(module))) for module in model.modules()]
    inner = [dict(vars(module)[name]) for module, _ in kept for name in _REGISTERS]
    try:
        yield
    finally:
        for module, attributes in kept:
            vars(module).clear()
            vars(module).update(attributes)
        registers = (vars(module)[name] for module, _ in kept for name in _REGISTERS)
        for register, content in zip(registers, inner, strict=True):
            register.clear()
            register.update(content)


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
    return f"a {type(thing).__name__}"
