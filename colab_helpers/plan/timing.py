"""The time of a step that has not run: each of its operations is timed alone."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_unflatten

from colab_helpers import _units, benchmark
from colab_helpers.plan import accuracy
from colab_helpers.plan.trace import Operation, Shape, StepTrace

#: Numbers in the chain that tells what recording a step for the backward pass costs.
_CHAIN = 200


@dataclass(frozen=True, repr=False)
class TimedAlone:
    """Seconds of a step's operations, each timed alone, and what PyTorch adds to each call.

    `alone` has (operation, seconds of one call) for each kind of call, `recording` is seconds a call.
    """

    alone: tuple[tuple[Operation, float], ...]
    recording: float

    @property
    def seconds(self) -> float:
        """The sum over the whole step."""
        return sum(one.count * (each + self.recording) for one, each in self.alone)

    @property
    def planned(self) -> float:
        """Seconds to plan with: a step takes longer than its parts, by the factor of `accuracy.longer`."""
        return self.seconds * accuracy.longer()[1]

    def families(self) -> dict[str, float]:
        """Return the seconds of each family of operations, the longest first."""
        table: dict[str, float] = {}
        for one, each in self.alone:
            table[one.family] = table.get(one.family, 0.0) + one.count * (each + self.recording)
        return dict(sorted(table.items(), key=lambda entry: entry[1], reverse=True))

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {_units.seconds(s)}" for name, s in self.families().items())
        return f"{_units.seconds(self.planned)} (operations alone: {parts})"

    __repr__ = __str__


def time_alone(
    work: StepTrace, device: torch.device | str | None = None, budget: float = 4.0
) -> TimedAlone:
    """Return how long the step of `work` should take on `device`, from each of its operations alone.

    Equal calls are timed once, on tensors of the same shapes, so a network of many like layers is timed
    without holding it: the largest operation has to fit, not the step. What operations do to each other,
    in caches and queues, is not seen. `budget` seconds are shared out among the operations; each takes
    five calls at least. `device` is the model's own kind of device when left out. Errors of an operation
    are raised.

    >>> model = torch.nn.Linear(64, 64)
    >>> from colab_helpers.plan import trace_step
    >>> work = trace_step(model, lambda batch_size: model(torch.zeros(batch_size, 64)), 8, None)
    >>> 0 < time_alone(work, budget=0.1).seconds < 1
    True
    """
    place = torch.device(device or work.device)
    share = max(1e-3, budget / max(1, len(work.operations)))
    gc.collect()
    gc.freeze()  # each measurement collects garbage first: among few objects that is quick
    try:
        with torch.no_grad():
            alone = tuple((one, _seconds_of(one, place, share)) for one in work.operations)
        recording = _recording(place) if work.footprint.gradients else 0.0
    finally:
        gc.unfreeze()
    return TimedAlone(alone, recording)


def _seconds_of(operation: Operation, device: torch.device, budget: float) -> float:
    # A number that an operation changes in place must not shrink until it is slow: NaN stays what it is.
    fill = float("nan") if operation.function._schema.is_mutable else 0.5
    given = [_real(leaf, device, fill) for leaf in operation.arguments]
    args, kwargs = tree_unflatten(given, operation.structure)
    call = lambda: operation.function(*args, **kwargs)  # noqa: E731
    return benchmark.measure(call, budget=budget, name=operation.name).median


def _real(leaf: Any, device: torch.device, fill: float) -> Any:
    """A tensor of that shape, with room between its numbers where the strides leave some."""
    if not isinstance(leaf, Shape):
        return device if isinstance(leaf, torch.device) else leaf
    pairs = zip(leaf.sizes, leaf.strides, strict=True)
    length = 1 + sum((size - 1) * stride for size, stride in pairs) if all(leaf.sizes) else 0
    flat = torch.zeros(length, dtype=leaf.dtype, device=device)
    if leaf.dtype.is_floating_point:
        flat.fill_(fill)
    return flat.as_strided(leaf.sizes, leaf.strides)


def _recording(device: torch.device) -> float:
    """Seconds that a call costs more in a step that is recorded for the backward pass, than alone."""

    def chain(trained: bool) -> None:
        x = torch.ones(1, device=device, requires_grad=trained)
        y = x
        for _ in range(_CHAIN):
            y = y * 1.5
        if trained:
            y.backward()

    alone = benchmark.measure(lambda: chain(False), budget=0.1).median
    recorded = benchmark.measure(lambda: chain(True), budget=0.1).median
    return max(0.0, recorded - 2 * alone) / (2 * _CHAIN)
