"""The job on a GPU machine, step by step, and what comes home.

All steps of a call together end within ten minutes; each can be run alone, and leaves its log. Nothing is
fetched: what the machine lacks comes from a folder of wheels.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

from colab_helpers import _files
from course.table import Course, CourseError

LIMIT = 560  # seconds a call: a machine may be lent for ten minutes at a time
_ENDING = 20  # seconds that a step gets for its report when its time is over


@dataclass(frozen=True)
class GpuJob:
    """Where things lie on the machine, and the machine that is faked in a rehearsal, or ""."""

    root: Path
    wheels: Path
    rehearse: str = ""
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Everything that is made."""
        return self.root / "build" / "gpu"

    @property
    def site(self) -> Path:
        """Where the wheels are installed: beside the machine's own packages, not into them."""
        return self.folder / "site"

    def environment(self, step: str = "") -> dict[str, str]:
        """Variables for a step: the wheels and this checkout, and in a rehearsal the fake GPU.

        The helper's own tests bring their machines with them, and get none.
        """
        paths = [str(self.root), str(self.site)]  # the helper is this checkout's
        own = {"JUPYTER_PATH": str(self.site / "share" / "jupyter"), "JUPYTER_PLATFORM_DIRS": "1"}
        if self.rehearse and step != "tests":
            from course import fake_gpu

            programs = self.folder / "programs"
            programs.mkdir(parents=True, exist_ok=True)
            own |= fake_gpu.environment(self.rehearse, programs)
            paths.insert(0, own["PYTHONPATH"])
        return {**os.environ, **own, **self.extra, "PYTHONPATH": os.pathsep.join(paths)}


_AT_ONCE = 3  # lessons of a step: all of it has to end within one call


def steps_of(course: Course) -> dict[str, tuple[str, ...]]:
    """Return each step with the numbers of its lessons: those that ask for a GPU come first."""
    lessons = sorted(course.lessons, key=lambda lesson: lesson.accelerator != "GPU")
    numbers = [lesson.slug[:2] for lesson in lessons]
    groups = [tuple(numbers[i : i + _AT_ONCE]) for i in range(0, len(numbers), _AT_ONCE)]
    named = {f"lessons-{i}": group for i, group in enumerate(groups, 1)}
    return {"install": (), **named, "compare": (), "tests": (), "pack": ()}


def run(
    course: Course, job: GpuJob, steps: Sequence[str], only: Sequence[str] = ()
) -> Iterator[str]:
    """Run steps, say in a line how each ended, and go on after one that failed.

    `only` names lessons. Raises `CourseError` for an unknown step, and where nothing can be installed.
    """
    there = steps_of(course)
    if unknown := set(steps) - set(there):
        raise CourseError(f"No step {', '.join(sorted(unknown))}. There are: {', '.join(there)}.")
    job.folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + LIMIT
    for step in steps or there:
        start = time.perf_counter()
        if step == "install":
            said = install(job)
        elif step == "pack":
            said = str(pack(job).relative_to(job.root))
        else:
            said = _run_step(course, job, step, only, deadline - time.monotonic())
            pack(job)  # so that nothing measured is lost, whatever comes
        yield f"{step}: {said}, {time.perf_counter() - start:.0f} s"


def install(job: GpuJob) -> str:
    """Install the wheels beside the machine's packages; say what still is missing."""
    wheels = sorted(job.wheels.glob("*.whl"))
    if not wheels:
        raise CourseError(f"{job.wheels} has no wheels: make wheels, where there is a network.")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-index", "--no-deps", "--no-compile", "--upgrade", "--target", str(job.site)]
    done = subprocess.run([*command, *map(str, wheels)], capture_output=True, text=True)
    if done.returncode:
        raise CourseError(f"The wheels cannot be installed: {done.stderr.strip()[-400:]}")
    missing = _run_python(job, "from course.gpu import job; print(*job.missing())").split()
    if missing:
        raise CourseError(
            f"Still missing: {', '.join(missing)}. Where there is a network: pip list > there.txt on this "
            "machine, then make wheels THERE=there.txt there."
        )
    return f"{len(wheels)} wheels"


def missing() -> list[str]:
    """Return what the wheels and this machine together lack."""
    from importlib import metadata

    from course.gpu import wheels

    found = []
    for name in sorted(wheels.needed(wheels.ROOTS)):
        try:
            metadata.distribution(name)
        except metadata.PackageNotFoundError:
            found.append(name)
    return found


