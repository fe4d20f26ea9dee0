"""The networks on which plans are tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from colab_lessons.models import GPT, GPTConfig

SMALL = GPTConfig(vocab_size=96, block_size=128, n_embd=256, n_head=8, n_layer=4)


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


class Residual(nn.Module):
    """Two convolutions, and a way past them."""

    def __init__(self, width: int, out: int, stride: int = 1):
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(width, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        same = width == out and stride == 1
        self.past = nn.Identity() if same else nn.Conv2d(width, out, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (rows, width, height, breadth) to (rows, out, …), the sides divided by the stride."""
        return F.relu(self.past(x) + self.inner(x))


class Bottleneck(nn.Module):
    """ResNet-50's block, with its stride in the 3 × 3 convolution (v1.5)."""

    def __init__(self, width: int, inner: int, stride: int = 1):
        super().__init__()
        out = 4 * inner
        self.inner = nn.Sequential(
            nn.Conv2d(width, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(),
            nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(),
            nn.Conv2d(inner, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        self.past: nn.Module = nn.Identity()
        if width != out:
            way = nn.Conv2d(width, out, 1, stride, bias=False)
            self.past = nn.Sequential(way, nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (rows, width, height, breadth) to (rows, 4 · inner, …)."""
        return F.relu(self.past(x) + self.inner(x))


class Sentences(nn.Module):
    """An LSTM of `hidden` numbers between two tables of `width`."""

    def __init__(self, vocabulary: int, width: int, hidden: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, hidden, 2, batch_first=True)
        self.out = nn.Linear(hidden, vocabulary)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Map ids of (rows, moments) to (rows, moments, vocabulary)."""
        return self.out(self.lstm(self.words(ids))[0])


class UNet(nn.Module):
    """Two steps down, two up, and what each level has seen beside it (Ronneberger et al., 2015)."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = _twice(3, width), _twice(width, 2 * width)
        self.lowest = _twice(2 * width, 4 * width)
        self.up_second = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.up_first = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.back_second, self.back_first = _twice(4 * width, 2 * width), _twice(2 * width, width)
        self.out = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, 3, height, width) to (batch, height, width, classes)."""
        first = self.first(x)  # (batch, width, h, w)
        second = self.second(F.max_pool2d(first, 2))  # (batch, 2 width, h/2, w/2)
        lowest = self.lowest(F.max_pool2d(second, 2))  # (batch, 4 width, h/4, w/4)
        x = self.back_second(torch.cat([self.up_second(lowest), second], 1))
        x = self.back_first(torch.cat([self.up_first(x), first], 1))
        return self.out(x).permute(0, 2, 3, 1)


def _twice(width: int, out: int) -> nn.Module:
    """Two convolutions that keep the size of a picture."""
    layers = nn.Conv2d(width, out, 3, padding=1), nn.ReLU(), nn.Conv2d(out, out, 3, padding=1)
    return nn.Sequential(*layers, nn.ReLU())


class Tied(nn.Module):
    """One table, read forwards and backwards."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.hidden = nn.Linear(width, width)
        self.out = nn.Linear(width, vocabulary, bias=False)
        self.out.weight = self.words.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Map ids of (rows, moments) to (rows, moments, vocabulary)."""
        return self.out(self.hidden(self.words(ids)).relu())


class Recomputed(GPT):
    """A GPT with activation checkpointing."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the logits of the next token at every position."""
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.norm(x) @ self.tokens.weight.T


def mlp() -> nn.Module:
    """784 pixels in, two hidden layers of 1,024."""
    layers = nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
    return nn.Sequential(*layers)


def cnn() -> nn.Module:
    """Two convolutions and two linear layers, for 32 × 32 pixels in three colours."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(4096, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def resnet() -> nn.Module:
    """Three residual blocks with BatchNorm."""
    blocks = Residual(32, 32), Residual(32, 64, 2), Residual(64, 128, 2)
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), *blocks, *head)


def resnet50() -> nn.Module:
    """ResNet-50 v1.5. Source: He et al., "Deep Residual Learning for Image Recognition" (2015)."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    ]  # fmt: skip
    width = 64
    for inner, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(width, inner, stride if i == 0 else 1))
            width = 4 * inner
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def images(side: int) -> Callable[[int], torch.Tensor]:
    """Return what makes so many pictures of `side` by `side` pixels in three colours."""
    return lambda rows: torch.rand(rows, 3, side, side)


def token_ids(vocabulary: int, moments: int) -> Callable[[int], torch.Tensor]:
    """Return what makes so many rows of `moments` numbers below `vocabulary`."""
    return lambda rows: torch.randint(vocabulary, (rows, moments))


LARGE_VOCABULARY = GPTConfig(vocab_size=16_000, block_size=128, n_embd=256, n_head=8, n_layer=2)
NETWORKS = {
    "MLP": Network(mlp, lambda rows: torch.rand(rows, 784), 10, 256),
    "CNN": Network(cnn, images(32), 10, 128),
    "ResNet with BatchNorm": Network(resnet, images(32), 10, 64),
    "U-Net": Network(lambda: UNet(16, 5), images(64), 5, 16),
    "LSTM": Network(lambda: Sentences(1000, 256, 256), token_ids(1000, 48), 1000, 32),
    "GPT": Network(lambda: GPT(SMALL), token_ids(96, 128), 96, 8),
    "GPT, large vocabulary": Network(
        lambda: GPT(LARGE_VOCABULARY), token_ids(16_000, 128), 16_000, 8
    ),
    "tied weights": Network(lambda: Tied(8000, 256), token_ids(8000, 32), 8000, 32),
    "activation checkpointing": Network(lambda: Recomputed(SMALL), token_ids(96, 128), 96, 8),
}
RESNET50 = Network(resnet50, images(224), 1000, 64)
NANO = Network(GPT, token_ids(96, 256), 96, 64)
#: Two GPTs of 20 million parameters whose steps on a T4 were published, 7 and 10 layers deep.
SEVEN = Network(
    lambda: GPT(GPTConfig(vocab_size=50_257, block_size=512, n_embd=256, n_head=4, n_layer=7)),
    token_ids(50_257, 512), 50_257, 29,
)  # fmt: skip
TEN = Network(
    lambda: GPT(GPTConfig(vocab_size=50_257, block_size=256, n_embd=256, n_head=4, n_layer=10)),
    token_ids(50_257, 256), 50_257, 32,
)  # fmt: skip
