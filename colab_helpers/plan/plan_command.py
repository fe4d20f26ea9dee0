"""`colab-helpers plan FILE.py:function`: a plan for the step that a file describes."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from colab_helpers import _units, chip_throughput
from colab_helpers._cli_utils import CommandError
from colab_helpers.hardware import catalog
from colab_helpers.memory.tracker_base import TraceError
from colab_helpers.plan import estimate_accuracy
from colab_helpers.plan.estimates import Estimate, cheapest, estimates
from colab_helpers.plan.step_trace import StepTrace, trace_step

#: The name under which a user's file is loaded.
_LOADED = "_planned"


def plan_file(
    where: str, batch_size: int, chips: Sequence[str] = ()
) -> tuple[StepTrace, list[Estimate]]:
    """Trace the step that `where`, as in "train.py:job", describes; return it with its estimates.

    The function takes nothing and returns (model, forward, optimizer), as for `trace_step`; an optimizer
    of None means inference. `batch_size` and `chips` are as in `trace_step` and `estimates`. The
    file is run: plan only files that you would run. Raises `CommandError` with one clear
    line if something is in the way.
    """
    unknown = [key for key in chips if key not in catalog()]
    if unknown:
        raise CommandError(f"Unknown chip {unknown[0]!r}. Available: {', '.join(catalog())}.")
    with _as_if_run(Path(where.rpartition(":")[0])):
        model, forward, optimizer = _job(where)
        try:
            work = trace_step(model, forward, batch_size, optimizer, foreach=True)
        except (TraceError, ValueError) as error:
            raise CommandError(f"{where} cannot be planned: {error}") from error
        except (Exception, SystemExit) as error:
            raise CommandError(
                f"{_raised(error, f'{where}: forward({batch_size})', where.rpartition(':')[0])} "
                "First make sure that a single step runs on a small batch."
            ) from error
    return work, estimates(work, chips)


@contextlib.contextmanager
def _as_if_run(path: Path) -> Iterator[None]:
    """Set `sys.path` and `sys.argv` as if `path` were run as a script; undo it afterwards.

    What it prints goes to stderr, so that stdout has the plan alone, and its neighbors are forgotten: the
    next file may have modules of the same names.
    """
    folder, words, places, modules = path.resolve().parent, sys.argv, [*sys.path], {*sys.modules}
    sys.path.insert(0, str(folder))
    sys.argv = [str(path)]
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        sys.argv, sys.path[:] = words, places
        for name in {*sys.modules} - modules:
            file = getattr(sys.modules[name], "__file__", None)
            if name == _LOADED or (file and folder in Path(file).parents):
                del sys.modules[name]


def format_plan(
    work: StepTrace, table: Sequence[Estimate], steps: int, deadline: float | None = None
) -> str:
    """Return what `estimates` found as lines for a terminal or a cell.

    `work` is the step, `table` its estimates, `steps` the length of the training, `deadline` in hours.

    >>> from colab_helpers.plan import estimates
    >>> import torch
    >>> model = torch.nn.Linear(1000, 1000)
    >>> step = trace_step(model, lambda batch_size: model(torch.zeros(batch_size, 1000)), 8, None)
    >>> print(format_plan(step, estimates(step, ["T4"]), 1000).splitlines()[2].split()[:3])
    ['T4', 'GPU', 'yes']
    """
    checked = all(chip_throughput.rates(estimate.chip.key).checked for estimate in table)
    corner = "" if checked else "estimates, unchecked"
    lines = [
        f"{work.batch_size:,} in a batch: {_units.format_si(work.flops, 'FLOP')}, "
        f"{work.num_ops:,} operations; "
        f"tensors take {_units.format_gib(work.footprint.peak)} at the peak{work.footprint.caveat}.",
        f"{corner:20} {'fits':>4} {'up to':>10} {'of':>10} {'one step':>21} "
        f"{f'{steps:,} steps':>21} {'units':>13}",
    ]
    for estimate in table:
        units = estimate.units(steps)
        least, most = estimate.hours(steps)
        cost = "free" if estimate.free else "not known" if units is None else f"{_span(*units)}"
        lines.append(
            f"{estimate.menu_name:20} {'yes' if estimate.fits else 'no':>4} "
            f"{_units.format_gib(estimate.reserved_bytes):>10} "
            f"{_units.format_gib(estimate.capacity_bytes):>10} {_times(estimate.low, estimate.high):>21} "
            f"{_times(3600 * least, 3600 * most):>21} {cost:>13}"
            f"{'  ' + estimate.note if estimate.note else ''}"
        )
    if not checked:
        lines.append("Times are estimates, not validated on hardware.")
    lines.append(f"Memory: {estimate_accuracy.peak_margin()}.")
    if deadline is not None:
        best = cheapest(table, steps, deadline)
        lines.append(
            f"Cheapest within {_hours(deadline)}: {best.menu_name}."
            if best
            else f"No machine that fits is likely to finish within {_hours(deadline)}."
        )
    return "\n".join(lines)


def to_json(
    work: StepTrace, table: Sequence[Estimate], steps: int, deadline: float | None = None
) -> str:
    """Return the same for programs: bytes, seconds, hours, compute units (null where unknown or impossible).

    `work`, `table`, `steps` and `deadline` are as in `format_plan`.
    """
    best = cheapest(table, steps, deadline) if deadline is not None else None
    return json.dumps(
        {
            "batch_size": work.batch_size,
            "flops": work.flops,
            "bytes_accessed": work.bytes_accessed,
            "num_ops": work.num_ops,
            "peak": work.footprint.peak,
            "assumed_reads": work.footprint.assumed_reads,
            "uncounted": work.footprint.uncounted,
            "parts": work.footprint.parts,
            "cheapest": best.menu_name if best else None,
            "estimates": [_plain(estimate, steps) for estimate in table],
        },
        indent=2,
    )


def _plain(estimate: Estimate, steps: int) -> dict[str, Any]:
    possible = math.isfinite(estimate.high)
    return {
        "menu_name": estimate.menu_name,
        "chip": estimate.chip.key,
        "fits": estimate.fits,
        "reserved_bytes": estimate.reserved_bytes,
        "capacity_bytes": estimate.capacity_bytes,
        "seconds": [estimate.low, estimate.high] if possible else None,
        "hours": estimate.hours(steps) if possible else None,
        "free": estimate.free,
        "units": estimate.units(steps),
        "note": estimate.note,
    }


def _job(where: str) -> tuple[Any, Any, Any]:
    file, _, name = where.rpartition(":")
    if not file or not name:
        raise CommandError(f"{where!r}: expected FILE:FUNCTION, such as train.py:job.")
    path = Path(file)
    if not path.is_file():
        raise CommandError(f"No such file: {file}")
    function = getattr(_loaded(path), name, None)
    if not callable(function):
        raise CommandError(f"{file} has no function {name!r}.")
    try:
        given = function()
    except (Exception, SystemExit) as error:
        raise CommandError(_raised(error, where, file)) from error
    if not _is_job(given):
        raise CommandError(
            f"{where} returned {type(given).__name__}: return (model, forward, optimizer), where "
            "forward(batch_size) returns the loss and optimizer may be None."
        )
    return given


def _loaded(path: Path) -> Any:
    specification = importlib.util.spec_from_file_location(_LOADED, path)
    if specification is None or specification.loader is None:
        raise CommandError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(specification)
    sys.modules[_LOADED] = module  # where dataclasses look for their names
    try:
        specification.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise CommandError(_raised(error, str(path), str(path))) from error
    return module


def _raised(error: BaseException, what: str, file: str) -> str:
    """What was raised, and in which line of the user's file."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == Path(file).resolve()]
    return (
        f"{what} raised {type(error).__name__}: {error}{f' (line {lines[-1]})' if lines else ''}."
    )


def _is_job(given: Any) -> bool:
    if not isinstance(given, tuple) or len(given) != 3:
        return False
    model, forward, optimizer = given
    trains = optimizer is None or isinstance(optimizer, torch.optim.Optimizer)
    return isinstance(model, torch.nn.Module) and callable(forward) and trains


def _times(low: float, high: float) -> str:
    if not math.isfinite(high):
        return "not possible"
    return _range(_units.format_duration(low), _units.format_duration(high))


def _hours(count: float) -> str:
    return f"{count:g} hour{'' if count == 1 else 's'}"


def _span(low: float, high: float) -> str:
    return _range(f"{low:.2g}", f"{high:.2g}")


def _range(low: str, high: str) -> str:
    """Both ends; one published rate has no range.

    >>> _range("3 h", "4 h"), _range("3 h", "3 h")
    ('3 h to 4 h', 'about 3 h')
    """
    return f"about {low}" if low == high else f"{low} to {high}"
