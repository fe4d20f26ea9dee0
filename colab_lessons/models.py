"""The networks that lessons share.

A small GPT in plain PyTorch, after Radford et al., "Language Models are Unsupervised Multitask
Learners" (2019): pre-norm blocks, causal self-attention, GELU, tied input and output embedding.
Simpler than theirs in three places: attention without biases, exact GELU, one scale of initial weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from colab_lessons.transformer import Transformer


@dataclass(frozen=True)
class GPTConfig:
    """The sizes of a GPT. The defaults give about 10 million parameters."""

    block_size: int = 256
    n_layer: int = 6
    n_head: int = 6
    n_embd: int = 384
    vocab_size: int = 96


class Block(nn.Module):
    """One layer: attention, then two linear maps, each added to what came in."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.n_head = config.n_head
        self.norm_attention = nn.LayerNorm(config.n_embd)
        self.query_key_value = nn.Linear(config.n_embd, 3 * config.n_embd, bias=False)
        self.project = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.norm_mlp = nn.LayerNorm(config.n_embd)
        self.expand = nn.Linear(config.n_embd, 4 * config.n_embd)
        self.contract = nn.Linear(4 * config.n_embd, config.n_embd)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `x` of shape (batch, tokens, n_embd) to the same shape."""
        x = x + self._attend(self.norm_attention(x))  # (batch, tokens, n_embd)
        return x + self.contract(F.gelu(self.expand(self.norm_mlp(x))))  # 4 × n_embd in between

    def _attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, n_embd = x.shape
        head_dim = n_embd // self.n_head
        split = self.query_key_value(x).view(batch, tokens, 3, self.n_head, head_dim)
        query, key, value = split.permute(2, 0, 3, 1, 4)  # each (batch, heads, tokens, head_dim)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        joined = mixed.transpose(1, 2).reshape(
            batch, tokens, n_embd
        )  # the heads side by side again
        return self.project(joined)


class GPT(nn.Module):
    """A decoder-only transformer: (batch, tokens) ids in, (batch, tokens, vocab_size) logits out.

    >>> model = GPT(GPTConfig(vocab_size=10, block_size=4, n_embd=8, n_head=2, n_layer=1))
    >>> model(torch.zeros(1, 4, dtype=torch.long)).shape
    torch.Size([1, 4, 10])
    """

    def __init__(self, config: GPTConfig | None = None):
        super().__init__()
        self.config = config or GPTConfig()
        self.tokens = nn.Embedding(self.config.vocab_size, self.config.n_embd)
        self.positions = nn.Embedding(self.config.block_size, self.config.n_embd)
        self.blocks = nn.Sequential(*(Block(self.config) for _ in range(self.config.n_layer)))
        self.norm = nn.LayerNorm(self.config.n_embd)
        self.apply(_initialise)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the logits of the next token at every position of `ids`."""
        places = torch.arange(ids.shape[1], device=ids.device)  # (tokens,)
        x = self.blocks(self.tokens(ids) + self.positions(places))  # (batch, tokens, n_embd)
        return self.norm(x) @ self.tokens.weight.T  # (batch, tokens, vocab_size): tied weights

    @property
    def parameter_count(self) -> int:
        """Number of trainable parameters."""
        return sum(p.numel() for p in self.parameters())


def training_flops(config: GPTConfig, batch_size: int) -> float:
    """Return the floating-point operations of one training step: forward once, backward twice.

    6 per weight and token, plus 12 · n_layer · block_size · n_embd per token for attention. Source:
    Chowdhery et al., "PaLM" (2022), appendix B; causal masking is not deducted. `config` has the
    sizes; `batch_size` counts sequences of `config.block_size` tokens.

    >>> round(training_flops(GPTConfig(), batch_size=32) / 1e9)
    582
    """
    return Transformer(
        n_layer=config.n_layer,
        n_embd=config.n_embd,
        n_head=config.n_head,
        block_size=config.block_size,
        vocab_size=config.vocab_size,
        batch_size=batch_size,
    ).flop


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
