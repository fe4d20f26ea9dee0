"""How fast a chip answers with a language model, and how many users it has room for, by formula.

A decoder-only transformer writes one token per step for each user. A step reads all weights once, and each
user's keys and values of the tokens so far. No framework is needed; `plan.serve` is this module's `serve`.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colab_helpers import chip_throughput, platform_facts, published_results
from colab_helpers._data_files import load_toml
from colab_helpers.formulas.training import HEADROOM
from colab_helpers.hardware import Chip, catalog, memory_overheads

#: Bytes per weight of the linear layers, by bits; with 4 bits, 64 weights share a 16-bit scale.
WEIGHT_BYTES = {16: 2.0, 8: 1.0, 4: (4 + 16 / 64) / 8}
#: Kernels that a step launches per layer: fused by hand, and as `transformers` 5.15 writes Qwen3's.
KERNELS_PER_LAYER = (12, 48)
_ENDLESS = 2**62  # tokens: a configuration that says nothing of them
_GIVEN = ("context", "users", "bits", "eager")
#: Beginnings of `model_type` of which we know that attention and MLP are as in the formulas.
_FAMILIES = ("llama", "qwen2", "qwen3", "mistral", "gemma", "smollm", "olmo", "gpt2")
#: Keys of a configuration that identify architectures which these formulas don't describe.
_OTHER_KINDS = {
    "num_experts": "a mixture of experts: a token reads only some of the weights",
    "num_local_experts": "a mixture of experts: a token reads only some of the weights",
    "n_routed_experts": "a mixture of experts: a token reads only some of the weights",
    "kv_lora_rank": "multi-head latent attention: its cache is compressed",
    "is_encoder_decoder": "an encoder and a decoder",
    "ssm_cfg": "a state-space model: it has no cache of keys and values",
}


@dataclass(frozen=True)
class ServedModel:
    """The sizes of a decoder-only transformer, as a Hugging Face `config.json` has them.

    `mlp_matrices` is 3 for a gated MLP (Llama, Qwen, Mistral), and 2 for a plain one (GPT-2).
    """

    layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    tied: bool
    mlp_matrices: int = 3
    max_context: int = _ENDLESS

    @property
    def linear_weights(self) -> int:
        """Weights of the linear layers: attention and MLP; biases and norms are left out."""
        attention = 2 * self.hidden_size * self.head_dim * (self.heads + self.kv_heads)
        return self.layers * (
            attention + self.mlp_matrices * self.hidden_size * self.intermediate_size
        )

    @property
    def parameters(self) -> int:
        """Weights of all matrices: linear layers, the embedding, and the output layer where it isn't tied.

        Biases, norms and position embeddings are left out: 0.7% of GPT-2, less of larger models.
        """
        return self.linear_weights + (1 if self.tied else 2) * self.vocab_size * self.hidden_size

    def kv_cache_bytes(self, tokens: int = 1) -> int:
        """Return the bytes of `tokens` tokens' keys and values in 16 bits, over all layers.

        >>> model("qwen3-8b").kv_cache_bytes()
        147456
        """
        return tokens * 2 * self.layers * self.kv_heads * self.head_dim * 2


@dataclass(frozen=True)
class ServingEstimate:
    """What `serve` found: bytes, and ranges from the best to the worst case.

    Attributes:
        chip: The data sheet.
        users: Conversations that are answered at the same time.
        weight_bytes: Of all weights, as they are stored.
        kv_cache_bytes: Of all users' keys and values at the full context.
        max_users: As many as fit beside the weights, `memory_overheads` and 10% headroom, each with a full
            context.
        step_seconds: Of one decode step, which writes one token for each user: least and most.
        ttft_seconds: Of the prefill of one user's full context, without launches: least and most.
        units_per_hour: Compute units of Colab's machine per hour; None if unknown.
    """

    chip: Chip
    users: int
    weight_bytes: float
    kv_cache_bytes: int
    max_users: int
    step_seconds: tuple[float, float]
    ttft_seconds: tuple[float, float]
    units_per_hour: float | None = None

    @property
    def fits(self) -> bool:
        """Whether all users' caches fit beside the weights."""
        return self.users <= self.max_users

    @property
    def tokens_per_second(self) -> tuple[float, float]:
        """Tokens per second for all users together: the worst case, and the best."""
        least, most = self.step_seconds
        return self.users / most, self.users / least

    @property
    def dollars_per_million(self) -> tuple[float, float] | None:
        """US dollars per million tokens on Colab's machine, least and most; None if unknown."""
        if self.units_per_hour is None:
            return None
        per_second = self.units_per_hour * platform_facts.machine_table().dollars_per_unit / 3600
        slow, fast = self.tokens_per_second
        return 1e6 * per_second / fast, 1e6 * per_second / slow


