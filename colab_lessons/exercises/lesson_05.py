"""The checks of lesson 05's exercises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from colab_lessons.exercises.judging import (
    Wrong,
    close,
    exercise,
    field,
    filled,
    number,
    right_lines,
)


@exercise(
    "05.all_reduce",
    hint="The brackets hold shapes. How many numbers are in each, and how many bytes has one?",
)
def all_reduce(answer: float) -> str:
    """The bytes that an all-reduce of three arrays leaves on each chip."""
    given, whole = number(answer), 4 * 64 * 256 + 4 * 256 * 10 + 2 * 1000
    if close(given, whole, 1e-6):
        return "78 kB on each chip, and nearly twice that sent."
    if close(given, 64 * 256 + 256 * 10 + 1000, 1e-6):
        raise Wrong("Those are the numbers. How many bytes has each?")
    if close(given, whole + 2000, 1e-6):
        raise Wrong("The third array is bf16. How many bytes has one of its numbers?")
    if close(given, 8 * whole, 1e-6):
        raise Wrong("That is what all eight hold together. One of them is wanted.")
    if close(given, whole / 8, 1e-6):
        raise Wrong("An all-reduce gives each chip the whole sum, not a part of it.")
    raise Wrong("Three arrays: 64 × 256 and 256 × 10 of f32, 1000 of bf16.")


@exercise("05.mesh", hint="What does a chip hold if the weights lie on 1, 2, 4 or 8 of them?")
def mesh(answer: Mapping[str, float]) -> str:
    """The longest `data` axis of eight 16 GiB chips that holds 48 GiB of weights and 3 GiB of activations."""
    data, model = (number(field(answer, name)) for name in ("data", "model"))
    if data * model != 8 or data % 1 or model % 1:
        raise Wrong(f"{data:g} × {model:g} is not 8. Each chip has one place in the mesh.")
    if model < 4:
        raise Wrong(f"With model = {model:g} a chip holds {48 / model + 3:g} GiB. It has 16.")
    if model == 8:
        raise Wrong("That fits, with 9 GiB. `data` can be longer.")
    return "48 / 4 + 3 = 15 GiB on each chip, and two groups share the batch."


_WHY_NOT_COMPILED = {
    2: "line 2 has the shape and the dtype of line 1. Values don't matter.",
    5: "line 5 has the shape and the dtype of line 1. Values don't matter.",
    6: "line 6 has the shape of line 3, and its program is kept.",
}
_WHY_COMPILED = {1: "the first call.", 3: "a new shape.", 4: "a new dtype."}


@exercise("05.compiles", hint="A program fits one combination of shapes and dtypes, and it's kept.")
def compiles(answer: Any) -> str:
    """The calls of a jitted function that compile."""
    right_lines(answer, _WHY_COMPILED, _WHY_NOT_COMPILED)
    return "Three programs for six calls."


@exercise(
    "05.buckets",
    hint="Round up: to what? A multiple of something keeps the padding small, and the number of lengths too.",
)
def buckets(answer: Callable[[int], int]) -> str:
    """A function that pads lengths from 1 to 1,024: its results and its padding are counted."""
    if not callable(answer):
        raise Wrong("A function is wanted here: def padded(length).")
    filled(answer(1), "padded")
    lengths = range(1, 1025)
    results = [number(answer(length)) for length in lengths]
    short = [length for length, result in zip(lengths, results, strict=True) if result < length]
    if short:
        raise Wrong(f"padded({short[0]}) is {results[short[0] - 1]:g}: the sentence does not fit.")
    programs, more = len(set(results)), sum(results) / sum(lengths) - 1
    if programs > 8:
        raise Wrong(
            f"That makes {programs:,} lengths, and as many compilations. Eight are allowed."
        )
    if more > 0.25:
        raise Wrong(
            f"That adds {more:.0%} of padding. Powers of two are too coarse for long sentences."
        )
    return f"{programs} programs, and {more:.0%} more words."
