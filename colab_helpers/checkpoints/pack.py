"""Nested state as tensors and text, without pickle: a tree in JSON that names its tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from colab_helpers.checkpoints.store import CheckpointError

_PLAIN = (bool, int, float, str, type(None))


class Packer:
    """Collects the tensors of what it packs, by names that are their places.

    >>> packer = Packer()
    >>> packer.pack({"w": torch.zeros(2), "at": (1, 2)}, "model")
    {'dict': [['w', {'tensor': 'model.w'}], ['at', {'tuple': [1, 2]}]]}
    >>> list(packer.tensors)
    ['model.w']
    """

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        #: Each with its name, by place in memory: kept alive, so that no other comes to that place.
        self._seen: dict[tuple, tuple[str, torch.Tensor]] = {}
        self._storages: set[int] = set()

    def pack(self, value: Any, where: str) -> Any:
        """Return `value` as what JSON can hold; its tensors are collected, each once.

        `where` names the value in errors, and its tensors. Raises `CheckpointError` for what neither JSON
        nor safetensors can hold.
        """
        if type(value) in _PLAIN:
            return value
        if isinstance(value, torch.Tensor):
            return {"tensor": self._collect(value.detach(), where)}
        if isinstance(value, Mapping):
            return {"dict": [self._entry(key, inside, where) for key, inside in value.items()]}
        if isinstance(value, list | tuple):
            inside = [self.pack(one, f"{where}.{i}") for i, one in enumerate(value)]
            return {"tuple" if isinstance(value, tuple) else "list": inside}
        if hasattr(value, "__array__"):  # NumPy's
            return self._array(value, where)
        raise CheckpointError(
            f"{where} has the type {type(value).__name__}, and only tensors, numbers, text, lists and "
            "dicts are kept: anything else needs pickle, and a pickle runs whatever was put into it. "
            "Keep it in the code."
        )

    def _array(self, value: Any, where: str) -> Any:
        if value.dtype.kind not in "biuf":
            raise CheckpointError(
                f"{where} is an array of {value.dtype}: only real numbers are kept."
            )
        if value.ndim == 0:
            return value.item()
        return {
            "array": str(value.dtype),
            "shape": list(value.shape),
            "values": value.ravel().tolist(),
        }

    def _entry(self, key: Any, value: Any, where: str) -> list[Any]:
        if type(key) not in _PLAIN:
            raise CheckpointError(
                f"{where} has a key that is a {type(key).__name__}: use text or numbers."
            )
        return [key, self.pack(value, f"{where}.{key}")]

    def _collect(self, tensor: torch.Tensor, where: str) -> str:
        """Name a tensor; one that is the same numbers in the same memory, as tied weights are, stays one."""
        if tensor.layout is not torch.strided:
            raise CheckpointError(
                f"{where} is sparse, which safetensors cannot hold: keep it dense."
            )
        # Of a view that only says "conjugate" or "negative", the numbers themselves.
        tensor = tensor.resolve_conj().resolve_neg()
        shape = tensor.shape, tensor.stride(), tensor.dtype, tensor.device
        place = (tensor.data_ptr(), *shape) if tensor.numel() else (where,)
        if place in self._seen:
            return self._seen[place][0]
        storage = tensor.untyped_storage().data_ptr()
        name = where if where not in self.tensors else f"{where}~{len(self.tensors)}"
        # Two views of one storage would be written twice, which safetensors refuses.
        self.tensors[name] = tensor.clone() if storage in self._storages else tensor.contiguous()
        self._seen[place] = name, tensor
        self._storages.add(storage)
        return name


def unpack(node: Any, tensor: Callable[[str], torch.Tensor]) -> Any:
    """Return what `Packer.pack` made `node` of; `tensor(name)` gives its tensors.

    >>> unpack({"tuple": [1, {"tensor": "w"}]}, {"w": torch.ones(2)}.get)
    (1, tensor([1., 1.]))
    """
    if not isinstance(node, dict):
        return node
    if "tensor" in node:
        return tensor(node["tensor"])
    if "dict" in node:
        return {key: unpack(inside, tensor) for key, inside in node["dict"]}
    if "array" in node:
        import numpy

        return numpy.array(node["values"], dtype=node["array"]).reshape(node["shape"])
    [(kind, inside)] = node.items()
    values = [unpack(one, tensor) for one in inside]
    return tuple(values) if kind == "tuple" else values
