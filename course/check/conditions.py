"""Every lesson under the conditions that a learner's machine may have.

A condition changes what the kernel is given: packages, network, folder, cores, or a fake GPU. A lesson
holds when it reaches its end and keeps its promises, or when its card says beforehand why it cannot.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from course import fake_gpu
from course.check import record_assertions
from course.config import Course, Lesson, load
from course.run import execute, outcome_checks
from course.write import assemble

DENIED = str(Path(__file__).parent / "restricted_python")


@dataclass(frozen=True)
class ConditionSetup:
    """What a condition gives to one run: variables, and a folder to stand in.

    `expected_kind` names the kind of device that its record has to be of; "" for any.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    expected_kind: str = ""


@dataclass(frozen=True)
class Result:
    """One field of the grid: "ok", "said" (the card gave the reason), "n/a" or "FAILED"."""

    lesson: str
    condition: str
    status: str
    seconds: float
    reason: str = ""


class ConditionUnavailableError(RuntimeError):
    """This machine cannot make the condition; the message says why."""


Condition = Callable[[Lesson, Path], ConditionSetup]


def without(*names: str) -> Condition:
    """Packages that are not installed."""

    def prepare(lesson: Lesson, scratch: Path) -> ConditionSetup:
        return ConditionSetup({"PYTHONPATH": DENIED, "WITHOUT": " ".join(names)})

    return prepare


def no_network(lesson: Lesson, scratch: Path) -> ConditionSetup:
    """Each attempt to connect is refused, and fails the lesson."""
    return ConditionSetup({"PYTHONPATH": DENIED, "NO_NETWORK": str(scratch / "attempts")})


def read_only_folder(lesson: Lesson, scratch: Path) -> ConditionSetup:
    """The notebook stands where nothing can be written."""
    folder = scratch / "read-only"
    folder.mkdir()
    folder.chmod(0o555)
    for candidate in (folder, Path("/sys")):
        if not _can_write(candidate):
            return ConditionSetup(folder=candidate)
    raise ConditionUnavailableError("this user can write everywhere")


def one_core(lesson: Lesson, scratch: Path) -> ConditionSetup:
    """One core for everything."""
    if not hasattr(os, "sched_setaffinity"):
        raise ConditionUnavailableError("this system cannot bind a process to a core")
    return ConditionSetup({"PYTHONPATH": DENIED, "CORES": "1"})


def on_fake_gpu(machine: str) -> Condition:
    """A machine with accelerators, as `course.fake_gpu` answers for it."""

    def prepare(lesson: Lesson, scratch: Path) -> ConditionSetup:
        # TensorFlow has no GPU of Apple's without a package of its own, and JAX has none here.
        answered = ("torch", "tensorflow") if fake_gpu.machines()[machine].is_nvidia else ("torch",)
        on_gpu = lesson.framework in answered
        return ConditionSetup(
            fake_gpu.environment(machine, scratch), expected_kind="GPU" if on_gpu else ""
        )

    return prepare


def as_installed(lesson: Lesson, scratch: Path) -> ConditionSetup:
    """Nothing is taken away."""
    return ConditionSetup()


CONDITIONS: dict[str, Condition] = {
    "as installed": as_installed,
    "no TensorFlow": without("tensorflow"),
    "no JAX": without("jax", "jaxlib"),
    "no Keras": without("keras"),
    "no frameworks": without("torch", "tensorflow", "keras", "jax", "jaxlib"),
    "no network": no_network,
    "read-only folder": read_only_folder,
    "one core": one_core,
    **{machine: on_fake_gpu(machine) for machine in fake_gpu.machines()},
}


def check(course: Course, lesson: Lesson, condition: str) -> Result:
    """Run one lesson under one condition."""
    start = time.perf_counter()

    def result(status: str, reason: str = "") -> Result:
        return Result(lesson.slug, condition, status, time.perf_counter() - start, reason)

    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        try:
            run = CONDITIONS[condition](lesson, scratch)
        except ConditionUnavailableError as why:
            return result("n/a", str(why))
        source = scratch / f"{lesson.slug}.ipynb"
        source.write_text(assemble.dumps(assemble.build(course, lesson)), "utf-8")
        settings = execute.Settings(
            {"FAST": True}, {**execute.QUICK_COMPILE, **run.environment}, 300, run.folder
        )
        outcome = execute.run(source, scratch / "out" / source.name, settings)
        if not outcome.ok and (reason := _card_reason(outcome)):
            return result("said", reason)
        problems = outcome_checks.run_problems(outcome)
        problems += record_assertions.violations_in(execute.records(outcome.notebook))
        if run.expected_kind and lesson.accelerator:  # one that asks for none runs anywhere
            problems += outcome_checks.device_problems(outcome, run.expected_kind)
        attempts = scratch / "attempts"
        if attempts.exists():
            problems.append(f"wanted to connect to {attempts.read_text('utf-8').strip()}")
    return result("FAILED" if problems else "ok", "; ".join(problems))


def check_all(
    lessons: Sequence[Lesson], conditions: Sequence[str], jobs: int = 2
) -> Iterator[Result]:
    """Check every lesson under every condition; results come in the order asked for."""
    with ProcessPoolExecutor(jobs) as pool:
        futures = [pool.submit(_check, le.slug, name) for name in conditions for le in lessons]
        for future in futures:
            yield future.result()


def as_grid(results: Sequence[Result]) -> str:
    """Return the grid of conditions by lessons, the counts, and each reason."""
    lessons = sorted({result.lesson for result in results})
    conditions = list(dict.fromkeys(result.condition for result in results))
    found = {(result.lesson, result.condition): result.status for result in results}
    width = max(map(len, conditions))
    rows = [" " * width + "  " + "".join(f"{slug[:2]:>8}" for slug in lessons)]
    rows += [
        f"{name:<{width}}  " + "".join(f"{found.get((slug, name), ''):>8}" for slug in lessons)
        for name in conditions
    ]
    states = [result.status for result in results]
    counts = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))
    reasons = [f"{r.lesson}, {r.condition}: {r.reason}" for r in results if r.reason]
    return "\n".join([*rows, "", f"{len(results)} runs: {counts}", *dict.fromkeys(reasons)])


def _check(slug: str, condition: str) -> Result:
    course = load()
    return check(course, course.select([slug])[0], condition)


def _card_reason(outcome: execute.Outcome) -> str:
    """What the card said, if it named the package that then was missing."""
    cards = [c for c in outcome.notebook.cells if "set-up" in c.metadata.get("tags", [])]
    said = str(cards[0].outputs) if cards else ""
    name = outcome.problem.rpartition("No module named ")[2].strip("'\" ")
    named = "ModuleNotFoundError" in outcome.problem and f"The lesson imports {name}" in said
    return f"the card says that {name} is not installed" if named else ""


def _can_write(folder: Path) -> bool:
    try:
        (folder / ".probe").write_text("")
    except OSError:
        return False
    (folder / ".probe").unlink()
    return True
