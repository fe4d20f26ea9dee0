"""Does this machine fit the lesson, and if not, which click or line mends it?

One small check a known problem. Each looks at a `State` and returns a `Finding`, or None. No check
starts a framework or a child process, so the card is there before anything slow or fragile begins.
"""

from __future__ import annotations

import html
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field

from colab_helpers import _units, hardware, runtime
from colab_helpers._units import GIB

MIN_RAM = 2 * GIB  # free; the lessons' own workloads stay below
MIN_DISK = 1 * GIB  # free

#: Import name -> distribution, where they differ.
_DISTRIBUTION = {"sklearn": "scikit-learn", "pynvml": "nvidia-ml-py"}


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
    packages: Mapping[str, str] = field(default_factory=dict)
    loaded: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """A problem with its way out. `severity` is "stop", "warn" or "note"."""

    id: str
    severity: str
    seen: str
    remedy: str


Check = Callable[[State], Finding | None]


def no_accelerator(state: State) -> Finding | None:
    """The lesson wants an accelerator and the machine has none."""
    if not state.wants.accelerator or state.runtime.accelerator != "none":
        return None
    return Finding(
        "no-accelerator",
        "note",
        f"No {state.wants.accelerator} here. Every cell still runs: on the CPU, more slowly.",
        _menu(state),
    )


def _menu(state: State) -> str:
    """Where to click for the accelerator that the lesson wants."""
    choice = {"GPU": "T4 GPU", "TPU": "v5e-1 TPU"}.get(state.wants.accelerator, "T4 GPU")
    if state.runtime.platform.startswith("colab"):
        return f"Runtime > Change runtime type > {choice} > Save, then run from the top."
    if state.runtime.platform == "kaggle":
        return f"Settings > Accelerator > {state.wants.accelerator}, then run from the top."
    return f"On Colab, choose {choice}."


def other_chip(state: State) -> Finding | None:
    """The lesson asked for one chip and got another: Colab does not say so itself."""
    device = state.inventory.accelerator
    if device is None or device.chip is None or device.kind != state.wants.accelerator:
        return None
    if state.wants.chip in ("", device.chip.key):
        return None
    return Finding(
        "other-chip",
        "note",
        f"The lesson asks for {state.wants.chip}, you have {device.chip.key}. It measures yours.",
        "Nothing to do: the wish is a request, and Colab may give another chip.",
    )


def other_kind(state: State) -> Finding | None:
    """The lesson computes on a GPU with PyTorch, which does not use this machine's TPU."""
    if state.runtime.accelerator != "TPU" or state.wants.accelerator != "GPU":
        return None
    return Finding(
        "other-kind",
        "note",
        "This machine has a TPU, and the lesson asks for a GPU. It computes on the CPU here.",
        _menu(state),
    )


def old_torch(state: State) -> Finding | None:
    """PyTorch from before torch.accelerator."""
    version = state.runtime.frameworks.get("torch", "")
    if not version or tuple(int(part) for part in version.split(".")[:2]) >= (2, 6):
        return None
    return Finding(
        "old-torch",
        "stop",
        f"PyTorch {version} is older than 2.6, which has torch.accelerator.",
        "On Colab: Runtime > Change runtime type > Runtime version > Latest. Elsewhere: update it.",
    )


def unknown_chip(state: State) -> Finding | None:
    """A chip that the catalogue does not have: measured, but without its data-sheet limit."""
    device = state.inventory.accelerator
    if device is None or device.chip or state.runtime.accelerator == "Apple GPU":
        return None
    return Finding(
        "unknown-chip",
        "note",
        f"{device.name} is not in the course's catalogue, so its data-sheet limits are missing.",
        "Nothing to do; to add it, write its figures into colab_helpers/accelerators.toml.",
    )


def silent_driver(state: State) -> Finding | None:
    """There is a GPU, and neither NVML nor nvidia-smi says which."""
    if state.runtime.accelerator != "GPU" or state.inventory.accelerator is not None:
        return None
    return Finding(
        "silent-driver",
        "stop",
        "There is an NVIDIA driver, but it does not answer: " + " ".join(state.inventory.problems),
        "Runtime > Disconnect and delete runtime, then connect again.",
    )


def cpu_build(state: State) -> Finding | None:
    """A GPU is there, and the PyTorch that is installed was built for CPUs."""
    version = state.runtime.frameworks.get("torch", "")
    if state.runtime.accelerator != "GPU" or not version.endswith("+cpu"):
        return None
    return Finding(
        "cpu-build",
        "warn",
        f"This machine has a GPU, but PyTorch {version} is a build for CPUs.",
        "On Colab: Runtime > Disconnect and delete runtime. Elsewhere: pytorch.org/get-started.",
    )


