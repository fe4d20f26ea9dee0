"""The checks of lesson 07's exercises."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from colab_lessons.exercises.judging import Wrong, choices, exercise, filled, in_order, shown

CURES = {"3e-3": "no scaler", "1e-9": "scaler", "1e-14": "bf16"}
_STEPS = ("backward", "unscale", "clip", "step", "update")


@exercise("07.scaler", hint="Compare each with 6e-8, and 65,536 times each with 6e-8.")
def scaler(answer: Mapping[str, str]) -> str:
    """The cure for gradients of three sizes in fp16."""
    large, small, tiny = CURES
    choices(
        answer,
        CURES,
        {
            (
                large,
                "scaler",
            ): "fp16 holds 0.003 as it is. A scaler does no harm, and isn't needed.",
            (large, "bf16"): "fp16 holds 0.003 as it is.",
            (small, "no scaler"): "1e-9 is below 6e-8, so fp16 makes a 0 of it.",
            (small, "bf16"): "65,536 times 1e-9 is 6.6e-5, which fp16 holds.",
            (tiny, "scaler"): "65,536 times 1e-14 is 6.6e-10, still below 6e-8.",
            (tiny, "no scaler"): "1e-14 is far below 6e-8.",
        },
    )
    return "The scaler begins sixteen powers of two away, and 1e-14 needs more."


@exercise("07.rescue", hint="Ask of each line: does it want the gradient scaled, or its true size?")
def rescue(answer: Sequence[str]) -> str:
    """The order of backward, unscale, clip, step and update."""
    rules = (
        ("backward", "unscale", "There is nothing to unscale before backward has made gradients."),
        (
            "unscale",
            "clip",
            "Clipping sees gradients 65,536 times too long: almost nothing is left.",
        ),
        ("backward", "clip", "There is nothing to clip before backward."),
        ("clip", "step", "The step is taken already when you clip."),
        (
            "unscale",
            "step",
            "Without it, the step unscales by itself, after you clipped scaled gradients.",
        ),
        ("step", "update", "The factor may only change when the step is done."),
    )
    in_order(answer, _STEPS, rules)
    return "Scaled through backward, true size from unscale on."


def _spoiled(place: int) -> Any:
    """A network of eight layers, of which the one at `place` is spoiled."""
    import torch

    torch.manual_seed(place)
    layers = [torch.nn.Linear(16, 16) for _ in range(8)]
    layers[place].weight.data[3] = float("inf")
    return torch.nn.Sequential(*layers)


@exercise(
    "07.culprit",
    hint="Register a forward hook on each named module, run the network, and return the first that fired.",
)
def culprit(answer: Callable) -> str:
    """Whether a function names the first module whose output isn't finite: it is tried on three networks."""
    import torch

    if not callable(answer):
        raise Wrong("A function is wanted here: def first_not_finite(network, x).")
    x = torch.rand(4, 16)
    filled(answer(_spoiled(5), x), "first_not_finite")
    for place in (5, 2, 7):
        name = str(answer(_spoiled(place), x))
        if name != str(place) and name.isdigit() and int(name) > place:
            raise Wrong(f"{name} is behind the culprit. Which one was the first?")
        if name != str(place):
            raise Wrong(f"It says {shown(name)} where layer {place} is broken.")
    return "Found in three networks out of three."


@exercise(
    "07.learns",
    hint="Replace the dots. The gradients are too small for fp16: what lifts them, and puts them back?",
)
def learns(answer: Callable, stuck: Callable) -> str:
    """Whether a training in fp16 learns where another one does not: a deep network is trained with both."""
    import torch

    from colab_helpers import precision
    from colab_lessons import data

    split = data.digits()
    x, y = torch.tensor(split.x_train[:512]), torch.tensor(split.y_train[:512])

    def trained(way: Callable, steps: int) -> tuple:
        torch.manual_seed(0)
        hidden = [part for _ in range(15) for part in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
        network = torch.nn.Sequential(*hidden, torch.nn.Linear(64, 10))
        return network, way(network, torch.optim.Adam(network.parameters()), x, y, steps)

    def loss_after(way: Callable, steps: int) -> float:
        network, _ = trained(way, steps)
        with torch.no_grad():
            return float(torch.nn.functional.cross_entropy(network(x), y))

    with precision.record_operations() as seen:
        _, result = trained(answer, 1)
    filled(result, "learns")
    if not any("float16" in operation.output_dtypes for operation in seen):
        raise Wrong("That does not compute in fp16: keep the autocast.")
    after = loss_after(answer, 60)
    if not after < 2.25:
        raise Wrong(f"The loss is {after:.3f} after 60 steps; guessing has 2.303.")
    before = loss_after(stuck, 5)
    return f"The loss is {after:.2f} after 60 steps, in fp16. Stuck stays at {before:.3f}."
