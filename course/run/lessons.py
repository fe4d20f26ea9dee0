"""Running lessons one after the other, so that what has run is kept whatever happens."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import colab_helpers
from colab_helpers import _atomic_files, _environment_probes, runtime
from colab_lessons import rank_processes, recorded_outputs
from colab_lessons.measurements import RecordError
from course.config import Course, CourseError, Lesson
from course.run import execute, machine_noise
from course.write import assemble

STOPPED = "stopped by Ctrl-C"


@dataclass
class BatchResult:
    """What became of the lessons that were run; `stopped` when Ctrl-C ended it early."""

    outcomes: list[execute.Outcome] = field(default_factory=list)
    stopped: bool = False

    @property
    def ok(self) -> bool:
        """Whether every lesson ran to its end."""
        return not self.stopped and all(outcome.ok for outcome in self.outcomes)


def run_lessons(
    course: Course,
    lessons: Sequence[Lesson],
    folder: Path,
    parameters: Sequence[str] = (),
    keep: Callable[[Lesson, execute.Outcome], None] | None = None,
    require_quiet: bool = False,
) -> BatchResult:
    """Build and run each lesson into `folder`, print its progress, and call `keep` on each that succeeds.

    `parameters` are NAME=VALUE. With `require_quiet` a lesson is run again where the machine was disturbed
    meanwhile, and not kept where it never was quiet. Raises `CourseError` where nothing can be run.
    """
    kept = {rank_processes.RECORD_FOLDER_VARIABLE: str(recorded_outputs.FOLDER)} if keep else {}
    settings = execute.Settings(parameters=dict(map(_parameter, parameters)), environment=kept)
    check_environment(course)
    _check_folder(folder)
    batch = BatchResult()
    for lesson in lessons:
        start, target = time.perf_counter(), folder / f"{lesson.slug}.ipynb"
        try:
            run_once = _run_until_quiet if require_quiet else _run
            outcome = run_once(course, lesson, target, settings)
            if outcome.ok and keep:
                outcome = _try_keep(keep, lesson, outcome)
        except KeyboardInterrupt:
            seconds = time.perf_counter() - start
            outcome, batch.stopped = execute.Outcome(lesson.slug, target, seconds, STOPPED), True
        print(f"\r{lesson.slug}: {outcome.problem or 'ok'}, {outcome.seconds:.1f} s" + " " * 20)
        batch.outcomes.append(outcome)
        if batch.stopped:
            break
    return batch


def _try_keep(
    keep: Callable[[Lesson, execute.Outcome], None], lesson: Lesson, outcome: execute.Outcome
) -> execute.Outcome:
    """Call `keep`; return the outcome, whose problem is the error if that failed."""
    try:
        keep(lesson, outcome)
    except (CourseError, RecordError, OSError) as error:
        return dataclasses.replace(outcome, problem=f"it ran, and could not be kept: {error}")
    return outcome


def refuse_fast(parameters: Sequence[str], what: str) -> None:
    """Raise `CourseError` where a run whose results are kept would be one with FAST."""
    asked = [text for text in parameters if text.partition("=")[0].strip() == "FAST"]
    if os.environ.get("FAST", "").lower() in ("1", "true", "yes"):
        asked.append(f"FAST={os.environ['FAST']} in the environment")
    if asked:
        raise CourseError(
            f"{what} keeps results at full size, and {asked[0]} asks for small ones. Leave FAST out "
            "(unset FAST), or use `make course`, which keeps nothing."
        )


def on_fake_gpu() -> bool:
    """Say whether this machine's GPU is a fake GPU: nothing that is measured there is kept."""
    return runtime.describe().platform == "fake-gpu"


def require(accelerator: str | None) -> None:
    """Raise `CourseError` where this machine lacks the accelerator that is asked for."""
    found = runtime.describe().accelerator
    if accelerator and found != accelerator:
        raise CourseError(f"This needs a {accelerator}; this machine has: {found}.")


def missing_gpu_build(lesson: Lesson) -> str:
    """Say why a lesson cannot measure on an NVIDIA GPU here; "" where its framework is built for one."""
    installed = {str(d.name).lower() for d in metadata.distributions() if d.name}
    if lesson.framework == "torch":
        built = _environment_probes.torch_cuda()
        return "" if built else "PyTorch here is a build without CUDA"
    if lesson.framework == "tensorflow":
        if "tensorflow" in installed:
            return ""
        for_cpus = "tensorflow-cpu" in installed
        return (
            "TensorFlow here is its build for CPUs" if for_cpus else "TensorFlow is not installed"
        )
    has_cuda = any(re.fullmatch(r"jax-cuda\d+-plugin", name) for name in installed)
    return "" if has_cuda else "JAX here has no plugin for CUDA"


def check_environment(course: Course) -> None:
    """Raise `CourseError` where kernels would import another checkout's helper."""
    here = Path(colab_helpers.__file__).resolve().parent
    code = "import colab_helpers; print(colab_helpers.__file__)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False
    )
    there = Path(done.stdout.strip()).parent if done.returncode == 0 else None
    if there is None or there.resolve() != here:
        raise CourseError(
            f"The environment {sys.prefix} has the helper of {there or 'nobody'}, and this checkout is "
            f"{here.parent}. Give it an environment of its own: make setup VENV=.venv."
        )


def _run(
    course: Course, lesson: Lesson, target: Path, settings: execute.Settings
) -> execute.Outcome:
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / target.name
        _atomic_files.write(source, assemble.dumps(assemble.build(course, lesson)))
        return execute.run(source, target, settings, _progress(lesson))


def _run_until_quiet(
    course: Course, lesson: Lesson, target: Path, settings: execute.Settings
) -> execute.Outcome:
    """Run until a reference product takes as long after the lesson as before it."""
    for _ in range(machine_noise.MAX_TRIES):
        before = machine_noise.reference_matmul_seconds()
        outcome = _run(course, lesson, target, settings)
        said = (
            machine_noise.disturbance(before, machine_noise.reference_matmul_seconds())
            if outcome.ok
            else ""
        )
        if not said:
            return outcome
        print(f"\r{lesson.slug}: {said}: the machine was not quiet", flush=True)
    problem = (
        f"it ran {machine_noise.MAX_TRIES} times, and the machine was never quiet: {said}. Close what "
        "else is running, or keep the outputs as they are: make notebooks NOISY=1"
    )
    return dataclasses.replace(outcome, problem=problem)


def _check_folder(folder: Path) -> None:
    try:
        _atomic_files.write(folder / ".probe", "").unlink()
    except OSError as error:
        raise CourseError(
            f"{folder} cannot be written ({error.strerror}): nothing could be kept of a run."
        ) from error


def _progress(lesson: Lesson) -> execute.Progress:
    """Show the cell that runs: on one line in a terminal, in steps of ten elsewhere."""

    def show(cell: int, of: int) -> None:
        if sys.stdout.isatty():
            print(f"\r{lesson.slug}: cell {cell} of {of}", end="", flush=True)
        elif cell % 10 == 1:
            print(f"{lesson.slug}: cell {cell} of {of}", flush=True)

    return show


def _parameter(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals:
        raise CourseError(f"-p {text}: write NAME=VALUE, such as -p FAST=true.")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value
