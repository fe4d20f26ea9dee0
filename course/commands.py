"""The maintainers' commands, one function each; it returns the exit code.

Each imports what it needs itself, so that those that look at facts or drift start with hardly anything
installed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from datetime import date

from course.config import Course, CourseError, Lesson


def build(course: Course, options: argparse.Namespace) -> int:
    """Write notebooks and generated pages; with --check, only say what is out of date."""
    from course.check import notebook_lint
    from course.write import assemble, generated_sections

    if options.check:
        problems = [
            p for lesson in course.lessons for p in notebook_lint.stale_problems(course, lesson)
        ]
        problems += [
            f"{path.name}: its generated part is out of date. Run `make build`."
            for path, text in generated_sections.render(course).items()
            if path.read_text("utf-8") != text
        ]
        problems += [
            f"{path.name}: links to another fork. Run `make build`."
            for path in generated_sections.recorded_outputs(course)
            if path.read_text("utf-8") != assemble.move_links(course, path.read_text("utf-8"))
        ]
        print(*problems or ["Up to date."], sep="\n")
        return 1 if problems else 0
    texts = {course.notebook(lesson): assemble.render(course, lesson) for lesson in course.lessons}
    for path in generated_sections.recorded_outputs(course):
        texts[path] = assemble.move_links(course, path.read_text("utf-8"))
    for path in [*assemble.write_all(texts), *generated_sections.write(course)]:
        print(path.relative_to(course.root))
    return 0


def new_lesson(course: Course, options: argparse.Namespace) -> int:
    """Create the files of a new lesson."""
    from course.write import new_lesson

    for path in new_lesson.create(course, options.number, options.name, options.title):
        print(path.relative_to(course.root))
    print(
        f"Write the lesson, then: make notebooks LESSONS={options.number}. Wrong answers belong in "
        "tests/colab_lessons/test_exercises.py."
    )
    return 0


def run(course: Course, options: argparse.Namespace) -> int:
    """Run lessons and write the report of what has run."""
    from course.check import record_assertions
    from course.classroom import learner_page
    from course.run import execute, lessons, outcome_checks, report

    lessons.require(options.require)
    if options.require and not lessons.on_fake_gpu():
        lessons.refuse_fast(options.parameter, "A run that requires an accelerator")
    folder = options.folder or course.root / "build" / "course"
    chosen = course.select(options.lessons)
    if options.require == "GPU":
        reasons = {lesson.slug: lessons.missing_gpu_build(lesson) for lesson in chosen}
        print(*(f"{slug}: left out: {why}." for slug, why in reasons.items() if why), sep="\n")
        chosen = tuple(lesson for lesson in chosen if not reasons[lesson.slug])
        if not chosen:
            raise CourseError(
                "No lesson's framework here is built for a GPU: nothing can be measured."
            )
    batch = lessons.run_lessons(course, chosen, folder, options.parameter)
    print(f"\n{report.as_text(batch.outcomes)}\n")
    print(f"Report: {report.write(course, batch.outcomes, folder / 'report.html')}")
    page, measured = learner_page.write(course, folder, folder / "results.html")
    print(f"What was measured: {page}\n" if measured else "", end="")
    kind = options.require
    problems = (
        [p for o in batch.outcomes for p in outcome_checks.device_problems(o, kind)] if kind else []
    )
    problems += [
        p
        for o in batch.outcomes
        for p in record_assertions.violations_in(execute.records(o.notebook))
    ]
    print(*problems, sep="\n", end="\n" if problems else "")
    return _exit_code(batch.ok and not problems, batch.stopped)


def notebooks(course: Course, options: argparse.Namespace) -> int:
    """Run lessons at full size and store each that ran to its end."""
    from course.run import execute, lessons
    from course.write import assemble, generated_sections

    lessons.refuse_fast(options.parameter, "`make notebooks`")
    lessons.require(options.require)

    def keep(lesson: Lesson, outcome: execute.Outcome) -> None:
        path = assemble.store_outputs(course, lesson, outcome.notebook)
        generated_sections.write_timing(course, outcome.name, outcome.seconds)
        print(f"\r{path.relative_to(course.root)}")

    folder = course.root / "build" / "notebooks"
    chosen = course.select(options.lessons)
    batch = lessons.run_lessons(
        course, chosen, folder, options.parameter, keep, require_quiet=not options.noisy
    )
    for lesson in course.lessons:  # a new lesson changes how its neighbors lead on
        assemble.write(course, lesson)
    generated_sections.write_picture(course.root / "docs" / "images" / "job.png")
    generated_sections.write(course)
    return _exit_code(batch.ok, batch.stopped)


def reference(course: Course, options: argparse.Namespace) -> int:
    """Run lessons at full size and keep their records, or those that another machine made."""
    from colab_lessons import measurements
    from course.run import execute, imported_records, lessons
    from course.write import generated_sections

    if options.source:
        return _store_records(imported_records.records(options.source))
    lessons.refuse_fast(options.parameter, "`make reference`")
    lessons.require(options.require)

    def keep(lesson: Lesson, outcome: execute.Outcome) -> None:
        for data in execute.records(outcome.notebook):
            if data.get("kind") == "record":
                print(f"\r{measurements.write(measurements.Record.from_dict(data, outcome.name))}")

    folder = course.root / "build" / "reference"
    chosen = course.select(options.lessons)
    batch = lessons.run_lessons(course, chosen, folder, options.parameter, keep, require_quiet=True)
    generated_sections.write(course)
    return _exit_code(batch.ok, batch.stopped)


def _store_records(records: Iterable[tuple[str, dict]]) -> int:
    """Keep the records of another machine; say which are refused, and why."""
    from colab_lessons import measurements

    refused = 0
    for name, data in records:
        try:
            print(measurements.write(measurements.Record.from_dict(data, name)))
        except measurements.RecordError as error:
            print(f"{name} is refused: {error}")
            refused += 1
    return 1 if refused else 0


def _exit_code(ok: bool, stopped: bool) -> int:
    """The exit code: 130 after Ctrl-C, as shells have it."""
    return 130 if stopped else 0 if ok else 1


def site(course: Course, options: argparse.Namespace) -> int:
    """Build the course's web site."""
    from course.site import building

    html = building.build(course, options.folder or course.root / "build" / "site", options.python)
    pages = len(list(html.rglob("*.html")))
    size = sum(path.stat().st_size for path in html.rglob("*") if path.is_file()) / 1e6
    print(f"{html}: {pages} pages, {size:.0f} MB. To look at it: python -m http.server -d {html}")
    return 0


