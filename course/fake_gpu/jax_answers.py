"""What JAX sees on that machine: a second client of its own for CPUs, under another name."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from course.fake_gpu.machines import Machine

_PRIORITY = 200  # above the CPU's, as a plugin for CUDA has
_KNOWS_THE_TRUTH = ("jax._src", "jaxlib")


def install(jax: ModuleType, machine: Machine) -> None:
    """Let JAX, which is imported, find the machine's cards when it starts."""
    from jax._src import hardware_utils, xla_bridge
    from jaxlib import xla_client

    clients: list[Any] = []

    def client() -> Any:
        clients.append(xla_client.make_cpu_client(num_devices=machine.cards))
        return clients[-1]

    hardware_utils.has_visible_nvidia_gpu = lambda: True  # it would look for files of the driver
    xla_bridge.register_backend_factory("cuda", client, priority=_PRIORITY)
    _rename(xla_client.Device, clients, machine)
    backend = jax.default_backend

    def default_backend() -> str:
        return "gpu" if jax.devices()[0].client in clients else backend()

    jax.default_backend = default_backend  # type: ignore[attr-defined]


def _rename(device: Any, clients: list[Any], machine: Machine) -> None:
    """Let the cards' devices tell their names to everybody but JAX, which compiles by them."""
    platform, kind = device.platform.fget, device.device_kind.fget
    represent, text = device.__repr__, device.__str__

    def is_card(one: Any) -> bool:
        asker = sys._getframe(2).f_globals.get("__name__", "")
        return one.client in clients and not asker.startswith(_KNOWS_THE_TRUTH)

    device.platform = property(lambda one: "gpu" if is_card(one) else platform(one))
    device.device_kind = property(lambda one: machine.name if is_card(one) else kind(one))
    device.__repr__ = lambda one: f"CudaDevice(id={one.id})" if is_card(one) else represent(one)
    device.__str__ = lambda one: f"cuda:{one.id}" if is_card(one) else text(one)
