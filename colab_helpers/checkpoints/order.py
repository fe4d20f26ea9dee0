"""Shuffled batches whose order follows from the number of the step alone."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import torch

_APART = 1_000_003  # epochs until two neighbouring seeds meet


@dataclass(frozen=True)
class Batches:
    """Row numbers of each step, shuffled anew in each epoch, the same whenever you ask.

    So the position in the data needs no saving: it is the number of steps done. `rows` is how many rows
    there are, `size` how many a step takes; what is left at the end of an epoch is passed over, in each
    epoch other rows. `seed` chooses the order. Raises ValueError where an epoch has not even one batch.

    >>> batches = Batches(rows=10, size=4)
    >>> batches[1] == next(iter(batches.starting_at(1)))
    True
    >>> len(set(batches[0] + batches[1]))
    8
    """

    rows: int
    size: int
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.size <= self.rows:
            raise ValueError(f"{self.size} rows a step of {self.rows}: no batch at all.")

    @property
    def an_epoch(self) -> int:
        """Steps in an epoch."""
        return self.rows // self.size

    def __getitem__(self, step: int) -> list[int]:
        """Return the rows of a step, counted from 0 over all epochs. Raises IndexError below 0."""
        if step < 0:
            raise IndexError(f"step {step}: steps are counted from 0.")
        epoch, place = divmod(step, self.an_epoch)
        return self._order(epoch)[place * self.size : (place + 1) * self.size]

    def starting_at(self, step: int) -> Iterator[list[int]]:
        """Give the batches from `step` on, without end: the `batch_sampler` of a DataLoader.

        A loader's workers fetch ahead of the training, so what *it* has read is no position to save. Give
        the loader a `generator` of its own: without one, it draws a seed from PyTorch's whenever it begins,
        and a resumed run begins once more.
        """
        epoch, place = divmod(step, self.an_epoch)
        while True:
            order = self._order(epoch)
            for i in range(place, self.an_epoch):
                yield order[i * self.size : (i + 1) * self.size]
            epoch, place = epoch + 1, 0

    def _order(self, epoch: int) -> list[int]:
        return _shuffled(self.rows, (_APART * self.seed + epoch) % 2**32)


@functools.lru_cache(maxsize=2)
def _shuffled(rows: int, seed: int) -> list[int]:
    # PyTorch's generator takes 32 bits of a seed.
    return torch.randperm(rows, generator=torch.Generator().manual_seed(seed)).tolist()
