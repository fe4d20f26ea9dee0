"""Recorded outputs for cells whose packages are missing here.

A cell that begins with `# needs: tensorflow`, at most below its title, runs where TensorFlow is
installed. Elsewhere it is not run: what it showed on a reference machine appears instead, and says
so. The comment is plain Python for everybody else.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from colab_helpers import _atomic_files, runtime_images
from colab_lessons import trace_downloads

FOLDER = Path(__file__).parent / "measurements" / "outputs"
#: How the words begin that a replayed cell shows.
NOT_RUN = "Not run here:"
#: Above it there may be the title of a folded cell.
_NEEDS = re.compile(r"(?:#\s*@title\b[^\n]*\n)?#\s*needs:\s*([\w ,]+?)\s*(?:\n|\Z)")
_MIN_JAX_FOR_LIBTPU = "0.10"  # the first release with which it was seen to work
_tally: dict[str, Counter] = {}
_lesson_by_shell: dict[int, str] = {}  # id of an IPython shell -> the lesson it shows


def watch(lesson: str, shell: Any = None) -> None:
    """From here on, replay the cells of `lesson` whose needs this machine lacks.

    `shell` is the IPython shell; outside IPython nothing happens, since there are no cells.
    """
    shell = shell or _shell()
    if shell is None:
        return
    _tally.clear()
    if id(shell) not in _lesson_by_shell:  # the cell that calls this may run again
        shell.events.register("pre_run_cell", lambda info: _count(info.raw_cell))
        shell.input_transformers_cleanup.append(
            lambda lines: _replay_if_unmet(_lesson_by_shell[id(shell)], lines)
        )
    _lesson_by_shell[id(shell)] = lesson


def needs(source: str) -> tuple[str, ...]:
    """Return the import names that a cell's first line asks for, or the one below its title.

    `source` is the text of the cell.

    >>> needs("# needs: tensorflow, keras\\nimport tensorflow as tf")
    ('tensorflow', 'keras')
    """
    found = _NEEDS.match(source.lstrip())
    return tuple(name.strip() for name in found.group(1).split(",")) if found else ()


def missing(source: str) -> tuple[str, ...]:
    """Return what a cell needs and this machine lacks.

    `source` is the text of the cell.

    >>> missing("# needs: json, no_such_package")
    ('no_such_package',)
    """
    return tuple(lacking for name in needs(source) if (lacking := _unmet_need(name)))


def tally() -> dict[str, dict[str, int]]:
    """Return, for each need, how many cells ran and how many were replayed since `watch`."""
    return {name: dict(counts) for name, counts in sorted(_tally.items())}


def digest(source: str) -> str:
    """Return the key under which the output of a cell is recorded.

    `source` is the text of the cell.
    """
    return hashlib.sha256(source.strip().encode()).hexdigest()[:16]


def replay(lesson: str, key: str, lacking: Sequence[str], folder: Path = FOLDER) -> None:
    """Show what a cell put out on a reference machine, and say that it did not run here.

    `lesson` and `key` name the cell in `folder`; `lacking` are the packages that are not installed.
    """
    why = f"{NOT_RUN} {', '.join(lacking)} is not installed."
    path = folder / f"{lesson}.json"
    recorded = json.loads(path.read_text("utf-8")) if path.exists() else {"cells": {}}
    outputs = recorded["cells"].get(key)
    if outputs is None:
        print(f"{why} Nothing is recorded for this cell.")
        return
    if not outputs:
        print(f"{why} This cell has no output.")
        return
    print(
        f"{why}\nRecorded on {recorded['device']}, {recorded['date']}, with the predictions made there:"
    )
    for output in outputs:
        _show(output)


def record_outputs(
    lesson: str, device: str, date: str, cells: Sequence[tuple[str, list]], folder: Path = FOLDER
) -> Path:
    """Keep the outputs of cells that need something; `cells` holds (source, outputs).

    `device` and `date` (as in 2026-11-21) say where and when; the file in `folder` has the name of the
    `lesson`.
    """
    kept = {digest(source): _joined(outputs) for source, outputs in cells if needs(source)}
    path = folder / f"{lesson}.json"
    text = json.dumps({"device": device, "date": date, "cells": kept}, indent=1, sort_keys=True)
    return _atomic_files.write(path, text + "\n")


def _joined(outputs: Sequence[dict]) -> list[dict]:
    """The outputs, with what was printed in a row in one piece: where it was cut is chance.

    >>> _joined([{"name": "stdout", "text": "a"}, {"name": "stdout", "text": "b"}])
    [{'name': 'stdout', 'text': 'ab'}]
    """
    joined: list[dict] = []
    for output in outputs:
        if joined and "name" in output and joined[-1].get("name") == output["name"]:
            joined[-1] = {**joined[-1], "text": joined[-1]["text"] + output["text"]}
        else:
            joined.append(dict(output))
    return joined


def _unmet_need(name: str) -> str:
    """Return the name of an unmet need, for the message to the reader; "" if it is met."""
    if name in trace_downloads.table():
        return "" if trace_downloads.find(name) else f"the file {name}"
    if find_spec(name) is None:
        return name
    # With JAX 0.7.2 and its libtpu, compiling for a chip that is not there ends the process.
    if (
        name == "libtpu"
        and find_spec("jax")
        and runtime_images.is_older(metadata.version("jax"), _MIN_JAX_FOR_LIBTPU)
    ):
        return "libtpu for JAX 0.10 or newer"
    return ""


def _shell() -> Any:
    import sys

    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def _count(source: str | None) -> None:
    text = source or ""
    for name in needs(text):
        ran = "replayed" if missing(text) else "ran"
        _tally.setdefault(name, Counter())[ran] += 1


def _replay_if_unmet(lesson: str, lines: list[str]) -> list[str]:
    source = "".join(lines)
    lacking = missing(source)
    if not lacking:
        return lines
    call = f"recorded_outputs.replay({lesson!r}, {digest(source)!r}, {lacking!r})"
    return ["from colab_lessons import recorded_outputs\n", f"{call}\n"]


def _show(output: dict) -> None:
    from IPython.display import publish_display_data

    if output["output_type"] == "stream":
        print(output["text"], end="")
    elif "data" in output:
        publish_display_data(output["data"], output.get("metadata", {}))
