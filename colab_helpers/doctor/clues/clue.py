"""What is a clue, and from what is it drawn?"""

from __future__ import annotations

import functools
import linecache
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

from colab_helpers.doctor.clues.line import Failed, failed


@dataclass(frozen=True)
class Clue:
    """What an error, or the session it was raised in, shows beyond the table: `seen`, and what to do.

    `id` is the known problem that it is a case of. `leaves_no_other`: what the table says of the text
    alone need not be read.
    """

    id: str
    seen: str
    remedy: str
    leaves_no_other: bool = False

    def __str__(self) -> str:
        return f"{self.seen} {self.remedy}"


@dataclass(frozen=True)
class Raised:
    """An error as clues look at it: its `text`, and where it was raised here, the exceptions.

    `chain` has the first cause first; it is empty for a text that came from elsewhere. `platform` is as
    `runtime.describe` names it; `known` is the id of the problem in the table, or "".
    """

    text: str
    platform: str
    chain: tuple[BaseException, ...] = ()
    known: str = ""

    @property
    def error(self) -> BaseException | None:
        """What was raised last; None for a text."""
        return self.chain[-1] if self.chain else None

    @functools.cached_property
    def own(self) -> Failed | None:
        """The own code in which that was raised; None for a text, and where all of it is of packages."""
        return failed(self.error) if self.error else None

    @property
    def restarting(self) -> str:
        """How a session is restarted there, at the beginning of a sentence."""
        on_colab = self.platform.startswith("colab")
        return "Runtime > Restart session" if on_colab else "Restart the kernel"

    @property
    def restart(self) -> str:
        """The same at the end of one."""
        return f"then {self.restarting}".replace("Restart the", "restart the")


def frames(error: BaseException) -> Iterator[FrameType]:
    """Yield the frames of the traceback of `error`, the one that raised first."""
    yield from (frame for frame, _ in walk(error))


def walk(error: BaseException) -> Iterator[tuple[FrameType, str]]:
    """Yield the same frames of `error`, each with the line of code that it ran, "" where that is unknown."""
    for frame, number in reversed(list(traceback.walk_tb(error.__traceback__))):
        yield frame, linecache.getline(frame.f_code.co_filename, number, frame.f_globals)


def module_of(frame: FrameType) -> str:
    """Return the name of the module whose code a `frame` runs; "" where that has none."""
    return str(frame.f_globals.get("__name__", ""))


def text_of(error: BaseException) -> str:
    """Return the text of an `error`, or "" where it cannot be made."""
    try:
        return str(error)
    except Exception:
        return ""
