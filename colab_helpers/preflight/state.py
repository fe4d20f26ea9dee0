"""What a check may look at, and the problems that it can report."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from colab_helpers import hardware, problem_schema
from colab_helpers import runtime as _runtime
from colab_helpers._environment_probes import Symptoms


@dataclass(frozen=True)
class Requirements:
    """What a lesson asks for: an accelerator kind, a chip of the catalog, import names.

    `helper_from`: the repository, as owner/name, whose helper it was written for.
    """

    accelerator: str = ""
    chip: str = ""
    packages: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    helper_from: str = ""


@dataclass(frozen=True)
class State:
    """All that a check may look at. `loaded` maps a package to the version already imported."""

    runtime: _runtime.Runtime
    inventory: hardware.Inventory
    required: Requirements = field(default_factory=Requirements)
    evidence: _runtime.SystemInfo = field(default_factory=_runtime.SystemInfo)
    symptoms: Symptoms = field(default_factory=Symptoms)
    loaded: Mapping[str, str] = field(default_factory=dict)

    @property
    def packages(self) -> Mapping[str, str]:
        """Distribution -> installed version, of those that matter to a lesson."""
        return self.evidence.packages

    def report(self, id: str, observation: str, fix: str = "") -> problem_schema.Finding:
        """Return a finding for problem `id`; `fix` defaults to the catalog's fix for this platform.

        `observation` says in words what was met.
        """
        return problems_by_id()[id].finding(observation, self.runtime.platform, fix)


@functools.cache
def problems_by_id() -> Mapping[str, problem_schema.Problem]:
    """Return the problems that checks find, by id; `preflight/problems.toml` has them.

    >>> problems_by_id()["little-disk"].severity
    'warn'
    """
    return {row.id: row for row in problem_schema.read("colab_helpers", "preflight/problems.toml")}
