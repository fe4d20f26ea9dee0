"""What do the lessons do on a real Colab machine?

Drives Google's own command line, google-colab-cli (written for 0.6.0, read at 1005593): one machine
for all lessons, a fresh kernel for each, and the machine is given back whatever happens.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat

from colab_helpers import reference
from course import execute, twin, verify
from course.table import Course, CourseError, Lesson

TOOL = "colab"
SESSION = "course-lessons"
CELL_LIMIT = 900  # seconds
GPUS = ("T4", "L4", "G4", "H100", "A100")
TPUS = ("v5e1", "v6e1")
_REMOTE = "content/course-main.zip"  # a path below /, as Colab's contents interface counts
_TOKEN = Path(".config/colab-cli/token.json")
_GCLOUD = Path(".config/gcloud/application_default_credentials.json")


@dataclass(frozen=True)
class Machine:
    """What to ask Colab for: `kind` is "GPU", "TPU" or "", `chip` as the tool names it."""

    kind: str = ""
    chip: str = ""

    @property
    def options(self) -> list[str]:
        """The tool's options for such a machine."""
        return [f"--{self.kind.lower()}", self.chip] if self.kind else []


@dataclass(frozen=True)
class Result:
    """What became of one lesson: what is wrong, the executed notebook, the record or None."""

    lesson: str
    seconds: float
    problems: tuple[str, ...]
    notebook: Path
    record: Path | None = None


def choose(gpu: str, tpu: str) -> Machine:
    """Return the machine to ask for. Raises `CourseError` for both, or for a chip Colab has not.

    >>> choose("t4", "")
    Machine(kind='GPU', chip='T4')
    """
    if gpu and tpu:
        raise CourseError("A machine has a GPU or a TPU: give GPU=… or TPU=…, not both.")
    for kind, chip, known in (("GPU", gpu, GPUS), ("TPU", tpu, TPUS)):
        named = {name.lower(): name for name in known}
        if chip and chip.lower() not in named:
            raise CourseError(f"No {kind} {chip} on Colab. There are: {', '.join(known)}.")
        if chip:
            return Machine(kind, named[chip.lower()])
    return Machine()


def check_ready(home: Path | None = None) -> str:
    """Return the way to sign in that is set up, for the tool's --auth; else say what to do."""
    if shutil.which(TOOL) is None:
        raise CourseError(
            f"Google's command `{TOOL}` is not installed.\n"
            "Install it, with Python 3.12 or newer: pip install google-colab-cli"
        )
    home = home or Path.home()
    if (home / _TOKEN).exists():
        return "oauth2"
    if (home / _GCLOUD).exists() or os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
        return "adc"
    raise CourseError(
        f"`{TOOL}` is not signed in to Google.\n"
        f"Run `{TOOL} new` once, open the address it prints, enter the code; then `{TOOL} stop`."
    )


def run(
    course: Course, lessons: Sequence[Lesson], machine: Machine, folder: Path
) -> Iterator[Result]:
    """Run lessons on a machine of Colab, at full size; results come as they are ready.

    Notebooks and records go to `folder`. Raises `CourseError` when Colab gives no machine.
    """
    auth = check_ready()
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / "main.zip"
    twin.zip_repository(course.root, archive)
    _call(auth, "new", *machine.options)
    try:
        _call(auth, "upload", str(archive), _REMOTE)
        for lesson in lessons:
            yield _run_one(course, lesson, machine, folder, auth)
            _call(auth, "restart-kernel")
    finally:
        _call(auth, "stop")


def _run_one(course: Course, lesson: Lesson, machine: Machine, folder: Path, auth: str) -> Result:
    start = time.perf_counter()
    source = folder / f"{lesson.slug}.ipynb"
    executed = folder / f"{lesson.slug}_output.ipynb"  # the tool's own choice
    executed.unlink(missing_ok=True)
    twin.write_with_archive(course, lesson, f"file:///{_REMOTE}", source)
    problem = ""
    try:
        _call(auth, "exec", "-f", str(source), "--timeout", str(CELL_LIMIT))
    except CourseError as error:
        problem = str(error)
    if not executed.exists():
        return Result(
            lesson.slug, time.perf_counter() - start, (problem or "no notebook.",), source
        )
    seconds = time.perf_counter() - start
    outcome = execute.Outcome(lesson.slug, executed, seconds, problem or _first_error(executed))
    problems = verify.run_problems(outcome)
    if machine.kind and lesson.accelerator == machine.kind:
        problems += verify.device_problems(outcome, machine.kind)
    return Result(lesson.slug, seconds, tuple(problems), executed, _keep_record(outcome, folder))


def _first_error(path: Path) -> str:
    """The tool goes on after an error: the first one is what counts."""
    notebook = nbformat.read(path, as_version=4)
    for index, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                where = execute.describe_cell(notebook, index)
                return f"{where} raised {output.ename}: {execute.first_line(output.evalue)}"
    return ""


def _keep_record(outcome: execute.Outcome, folder: Path) -> Path | None:
    records = folder / "records"
    records.mkdir(exist_ok=True)
    for data in execute.records(outcome.notebook):
        if data["kind"] == "record":
            return reference.write(reference.Record.from_dict(data, outcome.name), records)
    return None


def _call(auth: str, command: str, *options: str) -> None:
    """Run one command of the tool. Raises `CourseError` with its last lines."""
    done = subprocess.run(
        [TOOL, "--auth", auth, command, "-s", SESSION, *options],
        capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()[-5:]
        raise CourseError(f"`{TOOL} {command}` failed: {' '.join(said)}")
