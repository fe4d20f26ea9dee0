"""The piece of the reader's own code that was running, and what its names stand for. Nothing is run."""

from __future__ import annotations

import ast
import dis
import functools
import io
import keyword
import linecache
import os
import sys
import sysconfig
import tokenize
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import (
    FrameType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    TracebackType,
)
from typing import Any

from colab_doctor.diagnosis.installed import is_of_packages

#: Instructions whose place is what they write to: the whole line says more.
_WRITES = ("UNPACK", "STORE")
#: Code with variables of its own, and that of it which since Python 3.12 has no frame to keep them.
_BINDING = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
_INLINED = _BINDING[:3] if sys.version_info >= (3, 12) else ()
_LONGEST = 500_000  # characters of a file that is read
#: Those of a loop, whose place may be all of its body.
_LOOPS = ("GET_ITER", "FOR_ITER", "SEND")


@dataclass(frozen=True)
class FailedCode:
    """Own code that failed: its `frame`, the piece of `code`, whether it `raises` the error itself.

    `source` is all of its cell or file; `gone` are variables whose values are lost.
    """

    frame: FrameType
    code: str
    raises: bool
    source: str
    gone: frozenset[str]

    @functools.cached_property
    def scope(self) -> dict[str, Any]:
        """The names that this code could use, with what they stand for."""
        seen = {**self.frame.f_globals, **self.frame.f_locals}
        return {name: value for name, value in seen.items() if name not in self.gone}

    @functools.cached_property
    def tree(self) -> ast.AST:
        """All of the source as Python reads it; an empty one where it cannot be read."""
        short = len(self.source) <= _LONGEST
        return (_parsed(self.source, "exec") if short else None) or ast.Module([], [])

    @functools.cached_property
    def expression(self) -> ast.expr | None:
        """The piece as Python reads it; None for a whole statement, or for a part of one."""
        tree = _parsed(self.code, "eval")
        return tree.body if isinstance(tree, ast.Expression) else None


def failed(error: BaseException) -> FailedCode | None:
    """Return the innermost own code of the traceback of `error`; None where all of it is of packages.

    The piece is the expression that Python was at, on as many lines as it has; the whole line where that
    is not known.
    """
    own = last = None
    trace = error.__traceback__
    while trace is not None:
        if is_own_file(trace.tb_frame.f_code.co_filename):
            own = trace
        last, trace = trace, trace.tb_next
    if own is None:
        return None
    raises = own is last and _operation(own) == "RAISE_VARARGS"
    source = "".join(_lines(own))
    return FailedCode(own.tb_frame, _piece(own), raises, source, _gone(own, source))


def _gone(trace: TracebackType, source: str) -> frozenset[str]:
    """Variables of comprehensions and lambdas in and around the place: they are lost, or were never made."""
    start, end, left, right = _place(trace)
    if start is None or end is None or left is None or right is None or len(source) > _LONGEST:
        return frozenset()
    names: set[str] = set()
    tree = _parsed(source, "exec")
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, _BINDING):
            first = (node.lineno, node.col_offset)
            last = (node.end_lineno or 0, node.end_col_offset or 0)
            inside = (start, left) <= first and last <= (end, right)
            around = first <= (start, left) and (end, right) <= last
            if inside or (around and isinstance(node, _INLINED)):
                names |= _bound(node)
    return frozenset(names)


def _parsed(source: str, mode: str) -> ast.AST | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the reader has seen them
            return ast.parse(source, mode=mode)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _bound(node: ast.AST) -> set[str]:
    """The variables that a comprehension or a lambda makes."""
    if isinstance(node, ast.Lambda):
        return {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
    targets = (each.target for each in getattr(node, "generators", ()))
    return {each.id for one in targets for each in ast.walk(one) if isinstance(each, ast.Name)}


@functools.cache
def _standard() -> tuple[str, ...]:
    """Where Python's own modules lie."""
    return tuple({sysconfig.get_path(each) + os.sep for each in ("stdlib", "platstdlib")})


def is_own_file(file: str) -> bool:
    """Say whether a `file`, as Python names it, is the reader's: no package, and none of Python itself.

    >>> is_own_file("/content/project/model.py"), is_own_file("<string>"), is_own_file(os.__file__)
    (True, False, False)
    """
    if file.startswith("<"):  # <string>, <timed exec>, <frozen …>: no line of it is known
        return file.startswith("<ipython-input")
    return not (
        is_of_packages(file)
        or file.endswith((".pyx", ".pxi", ".pxd"))  # Cython: "numpy/random/mtrand.pyx"
        or file.startswith(_standard())
        or "__autograph_generated_file" in file  # of tf.function
    )


def _piece(trace: TracebackType) -> str:
    start, end, left, right = _place(trace)
    operation = _operation(trace)
    first = start or trace.tb_lineno
    last = first if end is None or operation in _LOOPS else end
    lines = _lines(trace)[first - 1 : last]
    piece = [line.encode() for line in lines]  # columns are counted in bytes
    if piece and left is not None and not operation.startswith((*_WRITES, *_LOOPS)):
        piece[-1] = piece[-1][:right]  # first, as both may be on one line
        piece[0] = piece[0][left:]
    text = b"".join(piece).decode(errors="replace").strip()
    return text.partition(" in ")[2].rstrip(":") or text if operation in _LOOPS else text


def _place(trace: TracebackType) -> tuple[int | None, int | None, int | None, int | None]:
    """Lines and columns of the instruction: the first and the last line, where it begins and ends there."""
    return list(trace.tb_frame.f_code.co_positions())[trace.tb_lasti // 2]


def _operation(trace: TracebackType) -> str:
    return dis.opname[trace.tb_frame.f_code.co_code[trace.tb_lasti]]


def _lines(trace: TracebackType) -> list[str]:
    return linecache.getlines(trace.tb_frame.f_code.co_filename, trace.tb_frame.f_globals)


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
