"""Networks of many kinds, for what has to hold for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from colab_lessons.models import GPT, GPTConfig


@dataclass(frozen=True)
class Network:
    """How to make a network and its inputs; `classes` is what it tells apart, `rows` a usual batch."""

    make: Callable[[], nn.Module]
    inputs: Callable[[int], torch.Tensor]
    classes: int
    rows: int

    def loss(self, model: nn.Module) -> Callable[[int], torch.Tensor]:
        """Return the function from rows to loss; `model` is one that `make` made."""

        def forward(rows: int) -> torch.Tensor:
            found = model(self.inputs(rows)).reshape(-1, self.classes)
            return F.cross_entropy(found, torch.randint(self.classes, (len(found),)))

        return forward


class LSTMLanguageModel(nn.Module):
    """An LSTM of `hidden` numbers between two tables of `width`."""

    def __init__(self, vocabulary: int, width: int, hidden: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, hidden, 2, batch_first=True)
        self.out = nn.Linear(hidden, vocabulary)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(self.words(ids))[0])


class Tied(nn.Module):
    """One table, read forwards and backwards."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.hidden = nn.Linear(width, width)
        self.out = nn.Linear(width, vocabulary, bias=False)
        self.out.weight = self.words.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(self.hidden(self.words(ids)).relu())


def images(side: int) -> Callable[[int], torch.Tensor]:
    """Return what makes so many pictures of `side` by `side` pixels in three colors."""
    return lambda rows: torch.rand(rows, 3, side, side)


def token_ids(vocabulary: int, seq_len: int) -> Callable[[int], torch.Tensor]:
    """Return what makes so many rows of `seq_len` numbers below `vocabulary`."""
    return lambda rows: torch.randint(vocabulary, (rows, seq_len))


class Twice(nn.Module):
    """A layer that is used twice."""

    def __init__(self):
        super().__init__()
        self.again = nn.Linear(784, 784)
        self.out = nn.Linear(784, 10)

    def forward(self, x):
        return self.out(self.again(self.again(x).relu()).relu())


class Recomputed(nn.Module):
    """Activation checkpointing, with dropout that has to repeat."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(784, 784), nn.ReLU(), nn.Dropout(0.1)) for _ in range(6)
        )
        self.out = nn.Linear(784, 10)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.out(x)


def mlp():
    layers = nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    return nn.Sequential(*layers)


def cnn():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip


def gpt(vocabulary):
    return GPT(GPTConfig(vocab_size=vocabulary, block_size=32, n_embd=64, n_head=4, n_layer=3))


def pixels(rows):
    return torch.rand(rows, 784)


NETWORKS = {
    "MLP": Network(mlp, pixels, 10, 8),
    "CNN with BatchNorm": Network(cnn, images(24), 10, 8),
    "LSTM": Network(lambda: LSTMLanguageModel(100, 64, 128), token_ids(100, 24), 100, 8),
    "GPT": Network(lambda: gpt(96), token_ids(96, 32), 96, 8),
    "GPT, large vocabulary": Network(lambda: gpt(8000), token_ids(8000, 32), 8000, 8),
    "tied weights": Network(lambda: Tied(2000, 64), token_ids(2000, 16), 2000, 8),
    "a layer used twice": Network(Twice, pixels, 10, 8),
    "activation checkpointing": Network(Recomputed, pixels, 10, 8),
}
