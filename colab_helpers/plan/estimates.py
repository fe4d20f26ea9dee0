"""A step on each of Colab's machines: fits or not, seconds, compute units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from colab_helpers import chip_throughput, platform_facts
from colab_helpers.hardware import Chip, catalog
from colab_helpers.hardware.memory_overheads import overheads
from colab_helpers.memory.allocator import Allocator, OutOfMemoryError
from colab_helpers.plan import estimate_accuracy
from colab_helpers.plan.step_trace import StepTrace, TracedOp

#: More than any card has: what a step would reserve, if it could.
_ENDLESS = 2**50


@dataclass(frozen=True)
class Estimate:
    """Predicted memory, time and cost of a step on one machine.

    Attributes:
        menu_name: The machine's name in Colab's menu.
        chip: Its data sheet.
        fits: Whether the step fits into its memory.
        reserved_bytes: What the step reserves at the peak, with `overheads`.
        low: Seconds per step in the best case; infinite where the chip lacks the number format.
        high: Seconds per step in the worst case.
        units_per_hour: Compute units per hour; None if unknown.
        free: Whether the free tier has it.
        note: What differs on this machine.
    """

    menu_name: str
    chip: Chip
    fits: bool
    reserved_bytes: int
    low: float
    high: float
    units_per_hour: float | None
    free: bool
    note: str = ""

    @property
    def capacity_bytes(self) -> int:
        """The chip's memory in bytes, by its driver or its data sheet."""
        return self.chip.usable_memory

    def hours(self, steps: int) -> tuple[float, float]:
        """Return the hours that `steps` steps take, at least and at most."""
        return steps * self.low / 3600, steps * self.high / 3600

    def units(self, steps: int) -> tuple[float, float] | None:
        """Return the compute units that `steps` steps burn, at least and at most; None where not known."""
        if self.units_per_hour is None or not math.isfinite(self.high):
            return None
        least, most = self.hours(steps)
        return least * self.units_per_hour, most * self.units_per_hour


def estimates(work: StepTrace, chips: Sequence[str] = ()) -> list[Estimate]:
    """Return the predicted memory, time and cost of a step on each of Colab's accelerators.

    `work` should be traced with `foreach=True`, as PyTorch trains on CUDA. `chips` are keys of
    `hardware.catalog()`; all of Colab's menu when left out. Whether it fits is the verdict of
    `memory.Allocator`, with CUDA's rules and `overheads`. The seconds are those of `seconds_on`. On a
    TPU, whose compiler decides for itself, the peak is taken for what is reserved. Raises KeyError for a
    chip that is not in the catalog.

    >>> from colab_helpers.plan import trace_step
    >>> import torch
    >>> model = torch.nn.Linear(1000, 1000)
    >>> work = trace_step(model, lambda batch_size: model(torch.zeros(batch_size, 1000)), 8, None)
    >>> [estimate.fits for estimate in estimates(work, ["T4", "v5e"])]
    [True, True]
    """
    menu = platform_facts.machine_table().by_chip
    table = []
    for key in [chips] if isinstance(chips, str) else chips or menu:
        if key not in catalog():
            raise KeyError(f"Unknown chip {key!r}. Available: {', '.join(catalog())}")
        chip, machine = catalog()[key], menu.get(key)
        fits, reserved_bytes = _memory(work, chip)
        computes = "fp64" not in _lacking(work, chip)
        low, high = seconds_on(work, chip) if computes else (math.inf, math.inf)
        table.append(
            Estimate(
                menu_name=machine.menu_name if machine else chip.name,
                chip=chip,
                fits=fits and computes,
                reserved_bytes=reserved_bytes,
                low=low,
                high=high,
                units_per_hour=machine.units_per_hour if machine else None,
                free=bool(machine and machine.tier == "free"),
                note=_note(work, chip),
            )
        )
    return table


def seconds_on(work: StepTrace, chip: Chip) -> tuple[float, float]:
    """Return the best-case and worst-case seconds of a step on `chip`.

    Both multiply `roofline_seconds` by how much longer published trainings in that precision took than
    theirs: the lowest and the highest such ratio on that chip, or on all chips where it has none. The best
    case overlaps launches and work, and the worst adds one launch per operation. `work` is a traced step.
    """
    halves = sum(one.count * one.flops for one in work.operations if one.format in ("fp16", "bf16"))
    quick, slow = estimate_accuracy.measured_over_roofline(chip.key, half=halves > work.flops / 2)
    sure = sum(roofline_seconds(work, chip).values())
    rates = chip_throughput.rates(chip.key)
    if "launch" not in rates:  # a TPU's compiler makes one program of the step
        return quick * sure, slow * sure
    launch = rates["launch"]
    return max(quick * sure, work.num_ops * launch.low), slow * sure + work.num_ops * launch.high


