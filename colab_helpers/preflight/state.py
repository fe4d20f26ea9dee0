"""What may a check look at, and what does it find?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from colab_helpers import hardware, runtime

#: Import name -> distribution, where they differ.
DISTRIBUTION = {"sklearn": "scikit-learn", "pynvml": "nvidia-ml-py"}


@dataclass(frozen=True)
class Wants:
    """What a lesson asks for: an accelerator kind, a chip of the catalogue, import names."""

    accelerator: str = ""
    chip: str = ""
    packages: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


@dataclass(frozen=True)
class State:
    """All that a check may look at. `loaded` maps a package to the version already imported."""

    runtime: runtime.Runtime
    inventory: hardware.Inventory
    wants: Wants = field(default_factory=Wants)
    evidence: runtime.Evidence = field(default_factory=runtime.Evidence)
    loaded: Mapping[str, str] = field(default_factory=dict)

    @property
    def packages(self) -> Mapping[str, str]:
        """Distribution -> installed version, of those that matter to a lesson."""
        return self.evidence.packages


@dataclass(frozen=True)
class Finding:
    """A problem with its way out. `severity` is "stop", "warn" or "note"; `link` leads to more."""

    id: str
    severity: str
    seen: str
    remedy: str
    link: str = ""

    def __str__(self) -> str:
        return "\n".join(filter(None, (self.seen, self.remedy, self.link)))

    __repr__ = __str__