def retarget(course: Course, options: argparse.Namespace) -> int:
    """Point badges and setup cells at a fork."""
    from course.publish import retarget

    repository = options.repository or retarget.origin(course.root)
    changed = retarget.retarget(course, repository, options.branch or None)
    print(*(path.relative_to(course.root) for path in changed), sep="\n")
    print(f"{len(changed)} files changed: badges and setup cells point at {repository}.")
    return 0


def address(course: Course, options: argparse.Namespace) -> int:
    """Say whether badges point at this repository."""
    there = course.repository.slug
    if options.repository.lower() == there.lower():
        print(f"Badges and setup cells point here, at {there}.")
        return 0
    print(f"Badges and setup cells point at {there}: make retarget REPO={options.repository}")
    return 1


def release(course: Course, options: argparse.Namespace) -> int:
    """Write a release into the tree, check it, or build its wheel."""
    from colab_helpers import _atomic_files
    from course.publish import release

    if options.wheel:
        wheel = release.build_wheel(course.root)
        print(_atomic_files.write(options.wheel / wheel.name, wheel.content), wheel.sha256)
        return 0
    if options.check:
        found = release.problems(course, options.tag)
        print(*found or ["Tag, version, hash and setup cells agree."], sep="\n")
        return 1 if found else 0
    changed = release.prepare(course, options.version)
    print(*(path.relative_to(course.root) for path in changed), sep="\n")
    print(
        f"The wheel is in dist/. Commit, git tag v{options.version}, git push origin v{options.version}. "
        "When "
        "the workflow has published the release (in a fork: enable Actions first), push the branch: until "
        "then the wheel that its lessons ask for is not there."
    )
    return 0


