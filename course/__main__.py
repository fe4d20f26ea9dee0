"""The maintainers' command: build, run and record the course from a terminal."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from course.table import Course, CourseError, Lesson, load


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 when everything went well."""
    options = _parser().parse_args(arguments)
    try:
        return options.command(load(), options)
    except CourseError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("Stopped. The same command goes on from what is finished.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="course", description=__doc__)
    commands = parser.add_subparsers(required=True)

    def add(name: str, command, help: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help)
        sub.set_defaults(command=command)
        return sub

    build = add("build", _build, "write notebooks and generated pages; runs nothing")
    build.add_argument("--check", action="store_true", help="change nothing, fail if out of date")
    for name, command, help in (
        ("run", _run, "run lessons on this machine and write build/course/report.html"),
        ("notebooks", _notebooks, "build, run at full size, keep the outputs in notebooks/"),
        ("reference", _reference, "run at full size and keep the records as reference"),
    ):
        sub = add(name, command, help)
        sub.add_argument("lessons", nargs="*", help="numbers or names; all when left out")
        sub.add_argument("-p", "--parameter", action="append", default=[], metavar="NAME=VALUE")
        sub.add_argument("--require", choices=("GPU", "TPU"), help="fail where this is missing")
    retarget = add("retarget", _retarget, "point every badge and set-up cell at a fork")
    retarget.add_argument(
        "repository", nargs="?", default="", help="owner/name; git's origin if left out"
    )
    retarget.add_argument("--branch", default=None)
    addresses = add("address", _address, "say in one line when badges point at another repository")
    addresses.add_argument("repository", help="owner/name of this one")
    release = add(
        "release", _release, "write a release into the tree, or check the one that is there"
    )
    release.add_argument("version", nargs="?", default="", help="such as 1.2.0")
    release.add_argument("--check", action="store_true", help="do tag, version and hash agree?")
    release.add_argument("--tag", default="", help="the tag that was pushed")
    matrix = add("matrix", _matrix, "run lessons under every condition and print the grid")
    matrix.add_argument("lessons", nargs="*", help="numbers or names; all when left out")
    matrix.add_argument("--conditions", default="", help="their names, separated by commas")
    matrix.add_argument("--jobs", type=int, default=2)
    drift = add("drift", _drift, "compare Colab's package lists with the versions tested")
    drift.add_argument("--freeze", type=Path, help="a list saved from a runtime; else downloaded")
    facts = add(
        "facts", _facts, "list platform facts and known problems by age; fail past a review date"
    )
    facts.add_argument("--today", type=date.fromisoformat, default=None, metavar="YYYY-MM-DD")
    twin = add("twin", _twin, "run lessons with exactly what a Colab image ships")
    twin.add_argument("lessons", nargs="*", help="numbers or names; all when left out")
    twin.add_argument("--image", default="latest", help="its name in Colab's menu, as in 2026.07")
    twin.add_argument("--python", default="", help="a Python of the image's version")
    twin.add_argument("--colabtools", default="", help="where pip finds Colab's own package")
    colab = add("colab", _colab, "run lessons on a real Colab machine")
    colab.add_argument("lessons", nargs="*", help="numbers or names; all when left out")
    colab.add_argument("--gpu", default="", help="such as T4")
    colab.add_argument("--tpu", default="", help="such as v5e1")
    add("bench", _bench, "measure the helper, and the time that the notebooks' tests take")
    return parser


def _build(course: Course, options: argparse.Namespace) -> int:
    from colab_helpers import _files
    from course.build import assemble, pages
    from course.prove import static

    if options.check:
        problems = [p for lesson in course.lessons for p in static.stale(course, lesson)]
        problems += [
            f"{path.name}: its generated part is out of date. Run `make notebooks`."
            for path, text in pages.render(course).items()
            if path.read_text("utf-8") != text
        ]
        problems += [
            f"{path.name}: links to another fork. Run `make build`."
            for path in pages.recorded_outputs(course)
            if path.read_text("utf-8") != assemble.move_links(course, path.read_text("utf-8"))
        ]
        print(*problems or ["Up to date."], sep="\n")
        return 1 if problems else 0
    for lesson in course.lessons:
        print(assemble.write(course, lesson).relative_to(course.root))
    for path in pages.recorded_outputs(course):
        _files.write(path, assemble.move_links(course, path.read_text("utf-8")))
    for path in pages.write(course):
        print(path.relative_to(course.root))
    return 0


def _run(course: Course, options: argparse.Namespace) -> int:
    from course.prove import runs
    from course.run import lessons, report

    lessons.require(options.require)
    if options.require:
        lessons.refuse_fast(options.parameter, "A run that requires an accelerator")
    folder = course.root / "build" / "course"
    ran = lessons.run_each(course, course.select(options.lessons), folder, options.parameter)
    print(f"\n{report.as_text(ran.outcomes)}\n")
    print(f"Report: {report.write(course, ran.outcomes, folder / 'report.html')}")
    kind = options.require
    beside = [p for o in ran.outcomes for p in runs.device_problems(o, kind)] if kind else []
    print(*beside, sep="\n", end="\n" if beside else "")
    return _code(ran.ok and not beside, ran.stopped)


def _notebooks(course: Course, options: argparse.Namespace) -> int:
    from course.build import assemble, pages
    from course.run import execute, lessons

    lessons.refuse_fast(options.parameter, "`make notebooks`")
    lessons.require(options.require)

    def keep(lesson: Lesson, outcome: execute.Outcome) -> None:
        path = assemble.store_outputs(course, lesson, outcome.notebook)
        pages.write_timing(course, outcome)
        print(f"\r{path.relative_to(course.root)}")

    folder = course.root / "build" / "notebooks"
    ran = lessons.run_each(course, course.select(options.lessons), folder, options.parameter, keep)
    pages.write_picture(course, course.root / "docs" / "images" / "race.png")
    pages.write(course)
    return _code(ran.ok, ran.stopped)


def _reference(course: Course, options: argparse.Namespace) -> int:
    from colab_helpers.lessons import reference
    from course.run import execute, lessons

    lessons.refuse_fast(options.parameter, "`make reference`")
    lessons.require(options.require)

    def keep(lesson: Lesson, outcome: execute.Outcome) -> None:
        for data in execute.records(outcome.notebook):
            if data.get("kind") == "record":
                print(f"\r{reference.write(reference.Record.from_dict(data, outcome.name))}")

    folder = course.root / "build" / "reference"
    ran = lessons.run_each(course, course.select(options.lessons), folder, options.parameter, keep)
    return _code(ran.ok, ran.stopped)


def _code(ok: bool, stopped: bool) -> int:
    """The exit code: 130 after Ctrl-C, as shells have it."""
    return 130 if stopped else 0 if ok else 1


def _retarget(course: Course, options: argparse.Namespace) -> int:
    from course.publish import retarget

    repository = options.repository or retarget.origin(course.root)
    changed = retarget.retarget(course, repository, options.branch or None)
    print(*(path.relative_to(course.root) for path in changed), sep="\n")
    print(f"{len(changed)} files changed: badges and set-up cells point at {repository}.")
    return 0


def _address(course: Course, options: argparse.Namespace) -> int:
    there = course.repository.slug
    if options.repository.lower() == there.lower():
        print(f"Badges and set-up cells point here, at {there}.")
        return 0
    print(f"Badges and set-up cells point at {there}: make retarget REPO={options.repository}")
    return 1


def _release(course: Course, options: argparse.Namespace) -> int:
    from course.publish import release

    if options.check:
        found = release.problems(course, options.tag)
        print(*found or ["Tag, version, hash and set-up cells agree."], sep="\n")
        return 1 if found else 0
    changed = release.prepare(course, options.version)
    print(*(path.relative_to(course.root) for path in changed), sep="\n")
    print(
        f"The wheel is in dist/. Commit, then: git tag v{options.version}; git push --tags. The workflow "
        "builds it again, compares, and publishes it."
    )
    return 0


def _matrix(course: Course, options: argparse.Namespace) -> int:
    from course.run import matrix

    names = [name.strip() for name in options.conditions.split(",") if name.strip()]
    unknown = set(names) - set(matrix.CONDITIONS)
    if unknown:
        raise CourseError(f"No condition {unknown}. There are: {', '.join(matrix.CONDITIONS)}.")
    results = []
    for result in matrix.check_all(
        course.select(options.lessons), names or list(matrix.CONDITIONS), options.jobs
    ):
        print(f"{result.lesson}, {result.condition}: {result.status}, {result.seconds:.0f} s")
        results.append(result)
    print(f"\n{matrix.as_grid(results)}")
    return 1 if any(result.status == "FAILED" for result in results) else 0


def _twin(course: Course, options: argparse.Namespace) -> int:
    from colab_helpers import colab_images
    from course.run import twin

    known = colab_images.images()
    if options.image not in known:
        raise CourseError(f"No image {options.image}. There are: {', '.join(known)}.")
    image, folder = known[options.image], course.root / "build" / "twin" / options.image
    interpreter = options.python or f"python{image.python.rpartition('.')[0]}"
    print(f"Image {image.name}: Python {image.python}, {image.source}, {image.seen}", flush=True)
    start = time.perf_counter()
    made = twin.create(image, folder / "venv", interpreter, options.colabtools or twin.COLABTOOLS)
    kernel = f"IPython's; Colab's was not to be had: {made.lacks}" if made.lacks else "Colab's own"
    print(f"built in {time.perf_counter() - start:.0f} s; kernel: {kernel}", flush=True)
    green = True
    for result in twin.check_all(course, made, course.select(options.lessons), folder):
        print(
            f"{result.lesson}: {'; '.join(result.problems) or 'ok'}, {result.seconds:.0f} s",
            flush=True,
        )
        green &= not result.problems
    return 0 if green else 1


def _colab(course: Course, options: argparse.Namespace) -> int:
    from course.run import colab

    machine = colab.choose(options.gpu, options.tpu)
    folder = course.root / "build" / "colab" / (machine.chip or "cpu")
    green = True
    for result in colab.run(course, course.select(options.lessons), machine, folder):
        told = "; ".join(result.problems) or "ok"
        print(f"{result.lesson}: {told}, {result.seconds:.0f} s; {result.notebook}", flush=True)
        green &= not result.problems
    print(
        f"Records: {folder / 'records'}; move those to keep into colab_helpers/lessons/reference/."
    )
    return 0 if green else 1


def _drift(course: Course, options: argparse.Namespace) -> int:
    from course.prove import drift

    if options.freeze:
        found = drift.read_freeze(options.freeze.read_text("utf-8"))
        if not found:
            raise CourseError(
                f"{options.freeze} has no package in it: save what `pip freeze` prints."
            )
        lists = {drift.which_runtime(found): found}
    else:
        lists = {name: drift.read_freeze(drift.download(name)) for name in ("cpu", "gpu", "tpu")}
    at_risk = False
    for runtime, found in lists.items():
        changes = drift.compare(course, drift.tested(runtime), found)
        print(drift.report(changes, runtime))
        at_risk |= any(change.risk for change in changes)
    return 1 if at_risk else 0


def _facts(course: Course, options: argparse.Namespace) -> int:
    from colab_helpers import facts, preflight

    today = options.today or date.today()
    stated = [*facts.all_facts(), *preflight.known_problems().values()]
    known = sorted(stated, key=lambda fact: fact.seen)
    for fact in known:
        due = (
            f"look again: due since {fact.review}" if fact.is_due(today) else f"until {fact.review}"
        )
        print(f"{(today - fact.seen).days:>5} days  {fact.confidence}  {fact.id}: {due}")
    overdue = sum(fact.is_due(today) for fact in known)
    print(f"{len(known)} facts and problems, {overdue} due")
    return 1 if overdue else 0


def _bench(course: Course, options: argparse.Namespace) -> int:
    from course.prove import bench

    print(bench.report_helper(), flush=True)
    print(f"\n{bench.report_tests(course)}")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")
    raise SystemExit(main())
