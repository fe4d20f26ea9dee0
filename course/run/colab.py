"""What do the lessons do on a real Colab machine?

Drives Google's own command line, google-colab-cli (written for 0.7.5): one machine for all lessons, a
fresh kernel for each. The machine is given back at the end, also after an error or Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat

from colab_helpers import colab_images
from colab_helpers.lessons import reference
from course.prove import runs
from course.publish import archive
from course.run import execute
from course.table import Course, CourseError, Lesson

TOOL = "colab"
OLDEST = (0, 7, 5)  # of the tool: older ones lose a session after an hour
CELL_LIMIT = 900  # seconds
LESSON_LIMIT = 7200  # seconds
COMMAND_LIMIT = 600  # seconds for what is not a lesson
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
    """What became of one lesson: what is wrong, its notebook as far as it got, the record or None."""

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


def sign_in_method(home: Path | None = None) -> str:
    """Return the way to sign in that is set up, for the tool's --auth.

    Raises `CourseError` with two lines on what to do without the tool, or without a login.
    """
    if shutil.which(TOOL) is None or _version() < OLDEST:
        raise CourseError(
            f"Google's command `{TOOL}` is not here, or is older than {_dotted(OLDEST)}.\n"
            "On Linux or macOS, with Python 3.12 or newer: "
            f'pip install "google-colab-cli>={_dotted(OLDEST)}"'
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

    Notebooks and records go to `folder`. Raises `CourseError` when Colab gives no machine, or when it
    could not be given back.
    """
    session = _Session(sign_in_method(), f"course-{uuid.uuid4().hex[:6]}")
    folder.mkdir(parents=True, exist_ok=True)
    bundle = folder / "main.zip"
    archive.zip_repository(course.root, bundle)
    with session.open(machine):
        session.call("upload", str(bundle), _REMOTE)
        for i, lesson in enumerate(lessons):
            yield _run_one(course, lesson, machine, folder, session, fresh=i == 0)


@dataclass(frozen=True)
class _Session:
    """One machine of Colab, under a name of its own."""

    auth: str
    name: str

    @contextlib.contextmanager
    def open(self, machine: Machine) -> Iterator[None]:
        try:
            self.call("new", *machine.options)
            yield
        except BaseException:
            with contextlib.suppress(CourseError):  # the first error is the one to tell
                self.give_back()
            raise
        self.give_back()

    def give_back(self) -> None:
        """End the session. The tool says so, with exit code 0, when it has lost track of it."""
        if "not found" in self.call("stop"):
            raise CourseError(
                f"`{TOOL}` lost track of its machine, which may still be running: "
                "look at Runtime > Manage sessions on Colab's page, and end it there."
            )

    def call(self, command: str, *options: str, limit: float = COMMAND_LIMIT) -> str:
        """Run one command of the tool and return what it said. Raises `CourseError` in its words."""
        try:
            done = subprocess.run(
                [TOOL, "--auth", self.auth, command, "-s", self.name, *options],
                # The tool's own first line in a kernel has 10 s, which a fresh one may exceed.
                env={**os.environ, "REQUEST_TIMEOUT": "60"},
                capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=limit,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise CourseError(f"`{TOOL} {command}` took longer than {limit:.0f} s.") from None
        said = done.stdout + done.stderr
        if done.returncode:
            last = " ".join(said.strip().splitlines()[-5:])
            raise CourseError(f"`{TOOL} {command}` failed: {last}")
        return said


def _run_one(
    course: Course, lesson: Lesson, machine: Machine, folder: Path, session: _Session, fresh: bool
) -> Result:
    start = time.perf_counter()
    source = folder / f"{lesson.slug}.ipynb"
    executed = folder / f"{lesson.slug}_output.ipynb"  # the tool's own choice
    executed.unlink(missing_ok=True)
    archive.write_notebook(course, lesson, f"file:///{_REMOTE}", source)
    problem = ""
    try:
        if not fresh:
            session.call("restart-kernel")
        session.call("exec", "-f", str(source), "--timeout", str(CELL_LIMIT), limit=LESSON_LIMIT)
    except CourseError as error:
        problem = str(error)
    seconds = time.perf_counter() - start
    if not executed.exists():
        return Result(lesson.slug, seconds, (problem or "the tool kept no notebook.",), source)
    outcome = execute.Outcome(lesson.slug, executed, seconds, problem or _first_error(executed))
    problems = runs.run_problems(outcome)
    if machine.kind and lesson.accelerator == machine.kind:
        problems += runs.device_problems(outcome, machine.kind)
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


def _version() -> tuple[int, ...]:
    said = subprocess.run([TOOL, "version"], capture_output=True, text=True).stdout
    return colab_images.numbers(said)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
