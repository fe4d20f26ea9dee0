"""Data sheets of chips, from `accelerators.toml`."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from colab_helpers._data_files import load_toml
from colab_helpers._units import GIB, MIB

_GB = 10**9
_TERA = 10**12
#: Words of a device name that tell other data sheets, or a part of a chip.
_VARIANTS = ("PCIe", "PCIE", "NVL", "MIG", "Workstation", "Max-Q", "Laptop", "Ti", "SUPER")


@dataclass(frozen=True)
class Chip:
    """A data sheet. Memory in bytes, bandwidth in bytes/s, `peak` in FLOP/s by number format.

    `memory` is the data sheet's, `memory_mib` what nvidia-smi shows; peaks are dense, without sparsity, and
    OP/s for int8 and int4. `capability` is such as "8.0"; `fp32_lanes` are CUDA cores, on a TPU multipliers.
    `where` a Colab user meets it: "free", "paid", "history" or "elsewhere". `links` holds the bytes/s that a
    chip can send to other "chips" and into the "network". A device is this chip when its name has all words
    of `match`; it may have those of `also`.
    """

    key: str
    name: str
    kind: str
    year: int
    match: tuple[str, ...]
    memory: float
    bandwidth: float
    peak: Mapping[str, float]
    where: str
    source: str
    url: str
    seen: date
    confidence: str
    capability: str | None = None
    fp32_lanes: int | None = None
    memory_mib: int | None = None
    links: Mapping[str, float] = field(default_factory=dict)
    also: tuple[str, ...] = ()

    @property
    def usable_memory(self) -> int:
        """Usable memory in bytes, from the driver or, if that is unknown, from the data sheet."""
        return int(self.memory_mib * MIB if self.memory_mib else self.memory)

    @property
    def best_format(self) -> str:
        """The floating-point format for training with the highest peak."""
        formats = [name for name in ("bf16", "fp16", "tf32", "fp32") if name in self.peak]
        return max(formats, key=lambda name: self.peak[name])

    def ridge(self, number_format: str | None = None) -> float:
        """Return the FLOP per byte from which on compute, not bandwidth, is the limit.

        Source of the idea: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009.
        `number_format` is a key of `peak`, such as "fp16"; the best one when left out. Raises KeyError
        for one that the sheet does not have.

        >>> round(catalog()["T4"].ridge("fp16"))
        203
        """
        return self.peak[number_format or self.best_format] / self.bandwidth


@functools.cache
def catalog() -> Mapping[str, Chip]:
    """Return every data sheet of the course by key, as written in `accelerators.toml`.

    >>> catalog()["T4"].capability
    '7.5'
    """
    rows = load_toml("colab_helpers.hardware", "accelerators.toml")["chip"]
    return {row["key"]: _chip(row) for row in rows}


def find_chip(name: str, memory_total: int | None = None) -> Chip | None:
    """Return the data sheet for a device name as NVML or a PCI id gives it, or None.

    `memory_total` in bytes decides between variants that share a name (A100 with 40 or 80 GB): it has to lie
    within 0.75 to 1.3 of the data sheet's.

    >>> find_chip("Tesla T4").key, find_chip("NVIDIA A100-SXM4-80GB").key
    ('T4', 'A100-80')
    >>> find_chip("NVIDIA GeForce RTX 3060") is None
    True
    """
    chips = [chip for chip in catalog().values() if _is_same_variant(name, chip)]
    found = [chip for chip in chips if all(_has_word(name, word) for word in chip.match)]
    if not found and memory_total:
        found = [
            chip
            for chip in chips
            if _has_word(name, chip.match[0]) and abs(memory_total - chip.memory) < 8 * GIB
        ]
    if memory_total:  # a share of a card, or a model with more memory, goes by the same name
        found = [chip for chip in found if 0.75 < memory_total / chip.memory < 1.3]
    # Of several, the one that says most of the name: "A100 80GB PCIe" before "A100 80GB".
    longest = max((len(chip.match) for chip in found), default=0)
    best = [chip for chip in found if len(chip.match) == longest]
    return best[0] if len(best) == 1 else None


def _chip(row: dict) -> Chip:
    for name in ("memory", "bandwidth"):
        if not isinstance(row.get(name), int | float):
            raise ValueError(f"Chip {row['key']}: {name} has to be a number, in GB or GB/s.")
    return Chip(
        **{
            **row,
            "memory": row["memory"] * _GB,
            "bandwidth": row["bandwidth"] * _GB,
            "peak": {name: value * _TERA for name, value in row["peak"].items()},
            "links": {name: value * _GB for name, value in row.get("links", {}).items()},
            "match": tuple(row["match"]),
            "also": tuple(row.get("also", ())),
        }
    )


def _is_same_variant(name: str, chip: Chip) -> bool:
    """Cards of one family, and slices of a card, have limits of their own: name and row must agree."""
    named = {word for word in _VARIANTS if _has_word(name, word)}
    return set(_VARIANTS) & set(chip.match) <= named <= {*chip.match, *chip.also}


def _has_word(name: str, word: str) -> bool:
    # "L4" must not be found in "L40S", nor "T4" in "T400".
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", name) is not None
