"""Does this machine fit the lesson, and if not, which click or line mends it?

One small check a known problem. Each looks at a `State` and returns a `Finding`, or None. Checks
start nothing; collecting the state starts no framework, and asks `nvidia-smi` where NVML is silent.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Mapping

from colab_helpers import _traces as traces
from colab_helpers import hardware, runtime
from colab_helpers.preflight.card import StatusCard
from colab_helpers.preflight.checks import CHECKS, ON_THE_CARD_ONLY, Check
from colab_helpers.preflight.explain import IN_NOTEBOOKS, explain_error, explain_notebook
from colab_helpers.preflight.problems import Problem, known_problems, page
from colab_helpers.preflight.state import Finding, State, Wants

__all__ = [
    "CHECKS",
    "IN_NOTEBOOKS",
    "ON_THE_CARD_ONLY",
    "Finding",
    "Problem",
    "State",
    "StatusCard",
    "Wants",
    "explain_error",
    "explain_notebook",
    "find_problems",
    "inspect",
    "known_problems",
    "page",
    "status_card",
]


def inspect(wants: Wants | None = None) -> State:
    """Collect the state of this machine for the checks. Starts no framework."""
    seen = runtime.observe()
    seen = dataclasses.replace(seen, **traces.collect(seen.packages))
    return State(
        runtime=runtime.describe(seen),
        inventory=hardware.list_devices(seen),
        wants=wants or Wants(),
        evidence=seen,
        loaded=_loaded(seen.packages),
    )


def find_problems(state: State, checks: Iterable[Check] = CHECKS) -> tuple[Finding, ...]:
    """Run every check on `state` and return what they found, worst first."""
    order = {"stop": 0, "warn": 1, "note": 2}
    found = [finding for check in checks if (finding := check(state))]
    return tuple(sorted(found, key=lambda finding: order[finding.severity]))


def status_card(
    lesson: str = "", accelerator: str = "", chip: str = "", packages: str = "", optional: str = ""
) -> StatusCard:
    """Inspect this machine and return the card to show, for the lesson's wishes.

    Without a lesson it shows all that was found, also what no lesson needs to know. `packages` and
    `optional` list import names, separated by blanks.

    >>> status_card(packages="no_such_package").findings[0].id
    'package-missing'
    """
    wants = Wants(accelerator, chip, tuple(packages.split()), tuple(optional.split()))
    state = inspect(wants)
    found = find_problems(state)
    if lesson:
        found = tuple(finding for finding in found if known_problems()[finding.id].lessons)
    return StatusCard(lesson, state, found)


def _loaded(packages: Mapping[str, str]) -> dict[str, str]:
    names = [name for name in packages if name in sys.modules]
    versions = {name: getattr(sys.modules[name], "__version__", None) for name in names}
    return {name: version for name, version in versions.items() if isinstance(version, str)}
