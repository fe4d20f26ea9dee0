"""Checks of the GPU that was asked for, and of the frameworks that should use it."""

from __future__ import annotations

from colab_helpers import _units, runtime, runtime_images
from colab_helpers.preflight.state import State
from colab_helpers.problem_schema import Finding

#: From (PyTorch, built for CUDA) on, the lowest compute capability with code; newest first.
#: Sources: pytorch/pytorch #172352, PR #175253, #190385 (lists of architectures of the builds).
_DROPPED = (("2.15", "0", "7.5"), ("2.11", "12.8", "7.5"), ("2.8", "12.8", "7.0"))
BF16_FROM = 8.0  # compute capability


def no_accelerator(state: State) -> Finding | None:
    """The machine has no accelerator, whatever the lesson asks for."""
    if state.runtime.accelerator != "none" or _is_hidden(state):
        return None
    wanted = state.required.accelerator or "GPU or TPU"
    seen = f"No {wanted} here. Every cell still runs: on the CPU, more slowly."
    return state.report("no-accelerator", seen, _menu(state))


def gpu_hidden(state: State) -> Finding | None:
    """There is a GPU, and CUDA_VISIBLE_DEVICES hides it from every framework."""
    if not _is_hidden(state):
        return None
    value = state.evidence.env["CUDA_VISIBLE_DEVICES"]
    return state.report("gpu-hidden", f"CUDA_VISIBLE_DEVICES is {value!r}, which hides the GPU.")


def other_chip(state: State) -> Finding | None:
    """The lesson asked for one chip and got another: Colab's own notice is easily missed."""
    device = state.inventory.accelerator
    if device is None or device.chip is None or device.kind != state.required.accelerator:
        return None
    if state.required.chip in ("", device.chip.key):
        return None
    seen = (
        f"The lesson asks for {state.required.chip}, you have {device.chip.key}. It measures yours."
    )
    return state.report("other-chip", seen)


def other_kind(state: State) -> Finding | None:
    """The lesson computes on a GPU with PyTorch, which does not use this machine's TPU."""
    if state.runtime.accelerator != "TPU" or state.required.accelerator != "GPU":
        return None
    seen = "This machine has a TPU, and the lesson asks for a GPU. It computes on the CPU here."
    return state.report("other-kind", seen, _menu(state))


def silent_driver(state: State) -> Finding | None:
    """There is a GPU, and neither NVML nor nvidia-smi says which."""
    if state.runtime.accelerator != "GPU" or state.inventory.accelerator is not None:
        return None
    if _is_hidden(state):
        return None
    said = " ".join(state.inventory.problems)
    return state.report(
        "silent-driver", f"There is an NVIDIA driver, but it does not answer: {said}"
    )


def cpu_build(state: State) -> Finding | None:
    """A GPU is there, and the PyTorch that is installed was built for CPUs."""
    version = state.runtime.frameworks.get("torch")
    if state.runtime.accelerator != "GPU" or not version or state.symptoms.torch_cuda != "":
        return None
    seen = f"This machine has a GPU, but PyTorch {version} is a build for CPUs."
    return state.report("cpu-build", seen)


def cuda_too_new(state: State) -> Finding | None:
    """PyTorch's CUDA has a higher major version than the driver's."""
    device = state.inventory.accelerator
    built_for = state.symptoms.torch_cuda
    if device is None or not device.cuda or not built_for:
        return None
    if runtime_images.version_tuple(built_for)[:1] <= runtime_images.version_tuple(device.cuda)[:1]:
        return None
    seen = f"PyTorch is built for CUDA {built_for}; driver {device.driver} supports CUDA up to {device.cuda}."
    return state.report("cuda-too-new", seen)


