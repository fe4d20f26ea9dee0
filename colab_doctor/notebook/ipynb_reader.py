"""Read an untrusted .ipynb file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from colab_helpers._cli_utils import CommandError

#: Bytes; larger files are rejected.
_MAX_BYTES = 256 * 2**20


def read_file(path: Path) -> Mapping[str, Any]:
    """Return the notebook in `path`, as parsed JSON. Raises `CommandError` if it isn't a notebook."""
    try:
        if path.exists() and not path.is_file():  # a pipe or a device would never end
            raise CommandError(f"{path} is not a file.")
        with path.open("rb") as file:
            notebook = json.loads(file.read(_MAX_BYTES).decode("utf-8-sig"))
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from error
    except json.JSONDecodeError as error:
        raise CommandError(
            f"{path} is not a notebook: invalid JSON at line {error.lineno}."
        ) from error
    except (UnicodeDecodeError, RecursionError):
        notebook = None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise CommandError(f"{path} is not a notebook: it has no list of cells.")
    return notebook
