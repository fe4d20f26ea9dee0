"""What the numbers in an out-of-memory error say: PyTorch's of a GPU, NumPy's of this machine."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from colab_doctor import pasted_log
from colab_doctor.diagnosis.base import Diagnosis, Failure
from colab_helpers import runtime
from colab_helpers._units import GIB, MIB

_SIZE = r"([\d.]{1,12}) (bytes|[KMGT]iB)"
_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": MIB, "GiB": GIB, "TiB": 2**40}
_NUMBERS = {
    "asked": rf"Tried to allocate {_SIZE}",
    "total": rf"(?:total capaci?ty of {_SIZE}|{_SIZE} total capaci?ty)",
    "free": rf"(?:of which {_SIZE} is free|{_SIZE} free)",
    "allocated": rf"(?:{_SIZE} is allocated by PyTorch|{_SIZE} already allocated)",
    "reserved": rf"{_SIZE} reserved in total",
    "unused": rf"{_SIZE} is reserved by PyTorch but unallocated",
    "allowed": rf"{_SIZE} allowed",
    "process": rf"this process has {_SIZE} memory in use",
}
#: Shares of the whole GPU from which a number is the cause.
_TENSOR, _PIECES = 0.25, 0.1
_NAMED = 0.15  # what others hold counts from here on; below it is CUDA itself


@dataclass(frozen=True)
class Numbers:
    """What PyTorch says of a GPU that is full, in bytes. `unused`: reserved by it, and empty.

    `process`: what this process holds in all, `allowed`: what PyTorch was told to use at most, None where it
    does not say.
    """

    asked: float
    total: float
    free: float
    allocated: float
    unused: float
    process: float | None = None
    allowed: float | None = None

    @property
    def other_libraries(self) -> float:
        """What this process holds beside PyTorch's own."""
        return 0.0 if self.process is None else self.process - self.allocated - self.unused

    @property
    def other_processes(self) -> float:
        """What is held by somebody else, or by this process where that is not said."""
        return self.total - self.free - self.allocated - self.unused - self.other_libraries


def parse_cuda_oom(text: str) -> Numbers | None:
    """Return the numbers of a message of PyTorch, of any release since 1.9; None without them.

    `text` has the message, alone or in a log.

    >>> said = "Tried to allocate 2.00 GiB (GPU 0; 14.76 GiB total capacity; 9.50 GiB already allocated; "
    >>> parse_cuda_oom(said + "1.00 GiB free; 10.00 GiB reserved in total by PyTorch)").unused == 0.5 * 2**30
    True
    """
    text = re.sub(r"\s*\n[│|> ]*", " ", text)  # rich and Colab wrap long lines
    found = {name: re.search(pattern, text) for name, pattern in _NUMBERS.items()}
    sizes = {name: _bytes(match) for name, match in found.items() if match}
    if "reserved" in sizes and "allocated" in sizes:
        sizes["unused"] = sizes["reserved"] - sizes["allocated"]
    sizes.pop("reserved", None)
    if sizes.get("asked", 0) > sizes.get("total", math.inf):  # whatever else there is, it can't fit
        sizes = {"free": 0, "allocated": 0, "unused": 0} | sizes
    if not {"asked", "total", "free", "allocated", "unused"} <= sizes.keys():
        return None
    return Numbers(**sizes)


def diagnose(failure: Failure) -> Iterator[Diagnosis]:
    """Yield the one cause that the numbers of `failure`, an out-of-memory error, leave."""
    if failure.problem_id == "out-of-memory":
        messages = (*pasted_log.raised(failure.text), failure.text)  # the last error comes first
        if said := next(filter(None, map(parse_cuda_oom, messages)), None):
            yield _cause(said, failure)
    array = re.search(rf"Unable to allocate {_SIZE} for an array", failure.text)
    if array and any(isinstance(error, MemoryError) for error in failure.chain):
        yield _too_large(_bytes(array), failure.problem_id or "little-ram")


