"""The networks that lessons share.

A small GPT in plain PyTorch, after Radford et al., "Language Models are Unsupervised Multitask
Learners" (2019): pre-norm blocks, causal self-attention, GELU, tied input and output embedding.
Simpler than theirs in three places: attention without biases, exact GELU, one scale of initial weights.
`gpt2` is GPT-2 as somebody first writes it, for lesson 08's comparison with a published page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class GPTConfig:
    """The sizes of a GPT. The defaults give about 10 million parameters.

    `tied`: the output layer shares the embedding's weights. Two are false for code as somebody first writes
    it: `fused_layers`, PyTorch's own layer norm and GELU; `fused_attention`, its attention without a score
    matrix in memory. `dropout` is a probability; its mask takes one byte per element, as on CUDA.
    """

    block_size: int = 256
    n_layer: int = 6
    n_head: int = 6
    n_embd: int = 384
    vocab_size: int = 96
    dropout: float = 0.0
    tied: bool = True
    fused_layers: bool = True
    fused_attention: bool = True


class Block(nn.Module):
    """One layer: attention, then two linear maps, each added to what came in."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        self.norm_attention = _layer_norm(config)
        self.query_key_value = nn.Linear(config.n_embd, 3 * config.n_embd, bias=False)
        self.project = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.norm_mlp = _layer_norm(config)
        self.expand = nn.Linear(config.n_embd, 4 * config.n_embd)
        self.gelu = nn.GELU() if config.fused_layers else UnfusedGELU()
        self.contract = nn.Linear(4 * config.n_embd, config.n_embd)
        self.dropout = _dropout(config)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `x` of shape (batch, tokens, n_embd) to the same shape."""
        x = x + self.dropout(self._attend(self.norm_attention(x)))  # (batch, tokens, n_embd)
        hidden = self.gelu(self.expand(self.norm_mlp(x)))  # (batch, tokens, 4 × n_embd)
        return x + self.dropout(self.contract(hidden))  # (batch, tokens, n_embd)

    def _attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, n_embd = x.shape
        head_dim = n_embd // self.config.n_head
        shape = batch, tokens, 3, self.config.n_head, head_dim
        split = self.query_key_value(x).view(shape)  # (batch, tokens, 3, heads, head_dim)
        query, key, value = split.permute(2, 0, 3, 1, 4)  # each (batch, heads, tokens, head_dim)
        if self.config.fused_attention:
            # (batch, heads, tokens, head_dim)
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            scores = query @ key.transpose(2, 3)  # (batch, heads, tokens, tokens)
            future = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).triu(1)
            scores.masked_fill_(future, -torch.inf)
            # (batch, heads, tokens, tokens)
            weights = self.dropout(torch.softmax(scores / math.sqrt(head_dim), -1))
            mixed = weights @ value  # (batch, heads, tokens, head_dim)
        # (batch, tokens, n_embd): the heads side by side again
        return self.project(mixed.transpose(1, 2).reshape(batch, tokens, n_embd))


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
        self.dropout = _dropout(self.config)
        self.blocks = nn.Sequential(*(Block(self.config) for _ in range(self.config.n_layer)))
        self.norm = _layer_norm(self.config)
        self.output = None  # tied: the embedding's weights, read the other way round
        if not self.config.tied:
            self.output = nn.Linear(self.config.n_embd, self.config.vocab_size, bias=False)
        self.apply(_initialize)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the logits of the next token at every position of `ids`."""
        places = torch.arange(ids.shape[1], device=ids.device)  # (tokens,)
        x = self.dropout(self.tokens(ids) + self.positions(places))  # (batch, tokens, n_embd)
        weight = self.tokens.weight if self.output is None else self.output.weight
        return self.norm(self.blocks(x)) @ weight.T  # (batch, tokens, vocab_size)

    @property
    def parameter_count(self) -> int:
        """Number of trainable parameters."""
        return sum(p.numel() for p in self.parameters())


def trained(path: str | Path | None = None) -> GPT:
    """Return the GPT that the course trained for 1,000 steps; `trained/README.md` describes it.

    Its weights ship with 8 bits each and are multiplied back to float32. `path` is a file of your own
    instead: a state dict from `torch.save`, or safetensors.

    >>> trained().parameter_count
    10773504
    """
    from colab_lessons import weights  # the only use of safetensors

    model = GPT()
    model.load_state_dict(weights.load(Path(path) if path else weights.SHIPPED))
    return model.eval()


def gpt2(dtype: torch.dtype, fused_layers: bool, fused_attention: bool, n_layer: int = 12) -> GPT:
    """Return GPT-2 small with weights of `dtype`, as the rows "ladder-a100" of `published_results` train it.

    >>> with torch.device("meta"):
    ...     model = gpt2(torch.bfloat16, True, True, n_layer=1)
    >>> model(torch.zeros(2, 1024, dtype=torch.long, device="meta")).shape
    torch.Size([2, 1024, 50257])
    """
    config = GPTConfig(1024, n_layer, 12, 768, 50_257, 0.1, False, fused_layers, fused_attention)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)  # fake parameters cannot be converted afterwards
    try:
        return GPT(config)
    finally:
        torch.set_default_dtype(before)


class UnfusedLayerNorm(nn.Module):
    """Layer normalization in separate operations, each of which writes its result to memory."""

    def __init__(self, n_embd: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(n_embd)), nn.Parameter(torch.zeros(n_embd))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalize the last axis of `x`: (…, n_embd) in, the same shape out."""
        variance = x.var(-1, keepdim=True, unbiased=False)
        normalized = (x - x.mean(-1, keepdim=True)) / torch.sqrt(variance + 1e-5)
        return self.scale * normalized + self.shift


class UnfusedGELU(nn.Module):
    """GELU by its tanh formula, in separate operations."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map every element of `x`; the shape stays."""
        root = torch.sqrt(torch.tensor(2 / torch.pi))
        return 0.5 * x * (1 + torch.tanh(root * (x + 0.044715 * torch.pow(x, 3))))


class OneByteDropout(nn.Module):
    """Dropout whose mask takes one byte per element, as CUDA's does; the CPU's takes four."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Drop elements of `x` while training."""
        return torch.native_dropout(x, self.p, self.training)[0]


def _layer_norm(config: GPTConfig) -> nn.Module:
    kind = nn.LayerNorm if config.fused_layers else UnfusedLayerNorm
    return kind(config.n_embd)


def _dropout(config: GPTConfig) -> nn.Module:
    return OneByteDropout(config.dropout) if config.dropout else nn.Identity()


def _initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
