"""GPU memory that is used by something other than tensors, with sources, from `memory_overheads.toml`."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import date

from colab_helpers._data_files import load_toml
from colab_helpers.hardware.chips import Chip


@dataclass(frozen=True)
class Overhead:
    """Bytes of a GPU that no trace shows, with the source; `bytes_from_sm90` from compute capability 9.0."""

    id: str
    what: str
    bytes: int
    text: str
    source: str
    url: str
    seen: date
    confidence: str
    bytes_from_sm90: int = 0

    def on(self, chip: Chip) -> int:
        """Return the bytes on `chip`; 0 on a TPU.

        >>> from colab_helpers.hardware import catalog
        >>> overheads()[-1].on(catalog()["H100"]) // 2**20
        32
        """
        if chip.kind != "GPU":
            return 0
        recent = float(chip.capability or 0) >= 9
        return self.bytes_from_sm90 if recent and self.bytes_from_sm90 else self.bytes


def total(chip: Chip) -> int:
    """Return the bytes of all overheads on `chip`.

    >>> from colab_helpers.hardware import catalog
    >>> total(catalog()["v5e"])
    0
    """
    return sum(one.on(chip) for one in overheads())


@functools.cache
def overheads() -> tuple[Overhead, ...]:
    """Return what a plan adds to a traced step, from `memory_overheads.toml`.

    >>> [one.id for one in overheads()]
    ['context', 'driver', 'cublas']
    """
    rows = load_toml("colab_helpers.hardware", "memory_overheads.toml")["overhead"]
    return tuple(Overhead(**row) for row in rows)
