"""What is a clue, and from what is it drawn?"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType


@dataclass(frozen=True)
class Clue:
    """What an error, or the session it was raised in, shows beyond the table: `seen`, and what to do.

    `id` is the known problem that it is a case of.
    """

    id: str
    seen: str
    remedy: str

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
    def restart(self) -> str:
        """How a session is restarted there, at the end of a sentence."""
        on_colab = self.platform.startswith("colab")
        return "then Runtime > Restart session" if on_colab else "then restart the kernel"


def frames(error: BaseException) -> Iterator[FrameType]:
    """Yield the frames of the traceback of `error`, the one that raised first."""
    walked = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    yield from reversed(walked)


def module_of(frame: FrameType) -> str:
    """Return the name of the module whose code a `frame` runs; "" where that has none."""
    return str(frame.f_globals.get("__name__", ""))


def text_of(error: BaseException) -> str:
    """Return the text of an `error`, or "" where it cannot be made."""
    try:
        return str(error)
    except Exception:
        return ""
