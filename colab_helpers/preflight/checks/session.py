"""Checks of memory, disk and Google Drive."""

from __future__ import annotations

from colab_helpers import _units, runtime
from colab_helpers._units import GIB
from colab_helpers.preflight.state import State
from colab_helpers.problem_schema import Finding

MIN_RAM = 2 * GIB  # free; the lessons' own workloads stay below
MIN_DISK = 1 * GIB  # free


def little_ram(state: State) -> Finding | None:
    """So little memory is free that a lesson may kill the session."""
    available = state.runtime.ram_available
    if not state.runtime.ram_total or available >= MIN_RAM:
        return None
    free, needed = map(_units.format_gib, (available, MIN_RAM))
    seen = f"Only {free} of memory is free; lessons need {needed}."
    return state.report("little-ram", seen)


def little_disk(state: State) -> Finding | None:
    """The disk is nearly full: a file cannot be written whole."""
    if not state.runtime.disk_total or state.runtime.disk_free >= MIN_DISK:
        return None
    return state.report(
        "little-disk", f"Only {_units.format_gib(state.runtime.disk_free)} of disk is free."
    )


def drive_dropped(state: State) -> Finding | None:
    """Google Drive was mounted and is not responding."""
    if not state.symptoms.drive.startswith("does not answer"):
        return None
    return state.report("drive-dropped", f"{runtime.DRIVE} {state.symptoms.drive}.")
