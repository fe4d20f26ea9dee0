"""The table of known problems: what checks find, and what errors show, by id."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from importlib import resources

from colab_helpers import problem_schema
from colab_helpers.problem_schema import Problem

#: The topics, in the order in which the pages list them.
TOPICS = {
    "gpu": "GPU and driver",
    "tpu": "TPU",
    "memory": "Memory",
    "precision": "Precision",
    "packages": "Packages",
    "training": "Errors of the device",
    "jax": "JAX",
    "files": "Session and files",
    "downloads": "Downloads",
    "colab": "Colab's page",
    "processes": "Several processes",
    "compilers": "Compilers and kernels",
}


@functools.cache
def known_problems() -> Mapping[str, Problem]:
    """Return every known problem by id, topic by topic.

    >>> known_problems()["out-of-memory"].topic
    'memory'
    """
    folder = resources.files("colab_doctor").joinpath("problems")
    files = sorted(file.name for file in folder.iterdir() if file.name.endswith(".toml"))
    found = [*problem_schema.read("colab_helpers", "preflight/problems.toml")]
    found += [
        row for file in files for row in problem_schema.read("colab_doctor", f"problems/{file}")
    ]
    order = list(TOPICS)
    return {row.id: row for row in sorted(found, key=lambda row: order.index(row.topic))}


@functools.cache
def patterns(id: str) -> tuple[re.Pattern[str], ...]:
    """Return the compiled error patterns of the problem `id`."""
    return tuple(re.compile(pattern) for pattern in known_problems()[id].errors)
