"""The judges of lesson 05."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

from colab_lessons.exercises import (
    NotYet,
    close,
    exercise,
    field,
    items,
    number,
    shown,
    told_of,
)

#: Functions of JAX that tell how many devices there are.
_COUNTS = {"devices", "device_count", "local_device_count"}


@exercise(
    "05.global_batch",
    hint="Replicas times rows each; and the learning rate grows like the batch.",
)
def global_batch(answer: Mapping[str, float]) -> str:
    """Global batch of 4 × 96 rows, and 0.1 scaled from a batch of 128."""
    batch, rate = (number(field(answer, name)) for name in ("global batch", "learning rate"))
    if close(batch, 96):
        raise NotYet("global batch: 96 is what one replica sees. There are four.")
    if close(batch, 24):
        raise NotYet("global batch: you divided. Each replica brings 96 rows of its own.")
    if not close(batch, 384):
        raise NotYet("global batch: replicas × rows each.")
    if close(rate, 0.4):
        raise NotYet("learning rate: times the replicas only fits if one replica had 128 rows.")
    if close(rate, 0.1):
        raise NotYet("learning rate: unchanged. The batch is three times the one it was tuned for.")
    if not close(rate, 0.3):
        raise NotYet("learning rate: 0.1 × new batch / old batch.")
    return "Three times the batch, three times the step: check that the loss still falls."


@exercise(
    "05.shard",
    hint="Rows are dealt out over 4 devices, columns over 2. Index 0 has the first rows.",
)
def shard(answer: Mapping[str, tuple[int, int]]) -> str:
    """The part of a 12 × 8 matrix on each of 4 × 2 devices, and the rows of the third row."""
    given = dict(answer)
    left = [name for name in ("shape", "rows") if given.get(name, ...) is ...]
    if left:
        raise NotYet(f"Still without an answer: {', '.join(left)}.")
    shape, rows = tuple(items(given["shape"])), tuple(items(given["rows"]))
    if shape == (12, 8):
        raise NotYet("shape: that is the whole matrix. P() would put it on each device.")
    if shape == (6, 2):
        raise NotYet("shape: the axes are swapped. Four devices share out the rows.")
    if shape != (3, 4):
        raise NotYet("shape: divide each side of the matrix by the devices along its axis.")
    if rows == (9, 12):
        raise NotYet("rows: that is the fourth row of devices. Counting begins with 0.")
    if rows == (6, 8):
        raise NotYet("rows: give the row behind the last one, as a slice does.")
    if rows != (6, 9):
        raise NotYet("rows: index 2 begins behind two shards of 3 rows.")
    return "Eight devices, twelve numbers each."


@exercise(
    "05.repair",
    hint="Nothing to connect to, nothing to initialise. Ask, and do not write a number down.",
)
def repair(answer: Callable[[], int]) -> str:
    """A function that returns how many devices JAX sees."""
    if not callable(answer):
        raise NotYet("A function is wanted here: def number_of_devices().")
    names = set(answer.__code__.co_names)
    if names & {"TPUClusterResolver", "experimental_connect_to_cluster", "environ"}:
        raise NotYet(
            "That is still the old way: there is no address to look up, the chip is local."
        )
    try:
        count = answer()
    except (ModuleNotFoundError, NameError) as error:
        if find_spec("jax") is None and names & _COUNTS:
            return "Right as far as one can see: JAX is not installed here, so it did not run."
        raise NotYet(f"It does not run: {told_of(error)}.") from None
    except Exception as error:  # the learner's own code: whatever it raises is told
        raise NotYet(f"It does not run: {told_of(error)}.") from None
    return _judge_count(count, names)


def _judge_count(count: Any, names: set[str]) -> str:
    jax = sys.modules.get("jax")
    if isinstance(count, list):
        raise NotYet("That is the list of devices. How many are in it?")
    if jax is None or not names & _COUNTS:
        raise NotYet("That number is written down, not asked for. It is wrong on the next machine.")
    if count != len(jax.devices()):
        raise NotYet(f"You return {shown(count)}, and JAX sees {len(jax.devices())}.")
    return f"{count} here, and right on any machine."


@exercise(
    "05.buckets",
    hint="Round up: to what? A multiple of something keeps the padding small, and the number of lengths too.",
)
def buckets(answer: Callable[[int], int]) -> str:
    """A function that pads lengths from 1 to 1,024: its results and its padding are counted."""
    if not callable(answer):
        raise NotYet("A function is wanted here: def padded(length).")
    if answer(1) is ...:
        raise NotYet("padded returns the dots. Replace them.")
    lengths = range(1, 1025)
    results = [number(answer(length)) for length in lengths]
    short = [length for length, result in zip(lengths, results, strict=True) if result < length]
    if short:
        raise NotYet(f"padded({short[0]}) is {results[short[0] - 1]:g}: the sentence does not fit.")
    programs, more = len(set(results)), sum(results) / sum(lengths) - 1
    if programs > 8:
        raise NotYet(
            f"That makes {programs:,} lengths, and as many compilations. Eight are allowed."
        )
    if more > 0.25:
        raise NotYet(
            f"That adds {more:.0%} of padding. Powers of two are too coarse for long sentences."
        )
    return f"{programs} programs, and {more:.0%} more words."
