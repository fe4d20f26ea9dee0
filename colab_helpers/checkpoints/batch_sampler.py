"""Shuffled batches whose order follows from the number of the step alone."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import torch

_APART = 1_000_003  # epochs until two neighboring seeds meet


@dataclass(frozen=True)
class ResumableBatchSampler:
    """The indices of each step's examples, reshuffled every epoch and reproducible from the step alone.

    So the position in the data needs no saving: it is the number of steps done. `examples` is how
    many there are, `batch_size` how many a step takes; examples left over at the end of an
    epoch are dropped, different ones each epoch. `seed` chooses the order. Raises ValueError where an
    epoch has not even one batch.

    >>> batches = ResumableBatchSampler(examples=10, batch_size=4)
    >>> batches[1] == next(iter(batches.starting_at(1)))
    True
    >>> len(set(batches[0] + batches[1]))
    8
    """

    examples: int
    batch_size: int
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= self.examples:
            raise ValueError(
                f"batch_size={self.batch_size}: it must be from 1 to the size of the data set, which has "
                f"{self.examples} examples."
            )

    @property
    def steps_per_epoch(self) -> int:
        """Steps in an epoch."""
        return self.examples // self.batch_size

    def __getitem__(self, step: int) -> list[int]:
        """Return the examples of a step, counted from 0 over all epochs. Raises IndexError below 0."""
        if step < 0:
            raise IndexError(f"step {step}: steps are counted from 0.")
        epoch, place = divmod(step, self.steps_per_epoch)
        return self._order(epoch)[place * self.batch_size : (place + 1) * self.batch_size]

    def __iter__(self) -> Iterator[list[int]]:
        """Raise TypeError: a DataLoader that took the sampler itself would resume at step 0."""
        raise TypeError("Give the DataLoader `batch_sampler=sampler.starting_at(step)`.")

    def starting_at(self, step: int) -> Iterator[list[int]]:
        """Give the batches from `step` on, without end: the `batch_sampler` of a DataLoader.

        A loader's workers fetch ahead of the training, so don't save how far *it* has read. Give the
        loader its own `generator`: without one, it draws a seed from PyTorch's generator each time it
        starts, and a resumed run starts it one extra time. Raises IndexError below 0, at the first batch.
        """
        if step < 0:
            raise IndexError(f"step {step}: steps are counted from 0.")
        epoch, place = divmod(step, self.steps_per_epoch)
        while True:
            order = self._order(epoch)
            for i in range(place, self.steps_per_epoch):
                yield order[i * self.batch_size : (i + 1) * self.batch_size]
            epoch, place = epoch + 1, 0

    def _order(self, epoch: int) -> list[int]:
        return _shuffled(self.examples, (_APART * self.seed + epoch) % 2**32)


@functools.lru_cache(maxsize=2)
def _shuffled(examples: int, seed: int) -> list[int]:
    # PyTorch's generator takes 32 bits of a seed.
    return torch.randperm(examples, generator=torch.Generator().manual_seed(seed)).tolist()