def conditions(course: Course, options: argparse.Namespace) -> int:
    """Run lessons under every condition and print the grid."""
    from course.check import conditions

    names = [name.strip() for name in options.only.split(",") if name.strip()]
    unknown = set(names) - set(conditions.CONDITIONS)
    if unknown:
        there = ", ".join(conditions.CONDITIONS)
        raise CourseError(f"No condition {', '.join(unknown)}. There are: {there}.")
    results = []
    chosen = names or list(conditions.CONDITIONS)
    for result in conditions.check_all(course.select(options.lessons), chosen, options.jobs):
        print(f"{result.lesson}, {result.condition}: {result.status}, {result.seconds:.0f} s")
        results.append(result)
    print(f"\n{conditions.as_grid(results)}")
    return 1 if any(result.status == "FAILED" for result in results) else 0


def replica(course: Course, options: argparse.Namespace) -> int:
    """Run lessons with what a Colab image ships."""
    from colab_helpers import runtime_images
    from course.run import replica_lessons

    known = runtime_images.images()
    if options.image not in known:
        raise CourseError(f"No image {options.image}. There are: {', '.join(known)}.")
    image, folder = known[options.image], course.root / "build" / "replica" / options.image
    interpreter = options.python or f"python{image.python.rpartition('.')[0]}"
    print(f"Image {image.name}: Python {image.python}, {image.source}, {image.seen}", flush=True)
    start = time.perf_counter()
    made = replica_lessons.create(image, folder / "venv", interpreter, options.colabtools)
    kernel = (
        f"IPython's; Colab's kernel is not available: {made.kernel_problem}"
        if made.kernel_problem
        else "Colab's own"
    )
    print(f"built in {time.perf_counter() - start:.0f} s; kernel: {kernel}", flush=True)
    passed = True
    for result in replica_lessons.check_all(course, made, course.select(options.lessons), folder):
        print(
            f"{result.lesson}: {'; '.join(result.problems) or 'ok'}, {result.seconds:.0f} s",
            flush=True,
        )
        passed &= not result.problems
    return 0 if passed else 1


def drift(course: Course, options: argparse.Namespace) -> int:
    """Compare Colab's package lists with those tested."""
    from colab_doctor.replica.environment import parse_list
    from course.check import drift

    if options.freeze:
        try:
            text = options.freeze.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CourseError(f"{options.freeze} cannot be read: {error}.") from error
        found = parse_list(text)
        if not found:
            raise CourseError(
                f"{options.freeze} has no package in it: save what `pip freeze` prints."
            )
        lists = {drift.detect_runtime(found): found}
    else:
        lists = {name: parse_list(drift.download(name)) for name in ("cpu", "gpu", "tpu")}
    at_risk = False
    for runtime, found in lists.items():
        changes = drift.compare(course, drift.tested_versions(runtime), found)
        print(drift.report(changes, runtime))
        at_risk |= any(change.risk for change in changes)
    return 1 if at_risk else 0


def facts(course: Course, options: argparse.Namespace) -> int:
    """List facts, problems and published measurements by age."""
    import colab_doctor
    from colab_helpers import platform_facts, problem_schema, published_results

    today = options.today or date.today()
    stated: list[
        platform_facts.Fact | problem_schema.Problem | published_results.PublishedResult
    ] = [*platform_facts.all_facts()]
    stated += [*colab_doctor.known_problems().values(), *published_results.all_rows().values()]
    known = sorted(stated, key=lambda fact: fact.seen)
    for fact in known:
        due = (
            f"look again: due since {fact.review}" if fact.is_due(today) else f"until {fact.review}"
        )
        print(f"{(today - fact.seen).days:>5} days  {fact.confidence}  {fact.id}: {due}")
    overdue = sum(fact.is_due(today) for fact in known)
    print(f"{len(known)} facts, problems and published measurements, {overdue} due")
    return 1 if overdue else 0
