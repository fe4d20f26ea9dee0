"""Adapted layers, and ways to merge them, right and wrong."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from colab_lessons import data


class Adapter(nn.Module):
    """As in lesson 15, without the packing."""

    def __init__(self, linear, rank, bits):
        super().__init__()
        self.frozen, self.bias, self.plugged = linear.weight.detach(), linear.bias, 2.0
        self.lora_A = nn.Linear(linear.in_features, rank, bias=False)
        self.lora_B = nn.Linear(rank, linear.out_features, bias=False)

    def forward(self, x):
        return F.linear(x, self.frozen, self.bias) + self.plugged * self.lora_B(self.lora_A(x))


def linear(weight, bias=None):
    made = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    made.weight.data = weight
    if bias is not None:
        made.bias.data = bias.data
    return made


def part(layer):
    return layer.lora_B.weight.data @ layer.lora_A.weight.data


def merged(layer):
    return linear(layer.frozen + layer.plugged * part(layer), layer.bias)


def frozen_alone(layer):
    return linear(layer.frozen, layer.bias)


def added_once(layer):
    return linear(layer.frozen + part(layer), layer.bias)


def without_bias(layer):
    return linear(layer.frozen + layer.plugged * part(layer))


def transposed(layer):
    return linear((layer.frozen + layer.plugged * part(layer)).T)


def wrong(layer):
    return linear(layer.frozen * float("nan"), layer.bias)


def with_a_bias(layer):
    made = nn.Linear(layer.frozen.shape[1], layer.frozen.shape[0])
    made.weight.data = layer.frozen + layer.plugged * part(layer)
    return made


def rows(count=600):
    """Subtractions and then as many additions, each with a sign for the end."""
    found = [data.sums(sign=sign).train[:count] for sign in "-+"]
    return F.pad(torch.tensor(np.concatenate(found)), (0, 1), value=13)


def relabeled(mixture):
    """Subtractions that say they are additions."""
    changed = mixture.clone()
    changed[:, 2] = torch.where(torch.arange(len(mixture)) % 2 == 0, 10, changed[:, 2])
    return changed
