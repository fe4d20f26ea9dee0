"""What a diagnosis is, and the failure from which it is drawn."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType


@dataclass(frozen=True)
class Diagnosis:
    """What an error, or its session, shows beyond the table: the observation, and the fix.

    `id` is the known problem that it is a case of. `overrides_table`: it means more than what the table says
    of the text. A diagnosis without a fix only tells sizes.
    """

    id: str
    observation: str
    fix: str
    overrides_table: bool = False

    def __str__(self) -> str:
        return f"{self.observation} {self.fix}"


@dataclass(frozen=True)
class Failure:
    """An error as diagnoses look at it: its `text`, and where it was raised here, the exceptions.

    `chain` has the first cause first; it is empty for a text that came from elsewhere. `platform` is as
    `runtime.describe` names it; `problem_id` is the id of the problem in the table, or "".
    """

    text: str
    platform: str
    chain: tuple[BaseException, ...] = ()
    problem_id: str = ""

    @property
    def restart_sentence(self) -> str:
        """How a session is restarted there, at the beginning of a sentence."""
        on_colab = self.platform.startswith("colab")
        return "Runtime > Restart session" if on_colab else "Restart the kernel"

    @property
    def restart_clause(self) -> str:
        """The same at the end of one."""
        return f"then {self.restart_sentence}".replace("Restart the", "restart the")


def frames(error: BaseException) -> Iterator[FrameType]:
    """Yield the frames of the traceback of `error`, the one that raised first."""
    yield from (frame for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))))


def module_of(frame: FrameType) -> str:
    """Return the name of the module whose code a `frame` runs; "" where that has none."""
    return str(frame.f_globals.get("__name__", ""))


def text_of(error: BaseException) -> str:
    """Return the text of an `error`, or "" where it cannot be made."""
    try:
        return str(error)
    except Exception:
        return ""
