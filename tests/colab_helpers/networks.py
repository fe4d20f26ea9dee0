"""Networks of many kinds, for what has to hold for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from colab_helpers.lessons.models import GPT, GPTConfig


@dataclass(frozen=True)
class Network:
    """How to make a network, its inputs for so many rows, and what it tells apart for each row."""

    make: Callable[[], nn.Module]
    inputs: Callable[[int], torch.Tensor]
    classes: int
    places: tuple[int, ...] = ()

    def loss(self, model: nn.Module) -> Callable[[int], torch.Tensor]:
        """Return the function from rows to loss."""

        def forward(rows: int) -> torch.Tensor:
            wanted = torch.randint(self.classes, (rows, *self.places))
            found = model(self.inputs(rows)).reshape(-1, self.classes)
            return F.cross_entropy(found, wanted.reshape(-1))

        return forward


class Sentences(nn.Module):
    """An LSTM between two tables."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(100, 64)
        self.lstm = nn.LSTM(64, 128, 2, batch_first=True)
        self.out = nn.Linear(128, 100)

    def forward(self, x):
        return self.out(self.lstm(self.words(x))[0])


class Tied(nn.Module):
    """One table, read forwards and backwards."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(2000, 64)
        self.hidden = nn.Linear(64, 64)
        self.out = nn.Linear(64, 2000, bias=False)
        self.out.weight = self.words.weight

    def forward(self, x):
        return self.out(self.hidden(self.words(x)).relu())


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
    return GPT(GPTConfig(vocabulary=vocabulary, context=32, width=64, heads=4, layers=3))


def pixels(rows):
    return torch.rand(rows, 784)


NETWORKS = {
    "MLP": Network(mlp, pixels, 10),
    "CNN with BatchNorm": Network(cnn, lambda n: torch.rand(n, 3, 24, 24), 10),
    "LSTM": Network(Sentences, lambda n: torch.randint(100, (n, 24)), 100, (24,)),
    "GPT": Network(lambda: gpt(96), lambda n: torch.randint(96, (n, 32)), 96, (32,)),
    "GPT, large vocabulary": Network(
        lambda: gpt(8000), lambda n: torch.randint(8000, (n, 32)), 8000, (32,)
    ),
    "tied weights": Network(Tied, lambda n: torch.randint(2000, (n, 16)), 2000, (16,)),
    "a layer used twice": Network(Twice, pixels, 10),
    "activation checkpointing": Network(Recomputed, pixels, 10),
}