def tpu_without_tensorflow(state: State) -> Finding | None:
    """A TPU machine has no TensorFlow, and old notebooks expect it."""
    if state.runtime.accelerator != "TPU" or "tensorflow" in state.runtime.frameworks:
        return None
    return Finding(
        "tpu-without-tensorflow",
        "note",
        "This TPU machine has no TensorFlow; Colab took it out on 2025-03-07.",
        'Use JAX, or Keras with os.environ["KERAS_BACKEND"] = "jax" before its import.',
    )


def package_missing(state: State) -> Finding | None:
    """A package that the lesson imports is not installed."""
    missing = [name for name in state.wants.packages if not _is_installed(name, state)]
    if not missing:
        return None
    names = " ".join(_DISTRIBUTION.get(name, name) for name in missing)
    return Finding(
        "package-missing",
        "stop",
        f"The lesson imports {', '.join(missing)}, and that is not installed.",
        f"Run %pip install {names}; on your own machine, `make setup` installs everything.",
    )


def part_missing(state: State) -> Finding | None:
    """Some cells need a package that is not installed; they show recorded results."""
    missing = [name for name in state.wants.optional if not _is_installed(name, state)]
    if not missing:
        return None
    names = " ".join(_DISTRIBUTION.get(name, name) for name in missing)
    return Finding(
        "part-missing",
        "note",
        f"{', '.join(missing)} is not installed. Cells that need it show recorded results.",
        f"To run them: %pip install {names}. On Colab, a GPU or CPU runtime has it.",
    )


def restart_needed(state: State) -> Finding | None:
    """An imported package was replaced on disk: two versions are mixed from here on."""
    mixed = [
        f"{name} {version} is loaded, {state.packages[name]} is installed"
        for name, version in state.loaded.items()
        if name in state.packages and version != state.packages[name]
    ]
    if not mixed:
        return None
    return Finding(
        "restart-needed",
        "stop",
        "; ".join(mixed) + ".",
        "Runtime > Restart session, then run from the top. Files stay, variables go.",
    )


def little_ram(state: State) -> Finding | None:
    """So little memory is free that a lesson may kill the session."""
    available = state.runtime.ram_available
    if not state.runtime.ram_total or available >= MIN_RAM:
        return None
    return Finding(
        "little-ram",
        "warn",
        f"Only {_units.gib(available)} of memory is free; lessons need {_units.gib(MIN_RAM)}.",
        "Runtime > Restart session frees what earlier notebooks hold.",
    )


def little_disk(state: State) -> Finding | None:
    """The disk is nearly full: a file cannot be written whole."""
    if not state.runtime.disk_total or state.runtime.disk_free >= MIN_DISK:
        return None
    return Finding(
        "little-disk",
        "warn",
        f"Only {_units.gib(state.runtime.disk_free)} of disk is free.",
        "Delete downloads and caches, such as ~/.cache/huggingface.",
    )


def old_python(state: State) -> Finding | None:
    """Python below the course's minimum."""
    version = tuple(int(part) for part in state.runtime.python.split(".")[:2])
    if version >= (3, 11):
        return None
    return Finding(
        "old-python",
        "stop",
        f"Python {state.runtime.python} is older than 3.11, which the course needs.",
        "On Colab: Runtime > Change runtime type > Runtime version > Latest. Elsewhere: Python 3.11.",
    )


#: Every check, in the order in which findings are shown.
CHECKS: tuple[Check, ...] = (
    old_python,
    package_missing,
    part_missing,
    old_torch,
    restart_needed,
    silent_driver,
    cpu_build,
    no_accelerator,
    other_chip,
    other_kind,
    unknown_chip,
    tpu_without_tensorflow,
    little_ram,
    little_disk,
)


def inspect(wants: Wants | None = None) -> State:
    """Collect the state of this machine for the checks. Starts no framework."""
    seen = runtime.observe()
    return State(
        runtime=runtime.describe(seen),
        inventory=hardware.list_devices(seen),
        wants=wants or Wants(),
        packages=dict(seen.packages),
        loaded=_loaded(seen.packages),
    )


def find_problems(state: State, checks: Iterable[Check] = CHECKS) -> tuple[Finding, ...]:
    """Run every check on `state` and return what they found, worst first."""
    order = {"stop": 0, "warn": 1, "note": 2}
    found = [finding for check in checks if (finding := check(state))]
    return tuple(sorted(found, key=lambda finding: order[finding.severity]))


