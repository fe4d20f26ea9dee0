"""What this machine shows from outside: no framework is imported, no chip is touched."""

from __future__ import annotations

import importlib.metadata
import os
import platform as _platform
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from colab_helpers import _environment_probes

#: Environment variables that detection reads. Nothing else of the environment is kept.
WATCHED_VARIABLES = """
    COLAB_BACKEND_VERSION CUDA_VISIBLE_DEVICES COLAB_JUPYTER_IP COLAB_NOTEBOOK_ID COLAB_RELEASE_TAG
    KAGGLE_DATA_PROXY_URL KAGGLE_KERNEL_RUN_TYPE KAGGLE_URL_BASE LIGHTNING_CLOUDSPACE_HOST
    LIGHTNING_CLOUD_PROJECT_ID PAPERSPACE_NOTEBOOK_ID PAPERSPACE_NOTEBOOK_REPO_ID SM_CURRENT_HOST
    FAKE_GPU VERTEX_PRODUCT
""".split()

#: Paths whose presence tells something.
WATCHED_PATHS = (
    "/dev/nvidia0",
    "/dev/nvidiactl",  # a container that was given another card than the first
    "/dev/dxg",  # WSL2
    "/dev/kfd",  # AMD
    "/teamspace",
    "/home/studio-lab-user",
)

#: Distributions whose versions matter to a lesson.
WATCHED_PACKAGES = """
    colab-helpers ipykernel ipython jax jaxlib keras libtpu matplotlib numpy nvidia-ml-py psutil
    nvidia-cublas nvidia-cublas-cu12 peft scikit-learn tensorflow tensorflow-cpu tensorflow-tpu
    torch torch-xla torchao
""".split()

#: Where Colab mounts Google Drive.
DRIVE = _environment_probes.DRIVE


@dataclass(frozen=True)
class SystemInfo:
    """What can be seen of a machine without a framework. Sizes in bytes; `pci` has (vendor, device) pairs."""

    env: Mapping[str, str] = field(default_factory=dict)
    shell: str = ""
    paths: tuple[str, ...] = ()
    pci: tuple[tuple[int, int], ...] = ()
    nvidia_smi: bool = False
    packages: Mapping[str, str] = field(default_factory=dict)
    system: str = "Linux"
    machine: str = "x86_64"
    python: str = "3.11.0"
    cores: int = 1
    ram_total: int = 0
    ram_available: int = 0
    disk_total: int = 0
    disk_free: int = 0


def probe() -> SystemInfo:
    """Look at this machine, without starting a framework or a child process.

    A container's limits are read from cgroup v2.
    """
    total, available = _ram()
    disk_total, disk_free = _disk()
    return SystemInfo(
        env={name: os.environ[name] for name in WATCHED_VARIABLES if name in os.environ},
        shell=_shell(),
        paths=tuple(path for path in WATCHED_PATHS if Path(path).exists()),
        pci=_pci(),
        nvidia_smi=shutil.which("nvidia-smi") is not None,
        packages=_packages(),
        system=_platform.system(),
        machine=_platform.machine(),
        python=_platform.python_version(),
        cores=_cores(),
        ram_total=total,
        ram_available=available,
        disk_total=disk_total,
        disk_free=disk_free,
    )


def _shell() -> str:
    ipython = sys.modules.get("IPython")
    return str(ipython.get_ipython() or "") if ipython else ""


def _packages() -> dict[str, str]:
    found = {}
    for name in WATCHED_PACKAGES:
        try:
            version = importlib.metadata.version(name)
        except Exception:  # not installed, or only partially, with files that cannot be read
            continue
        if isinstance(version, str) and version:  # None where the metadata have no version
            found[name] = version
    return found


def _pci() -> tuple[tuple[int, int], ...]:
    pairs = []
    for device in sorted(Path("/sys/bus/pci/devices").glob("*")):
        try:
            vendor = int((device / "vendor").read_text(), 16)
            pairs.append((vendor, int((device / "device").read_text(), 16)))
        except (OSError, ValueError):
            continue
    return tuple(pairs)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _disk() -> tuple[int, int]:
    """Total and free bytes of the working directory's disk; 0 if a dropped mount does not answer."""
    try:
        usage = shutil.disk_usage(_environment_probes.working_folder())
    except OSError:
        return 0, 0
    return usage.total, usage.free


def _ram() -> tuple[int, int]:
    """Total and available bytes: /proc/meminfo as Colab's own monitor reads it, else psutil."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return _ram_elsewhere()
    values = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if " kB" in line}
    total, available = values["MemTotal"], values.get("MemAvailable", values["MemFree"])
    container = _container()
    if container is None or container[0] >= total:
        return total, available
    return container[0], min(available, container[1])


def _container(folder: Path = Path("/sys/fs/cgroup")) -> tuple[int, int] | None:
    """A container's limit and what is left of it, in bytes; None without a limit.

    Cached files that can be dropped count as free, as in MemAvailable. Source: the kernel's
    Documentation/admin-guide/cgroup-v2.rst.
    """
    try:
        limit = (folder / "memory.max").read_text().strip()
        used = (folder / "memory.current").read_text().strip()
        stat = (folder / "memory.stat").read_text()
    except OSError:
        return None
    if not limit.isdecimal() or not used.isdecimal():
        return None
    cached = re.search(r"(?m)^inactive_file (\d+)$", stat)
    taken = int(used) - (int(cached[1]) if cached else 0)
    return int(limit), max(0, int(limit) - max(0, taken))


def _ram_elsewhere() -> tuple[int, int]:
    try:
        import psutil
    except ImportError:
        return 0, 0  # unknown
    memory = psutil.virtual_memory()
    return memory.total, memory.available
