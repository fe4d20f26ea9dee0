"""The judges of lesson 02."""

from __future__ import annotations

from collections.abc import Mapping

from colab_helpers.exercises import NotYet, choices, close, exercise, number

_ELEMENTS = 64 * 3 * 224 * 224


@exercise(
    "02.tensor_bytes",
    hint="Multiply the sides, multiply by the bytes of one float32, divide by 2**20.",
)
def tensor_bytes(answer: float) -> str:
    """MiB of 64 colour images of 224 by 224 pixels in float32."""
    right, given = _ELEMENTS * 4 / 2**20, number(answer)
    if close(given, right, 0.005):
        return f"{right:.2f} MiB for one batch, before the network has done anything with it."
    if close(given, _ELEMENTS * 4 / 1e6, 0.005):
        raise NotYet("That is in MB (10**6). nvidia-smi counts in MiB (2**20).")
    if close(given, _ELEMENTS / 2**20, 0.005):
        raise NotYet("That counts elements. A float32 takes 4 bytes.")
    if close(given, _ELEMENTS * 32 / 2**20, 0.005):
        raise NotYet("That is in bits. 32 bits are 4 bytes.")
    if close(given, _ELEMENTS * 8 / 2**20, 0.005):
        raise NotYet("That is for float64, NumPy's default. PyTorch's is float32: 4 bytes.")
    if close(given, _ELEMENTS * 4, 0.005):
        raise NotYet("That is in bytes. Divide by 2**20 for MiB.")
    raise NotYet("64 × 3 × 224 × 224 elements, 4 bytes each, 2**20 bytes a MiB.")


@exercise(
    "02.limits",
    hint='Answer "compute" or "bandwidth". Divide operations by bytes moved and compare with the '
    "ridge of the T4 in float32, about 25 FLOP a byte.",
)
def limits(answer: Mapping[str, str]) -> str:
    """What limits three operations on a T4 in float32."""
    wanted = {"a + b": "bandwidth", "A @ B": "compute", "A @ v": "bandwidth"}
    whys = {
        (
            "a + b",
            "compute",
        ): "one addition for 12 bytes is 1/12 FLOP a byte, far left of the ridge.",
        ("A @ B", "bandwidth"): "2n³ operations on 12n² bytes: n/6 FLOP a byte, at n = 4096 far "
        "right of the ridge.",
        ("A @ v", "compute"): "it is a product, yet each number of A is read for two operations "
        "only: 1/2 FLOP a byte.",
    }
    choices(answer, wanted, whys)
    return "The ratio decides, not the name of the operation."


@exercise(
    "02.read_smi",
    hint="Read the printout above: 'Memory-Usage', 'Pwr:Usage/Cap', 'CUDA Version'. The last answer "
    'is "yes", "no" or "cannot tell".',
)
def read_smi(answer: Mapping[str, object]) -> str:
    """Three readings of somebody else's nvidia-smi: 1047 of 15360 MiB, 26 of 70 W, CUDA 13.0."""
    given = dict(answer)
    left = [
        name
        for name in ("free MiB", "share of power", "CUDA 13.0 toolkit")
        if given.get(name, ...) is ...
    ]
    if left:
        raise NotYet(f"Still without an answer: {', '.join(left)}.")
    _free(number(given["free MiB"]))
    _power(number(given["share of power"]))
    _toolkit(str(given["CUDA 13.0 toolkit"]).strip().lower())
    return "You can read a stranger's machine."


def _free(mib: float) -> None:
    if close(mib, 15360 - 1047, 0.001):
        return
    if close(mib, 1047, 0.001):
        raise NotYet("free MiB: 1047 MiB is what is used. Subtract it from the total.")
    if close(mib, 15360, 0.001):
        raise NotYet("free MiB: 15360 MiB is the total. Subtract what is used.")
    raise NotYet("free MiB: total minus used, both in the column Memory-Usage.")


def _power(share: float) -> None:
    if close(share, 26 / 70, 0.03):
        return
    if close(share, 0.12):
        raise NotYet("share of power: 12 % is GPU-Util, the share of time in which a kernel ran.")
    if close(share, 100 * 26 / 70, 0.03):
        raise NotYet("share of power: give it as a fraction, between 0 and 1.")
    raise NotYet("share of power: watts used divided by watts allowed, column Pwr:Usage/Cap.")


def _toolkit(word: str) -> None:
    if word == "cannot tell":
        return
    if word == "yes":
        raise NotYet(
            "CUDA 13.0 toolkit: 'CUDA Version' is the newest that this driver can run, not what "
            "is installed. Ask nvcc for that."
        )
    raise NotYet("CUDA 13.0 toolkit: the printout speaks of the driver only. Can it tell?")
