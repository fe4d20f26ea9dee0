"""The maintainers' command: build, run and record the course from a terminal."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from colab_helpers._cli_utils import positive_integer
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

    def takes_lessons(sub: argparse.ArgumentParser) -> argparse.ArgumentParser:
        sub.add_argument("lessons", nargs="*", help="numbers or names; all when left out")
        return sub

    def writes(sub: argparse.ArgumentParser, default: str, option: str = "--folder") -> None:
        sub.add_argument(option, type=Path, help=f"for what is made; {default} if left out")

    def reads(sub: argparse.ArgumentParser, metavar: str, help: str) -> None:
        sub.add_argument("--from", dest="source", type=Path, metavar=metavar, help=help)

    build = add("build", commands.build, "write notebooks and generated pages; runs nothing")
    build.add_argument("--check", action="store_true", help="change nothing, fail if out of date")
    run = add("run", commands.run, "run lessons here, and write build/course/report.html")
    notebooks = add("notebooks", commands.notebooks, "run at full size, keep outputs in notebooks/")
    reference = add("reference", commands.reference, "run at full size, keep the records")
    for sub in map(takes_lessons, (run, notebooks, reference)):
        sub.add_argument("-p", "--parameter", action="append", default=[], metavar="NAME=VALUE")
        sub.add_argument("--require", choices=("GPU", "TPU"), help="fail where this is missing")
    writes(run, "build/course")
    notebooks.add_argument("--noisy", action="store_true", help="keep runs of a busy machine, too")
    reads(reference, "PLACE", "a folder of notebooks that ran elsewhere")
    new = add("new-lesson", commands.new_lesson, "create the files of a new lesson")
    new.add_argument("number", help="two figures, as in 08")
    new.add_argument("name", help="small letters, as in plan")
    new.add_argument("--title", default="")
    site = add("site", commands.site, "build the web site, in build/site/html")
    writes(site, "build/site")
    without = "its doctor and planner then say that they are not there; needs no npm"
    site.add_argument("--without-python", dest="python", action="store_false", help=without)
    slides = takes_lessons(
        add("slides", classroom.slides, "write each lesson as one file of slides")
    )
    writes(slides, "build/slides")
    reads(slides, "NOTEBOOK", "a lesson that you have run: its outputs, not the stored ones")
    handouts = add("handouts", classroom.handouts, "write notebooks without answers, and solutions")
    writes(takes_lessons(handouts), "build/class")
    place = "owner/name/branch/folder where they will lie: for their badges"
    handouts.add_argument("--place", default="", help=place)
    report = add("class", classroom.class_report, "one page on the notebooks of your students")
    report.add_argument("folder", type=Path, help="with the notebooks, at any depth")
    report.add_argument("--names", action="store_true", help="show the files' names")
    writes(report, "build/class", "--out")
    results = add("results", classroom.results, "one page on the lessons that you ran")
    results.add_argument("folder", type=Path, help="with the notebooks that you ran, at any depth")
    writes(results, "build/results.html", "--out")
    retarget = add("retarget", commands.retarget, "point every badge and setup cell at a fork")
    origin = "owner/name; git's origin if left out"
    retarget.add_argument("repository", nargs="?", default="", help=origin)
    retarget.add_argument("--branch", default=None)
    addresses = add("address", commands.address, "say if badges point at another repository")
    addresses.add_argument("repository", help="owner/name of this one")
    release = add("release", commands.release, "write a release into the tree, or check it")
    release.add_argument("version", nargs="?", default="", help="such as 1.2.0")
    release.add_argument("--check", action="store_true", help="do tag, version and hash agree?")
    release.add_argument("--tag", default="", help="the tag that was pushed")
    only = "build the wheel, and nothing else"
    release.add_argument("--wheel", type=Path, metavar="FOLDER", help=only)
    conditions = add("conditions", commands.conditions, "run lessons under every condition")
    takes_lessons(conditions)
    conditions.add_argument("--only", default="", help="names of conditions, separated by commas")
    conditions.add_argument("--jobs", type=positive_integer, default=2)
    drift = add("drift", commands.drift, "compare Colab's package lists with the versions tested")
    drift.add_argument("--freeze", type=Path, help="a list saved from a runtime; else downloaded")
    facts = add("facts", commands.facts, "list facts and problems by age; fail past a review date")
    facts.add_argument("--today", type=date.fromisoformat, default=None, metavar="YYYY-MM-DD")
    replica = add("replica", commands.replica, "run lessons with exactly what a Colab image ships")
    takes_lessons(replica)
    image = "its name in Colab's menu, as in 2026.07"
    replica.add_argument("--image", default="latest", help=image)
    replica.add_argument("--python", default="", help="a Python of the image's version")
    replica.add_argument("--colabtools", default="", help="where pip finds Colab's own package")
    return parser


if __name__ == "__main__":
    os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")
    raise SystemExit(main())
