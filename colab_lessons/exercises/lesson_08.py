"""The checks of lesson 08's exercises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from colab_lessons.exercises.judging import Wrong, choices, exercise, field, filled, number

_ROOM = 14e9  # bytes


@exercise(
    "08.multiplier",
    hint="Seconds to multiply, plus seconds to move. Which of the two gets shorter on the other chip?",
)
def multiplier(answer: Mapping[str, Any]) -> str:
    """Seconds of a step on two chips, as a sum of multiplying and moving bytes."""
    t4, faster = (number(field(answer, key)) for key in ("T4", "faster multiplier"))
    if abs(t4 - 0.25) < 0.01:
        raise Wrong("The T4 multiplies for 0.25 s. And the bytes?")
    if not abs(t4 - 0.5) <= 0.01:
        raise Wrong("On the T4: 10 TFLOP at 40 TFLOP/s, plus 60 GB at 240 GB/s.")
    if abs(faster - 0.05) < 0.01:
        raise Wrong("The other chip moves bytes no faster: only one of the two parts shrinks.")
    if not abs(faster - 0.275) <= 0.005:
        raise Wrong("On the other chip: 10 TFLOP at 400 TFLOP/s, plus the same 60 GB at 240 GB/s.")
    return "Ten times the multiplier, and not even twice as fast."


@exercise(
    "08.your_model",
    hint="Trace batch sizes 8 and 16. What does one example take? What is there without any?",
)
def your_model(answer: int, job: Callable) -> str:
    """The largest batch that fits into 14 GB: the answer is traced, and one larger by a tenth."""
    from colab_helpers import memory

    given = number(answer)
    if given != int(given) or given < 1:
        raise Wrong("A whole number of examples, please, and round down.")

    def peak(batch_size: int) -> int:
        network, loss, optimizer = job()
        return memory.footprint(network, loss, batch_size, optimizer).peak

    here, more = peak(int(given)), peak(int(1.1 * given) + 1)
    if here > _ROOM:
        raise Wrong(f"{given:,.0f} examples take {here / 1e9:.1f} GB: too many for 14 GB.")
    if more <= _ROOM:
        raise Wrong(f"{given:,.0f} examples take {here / 1e9:.1f} GB: a tenth more still fits.")
    return f"{given:,.0f} examples take {here / 1e9:.1f} of 14 GB."


@exercise("08.cheapest", hint="Units of a job: hours times units an hour. Which ones end in time?")
def cheapest(answer: Mapping[str, Any]) -> str:
    """The chip that burns fewest units and is in time, for three deadlines."""
    late = "it is not ready: it takes 10."
    choices(
        answer,
        {"12 hours": "L4", "8 hours": "L4", "3 hours": "A100"},
        {
            ("12 hours", "t4"): "its hour is the cheapest, but 10 of them burn 10.7 units.",
            ("12 hours", "a100"): "2 hours burn 10.6 units; another one fewer.",
            ("8 hours", "t4"): late,
            ("8 hours", "a100"): "2 hours burn 10.6 units; another one is in time with fewer.",
            ("3 hours", "t4"): "it takes 10.",
            ("3 hours", "l4"): "it takes 6.",
        },
    )
    return "The cheapest hour (T4) never wins here: the job is what you pay for."


def _loss(way: Callable, network: Any, rows: int) -> Any:
    import torch

    return way(network, torch.rand(rows, 64), torch.randint(10, (rows,)))


@exercise(
    "08.modest", hint="Replace the dots. What is kept for the backward pass, and must all of it be?"
)
def modest(answer: Callable, hungry: Callable) -> str:
    """Whether a loss is had with half of the memory beyond the weights: both ways are traced and run."""
    import torch
    from torch import nn

    from colab_helpers import memory

    torch.manual_seed(0)
    wide = [nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(6)]
    network = nn.Sequential(*wide, nn.Linear(64, 10))
    x, y = torch.rand(16, 64), torch.randint(10, (16,))
    filled(answer(network, x, y), "modest")
    found, needs = [], []
    for way in (hungry, answer):
        network.zero_grad()
        loss = way(network, x, y)
        loss.backward()
        found.append(
            torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None])
        )
        step = memory.footprint(
            network, partial(_loss, way, network), 1024, torch.optim.SGD(network.parameters())
        )
        needs.append(step.peak - step.parameters)
    if found[0].shape != found[1].shape or not torch.allclose(found[1], found[0], atol=1e-6):
        raise Wrong("The gradients differ from hungry's. The same loss of the same rows is wanted.")
    share = needs[1] / needs[0]
    if share > 0.5:
        raise Wrong(
            f"It needs {share:.0%} of what hungry does. The goal is half: store less, and recompute it."
        )
    return f"The same gradients, with {share:.0%} of the memory."
