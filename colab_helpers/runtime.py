"""Where does this code run, and on what?

`observe` collects what the machine shows from outside, without importing a framework and without
touching a chip; `describe` judges it. The two are apart so that any machine ever recorded can be
judged again on any other.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform as _platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from colab_helpers import _traces as traces

#: Environment variables that detection reads. Nothing else of the environment is kept.
WATCHED_VARIABLES = """
    COLAB_BACKEND_VERSION COLAB_GPU CUDA_VISIBLE_DEVICES COLAB_IMAGE_TYPE COLAB_JUPYTER_IP COLAB_NOTEBOOK_ID
    COLAB_RELEASE_TAG COLAB_TPU_1VM KAGGLE_DATA_PROXY_URL KAGGLE_KERNEL_RUN_TYPE
    KAGGLE_URL_BASE KERAS_BACKEND LIGHTNING_CLOUDSPACE_HOST LIGHTNING_CLOUD_PROJECT_ID
    PAPERSPACE_NOTEBOOK_ID PAPERSPACE_NOTEBOOK_REPO_ID SM_CURRENT_HOST
    TF_FORCE_GPU_ALLOW_GROWTH TPU_ACCELERATOR_TYPE VERTEX_PRODUCT
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
DRIVE = traces.DRIVE

GOOGLE_PCI_VENDOR = 0x1AE0

#: PCI device id -> TPU generation; source: pytorch/xla torch_xla/_internal/tpu.py at 41398bf.
TPU_PCI_DEVICES = {
    0x0027: "TPU v2/v3",
    0x005E: "TPU v4",
    0x0063: "TPU v5e",
    0x006F: "TPU v6e",
    0x0076: "TPU 7x",
}

PLATFORM_NAMES = {
    "colab": "Google Colab",
    "colab-enterprise": "Colab Enterprise",
    "kaggle": "Kaggle",
    "workbench": "Vertex AI Workbench",
    "lightning": "Lightning Studio",
    "paperspace": "Paperspace",
    "studio-lab": "SageMaker Studio Lab",
    "sagemaker": "SageMaker",
    "local": "your own machine",
}


@dataclass(frozen=True)
class Evidence:
    """What a machine shows from outside. Sizes in bytes; `pci` holds (vendor, device) pairs."""

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


@dataclass(frozen=True)
class Runtime:
    """Where code runs. `frameworks` maps an import name to its installed version. Sizes in bytes.

    `accelerator` is one of "GPU", "TPU", "Apple GPU", "AMD GPU" and "none".
    """

    platform: str
    accelerator: str
    tpu: str | None
    in_notebook: bool
    image: str | None
    python: str
    cores: int
    ram_total: int
    ram_available: int
    disk_total: int
    disk_free: int
    frameworks: Mapping[str, str]

    @property
    def platform_name(self) -> str:
        """The platform as people call it, such as "Google Colab"."""
        return PLATFORM_NAMES[self.platform]

    def to_dict(self) -> dict:
        """Return plain data, ready for JSON."""
        return asdict(self)


def describe(evidence: Evidence | None = None) -> Runtime:
    """Say where this code runs; from recorded `evidence` when given, else from this machine.

    >>> describe(Evidence(env={"KAGGLE_KERNEL_RUN_TYPE": "Interactive"})).platform
    'kaggle'
    """
    seen = observe() if evidence is None else evidence
    tpu = _tpu(seen)
    return Runtime(
        platform=_platform_of(seen),
        accelerator=_accelerator(seen, tpu),
        tpu=tpu,
        in_notebook="zmqshell" in seen.shell.lower() or "google.colab" in seen.shell,
        image=seen.env.get("COLAB_RELEASE_TAG"),
        python=seen.python,
        cores=seen.cores,
        ram_total=seen.ram_total,
        ram_available=seen.ram_available,
        disk_total=seen.disk_total,
        disk_free=seen.disk_free,
        frameworks=_frameworks(seen.packages),
    )


