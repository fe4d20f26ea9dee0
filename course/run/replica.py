"""Running the lessons with exactly what Colab ships.

Builds an environment with the versions of one of Colab's images, the notebook kernel's among them,
and without the helper: each lesson's set-up cell installs that, as on Colab. Colab's own package and
kernel class are used when they can be had.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from colab_helpers import colab_images
from course.config import Course, CourseError, Lesson
from course.publish import archive
from course.run import execute, outcome_checks

COLABTOOLS = (
    "git+https://github.com/googlecolab/colabtools@3c07d776a9d3b78eb15375362bd6a60549082d3d"
)
KERNEL_CLASS = "google.colab._kernel.Kernel"
HELPER = "colab-helpers"
_KERNEL = "colab-replica"

# Colab's kernel sends messages for Colab's page, which papermill does not know.
logging.getLogger("papermill").addFilter(lambda told: "colab_request" not in told.getMessage())


@dataclass(frozen=True)
class Replica:
    """An environment that stands for Colab's. `lacks` says why Colab's own kernel is not in it."""

    image: colab_images.Image
    folder: Path
    lacks: str = ""

    @property
    def python(self) -> Path:
        """The interpreter of the environment."""
        return self.folder / "bin" / "python"

    @property
    def environment(self) -> dict[str, str]:
        """What a kernel in it finds in its environment."""
        return {
            **colab_images.environment(),
            "JUPYTER_PATH": str(self.folder / "share" / "jupyter"),
            "PYTHONPATH": "",  # this checkout's helper must not be found
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        }


@dataclass(frozen=True)
class Result:
    """What became of one lesson in the replica; `problems` is empty when all is well."""

    lesson: str
    seconds: float
    problems: tuple[str, ...]


def requirements(image: colab_images.Image) -> list[str]:
    """Return what to install, exactly. A local part such as +cpu is left out: PyPI has none."""
    wanted = {**image.runtimes["cpu"], **image.kernel}
    return [f"{name}=={version.partition('+')[0]}" for name, version in sorted(wanted.items())]


def create(
    image: colab_images.Image, folder: Path, interpreter: str, colabtools: str = COLABTOOLS
) -> Replica:
    """Build the environment in `folder`, or take the one that stands there with the same versions.

    `interpreter` is a Python of the image's version; `colabtools` is where pip finds Colab's own
    package. Raises `CourseError` in words for another version, or for a package that is not to be had.
    """
    wanted = requirements(image)
    marker = folder / "installed.json"
    if not marker.exists() or json.loads(marker.read_text("utf-8")) != wanted:
        _check_version(interpreter, image)
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([interpreter, "-m", "venv", str(folder)], check=True)
        _install(folder, wanted)
        marker.write_text(json.dumps(wanted), "utf-8")
    replica = Replica(image, folder, _add_colabtools(image, folder, colabtools))
    _write_kernel(replica)
    return replica


def check_all(
    course: Course, replica: Replica, lessons: tuple[Lesson, ...], out: Path
) -> Iterator[Result]:
    """Run each lesson at full size in the replica, which has no helper before its set-up cell has run."""
    bundle = out / "main.zip"
    out.mkdir(parents=True, exist_ok=True)
    archive.zip_repository(course.root, bundle)
    bare = _uninstall_helper(replica)
    for lesson in lessons:
        yield _check(course, replica, lesson, bundle, bare, out)
        _uninstall_helper(replica)


def _check(
    course: Course,
    replica: Replica,
    lesson: Lesson,
    bundle: Path,
    bare: Mapping[str, str],
    out: Path,
) -> Result:
    start = time.perf_counter()
    source = out / "built" / f"{lesson.slug}.ipynb"
    archive.write_notebook(course, lesson, bundle.as_uri(), source)
    settings = execute.Settings(environment=replica.environment, kernel=_KERNEL)
    outcome = execute.run(source, out / source.name, settings)
    problems = outcome_checks.run_problems(outcome)
    changed = execute.changed_packages(
        bare, execute.packages(replica.environment, str(replica.python))
    )
    problems += [f"{what}." for what in changed if not what.startswith(HELPER)]
    if not any(what.startswith(HELPER) for what in changed):
        problems.append("the set-up cell did not install the helper.")
    return Result(lesson.slug, time.perf_counter() - start, tuple(problems))


def _uninstall_helper(replica: Replica) -> dict[str, str]:
    """Take the helper out, and return what is there then."""
    command = [str(replica.python), "-m", "pip", "uninstall", "--quiet", "--yes", HELPER]
    subprocess.run(command, check=True, capture_output=True)
    return execute.packages(replica.environment, str(replica.python))


def _check_version(interpreter: str, image: colab_images.Image) -> None:
    wanted = ".".join(image.python.split(".")[:2])
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        found = subprocess.run(
            [interpreter, "-c", program], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        found = "nothing that runs"
    if found != wanted:
        raise CourseError(
            f"Colab's image {image.name} has Python {wanted}, and {interpreter} is {found}. "
            f"Install that version and say where it is: make replica REPLICA_PYTHON=/path/to/python"
        )


def _install(folder: Path, wanted: list[str], *options: str) -> None:
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *options, *wanted]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise CourseError(f"The replica could not be installed:\n{done.stderr.strip()[-2000:]}")


def _add_colabtools(image: colab_images.Image, folder: Path, source: str) -> str:
    """Install Colab's own package where it is missing; return "", or why it cannot be used."""
    program = [str(folder / "bin" / "python"), "-c", "import google.colab._kernel"]
    if subprocess.run(program, capture_output=True).returncode == 0:
        return ""
    try:
        _install(folder, [f"{name}=={version}" for name, version in image.colab.items()])
        _install(folder, [source], "--no-deps")
    except CourseError as error:
        return str(error).strip().splitlines()[-1]
    tried = subprocess.run(program, capture_output=True, text=True)
    return "" if tried.returncode == 0 else tried.stderr.strip().splitlines()[-1]


def _write_kernel(replica: Replica) -> None:
    argv = [str(replica.python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    if not replica.lacks:
        argv.append(f"--IPKernelApp.kernel_class={KERNEL_CLASS}")
    spec = {"argv": argv, "display_name": f"Colab {replica.image.name}", "language": "python"}
    path = replica.folder / "share" / "jupyter" / "kernels" / _KERNEL / "kernel.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(spec, indent=1), "utf-8")