def pack(job: GpuJob) -> Path:
    """Pack notebooks, records, report and logs into one archive, and return it."""
    target = job.folder / f"gpu-{date.today().isoformat()}.tar.gz"
    with tarfile.open(target, "w:gz") as archive:
        for path in sorted([*job.folder.glob("*.log"), *job.folder.glob("*.json")]):
            archive.add(path, path.name)
        for path in sorted((job.folder / "lessons").glob("*")):
            archive.add(path, f"lessons/{path.name}")
        for name, text in _records(job.folder / "lessons"):
            entry = tarfile.TarInfo(f"records/{name}")
            data = text.encode()
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    if os.environ.get("OUT"):  # where a lent machine hands files back
        shutil.copy(target, os.environ["OUT"])
    return target


def unpack_records(path: Path) -> Iterator[tuple[str, dict]]:
    """Read the records of an archive: their names, and plain data. Raises `CourseError`."""
    try:
        with tarfile.open(path) as archive:
            names = [name for name in archive.getnames() if name.startswith("records/")]
            for name in sorted(names):
                file = archive.extractfile(name)
                if file is not None:
                    yield name, json.load(file)
    except (OSError, tarfile.TarError, ValueError) as error:
        raise CourseError(f"{path} is no archive of a GPU machine: {error}.") from error


def compare(course: Course, rehearsed: bool) -> int:
    """Print the helper's figures beside CUDA's, keep them, and return the exit code."""
    from course.gpu import compare

    rows = [*compare.footprints(), *compare.timings(256 if rehearsed else 4096)]
    if rehearsed:  # a fake GPU has no queue: its events say nothing of its speed
        rows = [replace(row, allowed=math.inf) if "seconds" in row.what else row for row in rows]
    print(*rows, sep="\n")
    compared = [{"what": r.what, "ours": r.ours, "cudas": r.cudas, "holds": r.holds} for r in rows]
    _files.write(course.root / "build" / "gpu" / "compare.json", json.dumps(compared, indent=1))
    return 0 if all(row.holds for row in rows) else 1


def _run_step(course: Course, job: GpuJob, step: str, only: Sequence[str], left: float) -> str:
    """Run one step in a process of its own, with its log, for `left` seconds; say how it ended."""
    if left < 2 * _ENDING:
        return f"left out: the time of this call is over. Run it alone, with STEP={step}"
    if numbers := steps_of(course)[step]:
        slugs = {lesson.slug[:2] for lesson in course.select(only)}
        chosen = [number for number in numbers if number in slugs]
        if not chosen:
            return "nothing to do"
        words = ["-m", "course", "run", "--require", "GPU"]
        words += ["--folder", str(job.folder / "lessons"), *chosen]
        words += ["-p", "FAST=true"] if job.rehearse else []
    elif step == "compare":
        words = ["-m", "course", "gpu-compare", *(["--rehearsed"] if job.rehearse else [])]
    else:
        words = ["-m", "pytest", "tests/colab_helpers", "-q", "-p", "no:cacheprovider"]
        words += ["-n", "4", "--maxfail", "30"]
    log = job.folder / f"{step}.log"
    _hear_ctrl_c()
    print(f"{step}: running; it says how far it is in {log.relative_to(job.root)}", flush=True)
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, *words],
            stdout=file, stderr=subprocess.STDOUT, cwd=job.root, env=job.environment(step),
        )  # fmt: skip
        try:
            process.wait(left - _ENDING)
            said = "ok" if process.returncode == 0 else f"ended with {process.returncode}"
        except subprocess.TimeoutExpired:
            _stop(process)
            said = f"ended early: its time was over after {left:.0f} s"
    print(log.read_text("utf-8", "replace").strip())
    return said if said == "ok" else f"{said}, see {log.relative_to(job.root)}"


def _hear_ctrl_c() -> None:
    """A shell starts what runs in its background deaf to Ctrl-C, and children inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _stop(process: subprocess.Popen) -> None:
    """As Ctrl-C does: what has run is kept, and the report written."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_ENDING)
    except subprocess.TimeoutExpired:
        process.kill()


def _run_python(job: GpuJob, code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, cwd=job.root, env=job.environment(),
    )  # fmt: skip
    if done.returncode:
        raise CourseError(f"Python does not start with the wheels: {done.stderr.strip()[-400:]}")
    return done.stdout


def _records(folder: Path) -> Iterator[tuple[str, str]]:
    """The records in executed notebooks, as files: read as JSON, for pack needs nothing installed."""
    from colab_helpers._output import RECORD_MIME

    for path in sorted(folder.glob("*.ipynb")):
        try:
            cells = json.loads(path.read_text("utf-8")).get("cells", [])
        except ValueError as error:  # killed while it was written
            print(f"{path.name} cannot be read ({error}): its record is lost.")
            continue
        data = [
            o["data"].get(RECORD_MIME) for c in cells for o in c.get("outputs", []) if "data" in o
        ]
        for record in data:
            if record and record.get("kind") == "record":
                device = "-".join(re.findall(r"\w+", record["device"].lower()))
                yield f"{device}--{record['lesson']}.json", json.dumps(record, indent=1)
