"""An environment with the versions of one of Colab's images, its kernel's among them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from colab_helpers import _atomic_files, runtime_images
from colab_helpers._cli_utils import CommandError
from colab_helpers._import_names import canonicalize_name

COLABTOOLS = (
    "git+https://github.com/googlecolab/colabtools@3c07d776a9d3b78eb15375362bd6a60549082d3d"
)
KERNEL_CLASS = "google.colab._kernel.Kernel"
KERNEL = "colab-replica"
#: Run in the environment: names of requirements that nothing there meets.
_LACKING = """
import re
from importlib import metadata
from packaging.requirements import InvalidRequirement, Requirement

name = lambda text: re.sub(r"[-_.]+", "-", text).lower()
needs = []
for text in [text for one in metadata.distributions() for text in one.requires or ()]:
    try:
        needs.append(Requirement(text))
    except InvalidRequirement:
        pass  # old packages have such lines, and pip ignores them, too
wanted = {name(n.name) for n in needs if n.marker is None or n.marker.evaluate({"extra": ""})}
print(*sorted(wanted - {name(one.metadata["Name"]) for one in metadata.distributions()}))
"""


class ReplicaError(CommandError):
    """A replica can't be made; the message says why, and what to do."""


@dataclass(frozen=True)
class Replica:
    """An environment that stands for Colab's. `kernel_problem` says why Colab's own kernel is not in it."""

    image: runtime_images.Image
    folder: Path
    kernel_problem: str = ""

    @property
    def python(self) -> Path:
        """The interpreter of the environment."""
        return self.folder / "bin" / "python"

    @property
    def environment(self) -> dict[str, str]:
        """What a kernel in it finds in its environment."""
        return {
            **runtime_images.environment(),
            "JUPYTER_PATH": str(self.folder / "share" / "jupyter"),
            "PYTHONPATH": "",  # nothing of the machine's own must be found
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        }

    def output_of(self, program: str) -> str:
        """Return what a Python `program` prints in it."""
        command = [str(self.python), "-c", program]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def pinned(versions: Mapping[str, str]) -> list[str]:
    """Return what to install, exactly; `versions` maps a name to one.

    A local part such as +cpu is left out: PyPI has none.

    >>> pinned({"torch": "2.11.0+cpu"})
    ['torch==2.11.0']
    """
    return [f"{name}=={version.partition('+')[0]}" for name, version in sorted(versions.items())]


def create(
    image: runtime_images.Image,
    folder: Path,
    interpreter: str,
    wanted: list[str],
    colabtools: str = COLABTOOLS,
) -> Replica:
    """Build the environment in `folder`, or take the one that stands there with the same versions.

    `image` is Colab's, `interpreter` a Python of its version; `wanted` is what pip installs, `colabtools`
    where it finds Colab's own package. Raises `ReplicaError` for another version, or if
    a package cannot be installed.
    """
    marker = folder / "installed.json"
    if not marker.exists() or json.loads(marker.read_text("utf-8")) != wanted:
        _check_version(interpreter, image)
        shutil.rmtree(folder, ignore_errors=True)
        made = subprocess.run([interpreter, "-m", "venv", folder], capture_output=True, text=True)
        if made.returncode:
            raise ReplicaError(f"{interpreter} -m venv failed: {made.stdout}{made.stderr}")
        install(folder, wanted)
        _atomic_files.write(marker, json.dumps(wanted))
    replica = Replica(image, folder, _add_colabtools(image, folder, colabtools))
    write_kernel(replica)
    return replica


def add(replica: Replica, names: Iterable[str], listed: Mapping[str, str]) -> list[str]:
    """Install packages and all that they need, in the versions of Colab's list; return what can't be had.

    `replica` gets the packages `names`; `listed` maps normal names to versions. What comes with a local
    part, such as torch's +cpu, brings what PyPI's build needs instead.
    """
    refused: list[str] = []
    tried: set[str] = set()
    todo = {name for name in names if name in listed}
    while todo:
        for name in sorted(todo):
            exact = pinned({name: listed[name]})
            try:
                install(replica.folder, exact, *([] if "+" in listed[name] else ["--no-deps"]))
            except ReplicaError:
                refused += exact
        tried |= todo  # whatever became of it: what is still lacking then stays so
        todo = {name for name in replica.output_of(_LACKING).split() if name in listed} - tried
    return refused


def parse_list(text: str) -> dict[str, str]:
    """Return the versions in `text`, a list such as Colab publishes, by normal names.

    >>> parse_list("PyYAML==6.0.3  # a comment\\ntorch @ https://x/torch-2.11.0%2Bcpu-cp313.whl")
    {'pyyaml': '6.0.3', 'torch': '2.11.0+cpu'}
    """
    pairs = re.findall(r"(?m)^([\w.-]+)(?:==| @ \S*?-(?=\d))([\w.+!%]+)", text)
    return {canonicalize_name(name): version.replace("%2B", "+") for name, version in pairs}


def install(folder: Path, wanted: list[str], *options: str) -> None:
    """Let the environment in `folder` install what is `wanted`, with pip's `options`.

    Raises `ReplicaError` with pip's words.
    """
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *options, *wanted]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ReplicaError(f"The replica could not be installed:\n{done.stderr.strip()[-2000:]}")


def write_kernel(replica: Replica) -> None:
    """Register the kernel by which notebooks run in `replica`: Colab's own, if it is there."""
    argv = [str(replica.python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    if not replica.kernel_problem:
        argv.append(f"--IPKernelApp.kernel_class={KERNEL_CLASS}")
    spec = {"argv": argv, "display_name": f"Colab {replica.image.name}", "language": "python"}
    path = replica.folder / "share" / "jupyter" / "kernels" / KERNEL / "kernel.json"
    _atomic_files.write(path, json.dumps(spec, indent=1))


def _check_version(interpreter: str, image: runtime_images.Image) -> None:
    wanted = image.python.rpartition(".")[0]
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        found = subprocess.run(
            [interpreter, "-c", program], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        found = "nothing that runs"
    if found != wanted:
        raise ReplicaError(
            f"Colab's image {image.name} has Python {wanted}, and {interpreter} is {found}. "
            f"Install that version, and say where it is with --python /path/to/python{wanted}"
        )


def _add_colabtools(image: runtime_images.Image, folder: Path, source: str) -> str:
    """Install Colab's own package where it is missing; return "", or why it cannot be used."""
    program = [str(folder / "bin" / "python"), "-c", "import google.colab._kernel"]
    if subprocess.run(program, capture_output=True).returncode == 0:
        return ""
    try:
        install(folder, [f"{name}=={version}" for name, version in image.colab.items()])
        install(folder, [source], "--no-deps")
    except ReplicaError as error:
        lines = str(error).strip().splitlines()
        return next(
            (line.strip() for line in lines if re.match(r"\s*(error|fatal)", line, re.I)), lines[-1]
        )
    tried = subprocess.run(program, capture_output=True, text=True)
    return "" if tried.returncode == 0 else tried.stderr.strip().splitlines()[-1]
