"""Which names does a piece of code use, and what do they stand for? Nothing of anybody's is run."""

from __future__ import annotations

import io
import keyword
import tokenize
from collections.abc import Iterator, Mapping
from types import GetSetDescriptorType, MappingProxyType, MemberDescriptorType
from typing import Any

_DICTS = (dict, MappingProxyType)
_OF_A_MODEL = ("_modules", "_parameters", "_buffers")  # where PyTorch keeps the parts
_SKIPPED = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def names_in(code: str) -> list[str]:
    """Return the names in a piece of `code`, each once, with what stands behind their dots.

    Not what stands in texts and comments, names of arguments, nor parts of a result.

    >>> names_in("y = self.head(x, dim=1).loss  # b")
    ['y', 'self.head', 'x']
    """
    found: dict[str, None] = {}
    name = before = ""
    depth = 0
    for kind, text in [*_tokens(code), (tokenize.OP, "")]:
        if kind == tokenize.NAME and not keyword.iskeyword(text):
            name = _longer(name, before, text)
        elif text != "." or not name:
            if name and not (text == "=" and depth):  # else the name of an argument
                found[name] = None
            name = ""
            depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
        before = text
    return list(found)


def beginnings(name: str) -> list[str]:
    """Return a dotted `name` and what it begins with, the longest first.

    >>> beginnings("self.x.view")
    ['self.x.view', 'self.x', 'self']
    """
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _longer(name: str, before: str, text: str) -> str:
    """A name with the next word; "" for a part of what has no name, as in `f().loss`."""
    if before != ".":
        return text
    return f"{name}.{text}" if name else ""


def _tokens(code: str) -> Iterator[tuple[int, str]]:
    """The words and signs of a piece of code, as far as it can be read; nothing for a text."""
    try:
        for each in tokenize.generate_tokens(io.StringIO(code.strip()).readline):
            if each.type not in _SKIPPED:
                yield each.type, "" if each.type == tokenize.STRING else each.string
    except (tokenize.TokenError, SyntaxError):  # a part of a statement
        return


def stands_for(name: str, seen: Mapping[str, Any]) -> Any:
    """Return what a dotted `name` stands for; None where that is not known without running anything.

    `seen` are the names of a frame. Nothing is called, and no property is run: parts are looked up where
    an object, a class, a module or a model of PyTorch keeps its own.

    >>> stands_for("io.StringIO", {"io": io}) is io.StringIO
    True
    """
    first, *rest = name.split(".")
    value = seen.get(first)
    for part in rest:
        inside = parts_of(value)
        homes: list[Any] = [inside, *(inside.get(each) for each in _OF_A_MODEL)]
        value = next((home[part] for home in homes if type(home) in _DICTS and part in home), None)
    return value


def parts_of(value: Any) -> Mapping[str, Any]:
    """Return what an object keeps in its own dictionary; {} for a `value` that has none, or makes it up.

    >>> parts_of(io).get("__name__")
    'io'
    """
    for kind in type.__dict__["__mro__"].__get__(type(value)):
        found = type.__dict__["__dict__"].__get__(kind).get("__dict__")
        if found is not None:
            known = type(found) in (GetSetDescriptorType, MemberDescriptorType)
            inside = found.__get__(value) if known else {}
            return inside if type(inside) in _DICTS else {}
    return {}
