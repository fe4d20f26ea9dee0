"""Which problems can be seen from here? One small check each.

A check looks at a `State`, starts nothing, and returns a `Finding` or None. Its words are in
`problems.toml`; it adds what was seen.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from colab_helpers import _units, images, runtime
from colab_helpers._units import GIB
from colab_helpers.preflight.problems import finding, way_out
from colab_helpers.preflight.state import DISTRIBUTION, Finding, State

MIN_RAM = 2 * GIB  # free; the lessons' own workloads stay below
MIN_DISK = 1 * GIB  # free
LONG_SESSION = 10 * 3600  # seconds; free sessions end after 12 hours at most
IDLE_AFTER = 1800  # seconds from the machine's start
BF16_FROM = 8.0  # compute capability

#: What every notebook of this kind depends on.
_FRAMEWORKS = ("numpy", "torch", "tensorflow", "keras", "jax")

Check = Callable[[State], Finding | None]


def _found(state: State, id: str, seen: str, remedy: str = "") -> Finding:
    return finding(id, seen, remedy or way_out(id, state.runtime.platform))


def no_accelerator(state: State) -> Finding | None:
    """The machine has no accelerator, and the lesson wants one, or there is no lesson."""
    if state.runtime.accelerator != "none":
        return None
    wanted = state.wants.accelerator or "GPU or TPU"
    seen = f"No {wanted} here. Every cell still runs: on the CPU, more slowly."
    return _found(state, "no-accelerator", seen, _menu(state))


def _menu(state: State) -> str:
    """Where to click for the accelerator that the lesson wants."""
    choice = "v5e-1 TPU" if state.wants.accelerator == "TPU" else "T4 GPU"
    clicks = f"Runtime > Change runtime type > {choice} > Save, then run from the top."
    if state.runtime.platform.startswith("colab"):
        return clicks
    if state.runtime.platform == "kaggle":
        kind = state.wants.accelerator or "GPU"
        return f"Settings > Accelerator > {kind}, then run from the top."
    return f"For one, open the notebook in Colab, then {clicks}"


def other_chip(state: State) -> Finding | None:
    """The lesson asked for one chip and got another: Colab's own notice is easily missed."""
    device = state.inventory.accelerator
    if device is None or device.chip is None or device.kind != state.wants.accelerator:
        return None
    if state.wants.chip in ("", device.chip.key):
        return None
    seen = f"The lesson asks for {state.wants.chip}, you have {device.chip.key}. It measures yours."
    return _found(state, "other-chip", seen)


def other_kind(state: State) -> Finding | None:
    """The lesson computes on a GPU with PyTorch, which does not use this machine's TPU."""
    if state.runtime.accelerator != "TPU" or state.wants.accelerator != "GPU":
        return None
    seen = "This machine has a TPU, and the lesson asks for a GPU. It computes on the CPU here."
    return _found(state, "other-kind", seen, _menu(state))


def silent_driver(state: State) -> Finding | None:
    """There is a GPU, and neither NVML nor nvidia-smi says which."""
    if state.runtime.accelerator != "GPU" or state.inventory.accelerator is not None:
        return None
    said = " ".join(state.inventory.problems)
    return _found(
        state, "silent-driver", f"There is an NVIDIA driver, but it does not answer: {said}"
    )


def cpu_build(state: State) -> Finding | None:
    """A GPU is there, and the PyTorch that is installed was built for CPUs."""
    version = state.runtime.frameworks.get("torch")
    if state.runtime.accelerator != "GPU" or not version or state.evidence.torch_cuda != "":
        return None
    seen = f"This machine has a GPU, but PyTorch {version} is a build for CPUs."
    return _found(state, "cpu-build", seen)


def cuda_too_new(state: State) -> Finding | None:
    """PyTorch's CUDA has a higher major version than the driver's."""
    device = state.inventory.accelerator
    built_for = state.evidence.torch_cuda
    if device is None or not device.cuda or not built_for:
        return None
    if images.numbers(built_for)[0] <= images.numbers(device.cuda)[0]:
        return None
    seen = (
        f"PyTorch is built for CUDA {built_for}; driver {device.driver} knows CUDA {device.cuda}."
    )
    return _found(state, "cuda-too-new", seen)


def replaced_build(state: State) -> Finding | None:
    """Colab's own PyTorch, which has a suffix such as +cu130, was replaced by PyPI's."""
    version = state.runtime.frameworks.get("torch", "")
    if state.runtime.platform != "colab" or not version or "+" in version:
        return None
    return _found(state, "replaced-build", f"PyTorch {version} is not the build that Colab ships.")


def tensorflow_cuda(state: State) -> Finding | None:
    """A GPU build of TensorFlow, and no libraries of the CUDA that it was made for."""
    version = state.packages.get("tensorflow", "")
    if state.runtime.accelerator != "GPU" or not version or 12 in state.evidence.cublas:
        return None
    # From 2.18 on all are made for CUDA 12; what comes after the tested one is not known.
    if not (2, 18) <= images.numbers(version)[:2] <= (2, 22):
        return None
    found = ", ".join(map(str, state.evidence.cublas)) or "none"
    seen = f"TensorFlow {version} needs CUDA 12's libraries; found of CUDA: {found}."
    return _found(state, "tensorflow-cuda", f"{seen} It will compute on the CPU.")


