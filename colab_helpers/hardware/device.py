"""What is known of one device, and of all the devices of a machine."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from colab_helpers import _units
from colab_helpers.hardware.chips import Chip, find_chip


@dataclass(frozen=True)
class Device:
    """One device of this machine. Memory in bytes.

    `kind` is "CPU", "GPU" or "TPU", `capability` such as "7.5". `cores` are logical CPUs, hyperthreads
    included; `cuda` is the newest CUDA that the driver supports. None where the source does not say.
    """

    kind: str
    name: str
    source: str
    memory_total: int | None = None
    memory_used: int | None = None
    driver: str | None = None
    capability: str | None = None
    cores: int | None = None
    features: tuple[str, ...] = ()
    cuda: str | None = None
    uuid: str | None = field(default=None, repr=False, compare=False)

    @property
    def fp32_lanes(self) -> int | None:
        """float32 lanes: SIMD width times cores, or CUDA cores.

        A vector unit of AVX-512 takes 16 of them, AVX2 takes 8, others 4 (SVE counts as 4). Some cores have
        two units, and two hyperthreads share theirs, so this may be off by two either way.
        """
        if self.kind != "CPU":
            return self.chip.fp32_lanes if self.chip else None
        width = 16 if "avx512f" in self.features else 8 if "avx2" in self.features else 4
        return width * (self.cores or 1)

    @property
    def chip(self) -> Chip | None:
        """The data sheet of this device, or None when the catalog has none."""
        return find_chip(self.name, self.memory_total)

    @property
    def short_name(self) -> str:
        """The name for legends and files, without marks and noise; a CPU's with its cores.

        >>> Device("CPU", "Intel(R) Xeon(R) CPU @ 2.20GHz", "", cores=2).short_name
        'Intel Xeon 2.20GHz, 2 cores'
        """
        name = self.name
        for noise in ("(R)", "(TM)", "CPU", "Processor", "@"):
            name = name.replace(noise, " ")
        name = " ".join(name.split())
        return f"{name}, {self.cores} cores" if self.kind == "CPU" else name

    def __str__(self) -> str:
        parts = [
            self.name,
            f"{self.cores} cores" if self.cores else "",
            _units.format_gib(self.memory_total) if self.memory_total else "",
            f"driver {self.driver}" if self.driver else "",
            f"compute capability {self.capability}" if self.capability else "",
            " ".join(self.features),
        ]
        return f"{self.kind}: {', '.join(filter(None, parts))} (says {self.source})"


@dataclass(frozen=True)
class Inventory:
    """The devices found, accelerators first, and what stood in the way of finding more."""

    devices: tuple[Device, ...]
    problems: tuple[str, ...] = ()

    @property
    def accelerator(self) -> Device | None:
        """The first device that is not the CPU."""
        return next((device for device in self.devices if device.kind != "CPU"), None)

    @property
    def cpu(self) -> Device:
        """The processor."""
        return next(device for device in self.devices if device.kind == "CPU")

    @property
    def main(self) -> Device:
        """The device a lesson should use: the accelerator if there is one."""
        return self.accelerator or self.cpu

    def to_dict(self) -> dict:
        """Return plain data, ready for JSON."""
        return asdict(self)
