"""Does this machine fit the lesson, and if not, which click or line mends it?

One small check a known problem. Each looks at a `State` and returns a `Finding`, or None. Checks
start nothing; collecting the state starts no framework, and asks `nvidia-smi` where NVML is silent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from colab_helpers import _traces as traces
from colab_helpers import hardware, runtime
from colab_helpers.preflight.card import StatusCard
from colab_helpers.preflight.checks import CHECKS, ON_THE_CARD_ONLY, Check
from colab_helpers.preflight.explain import IN_NOTEBOOKS, explain_error, explain_notebook
from colab_helpers.preflight.problems import Finding, Problem, known_problems, page
from colab_helpers.preflight.state import State, Wants

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
    "inspect",
    "known_problems",
    "page",
    "run_checks",
    "status_card",
]


def inspect(wants: Wants | None = None) -> State:
    """Collect the state of this machine for the checks. Starts no framework."""
    seen = runtime.observe()
    return State(
        runtime=runtime.describe(seen),
        inventory=hardware.list_devices(seen),
        wants=wants or Wants(),
        evidence=seen,
        traces=traces.collect(seen.packages),
        loaded=_loaded(seen.packages),
    )


def run_checks(state: State, checks: Iterable[Check] = CHECKS) -> tuple[Finding, ...]:
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
    found = run_checks(state)
    if lesson:
        found = tuple(finding for finding in found if known_problems()[finding.id].lessons)
    return StatusCard(lesson, state, found)


def _loaded(packages: Mapping[str, str]) -> dict[str, str]:
    names = [name for name in packages if name in sys.modules]
    versions = {name: getattr(sys.modules[name], "__version__", None) for name in names}
    return {name: version for name, version in versions.items() if isinstance(version, str)}