def gpu_held(state: State) -> Finding | None:
    """Most of the GPU's memory is taken, and not by a framework of this process."""
    device = state.inventory.accelerator
    if device is None or not device.memory_total or not device.memory_used:
        return None
    if 2 * device.memory_used < device.memory_total or {"torch", "tensorflow", "jax"} & set(
        state.loaded
    ):
        return None
    used, total = _units.gib(device.memory_used), _units.gib(device.memory_total)
    return _found(state, "gpu-held", f"{used} of the GPU's {total} are in use already.")


def gpu_idle(state: State) -> Finding | None:
    """A GPU on Colab that nothing has used for half an hour."""
    device = state.inventory.accelerator
    if state.runtime.platform != "colab" or device is None or device.utilization != 0:
        return None
    if device.memory_used is None or 20 * device.memory_used > (device.memory_total or 0):
        return None
    if state.evidence.uptime < IDLE_AFTER:
        return None
    return _found(state, "gpu-idle", f"{device.name} is idle, and its memory is empty.")


def bf16_emulated(state: State) -> Finding | None:
    """A GPU without units for bf16, such as the T4."""
    device = state.inventory.accelerator
    if device is None or not device.capability or float(device.capability) >= BF16_FROM:
        return None
    seen = f"{device.name} (compute capability {device.capability}) emulates bf16, slowly."
    return _found(state, "bf16-emulated", seen)


def unknown_chip(state: State) -> Finding | None:
    """A chip that the catalogue does not have: measured, but without its data-sheet limit."""
    device = state.inventory.accelerator
    if device is None or device.chip or state.runtime.accelerator == "Apple GPU":
        return None
    seen = f"{device.name} is not in the course's catalogue, so its data-sheet limits are missing."
    return _found(state, "unknown-chip", seen)


def tpu_without_tensorflow(state: State) -> Finding | None:
    """A TPU machine has no TensorFlow, and old notebooks expect it."""
    if state.runtime.accelerator != "TPU" or "tensorflow" in state.runtime.frameworks:
        return None
    since = "; Colab took it out on 2025-03-07" if state.runtime.platform == "colab" else ""
    return _found(state, "tpu-without-tensorflow", f"This TPU machine has no TensorFlow{since}.")


def tpu_plain_tensorflow(state: State) -> Finding | None:
    """A TPU machine with the usual TensorFlow, which has no code for TPUs."""
    plain = {"tensorflow", "tensorflow-cpu"} & set(state.packages)
    if state.runtime.accelerator != "TPU" or not plain or "tensorflow-tpu" in state.packages:
        return None
    return _found(
        state,
        "tpu-plain-tensorflow",
        "This machine has a TPU, and its TensorFlow is not built for one: it computes on the CPU.",
    )


def tpu_in_use(state: State) -> Finding | None:
    """Another process has opened the TPU, which only one can own."""
    if not state.evidence.tpu_holders:
        return None
    pids = ", ".join(map(str, state.evidence.tpu_holders))
    return _found(state, "tpu-in-use", f"The TPU is held by another process (pid {pids}).")


def old_python(state: State) -> Finding | None:
    """Python below the course's minimum."""
    if images.numbers(state.runtime.python)[:2] >= (3, 11):
        return None
    return _found(state, "old-python", f"Python {state.runtime.python} is older than 3.11.")


def package_missing(state: State) -> Finding | None:
    """A package that the lesson imports is not installed."""
    missing = [name for name in state.wants.packages if not _is_installed(name, state)]
    if not missing:
        return None
    seen = f"The lesson imports {', '.join(missing)}, and that is not installed."
    return _found(state, "package-missing", seen, _naming("package-missing", state, missing))


def part_missing(state: State) -> Finding | None:
    """Some cells need a package that is not installed; they show recorded results."""
    missing = [name for name in state.wants.optional if not _is_installed(name, state)]
    if not missing:
        return None
    seen = f"{', '.join(missing)} is not installed. Cells that need it show recorded results."
    if state.runtime.accelerator == "TPU" and "tensorflow" in missing:
        # The plain one would be of no use there.
        return _found(state, "part-missing", seen, "Nothing to do: a GPU or CPU machine has it.")
    return _found(state, "part-missing", seen, _naming("part-missing", state, missing))


def _naming(id: str, state: State, imports: list[str]) -> str:
    """The remedy, with the distributions of these imports in it."""
    names = " ".join(DISTRIBUTION.get(name, name) for name in imports)
    return way_out(id, state.runtime.platform).replace("NAME", names)


def old_torch(state: State) -> Finding | None:
    """PyTorch from before torch.accelerator."""
    version = state.runtime.frameworks.get("torch", "")
    if not version or images.numbers(version)[:2] >= (2, 6):
        return None
    return _found(
        state, "old-torch", f"PyTorch {version} is older than 2.6, which has torch.accelerator."
    )


