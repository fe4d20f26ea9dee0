"""How far plans are from the truth: what was predicted and then measured."""

from __future__ import annotations

import functools
import json
import statistics
from dataclasses import dataclass
from importlib import resources

FILE = "estimate_accuracy.json"


@dataclass(frozen=True)
class PeakCheck:
    """A predicted peak beside the one that an allocator saw, in bytes.

    On a CPU these are the allocator's own events, on CUDA the bytes that were requested. `caveat` is what the
    result itself names as not counted or not known; "" if nothing.
    """

    device: str
    network: str
    date: str
    predicted_peak: int
    measured_peak: int
    caveat: str = ""

    @property
    def error_percent(self) -> float:
        """Percent by which the predicted peak is too high."""
        return 100 * (self.predicted_peak / self.measured_peak - 1)


@dataclass(frozen=True)
class Trial:
    """A network predicted, then measured, on `device`: bytes at the peak, and seconds of a step.

    `measured_peak` is by an independent memory counter, `predicted_seconds` the sum of the operations,
    each timed alone.
    """

    device: str
    network: str
    optimizer: str
    date: str
    predicted_peak: int
    measured_peak: int
    predicted_seconds: float
    measured_seconds: float

    @property
    def peak(self) -> PeakCheck:
        """The predicted peak beside the measured one."""
        return PeakCheck(
            self.device, f"{self.network}, {self.optimizer}", self.date, self.predicted_peak,
            self.measured_peak, "convolutions" if self.network in _CONVOLUTIONS else "",
        )  # fmt: skip

    @property
    def peak_error_percent(self) -> float:
        """Percent by which the predicted peak is too high."""
        return self.peak.error_percent

    @property
    def time_ratio(self) -> float:
        """Measured over planned: step time over the sum of its operations times `step_over_sum_of_ops`."""
        return self.measured_seconds / (self.predicted_seconds * step_over_sum_of_ops()[1])


@dataclass(frozen=True)
class Run:
    """A published run beside the roofline time of the traced step, in seconds per step.

    `row` is an id in `published_results`.
    """

    row: str
    chip: str
    what: str
    roofline_seconds: float
    measured: float

    @property
    def half(self) -> bool:
        """Whether its matmuls were in 16 bits."""
        return self.what.endswith(("fp16", "bf16"))

    @property
    def is_training(self) -> bool:
        """Whether it was a training, and not inference."""
        return "training" in self.what

    @property
    def factor(self) -> float:
        """Measured over roofline time; below 1 on a faster GPU than the catalog's."""
        return self.measured / self.roofline_seconds


@dataclass(frozen=True)
class PeakMargin:
    """How far predicted peaks were off: how many within 2%, and the worst in percent either way."""

    count: int
    within_2_percent: int
    lowest_percent: float
    highest_percent: float

    def __str__(self) -> str:
        return (
            f"of {self.count} comparisons with an allocator (results without a warning), "
            f"{self.within_2_percent} came within 2%, "
            f"the others from {-self.lowest_percent:.0f}% too low to {self.highest_percent:.0f}% too high"
        )


#: Networks of `trials` in whose kernels a CPU's convolutions take memory of their own.
_CONVOLUTIONS = ("CNN", "ResNet with BatchNorm", "U-Net")


@functools.cache
def peak_checks() -> tuple[PeakCheck, ...]:
    """Return every comparison of a predicted peak with a measured one, the worst first.

    >>> peak_checks()[0].caveat
    'products of sparse tensors'
    """
    found = [*(PeakCheck(**row) for row in _read()["peaks"]), *(one.peak for one in trials())]
    return tuple(sorted(found, key=lambda one: -abs(one.error_percent)))


@functools.cache
def peak_margin() -> PeakMargin:
    """Return the error margin of the predictions that carry no caveat.

    >>> margin = peak_margin()
    >>> margin.within_2_percent / margin.count > 0.9
    True
    """
    errors = [one.error_percent for one in peak_checks() if not one.caveat]
    return PeakMargin(len(errors), sum(abs(e) <= 2 for e in errors), min(errors), max(errors))


@functools.cache
def trials() -> tuple[Trial, ...]:
    """Return what was predicted and measured on machines of the course.

    >>> sorted({one.network for one in trials() if abs(one.peak_error_percent) > 1})
    ['ResNet with BatchNorm', 'U-Net']
    """
    return tuple(Trial(**row) for row in _read()["trials"])


@functools.cache
def runs() -> tuple[Run, ...]:
    """Return the published runs and their roofline times.

    >>> all(0.5 < run.factor < 5 for run in runs())
    True
    """
    return tuple(Run(**row) for row in _read()["runs"])


def measured_over_roofline(chip: str, half: bool = False) -> tuple[float, float]:
    """Return the least and the largest ratio of measured to roofline time among published runs.

    `chip` is a key of the catalog; both A100s count as one. A chip without runs gets those of all chips.
    Only training runs count, and with `half` those whose products are in 16 bits, else the others.

    >>> low, high = measured_over_roofline("T4", half=True)
    >>> 1 < low < high < 4
    True
    """
    family = chip.partition("-")[0]
    alike = [run for run in runs() if run.half == half and run.is_training]
    own = [run.factor for run in alike if run.chip.partition("-")[0] == family]
    found = own or [run.factor for run in alike]
    return min(found), max(found)


def step_over_sum_of_ops() -> tuple[float, float, float]:
    """Return the ratio of a step to the sum of its operations: least, median and largest.

    Timing operations one at a time cannot show how they affect each other through caches and queues.

    >>> low, usual, high = step_over_sum_of_ops()
    >>> low < usual < high
    True
    """
    found = sorted(trial.measured_seconds / trial.predicted_seconds for trial in trials())
    return found[0], statistics.median(found), found[-1]


def _read() -> dict:
    return json.loads(resources.files("colab_helpers.plan").joinpath(FILE).read_text("utf-8"))
