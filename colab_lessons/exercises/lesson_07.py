"""The judges of lesson 07."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from colab_lessons.exercises import NotYet, choices, close, exercise, in_order, number

FORMATS = {
    "GTX 1080 (6.1)": "fp32",
    "V100 (7.0)": "fp16 with scaler",
    "RTX 3090 (8.6)": "bf16",
    "H100 (9.0)": "bf16",
}
_STEPS = ("backward", "unscale", "clip", "step", "update")


@exercise(
    "07.formats", hint="From which capability on is each format native? You listed some above."
)
def formats(answer: Mapping[str, str]) -> str:
    """The format to train in on four cards."""
    old, volta, ampere, hopper = FORMATS
    no_scaler = "It works; bf16 is as fast there and needs no scaler."
    choices(
        answer,
        FORMATS,
        {
            (old, "bf16"): "bf16 needs capability 8.0 to be native.",
            (old, "fp16 with scaler"): "It has no tensor cores: those begin with 7.0.",
            (volta, "bf16"): "It would be emulated there: native from 8.0 on.",
            (volta, "fp32"): "That works, and leaves its tensor cores idle.",
            (ampere, "fp16 with scaler"): no_scaler,
            (hopper, "fp16 with scaler"): no_scaler,
            (ampere, "fp32"): "Its tensor cores would be idle.",
            (hopper, "fp32"): "Its tensor cores would be idle.",
        },
    )
    return "Native first; of two native ones, the one that needs no scaler."


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
        ("unscale", "step", "The step unscales by itself then, and the clipping saw scaled ones."),
        ("step", "update", "The factor may only change when the step is done."),
    )
    in_order(answer, _STEPS, rules)
    return "Scaled through backward, true size from unscale on."


@exercise(
    "07.saved",
    hint="Which of the two numbers does autocast not touch?",
)
def saved(answer: float) -> str:
    """Per cent of 8 GB that halving 6.4 GB saves."""
    given = number(answer)
    if close(given, 40):
        return "Autocast halves what the batch takes, not what the weights take."
    if close(given, 0.4):
        raise NotYet("In per cent: times 100.")
    if close(given, 50):
        raise NotYet("Half of everything would be saved if weights and state were halved too.")
    if close(given, 60):
        raise NotYet("That is what remains. How much is gone?")
    if close(given, 3.2):
        raise NotYet("Those are GB. Of 8 GB that is …")
    raise NotYet("Saved GB over all GB, times 100.")


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
    if result is ...:
        raise NotYet("learns returns the dots. Replace them.")
    if not any("float16" in operation.gives for operation in seen):
        raise NotYet("That does not compute in fp16: keep the autocast.")
    after = loss_after(answer, 60)
    if not after < 2.25:
        raise NotYet(f"The loss is {after:.3f} after 60 steps; guessing has 2.303.")
    before = loss_after(stuck, 5)
    return f"The loss is {after:.2f} after 60 steps, in fp16. Stuck stays at {before:.3f}."
