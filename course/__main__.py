"""The maintainers' command: build, run and record the course from a terminal."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from course import commands
from course.classroom import commands as classroom
from course.config import CourseError, load


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 when everything went well."""
    options = _parser().parse_args(arguments)
    try:
        return options.command(load(), options)
    except CourseError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"{error.filename or 'A file'}: {error.strerror or error}.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped. What was finished is kept.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="course", description=__doc__)
    subparsers = parser.add_subparsers(required=True)

    def add(name: str, command, help: str) -> argparse.ArgumentParser:
        sub = subparsers.add_parser(name, help=help)
        sub.set_defaults(command=command)
        return sub

    build = add("build", commands.build, "write notebooks and generated pages; runs nothing")
    build.add_argument("--check", action="store_true", help="change nothing, fail if out of date")
    for name, command, help in (
        ("run", commands.run, "run lessons on this machine and write build/course/report.html"),
        (
            "notebooks",
            commands.notebooks,
            "build, run at full size, keep the outputs in notebooks/",
        ),
        ("reference", commands.reference, "run at full size and keep the records as reference"),
    ):
        sub = add(name, command, help)
        sub.add_argument("lessons", nargs="*", help="numbers or names; all when left out")
        sub.add_argument("-p", "--parameter", action="append", default=[], metavar="NAME=VALUE")
        sub.add_argument("--require", choices=("GPU", "TPU"), help="fail where this is missing")
        if name == "notebooks":
            sub.add_argument(
                "--noisy", action="store_true", help="keep runs of a busy machine, too"
            )
        if name == "run":
            sub.add_argument(
                "--folder", type=Path, help="for what is made; build/course if left out"
            )
        if name == "reference":
            sub.add_argument(
                "--from",
                dest="source",
                type=Path,
                metavar="PLACE",
                help="a folder of notebooks that ran elsewhere",
            )
    new = add("new-lesson", commands.new_lesson, "create the files of a new lesson")
    new.add_argument("number", help="two figures, as in 08")
    new.add_argument("name", help="small letters, as in plan")
    new.add_argument("--title", default="")
    site = add("site", commands.site, "build the web site, in build/site/html")
    site.add_argument("--folder", type=Path, help="for what is made; build/site if left out")
    site.add_argument(
        "--without-python",
        dest="python",
        action="store_false",
        help="its doctor and planner then say that they are not there; needs no npm",
    )
    slides = add(
        "slides", classroom.slides, "write each lesson as slides, one file that opens offline"
    )
    slides.add_argument("lessons", nargs="*", help="numbers or names; all when left out")
    slides.add_argument("--folder", type=Path, help="for what is made; build/slides if left out")
    slides.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="NOTEBOOK",
        help="a lesson that you have run: its outputs, not the stored ones",
    )
    handouts = add("handouts", classroom.handouts, "write notebooks without answers, and solutions")
    handouts.add_argument("lessons", nargs="*", help="numbers or names; all when left out")
    handouts.add_argument("--folder", type=Path, help="for what is made; build/class if left out")
    handouts.add_argument(
        "--place", default="", help="owner/name/branch/folder where they will lie: for their badges"
    )
    class_report = add(
        "class", classroom.class_report, "one page on the notebooks that students handed in"
    )
    class_report.add_argument("folder", type=Path, help="with the notebooks, at any depth")
    class_report.add_argument("--names", action="store_true", help="show the files' names")
    class_report.add_argument("--out", type=Path, help="for what is made; build/class if left out")
    results = add(
        "results", classroom.results, "one page on the lessons that you ran: numbers, figures"
    )
    results.add_argument("folder", type=Path, help="with the notebooks that you ran, at any depth")
    results.add_argument("--out", type=Path, help="the page; build/results.html if left out")
    retarget = add("retarget", commands.retarget, "point every badge and setup cell at a fork")
    retarget.add_argument(
        "repository", nargs="?", default="", help="owner/name; git's origin if left out"
    )
    retarget.add_argument("--branch", default=None)
    addresses = add(
        "address", commands.address, "say in one line when badges point at another repository"
    )
    addresses.add_argument("repository", help="owner/name of this one")
    release = add(
        "release", commands.release, "write a release into the tree, or check the one that is there"
    )
    release.add_argument("version", nargs="?", default="", help="such as 1.2.0")
    release.add_argument("--check", action="store_true", help="do tag, version and hash agree?")
    release.add_argument("--tag", default="", help="the tag that was pushed")
    release.add_argument(
        "--wheel", type=Path, metavar="FOLDER", help="build the wheel, and nothing else"
    )
    conditions = add("conditions", commands.conditions, "run lessons under every condition")
    conditions.add_argument("lessons", nargs="*", help="numbers or names; all when left out")
    conditions.add_argument("--only", default="", help="names of conditions, separated by commas")
    conditions.add_argument("--jobs", type=_count, default=2)
    drift = add("drift", commands.drift, "compare Colab's package lists with the versions tested")
    drift.add_argument("--freeze", type=Path, help="a list saved from a runtime; else downloaded")
    facts = add(
        "facts",
        commands.facts,
        "list platform facts and known problems by age; fail past a review date",
    )
    facts.add_argument("--today", type=date.fromisoformat, default=None, metavar="YYYY-MM-DD")
    replica = add("replica", commands.replica, "run lessons with exactly what a Colab image ships")
    replica.add_argument("lessons", nargs="*", help="numbers or names; all when left out")
    replica.add_argument(
        "--image", default="latest", help="its name in Colab's menu, as in 2026.07"
    )
    replica.add_argument("--python", default="", help="a Python of the image's version")
    replica.add_argument("--colabtools", default="", help="where pip finds Colab's own package")
    return parser


def _count(text: str) -> int:
    """A number of processes, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be at least 1")
    return int(text)


if __name__ == "__main__":
    os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")
    raise SystemExit(main())
