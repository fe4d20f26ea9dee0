"""Where each tensor lies: its storage is marked; what is not marked lies on the CPU."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch

from colab_helpers.memory.allocator import Allocator, Block, OutOfMemoryError
from course.fake_gpu.machines import Machine


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage:
    """The bytes below a tensor, whatever modes are active."""
    with torch._C.DisableTorchFunction():
        return tensor.untyped_storage()


def is_fake(tensor: Any) -> bool:
    """Whether it is one of PyTorch's tensors without data: they take no memory anywhere."""
    return type(tensor).__name__ == "FakeTensor"


class DeviceMap:
    """The cards of a machine, and on which of them each storage lies."""

    def __init__(self, machine: Machine):
        self.machine = machine
        self.allocators = [
            Allocator(machine.memory, machine.context, i) for i in range(machine.cards)
        ]
        self.current = 0  # the card that is meant where none is named
        self._placements: dict[int, tuple[weakref.ref, int, Block | None]] = {}
        self._workspaces: dict[int, set[bool]] = {i: set() for i in range(machine.cards)}

    def device(self, index: int) -> torch.device:
        """The device that a card is called."""
        return torch.device(self.machine.kind, index)

    def card(self, device: Any) -> int | None:
        """The number of the card that a device means; None for another kind of device."""
        if isinstance(device, int) and not isinstance(device, bool):
            return device
        kind, _, index = str(device).partition(":")
        if kind != self.machine.kind:
            return None
        number = int(index) if index else self.current
        if number >= self.machine.cards:
            raise torch.AcceleratorError(f"CUDA error: invalid device ordinal ({device})")
        return number

    def card_of(self, tensor: torch.Tensor) -> int | None:
        """The card on which a tensor lies; None for the CPU, and for tensors without a storage."""
        try:
            found = self._placements.get(storage_of(tensor)._cdata)
        except (NotImplementedError, RuntimeError):  # sparse
            return None
        return found[1] if found else None

    def card_of_storage(self, storage: Any) -> int | None:
        """The same for a storage, typed or not."""
        found = self._placements.get(storage._cdata)
        return found[1] if found else None

    def place(self, tensor: torch.Tensor, index: int) -> None:
        """Place a tensor on a card and count its bytes there. Raises `torch.OutOfMemoryError`."""
        if tensor.layout == torch.strided:
            self.place_storage(storage_of(tensor), index, counted=not is_fake(tensor))

    def place_storage(
        self, storage: torch.UntypedStorage, index: int, counted: bool = True
    ) -> None:
        """Let a storage lie on a card; `counted=False` for one without data."""
        key = storage._cdata
        if key in self._placements:
            return
        counted = counted and self.machine.is_nvidia and storage.nbytes() > 0
        block = self._take(storage.nbytes(), index) if counted else None
        self._placements[key] = (weakref.ref(storage, lambda _: self._forget(key)), index, block)

    def take_workspace(self, index: int, in_backward: bool) -> None:
        """Maths libraries take memory once a thread: the caller's, and autograd's own."""
        if self.machine.workspace and in_backward not in self._workspaces[index]:
            self._workspaces[index].add(in_backward)
            self._take(self.machine.workspace, index)

    def common_card(
        self, tensors: Sequence[torch.Tensor]
    ) -> tuple[int | None, torch.Tensor | None]:
        """The card of the first tensor that lies on one, and the first that lies on the CPU or another.

        A number, which has no dimension, may lie on the CPU.
        """
        found = [self.card_of(tensor) for tensor in tensors]
        card = next((index for index in found if index is not None), None)
        if card is None:
            return None, None
        strays = (
            t
            for t, i in zip(tensors, found, strict=True)
            if i != card and (i is not None or t.dim())
        )
        return card, next((t for t in strays if t.device.type != "meta"), None)

    def check_room(self, size: int, index: int) -> None:
        """Raise `torch.OutOfMemoryError` where a card has no room for so many bytes."""
        self.allocators[index].free(self._take(size, index))

    def _take(self, size: int, index: int) -> Block:
        try:
            return self.allocators[index].allocate(size)
        except OutOfMemoryError as error:
            raise torch.OutOfMemoryError(str(error)) from None

    def _forget(self, key: int) -> None:
        _, index, block = self._placements.pop(key)
        if block is not None:
            self.allocators[index].free(block)
