"""What do the numbers in an out-of-memory error say, PyTorch's of a GPU and NumPy's of this machine?

The words are the same whether a size is wrong, another program holds the GPU, the free memory is in
pieces, or the work is simply too large. The numbers tell these apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from colab_helpers import runtime
from colab_helpers._units import GIB, MIB
from colab_helpers.doctor.clues.clue import Clue, Raised

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
    def beside(self) -> float:
        """What this process holds beside PyTorch's own."""
        return 0.0 if self.process is None else self.process - self.allocated - self.unused

    @property
    def others(self) -> float:
        """What is held by somebody else, or by this process where that is not said."""
        return self.total - self.free - self.allocated - self.unused - self.beside


def numbers(text: str) -> Numbers | None:
    """Return the numbers of a message of PyTorch, of any release since 1.9; None without them.

    `text` has the message, alone or in a log.

    >>> said = "Tried to allocate 2.00 GiB (GPU 0; 14.76 GiB total capacity; 9.50 GiB already allocated; "
    >>> numbers(said + "1.00 GiB free; 10.00 GiB reserved in total by PyTorch)").unused == 0.5 * 2**30
    True
    """
    found = {name: re.search(pattern, text) for name, pattern in _NUMBERS.items()}
    sizes = {name: _bytes(match) for name, match in found.items() if match}
    if "reserved" in sizes and "allocated" in sizes:
        sizes["unused"] = sizes["reserved"] - sizes["allocated"]
    sizes.pop("reserved", None)
    if not {"asked", "total", "free", "allocated", "unused"} <= sizes.keys():
        return None
    return Numbers(**sizes)


def clues(raised: Raised) -> Iterator[Clue]:
    """Yield the one cause that the numbers of `raised`, an out-of-memory error, leave."""
    said = numbers(raised.text) if raised.known == "out-of-memory" else None
    if said:
        yield _cause(said, raised)
    array = re.search(rf"Unable to allocate {_SIZE} for an array", raised.text)
    if array and any(isinstance(error, MemoryError) for error in raised.chain):
        yield _too_large(_bytes(array), raised.known or "little-ram")


def _too_large(asked: float, id: str) -> Clue:
    """An array that this machine has no room for."""
    here = runtime.observe()
    total, free = _gib(here.ram_total), _gib(here.ram_available)
    if asked > here.ram_total:
        return Clue(
            id,
            f"One array of {_gib(asked)} was asked for, and this machine has {total} of memory.",
            "Look at the shape in the message: it may be larger than you think. Otherwise process "
            "the data in pieces, or use a smaller type (float32 takes half the memory of float64).",
        )
    if here.ram_available > asked:
        return Clue(
            id,
            f"One array of {_gib(asked)} was asked for and refused, though {free} of {total} are free.",
            "Something limits this process: `!ulimit -v`, or the limit of the container.",
        )
    return Clue(
        id,
        f"One array of {_gib(asked)} was asked for; of this machine's {total}, {free} are free.",
        "`del` what is no longer needed, or restart the session and run only what is. Otherwise "
        "process the data in pieces, or use a smaller type (float32 takes half the memory of "
        "float64).",
    )


