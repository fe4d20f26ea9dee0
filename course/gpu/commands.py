"""The commands for a GPU machine, one function each; it returns the exit code."""

from __future__ import annotations

import argparse
from pathlib import Path

from course.table import Course


def keep_records(archive: Path) -> int:
    """Keep the records that a GPU machine has packed; say which are refused, and why."""
    from colab_lessons import reference
    from course.gpu import leg

    refused = 0
    for name, data in leg.unpack_records(archive):
        try:
            print(reference.write(reference.Record.from_dict(data, name)))
        except reference.RecordError as error:
            print(f"{name} is refused: {error}")
            refused += 1
    return 1 if refused else 0


def wheels(course: Course, options: argparse.Namespace) -> int:
    """Fill a folder with what a machine that has only PyTorch lacks."""
    from colab_helpers import _files
    from course.gpu import wheels
    from course.publish import release

    there = wheels.listed(options.there) if options.there else ()
    found = wheels.fill(course.root, options.folder, options.python, there)
    own = release.build_wheel(course.root)  # for its metadata: the checkout's own files come first
    found.append(_files.write(options.folder / own.name, own.content))
    size = sum(path.stat().st_size for path in found)
    print(
        f"{len(found)} wheels, {size / 1e6:.1f} MB, for Python {options.python}: {options.folder}"
    )
    return 0


def gpu(course: Course, options: argparse.Namespace) -> int:
    """Run the steps of a GPU machine without a network."""
    from course.gpu import leg

    there = leg.Leg(course.root, options.wheels.resolve(), options.rehearse)
    green = True
    for line in leg.run(course, there, options.step, options.lessons):
        print(line, flush=True)
        green &= ": ended " not in line
    return 0 if green else 1


def gpu_compare(course: Course, options: argparse.Namespace) -> int:
    """Compare footprint and timer with CUDA's counters and events."""
    from course.gpu import leg

    return leg.compare(course, options.rehearsed)
