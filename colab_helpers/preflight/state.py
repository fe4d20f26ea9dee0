"""What may a check look at?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from colab_helpers import hardware
from colab_helpers import runtime as _runtime
from colab_helpers._traces import Traces
from colab_helpers.doctor import problems


@dataclass(frozen=True)
class Wants:
    """What a lesson asks for: an accelerator kind, a chip of the catalogue, import names.

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
    wants: Wants = field(default_factory=Wants)
    evidence: _runtime.Evidence = field(default_factory=_runtime.Evidence)
    traces: Traces = field(default_factory=Traces)
    loaded: Mapping[str, str] = field(default_factory=dict)

    @property
    def packages(self) -> Mapping[str, str]:
        """Distribution -> installed version, of those that matter to a lesson."""
        return self.evidence.packages

    def report(self, id: str, seen: str, remedy: str = "") -> problems.Finding:
        """Return the finding of problem `id` here; without a `remedy`, the table's for this platform.

        `seen` says in words what was met.
        """
        return problems.report(id, seen, platform=self.runtime.platform, remedy=remedy)
