"""What will a training step need? Parts by formula, and the worst moment of the step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

_REHEARSAL = (2, 4)  # rows; two batches give a straight line for every tensor that is saved


@dataclass(frozen=True)
class Footprint:
    """Bytes of one training step. `peak` is the worst moment, not the sum of the parts.

    `activations` is what the forward pass saves for the backward pass; `in_flight` the gradient of
    the largest layer's output, alive for a moment.
    """

    parameters: int
    gradients: int
    optimizer_state: int
    activations: int
    in_flight: int
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


@dataclass(frozen=True)
class _Saved:
    """One event of the forward pass: bytes saved for backward, then bytes of weights used."""

    activation: float
    weights: float


def footprint(
    model: nn.Module,
    forward: Callable[[int], torch.Tensor],
    batch: int,
    optimizer: torch.optim.Optimizer,
) -> Footprint:
    """Predict the bytes of a training step with `batch` rows, from two rehearsals with few rows.

    `forward(rows)` makes a batch, runs the model and returns the loss. Parameters, gradients and state
    follow from counts (state: momentum 1, Adam 2 numbers a weight). In the backward pass gradients
    fill up while activations drain, layer by layer; the optimiser's step adds its temporaries. The
    larger of the two is the peak. Layers that PyTorch runs as one operation (LSTM) count as one.
    Raises `ValueError` for an optimiser whose state is not known. Source of the parts: Rajbhandari et
    al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (2020), section 3.

    >>> model = nn.Linear(100, 10)
    >>> loss = lambda rows: model(torch.zeros(rows, 100)).sum()
    >>> footprint(model, loss, 50, torch.optim.Adam(model.parameters())).parts
    {'parameters': 4040, 'gradients': 4040, 'optimiser state': 8080, 'activations': 20000}
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    parameters = sum(_size(t) for t in (*model.parameters(), *model.buffers()))
    gradients = sum(map(_size, trained))
    slots, temporaries = _optimizer_needs(optimizer, trained)
    small, large = (_rehearse(model, forward, rows) for rows in _REHEARSAL)
    saved = _extrapolate(small[0], large[0], batch)
    in_flight = _line(small[1], large[1], batch)
    standing = parameters + slots * gradients
    backward = standing + _worst_of_backward(saved) + in_flight
    step = standing + gradients + temporaries
    return Footprint(
        parameters=parameters,
        gradients=gradients,
        optimizer_state=slots * gradients,
        activations=round(sum(event.activation for event in saved)),
        in_flight=round(in_flight),
        peak=round(max(backward, step)),
    )


def _worst_of_backward(saved: Sequence[_Saved]) -> float:
    """The most bytes of activations and gradients together, walking the layers backwards."""
    activations = sum(event.activation for event in saved)
    gradients = worst = 0.0
    for event in reversed(saved):
        gradients += event.weights
        worst = max(worst, activations + gradients)
        activations -= event.activation
    return worst


def _rehearse(
    model: nn.Module, forward: Callable[[int], torch.Tensor], rows: int
) -> tuple[list[_Saved], int]:
    """Run one forward pass; return what it saves, in order, and the largest layer output's bytes."""
    weights = {p.untyped_storage()._cdata for p in model.parameters()}
    held: dict[int, torch.Tensor] = {}  # alive until the end, so that no address comes twice
    events: list[_Saved] = []
    largest = 0

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        key = tensor.untyped_storage()._cdata
        if key not in weights and key not in held:
            held[key] = tensor
            events.append(_Saved(tensor.untyped_storage().nbytes(), 0))
        return tensor

    def after(layer: nn.Module, _: object, output: object) -> None:
        nonlocal largest
        own = sum(_size(p) for p in layer.parameters(recurse=False) if p.requires_grad)
        events.append(_Saved(0, own))
        first = output[0] if isinstance(output, tuple) else output
        if isinstance(first, torch.Tensor):
            largest = max(largest, _size(first))

    hooks = [layer.register_forward_hook(after) for layer in model.modules()]
    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            forward(rows)
    finally:
        for hook in hooks:
            hook.remove()
    return events, largest


def _extrapolate(small: Sequence[_Saved], large: Sequence[_Saved], batch: int) -> list[_Saved]:
    if len(small) != len(large):
        raise ValueError(
            f"The forward pass saved {len(small)} things for {_REHEARSAL[0]} rows and {len(large)} for "
            f"{_REHEARSAL[1]}: it works in another way for another batch, and no line fits."
        )
    return [
        _Saved(_line(a.activation, b.activation, batch), a.weights)
        for a, b in zip(small, large, strict=True)
    ]


def _line(first: float, second: float, batch: int) -> float:
    low, high = _REHEARSAL
    return first + (second - first) / (high - low) * (batch - low)


def _optimizer_needs(
    optimizer: torch.optim.Optimizer, trained: Sequence[torch.Tensor]
) -> tuple[int, int]:
    """Numbers kept for each weight, and bytes of temporaries in a step."""
    sizes = list(map(_size, trained))
    groups = optimizer.param_groups
    on_cuda = bool(trained) and trained[0].device.type == "cuda"
    # All weights at once (foreach, usual on CUDA) makes temporaries for all; fused makes none.
    at_once = any(on_cuda if g.get("foreach") is None else g["foreach"] for g in groups)
    fused = any(g.get("fused") for g in groups)
    decays = any(g.get("weight_decay") for g in groups) and not isinstance(
        optimizer, torch.optim.AdamW
    )  # the gradient plus a share of the weight is one more temporary
    largest = max(sizes, default=0)
    if isinstance(optimizer, torch.optim.SGD):
        temporaries = decays * (sum(sizes) if at_once else largest)
        return int(any(g["momentum"] for g in groups)), 0 if fused else temporaries
    if isinstance(optimizer, torch.optim.Adam | torch.optim.AdamW):
        temporaries = sum(sizes) if at_once else (2 + decays) * largest
        return 2 + any(g["amsgrad"] for g in groups), 0 if fused else temporaries
    raise ValueError(
        f"How many numbers {type(optimizer).__name__} keeps for each weight is not known here; "
        "known are SGD, Adam and AdamW."
    )


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
