"""Which piece of the reader's own code was running when an error was raised?"""

from __future__ import annotations

import dis
import linecache
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

from colab_helpers.doctor.clues.installed import is_of_packages

#: Instructions whose place is what they write to: the whole line says more.
_WRITES = ("UNPACK", "STORE")
#: Those of a loop, whose place may be all of its body.
_LOOPS = ("GET_ITER", "FOR_ITER", "SEND")


@dataclass(frozen=True)
class Failed:
    """Own code that failed: the `frame` it ran in, the piece of `code`, whether it `raises` it itself."""

    frame: FrameType
    code: str
    raises: bool

    @property
    def seen(self) -> dict[str, Any]:
        """The names that this code could use, with what they stand for."""
        return {**self.frame.f_globals, **self.frame.f_locals}


def failed(error: BaseException) -> Failed | None:
    """Return the innermost own code of the traceback of `error`; None where all of it is of packages.

    The piece is the expression that Python was at, on as many lines as it has; the whole line where that
    is not known.
    """
    own = last = None
    trace = error.__traceback__
    while trace is not None:
        if _is_own(trace.tb_frame.f_code.co_filename):
            own = trace
        last, trace = trace, trace.tb_next
    if own is None:
        return None
    return Failed(own.tb_frame, _piece(own), own is last and _operation(own) == "RAISE_VARARGS")


def _is_own(file: str) -> bool:
    return not is_of_packages(file) and "__autograph_generated_file" not in file  # of tf.function


def _piece(trace: TracebackType) -> str:
    code = trace.tb_frame.f_code
    start, end, left, right = list(code.co_positions())[trace.tb_lasti // 2]
    operation = _operation(trace)
    first = start or trace.tb_lineno
    last = first if end is None or operation in _LOOPS else end
    lines = linecache.getlines(code.co_filename, trace.tb_frame.f_globals)[first - 1 : last]
    piece = [line.encode() for line in lines]  # columns are counted in bytes
    if piece and left is not None and not operation.startswith((*_WRITES, *_LOOPS)):
        piece[-1] = piece[-1][:right]  # first, as both may be on one line
        piece[0] = piece[0][left:]
    text = b"".join(piece).decode(errors="replace").strip()
    return text.partition(" in ")[2].rstrip(":") or text if operation in _LOOPS else text


def _operation(trace: TracebackType) -> str:
    return dis.opname[trace.tb_frame.f_code.co_code[trace.tb_lasti]]
