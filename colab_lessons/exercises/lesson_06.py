"""The checks of lesson 06's exercises."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from colab_lessons.exercises.judging import Wrong, close, exercise, field, filled, number


@exercise(
    "06.read_oom",
    hint="One number is what your tensors take. Another is held, and in nobody's use.",
)
def read_oom(answer: Mapping[str, Any]) -> str:
    """The live tensors of an out-of-memory message, and whether the model or the pieces are to blame."""
    alive, reason = number(field(answer, "GiB alive")), str(field(answer, "reason")).strip().lower()
    if close(alive, 4.10):
        raise Wrong("GiB alive: that is held and in no use. Your tensors are the other number.")
    if close(alive, 13.90):
        raise Wrong("GiB alive: that is all that PyTorch holds. How much of it is in use?")
    if close(alive, 14.56):
        raise Wrong("GiB alive: that is the card.")
    if not close(alive, 9.80, 1e-3):
        raise Wrong("GiB alive: look for what is allocated by PyTorch.")
    if reason == "model":
        raise Wrong("reason: 4.10 GiB is reserved but free, eight times what was requested.")
    if reason != "pieces":
        raise Wrong('reason: "model" or "pieces".')
    return "4.10 GiB are free, and no piece has 512 MiB. expandable_segments helps, or equal sizes."


@exercise(
    "06.leak",
    hint="Which line keeps something beyond the loop, and what hangs on it? Answer with Python code.",
)
def leak(answer: Mapping[str, Any]) -> str:
    """The line that keeps a graph alive, and a line that does not."""
    line, instead = number(field(answer, "line")), str(field(answer, "instead"))
    if line == 2:
        raise Wrong(
            "Line 2 builds the graph, and the next batch overwrites its name. Who keeps it?"
        )
    if line == 4:
        raise Wrong("A length holds nothing.")
    if line != 3:
        raise Wrong("Look for what outlives the loop.")
    if re.search(r"\bdel\b", instead):
        raise Wrong("Deleting the name does not help: the list holds the loss itself.")
    if "no_grad" in instead or "inference_mode" in instead:
        raise Wrong("That helps around the whole loop. And in line 3: what do you want to keep?")
    if re.search(r"\.(item|tolist|detach)\(\)|\.data\b|\bfloat\(", instead):
        if not re.search(r"append|extend|insert|\+=", instead):
            raise Wrong(
                "The number is right, but nothing stores it: the line must still append to the history."
            )
        return "A number has no graph. Around the loop, torch.no_grad() saves building it at all."
    raise Wrong("Put a number into the list, not a tensor with a graph.")


@exercise(
    "06.way_out",
    hint="Which ways fit? And which of those take a step from another batch than before?",
)
def way_out(answer: str) -> str:
    """The cheapest way that fits into 10 GB and leaves the training as it is."""
    given = str(answer).strip().lower()
    if given == "checkpoint":
        raise Wrong("That fits. Something cheaper fits, too.")
    if given == "half the batch":
        raise Wrong("Halving the batch changes the training.")
    if given == "chunked loss":
        raise Wrong("It takes 12.8 GB, and you have 10.")
    if given != "accumulate":
        raise Wrong("Give one of the four names in the table.")
    return "Two halves, one step. With BatchNorm it would be checkpointing, with care."


@exercise(
    "06.thrifty",
    hint="Replace the dots. Which bytes grow with the rows, and must all of them be alive at once?",
)
def thrifty(answer: Callable, spendthrift: Callable) -> str:
    """Whether a function leaves the same gradients with 60% of the peak: both are watched here."""
    import torch

    from colab_helpers import memory

    torch.manual_seed(0)
    parts = [part for _ in range(6) for part in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
    network = torch.nn.Sequential(*parts, torch.nn.Linear(64, 10))
    x, y = torch.rand(1024, 64), torch.randint(10, (1024,))
    filled(answer(network, x[:2], y[:2]), "thrifty")
    found = []
    for way in (spendthrift, answer):
        network.zero_grad()
        with memory.track("cpu", known=network) as tracker:
            way(network, x, y)
        gradients = [p.grad.flatten() for p in network.parameters() if p.grad is not None]
        if len(gradients) < len(list(network.parameters())):
            raise Wrong("Some parameters have no gradient afterwards: call backward().")
        found.append((tracker.peak, torch.cat(gradients)))
    (before, wanted), (after, given) = found
    if not torch.allclose(given, wanted, rtol=1e-3, atol=1e-6):
        raise Wrong("The gradients differ. Do the parts' losses add up to the mean over all rows?")
    if after > 0.6 * before:
        raise Wrong(
            f"The peak is {after / before:.0%} of the first; 60% are wanted. Smaller parts."
        )
    return f"The same gradients, with {after / before:.0%} of the peak."
