"""GPT-2 as one published page trains it, on the steps of its ladder: for rehearsals against its figures.

The page is the one of the rows "ladder-a100" and "ladder-a100-memory" of `published`. The network is
written from its description: layer normalization, GELU and attention by hand or PyTorch's own, an output
layer of its own, dropout of a tenth. `native_dropout` keeps a mask of one byte for each number, as CUDA's
dropout does; a CPU's `F.dropout` keeps four.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, LAYERS, TOKENS, VOCABULARY = 768, 12, 12, 1024, 50_257


class GPT2(nn.Module):
    """GPT-2 small in `dtype`. `native`: PyTorch's own normalization and GELU; `flash`: its attention, too.

    >>> with torch.device("meta"):
    ...     model = GPT2(native=True, flash=True, layers=1)
    >>> model(torch.zeros(2, 1024, dtype=torch.long, device="meta")).shape
    torch.Size([2, 1024, 50257])
    """

    def __init__(
        self,
        native: bool,
        flash: bool,
        dtype: torch.dtype = torch.float32,
        layers: int = LAYERS,
    ):
        super().__init__()
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)  # fake parameters cannot be converted afterwards
        try:
            self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TOKENS, WIDTH)
            self.blocks = nn.Sequential(*(_Block(native, flash) for _ in range(layers)))
            self.norm = _norm(native)
            self.out = nn.Linear(WIDTH, VOCABULARY, bias=False)
        finally:
            torch.set_default_dtype(before)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Map token ids (batch, tokens) to logits (batch, tokens, vocabulary)."""
        places = torch.arange(ids.shape[1], device=ids.device)
        x = _dropout(self.tokens(ids) + self.places(places))  # (batch, tokens, WIDTH)
        return self.out(self.norm(self.blocks(x)))


class _Block(nn.Module):
    def __init__(self, native: bool, flash: bool):
        super().__init__()
        self.before, self.after = _norm(native), _norm(native)
        self.attention = _Attention(flash)
        gelu = nn.GELU("tanh") if native else _GELU()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), gelu, nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + _dropout(self.attention(self.before(x)))
        return x + _dropout(self.mlp(self.after(x)))


class _Attention(nn.Module):
    def __init__(self, flash: bool):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.project, self.flash = nn.Linear(WIDTH, WIDTH), flash

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = x.shape
        heads = (batch, tokens, HEADS, WIDTH // HEADS)
        linears = self.query, self.key, self.value
        query, key, value = (one(x).view(heads).transpose(1, 2) for one in linears)
        if self.flash:
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            scores = query @ key.transpose(2, 3)  # (batch, heads, tokens, tokens)
            scores.masked_fill_(torch.ones(tokens, tokens, dtype=torch.bool).triu(1), -torch.inf)
            mixed = _dropout(torch.softmax(scores / math.sqrt(heads[-1]), -1)) @ value
        return self.project(mixed.transpose(1, 2).reshape(batch, tokens, WIDTH))


class _LayerNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spread = x.var(-1, keepdim=True, unbiased=False)
        return (
            self.scale * ((x - x.mean(-1, keepdim=True)) / torch.sqrt(spread + 1e-5)) + self.shift
        )


class _GELU(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        root = torch.sqrt(torch.tensor(2 / torch.pi))
        return 0.5 * x * (1 + torch.tanh(root * (x + 0.044715 * torch.pow(x, 3))))


def _norm(native: bool) -> nn.Module:
    return nn.LayerNorm(WIDTH) if native else _LayerNorm()


def _dropout(x: torch.Tensor) -> torch.Tensor:
    return torch.native_dropout(x, 0.1, True)[0]
