"""CPU tensors that report a fake GPU as their device.

They report that device and copy to and from it as if it existed. One mode places what is created with
`device="cuda"` on a card; another intercepts each operation below autograd: it refuses mixed devices and
places each result on the device of its inputs.
"""

from __future__ import annotations

import re
import sys
import threading
import weakref
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from course.fake_gpu.tensor_placement import DeviceMap, is_fake, storage_of

T = torch.Tensor
_PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "linear", "addmv", "mv", "dot"}
#: Operations that may take tensors of several devices.
_CROSSING = set(
    "copy_ _to_copy set_ index index_put index_put_ _index_put_impl_ _local_scalar_dense resize_ "
    "lift_fresh lift_fresh_copy".split()
)
_NO_FLOAT64 = (
    "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. "
    "Please use float32 instead."
)
_NOT_ON_APPLE = {torch.float64, torch.float8_e4m3fn, torch.float8_e5m2}
#: What of PyTorch itself has to know the truth: tensors without data are made of real ones there.
_SEES_REAL_DEVICE = ("bitsandbytes.backends", "torch._subclasses", "torch.fx")

#: The error of PyTorch's allocator for the host's memory, c10/core/impl/alloc_cpu.cpp.
_TOO_LARGE = re.compile(r"DefaultCPUAllocator: .*you tried to allocate (\d+) bytes")

_here = threading.local()  # .birth: the card for what is made now; .moving: where a copy goes


@contextmanager
def _set(**values: Any):
    before = {name: getattr(_here, name, None) for name in values}
    vars(_here).update(values)
    try:
        yield
    finally:
        vars(_here).update(before)


class PlacementMode(TorchDispatchMode):
    """Sees each operation: where its tensors lie, and where its result belongs."""

    def __init__(self, devices: DeviceMap):
        super().__init__()
        self.devices = devices

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here; keeping it out would cost each operation

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        """Run one operation as the card would."""
        kwargs = kwargs or {}
        name = function.__name__.split(".")[0]
        tensors = _strided((args, kwargs))
        card, stray = self.devices.common_card(tensors)
        if stray is not None and name not in _CROSSING and not name.startswith("_foreach"):
            raise RuntimeError(self._mixed(card, stray))
        if card is not None:
            self._before(name, tensors, card)
        target = card if card is not None else getattr(_here, "birth", None)
        try:
            result = function(*args, **kwargs)
        except RuntimeError as error:
            self._refuse(error, target)
            raise
        moving = getattr(_here, "moving", None)
        if moving is not None and name == "_to_copy":
            [target] = moving
        if target is not None and name != "copy_":
            known = set(map(id, tensors))
            try:
                for tensor in _strided(result):
                    if id(tensor) not in known:
                        self.devices.place(tensor, target)
            except torch.OutOfMemoryError:
                del result  # the traceback must not keep it
                raise
        return result

    def _before(self, name: str, tensors: list[T], card: int) -> None:
        if name in _PRODUCTS and not any(map(is_fake, tensors)):
            self.devices.take_workspace(card, torch._C._current_graph_task_id() != -1)
        if self.devices.machine.kind == "mps" and any(t.dtype in _NOT_ON_APPLE for t in tensors):
            raise TypeError(f"{name}: this dtype is not supported on MPS.")

    def _refuse(self, error: RuntimeError, card: int | None) -> None:
        """More than this host has: raise the card's own error, if it is more than the card has too."""
        wanted = _TOO_LARGE.search(str(error))
        if card is not None and wanted:
            self.devices.check_room(int(wanted[1]), card)

    def _mixed(self, card: int, stray: T) -> str:
        other = self.devices.card_of(stray)
        where = "cpu" if other is None else self.devices.device(other)
        return (
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{self.devices.device(card)} and {where}!"
        )


