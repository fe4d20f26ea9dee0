"""The judges of lesson 06."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from colab_lessons.exercises import NotYet, close, exercise, field, number

_WEIGHTS = 124_439_808


@exercise(
    "06.adam_bytes",
    hint="What is kept for each parameter besides itself, and how many bytes is each number?",
)
def adam_bytes(answer: float) -> str:
    """GiB of parameters, gradients and Adam's state of GPT-2 small in float32."""
    given = number(answer)
    if close(given, 16 * _WEIGHTS / 2**30):
        return "Four times its parameters, before a single row has come in."
    if close(given, 16 * _WEIGHTS / 1e9):
        raise NotYet("Those are GB (10**9). GiB divide by 2**30.")
    for factor, why in {
        4: "Those are the parameters alone.",
        8: "Parameters and gradients: Adam's state is missing, two numbers for each.",
        12: "One of the four is missing: parameters, gradients, and two numbers of state.",
        64: "Bytes, not bits: a float32 has 4.",
        128: "Bytes, not bits: a float32 has 4.",
        32: "That counts 8 bytes for each number: a float32 has 4.",
    }.items():
        if close(given, factor * _WEIGHTS / 2**30):
            raise NotYet(why)
    if close(given, 16 * _WEIGHTS):
        raise NotYet("Those are bytes. Divide by 2**30.")
    raise NotYet("Count the numbers kept for each parameter, times 4 bytes, times the parameters.")


@exercise(
    "06.leak",
    hint="Which line keeps something beyond the loop, and what hangs on it? Answer with Python code.",
)
def leak(answer: Mapping[str, Any]) -> str:
    """The line that keeps a graph alive, and a line that does not."""
    line, instead = number(field(answer, "line")), str(field(answer, "instead"))
    if line == 2:
        raise NotYet(
            "Line 2 builds the graph, and the next batch overwrites its name. Who keeps it?"
        )
    if line == 4:
        raise NotYet("A length holds nothing.")
    if line != 3:
        raise NotYet("Look for what outlives the loop.")
    if re.search(r"\bdel\b", instead):
        raise NotYet("Deleting the name does not help: the list holds the loss itself.")
    if "no_grad" in instead or "inference_mode" in instead:
        raise NotYet("That helps around the whole loop. And in line 3: what do you want to keep?")
    if re.search(r"\.(item|tolist|detach)\(\)|\.data\b|\bfloat\(", instead):
        if not re.search(r"append|extend|insert|\+=", instead):
            raise NotYet(
                "Right number, and nothing keeps it: the line shall still fill the history."
            )
        return "A number has no graph. Around the loop, torch.no_grad() saves building it at all."
    raise NotYet("Put a number into the list, not a tensor with a graph.")


@exercise(
    "06.fit",
    hint="What is there before any row comes? And which way do you round?",
)
def fit(answer: Mapping[str, Any]) -> str:
    """Rows that fit in 14.5 GiB, and the parts of a batch of 256."""
    rows, parts = (number(field(answer, name)) for name in ("rows", "parts"))
    if rows == 131:
        raise NotYet("rows: you forgot the 3.0 GiB that are there without any row.")
    if rows == 105 or 104 < rows < 105:
        raise NotYet("rows: round down. The last row would not fit whole.")
    if rows != 104:
        raise NotYet("rows: (14.5 - 3.0) / 0.11, in whole rows.")
    if parts == 2:
        raise NotYet("parts: two parts have 128 rows each, and 104 fit.")
    if 2 < parts < 3:
        raise NotYet("parts: there are no parts of parts. Round up.")
    if parts != 3:
        raise NotYet("parts: as few as possible, with at most 104 rows each.")
    return "Three parts, weighed by their rows, one step."


@exercise(
    "06.thrifty",
    hint="Replace the dots. Which bytes grow with the rows, and must all of them be alive at once?",
)
def thrifty(answer: Callable, spendthrift: Callable) -> str:
    """Whether a function leaves the same gradients with 60 % of the peak: both are watched here."""
    import torch

    from colab_helpers import memory

    torch.manual_seed(0)
    parts = [part for _ in range(6) for part in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
    network = torch.nn.Sequential(*parts, torch.nn.Linear(64, 10))
    x, y = torch.rand(1024, 64), torch.randint(10, (1024,))
    if answer(network, x[:2], y[:2]) is ...:
        raise NotYet("thrifty returns the dots. Replace them.")
    found = []
    for way in (spendthrift, answer):
        network.zero_grad()
        with memory.track("cpu", known=network) as meter:
            way(network, x, y)
        gradients = [p.grad.flatten() for p in network.parameters() if p.grad is not None]
        if len(gradients) < len(list(network.parameters())):
            raise NotYet("Some parameters have no gradient afterwards: call backward().")
        found.append((meter.peak, torch.cat(gradients)))
    (before, wanted), (after, given) = found
    if not torch.allclose(given, wanted, rtol=1e-3, atol=1e-6):
        raise NotYet("The gradients differ. Do the parts' losses add up to the mean over all rows?")
    if after > 0.6 * before:
        raise NotYet(
            f"The peak is {after / before:.0%} of the first; 60 % are wanted. Smaller parts."
        )
    return f"The same gradients, with {after / before:.0%} of the peak."
