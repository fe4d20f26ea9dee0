"""Number formats: which ones a chip computes in natively, and what they lose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from colab_helpers.hardware import Device


@dataclass(frozen=True)
class Format:
    """A floating-point format: a sign bit, `exponent_bits` for the range, `mantissa_bits` for the digits.

    `dtype` is PyTorch's, or None for TF32, which is a way to compute and not to store.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    dtype: torch.dtype | None = None

    @property
    def bits(self) -> int:
        """Bits of one number."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def max(self) -> float:
        """The largest finite number."""
        if self.dtype is not None:
            return torch.finfo(self.dtype).max
        return (2 - 2.0**-self.mantissa_bits) * 2.0 ** (2 ** (self.exponent_bits - 1) - 1)

    @property
    def range_note(self) -> str:
        """The largest number, as a note beside the format's name.

        >>> formats()["fp16"].range_note, formats()["bf16"].range_note
        ('(to 65,504)', '(to 3.4e+38)')
        """
        short = self.bits < 17 and self.exponent_bits < 8
        return f"(to {self.max:,.0f})" if short else f"(to {self.max:.1e})"

    @property
    def eps(self) -> float:
        """The distance from 1 to the next larger number, as `torch.finfo(…).eps`."""
        return 2.0**-self.mantissa_bits


def _from_torch(name: str, dtype: torch.dtype) -> Format:
    info = torch.finfo(dtype)
    mantissa = round(-torch.log2(torch.tensor(info.eps)).item())
    return Format(name, info.bits - 1 - mantissa, mantissa, dtype)


def formats() -> dict[str, Format]:
    """Return the formats of the course by name, as PyTorch describes them.

    >>> [(f.name, f.bits, f.exponent_bits, f.mantissa_bits) for f in formats().values()][:4]
    [('fp32', 32, 8, 23), ('tf32', 19, 8, 10), ('bf16', 16, 8, 7), ('fp16', 16, 5, 10)]
    """
    found = [
        _from_torch("fp32", torch.float32),
        Format("tf32", 8, 10),
        _from_torch("bf16", torch.bfloat16),
        _from_torch("fp16", torch.float16),
        _from_torch("fp8 e4m3", torch.float8_e4m3fn),
        _from_torch("fp8 e5m2", torch.float8_e5m2),
    ]
    return {entry.name: entry for entry in found}


def bits(value: float, number_format: Format) -> tuple[str, str, str]:
    """Return the bits of `value` in a format: sign, exponent, mantissa.

    `number_format` is one of `formats()`. The value is rounded to the nearest; for TF32, the low 13 bits of
    its float32 are dropped.

    >>> bits(1.5, formats()["bf16"])
    ('0', '01111111', '1000000')
    """
    dtype = number_format.dtype or torch.float32  # TF32 keeps the first bits of a float32
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
    width = torch.finfo(dtype).bits
    whole = torch.tensor(value).to(dtype).view(integers[width // 8]).item() % 2**width
    text = f"{whole:0{width}b}"
    split = 1 + number_format.exponent_bits
    return text[0], text[1:split], text[split : number_format.bits]


#: Compute capability from which an NVIDIA GPU multiplies matrices in a format by itself.
#: Source: NVIDIA, CUDA C++ Programming Guide, "Compute Capabilities" (tensor cores' data types).
_SINCE = {"fp32": (0, 0), "fp16": (7, 0), "tf32": (8, 0), "bf16": (8, 0), "fp8": (8, 9)}
#: Flag of a CPU -> format that it multiplies by itself.
_CPU_FLAGS = {
    "avx512_bf16": "bf16",
    "amx_bf16": "bf16",
    "bf16": "bf16",  # ARM
    "avx512_fp16": "fp16",
    "amx_fp16": "fp16",
    "asimdhp": "fp16",  # ARM
}


def support(device: Device) -> dict[str, str]:
    """Return how a device multiplies matrices in each format: "native", "emulated", "no" or "unknown".

    "native": in units made for it (on GPUs, tensor cores). "emulated": it works, by way of another
    format, slowly or with little gain; `torch.cuda.is_bf16_supported()` says yes to both. "unknown": a GPU
    that tells no compute capability, such as Apple's or AMD's. fp32 is native on CPUs and GPUs, and
    emulated on TPUs, of which 7x (Ironwood) is the first with fp8. A P100 counts as emulating both 16-bit
    formats: fp16, which it computes at twice the speed of fp32, but without matrix units, and bf16.

    >>> [support(Device("GPU", "", "NVML", capability=sm))["bf16"] for sm in ("6.0", "7.5", "8.0")]
    ['emulated', 'emulated', 'native']
    >>> [support(Device("TPU", name, "PCI id"))["fp8"] for name in ("TPU v5e", "TPU 7x")]
    ['no', 'native']
    """
    if device.kind == "GPU" and device.capability:
        have = tuple(int(part) for part in device.capability.split("."))
        found = {name: "native" if have >= since else "no" for name, since in _SINCE.items()}
        without_tensor_cores = {name for name in ("fp16", "bf16") if found[name] == "no"}
        return found | dict.fromkeys(without_tensor_cores, "emulated")
    if device.kind == "GPU":
        return {"fp32": "native", **dict.fromkeys(("tf32", "bf16", "fp16", "fp8"), "unknown")}
    if device.kind == "TPU":
        fp8 = "native" if "7x" in device.name else "no"
        return {"fp32": "emulated", "tf32": "no", "bf16": "native", "fp16": "emulated", "fp8": fp8}
    native = {_CPU_FLAGS[flag] for flag in device.features if flag in _CPU_FLAGS}
    found = dict.fromkeys(("bf16", "fp16"), "emulated")
    return {"fp32": "native", "tf32": "no", **found, **dict.fromkeys(native, "native"), "fp8": "no"}


@dataclass(frozen=True)
class Advice:
    """The format to train in on a device, whether a loss scaler is needed, and why."""

    format: str
    needs_scaler: bool
    reason: str

    def __str__(self) -> str:
        return f"{self.format}{', with a loss scaler' if self.needs_scaler else ''}: {self.reason}"


def advise(device: Device) -> Advice:
    """Say in which format to train on a device.

    bf16 where it is native, else fp16 with a loss scaler on a GPU where that is native, else fp32. A GPU
    that tells no compute capability gets fp32.

    >>> print(advise(Device("GPU", "Tesla T4", "NVML", capability="7.5")))
    fp16, with a loss scaler: native here, and bf16 is not; fp16's range is small
    """
    known = support(device)
    native = {name for name, how in known.items() if how == "native"}
    if "unknown" in known.values():
        return Advice(
            "fp32", False, "safe everywhere; measure whether a shorter one is faster here"
        )
    if "bf16" in native:
        return Advice("bf16", False, "native here, with the range of fp32")
    if "fp16" in native and device.kind == "GPU":
        return Advice("fp16", True, "native here, and bf16 is not; fp16's range is small")
    return Advice("fp32", False, "nothing smaller is native here")


@dataclass(frozen=True)
class RecordedOp:
    """An operation that ran: its name, and the dtypes of its tensors."""

    name: str
    input_dtypes: tuple[str, ...]
    output_dtypes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}: {', '.join(self.input_dtypes)} -> {', '.join(self.output_dtypes)}"


@contextmanager
def record_operations() -> Iterator[list[RecordedOp]]:
    """Record each operation of the block, with the dtypes of its inputs and outputs.

    Casts that autocast adds are seen too, as `_to_copy`.

    >>> with record_operations() as seen:
    ...     _ = torch.ones(2) * 2
    >>> [str(operation) for operation in seen]
    ['ones:  -> float32', 'mul: float32 -> float32']
    """
    with _Recorder() as recorder:
        yield recorder.seen


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[RecordedOp] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        name = function.__name__.split(".")[0]
        self.seen.append(RecordedOp(name, _dtypes((args, kwargs)), _dtypes(result)))
        return result


def _dtypes(things: Any) -> tuple[str, ...]:
    tensors = [thing for thing in tree_iter(things) if isinstance(thing, torch.Tensor)]
    return tuple(dict.fromkeys(str(t.dtype).removeprefix("torch.") for t in tensors))
