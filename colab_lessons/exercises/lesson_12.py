"""The checks of lesson 12's exercises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from colab_lessons.exercises.judging import Wrong, close, exercise, field, filled, number

_WITH_16_BITS, _WITH_4_BITS = 16.2, 6.066  # GB


@exercise(
    "12.fits",
    hint="Divide bits per weight by 8 to get bytes per weight. Each scale is shared by 64 weights.",
)
def fits(answer: Mapping[str, Any]) -> str:
    """The GB of a model in 16 bits, and in 4 bits with its scales."""
    whole, packed = (number(field(answer, key)) for key in ("16 bits", "4 bits"))
    if not close(whole, _WITH_16_BITS):
        raise Wrong("16 bits are 2 bytes for each of the 8.1 billion weights; a GB has 10⁹ bytes.")
    if close(packed, 8.1e9 * 4.25 / 8 / 1e9, 0.001):
        raise Wrong("The embedding and the output layer stay in 16 bits: 1.2 billion weights.")
    if close(packed, 5.85, 0.001):
        raise Wrong("Add the scales: 16 bits per 64 weights of the linear layers.")
    if not close(packed, _WITH_4_BITS, 0.001):
        raise Wrong("The linear layers take 4 bits and 16/64 per weight, the rest takes 16 bits.")
    return "16.2 GB don't fit a T4, 6.1 do. Two fifths of that is what stayed in 16 bits."


@exercise(
    "12.chip",
    hint="At how many rows does the arithmetic take as long as reading 2 bytes per weight?",
)
def chip(answer: Mapping[str, Any]) -> str:
    """The rows up to which an L4 waits for 16-bit weights, and its tokens per second."""
    rows, tokens = (number(field(answer, key)) for key in ("rows", "tokens"))
    if close(rows, 200):
        raise Wrong("A multiplication and an addition are 2 FLOP, and a weight has 2 bytes.")
    if close(rows, 800):
        raise Wrong("16 bits are 2 bytes per weight, not 1 or 4.")
    if not close(rows, 403.3):
        raise Wrong("2 FLOP per row and weight, 2 bytes per weight: divide the two rates.")
    if not close(tokens, 37.5):
        raise Wrong("Each token reads the whole model once. How often do 8 GB fit into a second?")
    return "403 rows, because an L4 has more arithmetic per byte than a T4; 37.5 tokens per second."


@exercise("12.positive", hint="What is the largest code now, and which value should it stand for?")
def positive(answer: Callable) -> str:
    """Whether numbers from 0 up are rounded to 256 levels."""
    import torch

    x = torch.randn(4096, generator=torch.Generator().manual_seed(0)).relu()
    found = filled(answer(x.clone()), "rounded_positive")
    if not isinstance(found, torch.Tensor) or found.shape != x.shape:
        raise Wrong("It should return as many numbers as it got.")
    levels, worst, step = len(found.unique()), (found - x).abs().max().item(), x.max().item() / 255
    if levels > 256:
        raise Wrong(f"{levels:,} different numbers came out. Eight bits have 256 codes.")
    if not worst <= 2 * step:
        raise Wrong("Some numbers are far off. An int8 ends at 127, a uint8 at 255.")
    if not worst <= 0.55 * step:
        if levels <= 128:
            raise Wrong("Only 127 steps reach up to the top. Use 255.")
        raise Wrong("The error is a whole step. Round instead of truncating.")
    return f"{levels} different numbers, and an error of half a step."