def observe() -> Evidence:
    """Collect the evidence of this machine. Starts no framework and no child process."""
    total, available = _ram()
    disk_total, disk_free = _disk()
    return Evidence(
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


@dataclass
class Chatter:
    """What was written to the process's stderr inside `quiet`."""

    text: str = ""


@contextmanager
def quiet() -> Iterator[Chatter]:
    """Keep what C++ libraries write to stderr while they start; show it if the block raises.

    Works on the file descriptor, below Python's own `sys.stderr`.

    >>> with quiet() as chatter:
    ...     _ = os.write(2, b"noise")
    >>> chatter.text
    'noise'
    """
    chatter, failed = Chatter(), True
    saved = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield chatter
            failed = False
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            kept.seek(0)
            noise = kept.read()
            chatter.text = noise.decode(errors="replace")
            if failed:
                os.write(2, noise)


def _platform_of(seen: Evidence) -> str:
    env = seen.env
    # Kaggle first: its images are built from Colab's and carry Colab's variables.
    if {"KAGGLE_KERNEL_RUN_TYPE", "KAGGLE_URL_BASE", "KAGGLE_DATA_PROXY_URL"} & env.keys():
        return "kaggle"
    vertex = {"COLAB_ENTERPRISE": "colab-enterprise", "WORKBENCH_INSTANCE": "workbench"}
    if env.get("VERTEX_PRODUCT") in vertex:
        return vertex[env["VERTEX_PRODUCT"]]
    if "google.colab" in seen.shell or _colab_child(env):
        return "colab"
    signs = {
        "lightning": ("LIGHTNING_CLOUDSPACE_HOST", "LIGHTNING_CLOUD_PROJECT_ID", "/teamspace"),
        "paperspace": ("PAPERSPACE_NOTEBOOK_ID", "PAPERSPACE_NOTEBOOK_REPO_ID"),
        "studio-lab": ("/home/studio-lab-user",),
        "sagemaker": ("SM_CURRENT_HOST",),
    }
    present = env.keys() | set(seen.paths)
    return next((name for name, any_of in signs.items() if present & set(any_of)), "local")


def _colab_child(env: Mapping[str, str]) -> bool:
    """A process without IPython on Colab, such as one started with `!python`."""
    session = {"COLAB_JUPYTER_IP", "COLAB_BACKEND_VERSION", "COLAB_NOTEBOOK_ID"}
    return "COLAB_RELEASE_TAG" in env and bool(session & env.keys())


def _tpu(seen: Evidence) -> str | None:
    ids = [device for vendor, device in seen.pci if vendor == GOOGLE_PCI_VENDOR]
    # Google makes other PCI devices too (network cards): only the known ids are TPUs.
    return next((TPU_PCI_DEVICES[device] for device in ids if device in TPU_PCI_DEVICES), None)


def hides_gpus(env: Mapping[str, str]) -> bool:
    """Say whether CUDA_VISIBLE_DEVICES hides every GPU: it is empty, or begins with no device.

    `env` has the environment's variables.

    >>> hides_gpus({"CUDA_VISIBLE_DEVICES": "-1"}), hides_gpus({"CUDA_VISIBLE_DEVICES": "0"})
    (True, False)
    """
    first = env.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    return not (first.isdecimal() or first.startswith(("GPU-", "MIG-")))


def _accelerator(seen: Evidence, tpu: str | None) -> str:
    if tpu:
        return "TPU"
    nodes = {"/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg"} & set(seen.paths)
    if seen.nvidia_smi and (nodes or seen.system != "Linux") and not hides_gpus(seen.env):
        return "GPU"
    if seen.system == "Darwin" and seen.machine == "arm64":
        return "Apple GPU"
    return "AMD GPU" if "/dev/kfd" in seen.paths else "none"


def _frameworks(packages: Mapping[str, str]) -> dict[str, str]:
    found = {
        "torch": packages.get("torch"),
        "torch_xla": packages.get("torch-xla"),
        "tensorflow": packages.get("tensorflow")
        or packages.get("tensorflow-cpu")
        or packages.get("tensorflow-tpu"),
        "keras": packages.get("keras"),
        "jax": packages.get("jax"),
    }
    return {name: version for name, version in found.items() if version}


def _shell() -> str:
    ipython = sys.modules.get("IPython")
    return str(ipython.get_ipython() or "") if ipython else ""


def _packages() -> dict[str, str]:
    found = {}
    for name in WATCHED_PACKAGES:
        try:
            version = importlib.metadata.version(name)
        except Exception:  # not installed, or by half, with files that cannot be read
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
    """Total and free bytes where this process stands; 0 where a dropped mount does not answer."""
    try:
        usage = shutil.disk_usage(traces.working_folder())
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
        return 0, 0  # unknown; the card then says nothing about memory
    memory = psutil.virtual_memory()
    return memory.total, memory.available
