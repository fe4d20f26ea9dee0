"""Running the lessons with exactly what Colab ships, and no helper before the setup cell installs it."""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from colab_doctor.replica import environment
from colab_helpers import runtime_images
from course.config import Course, CourseError, Lesson
from course.publish import source_zip
from course.run import execute, outcome_checks

HELPER = "colab-helpers"

# Colab's kernel sends messages for Colab's page, which papermill does not know.
logging.getLogger("papermill").addFilter(lambda told: "colab_request" not in told.getMessage())


@dataclass(frozen=True)
class Result:
    """What became of one lesson in the replica; `problems` is empty when all is well."""

    lesson: str
    seconds: float
    problems: tuple[str, ...]


def requirements(image: runtime_images.Image) -> list[str]:
    """Return what lessons need, and a kernel, in an image's versions."""
    return environment.pinned({**image.runtimes["cpu"], **image.kernel})


def create(
    image: runtime_images.Image, folder: Path, interpreter: str, colabtools: str = ""
) -> environment.Replica:
    """Build the replica in `folder`, or take the one that stands there. Raises `CourseError`."""
    source = colabtools or environment.COLABTOOLS
    try:
        return environment.create(image, folder, interpreter, requirements(image), source)
    except environment.ReplicaError as error:
        make = "With make replica, the Python is REPLICA_PYTHON=/path/to/python."
        raise CourseError(f"{error}\n{make}") from error


def check_all(
    course: Course, replica: environment.Replica, lessons: tuple[Lesson, ...], out: Path
) -> Iterator[Result]:
    """Run each lesson at full size in the replica, which has no helper before its setup cell has run."""
    bundle = out / "main.zip"
    out.mkdir(parents=True, exist_ok=True)
    source_zip.zip_repository(course.root, bundle)
    bare = _uninstall_helper(replica)
    for lesson in lessons:
        yield _check(course, replica, lesson, bundle, bare, out)
        _uninstall_helper(replica)


def _check(
    course: Course,
    replica: environment.Replica,
    lesson: Lesson,
    bundle: Path,
    bare: Mapping[str, str],
    out: Path,
) -> Result:
    start = time.perf_counter()
    source = out / "built" / f"{lesson.slug}.ipynb"
    source_zip.write_notebook(course, lesson, bundle.as_uri(), source)
    settings = execute.Settings(environment=replica.environment, kernel=environment.KERNEL)
    outcome = execute.run(source, out / source.name, settings)
    problems = outcome_checks.run_problems(outcome)
    changed = execute.changed_packages(
        bare, execute.packages(replica.environment, str(replica.python))
    )
    problems += [f"{what}." for what in changed if not what.startswith(HELPER)]
    if not any(what.startswith(HELPER) for what in changed):
        problems.append("the setup cell did not install the helper.")
    return Result(lesson.slug, time.perf_counter() - start, tuple(problems))


def _uninstall_helper(replica: environment.Replica) -> dict[str, str]:
    """Take the helper out, and return what is there then."""
    command = [str(replica.python), "-m", "pip", "uninstall", "--quiet", "--yes", HELPER]
    subprocess.run(command, check=True, capture_output=True)
    return execute.packages(replica.environment, str(replica.python))
