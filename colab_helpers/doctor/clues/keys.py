"""Which key was meant, where a table or a dictionary has none of that name?"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from colab_helpers.doctor.clues.clue import Clue, Raised, names_in, stands_for
from colab_helpers.doctor.clues.line import failed

_MOST = 12  # keys that are named


def clues(raised: Raised) -> Iterator[Clue]:
    """Yield what has no such key, and which it has, where `raised` is a KeyError of own code."""
    error = raised.chain[-1] if raised.chain else None
    wanted = error.args[0] if isinstance(error, KeyError) and error.args else None
    own = failed(error) if isinstance(wanted, str) and error else None
    if own is None:
        return
    for name in names_in(own.code):
        value = stands_for(name, own.seen)
        keys = _keys(value)
        if keys and wanted not in keys:
            yield _no_such(
                name, str(wanted), keys, "column" if hasattr(value, "columns") else "key"
            )
            return


def _keys(value: Any) -> list[str]:
    """The names by which a dictionary, a table or a batch can be asked."""
    if hasattr(type(value), "columns") and type(value).__module__.startswith("pandas"):
        found = value.columns
    elif (
        isinstance(value, Mapping) and type(value).__module__ != "os"
    ):  # os.environ may hold secrets
        found = value
    else:
        return []
    return [key for key in list(found)[:1000] if isinstance(key, str)]


def _no_such(name: str, wanted: str, keys: list[str], what: str) -> Clue:
    lower = {key.strip().lower(): key for key in keys}
    near = difflib.get_close_matches(wanted.strip().lower(), lower, 3, 0.6)
    told = ", ".join(f"`{key}`" for key in keys[:_MOST]) + (" …" if len(keys) > _MOST else "")
    seen = f"`{name}` has no {what} `{wanted}`. It has {told}."
    remedy = (
        f"Did you mean {' or '.join(f'`{lower[each]}`' for each in near)}?"
        if near
        else f"Look where `{name}` is made: the {what} was never put there, or has another name."
    )
    return Clue("no-such-key", seen, remedy)
