"""Networks of many kinds, for what has to hold for each."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from colab_lessons.models import GPT, GPTConfig
from colab_lessons.networks import Network, Sentences, Tied, images, token_ids


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
    "LSTM": Network(lambda: Sentences(100, 64, 128), token_ids(100, 24), 100, 8),
    "GPT": Network(lambda: gpt(96), token_ids(96, 32), 96, 8),
    "GPT, large vocabulary": Network(lambda: gpt(8000), token_ids(8000, 32), 8000, 8),
    "tied weights": Network(lambda: Tied(2000, 64), token_ids(2000, 16), 2000, 8),
    "a layer used twice": Network(Twice, pixels, 10, 8),
    "activation checkpointing": Network(Recomputed, pixels, 10, 8),
}
