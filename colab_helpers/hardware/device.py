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
        return f"{name}, {_cores(self.cores)}" if self.kind == "CPU" else name

    def to_dict(self) -> dict:
        """Return plain data, without the UUID, which tells one machine from all others.

        >>> "uuid" in Device("GPU", "Tesla T4", "NVML", uuid="GPU-1234").to_dict()
        False
        """
        return {name: value for name, value in asdict(self).items() if name != "uuid"}

    def __str__(self) -> str:
        parts = [
            self.name,
            _cores(self.cores) if self.cores else "",
            _units.format_gib(self.memory_total) if self.memory_total else "",
            f"driver {self.driver}" if self.driver else "",
            f"compute capability {self.capability}" if self.capability else "",
            " ".join(self.features),
        ]
        return f"{self.kind}: {', '.join(filter(None, parts))} (says {self.source})"


def _cores(count: int | None) -> str:
    return f"{count} core{'s' * (count != 1)}"


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
        devices = [device.to_dict() for device in self.devices]
        return {"devices": devices, "problems": self.problems}