class CreationMode(TorchFunctionMode):
    """Lets what is made with `device="cuda"` lie on a card."""

    def __init__(self, devices: DeviceMap):
        super().__init__()
        self.devices = devices

    def __torch_function__(self, function, types, args=(), kwargs=None):
        """Make one thing where it was asked for."""
        kwargs = dict(kwargs or {})
        if function in (torch.device, torch._C._nn._parse_to):
            return function(*args, **kwargs)
        pin = kwargs.pop("pin_memory", False)
        card = self._wanted(args, kwargs)
        if card is None:
            result = function(*args, **kwargs)
            return _pin(result) if pin and isinstance(result, T) else result
        if self.devices.machine.kind == "mps" and kwargs.get("dtype") is torch.float64:
            raise TypeError(_NO_FLOAT64)
        args = tuple("cpu" if isinstance(a, torch.device) else a for a in args)
        if "device" in kwargs:
            kwargs["device"] = "cpu"
        with _set(birth=card):
            result = function(*args, **kwargs)
        if isinstance(result, T) and self.devices.card_of(result) is None:
            # What comes from Python's or NumPy's numbers passes no operation that makes it.
            result = result.clone() if function is not torch.tensor else result
            self.devices.place(result, card)
        return result

    def _wanted(self, args: tuple, kwargs: dict) -> int | None:
        named = [kwargs["device"]] if kwargs.get("device") is not None else []
        named += [a for a in args if isinstance(a, torch.device)]
        return self.devices.card(named[0]) if named else None


class TensorPatches:
    """Replacements for tensor methods that report a device or copy to another one."""

    def __init__(self, devices: DeviceMap):
        self.devices = devices
        self._device, self._to, self._numpy, self._repr = T.device, T.to, T.numpy, T.__repr__

    def install(self) -> None:
        """Give them to every tensor, in every thread and inside of every mode."""
        own: dict[str, Any] = {
            "device": property(lambda t: self.device(t)),
            "is_cuda": property(lambda t: self.device(t).type == "cuda"),
            "is_mps": property(lambda t: self.device(t).type == "mps"),
            "is_cpu": property(lambda t: self.device(t).type == "cpu"),
            "get_device": lambda t: (
                -1 if self.devices.card_of(t) is None else self.devices.card_of(t)
            ),
            "to": lambda t, *args, **kwargs: self.to(t, *args, **kwargs),
            "cuda": lambda t, device=None, **_: self.to(t, device or "cuda"),
            "cpu": lambda t, **_: self.to(t, "cpu"),
            "numpy": lambda t, **kwargs: self.numpy(t, **kwargs),
            "__repr__": lambda t, **kwargs: self.repr(t, **kwargs),
            "pin_memory": lambda t, *_: _pin(t.clone()),
            "is_pinned": lambda t, *_: storage_of(t) in _pinned,
        }
        for name, answer in own.items():
            setattr(T, name, answer)

    def device(self, tensor: T) -> torch.device:
        """Where it lies."""
        true = self._device.__get__(tensor)
        asker = sys._getframe(2).f_globals.get("__name__", "")
        if true.type == "meta" or asker.startswith(_SEES_REAL_DEVICE):
            return true
        card = self.devices.card_of(tensor)
        return true if card is None else self.devices.device(card)

    def to(self, tensor: T, *args: Any, **kwargs: Any) -> T:
        """Tensor.to, between the CPU and cards."""
        copy, other = kwargs.pop("copy", False), kwargs.pop("other", None)
        if args and isinstance(args[0], T):
            other, args = args[0], args[1:]
        if other is not None:
            kwargs = {"device": other.device, "dtype": other.dtype, **kwargs}
        device, dtype, non_blocking, layout = torch._C._nn._parse_to(*args, **kwargs)
        wanted = {"memory_format": layout} if layout is not None else {}
        dtype = dtype or tensor.dtype
        here = self.devices.card_of(tensor)
        there = here if device is None else self.devices.card(device)
        if there is not None and self.devices.machine.kind == "mps" and dtype is torch.float64:
            raise TypeError(_NO_FLOAT64)
        if device is not None and there is None and device.type != "cpu":
            return _call_unpatched(
                self._to, tensor, device, dtype, **wanted
            )  # to meta, for example
        if here == there:
            return _call_unpatched(self._to, tensor, dtype, non_blocking, copy, **wanted)
        if tensor.requires_grad and torch.is_grad_enabled():
            return _Move.apply(tensor, self, there, dtype, wanted)
        return self.moved(tensor, there, dtype, wanted)

    def moved(self, tensor: T, card: int | None, dtype: torch.dtype, wanted: dict) -> T:
        """A copy of the tensor on another card, or on the CPU for None."""
        with _set(moving=(card,)):
            return _call_unpatched(self._to, tensor, dtype, copy=True, **wanted)

    def numpy(self, tensor: T, **kwargs: Any) -> Any:
        """Tensor.numpy, refused on a card."""
        card = self.devices.card_of(tensor)
        if card is not None:
            raise TypeError(
                f"can't convert {self.devices.device(card)} device type tensor to numpy. Use Tensor.cpu() to "
                "copy the tensor to host memory first."
            )
        return _call_unpatched(self._numpy, tensor, **kwargs)

    def repr(self, tensor: T, **kwargs: Any) -> str:
        """The tensor's text, with its device."""
        card = self.devices.card_of(tensor)
        if card is None or is_fake(tensor):
            return _call_unpatched(self._repr, tensor, **kwargs)
        text = _call_unpatched(self._repr, tensor.detach().cpu())
        return f"{text[:-1]}, device='{self.devices.device(card)}')"