def restart_needed(state: State) -> Finding | None:
    """An imported package was replaced on disk: two versions are mixed from here on."""
    mixed = [
        f"{name} {version} is loaded, {state.packages[name]} is installed"
        for name, version in state.loaded.items()
        if name in state.packages and not _is_same(version, state.packages[name])
    ]
    return _found(state, "restart-needed", "; ".join(mixed) + ".") if mixed else None


def _is_same(loaded: str, installed: str) -> bool:
    """PyPI's PyTorch calls itself 2.11.0+cu130 and its package 2.11.0: only a suffix of both counts."""
    if "+" in loaded and "+" in installed:
        return loaded == installed
    return loaded.partition("+")[0] == installed.partition("+")[0]


def image_moved(state: State) -> Finding | None:
    """Colab has moved a package of the lesson by a major version since the course was tested."""
    if state.runtime.platform != "colab":
        return None
    image = images.images()[images.LATEST]
    tested = image.runtimes[{"GPU": "gpu", "TPU": "tpu"}.get(state.runtime.accelerator, "cpu")]
    imports = (*state.wants.packages, *state.wants.optional, *_FRAMEWORKS)
    moved = [
        f"{name} {now}, tested with {tested[name]}"
        for name, now in state.packages.items()
        if name in tested and name in {DISTRIBUTION.get(each, each) for each in imports}
        if images.numbers(now)[0] > images.numbers(tested[name])[0]
    ]
    return (
        _found(state, "image-moved", f"Newer than tested: {'; '.join(moved)}.") if moved else None
    )


def torchao_peft(state: State) -> Finding | None:
    """PEFT refuses the torchao that is installed."""
    peft, torchao = state.packages.get("peft"), state.packages.get("torchao")
    if not peft or not torchao:
        return None
    if images.numbers(peft) < (0, 19) or images.numbers(torchao) >= (0, 16):
        return None
    return _found(state, "torchao-peft", f"PEFT {peft} refuses torchao {torchao}.")


def uv_environment(state: State) -> Finding | None:
    """On Colab, uv has made an environment beside the one that the notebook uses."""
    if not state.runtime.platform.startswith("colab") or not state.evidence.other_environment:
        return None
    seen = f"There is an environment in {state.evidence.other_environment}; this kernel does not use it."
    return _found(state, "uv-environment", seen)


def little_ram(state: State) -> Finding | None:
    """So little memory is free that a lesson may kill the session."""
    available = state.runtime.ram_available
    if not state.runtime.ram_total or available >= MIN_RAM:
        return None
    seen = f"Only {_units.gib(available)} of memory is free; lessons need {_units.gib(MIN_RAM)}."
    return _found(state, "little-ram", seen)


def long_session(state: State) -> Finding | None:
    """A Colab machine that is near the end of a free session."""
    if state.runtime.platform != "colab" or state.evidence.uptime < LONG_SESSION:
        return None
    return _found(
        state,
        "long-session",
        f"This machine has been up for {state.evidence.uptime / 3600:.1f} hours.",
    )


def little_disk(state: State) -> Finding | None:
    """The disk is nearly full: a file cannot be written whole."""
    if not state.runtime.disk_total or state.runtime.disk_free >= MIN_DISK:
        return None
    return _found(
        state, "little-disk", f"Only {_units.gib(state.runtime.disk_free)} of disk is free."
    )


def drive_dropped(state: State) -> Finding | None:
    """Google Drive was mounted, and does not answer."""
    if not state.evidence.drive.startswith("does not answer"):
        return None
    return _found(state, "drive-dropped", f"{runtime.DRIVE} {state.evidence.drive}.")


def drive_folder(state: State) -> Finding | None:
    """Somebody wrote to Drive's folder while Drive was not there."""
    if state.evidence.drive != "not mounted":
        return None
    return _found(
        state, "drive-folder", f"{runtime.DRIVE} has files in it, and is not Google Drive."
    )


#: Every check, in the order of the troubleshooting page.
CHECKS: tuple[Check, ...] = (
    no_accelerator,
    other_chip,
    other_kind,
    silent_driver,
    cpu_build,
    cuda_too_new,
    replaced_build,
    tensorflow_cuda,
    gpu_held,
    gpu_idle,
    bf16_emulated,
    unknown_chip,
    tpu_without_tensorflow,
    tpu_plain_tensorflow,
    tpu_in_use,
    old_python,
    package_missing,
    part_missing,
    old_torch,
    restart_needed,
    image_moved,
    torchao_peft,
    uv_environment,
    little_ram,
    long_session,
    little_disk,
    drive_dropped,
    drive_folder,
)

#: These know what a lesson wants, or what the notebook has imported: a process of its own cannot.
ON_THE_CARD_ONLY = ("other-chip", "other-kind", "package-missing", "part-missing", "restart-needed")


def _is_installed(name: str, state: State) -> bool:
    if name in state.runtime.frameworks or DISTRIBUTION.get(name, name) in state.packages:
        return True
    if name.replace("_", "-") in runtime.WATCHED_PACKAGES:
        return False
    return find_spec(name) is not None
