"""The judges of lesson 01."""

from __future__ import annotations

from collections.abc import Callable

from colab_lessons.exercises import NotYet, close, exercise, half_the_time, number


@exercise(
    "01.crossover",
    hint="Write down how long each contender takes for a matmul of size n. They are level where the "
    "two times are equal.",
)
def crossover(answer: float, launch: float, slow: float, fast: float) -> str:
    """The size at which a launch is repaid. Seconds, and FLOP/s for both rates."""
    gain = 1 / slow - 1 / fast
    n, given = (launch / (2 * gain)) ** (1 / 3), number(answer)
    if close(given, n):
        return f"From n = {n:.0f} on, the overhead is repaid. Try it with your own three numbers."
    if close(given, (launch / gain) ** (1 / 3)):
        raise NotYet("A matmul of two n × n matrices is 2n³ operations, not n³.")
    if close(given, launch / (2 * gain)):
        raise NotYet("That is n³. Take the third root.")
    if close(given, (launch * slow / 2) ** (1 / 3)):
        raise NotYet("The fast side needs time for the matmul too: compare both, not one with 0.")
    raise NotYet("Write down: launch + 2n³/fast = 2n³/slow. Then solve for n.")


@exercise(
    "01.plan",
    hint="6 × parameters × tokens operations, divided by operations a second, is seconds.",
)
def plan(answer: tuple[float, float], here: float, t4: float) -> str:
    """Hours to train 124 M parameters on 100 M tokens, here and on a T4; both speeds in FLOP/s."""
    flop = 6 * 124e6 * 100e6
    right = flop / here / 3600, flop / t4 / 3600
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise NotYet("Two numbers are wanted: hours here, and hours on a T4.")
    given = number(answer[0]), number(answer[1])
    if all(close(a, b) for a, b in zip(given, right, strict=True)):
        return f"{right[0]:,.0f} hours here, {right[1]:.1f} on a T4, at best."
    if all(close(a, 3600 * b) for a, b in zip(given, right, strict=True)):
        raise NotYet("Those are seconds. Divide by 3,600.")
    if all(close(a, b / 3) for a, b in zip(given, right, strict=True)):
        raise NotYet(
            "That is the forward pass alone: two operations. The backward pass costs four more."
        )
    if all(close(a, b) for a, b in zip(given, right[::-1], strict=True)):
        raise NotYet("The other way round: this machine first.")
    if close(given[0], right[0]):
        raise NotYet("Here is right. For the T4 divide by its own speed, t4['fp32'].value.")
    raise NotYet("Work out 6 × 124e6 × 100e6 operations, and divide by each machine's speed.")


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