@dataclass(frozen=True)
class StatusCard:
    """Where you are, what you got, what the lesson wants, what to do."""

    lesson: str
    state: State
    findings: tuple[Finding, ...]

    @property
    def fits(self) -> bool:
        """Whether nothing stands in the way: notes do not."""
        return all(finding.severity == "note" for finding in self.findings)

    def rows(self) -> list[tuple[str, str]]:
        """Return the card's lines as (label, text)."""
        place, inventory = self.state.runtime, self.state.inventory
        frameworks = ", ".join(f"{name} {v}" for name, v in place.frameworks.items()) or "none"
        rows = [
            ("You are on", f"{place.platform_name}, Python {place.python}"),
            ("You have", _device_text(inventory)),
            ("Memory", _room(place)),
            ("Frameworks", frameworks),
        ]
        wants = " ".join(filter(None, (self.state.wants.accelerator, self.state.wants.chip)))
        return [*rows, ("The lesson asks for", wants)] if wants else rows

    def to_dict(self) -> dict:
        """Return plain data, ready for JSON."""
        return {
            "lesson": self.lesson,
            "fits": self.fits,
            "runtime": self.state.runtime.to_dict(),
            "inventory": self.state.inventory.to_dict(),
            "findings": [asdict(finding) for finding in self.findings],
        }

    def __str__(self) -> str:
        lines = [f"{label:>19}  {text}" for label, text in self.rows()]
        for finding in self.findings:
            lines += [
                f"{_MARK[finding.severity]:>19}  {finding.seen}",
                f"{'':>19}  {finding.remedy}",
            ]
        return "\n".join(lines if self.findings else [*lines, f"{'ready':>19}  Nothing to mend."])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        # No colour of text or page is set: the card takes both from the theme around it.
        cells = "".join(
            f"<tr><td style='{_LABEL}'>{label}</td><td style='{_CELL}'>{html.escape(text)}</td></tr>"
            for label, text in self.rows()
        )
        notes = "".join(
            f"<div style='{_NOTE.format(_EDGE[finding.severity])}'><b>{_MARK[finding.severity]}:</b> "
            f"{html.escape(finding.seen)}<br>{html.escape(finding.remedy)}</div>"
            for finding in self.findings
        )
        ready = notes or f"<div style='{_NOTE.format(_EDGE['note'])}'>Nothing to mend.</div>"
        return f"<div style='max-width:46em'><table>{cells}</table>{ready}</div>"


_MARK = {"stop": "mend first", "warn": "watch out", "note": "good to know"}
_EDGE = {"stop": "#d55e00", "warn": "#e69f00", "note": "#0b7a5e"}
_CELL = "text-align:left;padding:0.15em 0.6em"
_LABEL = _CELL + ";opacity:0.75;white-space:nowrap"
_NOTE = "margin:0.5em 0;padding:0.4em 0.8em;border-left:0.3em solid {}"


def status_card(
    lesson: str = "", accelerator: str = "", chip: str = "", packages: str = "", optional: str = ""
) -> StatusCard:
    """Inspect this machine and return the card to show, for the lesson's wishes.

    `packages` and `optional` list import names, separated by blanks.

    >>> status_card(packages="no_such_package").findings[0].id
    'package-missing'
    """
    wants = Wants(accelerator, chip, tuple(packages.split()), tuple(optional.split()))
    state = inspect(wants)
    return StatusCard(lesson, state, find_problems(state))


def _device_text(inventory: hardware.Inventory) -> str:
    cpu = f"{inventory.cpu.cores} CPU cores ({inventory.cpu.name})"
    device = inventory.accelerator
    if device is None:
        return cpu
    memory = f", {_units.gib(device.memory_total)}" if device.memory_total else ""
    driver = f", driver {device.driver}" if device.driver else ""
    twins = sum(other.name == device.name for other in inventory.devices)
    many = f"{twins} × " if twins > 1 else ""
    note = " each; the lessons use the first" if twins > 1 else ""
    return f"{many}{device.name}{memory}{note}{driver}; {cpu}"


def _room(place: runtime.Runtime) -> str:
    if not place.ram_total:
        return "unknown"
    ram = f"{_units.gib(place.ram_available)} of {_units.gib(place.ram_total)} free"
    return f"{ram}; disk {_units.gib(place.disk_free)} of {_units.gib(place.disk_total)} free"


def _is_installed(name: str, state: State) -> bool:
    if name in state.runtime.frameworks or _DISTRIBUTION.get(name, name) in state.packages:
        return True
    if name.replace("_", "-") in runtime.WATCHED_PACKAGES:
        return False
    from importlib.util import find_spec  # only for packages that nothing else watches

    return find_spec(name) is not None


def _loaded(packages: Mapping[str, str]) -> dict[str, str]:
    names = [name for name in packages if name in sys.modules]
    versions = {name: getattr(sys.modules[name], "__version__", None) for name in names}
    return {name: version for name, version in versions.items() if isinstance(version, str)}
