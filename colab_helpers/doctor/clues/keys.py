"""Which key was meant, where a table or a dictionary has none of that name?"""

from __future__ import annotations

import ast
import difflib
import itertools
import re
from collections import UserDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from colab_helpers.doctor.clues.clue import Clue, Raised
from colab_helpers.doctor.clues.line import Failed
from colab_helpers.doctor.clues.names import parts_of, stands_for

_MOST = 12  # keys that are named
_LONGEST = 60  # characters of a key; longer ones are texts
#: What pandas says instead of the key.
_OF_PANDAS = re.compile(
    r"\['([^']{1,60})'(?:, '[^']*')*\] not (?:in index|found in axis)"
    r"|None of \['([^']{1,60})'\] are in the columns"
)
_OF_SEVERAL = re.compile(
    r" not (?:in index|found in axis)$| are in the |^Column not found|^Label\(s\)"
)
#: Methods of a table that ask another one too, or hand the work to a function.
_OTHERS = (
    "merge", "join", "apply", "map", "agg", "aggregate", "transform", "pipe", "assign", "rename",
)  # fmt: skip
#: What looks like a token or an address, and not like a name.
_SECRET = re.compile(
    r"@|(?=\S*\d)(?=\S*[A-Za-z])[\w-]{24,}|^(hf|sk|pk|ghp|gho|xox.|AKIA|AIza)[-_]?\w{8,}"
)


def clues(raised: Raised) -> Iterator[Clue]:
    """Yield what has no such key, and which it has, where `raised` is a KeyError of own code."""
    wanted = _wanted(raised.error)
    own = raised.own if wanted else None
    if own is None or own.raises:
        return
    name, value = _asked(own)
    keys = _keys(value)
    if keys and wanted not in keys:
        yield _no_such(name, wanted, keys, "column" if _is_table(value) else "key")


def _wanted(error: BaseException | None) -> str:
    """The key that was not there; "" where the error names none, or several."""
    said = error.args[0] if isinstance(error, KeyError) and error.args else None
    if type(said) is not str:
        return ""
    if match := _OF_PANDAS.fullmatch(said):
        return match[1] or match[2]
    return "" if _OF_SEVERAL.search(said) or len(said) > _LONGEST else said


def _asked(own: Failed) -> tuple[str, Any]:
    """What was asked for a key, as its reader writes it, and what that is.

    That is what stands before the last brackets. Of a call only a table is one, `df` of `df.groupby("x")`;
    what a function looks up inside is its own.
    """
    tree = own.expression
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Attribute):
        if tree.func.attr in _OTHERS:
            return "", None
        value = _value(tree.func.value, own.seen)
        return ast.unparse(tree.func.value), value if _is_table(value) else None
    if isinstance(tree, ast.Subscript):
        return ast.unparse(tree.value), _value(tree.value, own.seen)
    return "", None


def _value(tree: ast.expr, seen: Mapping[str, Any]) -> Any:
    """What a name, a part of it, or a place in a plain dictionary or list is; None for anything else."""
    if isinstance(tree, ast.Subscript) and isinstance(tree.slice, ast.Constant):
        outer = _value(tree.value, seen)
        try:
            return outer[tree.slice.value] if type(outer) in (dict, list) else None
        except (LookupError, TypeError):
            return None
    named = isinstance(tree, ast.Name | ast.Attribute)
    return stands_for(ast.unparse(tree), seen) if named else None


def _is_table(value: Any) -> bool:
    return type(value).__name__ == "DataFrame" and type(value).__module__.startswith("pandas")


def _keys(value: Any) -> list[str]:
    """The names by which a dictionary, a table or a batch can be asked; nothing of its own is run."""
    if _is_table(value):
        found: Iterable[Any] = value.columns
    elif issubclass(type(value), dict):
        found = dict.keys(value)
    elif issubclass(type(value), UserDict):  # a batch of transformers
        inside = parts_of(value).get("data")
        found = inside if type(inside) is dict else ()
    else:
        return []
    keys = [key for key in itertools.islice(found, 1000) if type(key) is str]
    return [key for key in keys if len(key) <= _LONGEST and not _SECRET.search(key)]


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
