"""The checks of lesson 15's exercises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from colab_lessons import data
from colab_lessons.exercises.judging import Wrong, close, exercise, field, filled, number

_ADAPTER = 16 * (4096 + 12288)
_LAYER = 4096 * 12288
_EQUALS, _PLUS, _MINUS, _END = 11, 10, 12, 13  # token ids


@exercise("15.adapter", hint="One matrix goes from 4,096 to 16, the other from 16 to 12,288.")
def adapter(answer: Mapping[str, Any]) -> str:
    """The weights of an adapter, and its share of the layer."""
    weights, percent = (number(field(answer, key)) for key in ("weights", "percent"))
    if close(weights, _LAYER):
        raise Wrong("That's the layer. The adapter goes through 16 numbers in the middle.")
    if close(weights, 16 * 4096) or close(weights, 16 * 12288):
        raise Wrong("That's one of the two matrices.")
    if not close(weights, _ADAPTER, 1e-6):
        raise Wrong("Add the weights of both matrices, 4,096 × 16 and 16 × 12,288.")
    if close(percent, _ADAPTER / _LAYER):
        raise Wrong("That's a fraction. Multiply it by 100.")
    if not close(percent, 100 * _ADAPTER / _LAYER, 0.05):
        raise Wrong("Divide by the layer's own 4,096 × 12,288 weights.")
    return "262,144 weights are half a percent of 50 million."


@exercise("15.merge", hint="Both products are linear: lora_B(lora_A(x)) is x times one matrix.")
def merge(answer: Callable, adapter: Callable) -> str:
    """Whether a linear layer gives what the adapted one gives. `adapter` is the lesson's LoRA."""
    import torch
    from torch import nn

    generator = torch.Generator().manual_seed(0)
    for bias, plugged in ((False, 2.0), (False, 0.5), (True, 2.0)):
        layer = adapter(nn.Linear(64, 128, bias=bias), 8, 4)
        layer.plugged = plugged
        layer.lora_B.weight.data = torch.randn(layer.lora_B.weight.shape, generator=generator)
        found = filled(answer(layer), "merged")
        if not isinstance(found, nn.Linear):
            raise Wrong("It should return an nn.Linear.")
        if found.weight.shape != (128, 64):
            raise Wrong(f"Its weight is {tuple(found.weight.shape)}; the layer's is (128, 64).")
        x = torch.randn(16, 64, generator=generator)
        with torch.no_grad():
            wanted = layer(x)
            layer.plugged = 0.0
            frozen, layer.plugged = layer(x), 1.0
            once = layer(x)
            got = found(x)
        if _near(got, wanted):
            continue
        if _near(got, frozen):
            raise Wrong(
                "That's the frozen layer alone. Add the adapter: lora_B.weight @ lora_A.weight."
            )
        if _near(got, once):
            raise Wrong("The adapter is there. It has to be multiplied by layer.plugged.")
        if bias and (found.bias is None or _near(got + layer.bias, wanted)):
            raise Wrong("The adapter is in. One of the layers has a bias.")
        if found.bias is not None and not bias:
            raise Wrong("This layer has no bias, and a new nn.Linear has one: bias=False.")
        raise Wrong("It gives other numbers. unpack(layer.packed, layer.scale, layer.shape) first.")
    return "One product instead of three, and the same numbers. It can't be unplugged any more."


@exercise("15.mixture", hint="What does an adapter learn that never sees an addition?")
def mixture(answer: Any) -> str:
    """Whether rows of both kinds, complete and right, are there."""
    import torch

    if answer is ...:
        raise Wrong("mixture is the dots. Replace them.")
    if not isinstance(answer, torch.Tensor) or answer.ndim != 2:
        raise Wrong("One tensor of rows is needed, such as torch.cat([...]).")
    if answer.shape[1] == 9:
        raise Wrong("These rows have no END. F.pad puts one at the end of each.")
    if answer.shape[1] != 10 or not (answer[:, 9] == _END).all():
        raise Wrong("Each row has ten tokens, and the last one is END.")
    if answer.is_floating_point():
        raise Wrong("Tokens are whole numbers, and this tensor isn't.")
    if len(answer) > 10_000:
        raise Wrong(f"{len(answer):,} rows; at most 10,000 are asked for.")
    signs, share = answer[:, 2], (answer[:, 2] == _PLUS).double().mean().item()
    if not ((signs == _PLUS) | (signs == _MINUS)).all() or not (answer[:, 5] == _EQUALS).all():
        raise Wrong("Some rows are neither an addition nor a subtraction.")
    if share == 0:
        raise Wrong("There are no additions. What the adapter doesn't see, it forgets.")
    if share == 1:
        raise Wrong("There are no subtractions, so it won't learn them.")
    wrong = answer[(_results(answer) != answer[:, 6:9]).any(1)]
    if len(wrong):
        raise Wrong(f"{data.spell(wrong[0].cpu().numpy())} is wrong. Take the lesson's own rows.")
    if len(answer.unique(dim=0)) < 1_000:
        raise Wrong("There are too few distinct rows. Use a thousand or more.")
    if not 0.14 <= share <= 0.86:
        raise Wrong(f"{share:.0%} of the rows are additions. Take more of what's rare.")
    return f"{share:.0%} additions. Now the cell below trains an adapter with them."


def _results(rows: Any) -> Any:
    """The three figures, last one first, that each row should have."""
    import torch

    left, right = (10 * rows[:, k] + rows[:, k + 1] for k in (0, 3))
    found = torch.where(rows[:, 2] == _PLUS, left + right, left - right)
    return torch.stack([found % 10, found // 10 % 10, found // 100], dim=1)


def _near(found: Any, wanted: Any) -> bool:
    return bool((found - wanted).norm() <= 1e-3 * wanted.norm())
