"""The devices of this machine, and what their data sheets allow.

Devices are asked in this order: NVML (through nvidia-ml-py), `nvidia-smi`, PCI ids for TPUs, and
always the CPU. What a source could not answer is kept in `Inventory.problems`, in words.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

from colab_helpers import runtime
from colab_helpers.hardware import nvidia, processor
from colab_helpers.hardware.chips import Chip, catalog, find_chip
from colab_helpers.hardware.device import Device, Inventory

__all__ = ["Chip", "Device", "Inventory", "catalog", "find_chip", "list_devices"]


def list_devices(
    evidence: runtime.SystemInfo | None = None,
    nvml: Any = None,
    run: Callable[..., subprocess.CompletedProcess] = subprocess.run,
) -> Inventory:
    """Find this machine's devices without starting a framework or holding a TPU.

    `evidence`, `nvml` (a module with nvidia-ml-py's functions) and `run` are there for recorded
    machines; leave them out to ask this one. Nothing is raised: what failed is in `problems`.
    """
    seen = runtime.probe() if evidence is None else evidence
    described = runtime.describe(seen)
    found: list[Device] = []
    problems: list[str] = []
    found += [Device("TPU", name, "PCI id") for name in runtime.tpu_chips(seen)]
    if described.accelerator == "GPU":
        found, problems = nvidia.gpus(nvml, run, seen.env.get("CUDA_VISIBLE_DEVICES"))
    cpu = processor.cpu(seen)
    if described.accelerator == "Apple GPU":
        found.append(Device(kind="GPU", name=f"{cpu.name} GPU", source="platform"))
    if described.accelerator == "AMD GPU":
        found.append(Device(kind="GPU", name="AMD GPU", source="platform"))
    return Inventory((*found, cpu), tuple(problems))
