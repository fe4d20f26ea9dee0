"""The networks that lessons share.

A small GPT in plain PyTorch, after Radford et al., "Language Models are Unsupervised Multitask
Learners" (2019): pre-norm blocks, causal self-attention, GELU, tied input and output embedding.
Simpler than theirs in three places: attention without biases, exact GELU, one scale of initial weights.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
from torch import nn
from torch.nn import functional as F

from colab_helpers.transformer import Transformer


@dataclass(frozen=True)
class GPTConfig:
    """The sizes of a GPT. The defaults give about 10 million parameters."""

    vocabulary: int = 96
    context: int = 256
    width: int = 384
    heads: int = 6
    layers: int = 6


class Block(nn.Module):
    """One layer: attention, then two linear maps, each added to what came in."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.heads = config.heads
        self.norm_attention = nn.LayerNorm(config.width)
        self.query_key_value = nn.Linear(config.width, 3 * config.width, bias=False)
        self.project = nn.Linear(config.width, config.width, bias=False)
        self.norm_mlp = nn.LayerNorm(config.width)
        self.expand = nn.Linear(config.width, 4 * config.width)
        self.contract = nn.Linear(4 * config.width, config.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `x` of shape (batch, context, width) to the same shape."""
        x = x + self._attend(self.norm_attention(x))
        return x + self.contract(F.gelu(self.expand(self.norm_mlp(x))))

    def _attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        split = self.query_key_value(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.project(mixed.transpose(1, 2).reshape(batch, length, width))


class GPT(nn.Module):
    """A decoder-only transformer: (batch, length) token ids in, (batch, length, vocabulary) out.

    >>> model = GPT(GPTConfig(vocabulary=10, context=4, width=8, heads=2, layers=1))
    >>> model(torch.zeros(1, 4, dtype=torch.long)).shape
    torch.Size([1, 4, 10])
    """

    def __init__(self, config: GPTConfig | None = None):
        super().__init__()
        self.config = config or GPTConfig()
        self.tokens = nn.Embedding(self.config.vocabulary, self.config.width)
        self.positions = nn.Embedding(self.config.context, self.config.width)
        self.blocks = nn.Sequential(*(Block(self.config) for _ in range(self.config.layers)))
        self.norm = nn.LayerNorm(self.config.width)
        self.apply(_initialise)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the logits of the next token at every position."""
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.blocks(self.tokens(ids) + self.positions(places))
        return self.norm(x) @ self.tokens.weight.T  # tied: the embedding read backwards

    @property
    def parameter_count(self) -> int:
        """Number of trainable parameters."""
        return sum(p.numel() for p in self.parameters())


def training_flops(config: GPTConfig, batch: int) -> float:
    """Return the floating-point operations of one training step: forward once, backward twice.

    6 per weight and token, plus 12 · layers · context · width per token for attention. Source:
    Chowdhery et al., "PaLM" (2022), appendix B; causal masking is not deducted. `config` has the
    sizes; `batch` is in rows of `config.context` tokens.

    >>> round(training_flops(GPTConfig(), batch=32) / 1e9)
    582
    """
    return Transformer(**asdict(config), rows=batch).flop


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
