"""Two convolutional networks whose memory lesson 06 plans."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class ResidualBlock(nn.Module):
    """A residual block: two convolutions and a shortcut."""

    def __init__(self, width: int, out: int, stride: int = 1):
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(width, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        same = width == out and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(width, out, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, channels, height, width) to (batch, out, …), height and width divided by the stride."""
        return F.relu(self.shortcut(x) + self.inner(x))


class UNet(nn.Module):
    """A two-level U-Net with skip connections (Ronneberger et al., 2015)."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.encoder1, self.encoder2 = _double_conv(3, width), _double_conv(width, 2 * width)
        self.bottleneck = _double_conv(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.up1 = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.decoder2, self.decoder1 = (
            _double_conv(4 * width, 2 * width),
            _double_conv(2 * width, width),
        )
        self.out = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, 3, height, width) to (batch, height, width, classes)."""
        encoder1 = self.encoder1(x)  # (batch, width, h, w)
        encoder2 = self.encoder2(F.max_pool2d(encoder1, 2))  # (batch, 2 width, h/2, w/2)
        bottleneck = self.bottleneck(F.max_pool2d(encoder2, 2))  # (batch, 4 width, h/4, w/4)
        # (batch, 2 width, h/2, w/2)
        x = self.decoder2(torch.cat([self.up2(bottleneck), encoder2], 1))
        x = self.decoder1(torch.cat([self.up1(x), encoder1], 1))  # (batch, width, h, w)
        return self.out(x).permute(0, 2, 3, 1)  # (batch, h, w, classes)


def _double_conv(width: int, out: int) -> nn.Module:
    """Two convolutions that keep the size of a picture."""
    layers = nn.Conv2d(width, out, 3, padding=1), nn.ReLU(), nn.Conv2d(out, out, 3, padding=1)
    return nn.Sequential(*layers, nn.ReLU())


def resnet() -> nn.Module:
    """Three residual blocks with BatchNorm."""
    blocks = ResidualBlock(32, 32), ResidualBlock(32, 64, 2), ResidualBlock(64, 128, 2)
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), *blocks, *head)
