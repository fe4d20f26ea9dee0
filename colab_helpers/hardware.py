"""What chip is it, and what can it do at most?

Devices are asked in this order: NVML (through nvidia-ml-py), `nvidia-smi`, PCI ids for TPUs, and
always the CPU. What a source could not answer is kept in `Inventory.problems`, in words.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import subprocess
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from importlib import resources
from pathlib import Path
from typing import Any

from colab_helpers import _units, runtime
from colab_helpers._units import GIB, MIB

SMI_TIMEOUT = 5.0  # seconds; a healthy nvidia-smi answers in well under one
_SMI_FIELDS = "name,memory.total,memory.used,driver_version,compute_cap,utilization.gpu"
_GB = 10**9
_TERA = 10**12


@dataclass(frozen=True)
class Chip:
    """A data sheet. Memory in bytes, bandwidth in bytes/s, `peak` in FLOP/s by number format.

    `links` holds the bytes/s that a chip can send to other "chips" and into the "network".
    """

    key: str
    name: str
    kind: str
    year: int
    match: tuple[str, ...]
    memory: float
    bandwidth: float
    peak: Mapping[str, float]
    native: tuple[str, ...]
    where: str
    source: str
    url: str
    seen: date
    confidence: str
    capability: str | None = None
    units: int | None = None
    lanes: int | None = None
    memory_mib: int | None = None
    links: Mapping[str, float] = field(default_factory=dict)

    @property
    def best_format(self) -> str:
        """The floating-point format for training with the highest peak."""
        formats = [name for name in ("bf16", "fp16", "tf32", "fp32") if name in self.peak]
        return max(formats, key=lambda name: self.peak[name])

    def ridge(self, number_format: str | None = None) -> float:
        """Return the FLOP per byte from which on compute, not bandwidth, is the limit.

        Source of the idea: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009.

        >>> round(catalogue()["T4"].ridge("fp16"))
        203
        """
        return self.peak[number_format or self.best_format] / self.bandwidth

    def attainable(self, intensity: float, number_format: str | None = None) -> float:
        """Return the most FLOP/s that code of `intensity` FLOP per byte can reach: the roofline.

        >>> catalogue()["T4"].attainable(1, "fp32") / 1e9
        320.0
        """
        peak = self.peak[number_format or self.best_format]
        return min(peak, intensity * self.bandwidth)


@dataclass(frozen=True)
class Device:
    """One device of this machine. Memory in bytes, `utilization` in percent of the last moments.

    `cuda` is the newest CUDA that the driver knows. None where the source does not say.
    """

    kind: str
    name: str
    source: str
    memory_total: int | None = None
    memory_used: int | None = None
    driver: str | None = None
    capability: str | None = None
    cores: int | None = None
    features: tuple[str, ...] = ()
    cuda: str | None = None
    utilization: int | None = None

    @property
    def lanes(self) -> int | None:
        """Numbers in float32 that are worked on at once: vector width times cores, or the chip's.

        A vector unit of AVX-512 takes 16 of them, AVX2 takes 8, others 4; some cores have two units.
        """
        if self.kind != "CPU":
            return self.chip.lanes if self.chip else None
        width = 16 if "avx512f" in self.features else 8 if "avx2" in self.features else 4
        return width * (self.cores or 1)

    @property
    def chip(self) -> Chip | None:
        """The data sheet of this device, or None when the catalogue has none."""
        return find_chip(self.name, self.memory_total)

    def __str__(self) -> str:
        parts = [
            self.name,
            f"{self.cores} cores" if self.cores else "",
            _units.gib(self.memory_total) if self.memory_total else "",
            f"driver {self.driver}" if self.driver else "",
            f"compute capability {self.capability}" if self.capability else "",
            " ".join(self.features),
        ]
        return f"{self.kind}: {', '.join(filter(None, parts))} (says {self.source})"


@dataclass(frozen=True)
class Inventory:
    """The devices found, accelerators first, and what stood in the way of finding more."""

    devices: tuple[Device, ...]
    problems: tuple[str, ...] = ()

    @property
    def accelerator(self) -> Device | None:
        """The first device that is not the CPU."""
        return next((device for device in self.devices if device.kind != "CPU"), None)

    @property
    def cpu(self) -> Device:
        """The processor."""
        return next(device for device in self.devices if device.kind == "CPU")

    @property
    def main(self) -> Device:
        """The device a lesson should use: the accelerator if there is one."""
        return self.accelerator or self.cpu

    def to_dict(self) -> dict:
        """Return plain data, ready for JSON."""
        return asdict(self)


@functools.cache
def catalogue() -> Mapping[str, Chip]:
    """Return every data sheet of the course by key, as written in `accelerators.toml`.

    >>> catalogue()["T4"].capability
    '7.5'
    """
    text = resources.files("colab_helpers").joinpath("accelerators.toml").read_text("utf-8")
    return {row["key"]: _chip(row) for row in tomllib.loads(text)["chip"]}


def find_chip(name: str, memory_total: int | None = None) -> Chip | None:
    """Return the data sheet for a device name as NVML or a PCI id gives it, or None.

    `memory_total` in bytes decides between variants that share a name (A100 with 40 or 80 GB).

    >>> find_chip("Tesla T4").key, find_chip("NVIDIA A100-SXM4-80GB").key
    ('T4', 'A100-80')
    >>> find_chip("NVIDIA GeForce RTX 3060") is None
    True
    """
    chips = catalogue().values()
    found = [chip for chip in chips if all(_has_word(name, word) for word in chip.match)]
    # Other cards of a family (PCIe, NVL) have data sheets of their own, which are not here.
    if not found and memory_total and not re.search("PCIe|NVL", name):
        found = [
            chip
            for chip in chips
            if _has_word(name, chip.match[0]) and abs(memory_total - chip.memory) < 8 * GIB
        ]
    return found[0] if len(found) == 1 else None


def list_devices(
    evidence: runtime.Evidence | None = None,
    nvml: Any = None,
    run: Callable[..., subprocess.CompletedProcess] = subprocess.run,
) -> Inventory:
    """Find this machine's devices without starting a framework or holding a TPU.

    `evidence`, `nvml` (a module with nvidia-ml-py's functions) and `run` are there for recorded
    machines; leave them out to ask this one. Nothing is raised: what failed is in `problems`.
    """
    seen = runtime.observe() if evidence is None else evidence
    described = runtime.describe(seen)
    found, problems = [], []
    if described.tpu:
        found.append(Device(kind="TPU", name=described.tpu, source="PCI id"))
    if described.accelerator == "GPU":
        found, problems = _gpus(nvml, run)
    cpu = _cpu(seen)
    if described.accelerator == "Apple GPU":
        found.append(Device(kind="GPU", name=f"{cpu.name} GPU", source="platform"))
    return Inventory((*found, cpu), tuple(problems))


def _gpus(nvml: Any, run: Callable) -> tuple[list[Device], list[str]]:
    problems = []
    for ask in (lambda: _from_nvml(nvml), lambda: _from_nvidia_smi(run)):
        try:
            return ask(), problems
        except _NoAnswer as reason:
            problems.append(str(reason))
    return [], problems


class _NoAnswer(Exception):
    """A source that could not say which devices there are."""


def _from_nvml(nvml: Any) -> list[Device]:
    if nvml is None:
        try:
            import pynvml as nvml
        except ImportError:
            raise _NoAnswer("NVML: the package nvidia-ml-py is not installed.") from None
    try:
        nvml.nvmlInit()
        try:
            return [_nvml_device(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
        finally:
            nvml.nvmlShutdown()
    except nvml.NVMLError as error:
        raise _NoAnswer(f"NVML answered with an error: {error}.") from error


def _nvml_device(nvml: Any, index: int) -> Device:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = _nvml_memory(nvml, handle)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Device(
        kind="GPU",
        name=_text(nvml.nvmlDeviceGetName(handle)),
        source="NVML",
        memory_total=memory.total,
        memory_used=memory.used,
        driver=_text(nvml.nvmlSystemGetDriverVersion()),
        capability=f"{major}.{minor}",
        cuda=_nvml_cuda(nvml),
        utilization=_nvml_utilization(nvml, handle),
    )


def _nvml_cuda(nvml: Any) -> str | None:
    """NVML gives 1000 times the major version plus 10 times the minor one."""
    try:
        number = nvml.nvmlSystemGetCudaDriverVersion_v2()
    except (AttributeError, nvml.NVMLError):
        return None
    return f"{number // 1000}.{number % 1000 // 10}"


def _nvml_utilization(nvml: Any, handle: Any) -> int | None:
    try:
        return nvml.nvmlDeviceGetUtilizationRates(handle).gpu
    except (AttributeError, nvml.NVMLError):  # slices of a GPU (MIG) do not have it
        return None


def _nvml_memory(nvml: Any, handle: Any) -> Any:
    """Memory as nvidia-smi counts it: version 2 leaves out what the driver keeps for itself."""
    try:
        return nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except (AttributeError, TypeError, nvml.NVMLError):
        return nvml.nvmlDeviceGetMemoryInfo(handle)


def _from_nvidia_smi(run: Callable) -> list[Device]:
    command = ["nvidia-smi", f"--query-gpu={_SMI_FIELDS}", "--format=csv,noheader,nounits"]
    try:
        done = run(command, capture_output=True, text=True, timeout=SMI_TIMEOUT)
    except subprocess.TimeoutExpired:
        raise _NoAnswer(
            f"nvidia-smi did not answer within {SMI_TIMEOUT:g} s: the driver hangs. "
            "Disconnect and delete the runtime, then connect again."
        ) from None
    except OSError as error:
        raise _NoAnswer(f"nvidia-smi could not be started: {error}.") from None
    if done.returncode:
        message = (done.stdout + done.stderr).strip().splitlines() or ["no message"]
        raise _NoAnswer(f"nvidia-smi ended with code {done.returncode}: {message[0]}")
    return [_smi_device(line) for line in done.stdout.splitlines() if line.strip()]


def _smi_device(line: str) -> Device:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != 6 or not cells[1].isdigit():
        raise _NoAnswer(f"nvidia-smi printed something unexpected: {line.strip()[:80]!r}.")
    name, total, used, driver, capability, utilization = cells
    return Device(
        kind="GPU",
        name=name,
        source="nvidia-smi",
        memory_total=int(total) * MIB,
        memory_used=int(used) * MIB if used.isdigit() else None,
        driver=driver,
        capability=capability if re.fullmatch(r"\d+\.\d+", capability) else None,
        utilization=int(utilization) if utilization.isdigit() else None,
    )


#: CPU feature -> what it means for number formats. Names as /proc/cpuinfo writes them.
CPU_FEATURES = (
    *("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_fp16"),
    *("sve", "bf16", "asimdhp"),  # ARM
)


def _cpu(seen: runtime.Evidence) -> Device:
    try:
        info = Path("/proc/cpuinfo").read_text()
    except OSError:
        info = ""
    name = re.search(r"^model name\s*:\s*(.+)$", info, re.M)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", info, re.M)
    present = set(flags.group(1).split()) if flags else set()
    return Device(
        kind="CPU",
        name=name.group(1) if name else _name_without_proc(seen),
        source="/proc/cpuinfo" if name else "platform",
        memory_total=seen.ram_total or None,
        memory_used=(seen.ram_total - seen.ram_available) or None,
        cores=seen.cores or os.cpu_count(),
        features=tuple(feature for feature in CPU_FEATURES if feature in present),
    )


def _name_without_proc(seen: runtime.Evidence) -> str:
    if platform.system() == "Darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip() or "Apple"
    return platform.processor() or seen.machine


def _chip(row: dict) -> Chip:
    return Chip(
        **{
            **row,
            "memory": row["memory"] * _GB,
            "bandwidth": row["bandwidth"] * _GB,
            "peak": {name: value * _TERA for name, value in row["peak"].items()},
            "links": {name: value * _GB for name, value in row.get("links", {}).items()},
            "match": tuple(row["match"]),
            "native": tuple(row["native"]),
        }
    )


def _has_word(name: str, word: str) -> bool:
    # "L4" must not be found in "L40S", nor "T4" in "T400".
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", name) is not None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
