"""Corrections for what FakeTensorMode does not model.

Three things: real tensors that a step uses, the value that it asks for, and the workspace that oneDNN's
recurrent layer, which runs an LSTM on a CPU, keeps for the backward pass. The layer itself tells its
size, for a few rows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    FakeTensor,
    FakeTensorMode,
    unset_fake_temporarily,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from colab_helpers.memory.memory_tracker import TraceError

_RECURRENT = torch.ops.aten.mkldnn_rnn_layer.default
_VALUE = torch.ops.aten._local_scalar_dense.default
#: Rows of two small runs: the workspace grows in proportion to the rows, rounded up to pages.
_FEW, _MORE = 8, 16


class FakeTensors(TorchDispatchMode):
    """Returns a value when the step reads one, and counts the workspace that recurrent layers keep.

    The answer is 1, or 0.5 for a float. What a step makes on "meta" is made on the CPU, where its
    model is taken to be.
    """

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if getattr(kwargs.get("device"), "type", "") == "meta":  # as its model: taken for the CPU's
            kwargs["device"] = torch.device("cpu")
        try:
            result = function(*args, **kwargs)
        except DataDependentOutputException:
            if function is not _VALUE:
                raise
            return _one(args[0].dtype)
        if function is not _RECURRENT:
            return result
        *outputs, workspace = result
        return (*outputs, workspace.new_empty(_bytes_kept(args)))


class FakeExternalTensors(TorchDispatchMode):
    """Puts fake tensors in the place of real ones that a step uses: a data set, a mask, a frozen model.

    So nothing writes to them, and they do not count: they are there already. A real tensor that is
    trained would get a fake gradient, and is refused.
    """

    def __init__(self, fakes: FakeTensorMode):
        super().__init__()
        self.fakes = fakes
        self.meter: Any = None  # the one that counts, while it does

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is _VALUE and not isinstance(args[0], FakeTensor):
            with unset_fake_temporarily():
                return args[0].item()
        inside, named = tree_map(self._fake, (args, kwargs or {}))
        return function(*inside, **named)

    def _fake(self, thing: Any) -> Any:
        if not isinstance(thing, torch.Tensor) or isinstance(thing, FakeTensor):
            return thing
        if thing.requires_grad and torch.is_grad_enabled():
            raise TraceError(
                f"The step trains a tensor of shape {tuple(thing.shape)} that is not in `model`. Pass "
                "footprint a module with all trained parameters, such as nn.ModuleList([one, other])."
            )
        fake = self.fakes.from_tensor(thing.detach() if thing.requires_grad else thing)
        if self.meter is not None:
            self.meter.note_all(fake, counted=False)
        return fake


def _one(dtype: torch.dtype) -> bool | int | float | complex:
    """Return 1 as a value of this type, or 0.5 for a float: some steps divide by 1 - value."""
    if dtype is torch.bool:
        return True
    return 0.5 if dtype.is_floating_point else 1j**0 if dtype.is_complex else 1


def _bytes_kept(args: tuple) -> int:
    """Bytes of the workspace for a layer with these arguments; the first is (length, rows, features)."""
    rows = args[0].shape[1]
    if rows <= _MORE:
        return _measured(args, rows)
    few, more = (_measured(args, some) for some in (_FEW, _MORE))
    return round(few + (more - few) / (_MORE - _FEW) * (rows - _FEW))


def _measured(args: tuple, rows: int) -> int:
    """Run the real layer once with so many rows, and see what it keeps."""
    inputs, *weights, hidden, cell = args[:7]
    length, _, features = inputs.shape
    shapes = [(length, rows, features), *(w.shape for w in weights)]
    shapes += [(rows, state.shape[-1]) for state in (hidden, cell)]
    with unset_fake_temporarily(), torch.enable_grad():
        *_, workspace = _RECURRENT(*(torch.zeros(shape) for shape in shapes), *args[7:])
        return workspace.untyped_storage().nbytes()
