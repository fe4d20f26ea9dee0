"""Symptoms of known problems, read from files in a few milliseconds."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from colab_helpers._rich_display import error_text

DRIVE = "/content/drive"
DRIVE_TIMEOUT = 1.0  # seconds; a dropped Drive may never answer

#: Folders, as patterns below /, in which CUDA's libraries are installed.
_LIBRARIES = ("usr/local/cuda*/lib64", "usr/local/cuda*/targets/*/lib", "usr/lib/*-linux-gnu")
#: cuBLAS as packages: its versions begin with CUDA's.
_PACKAGES = ("nvidia-cublas-cu12", "nvidia-cublas")


@dataclass(frozen=True)
class Symptoms:
    """Symptoms of known problems. Each field has a function below, which says more.

    `torch_cuda`: the CUDA that PyTorch was built for, "" for none, None without PyTorch. `cublas`: major
    versions of CUDA's libraries. `tpu_holders`: other processes that have the TPU open. `drive`:
    "mounted", "not mounted", "does not answer", or "". `problems`: in words, what could not be looked for.
    """

    torch_cuda: str | None = None
    cublas: tuple[int, ...] = ()
    tpu_holders: tuple[int, ...] = ()
    drive: str = ""
    problems: tuple[str, ...] = ()


def collect(packages: Mapping[str, str]) -> Symptoms:
    """Return all symptoms found; `packages` maps an installed distribution to its version.

    A function that raises leaves its field at the default, and is named in `problems`.
    """
    looks: dict[str, Callable[[], Any]] = {
        "torch_cuda": torch_cuda,
        "cublas": lambda: cublas(packages),
        "tpu_holders": tpu_holders,
        "drive": drive,
    }
    found: dict[str, Any] = {}
    problems = []
    for name, look in looks.items():
        try:
            found[name] = look()
        except Exception as error:
            problems.append(f"{name} ({error_text(error)[:100]})")
    return Symptoms(**found, problems=tuple(problems))


def process_uptime(proc: Path = Path("/proc")) -> float:
    """Return seconds since this process started; 0 where that is unknown."""
    try:
        since_start = float((proc / "uptime").read_text().split()[0])
        # Field 22: when it started, in clock ticks after the kernel.
        ticks = int((proc / "self" / "stat").read_text().rpartition(")")[2].split()[19])
        return since_start - ticks / os.sysconf("SC_CLK_TCK")
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
    versions = [packages[name].partition(".")[0] for name in _PACKAGES if name in packages]
    found = {int(major) for major in versions if major.isdecimal()}
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
    """Return the processes that have a TPU open, as Google's tpu-info finds them.

    This one is left out, and those that started it: `!colab-doctor` is a child of the
    notebook's own kernel.
    """
    chips = _tpu_devices() if devices is None else [str(device) for device in devices]
    if not chips:
        return ()
    ours = _ancestors(proc)
    others = (process for process in proc.glob("[0-9]*") if int(process.name) not in ours)
    return tuple(sorted(int(process.name) for process in others if _has_open(process, chips)))


def drive(folder: Path = Path(DRIVE)) -> str:
    """Return "mounted", "not mounted" for a folder with files of this machine's own disk, "does not
    answer" with why, or "" where there is no folder, or an empty one.
    """
    answer: list[str] = []
    asking = threading.Thread(target=lambda: answer.append(_drive(folder)), daemon=True)
    asking.start()
    asking.join(DRIVE_TIMEOUT)
    return answer[0] if answer else "does not answer"


def working_folder() -> Path:
    """Return the working directory, or / if it is on a dropped Drive."""
    try:
        return Path.cwd()
    except OSError:
        return Path("/")


def _tpu_devices() -> list[str]:
    numbered = re.compile(r"/dev/(accel|vfio/)\d+")
    places = [*Path("/dev").glob("accel*"), *Path("/dev/vfio").glob("*")]
    return [str(path) for path in places if numbered.fullmatch(str(path))]


def _ancestors(proc: Path) -> set[int]:
    """This process, its parent, and so on."""
    found, pid = set(), os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        try:
            # After the name in parentheses: the state, then the parent.
            pid = int((proc / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
    return found


def _has_open(process: Path, chips: list[str]) -> bool:
    try:
        links = list((process / "fd").iterdir())
    except OSError:  # it ended meanwhile, or belongs to another user
        return False
    return any(_points_at(link) in chips for link in links)


def _points_at(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # this one file was closed meanwhile
        return ""


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
    return "" if empty else "not mounted"