def serve(
    config: ServedModel | Mapping[str, Any] | str | Path,
    chip: str,
    context: int,
    users: int = 1,
    bits: int = 16,
    eager: bool = False,
) -> ServingEstimate:
    """Return whether `users` conversations fit on `chip`, and how fast it answers them.

    A decode step takes at least the longer of two times: reading the weights and caches, and 2 operations
    per weight and user (plus attention's). At most it takes their sum, plus a launch for each kernel of a
    fused implementation, or with `eager` of `transformers`. Source of the idea: Pope et al., "Efficiently
    Scaling Transformer Inference" (2022).

    Args:
        config: A `ServedModel`, a Hugging Face configuration, the path of a `config.json`, or a name that
            `names` lists.
        chip: A key of `hardware.catalog()`, such as "T4".
        context: Tokens of each conversation, prompt and answer.
        users: Conversations that are answered at the same time.
        bits: Of the linear layers' weights: 16, 8 or 4. Embeddings, caches and activations stay at 16.
        eager: Whether each kernel is launched by Python, and waited for, instead of by a CUDA graph.

    Raises:
        ValueError: A size that can't be, or a kind of model that the formulas don't describe.
        KeyError: A chip that isn't in the catalog.

    >>> on_t4 = serve("qwen3-8b", "T4", context=4096, bits=4)
    >>> on_t4.fits, on_t4.max_users
    (True, 12)
    >>> serve("qwen3-8b", "T4", context=4096).fits
    False
    """
    sizes = config if isinstance(config, ServedModel) else read_config(config)
    for name, size in (("context", context), ("users", users)):
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"{name} is {size!r}: give a whole number from 1.")
    if bits not in WEIGHT_BYTES:
        raise ValueError(f"bits is {bits!r}: one of {', '.join(map(str, WEIGHT_BYTES))}.")
    if context > sizes.max_context:
        raise ValueError(
            f"A context of {context:,} tokens: this model takes {sizes.max_context:,}."
        )
    rates, sheet = chip_throughput.rates(chip), catalog()[chip]
    machine = platform_facts.machine_table().by_chip.get(chip)
    output = sizes.vocab_size * sizes.hidden_size  # weights of output layer or embedding
    linear = WEIGHT_BYTES[bits] * sizes.linear_weights
    weights = linear + (1 if sizes.tied else 2) * 2 * output
    read = linear + 2 * output  # bytes: of the embedding a step reads only its tokens' rows
    cache = sizes.kv_cache_bytes(context)
    room = (1 - HEADROOM) * sheet.usable_memory - memory_overheads.total(sheet) - weights
    step = _seconds(rates, read + users * cache, users * (_flops(sizes, context) + 2 * output))
    if sheet.kind == "GPU":
        step = _with_launches(step, sizes, rates["launch"], eager)
    prefill = (
        context * _flops(sizes, context // 2) + 2 * output
    )  # its last token alone has an output
    return ServingEstimate(
        chip=sheet,
        users=users,
        weight_bytes=weights,
        kv_cache_bytes=users * cache,
        max_users=max(0, int(room // cache)),
        step_seconds=step,
        ttft_seconds=_seconds(rates, read, prefill),
        units_per_hour=machine.units_per_hour if machine else None,
    )


def max_users_at(speed: float, config: ServedModel, chip: str, context: int, bits: int = 16) -> int:
    """Return the most users who fit and of whom each gets `speed` tokens per second in the worst case.

    `config`, `chip`, `context` and `bits` are as in `serve`.

    >>> max_users_at(10, model("qwen3-4b"), "L4", context=4096)
    20
    """
    low, high = 0, serve(config, chip, context, 1, bits).max_users
    while low < high:  # a step only gets longer with more users
        middle = (low + high + 1) // 2
        found = serve(config, chip, context, middle, bits)
        low, high = (middle, high) if 1 / found.step_seconds[1] >= speed else (low, middle - 1)
    return low


def read_config(config: Mapping[str, Any] | str | Path) -> ServedModel:
    """Return the sizes in a Hugging Face configuration: a mapping, the path of a `config.json`, or a name.

    Raises ValueError for a kind of model that the formulas don't describe, and for missing sizes.

    >>> read_config({"n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257}).parameters
    123532032
    """
    if isinstance(config, str) and config in names():
        return model(config)
    outer = sizes = config if isinstance(config, Mapping) else _from_file(Path(config))
    if isinstance(sizes.get("text_config"), Mapping):  # of a model that sees, the part that writes
        sizes = sizes["text_config"]
    kind = str(sizes.get("model_type") or ("gpt2" if "n_embd" in sizes else "llama"))
    _refuse(sizes, kind)
    plain = kind == "gpt2"
    hidden_size = _size(sizes, "hidden_size", "n_embd")
    heads = _size(sizes, "num_attention_heads", "n_head")
    # These families default to multi-head attention.
    has_own = kind.startswith(("gpt2", "llama", "olmo"))
    tied = sizes.get("tie_word_embeddings", plain or kind.startswith(("gemma", "smollm")))
    return ServedModel(
        layers=_size(sizes, "num_hidden_layers", "n_layer"),
        hidden_size=hidden_size,
        heads=heads,
        kv_heads=_size(sizes, "num_key_value_heads", default=heads if has_own else None),
        head_dim=_size(sizes, "head_dim", default=hidden_size // heads),
        intermediate_size=_size(
            sizes, "intermediate_size", "n_inner", default=4 * hidden_size if plain else None
        ),
        vocab_size=_size(sizes, "vocab_size"),
        tied=bool(outer.get("tie_word_embeddings", tied)),
        mlp_matrices=2 if plain else 3,
        max_context=_size(sizes, "max_position_embeddings", "n_positions", default=_ENDLESS),
    )


def _from_file(path: Path) -> Mapping[str, Any]:
    try:
        there = path.is_file()
    except OSError:  # too long for a name: somebody has passed the text of a config
        there = False
    if not there:
        raise ValueError(f"{str(path)[:80]} is neither a file nor one of {', '.join(names())}.")
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} isn't JSON: {error}.") from error
    if not isinstance(found, Mapping):
        raise ValueError(f"{path} holds no JSON object.")
    return found


def _refuse(config: Mapping[str, Any], kind: str) -> None:
    if not kind.startswith(_FAMILIES):
        raise ValueError(
            f"model_type {kind!r} isn't supported. Supported families: {', '.join(_FAMILIES)}."
        )
    for key, what in _OTHER_KINDS.items():
        if config.get(key):
            raise ValueError(f"{key} is {config[key]}: {what}. These formulas don't describe that.")
    other = {*(config.get("layer_types") or ())} - {"full_attention"}
    sliding = config.get("use_sliding_window", not kind.startswith("qwen"))
    if other or (config.get("sliding_window") and sliding):
        what = ", ".join(sorted(other)) or "sliding_window"
        raise ValueError(
            f"{what}: some layers keep fewer tokens. These formulas don't describe that."
        )


def _size(config: Mapping[str, Any], *keys: str, default: int | None = None) -> int:
    found = next((config[key] for key in keys if config.get(key) is not None), default)
    if not isinstance(found, int) or found < 1:
        raise ValueError(
            f"The configuration has no {' or '.join(keys)} that is a whole number from 1."
        )
    return found


def _flops(sizes: ServedModel, context: int) -> int:
    """Operations per token in the layers: 2 per weight, and attention over `context` tokens."""
    return 2 * sizes.linear_weights + 4 * sizes.layers * sizes.heads * sizes.head_dim * context


def _seconds(rates: chip_throughput.Rates, moved: float, flops: float) -> tuple[float, float]:
    formats = [name for name in ("fp16", "bf16") if name in rates] or ["fp32"]
    half = max((rates[name] for name in formats), key=lambda rate: rate.value)
    memory = rates["memory"]
    return max(moved / memory.high, flops / half.high), moved / memory.low + flops / half.low


def _with_launches(
    step: tuple[float, float], sizes: ServedModel, launch: chip_throughput.Rate, eager: bool
) -> tuple[float, float]:
    """Add what launches take: with a CUDA graph little, and in eager mode possibly most of the time."""
    fused, written_out = (count * sizes.layers for count in KERNELS_PER_LAYER)
    if eager:
        return max(step[0], written_out * launch.low), step[1] + written_out * launch.high
    return step[0], step[1] + fused * launch.low


@dataclass(frozen=True)
class ServingCheck:
    """A published speed that no formula was made with, beside the prediction: both in tokens per second.

    `what` says which point of the row it is.
    """

    row: published_results.PublishedResult
    what: str
    measured: float
    predicted: tuple[float, float]

    @property
    def error_ratio(self) -> float:
        """Measured over the nearer end of the range; 1 inside it."""
        low, high = self.predicted
        return self.measured / min(max(self.measured, low), high)


@functools.cache
def checks() -> tuple[ServingCheck, ...]:
    """Return predictions beside published speeds, the worst first.

    >>> sum(0.9 < one.error_ratio < 1.1 for one in checks()) / len(checks()) > 0.7
    True
    """
    found = []
    for line in _data()["check"]:
        row = published_results.get(line["row"])
        for x, measured in (row.points if row.x else {"": row.value}).items():
            given: dict[str, Any] = {"users": 1, "bits": 16, "eager": False, **line}
            sizes: dict[str, Any] = {
                name: int(x) if given[name] == "x" else given[name] for name in _GIVEN
            }
            predicted = serve(model(line["model"]), row.chip_key, **sizes).tokens_per_second
            unit = row.x_name.removesuffix("s") if x == 1 else row.x_name
            what = f"{row.what}, {x:,} {unit}" if row.x else row.what
            found.append(ServingCheck(row, what, measured, predicted))
    return tuple(sorted(found, key=lambda one: -abs(math.log(one.error_ratio))))


def names() -> tuple[str, ...]:
    """Return the names of the models whose sizes come with the helper.

    >>> "qwen3-8b" in names()
    True
    """
    return tuple(_data()["model"])


@functools.cache
def model(name: str) -> ServedModel:
    """Return the sizes of a model of `names`. Raises KeyError for any other name.

    >>> round(model("qwen3-8b").parameters / 1e9, 2)
    8.19
    """
    return read_config(_data()["model"][name]["sizes"])


@functools.cache
def _data() -> Mapping[str, Any]:
    return load_toml("colab_helpers.formulas", "served_models.toml")
