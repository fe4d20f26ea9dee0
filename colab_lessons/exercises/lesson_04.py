"""The judges of lesson 04."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

from colab_lessons.exercises import NotYet, close, exercise, half_the_time, in_order, number

_STEPS = ("decode", "cache", "shuffle", "batch", "prefetch")


@exercise(
    "04.wrong_device",
    hint="Look for work on the CPU whose input comes from the GPU and whose output goes back there.",
)
def wrong_device(answer: float) -> str:
    """The line of a placement log that makes data cross twice in each step."""
    line = number(answer)
    if line == 4:
        return "Its input leaves the GPU and its output goes back: two journeys in each step."
    if line == 3:
        raise NotYet(
            "Turning text into numbers is the CPU's work, and nothing comes from the GPU for it."
        )
    if line in (1, 2, 5):
        raise NotYet(f"Line {line:.0f} is on the GPU, where it belongs. Who makes it wait?")
    raise NotYet("Give the number of a line, 1 to 5.")


@exercise(
    "04.pipeline",
    hint='Ask of each step: what must it see? A list such as ["decode", …, "prefetch"].',
)
def pipeline(answer: Sequence[str]) -> str:
    """The order of decode, cache, shuffle, batch and prefetch."""
    rules = (
        ("decode", "cache", "What is cached before decoding is decoded again in each epoch."),
        (
            "cache",
            "shuffle",
            "A shuffle before the cache is cached with it: every epoch has one order.",
        ),
        (
            "shuffle",
            "batch",
            "A shuffle after batch moves whole batches; the images in one stay together.",
        ),
        ("batch", "prefetch", "Prefetch stands last, so that whole batches are ready for a step."),
    )
    in_order(answer, _STEPS, rules)
    return "Decode once, keep it, mix single images, batch, and be ready ahead of time."


@exercise(
    "04.fusion",
    hint="Count reads and writes of the whole array for sin, cos, times and plus; divide by 2.",
)
def fusion(answer: float) -> str:
    """Bytes of four operations on their own, over those of one fused pass."""
    given = number(answer)
    if close(given, 5):
        return "Ten passes become two. Fusing pays where memory is the limit."
    if close(given, 4):
        raise NotYet("Four is the number of operations. Count what each reads and writes.")
    if close(given, 10):
        raise NotYet("Ten is the number of passes without fusing. Fused, two are left.")
    if close(given, 3):
        raise NotYet("Did you forget that `*` and `+` read two arrays each?")
    if close(given, 0.2):
        raise NotYet("That is fused over eager. Turn it round.")
    raise NotYet("sin and cos: 2 passes each; * and +: 3 each. Fused: 2 in all.")


@exercise(
    "04.quick_batches",
    hint="Replace the dots. What can run in parallel, and what need not be done twice?",
)
def quick_batches(answer: Callable, slow_batches: Callable) -> str:
    """Whether a pipeline gives the same batches in half the time: both are run and timed here."""
    import numpy as np

    expected, given = slow_batches(), answer()
    if given is ...:
        raise NotYet("quick_batches returns the dots. Replace them.")
    pairs = itertools.zip_longest(expected, given)
    for number_of_batch, (right, mine) in enumerate(pairs, 1):
        if right is None or mine is None:
            raise NotYet("The number of batches differs.")
        same = (
            np.shape(a) == np.shape(b) and np.allclose(a, b, atol=1e-3)
            for a, b in zip(right, mine, strict=True)
        )
        if not all(same):
            raise NotYet(
                f"Batch {number_of_batch} differs: the same images are wanted, in the same order."
            )
    advice = "a parallel map, a cache, or a map behind batch, which enlarges 64 images in one call."
    gain = half_the_time(lambda: _drain(expected), lambda: _drain(given), advice)
    return f"{gain}, for the same batches."


def _drain(batches: Iterable) -> None:
    for _ in batches:
        pass
