"""The platform and its accelerator, judged from evidence alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from colab_helpers.runtime.system_info import SystemInfo, probe

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
    "fake-gpu": "a fake GPU: speeds mean nothing here",
}


@dataclass(frozen=True)
class Runtime:
    """Where code runs. `frameworks` maps an import name to its installed version. Sizes in bytes.

    `accelerator` is one of "GPU", "TPU", "Apple GPU", "AMD GPU" and "none".
    """

    platform: str
    accelerator: str
    tpu: str | None
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
        """The platform's usual name, such as "Google Colab"."""
        return PLATFORM_NAMES[self.platform]

    def to_dict(self) -> dict:
        """Return plain data, ready for JSON."""
        return asdict(self)


def describe(evidence: SystemInfo | None = None) -> Runtime:
    """Say where this code runs; from recorded `evidence` when given, else from this machine.

    >>> describe(SystemInfo(env={"KAGGLE_KERNEL_RUN_TYPE": "Interactive"})).platform
    'kaggle'
    """
    seen = probe() if evidence is None else evidence
    tpu = next(iter(tpu_chips(seen)), None)
    return Runtime(
        platform=_platform_of(seen),
        accelerator=_accelerator(seen, tpu),
        tpu=tpu,
        image=seen.env.get("COLAB_RELEASE_TAG"),
        python=seen.python,
        cores=seen.cores,
        ram_total=seen.ram_total,
        ram_available=seen.ram_available,
        disk_total=seen.disk_total,
        disk_free=seen.disk_free,
        frameworks=_frameworks(seen.packages),
    )


def _platform_of(seen: SystemInfo) -> str:
    env = seen.env
    if "FAKE_GPU" in env:  # the course's own tests, see course/fake_gpu
        return "fake-gpu"
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


def tpu_chips(seen: SystemInfo) -> list[str]:
    """Return the generation of each TPU chip on the PCI bus of the machine in `seen`.

    >>> tpu_chips(SystemInfo(pci=((0x1AE0, 0x0063),) * 8))[7]
    'TPU v5e'
    """
    # Google makes other PCI devices too (network cards): only the known ids are TPUs.
    ids = [device for vendor, device in seen.pci if vendor == GOOGLE_PCI_VENDOR]
    return [TPU_PCI_DEVICES[device] for device in ids if device in TPU_PCI_DEVICES]


def hides_gpus(env: Mapping[str, str]) -> bool:
    """Say whether CUDA_VISIBLE_DEVICES hides every GPU: it is empty, or begins with no device.

    `env` has the environment's variables.

    >>> hides_gpus({"CUDA_VISIBLE_DEVICES": "-1"}), hides_gpus({"CUDA_VISIBLE_DEVICES": "0"})
    (True, False)
    """
    first = env.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    return not (first.isdecimal() or first.startswith(("GPU-", "MIG-")))


def _accelerator(seen: SystemInfo, tpu: str | None) -> str:
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
