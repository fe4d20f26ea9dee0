"""Profiles of real GPUs: one of ours, and some that others published, which are fetched and never shipped.

A file that is not the one that was read when the lesson was written is not used: its hash is compared.
"""

from __future__ import annotations

import functools
import hashlib
import http.client
import os
import tempfile
import tomllib
import urllib.request
from pathlib import Path

from colab_helpers import _atomic_files

#: PyTorch's profile of three steps of the job on an H100, loss read in each; ours.
OURS = Path(__file__).parent / "job_records" / "nvidia-h100-three-steps.json.gz"
#: A folder of one's own with NAME.json.gz in it, which is taken as it is.
FOLDER_VARIABLE = "COLAB_LESSONS_TRACES"
_SECONDS = 20  # without an answer


@functools.cache
def table() -> dict[str, dict[str, str]]:
    """Return each published trace's address, SHA-256 and origin, by name.

    >>> sorted(table())
    ['a100_trace', 'v100_trace']
    """
    return tomllib.loads((Path(__file__).parent / "traces.toml").read_text("utf-8"))


def find(name: str) -> Path | None:
    """Return the file of a trace that is on this machine already, or None.

    Args:
        name: A name of `table`.
    """
    own, path = os.environ.get(FOLDER_VARIABLE), _path(name)
    if not path.is_file() or (not own and _hash(path.read_bytes()) != table()[name]["sha256"]):
        return None
    return path


def fetch(name: str) -> Path | None:
    """Return a trace's file, downloaded if need be; None, with a line that says why, where that fails.

    Args:
        name: A name of `table`.
    """
    row = table()[name]
    if (there := find(name)) is not None:
        return there
    problem = "no such file in your own folder"
    if not os.environ.get(FOLDER_VARIABLE):
        try:
            with urllib.request.urlopen(row["url"], timeout=_SECONDS) as answer:
                content = answer.read()
            if _hash(content) == row["sha256"]:
                _path(name).parent.mkdir(exist_ok=True)
                return _atomic_files.write(_path(name), content)
            problem = (
                f"{len(content):,} bytes arrived that are not the file the lesson was written with"
            )
        except (OSError, http.client.HTTPException) as error:  # the second: it broke off
            problem = f"it could not be downloaded ({getattr(error, 'reason', error)})"
    print(f"{name}: {problem}. Recorded results appear instead. [{row['source']}]")
    return None


def _path(name: str) -> Path:
    own = os.environ.get(FOLDER_VARIABLE)
    folder = Path(own) if own else Path(tempfile.gettempdir()) / "colab-lessons-traces"
    return folder / f"{name}.json.gz"


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
