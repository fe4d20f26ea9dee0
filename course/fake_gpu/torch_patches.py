"""What `torch.cuda`, `torch.mps` and `torch.accelerator` answer on that machine.

Work is done when a call returns, so waiting is nothing, and events read the host's clock.
"""

from __future__ import annotations

import contextlib
import logging
import time
from types import SimpleNamespace
from typing import Any

import torch

from course.fake_gpu import tensors
from course.fake_gpu.machines import Machine
from course.fake_gpu.tensor_placement import DeviceMap


def install(machine: Machine) -> DeviceMap:
    """Patch the imported PyTorch to describe `machine`; return the map of tensors to cards."""
    # These query devices when they are imported, so import them before the patch.
    import torch._dynamo
    import torch._inductor.utils
    import torch.utils.benchmark
    import torch.utils.checkpoint

    said = logging.root.manager.disable
    logging.disable(logging.WARNING)
    with contextlib.suppress(ImportError):
        import bitsandbytes  # noqa: F401 - it looks for kernels of the card
    logging.disable(said)
    devices = DeviceMap(machine)
    _patch_accelerator(devices)
    if machine.is_nvidia:
        _patch_cuda(devices)
    else:
        _patch_mps()
    _patch_generators(devices)
    _patch_autocast(machine)
    torch.compile = _compile_nothing  # there is no Triton, and no card to compile for
    tensors.install(devices)
    return devices


def _patch_accelerator(devices: DeviceMap) -> None:
    kind = devices.machine.kind
    replacements = {
        "is_available": lambda: True,
        "current_accelerator": lambda check_available=False: torch.device(kind),
        "device_count": lambda: devices.machine.cards,
        "synchronize": _wait,
        "current_device_index": lambda: devices.current,
        "set_device_index": lambda device: _choose(devices, device),
        "current_stream": lambda device=None: Stream(),
        "empty_cache": lambda: _empty_caches(devices),
    }
    _replace(torch.accelerator, replacements)


def _patch_cuda(devices: DeviceMap) -> None:
    machine = devices.machine
    major, minor = map(int, machine.capability.split("."))
    properties = SimpleNamespace(
        name=machine.name, total_memory=machine.memory, major=major, minor=minor,
        multi_processor_count=machine.multiprocessors, warp_size=32, is_integrated=0, gcnArchName="",
    )  # fmt: skip
    torch.version.cuda = machine.built_for
    torch.backends.cudnn.version = lambda: 91002
    replacements = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "_is_compiled": lambda: True,
        "_initialized": True,
        "_lazy_init": lambda: None,
        "init": lambda: None,
        "_is_in_bad_fork": lambda: False,
        "device_count": lambda: machine.cards,
        "current_device": lambda: devices.current,
        "set_device": lambda device: _choose(devices, device),
        "device": lambda device: _chosen(devices, device),
        "synchronize": _wait,
        "get_device_properties": lambda device=None: properties,
        "get_device_capability": lambda device=None: (major, minor),
        "get_device_name": lambda device=None: machine.name,
        "get_arch_list": lambda: [f"sm_{major}{minor}"],
        "is_bf16_supported": lambda including_emulation=True: including_emulation or major >= 8,
        "Stream": Stream,
        "Event": Event,
        "stream": lambda stream: contextlib.nullcontext(),
        "current_stream": lambda device=None: Stream(),
        "default_stream": lambda device=None: Stream(),
        "is_current_stream_capturing": lambda: False,
        "get_rng_state": lambda device="cuda": torch.get_rng_state(),
        "set_rng_state": lambda state, device="cuda": None,
        "get_rng_state_all": lambda: [torch.get_rng_state()] * torch.cuda.device_count(),
        "set_rng_state_all": lambda states: None,
        "manual_seed": lambda seed: None,
        "manual_seed_all": lambda seed: None,
    }
    _replace(torch.cuda, replacements)
    memory = _memory_functions(devices)
    _replace(torch.cuda.memory, memory)
    _replace(torch.cuda, {name: f for name, f in memory.items() if not name.startswith("_")})


