"""Memory over time, by what it holds."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import torch

from colab_helpers.memory.storage_tracker import count_storages

OTHER = "activations, temporaries"


class MemoryByCategory:
    """Counts the bytes of tensors in a `with` block, on any device, and keeps apart what you name.

    What nobody named is activations and temporaries.

    >>> with MemoryByCategory("cpu") as watched:
    ...     weight = torch.zeros(100)
    ...     watched.name("parameters", [weight])
    ...     product = weight * 2
    >>> watched.timeline()
    {'parameters': [400, 400], 'activations, temporaries': [0, 400]}
    """

    def __init__(self, device: torch.device | str):
        self._device, self._kinds = torch.device(device), {}  # type: ignore[var-annotated]
        self._stack = ExitStack()

    def __enter__(self) -> MemoryByCategory:
        self.tracker = self._stack.enter_context(count_storages(self._device))
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def name(self, kind: str, tensors: Iterable[torch.Tensor]) -> None:
        """Assign the live `tensors` to category `kind`; their bytes count there from their allocation on."""
        self._kinds |= {self.tracker.number(tensor): kind for tensor in tensors}

    def timeline(self) -> dict[str, list[int]]:
        """Return for each kind its live bytes after each allocation or release."""
        kinds = list(dict.fromkeys([*self._kinds.values(), OTHER]))
        live, lines = dict.fromkeys(kinds, 0), {kind: [] for kind in kinds}  # type: ignore[var-annotated]
        for change in self.tracker.changes:
            live[self._kinds.get(change.storage, OTHER)] += change.bytes
            for kind in kinds:
                lines[kind].append(live[kind])
        return lines