def roofline_seconds(work: StepTrace, chip: Chip) -> dict[str, float]:
    """Return the seconds per step by family of operations, each at its rate in `chip_throughput`.

    Each operation takes the longer of its compute and its memory time. The largest family comes first.
    Source of the idea: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009. A format that `chip`
    lacks counts as fp32 on a GPU, and as the chip's own on a TPU. `work` is a traced step. Raises ValueError
    for fp64 where the chip has none.
    """
    rates = chip_throughput.rates(chip.key)
    table: dict[str, float] = {}
    for one in work.operations:
        table[one.family] = table.get(one.family, 0.0) + one.count * _at_least(one, rates)
    return dict(sorted(table.items(), key=lambda entry: entry[1], reverse=True))


def cheapest(table: Iterable[Estimate], steps: int, deadline: float) -> Estimate | None:
    """Return the estimate that fits, should end within `deadline` hours, and uses the fewest units; or None.

    `table` is from `estimates`, `steps` the length of the training. Machines on the free menu cost nothing;
    those whose units are unknown are left out. The worst case of each range counts, for the deadline
    and for the units.
    """
    rest = [
        estimate
        for estimate in table
        if estimate.fits
        and estimate.hours(steps)[1] <= deadline
        and (estimate.free or estimate.units(steps))
    ]
    return min(rest, key=lambda estimate: _most_units(estimate, steps), default=None)


def _most_units(estimate: Estimate, steps: int) -> float:
    units = estimate.units(steps)
    return 0.0 if estimate.free or units is None else units[1]


def _memory(work: StepTrace, chip: Chip) -> tuple[bool, int]:
    """Whether a step fits on `chip`, and the bytes that it takes at most."""
    sizes = {overhead.id: overhead.on(chip) for overhead in overheads()}
    context, driver, workspaces = sizes.pop("context"), sizes.pop("driver"), list(sizes.values())
    room = chip.usable_memory
    if chip.kind != "GPU":
        return work.footprint.peak <= room, work.footprint.peak
    reserved_bytes = _reserved(work, Allocator(_ENDLESS), workspaces) + context + driver
    try:
        _reserved(work, Allocator(room - driver, context), workspaces)
    except OutOfMemoryError:
        return False, reserved_bytes
    return True, reserved_bytes


def _reserved(work: StepTrace, card: Allocator, workspaces: Iterable[int]) -> int:
    for size in workspaces:
        card.allocate(size)
    return work.replay(card)


def _at_least(operation: TracedOp, rates: chip_throughput.Rates) -> float:
    wanted = _format_on(operation.format, rates)
    if wanted == "fp32" and operation.family == "convolutions" and "tf32" in rates:
        wanted = "tf32"  # as cuDNN convolves unless it is told not to
    return max(
        operation.flops / rates[wanted].value, operation.bytes_accessed / rates["memory"].value
    )


def _format_on(number_format: str, rates: chip_throughput.Rates) -> str:
    """The format in which the chip computes: a TPU in its own, a GPU in fp32 what it lacks."""
    if number_format in rates:
        return number_format
    if number_format == "fp64":
        raise ValueError(f"{rates.name} has no fp64, so no time can be given for it.")
    return "fp32" if "fp32" in rates else "bf16"


def _lacking(work: StepTrace, chip: Chip) -> list[str]:
    """The formats of the step's products that the chip has no units for."""
    formats = {one.format for one in work.operations if one.flops}
    return sorted(formats - set(chip.peak) - {""})


def _note(work: StepTrace, chip: Chip) -> str:
    lacking = _lacking(work, chip)
    if "fp64" in lacking:
        return "no fp64 here: use float32"
    emulated = [name for name in lacking if name in chip_throughput.rates(chip.key)]
    missing = [name for name in lacking if name not in emulated]
    if chip.kind != "GPU":
        return f"in {chip.best_format}; its compiler decides what fits"
    notes = [f"emulated here: {' and '.join(emulated)}"] if emulated else []
    notes += [f"no {' or '.join(missing)} here: counted as fp32"] if missing else []
    return "; ".join(notes)
