"""What NVML, nvidia-smi and the machine's files say."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from colab_helpers import _atomic_files
from course.fake_gpu.machines import MIB, Machine, machines

_IDLE_MIB = 3  # what an empty card shows


def patch_nvml(nvml: ModuleType, machine: Machine) -> None:
    """Patch the imported nvidia-ml-py to describe `machine`; its exceptions stay unpatched."""

    def handle(index: int) -> int:
        if not 0 <= index < machine.cards:
            raise nvml.NVMLError(nvml.NVML_ERROR_INVALID_ARGUMENT)
        return index

    def memory(index: int, version: Any = None) -> SimpleNamespace:
        total, used = machine.driver_mib * MIB, used_mib(index) * MIB
        return SimpleNamespace(total=total, used=used, free=total - used, reserved=0)

    major, minor = machine.cuda.split(".")
    replacements = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: machine.cards,
        "nvmlDeviceGetHandleByIndex": handle,
        "nvmlDeviceGetName": lambda index: machine.name,
        "nvmlDeviceGetMemoryInfo": memory,
        "nvmlDeviceGetCudaComputeCapability": lambda index: tuple(
            map(int, machine.capability.split("."))
        ),
        "nvmlSystemGetDriverVersion": lambda: machine.driver,
        "nvmlSystemGetCudaDriverVersion_v2": lambda: 1000 * int(major) + 10 * int(minor),
        "nvmlDeviceGetUtilizationRates": lambda index: SimpleNamespace(gpu=0, memory=0),
        "nvmlDeviceGetUUID": _uuid,
    }
    for name, replacement in replacements.items():
        setattr(nvml, name, replacement)


def used_mib(index: int) -> int:
    """MiB in use on a card: what this process has there, with CUDA's own."""
    fake: Any = sys.modules.get("course.fake_gpu")
    devices = fake.torch_devices if fake else None
    if devices is None:
        return _IDLE_MIB
    card = devices.allocators[index]
    return _IDLE_MIB + (card.total - card.free_bytes) // MIB


def patch_probe(evidence: ModuleType, machine: Machine) -> None:
    """Let the helper see the machine's files and its processor's kind."""
    probe = evidence.probe

    def seen() -> Any:
        if machine.is_nvidia:
            return dataclasses.replace(
                probe(), nvidia_smi=True, paths=("/dev/nvidia0", "/dev/nvidiactl")
            )
        return dataclasses.replace(probe(), system="Darwin", machine="arm64")

    evidence.probe = seen  # type: ignore[attr-defined]


def patch_symptoms(symptoms: ModuleType, machine: Machine) -> None:
    """Let PyTorch look as if it had been built for the machine."""
    symptoms.torch_cuda = lambda: machine.built_for  # type: ignore[attr-defined]


def write_nvidia_smi(folder: Path, machine: Machine) -> Path:
    """Write an `nvidia-smi` into a folder, for the PATH of a process."""
    program = (
        f"#!{sys.executable}\nimport sys\nfrom course.fake_gpu import nvml_patches\n"
        f"nvml_patches.nvidia_smi({machine.key!r}, sys.argv[1:])\n"
    )
    path = _atomic_files.write(folder / "nvidia-smi", program)
    path.chmod(0o755)
    return path


def nvidia_smi(key: str, arguments: list[str]) -> None:
    """Print what nvidia-smi prints: its table, or the fields that are asked for as CSV."""
    machine = machines()[key]
    query = next((a.partition("=")[2] for a in arguments if a.startswith("--query-gpu=")), "")
    print(_fields(machine, query.split(",")) if query else _table(machine))


def _fields(machine: Machine, names: list[str]) -> str:
    known = {
        "name": machine.name,
        "memory.total": str(machine.driver_mib),
        "memory.used": str(_IDLE_MIB),
        "driver_version": machine.driver,
        "compute_cap": machine.capability,
    }
    rows = [
        ", ".join({**known, "uuid": _uuid(i), "index": str(i)}.get(name, "[N/A]") for name in names)
        for i in range(machine.cards)
    ]
    return "\n".join(rows)


def _table(machine: Machine) -> str:
    """The table of drivers 560 and later, in its widths."""
    line = "+-----------------------------------------------------------------------------------------+"
    split = "+-----------------------------------------+------------------------+----------------------+"
    head = (
        f"| NVIDIA-SMI {machine.driver:<22} Driver Version: {machine.driver:<14} "
        f"CUDA Version: {machine.cuda:<8} |"
    )
    rows = [
        line, head, split,
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
        "|                                         |                        |               MIG M. |",
        split.replace("-", "=").replace("+", "|"),
    ]  # fmt: skip
    for index in range(machine.cards):
        memory = f"{_IDLE_MIB}MiB / {machine.driver_mib:>6}MiB "
        rows += [
            f"|{index:>4}  {machine.name:<23.23}{'Off':>11} |   00000000:00:{4 + index:02X}.0 Off |{0:>21} |",
            f"| N/A   40C    P8{'10W /   70W ':>25}|{memory:>24}|{'0%      Default ':>22}|",
            "|                                         |                        |                  N/A |",
            split,
        ]
    empty = "|  No running processes found                                                             |"
    return "\n".join([*rows, "", line, f"| {'Processes:':<87} |", line, empty, line])


def _uuid(index: int) -> str:
    return f"GPU-00000000-0000-0000-0000-{index:012d}"


def path_with(folder: Path) -> str:
    """The PATH of a process in which a folder's programs come first."""
    return f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"
