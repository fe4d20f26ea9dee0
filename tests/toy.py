"""A course of one tiny lesson, sound in every respect, for tests that break one thing."""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from course.config import Course, load
from course.run import execute
from course.write import assemble

LESSON = """\
# %%
import os

from colab_lessons import exercises, figures, measurements

# %% tags=["parameters"]
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # small sizes

# %% [markdown] tags=["minutes-0"]
# ## A figure

# %%
with figures.canvas(2, 2) as (figure, axes):
    axes.plot([1, 2], [3, 4])
    picture = figures.finish(figure, alt="A line that rises from 3 to 4.")
picture

# %% tags=["nbval-check-output"]
total = sum(range(10))
total

# %% tags=["nbval-check-output"]
"the same everywhere"

# %% [markdown] tags=["minutes-7"]
# ## Exercise

# %% tags=["exercise"]
mib = ...  # the bytes
### BEGIN SOLUTION
mib = 1000 * 50e6 * 8 / 240e9
### END SOLUTION
exercises.check("02.at_least", mib)

# %%
# @title Keep it as a record { display-mode: "form" }
measurements.record("01_toy", FAST, total=measurements.Value(total, "", "the total"))
"""

TABLE = """\
[[lesson]]
number = 1
slug = "01_toy"
title = "A toy"
accelerator = "GPU"
gpu_type = "T4"
chip = "T4"
minutes = 7
packages = ["matplotlib"]
objectives = ["Fail in one way."]
measures = "nothing"
"""

#: Toy notebooks that have been run in this process, by what they were built as.
_RUNS: dict[str, str] = {}

PROJECT = """\
[project.urls]
Repository = "https://github.com/somebody/toy"
[tool.course]
branch = "main"
"""


def make_toy_course(root: Path, lesson: str = LESSON) -> Course:
    """Write a toy course below `root`; nothing is built yet."""
    for name, text in {
        "course/course.toml": TABLE,
        "pyproject.toml": PROJECT,
        "lessons/01_toy.py": lesson,
        "docs/teaching/01_toy.md": "<!-- facts: -->\n<!-- end facts -->\n"
        "<!-- parts: -->\n<!-- end parts -->\n<!-- measured: -->\n<!-- end measured -->\n",
        "docs/doctor.md": "".join(
            f"<!-- {name}: -->\n<!-- end {name} -->\n" for name in ("own", "action")
        ),
        "docs/planner.md": "".join(
            f"<!-- {name}: -->\n<!-- end {name} -->\n"
            for name in ("peaks", "trials", "checks", "runs", "serving", "terms")
        ),
        "README.md": "".join(
            f"<!-- {name}: -->\n<!-- end {name} -->\n"
            for name in ("job", "site", "lessons", "fork", "own")
        ),
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return dataclasses.replace(load(root), root=root)


def add_second_lesson(course: Course) -> Course:
    """Give the toy course a second lesson like the first, and return it as it is then."""
    table = course.root / "course" / "course.toml"
    text = table.read_text("utf-8")
    second = text.replace("number = 1", "number = 2").replace("01_toy", "02_toy")
    table.write_text(f"{text}\n{second}", "utf-8")
    lesson = course.source(course.lessons[0])
    copy = lesson.read_text("utf-8").replace("01_toy", "02_toy")
    (lesson.parent / "02_toy.py").write_text(copy, "utf-8")
    page = course.root / "docs" / "teaching" / "01_toy.md"
    (page.parent / "02_toy.md").write_text(page.read_text("utf-8"), "utf-8")
    return load(course.root)


def edit_lesson(course: Course, old: str, new: str) -> None:
    """Replace text in the toy lesson; the text must be there."""
    path = course.source(course.lessons[0])
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def run_toy(
    course: Course,
    solved: bool = False,
    settings: execute.Settings | None = None,
) -> execute.Outcome:
    """Build and run the toy lesson."""
    source = course.root / "toy.ipynb"
    source.write_text(assemble.dumps(assemble.build(course, course.lessons[0], solved)), "utf-8")
    return execute.run(source, course.root / "out" / "toy.ipynb", settings)


def publish_toy(course: Course) -> Path:
    """Run the toy lesson and store its notebook, as `make notebooks` does; the same one runs once."""
    built = assemble.dumps(assemble.build(course, course.lessons[0]))
    if built not in _RUNS:
        outcome = run_toy(course)
        assert outcome.ok, outcome.problem
        _RUNS[built] = nbformat.writes(outcome.notebook)
    return assemble.store_outputs(course, course.lessons[0], nbformat.reads(_RUNS[built], 4))


@contextlib.contextmanager
def stopped_after(writes: int, module) -> Iterator[None]:
    """Ctrl-C comes when a module has written so many files, and goes no further than this block."""
    write, done = module._atomic_files.write, []

    def stopping(path, content):
        if len(done) == writes:
            raise KeyboardInterrupt
        done.append(path)
        return write(path, content)

    with pytest.MonkeyPatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(module._atomic_files, "write", stopping)
        yield


def run_command(root: Path, arguments: list[str], **options) -> subprocess.Popen:
    """Start a command of `python -m course` on the course below `root`, in a process of its own."""
    program = (
        # Where the tests run in the background, Ctrl-C is ignored, and that is inherited.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "import sys; from pathlib import Path; import course.__main__ as command; from course import config; "
        f"command.load = lambda: config.load(Path({str(root)!r})); sys.exit(command.main(sys.argv[1:]))"
    )
    here = Path(__file__).parents[1]
    return subprocess.Popen([sys.executable, "-c", program, *arguments], cwd=here, **options)