def _memory_functions(devices: DeviceMap) -> dict[str, Any]:
    def card(device: Any):
        return devices.allocators[_index(devices, device)]

    def count(name: str, what: str):
        return lambda device=None: getattr(card(device).counts[name], what)

    def allow(fraction: float, device: Any = None) -> None:
        card(device).limit = int(fraction * card(device).total)

    def record(enabled: str | None = "all", *_: Any, device: Any = None, **__: Any) -> None:
        card(device).history = [] if enabled else None

    return {
        "memory_allocated": count("allocated", "current"),
        "max_memory_allocated": count("allocated", "peak"),
        "memory_reserved": count("reserved", "current"),
        "max_memory_reserved": count("reserved", "peak"),
        "memory_stats": lambda device=None: card(device).stats(),
        "reset_peak_memory_stats": lambda device=None: card(device).reset_peaks(),
        "empty_cache": lambda: _empty_caches(devices),
        "mem_get_info": lambda device=None: (card(device).free_bytes, card(device).total),
        "set_per_process_memory_fraction": allow,
        "get_per_process_memory_fraction": lambda device=None: (
            card(device).limit / card(device).total
        ),
        "_record_memory_history": record,
        "_snapshot": lambda device=None, **_: {
            "device_traces": [list(c.history or ()) for c in devices.allocators]
        },
    }


def _patch_mps() -> None:
    _replace(torch.backends.mps, {"is_available": lambda: True, "is_built": lambda: True})
    _replace(
        torch.mps,
        {
            "synchronize": _wait,
            "empty_cache": lambda: None,
            "get_rng_state": torch.get_rng_state,
            "set_rng_state": lambda state: None,
        },
    )


def _patch_generators(devices: DeviceMap) -> None:
    kind = devices.machine.kind

    plain: Any = torch.Generator

    class Generator(plain):
        """A generator of the CPU that says it is the card's."""

        def __new__(cls, device: Any = "cpu") -> Any:
            made = super().__new__(cls)
            made.named = torch.device(device)
            return made

        def __init__(self, device: Any = "cpu"):
            pass

        @property
        def device(self) -> torch.device:
            """What it was asked to be."""
            return torch.device(kind, 0) if self.named.type == kind else self.named

    _replace(torch, {"Generator": Generator})


def _patch_autocast(machine: Machine) -> None:
    """The CPU's autocast runs, with the card's short format: its lists of operations differ a little."""
    autocast: Any = torch.amp.autocast_mode.autocast
    begin = autocast.__init__

    def start(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if device_type == machine.kind:
            device_type, dtype = "cpu", dtype or torch.float16
        begin(self, device_type, dtype, enabled, cache_enabled)

    autocast.__init__ = start


def _compile_nothing(model: Any = None, **options: Any) -> Any:
    return (lambda function: function) if model is None else model


class Stream:
    """The one stream there is: everything in it is done."""

    device_index = stream_id = 0

    def __init__(self, *_: Any, **__: Any):
        pass

    def synchronize(self) -> None:
        """Nothing is left to wait for."""

    wait_stream = wait_event = record_event = lambda self, *_: None
    query = lambda self: True  # noqa: E731
    is_capturing = lambda self: False  # noqa: E731


class Event:
    """A moment on the host's clock."""

    def __init__(self, *_: Any, **__: Any):
        self.moment = 0.0

    def record(self, stream: Any = None) -> None:
        """Keep this moment."""
        self.moment = time.perf_counter()

    def elapsed_time(self, other: Event) -> float:
        """Milliseconds from this moment to another."""
        return 1000 * (other.moment - self.moment)

    def synchronize(self) -> None:
        """Nothing is left to wait for."""

    def query(self) -> bool:
        """Whether the moment has come."""
        return True


def _wait(device: Any = None) -> None:
    """Everything is done already."""


def _empty_caches(devices: DeviceMap) -> None:
    for card in devices.allocators:
        card.empty_cache()


def _index(devices: DeviceMap, device: Any) -> int:
    if device is None:
        return devices.current
    index = device if isinstance(device, int) else torch.device(device).index
    return devices.current if index is None else index


def _choose(devices: DeviceMap, device: Any) -> None:
    devices.current = _index(devices, device)


@contextlib.contextmanager
def _chosen(devices: DeviceMap, device: Any):
    before = devices.current
    _choose(devices, device)
    try:
        yield
    finally:
        devices.current = before


def _replace(module: Any, replacements: dict[str, Any]) -> None:
    for name, replacement in replacements.items():
        setattr(module, name, replacement)
