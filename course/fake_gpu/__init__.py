"""A fake GPU: PyTorch, NVML and TensorFlow answer as a machine with one would.

For running lessons as a T4, two of them, an A100, an H200 or an Apple GPU would: PyTorch, NVML and
nvidia-smi, and TensorFlow answer as that machine does; memory is counted and refused as CUDA's
caching allocator does; mixing devices is refused. What it cannot show, and must not be used for:

* speed, and whether a clock waited: every call is done when it returns;
* numerics: results are the CPU's, also under autocast, whose lists of operations are the CPU's;
* what compilers and libraries of a card do: torch.compile returns the function itself, and attention,
  convolutions and the like take the CPU's ways, with the CPU's memory;
* pinned memory, streams, several processes on one card; fragmentation between threads.

Records made under it name it as their platform, and are refused as reference.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from course.fake_gpu import nvml_patches
from course.fake_gpu.after_import import after_import
from course.fake_gpu.machines import Machine, machines

__all__ = ["VARIABLE", "environment", "install", "machines"]

VARIABLE = "FAKE_GPU"
_AT_START = str(Path(__file__).with_name("startup"))

#: Where PyTorch's tensors lie, once it is imported.
torch_devices: Any = None


def environment(key: str, folder: Path) -> dict[str, str]:
    """Return what a process needs to be that machine; `folder` gets its nvidia-smi. Raises KeyError."""
    machine = machines()[key]
    # TensorFlow's CPU counts its memory only with oneDNN, which not every processor turns on.
    given = {VARIABLE: key, "PYTHONPATH": _AT_START, "TF_ENABLE_ONEDNN_OPTS": "1"}
    if machine.is_nvidia:
        nvml_patches.write_nvidia_smi(folder, machine)
        given["PATH"] = nvml_patches.path_with(folder)
    return given


def install(key: str) -> None:
    """Let this process be that machine: what is imported from here on answers as it."""
    machine = machines()[key]
    answers: dict[str, Callable[[ModuleType], None]] = {
        "torch": lambda _: _install_torch(machine),
        "colab_helpers.runtime.system_info": lambda module: nvml_patches.patch_probe(
            module, machine
        ),
        "colab_helpers._environment_probes": lambda module: nvml_patches.patch_symptoms(
            module, machine
        ),
        "colab_lessons.exercises.judging": _disable_timing,
    }
    if machine.is_nvidia:
        answers["pynvml"] = lambda module: nvml_patches.patch_nvml(module, machine)
        answers["tensorflow"] = lambda module: _install_tensorflow(module, machine)
    after_import(answers)


def _disable_timing(judging: ModuleType) -> None:
    """Tasks that ask for speed are run and not timed: the fake GPU's own work would be timed."""

    def require_speedup(slow: Callable[[], Any], quick: Callable[[], Any], advice: str) -> str:
        slow(), quick()
        return "not timed, since a fake GPU shows no speed"

    judging.require_speedup = require_speedup  # type: ignore[attr-defined]


def _install_torch(machine: Machine) -> None:
    global torch_devices
    from course.fake_gpu import torch_patches

    torch_devices = torch_patches.install(machine)


def _install_tensorflow(module: ModuleType, machine: Machine) -> None:
    from course.fake_gpu import tensorflow_patches

    tensorflow_patches.install(module, machine)
