"""Tables of facts, which lie in the packages as TOML."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any


def load_toml(package: str, file: str) -> dict[str, Any]:
    """Return what `file`, a path inside `package`, holds."""
    return tomllib.loads(resources.files(package).joinpath(file).read_text("utf-8"))
