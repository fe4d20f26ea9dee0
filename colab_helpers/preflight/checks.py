"""Which problems are known? One small check each, in the order in which findings are shown."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from colab_helpers import _units, runtime
from colab_helpers._units import GIB
from colab_helpers.preflight.state import Finding, State

MIN_RAM = 2 * GIB  # free; the lessons' own workloads stay below
MIN_DISK = 1 * GIB  # free

#: Import name -> distribution, where they differ.
DISTRIBUTION = {"sklearn": "scikit-learn", "pynvml": "nvidia-ml-py"}

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


def tpu_plain_tensorflow(state: State) -> Finding | None:
    """A TPU machine with the usual TensorFlow, which has no code for TPUs."""
    plain = {"tensorflow", "tensorflow-cpu"} & set(state.packages)
    if state.runtime.accelerator != "TPU" or not plain or "tensorflow-tpu" in state.packages:
        return None
    return Finding(
        "tpu-plain-tensorflow",
        "warn",
        "This machine has a TPU, and its TensorFlow is not built for one: it computes on the CPU.",
        'Use JAX, or Keras with os.environ["KERAS_BACKEND"] = "jax" before its import. '
        "TensorFlow on a TPU needs the package tensorflow-tpu in place of tensorflow.",
    )


def package_missing(state: State) -> Finding | None:
    """A package that the lesson imports is not installed."""
    missing = [name for name in state.wants.packages if not _is_installed(name, state)]
    if not missing:
        return None
    names = " ".join(DISTRIBUTION.get(name, name) for name in missing)
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
    names = " ".join(DISTRIBUTION.get(name, name) for name in missing)
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
    tpu_plain_tensorflow,
    little_ram,
    little_disk,
)


def _is_installed(name: str, state: State) -> bool:
    if name in state.runtime.frameworks or DISTRIBUTION.get(name, name) in state.packages:
        return True
    if name.replace("_", "-") in runtime.WATCHED_PACKAGES:
        return False
    return find_spec(name) is not None
