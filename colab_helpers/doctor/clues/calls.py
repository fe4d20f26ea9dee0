"""What does the reader's own function take, which was called with something else?"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, FunctionType
from typing import Any

from colab_helpers.doctor.clues.clue import Clue, Raised
from colab_helpers.doctor.clues.line import Failed, is_own_file
from colab_helpers.doctor.clues.names import parts_of
from colab_helpers.doctor.problems import way_out

#: What Python says of a call that does not fit, with the name of the function as its class knows it.
_CALL = re.compile(
    r"TypeError: ((?:\w{1,60}\.){0,4}\w{1,60})\(\) "
    r"(takes (?:from \d{1,2} to )?\d{1,2} positional arguments? but (?P<given>\d{1,2}) (?:was|were) given"
    r"|missing \d{1,2} required (?:positional|keyword-only) arguments?: (?P<missing>[^\n]{1,200})"
    r"|got an unexpected keyword argument '(?P<unknown>\w{1,60})')"
)
#: Known problems with names of arguments that libraries have given up.
_OF_OTHERS = ("keras-2-code", "keras-old-arguments", "renamed-argument", "lightning-1")
_MOST = 12  # names of arguments that are told


def clues(raised: Raised) -> Iterator[Clue]:
    """Yield how the function of `raised` was defined, if the reader wrote it."""
    calls = list(_CALL.finditer(raised.text))
    if not calls or raised.own is None:
        return
    function = _own_function(calls[-1][1], raised.own)
    if function is None:
        return
    code = function.__code__
    method = code.co_varnames[:1] == ("self",)
    seen = f"`{calls[-1][1]}` is defined with ({', '.join(_arguments(code))}): {_said(calls[-1], method)}"
    alone = raised.known in ("", *_OF_OTHERS)
    yield Clue("own-call", seen, way_out("own-call", raised.platform), leaves_no_other=alone)


def _said(call: re.Match[str], method: bool) -> str:
    """What of the call does not fit."""
    if call["given"]:
        counted = f"{int(call['given']) - method} value{'s' * (int(call['given']) - method != 1)}"
        return f"it was given {counted}{' besides `self`' * method}."
    if call["missing"]:
        return f"nothing was given for {call['missing'].replace(chr(39), '`')}."
    return f"there is no `{call['unknown']}` among them."


def _own_function(name: str, own: Failed) -> FunctionType | None:
    """The function of a name such as `Net.forward`, if the reader wrote it."""
    first, *rest = name.split(".")
    value: Any = own.seen.get(first)
    if value is None:
        value = parts_of(sys.modules.get("__main__")).get(first)
    for part in rest:
        value = parts_of(value).get(part) if issubclass(type(value), type) else None
    if type(value) is not FunctionType or not is_own_file(value.__code__.co_filename):
        return None
    return value


def _arguments(code: CodeType) -> list[str]:
    """The names that a function takes, with stars as they are written."""
    count = code.co_argcount
    named = list(code.co_varnames[: count + code.co_kwonlyargcount])
    rest = list(code.co_varnames[len(named) : len(named) + 2])
    if code.co_flags & CO_VARARGS:
        named.insert(count, f"*{rest.pop(0)}")
    if code.co_flags & CO_VARKEYWORDS:
        named.append(f"**{rest.pop(0)}")
    return named[:_MOST]
