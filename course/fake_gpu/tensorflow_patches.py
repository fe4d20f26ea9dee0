"""What TensorFlow sees on that machine: further CPU devices of its own, under other names.

GPU k is CPU n + k, where the host keeps the first n CPU devices. Names are translated where code asks for
a device and where it reads one.
"""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

from course.fake_gpu.machines import Machine

_DEVICE = re.compile(r"(?i)(^|[/:])(gpu|cpu):(\d+|\*)")


class Cards:
    """The machine's GPUs: which are visible, and into how many logical ones each is split."""

    def __init__(self, machine: Machine, context: Any):
        self.machine = machine
        self.physical = [
            context.PhysicalDevice(f"/physical_device:GPU:{i}", "GPU") for i in range(machine.cards)
        ]
        self.visible = list(self.physical)
        self.split: dict[Any, list[Any]] = {}
        self.hosts = 1  # CPU devices that are really the host's

    @property
    def logical(self) -> int:
        """How many logical GPUs there are."""
        return sum(len(self.split.get(gpu, [None])) for gpu in self.visible)

    def to_real(self, name: Any) -> Any:
        """The device that a name means, for TensorFlow: `GPU:0` becomes `CPU:1`."""
        if not isinstance(name, str):
            name = name.to_string() if hasattr(name, "to_string") else name
        if not isinstance(name, str):
            return name
        name = re.sub(r"(?i)gpu$", "GPU:0", name)

        def real(found: re.Match) -> str:
            index = found[3]
            known = found[2].lower() == "gpu" and index.isdecimal() and int(index) < self.logical
            return f"{found[1]}CPU:{self.hosts + int(index)}" if known else found[0]

        return _DEVICE.sub(real, name)

    def to_shown(self, name: str) -> str:
        """The name that code reads: `CPU:1` becomes `GPU:0`."""

        def shown(found: re.Match) -> str:
            index = int(found[3]) - self.hosts if found[3].isdecimal() else -1
            card = found[2].lower() == "cpu" and 0 <= index < self.logical
            return f"{found[1]}GPU:{index}" if card else found[0]

        return _DEVICE.sub(shown, name)


def install(tensorflow: ModuleType, machine: Machine) -> None:
    """Let TensorFlow, which is imported and has not started, find the machine's cards."""
    from tensorflow.python.eager import context
    from tensorflow.python.framework import ops

    cards = Cards(machine, context)
    _patch_context(context, cards)
    _translate_names(ops, context, cards)
    _translate_feeding(cards)


def _patch_context(context: Any, cards: Cards) -> None:
    kind: Any = context.Context
    real = {
        name: getattr(kind, name)
        for name in (
            "ensure_initialized", "list_physical_devices", "list_logical_devices",
            "get_visible_devices", "set_visible_devices", "get_logical_device_configuration",
            "set_logical_device_configuration", "set_memory_growth", "get_memory_info",
        )
    }  # fmt: skip

    def ensure_initialized(self: Any) -> None:
        if not self._initialized and cards.logical:
            [cpu] = real["list_physical_devices"](self, "CPU")
            asked = real["get_logical_device_configuration"](self, cpu)
            cards.hosts = len(asked or [None])
            one = context.LogicalDeviceConfiguration()
            whole = [*(asked or [one]), *[one] * cards.logical]
            real["set_logical_device_configuration"](self, cpu, whole)
        fresh = not self._initialized
        real["ensure_initialized"](self)
        if fresh and cards.logical:  # what is not placed goes to the first card
            self.device(f"/device:CPU:{cards.hosts}").__enter__()

    def list_physical_devices(self: Any, device_type: str | None = None) -> list[Any]:
        found = real["list_physical_devices"](self, device_type)
        return [*found, *cards.physical] if device_type in (None, "GPU") else found

    def list_logical_devices(self: Any, device_type: str | None = None) -> list[Any]:
        self.ensure_initialized()
        found = [cards.to_shown(device.name) for device in real["list_logical_devices"](self)]
        made = [
            context.LogicalDevice(name, "GPU" if "GPU" in name.upper() else "CPU") for name in found
        ]
        return [device for device in made if device_type in (None, device.device_type)]

    def get_visible_devices(self: Any, device_type: str | None = None) -> list[Any]:
        found = real["get_visible_devices"](self, device_type)
        return [*found, *cards.visible] if device_type in (None, "GPU") else found

    def set_visible_devices(self: Any, devices: Any, device_type: str | None = None) -> None:
        chosen = devices if isinstance(devices, list) else [devices]
        if device_type in (None, "GPU"):
            cards.visible = [device for device in chosen if device in cards.physical]
        if device_type != "GPU":
            others = [device for device in chosen if device not in cards.physical]
            real["set_visible_devices"](self, others, device_type)

    def set_configuration(self: Any, device: Any, configurations: Any) -> None:
        if device in cards.physical:
            cards.split[device] = list(configurations)
        else:
            real["set_logical_device_configuration"](self, device, configurations)

    def get_configuration(self: Any, device: Any) -> Any:
        if device in cards.physical:
            return cards.split.get(device)
        return real["get_logical_device_configuration"](self, device)

    def set_memory_growth(self: Any, device: Any, enable: bool) -> None:
        if device not in cards.physical:
            real["set_memory_growth"](self, device, enable)

    kind.ensure_initialized = ensure_initialized
    kind.list_physical_devices = list_physical_devices
    kind.list_logical_devices = list_logical_devices
    kind.get_visible_devices, kind.set_visible_devices = get_visible_devices, set_visible_devices
    kind.set_logical_device_configuration = set_configuration
    kind.get_logical_device_configuration = get_configuration
    kind.set_memory_growth = set_memory_growth
    kind.get_memory_info = lambda self, name: real["get_memory_info"](self, cards.to_real(name))


def _translate_names(ops: Any, context: Any, cards: Cards) -> None:
    begin, tensor = ops.device, ops.EagerTensor
    read = tensor.device.__get__

    def device(name: Any) -> Any:
        context.ensure_initialized()
        return begin(cards.to_real(name))

    ops.device = device
    tensor.device = property(lambda self: cards.to_shown(read(self)))


def _translate_feeding(cards: Cards) -> None:
    """An iterator for several devices hands their names to TensorFlow's own part."""
    from tensorflow.python.data.ops import multi_device_iterator_ops as feeding

    begin = feeding.OwnedMultiDeviceIterator.__init__

    def start(self: Any, dataset: Any = None, devices: Any = None, **rest: Any) -> None:
        begin(self, dataset, [cards.to_real(name) for name in devices], **rest)

    feeding.OwnedMultiDeviceIterator.__init__ = start
