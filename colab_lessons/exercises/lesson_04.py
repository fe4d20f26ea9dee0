"""The checks of lesson 04's exercises."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

from colab_lessons.exercises.judging import (
    Wrong,
    close,
    exercise,
    field,
    filled,
    in_order,
    number,
    require_speedup,
)

_STEPS = ("decode", "cache", "shuffle", "batch", "prefetch")


@exercise(
    "04.waits",
    hint="How long does one image take with the feed, and how long without? The rest is waiting.",
)
def waits(answer: float) -> str:
    """The share of the time that 900 images a second wait, where 6,000 are possible."""
    given = number(answer)
    if close(given, 85):
        return "85%. So even an infinitely fast GPU would speed this up by at most 1.18×."
    if close(given, 0.85):
        raise Wrong("That is the fraction. Give a percentage.")
    if close(given, 15):
        raise Wrong("That is the share of training. What is left of the time?")
    if close(given, 100 * 5100 / 900):
        raise Wrong("Compare times, not speeds: seconds for each image.")
    raise Wrong("An image takes 1/900 s with the feed and 1/6000 s without it.")


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
    "04.global_batch", hint="Replicas times rows each; and the learning rate grows like the batch."
)
def global_batch(answer: Mapping[str, float]) -> str:
    """Global batch of 4 × 96 rows, and 0.1 scaled from a batch of 128."""
    batch, rate = (number(field(answer, name)) for name in ("global batch", "learning rate"))
    if close(batch, 96):
        raise Wrong("global batch: 96 is what one replica sees. There are four.")
    if close(batch, 24):
        raise Wrong("global batch: you divided. Each replica brings 96 rows of its own.")
    if not close(batch, 384):
        raise Wrong("global batch: replicas × rows each.")
    if close(rate, 0.4):
        raise Wrong("learning rate: times the replicas only fits if one replica had 128 rows.")
    if close(rate, 0.1):
        raise Wrong("learning rate: unchanged. The batch is three times the one it was tuned for.")
    if not close(rate, 0.3):
        raise Wrong("learning rate: 0.1 × new batch / old batch.")
    return "Three times the batch, three times the step: check that the loss still falls."


@exercise(
    "04.quick_batches",
    hint="Replace the dots. What can run in parallel, and what need not be done twice?",
)
def quick_batches(answer: Callable, slow_batches: Callable) -> str:
    """Whether a pipeline gives the same batches in half the time: both are run and timed here."""
    import numpy as np

    expected, given = slow_batches(), answer()
    filled(given, "quick_batches")
    if iter(given) is given:
        raise Wrong(
            "That can be iterated only once. Return a Dataset, which starts over each time."
        )
    pairs = itertools.zip_longest(expected, given)
    for number_of_batch, (right, mine) in enumerate(pairs, 1):
        if right is None or mine is None:
            raise Wrong("The number of batches differs.")
        same = (
            np.shape(a) == np.shape(b) and np.allclose(a, b, atol=1e-3)
            for a, b in zip(right, mine, strict=True)
        )
        if not all(same):
            raise Wrong(
                f"Batch {number_of_batch} differs: the same images are wanted, in the same order."
            )
    advice = "a parallel map, or a cache."
    gain = require_speedup(lambda: _drain(expected), lambda: _drain(given), advice)
    return f"{gain}, for the same batches."


def _drain(batches: Iterable) -> None:
    for _ in batches:
        pass
