"""What do problems leave behind on a machine? Read from files only, each in a few milliseconds."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

DRIVE = "/content/drive"
ANSWER_WITHIN = 0.1  # seconds; a dropped Drive may never answer

#: Folders, as patterns below /, in which CUDA's libraries are installed.
_LIBRARIES = ("usr/local/cuda*/lib64", "usr/local/cuda*/targets/*/lib", "usr/lib/*-linux-gnu")
#: cuBLAS as a package -> its major version; the name without a suffix is CUDA 13's.
_PACKAGES = {"nvidia-cublas-cu12": 12, "nvidia-cublas": 13}


def uptime(path: Path = Path("/proc/uptime")) -> float:
    """Return seconds since this machine started, 0 where that is unknown."""
    try:
        return float(path.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0


def torch_cuda() -> str | None:
    """Return the CUDA that PyTorch was built for, "" for none, None without PyTorch: not imported."""
    try:
        path = Path(str(metadata.distribution("torch").locate_file("torch/version.py")))
        text = path.read_text("utf-8")
    except (metadata.PackageNotFoundError, OSError):
        return None
    built = re.search(r"^cuda\b.*?=\s*['\"]([\d.]+)['\"]", text, re.M)
    return built[1] if built else ""


def cublas(packages: Mapping[str, str], root: Path = Path("/")) -> tuple[int, ...]:
    """Return the major versions of cuBLAS that are installed, as packages or as system libraries."""
    found = {major for name, major in _PACKAGES.items() if name in packages}
    folders = [folder for pattern in _LIBRARIES for folder in root.glob(pattern)]
    named = os.environ.get("LD_LIBRARY_PATH", "").split(":") if root == Path("/") else []
    for folder in [*folders, *(Path(name) for name in named if name)]:
        for library in folder.glob("libcublas.so.*"):
            if major := re.match(r"libcublas\.so\.(\d+)", library.name):
                found.add(int(major[1]))
    return tuple(sorted(found))


def tpu_holders(
    proc: Path = Path("/proc"), devices: Iterable[Path] | None = None
) -> tuple[int, ...]:
    """Return the processes, but this one, that have a TPU open, as Google's tpu-info finds them."""
    chips = _tpu_devices() if devices is None else [str(device) for device in devices]
    if not chips:
        return ()
    holders = set()
    for process in proc.glob("[0-9]*"):
        if int(process.name) != os.getpid() and _has_open(process, chips):
            holders.add(int(process.name))
    return tuple(sorted(holders))


def drive(folder: Path = Path(DRIVE)) -> str:
    """Say "mounted", "" where Drive's folder is not there, or else what is wrong with it."""
    answer: list[str] = []
    asking = threading.Thread(target=lambda: answer.append(_drive(folder)), daemon=True)
    asking.start()
    asking.join(ANSWER_WITHIN)
    return answer[0] if answer else "does not answer"


def other_environment() -> str:
    """Return the folder of an environment in the working folder that this Python is not from."""
    folder = Path.cwd() / ".venv"
    mine = Path(os.environ.get("VIRTUAL_ENV", "/none"))
    return str(folder) if (folder / "pyvenv.cfg").exists() and folder != mine else ""


def _tpu_devices() -> list[str]:
    numbered = re.compile(r"/dev/(accel|vfio/)\d+")
    places = [*Path("/dev").glob("accel*"), *Path("/dev/vfio").glob("*")]
    return [str(path) for path in places if numbered.fullmatch(str(path))]


def _has_open(process: Path, chips: list[str]) -> bool:
    try:
        return any(str(link.readlink()) in chips for link in (process / "fd").iterdir())
    except OSError:  # it ended meanwhile, or belongs to somebody else
        return False


def _drive(folder: Path) -> str:
    try:
        device = folder.stat().st_dev
        empty = next(folder.iterdir(), None) is None
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"does not answer ({error.strerror or error})"
    if device != folder.parent.stat().st_dev:
        return "mounted"
    return "" if empty else "is a folder on this machine's own disk, not Google Drive"