def _too_large(asked: float, id: str) -> Diagnosis:
    """An array that this machine has no room for."""
    here = runtime.probe()
    total, free = _gib(here.ram_total), _gib(here.ram_available)
    observation = (
        f"One array of {_gib(asked)} was asked for; of this machine's {total}, {free} are free."
    )
    if asked > here.ram_total:
        fix = "Check the shape in the message. If it's right, process the data in pieces."
    elif here.ram_available > asked:
        fix = "Something limits this process: `!ulimit -v`, or the limit of the container."
    else:
        fix = "`del` what you don't need, or process the data in pieces. float32 halves float64."
    return Diagnosis(id, observation, fix)


def _cause(said: Numbers, failure: Failure) -> Diagnosis:
    asked, total, unused = _gib(said.asked), _gib(said.total), _gib(said.unused)
    if said.asked > said.total:
        return _of(
            f"One piece of {asked} was asked for, and the whole GPU has {total}.",
            "No setting helps: a shape is larger than you think. Look at the sizes in the failing line.",
        )
    if said.allowed is not None and said.allowed < said.total:
        return _of(
            f"PyTorch was told to use at most {_gib(said.allowed)} of {total}.",
            "Look for `set_per_process_memory_fraction` in the code.",
        )
    if said.free > 1.5 * said.asked:
        return _of(
            f"{_gib(said.free)} were free, and {asked} was refused: something limits this process.",
            "Look at the limits of the container; on Windows or WSL, update the driver.",
        )
    if said.other_processes > max(said.allocated, _NAMED * said.total):
        ends = (
            f"Runtime > Manage sessions: end the others. Else {failure.restart_sentence}"
            if failure.platform.startswith("colab")
            else "End it: `nvidia-smi` lists who"
        )
        return Diagnosis(
            "gpu-held",
            f"Your tensors hold only {_gib(said.allocated)} of {total}. Another notebook or library holds "
            f"{_gib(said.other_processes)}.",
            f"{ends}.",
        )
    if said.other_libraries > max(said.allocated, _NAMED * said.total):
        return _of(
            f"PyTorch's tensors hold {_gib(said.allocated)} of {total}; another library in this session "
            f"holds {_gib(said.other_libraries)}, as TensorFlow and JAX do by default.",
            "Restart and use one framework, or set `XLA_PYTHON_CLIENT_PREALLOCATE=false` first.",
        )
    if said.unused >= max(said.asked, _PIECES * said.total):
        return _of(
            f"Memory is fragmented: PyTorch keeps {unused} unused, in pieces too small for {asked}.",
            'In the first cell: `os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"` '
            "(`PYTORCH_CUDA_ALLOC_CONF` before PyTorch 2.10).",
        )
    if said.asked > _TENSOR * said.total:
        return _one_piece(asked, total, nearly_empty=said.allocated < _NAMED * said.total)
    return _of(
        f"Your own tensors hold {_gib(said.allocated)} of {total}: the model or the batch is too large.",
        "Restart first: earlier cells keep tensors. Then a smaller batch, or gradient checkpointing. If it "
        "fails later on, a list keeps tensors: `losses.append(loss.item())`.",
    )


def _one_piece(asked: str, total: str, nearly_empty: bool) -> Diagnosis:
    """A single allocation that is a large part of the GPU."""
    if nearly_empty:  # some libraries make room for a whole model at once
        return _of(
            f"One piece of {asked} was asked for, on a nearly empty GPU of {total}.",
            "While a model loads: take a smaller one, or 4 bits. Otherwise make that tensor smaller.",
        )
    return _of(
        f"One piece of {asked} was asked for, on a GPU of {total}.",
        "Make the tensor of the failing line smaller. Attention grows with the square of the sequence.",
    )


def _of(observation: str, fix: str) -> Diagnosis:
    return Diagnosis("out-of-memory", observation, fix)


def _bytes(match: re.Match[str]) -> float:
    number, unit = (group for group in match.groups() if group)
    return float(number) * _UNITS[unit]


def _gib(size: float) -> str:
    if size >= 1024 * GIB:
        return f"{size / GIB / 1024:.1f} TiB"
    return f"{size / GIB:.1f} GiB" if size >= GIB / 10 else f"{size / MIB:.0f} MiB"