def _cause(said: Numbers, raised: Raised) -> Clue:
    asked, total, unused = _gib(said.asked), _gib(said.total), _gib(said.unused)
    if said.asked > said.total:
        return _told(
            f"{asked} was asked for in one piece, and the whole GPU has {total}.",
            "No setting helps: a shape is larger than you think. Look at the sizes in the failing "
            "line: a whole data set at once, attention over a very long sequence, or an image "
            "that was not made smaller.",
        )
    if said.allowed is not None and said.allowed < said.total:
        return _told(
            f"PyTorch was told to use at most {_gib(said.allowed)} of {total}.",
            "Look for `set_per_process_memory_fraction` in the code, and for who else shares this GPU.",
        )
    if said.free > 1.5 * said.asked:
        return _told(
            f"{_gib(said.free)} were free, {asked} was asked for, and it was refused all the same: "
            "something limits this process.",
            "On Windows and WSL, update the driver, and in WSL raise `memory` in `.wslconfig`. "
            "Elsewhere, look at the limits of the container. Some were helped by "
            "`PYTORCH_ALLOC_CONF=expandable_segments:True` (`PYTORCH_CUDA_ALLOC_CONF` up to "
            "PyTorch 2.9).",
        )
    if said.others > max(said.allocated, _NAMED * said.total):
        ends = (
            f"Runtime > Manage sessions: end the others; else {raised.restarting}"
            if raised.platform.startswith("colab")
            else "`nvidia-smi` lists who: end it; where it lists nobody, restart the container or the machine"
        )
        return Clue(
            "gpu-held",
            f"Of {total}, this program's tensors hold {_gib(said.allocated)}; {_gib(said.others)} "
            "are held by something else: another notebook, an earlier run that has not ended, or "
            "another library.",
            f"{ends}. A smaller batch helps little.",
        )
    if said.beside > max(said.allocated, _NAMED * said.total):
        return _told(
            f"Of {total}, PyTorch's tensors hold {_gib(said.allocated)}; {_gib(said.beside)} are "
            "held by another library in this same session, as TensorFlow and JAX do by default.",
            "Restart the session and start only one of them, or limit the other first: JAX by "
            "`XLA_PYTHON_CLIENT_PREALLOCATE=false`, TensorFlow by "
            "`tf.config.experimental.set_memory_growth`.",
        )
    if said.unused >= max(said.asked, _PIECES * said.total):
        return _told(
            f"PyTorch keeps {unused} that no tensor uses, in pieces too small for {asked}: the "
            "memory is fragmented.",
            "In the first cell, before PyTorch is imported: "
            '`os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"` '
            "(`PYTORCH_CUDA_ALLOC_CONF` up to PyTorch 2.9). If that is not enough, a smaller batch.",
        )
    if said.asked > _TENSOR * said.total:
        return _one_piece(said)
    held = said.others + said.beside
    also = f" {_gib(held)} are held by something else." if held > _NAMED * said.total else ""
    pieces = (
        f" PyTorch keeps only {unused} unused, so fragmentation is not the cause."
        if said.unused < said.asked
        else ""
    )
    return _told(
        f"This program's own tensors hold {_gib(said.allocated)} of {total}: the work is too "
        f"large.{also}{pieces}",
        "Restart the session first: tensors of earlier cells stay. Then reduce what is needed. If "
        "it fails while the model is loaded: a smaller model, or 4 bits. In the first steps of "
        "training: a smaller batch, or gradient checkpointing. Later: a list keeps tensors "
        "(`losses.append(loss)`: use `loss.item()`), or one sample is much longer than the others "
        "(truncate it).",
    )


def _one_piece(said: Numbers) -> Clue:
    """A single allocation that is a large part of the GPU."""
    seen = f"{_gib(said.asked)} was asked for in one piece, on a GPU of {_gib(said.total)}"
    if said.allocated < _NAMED * said.total:  # some libraries make room for a whole model at once
        return _told(
            f"{seen} that was nearly empty.",
            "If it fails while a model is loaded, the model is too large for this GPU: a smaller "
            "one, or 16, 8 or 4 bits. Otherwise the failing line shows which tensor it is: make "
            "that smaller.",
        )
    return _told(
        f"{seen}.",
        "The failing line shows which tensor it is, usually: make that smaller. Attention grows "
        "with the square of the sequence length or the image size; where an evaluation keeps all "
        "its outputs on the GPU, memory grows at each step (Trainer: `eval_accumulation_steps`).",
    )


def _told(seen: str, remedy: str) -> Clue:
    return Clue("out-of-memory", seen, remedy)


def _bytes(match: re.Match[str]) -> float:
    number, unit = (group for group in match.groups() if group)
    return float(number) * _UNITS[unit]


def _gib(size: float) -> str:
    if size >= 1024 * GIB:
        return f"{size / GIB / 1024:.1f} TiB"
    return f"{size / GIB:.1f} GiB" if size >= GIB / 10 else f"{size / MIB:.0f} MiB"
