"""What NVIDIA's own tools say: NVML first, `nvidia-smi` where it is silent."""

from __future__ import annotations

import dataclasses
import importlib
import re
import subprocess
from collections.abc import Callable
from typing import Any

from colab_helpers._units import MIB
from colab_helpers.hardware.device import Device

SMI_TIMEOUT = 5.0  # seconds; a healthy nvidia-smi answers in well under one
_SMI_FIELDS = "name,memory.total,memory.used,driver_version,compute_cap,uuid"


def gpus(nvml: Any, run: Callable, visible: str | None = None) -> tuple[list[Device], list[str]]:
    """Return the GPUs of the first source that answers, and in words why the others did not.

    `visible` is CUDA_VISIBLE_DEVICES: the GPUs that frameworks see, in their order; None for all.
    `nvml` is a module with nvidia-ml-py's functions, None for the installed one; `run` starts
    `nvidia-smi`.
    """
    problems: list[str] = []
    for ask in (lambda: _from_nvml(nvml), lambda: _from_nvidia_smi(run)):
        try:
            return _visible(ask(), visible), problems
        except _NoAnswer as reason:
            problems.append(str(reason))
    return [], problems


def _visible(found: list[Device], visible: str | None) -> list[Device]:
    """Those that CUDA shows: by number or UUID, up to the first invalid entry, as CUDA reads it."""
    if visible is None or not found:
        return found
    chosen: list[Device] = []
    by_number = visible.strip()[:1].isdecimal()  # as the first entry is, so are all
    for entry in visible.split(","):
        name = entry.strip()
        if name.startswith("MIG-"):  # a slice: its chip is known, its own limits are not
            whole = found[0]
            chosen.append(dataclasses.replace(whole, name=f"{whole.name} MIG", memory_total=None))
            continue
        if by_number:
            named = found[int(name) :][:1] if name.isdecimal() else []
        else:
            named = [device for device in found if _is_named(device, name)]
        if len(named) != 1:
            break
        if any(named[0] is one for one in chosen):  # twice the same: CUDA shows none at all
            return []
        chosen += named
    return chosen


def _is_named(device: Device, name: str) -> bool:
    return bool(name) and bool(device.uuid) and str(device.uuid).startswith(name)


class _NoAnswer(Exception):
    """A source that could not say which devices there are."""


def _from_nvml(nvml: Any) -> list[Device]:
    if nvml is None:
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            raise _NoAnswer("NVML: the package nvidia-ml-py is not installed.") from None
    try:
        nvml.nvmlInit()
        try:
            return [_nvml_device(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
        finally:
            nvml.nvmlShutdown()
    except Exception as error:  # also what a broken driver or another package of this name raises
        raise _NoAnswer(f"NVML answered with an error: {error}.") from error


def _nvml_device(nvml: Any, index: int) -> Device:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = _nvml_memory(nvml, handle)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Device(
        kind="GPU",
        name=_text(nvml.nvmlDeviceGetName(handle)),
        source="NVML",
        memory_total=memory.total if memory else None,
        memory_used=memory.used if memory else None,
        driver=_text(nvml.nvmlSystemGetDriverVersion()),
        capability=f"{major}.{minor}",
        cuda=_nvml_cuda(nvml),
        uuid=_nvml_uuid(nvml, handle),
    )


def _nvml_cuda(nvml: Any) -> str | None:
    """NVML gives 1000 times the major version plus 10 times the minor one."""
    try:
        number = nvml.nvmlSystemGetCudaDriverVersion_v2()
    except (AttributeError, nvml.NVMLError):
        return None
    return f"{number // 1000}.{number % 1000 // 10}"


def _nvml_uuid(nvml: Any, handle: Any) -> str | None:
    try:
        return _text(nvml.nvmlDeviceGetUUID(handle))
    except (AttributeError, nvml.NVMLError):
        return None


def _nvml_memory(nvml: Any, handle: Any) -> Any:
    """Memory as nvidia-smi counts it: version 2 leaves out what the driver keeps for itself."""
    try:
        return nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except (AttributeError, TypeError, nvml.NVMLError):
        try:
            return nvml.nvmlDeviceGetMemoryInfo(handle)
        except nvml.NVMLError as error:
            if "support" not in str(error).lower():
                raise
            return None  # it shares the machine's memory


def _from_nvidia_smi(run: Callable) -> list[Device]:
    command = ["nvidia-smi", f"--query-gpu={_SMI_FIELDS}", "--format=csv,noheader,nounits"]
    try:
        done = run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=SMI_TIMEOUT
        )
    except subprocess.TimeoutExpired:
        raise _NoAnswer(
            f"nvidia-smi timed out after {SMI_TIMEOUT:g} s: the driver is hung. "
            "Restart the machine; on Colab, Runtime > Disconnect and delete runtime."
        ) from None
    except OSError as error:
        raise _NoAnswer(f"nvidia-smi could not be started: {error}.") from None
    if done.returncode:
        message = (done.stdout + done.stderr).strip().splitlines() or ["no message"]
        raise _NoAnswer(f"nvidia-smi ended with code {done.returncode}: {message[0]}")
    return [_smi_device(line) for line in done.stdout.splitlines() if line.strip()]


def _smi_device(line: str) -> Device:
    cells = [cell.strip() for cell in line.split(",")]
    # Chips that share the machine's memory, such as GB10, have none of their own: "[N/A]".
    if len(cells) != 6 or not (cells[1].isdecimal() or cells[1] == "[N/A]"):
        raise _NoAnswer(f"nvidia-smi printed something unexpected: {line.strip()[:80]!r}.")
    name, total, used, driver, capability, uuid = cells
    return Device(
        kind="GPU",
        name=name,
        source="nvidia-smi",
        memory_total=int(total) * MIB if total.isdecimal() else None,
        memory_used=int(used) * MIB if used.isdecimal() else None,
        driver=driver,
        capability=capability if re.fullmatch(r"\d+\.\d+", capability) else None,
        uuid=uuid,
    )


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
