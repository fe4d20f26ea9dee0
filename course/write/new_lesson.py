"""The files of a new lesson: a row in the table, a text, judges, a teacher's page."""

from __future__ import annotations

import re
from pathlib import Path

from colab_helpers import _files
from course.table import Course, CourseError

_ROW = """
[[lesson]]
number = {number}
slug = "{slug}"
title = "{title}"
accelerator = "GPU"
gpu_type = "T4"
chip = "T4"
minutes = 60
packages = ["torch", "matplotlib"]
objectives = [
  "Say what the reader can do afterwards.",
]
measures = "what the reader measures"
hook = "What happens here, in the first line that anybody reads."
"""

_TEXT = """\
# %% [markdown]
# What happens here, and why it matters to the reader, in three sentences.

# %%
# @title Imports {{ display-mode: "form" }}
import os

import torch

from colab_helpers import benchmark

from colab_lessons import exercises, reference

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own {{ display-mode: "form" }}
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SIZE = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST {{ display-mode: "form" }}
SIZE = SIZE or (64 if FAST else 1024)  # of the matrices

# %% [markdown] tags=["minutes-40", "short-30"]
# ## One idea
#
# **Predict.** How long does one product take?

# %%
milliseconds = None  # @param {{type:"number"}}

# %%
a = torch.randn(SIZE, SIZE)
product = benchmark.measure(lambda: a @ a, budget=0.1)
product

# %% [markdown] tags=["minutes-20", "short-15"]
# ## Exercises
#
# ### 1 · A first one
#
# How many operations has the product of two 3 × 3 matrices?

# %% tags=["exercise"]
operations = ...  # multiplications and additions
### BEGIN SOLUTION
operations = 2 * 3**3
### END SOLUTION
exercises.check("{nn}.first", operations)

# %%
# @title Put predictions beside results {{ display-mode: "form" }}
guess = reference.Prediction
predicted = {{"milliseconds": guess(milliseconds, 1000 * product.median, "ms")}}

# %%
# @title Keep them as a record {{ display-mode: "form" }}
seconds = reference.Value(product.median, "s", "one product")
reference.record("{slug}", FAST, predicted=predicted, product=seconds)
"""

_JUDGES = '''\
"""The judges of lesson {nn}."""

from __future__ import annotations

from colab_lessons.exercises import NotYet, close, exercise, number


@exercise("{nn}.first", hint="Each of the nine results adds up three products.")
def first(answer: float) -> str:
    """Operations of a 3 × 3 product."""
    given = number(answer)
    if close(given, 54):
        return "2n³: a multiplication and an addition for each."
    if close(given, 27):
        raise NotYet("Those are the multiplications. The additions count too.")
    raise NotYet("Two operations, n³ times.")
'''

_PAGE = """\
# {number:02d} · {title}

<!-- facts: made from course/course.toml by `make build` -->
<!-- end facts -->

## Course of the lesson

<!-- parts: made from the tags in lessons/{slug}.py by `make build` -->
<!-- end parts -->

## What they will see

<!-- measured: made from the reference records -->
<!-- end measured -->

## Questions for the class, and answers

- *At the product:* <!-- One idea --> how many times as long does twice the size take?
  **Eight times: n³.**

## Common wrong answers

- …
"""


def create(course: Course, number: str, name: str, title: str) -> list[Path]:
    """Write the files of lesson `number` ("08") called `name` ("plan"), and return them.

    Nothing that is there is touched but course.toml, which gets a row, last. Raises `CourseError` for
    a number or a name that is taken, or is none.
    """
    if not re.fullmatch(r"\d\d", number) or not re.fullmatch(r"[a-z][a-z0-9_]*", name) or not title:
        raise CourseError(
            'Write NN=10 (two figures), NAME=my_topic (small letters) and TITLE="My topic".'
        )
    taken = {lesson.number: lesson.slug for lesson in course.lessons}
    if int(number) in taken:
        raise CourseError(f"Lesson {number} is there: {taken[int(number)]}.")
    words = {"number": int(number), "nn": number, "slug": f"{number}_{name}", "title": title}
    root, slug = course.root, words["slug"]
    texts = {
        root / "lessons" / f"{slug}.py": _TEXT.format(**words),
        root / "colab_lessons" / "exercises" / f"lesson_{number}.py": _JUDGES.format(**words),
        root / "docs" / "teaching" / f"{slug}.md": _PAGE.format(**words),
    }
    there = [p for p, text in texts.items() if p.exists() and p.read_text("utf-8") != text]
    if there:
        raise CourseError(f"There is a {there[0].relative_to(root)} already.")
    table = root / "course" / "course.toml"
    row = _ROW.format(**words | {"title": title.replace("\\", "\\\\").replace('"', '\\"')})
    texts[table] = f"{table.read_text('utf-8').rstrip()}\n{row}"
    return [_files.write(path, text) for path, text in texts.items()]
