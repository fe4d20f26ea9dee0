"""A language model of Llama 2's shape, with adapters on frozen weights of 16 or 4 bits: for rehearsals.

Its weights are never filled. On PyTorch's "meta" device it takes no memory, and `memory.footprint` says
what training it would take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

_GROUP_SIZE = 64  # weights that share a scale, as in NF4


@dataclass(frozen=True)
class LlamaConfig:
    """Sizes of a Llama; the defaults are those of Llama 2 7B (Touvron et al., 2023).

    `bits` of a frozen weight, 16 or 4; `rank` of the adapters; with `activation_checkpointing`,
    each block runs again in the backward pass.
    """

    vocab_size: int = 32_000
    n_embd: int = 4096
    n_layer: int = 32
    n_head: int = 32
    intermediate_size: int = 11_008
    bits: int = 16
    rank: int = 16
    activation_checkpointing: bool = False


class LoRALinear(nn.Module):
    """A frozen linear layer, and beside it the two thin matrices of LoRA, which train in float32."""

    def __init__(self, in_features: int, out_features: int, config: LlamaConfig):
        super().__init__()
        self.shape = out_features, in_features
        size = out_features * in_features
        if config.bits == 4:
            self.packed = nn.Parameter(torch.empty(size // 2, dtype=torch.uint8), False)
            self.scale = nn.Parameter(torch.empty(size // _GROUP_SIZE), False)
        else:
            self.weight = nn.Parameter(torch.empty(self.shape, dtype=torch.bfloat16), False)
        self.lora_A = nn.Parameter(torch.empty(config.rank, in_features))
        self.lora_B = nn.Parameter(torch.empty(out_features, config.rank))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, tokens, in_features) to (batch, tokens, out_features)."""
        y = (
            _DequantizedLinear.apply(x, self.shape)
            if hasattr(self, "packed")
            else F.linear(x, self.weight)
        )
        return y + F.linear(F.linear(x, self.lora_A.to(x.dtype)), self.lora_B.to(x.dtype))


class _DequantizedLinear(torch.autograd.Function):
    """A product whose weight is unpacked from 4 bits for the moment, and again in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
        ctx.shape = shape
        return F.linear(x, torch.empty(shape, dtype=x.dtype, device=x.device))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        weight = torch.empty(ctx.shape, dtype=gradient.dtype, device=gradient.device)
        return gradient @ weight, None


class Layer(nn.Module):
    """Attention and a gated feed-forward part, each behind a normalization in float32."""

    def __init__(self, config: LlamaConfig):
        super().__init__()
        width, self.heads = config.n_embd, config.n_head
        self.norms = nn.ParameterList(nn.Parameter(torch.empty(width), False) for _ in range(2))
        self.q, self.k, self.v, self.out = (LoRALinear(width, width, config) for _ in range(4))
        self.gate_proj, self.up_proj = (
            LoRALinear(width, config.intermediate_size, config) for _ in range(2)
        )
        self.down_proj = LoRALinear(config.intermediate_size, width, config)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, tokens, n_embd) to the same shape."""
        batch, tokens, width = x.shape
        h = _norm(x, self.norms[0])  # (batch, tokens, n_embd)
        parts = (batch, tokens, self.heads, width // self.heads)
        # each (batch, heads, tokens, head_dim)
        q, k, v = (layer(h).view(parts).transpose(1, 2) for layer in (self.q, self.k, self.v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # the same shape
        # (batch, tokens, n_embd)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        h = _norm(x, self.norms[1])  # (batch, tokens, n_embd)
        # gate_proj, up_proj: (batch, tokens, intermediate_size); down_proj: (batch, tokens, n_embd)
        return x + self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))


class Llama(nn.Module):
    """The whole model: frozen in bf16 or in 4 bits, with adapters that train."""

    def __init__(self, config: LlamaConfig):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(
            config.vocab_size, config.n_embd, dtype=torch.bfloat16
        ).requires_grad_(False)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.n_layer))
        self.norm = nn.Parameter(torch.empty(config.n_embd), False)
        self.head = nn.Linear(
            config.n_embd, config.vocab_size, bias=False, dtype=torch.bfloat16
        ).requires_grad_(False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Map token ids (batch, tokens) to logits (batch, tokens, vocab_size)."""
        x = self.tokens(ids)  # (batch, tokens, n_embd)
        for layer in self.layers:
            if self.config.activation_checkpointing:
                x = checkpoint(layer, x.requires_grad_(), use_reentrant=False)
            else:
                x = layer(x)
        return self.head(_norm(x, self.norm))  # (batch, tokens, vocab_size)


def _norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x.float(), (x.shape[-1],), weight).to(x.dtype)
