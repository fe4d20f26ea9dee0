"""Checks of this machine: whether it fits the lesson, and which click or line fixes it.

One small check per known problem. Each looks at a `State` and returns a `Finding`, or None. Checks
start nothing; collecting the state starts no framework, and asks `nvidia-smi` where NVML is silent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from colab_helpers import __version__, _environment_probes, hardware, runtime, runtime_images
from colab_helpers._rich_display import error_text
from colab_helpers.preflight.card_rendering import StatusCard
from colab_helpers.preflight.checks import CHECKS, Check
from colab_helpers.preflight.state import Requirements, State, problems_by_id
from colab_helpers.problem_schema import Finding

__all__ = [
    "CHECKS",
    "OldHelperError",
    "Requirements",
    "State",
    "StatusCard",
    "collect_state",
    "run_checks",
    "status_card",
]


class OldHelperError(RuntimeError):
    """This helper is older than the lesson that uses it: run the lesson's setup cell again."""


def collect_state(required: Requirements | None = None) -> State:
    """Collect the state of this machine for the checks. Starts no framework.

    `required` is what a lesson asks for; nothing when left out.
    """
    seen = runtime.probe()
    return State(
        runtime=runtime.describe(seen),
        inventory=hardware.list_devices(seen),
        required=required or Requirements(),
        evidence=seen,
        symptoms=_environment_probes.collect(seen.packages),
        loaded=_loaded(seen.packages),
    )


def run_checks(state: State, checks: Iterable[Check] = CHECKS) -> tuple[Finding, ...]:
    """Run every check on `state` and return what they found, worst first.

    `checks` are all of `CHECKS` when left out.
    """
    order = {"stop": 0, "warn": 1, "note": 2}
    found, failed = [], list(state.symptoms.problems)
    for check in checks:
        try:
            finding = check(state)
        except Exception as error:  # on a broken machine the others still have something to say
            failed.append(f"{check.__name__} ({error_text(error)[:100]})")
        else:
            found += [finding] if finding else []
    if failed:
        found.append(
            state.report("check-failed", f"These checks could not run: {'; '.join(failed)}.")
        )
    return tuple(sorted(found, key=lambda finding: order[finding.severity]))


def status_card(
    lesson: str = "",
    accelerator: str = "",
    chip: str = "",
    packages: str = "",
    optional: str = "",
    helper: str = "",
) -> StatusCard:
    """Check this machine against the lesson's requirements and return the status card.

    Without a lesson it shows all that was found, also what no lesson needs to know. `packages` and
    `optional` list import names, separated by blanks. `helper` is the one that the lesson was written
    for, as "version of owner/name". Raises `OldHelperError` where this one is older. `accelerator` is
    "GPU", "TPU" or ""; `chip` is a key of `hardware.catalog()`.

    >>> status_card(packages="no_such_package").findings[0].id
    'package-missing'
    """
    version, _, origin = helper.partition(" of ")
    if runtime_images.is_older(__version__, version):
        raise OldHelperError(
            f"The helper here is {__version__}, and this lesson needs {version}. Run %pip uninstall -y "
            "colab-helpers, restart the session, then run this cell again."
        )
    required = Requirements(
        accelerator, chip, tuple(packages.split()), tuple(optional.split()), origin
    )
    state = collect_state(required)
    found = run_checks(state)
    if lesson:
        found = tuple(finding for finding in found if problems_by_id()[finding.id].on_lesson_card)
    return StatusCard(lesson, state, found)


def _loaded(packages: Mapping[str, str]) -> dict[str, str]:
    names = [name for name in packages if name in sys.modules]
    versions = {name: getattr(sys.modules[name], "__version__", None) for name in names}
    return {name: version for name, version in versions.items() if isinstance(version, str)}
