"""What do tensors without data leave out of a step, and what stands in for it?

Two things: the value that a step asks for, and the workspace that oneDNN's recurrent layer, which runs
an LSTM on a CPU, keeps for the backward pass. The layer itself tells its size, for a few rows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode

_RECURRENT = torch.ops.aten.mkldnn_rnn_layer.default
_VALUE = torch.ops.aten._local_scalar_dense.default
#: Rows of two small runs: the workspace grows in proportion to the rows, rounded up to pages.
_FEW, _MORE = 8, 16


class StandIns(TorchDispatchMode):
    """Answers 1 where a value is asked for, and gives recurrent layers the workspace that they keep."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        try:
            result = function(*args, **(kwargs or {}))
        except DataDependentOutputException:
            if function is not _VALUE:
                raise
            return _one(args[0].dtype)
        if function is not _RECURRENT:
            return result
        *outputs, workspace = result
        return (*outputs, workspace.new_empty(_bytes_kept(args)))


def _one(dtype: torch.dtype) -> bool | int | float | complex:
    """1 as a value of this type would come to Python."""
    if dtype is torch.bool:
        return True
    return 1.0 if dtype.is_floating_point else 1j**0 if dtype.is_complex else 1


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
