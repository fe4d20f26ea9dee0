"""The checks of lesson 11's exercises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from colab_lessons.exercises.judging import Wrong, close, exercise, field, filled, number


@exercise(
    "11.pays",
    hint="Each worker sends 2 (n - 1) / n times the gradient. A parameter costs 6 FLOP for each token.",
)
def pays(answer: Mapping[str, Any]) -> str:
    """Milliseconds of an all-reduce, and the tokens at which computing takes as long."""
    milliseconds, tokens = (number(field(answer, key)) for key in ("milliseconds", "tokens"))
    if close(milliseconds, 120):
        raise Wrong("Those are the gradient's bytes over the bandwidth. A ring sends more.")
    if close(milliseconds, 0.21):
        raise Wrong("Those are seconds.")
    if not close(milliseconds, 210):
        raise Wrong("2 × 7/8 of 3 GB, at 25 GB/s: how many milliseconds?")
    if close(tokens, 28_000) or close(tokens, 14_000):
        raise Wrong("A parameter costs 6 FLOP for each token, backward pass included.")
    if not close(tokens, 4667, 0.02):
        raise Wrong("6 × 1.5e9 × tokens / 200e12 should be as long as the all-reduce.")
    return "The parameters cancel: any model needs about 4,700 tokens per GPU on this link."


@exercise(
    "11.factor", hint="The mean of two means counts each mean once, however many rows it has."
)
def factor(answer: Callable) -> str:
    """The factor of a worker's mean loss that makes all rows count the same."""
    cases = {(44, 60, 2): 44 / 30, (16, 60, 2): 16 / 30, (32, 64, 2): 1.0, (10, 100, 4): 0.4}
    for (mine, total, workers), right in cases.items():
        given = filled(answer(mine, total, workers), "factor")
        given = number(given)
        if close(given, mine / total) and not close(given, right):
            raise Wrong("DDP divides by the number of workers afterwards. Make up for that.")
        if not abs(given - right) <= 1e-6:
            raise Wrong(
                f"For {mine} of {total} rows on one of {workers} workers it gives {given:.3g}. "
                "With equal shares it should be 1."
            )
    return "Now 44 and 16 rows train the same network as 60 on one."


@exercise(
    "11.gather",
    hint="In the all-gather phase of the ring, sums are passed on. At which step does a worker send the part "
    "whose index is its own rank?",
)
def gather(answer: Callable) -> str:
    """An all-gather by the learner's function, run by three processes."""
    from colab_lessons import rank_processes

    if not callable(answer):
        raise Wrong("A function is wanted.")
    if rank_processes.why_unavailable():
        raise Wrong("It can't be checked here: processes cannot talk to each other.")

    def try_it(rank: int, device: Any) -> list[float]:
        import torch

        n = 3
        parts = [
            torch.full((2,), 10.0 + rank if i == rank else -1.0, device=device) for i in range(n)
        ]
        answer(parts, rank, n)
        return [float(part.mean()) for part in parts]

    ended = rank_processes.run(try_it, n=3, timeout=10, check=False)
    for rank, held in enumerate(ended):
        if isinstance(held, rank_processes.RankError):
            raise Wrong(f"Rank {rank} ended with: {held}")
    if ended == [[10.0, -1.0, -1.0], [-1.0, 11.0, -1.0], [-1.0, -1.0, 12.0]]:
        raise Wrong("Nobody has received anything.")
    for rank, held in enumerate(ended):
        if held != [10.0, 11.0, 12.0]:
            raise Wrong(
                f"Worker {rank} should hold 10, 11, 12, and holds "
                f"{', '.join(f'{part:g}' for part in held)}. In the first round, parts are added."
            )
    return (
        "Every worker holds every part after n - 1 steps. "
        "An all-reduce is a reduce-scatter, then an all-gather."
    )


@exercise("11.mine", hint="Time of the all-reduce for one byte, times the bytes of your gradients.")
def mine(answer: float, network: Any, per_byte: float) -> str:
    """Seconds that two workers wait for the gradients of the learner's network."""
    given = number(answer)
    size = sum(p.numel() * p.element_size() for p in network.parameters())
    right = size * per_byte
    if close(given, 1000 * right, 0.05):
        raise Wrong("Those are milliseconds. Seconds are wanted.")
    if close(given, right / 4, 0.2):
        raise Wrong("Those are parameters. How many bytes has each?")
    if not close(given, right, 0.2):
        raise Wrong("by_library seconds for gradient bytes: how many for yours?")
    return f"{size / 1e6:.1f} MB of gradients in every step, {1e3 * right:.2g} ms."