def _call_unpatched(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call PyTorch's own method: through a mode it would come back to ours, which has its name now."""
    with torch._C.DisableTorchFunction():
        return function(*args, **kwargs)


class _Move(torch.autograd.Function):
    """A copy between devices whose gradient comes back to where the tensor lay."""

    @staticmethod
    def forward(ctx, tensor, answers, card, dtype, wanted):
        ctx.answers, ctx.card, ctx.dtype = answers, answers.devices.card_of(tensor), tensor.dtype
        return answers.moved(tensor, card, dtype, wanted)

    @staticmethod
    def backward(ctx, gradient):
        return ctx.answers.moved(gradient, ctx.card, ctx.dtype, {}), None, None, None, None


_pinned: weakref.WeakSet = weakref.WeakSet()  # storages: each has one Python object while it lives


def _pin(tensor: T) -> T:
    _pinned.add(storage_of(tensor))
    return tensor


def install(devices: DeviceMap) -> None:
    """Patch PyTorch's tensors, in this thread and in threads started from it."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    TensorPatches(devices).install()
    _patch_fake_tensors(devices, FakeTensor, FakeTensorMode)
    _patch_storages(devices)

    hooks = torch.autograd.graph.saved_tensors_hooks
    begin = hooks.__init__

    def inside(hook):
        def call(*args):
            with CreationMode(devices):  # autograd calls it outside of every mode
                return hook(*args)

        return call

    hooks.__init__ = lambda self, pack, unpack: begin(self, inside(pack), inside(unpack))  # type: ignore

    run = threading.Thread.run

    def run_in_modes(thread):
        with CreationMode(devices), PlacementMode(devices):
            run(thread)

    threading.Thread.run = run_in_modes  # type: ignore[method-assign]
    CreationMode(devices).__enter__()
    PlacementMode(devices).__enter__()


def _patch_fake_tensors(devices: DeviceMap, fake_tensor: Any, fake_mode: Any) -> None:
    """A tensor without data lies where the one does that it stands for."""
    plain, convert = fake_tensor.device.fget, fake_mode.from_tensor

    def device(fake):
        asker = sys._getframe(1).f_globals.get("__name__", "")
        true = plain(fake)
        if true.type == "meta" or asker.startswith(_SEES_REAL_DEVICE):  # meta: inside an operation
            return true
        card = devices.card_of(fake)
        return true if card is None else devices.device(card)

    def from_tensor(mode, tensor, *args, **kwargs):
        card = devices.card_of(tensor)
        fake = convert(mode, tensor, *args, **kwargs)
        if card is not None:
            devices.place(fake, card)
        return fake

    fake_tensor.device = fake_tensor.device.setter(None).getter(device)
    fake_mode.from_tensor = from_tensor


def _patch_storages(devices: DeviceMap) -> None:
    """Copies of storages, and files with them, keep the card: deepcopy, torch.save, torch.load."""
    base: Any = torch.storage._StorageBase
    clone = base.clone

    def cloned(storage):
        copy, card = clone(storage), devices.card_of_storage(storage)
        if card is not None:
            devices.place_storage(copy, card)
        return copy

    def tag(storage):
        card = devices.card_of_storage(storage)
        return None if card is None else str(devices.device(card))

    def restore(storage, location):
        kind, _, index = location.partition(":")
        if kind != devices.machine.kind:
            return None
        devices.place_storage(storage, int(index or 0))
        return storage

    base.clone = cloned
    torch.serialization.register_package(5, tag, restore)


def _strided(things: Any) -> list[T]:
    return [t for t in tree_iter(things) if isinstance(t, T) and t.layout == torch.strided]
