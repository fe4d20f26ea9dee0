"""Which piece of the reader's own code was running when an error was raised?"""

from __future__ import annotations

import ast
import dis
import functools
import linecache
import os
import sys
import sysconfig
import warnings
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

from colab_helpers.doctor.clues.installed import is_of_packages

#: Instructions whose place is what they write to: the whole line says more.
_WRITES = ("UNPACK", "STORE")
#: Code with variables of its own, and that of it which since Python 3.12 has no frame to keep them.
_BINDING = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
_INLINED = _BINDING[:3] if sys.version_info >= (3, 12) else ()
_LONGEST = 500_000  # characters of a file that is read
#: Those of a loop, whose place may be all of its body.
_LOOPS = ("GET_ITER", "FOR_ITER", "SEND")


@dataclass(frozen=True)
class Failed:
    """Own code that failed: its `frame`, the piece of `code`, whether it `raises` the error itself.

    `source` is all of its cell or file; `gone` are variables whose values are lost.
    """

    frame: FrameType
    code: str
    raises: bool
    source: str
    gone: frozenset[str]

    @functools.cached_property
    def seen(self) -> dict[str, Any]:
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


def failed(error: BaseException) -> Failed | None:
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
    return Failed(own.tb_frame, _piece(own), raises, source, _gone(own, source))


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
