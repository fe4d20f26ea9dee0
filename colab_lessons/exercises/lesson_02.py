"""The checks of lesson 02's exercises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from colab_lessons.exercises.judging import (
    Wrong,
    choices,
    close,
    exercise,
    filled,
    number,
    require_speedup,
)


@exercise(
    "02.at_least",
    hint="Which takes longer, the multiplications or the bytes? Count the bytes in and out.",
)
def at_least(answer: float) -> str:
    """Milliseconds to double 50 million float32 numbers at 240 GB/s."""
    given, right = number(answer), 1000 * 50e6 * 8 / 240e9
    if close(given, right):
        return f"{right:.2f} ms. A chip that computes ten times faster needs just as long."
    if close(given, right / 2):
        raise Wrong("Each number is read and written: 8 bytes.")
    if close(given, right / 8) or close(given, right / 4):
        raise Wrong("A float32 takes 4 bytes, and it goes in and out.")
    if close(given, right / 1000) or close(given, right * 1000):
        raise Wrong("That is in another unit. A second is 1,000 milliseconds.")
    if close(given, 1000 * 50e6 / 4.17e12):
        raise Wrong("That is the arithmetic. The bytes take longer.")
    raise Wrong("50 million × 8 bytes, divided by 240e9 bytes a second, times 1,000.")


@exercise(
    "02.limits",
    hint='Answer "compute", "bandwidth" or "launch". Work out three times for each line: operations by '
    "operations a second, bytes by bytes a second, and the launch. The longest one limits it.",
)
def limits(answer: Mapping[str, str]) -> str:
    """What limits three operations on a T4 in float32: the longest of three times."""
    wanted = {"a + b": "bandwidth", "A @ B, n = 128": "launch", "A @ B, n = 4096": "compute"}
    whys = {
        ("a + b", "compute"): "10 million additions take 2.4 µs, their 120 MB take 500.",
        ("a + b", "launch"): "120 MB take 500 µs, the launch 10.",
        (
            "A @ B, n = 128",
            "compute",
        ): "4.2 million operations take 1.0 µs. Compare that with the launch.",
        ("A @ B, n = 128", "bandwidth"): "0.2 MB take 0.8 µs. Compare that with the launch.",
        ("A @ B, n = 4096", "bandwidth"): "201 MB take 0.8 ms, the arithmetic 33.",
        ("A @ B, n = 4096", "launch"): "the arithmetic takes 33 ms.",
    }
    choices(answer, wanted, whys)
    return "Three times, and the longest one wins."


@exercise(
    "02.read_smi",
    hint="Read the printout above: 'Memory-Usage', 'Processes', 'CUDA Version'. The last answer is "
    '"yes", "no" or "cannot tell".',
)
def read_smi(answer: Mapping[str, object]) -> str:
    """Three readings of somebody else's nvidia-smi: 7532 of 23034 MiB, process 3485, CUDA 13.0."""
    given = dict(answer)
    names = ("MiB not in use", "PID", "CUDA 13.0 toolkit")
    left = [name for name in names if given.get(name, ...) is ...]
    if left:
        raise Wrong(f"Still without an answer: {', '.join(left)}.")
    _unused(number(given["MiB not in use"]))
    _process(number(given["PID"]))
    _toolkit(str(given["CUDA 13.0 toolkit"]).strip().lower())
    return "You can read a stranger's machine."


def _unused(mib: float) -> None:
    if mib == 23034 - 7532:
        return
    if mib == 7532:
        raise Wrong("MiB not in use: 7532 MiB is what is used. Subtract it from the total.")
    if mib == 23034:
        raise Wrong("MiB not in use: 23034 MiB is the total. Subtract what is used.")
    if mib == 23034 - 7524:
        raise Wrong("MiB not in use: 7524 MiB is one process. The line above it counts all.")
    raise Wrong("MiB not in use: total minus used, both in the column Memory-Usage.")


def _process(pid: float) -> None:
    if pid == 3485:
        return
    if pid == 0:
        raise Wrong("PID: 0 is the number of the GPU. The process has its own column.")
    if pid == 7524:
        raise Wrong("PID: 7524 is MiB, what the process holds.")
    raise Wrong("PID: look at the last line, column PID.")


def _toolkit(word: str) -> None:
    if word == "cannot tell":
        return
    if word == "yes":
        raise Wrong(
            "CUDA 13.0 toolkit: 'CUDA Version' is the newest that this driver can run, not what "
            "is installed. Ask nvcc for that."
        )
    raise Wrong("CUDA 13.0 toolkit: the printout speaks of the driver only. Can it tell?")


@exercise(
    "02.fewer_passes",
    hint="Replace the dots. Each operation goes over all of memory. Can you work in pieces that fit into a "
    "cache, write into what is there already, or do fewer passes?",
)
def fewer_passes(answer: Callable, many_passes: Callable, numbers: Any) -> str:
    """Whether a function gives the same numbers in half the time: both are run and timed here."""
    import torch

    own = numbers.clone()  # whatever an answer does to it, the lesson's numbers stay
    given = filled(answer(own), "fewer_passes")
    if not torch.equal(numbers, own):
        raise Wrong("The numbers that came in were overwritten. Work on a copy, or on new memory.")
    if not torch.is_tensor(given) or given.shape != numbers.shape:
        raise Wrong(f"A tensor of shape {tuple(numbers.shape)} is wanted.")
    if not torch.allclose(given, many_passes(numbers), rtol=1e-4):
        raise Wrong("The numbers differ from those of the slow version.")
    advice = "pieces of 32,768 numbers, in place, stay in the cache."
    gain = require_speedup(lambda: many_passes(numbers), lambda: answer(own), advice)
    return f"{gain}, for the same numbers."
