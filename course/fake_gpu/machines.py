"""The machines that can be faked, and what each says of itself."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

MIB = 2**20


@dataclass(frozen=True)
class Machine:
    """A machine with accelerators. Sizes in bytes, `driver_mib` in MiB; machines.toml says what they are."""

    key: str
    kind: str
    name: str
    cards: int
    memory: int
    driver_mib: int = 0
    capability: str = ""
    multiprocessors: int = 0
    workspace: int = 0
    context: int = 0
    driver: str = ""
    cuda: str = ""
    built_for: str = ""

    @property
    def is_nvidia(self) -> bool:
        """Whether CUDA, NVML and nvidia-smi answer."""
        return self.kind == "cuda"


@cache
def machines() -> dict[str, Machine]:
    """Return the machines by name."""
    text = (Path(__file__).parent / "machines.toml").read_text("utf-8")
    return {key: Machine(key=key, **fields) for key, fields in tomllib.loads(text).items()}