def gpu_too_old(state: State) -> Finding | None:
    """PyTorch's CUDA builds have no code for this GPU: the first operation on it would fail."""
    device = state.inventory.accelerator
    version, built_for = state.runtime.frameworks.get("torch", ""), state.symptoms.torch_cuda
    if device is None or not device.capability or not built_for:
        return None
    since = next(
        (since for torch, cuda, since in _DROPPED if _has(version, torch, built_for, cuda)), None
    )
    if since is None or not runtime_images.is_older(device.capability, since):
        return None
    seen = f"{device.name} has compute capability {device.capability}; PyTorch {version} starts at {since}."
    return state.report("gpu-too-old", seen)


def replaced_build(state: State) -> Finding | None:
    """Colab's own PyTorch, which has a suffix such as +cu130, was replaced by PyPI's."""
    version = state.runtime.frameworks.get("torch", "")
    if state.runtime.platform != "colab" or not version or "+" in version:
        return None
    return state.report("replaced-build", f"PyTorch {version} is not the build that Colab ships.")


def tensorflow_cuda(state: State) -> Finding | None:
    """TensorFlow is a GPU build, and the libraries of its CUDA version are missing."""
    version = state.packages.get("tensorflow", "")
    if state.runtime.accelerator != "GPU" or not version or 12 in state.symptoms.cublas:
        return None
    # From 2.18 on all are made for CUDA 12; what comes after the tested one is not known.
    if not (2, 18) <= runtime_images.version_tuple(version)[:2] <= (2, 22):
        return None
    majors = ", ".join(map(str, state.symptoms.cublas)) or "none"
    seen = f"TensorFlow {version} needs CUDA 12's libraries; CUDA versions found: {majors}."
    return state.report("tensorflow-cuda", f"{seen} It will compute on the CPU.")


def gpu_held(state: State) -> Finding | None:
    """Most of the GPU's memory is taken, and not by a framework of this process."""
    device = state.inventory.accelerator
    if device is None or not device.memory_total or not device.memory_used:
        return None
    if 2 * device.memory_used < device.memory_total or {"torch", "tensorflow", "jax"} & set(
        state.loaded
    ):
        return None
    used, total = _units.format_gib(device.memory_used), _units.format_gib(device.memory_total)
    return state.report("gpu-held", f"{used} of the GPU's {total} are in use already.")


def bf16_emulated(state: State) -> Finding | None:
    """A GPU without tensor cores for bf16, such as the T4."""
    device = state.inventory.accelerator
    if device is None or not device.capability or float(device.capability) >= BF16_FROM:
        return None
    seen = f"{device.name} (compute capability {device.capability}) has no tensor cores for bf16."
    return state.report("bf16-emulated", seen)


def gpu_slice(state: State) -> Finding | None:
    """A slice of a card, which goes by the card's name."""
    device = state.inventory.accelerator
    if device is None or not device.name.endswith(" MIG"):
        return None
    seen = f"{device.name}: its data-sheet limits are those of the whole card."
    return state.report("gpu-slice", seen)


def _has(version: str, torch: str, built_for: str, cuda: str) -> bool:
    return not runtime_images.is_older(version, torch) and not runtime_images.is_older(
        built_for, cuda
    )


def _is_hidden(state: State) -> bool:
    """CUDA_VISIBLE_DEVICES names no GPU; or one that is not there, so that none is left."""
    if not state.evidence.nvidia_smi or "CUDA_VISIBLE_DEVICES" not in state.evidence.env:
        return False
    gone = state.inventory.accelerator is None and not state.inventory.problems
    return runtime.hides_gpus(state.evidence.env) or gone


def _menu(state: State) -> str:
    """Where to click for the accelerator that the lesson wants."""
    choice = "v5e-1 TPU" if state.required.accelerator == "TPU" else "T4 GPU"
    clicks = f"Runtime > Change runtime type > {choice} > Save, then run from the top."
    if state.runtime.platform.startswith("colab"):
        return clicks
    if state.runtime.platform == "kaggle":
        kind = state.required.accelerator or "GPU"
        return f"Settings > Accelerator > {kind}, then run from the top."
    return f"To get one, open the notebook in Colab, then {clicks}"
