"""The judges of lesson 01."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from colab_helpers import _units
from colab_helpers.benchmark import Measurement
from colab_lessons.exercises import NotYet, choices, close, exercise, half_the_time, number


@exercise(
    "01.speedup",
    hint="Replace the dots. The largest size is the last one in each list. A speed-up is a ratio of two "
    "times: which of the two belongs above the line?",
)
def speedup(answer: float, race: Mapping[str, Sequence[Measurement]]) -> str:
    """How many times faster the second contender is at the largest size."""
    first, second = list(race.values())[:2]
    before, after = first[-1].median, second[-1].median
    ratio, given = before / after, number(answer)
    if close(given, ratio):
        return f"{_units.times(ratio)} at the largest size."
    if close(given, after / before):
        raise NotYet("That is the second divided by the first. Turn it round.")
    if close(given, before - after):
        raise NotYet("That is a difference, in seconds. A speed-up is a ratio, without a unit.")
    if close(given, first[0].median / second[0].median):
        raise NotYet("That is the smallest size. The largest is the last one: index -1.")
    if close(given, 100 * ratio) or close(given, 100 * (ratio - 1)):
        raise NotYet("That is in per cent. Give the plain ratio.")
    raise NotYet("Take both medians at the last size, and divide the first by the second.")


@exercise(
    "01.crossover",
    hint="Write down how long each contender takes for a product of size n. They are level where the "
    "two times are equal.",
)
def crossover(answer: float, hand_over: float, slow: float, fast: float) -> str:
    """The size where a fixed hand-over is repaid. Seconds, and FLOP/s for both rates."""
    gain = 1 / slow - 1 / fast
    n, given = (hand_over / (2 * gain)) ** (1 / 3), number(answer)
    if close(given, n):
        return f"From n = {n:.0f} on, the hand-over is repaid. Try it with your own three numbers."
    if close(given, (hand_over / gain) ** (1 / 3)):
        raise NotYet("A product of two n × n matrices is 2n³ operations, not n³.")
    if close(given, hand_over / (2 * gain)):
        raise NotYet("That is n³. Take the third root.")
    if close(given, (hand_over * slow / 2) ** (1 / 3)):
        raise NotYet("The fast side needs time for the product too: compare both, not one with 0.")
    raise NotYet("Write down: hand_over + 2n³/fast = 2n³/slow. Then solve for n.")


RUNTIMES = {
    "clean a table with pandas": "CPU",
    "train the GPT of this lesson, free of charge": "T4",
    "simulate 10,000 days, each from the day before": "CPU",
    "run (not train) a 30 GB model in bf16": "A100",
    "train a JAX model in bf16 on big batches, free of charge": "v5e-1",
}
_WHYS = {
    ("clean a table with pandas", "t4"): "pandas runs on the CPU; the GPU would idle and be "
    "missing to somebody else.",
    ("clean a table with pandas", "a100"): "pandas runs on the CPU; you would pay for a GPU that "
    "idles.",
    ("train the GPT of this lesson, free of charge", "cpu"): "it works, but look at the hours that "
    "you measured.",
    ("train the GPT of this lesson, free of charge", "a100"): "an A100 is not free of charge.",
    ("train the GPT of this lesson, free of charge", "v5e-1"): "it is free too, but this GPT is in "
    "plain PyTorch, which a TPU does not run as it stands.",
    ("simulate 10,000 days, each from the day before", "t4"): "each step waits for the last one: "
    "thousands of lanes have nothing to do.",
    ("simulate 10,000 days, each from the day before", "a100"): "a bigger GPU has more lanes, and "
    "one chain of steps keeps one lane busy.",
    ("run (not train) a 30 GB model in bf16", "t4"): "the T4 has 16 GB and no bf16 units.",
    ("run (not train) a 30 GB model in bf16", "v5e-1"): "one v5e chip has 16 GB.",
    (
        "run (not train) a 30 GB model in bf16",
        "cpu",
    ): "it does not fit: a free CPU machine has 12.7 GiB.",
    ("train a JAX model in bf16 on big batches, free of charge", "t4"): "the T4 has no bf16 units: "
    "it emulates them.",
    ("train a JAX model in bf16 on big batches, free of charge", "a100"): "an A100 is not free of "
    "charge.",
    (
        "train a JAX model in bf16 on big batches, free of charge",
        "cpu",
    ): "there is a free chip made for just this.",
}


@exercise(
    "01.runtimes",
    hint="One of CPU, T4, A100, v5e-1 for each workload. Ask: does it use many lanes at once, "
    "does it fit, in which number format, and who pays?",
)
def runtimes(answer: Mapping[str, str]) -> str:
    """The runtime to choose for five workloads."""
    choices(answer, RUNTIMES, _WHYS)
    return "The cheapest machine that the work can keep busy."


@exercise(
    "01.quickly",
    hint="Replace the dots. What does grow() do with a tensor of many numbers?",
)
def quickly(answer: Callable, slowly: Callable) -> str:
    """Whether a function gives the same chains in half the time: both are run and timed here."""
    starts = [0.1 + 0.8 * i / 2000 for i in range(2000)]
    if answer(starts[:3]) is ...:
        raise NotYet("quickly returns the dots. Replace them.")
    expected, given = slowly(starts), answer(starts)
    if hasattr(given, "tolist"):
        given = given.tolist()
    if len(given) != len(expected):
        raise NotYet(f"{len(expected)} numbers go in; {len(given)} come out.")
    if any(abs(number(x) - y) > 1e-6 for x, y in zip(given, expected, strict=True)):
        raise NotYet(
            "The numbers differ. This map makes a rounding error 1.4 times as large, a hundred times "
            "over, so it takes grow() itself and 64 bits to follow the slow version: dtype=torch.float64 "
            "(on an Apple GPU, leave the tensor on the CPU)."
        )
    gain = half_the_time(
        lambda: slowly(starts), lambda: answer(starts), "put all chains in one tensor."
    )
    return f"{gain}, for the same chains."
