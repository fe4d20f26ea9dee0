"""The judges of lesson 12."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from colab_lessons.exercises import NotYet, close, exercise, field, number

_WITH_16_BITS, _WITH_4_BITS = 16.0, 4.25  # GB


@exercise("12.fits", hint="Bits for each weight, divided by 8, are bytes. A scale is shared by 64.")
def fits(answer: Mapping[str, Any]) -> str:
    """The GB of a model in 16 bits, and in 4 bits with its scales."""
    whole, packed = (number(field(answer, key)) for key in ("16 bits", "4 bits"))
    if not close(whole, _WITH_16_BITS):
        raise NotYet("16 bits are 2 bytes for each of the 8 billion weights.")
    if close(packed, 4, 0.001):
        raise NotYet("Those are the weights. Add the scales: 16 bits for each 64 weights.")
    if close(packed, 4.5, 0.001):
        raise NotYet("Those scales have 32 bits. Here they have 16.")
    if not close(packed, _WITH_4_BITS, 0.001):
        raise NotYet("4 bits for each weight, and 16 bits for each 64: how many bits, all in all?")
    return "16 GB don't fit a T4, 4.25 do. The scales are a sixteenth of it."


@exercise("12.column", hint="Turn the matrix round before you quantise it, and back after.")
def column(answer: Callable) -> str:
    """Whether each column has a scale of its own: one of them is far larger than the rest."""
    import torch

    w = torch.randn(48, 32, generator=torch.Generator().manual_seed(0))
    w[:, 5] *= 1000
    found = answer(w.clone(), 8)
    if found is ...:
        raise NotYet("rounded_by_column returns the dots. Replace them.")
    if not isinstance(found, torch.Tensor) or found.shape != w.shape:
        raise NotYet("It should return a matrix of the same shape.")
    off = ((found - w).norm(dim=0) / w.norm(dim=0)).sort().values
    if off.max().item() == 0:
        raise NotYet("Nothing was rounded.")
    if not off[-2].item() <= 0.5:
        raise NotYet("The large column has spoiled the others. Do they share a scale with it?")
    if not off[-1].item() <= 0.02:
        raise NotYet("The error is more than 8 bits need. Are there 127 steps up to the largest?")
    return f"The worst column is {off[-1].item():.1%} off, next to one that's 1,000 times larger."


@exercise("12.positive", hint="The scale is the largest number divided by 255.")
def positive(answer: Callable) -> str:
    """Whether numbers from 0 up are rounded to 256 levels."""
    import torch

    x = torch.randn(4096, generator=torch.Generator().manual_seed(0)).relu()
    found = answer(x.clone())
    if found is ...:
        raise NotYet("rounded_positive returns the dots. Replace them.")
    if not isinstance(found, torch.Tensor) or found.shape != x.shape:
        raise NotYet("It should return as many numbers as it got.")
    levels, worst, step = len(found.unique()), (found - x).abs().max().item(), x.max().item() / 255
    if levels > 256:
        raise NotYet(f"{levels:,} different numbers came out. Eight bits have 256 codes.")
    if not worst <= 0.55 * step:
        if levels <= 128:
            raise NotYet("Only 127 steps reach up to the top. Use 255.")
        raise NotYet("The error is a whole step. Round instead of cutting off.")
    return f"{levels} different numbers, and an error of half a step."


@exercise("12.mine", hint="rounded(mine, 4, mine.numel()) and rounded(mine, 4, 64), minus mine.")
def mine(answer: float, weight: Any) -> str:
    """How much smaller groups make the error of the learner's layer."""
    found = number(answer)
    if weight.numel() % 64:
        raise NotYet("Take a layer whose number of weights divides by 64.")
    whole, groups = (_error(weight.detach().float(), size) for size in (weight.numel(), 64))
    if not groups > 0:
        raise NotYet("This layer loses nothing in 4 bits. Take one that was trained.")
    if close(found, groups / whole, 0.02):
        raise NotYet("Turn it over: the larger error divided by the smaller one.")
    if close(found, (whole / groups) ** 2, 0.02) and not close(whole, groups, 0.02):
        raise NotYet("That's the factor of the squared error. Take the norm.")
    if not close(found, whole / groups, 0.02):
        raise NotYet("Compare the norm of what rounding changed: one scale, and groups of 64.")
    return f"Groups of 64 make the error of your layer {whole / groups:.1f} times smaller."


def _error(weight: Any, size: int) -> float:
    """Norm of what 4 bits change, with so many weights to a scale."""
    blocks = weight.reshape(-1, size)
    scale = (blocks.abs().amax(1, keepdim=True) / 7).clamp_min(1e-30)
    return ((blocks / scale).round() * scale - blocks).norm().item()
