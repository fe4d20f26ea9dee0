"""The memory and time of training a transformer, by formula.

A GPT as in `colab_lessons.models`: pre-norm blocks, attention that stores no score matrix, GELU, input and
output embedding tied; logits are not kept in a variable beside the loss. No framework is needed.
For a network of your own, `plan.trace_step` counts the step itself; a test holds these formulas to it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from colab_helpers import chip_throughput, platform_facts
from colab_helpers.hardware import Chip, catalog, memory_overheads

#: Number format -> bytes of (a weight, gradient or residual value; a value that a matmul returns).
FORMATS = {"fp32": (4, 4), "mixed": (4, 2), "half": (2, 2)}
#: Numbers that an optimizer keeps for each weight.
OPTIMIZERS = {"adamw": 2, "momentum": 1, "sgd": 0}
#: Largest relative error of the predicted peak, over all steps traced on a CPU; a test checks it.
MAX_PEAK_ERROR = 0.035
#: Part of a chip's memory to leave free: kernels take some for themselves, and blocks are rounded.
HEADROOM = 0.1
_LARGEST = 10**7


@dataclass(frozen=True)
class Transformer:
    """The sizes of a GPT and of its training step; `batch_size` sequences of `block_size` tokens a step.

    `number_format` is "fp32"; "mixed": autocast to fp16 or bf16, weights in fp32; or "half": everything in
    two bytes. `optimizer` is "adamw", "momentum" (SGD with it) or "sgd". With `checkpointing` each block
    keeps its input alone, and is computed again. Raises ValueError for sizes that no network has.

    >>> gpt2 = Transformer(n_layer=12, n_embd=768, n_head=12, block_size=1024, vocab_size=50257)
    >>> round(gpt2.parameters / 1e6), round(gpt2.peak / 2**30, 1)
    (124, 2.5)
    """

    n_layer: int
    n_embd: int
    n_head: int
    block_size: int
    vocab_size: int
    batch_size: int = 1
    number_format: str = "mixed"
    optimizer: str = "adamw"
    checkpointing: bool = False

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self) if field.type == "int"):
            size = getattr(self, name)
            if not isinstance(size, int) or not 1 <= size <= _LARGEST:
                raise ValueError(f"{name} is {size!r}: give a whole number from 1 to {_LARGEST:,}.")
        if self.n_embd % self.n_head:
            raise ValueError(f"{self.n_head} heads cannot share an n_embd of {self.n_embd} evenly.")
        for name, known in (("number_format", FORMATS), ("optimizer", OPTIMIZERS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} {getattr(self, name)!r}: one of {', '.join(known)}.")

    @property
    def parameters(self) -> int:
        """The number of weights."""
        block = 12 * self.n_embd**2 + 9 * self.n_embd
        return (self.vocab_size + self.block_size + 2) * self.n_embd + self.n_layer * block

    @property
    def tokens(self) -> int:
        """Tokens in a step."""
        return self.batch_size * self.block_size

    @property
    def flops(self) -> int:
        """Floating-point operations of a step: forward once, backward twice.

        6 for each weight and token, plus 12 · n_layer · block_size · n_embd a token for attention. Source:
        Chowdhery et al., "PaLM" (2022), appendix B; causal masking is not deducted, and what checkpointing
        computes again is not counted.
        """
        weights = self.n_layer * 12 * self.n_embd**2 + self.vocab_size * self.n_embd
        attention = 12 * self.n_layer * self.block_size * self.n_embd
        return (6 * weights + attention) * self.tokens

    @property
    def parts(self) -> dict[str, int]:
        """Bytes of what lasts: weights, gradients, the optimizer's numbers, activations."""
        weights = self._size * self.parameters
        return {
            "parameters": weights,
            "gradients": weights,
            "optimizer state": OPTIMIZERS[self.optimizer] * weights,
            "activations": self._blocks + self._head + self._loss,
        }

    @property
    def hardware_flops(self) -> int:
        """Floating-point operations that kernels carry out at least, counted from the layers' shapes.

        Those for causal attention skip the masked half of it. What checkpointing computes again, each
        block forward, is counted.
        """
        once = self.flops - 6 * self.n_layer * self.block_size * self.n_embd * self.tokens
        again = self.n_layer * self.n_embd * (24 * self.n_embd + 2 * self.block_size) * self.tokens
        return once + again if self.checkpointing else once

    @property
    def memory_by_phase(self) -> dict[str, dict[str, int]]:
        """Live bytes by part, for each phase of the step that may be its peak.

        Counted from what autograd keeps, and checked against traced steps: within `MAX_PEAK_ERROR`.
        """
        size, product = FORMATS[self.number_format]
        across, table = self.tokens * self.n_embd, self.vocab_size * self.n_embd
        weights, gradients, state, kept = self.parts.values()
        # Backward enters a block: gradients of its output, of GELU's input and of one weight.
        entering = across * (size + 4 * product) + 4 * self.n_embd**2 * size
        again = self._block - size * across if self.checkpointing else 0
        earlier = gradients - size * (self.block_size * self.n_embd + 12 * self.n_embd**2)
        update = weights if self.optimizer == "adamw" else 0
        alive = {  # gradients, activations, temporaries
            "the loss: three tables of batch × block × vocabulary": (0, kept, 2 * self._loss),
            "the last block, going backwards": (size * table, self._blocks + again, entering),
            "the first block, going backwards": (earlier, self._block, entering),
            "the embedding's gradient, which comes twice": (
                gradients,
                0,
                size * (2 * table + across),
            ),
            "the optimizer's step": (gradients, 0, update),
        }
        names = "parameters", "optimizer state", "gradients", "activations", "temporaries"
        return {
            name: dict(zip(names, (weights, state, *rest), strict=True))
            for name, rest in alive.items()
        }

    @property
    def peak_phase(self) -> str:
        """The phase with the most live bytes, a key of `memory_by_phase`."""
        memory_by_phase = self.memory_by_phase
        return max(memory_by_phase, key=lambda name: sum(memory_by_phase[name].values()))

    @property
    def peak(self) -> int:
        """Peak bytes of a step, within `MAX_PEAK_ERROR` of a traced one."""
        return max(sum(parts.values()) for parts in self.memory_by_phase.values())

    @property
    def _size(self) -> int:
        return FORMATS[self.number_format][0]

    @property
    def _cast(self) -> int:
        """Bytes of the copies in two bytes that autocast makes of a block's weights."""
        return 2 * 12 * self.n_embd**2 if self.number_format == "mixed" else 0

    @property
    def _block(self) -> int:
        """Bytes that a block keeps for the backward pass.

        Two inputs of norms; in the matmuls' format two norms' results, query, key, value, attention's output,
        and the MLP's hidden layer before and after GELU; softmax statistics per token and head.
        """
        size, product = FORMATS[self.number_format]
        wide = self.n_embd * (2 * size + (2 + 3 + 1 + 4 + 4) * product)
        return self.tokens * (wide + 16 + 4 * self.n_head) + self._cast

    @property
    def _blocks(self) -> int:
        kept = self._size * self.tokens * self.n_embd if self.checkpointing else self._block
        return self.n_layer * kept

    @property
    def _head(self) -> int:
        size, product = FORMATS[self.number_format]
        cast = 2 * self.vocab_size * self.n_embd if self.number_format == "mixed" else 0
        return self.tokens * (self.n_embd * (size + product) + 8) + cast

    @property
    def _loss(self) -> int:
        return self._size * self.tokens * self.vocab_size


@dataclass(frozen=True)
class Fit:
    """Whether a training step fits on one machine, and how long it takes at least.

    Attributes:
        menu_name: The machine's name in Colab's menu.
        chip: Its data sheet.
        step_bytes: What the step needs at its peak.
        capacity_bytes: What the chip has for it.
        largest_batch: The largest batch size that leaves a tenth of the memory.
        seconds: Lower bound per step: its FLOP alone, at the chip's rate in `chip_throughput`.
        units_per_hour: Colab's compute units per hour; None if unknown.
        free: Whether the free tier has it.
        note: What differs on this machine.
    """

    menu_name: str
    chip: Chip
    step_bytes: int
    capacity_bytes: int
    largest_batch: int
    seconds: float
    units_per_hour: float | None
    free: bool
    note: str

    @property
    def verdict(self) -> str:
        """The verdict in a few words."""
        if self.step_bytes > self.capacity_bytes:
            return "does not fit"
        return "fits" if self.step_bytes <= (1 - HEADROOM) * self.capacity_bytes else "tight"


def fits(model: Transformer) -> list[Fit]:
    """Return, per accelerator machine of Colab, whether `model`'s training step fits, and its least time.

    >>> gpt2 = Transformer(12, 768, 12, 1024, 50257, batch_size=16)
    >>> [fit.verdict for fit in fits(gpt2) if fit.chip.key in ("T4", "A100-40")]
    ['does not fit', 'fits']
    """
    menu = platform_facts.machine_table().by_chip
    return [_fit(model, machine, catalog()[chip]) for chip, machine in menu.items()]


def _fit(model: Transformer, machine: platform_facts.Machine, chip: Chip) -> Fit:
    return Fit(
        menu_name=machine.menu_name,
        chip=chip,
        step_bytes=step_bytes(model, chip),
        capacity_bytes=chip.usable_memory,
        largest_batch=largest_batch(model, chip),
        seconds=model.hardware_flops / _speed(model, chip),
        units_per_hour=machine.units_per_hour,
        free=machine.tier == "free",
        note=_note(model, chip),
    )


def step_bytes(model: Transformer, chip: Chip) -> int:
    """Return the bytes that a step of `model` needs on `chip`: its peak, plus `memory_overheads`."""
    return model.peak + memory_overheads.total(chip)


def largest_batch(model: Transformer, chip: Chip) -> int:
    """Return the largest batch of `model` that leaves a tenth of `chip` free; 0 where none does."""
    low, high = 0, 1
    while high <= _LARGEST and _leaves_room(replace(model, batch_size=high), chip):
        low, high = high, 2 * high
    high = min(high, _LARGEST + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (middle, high)
            if _leaves_room(replace(model, batch_size=middle), chip)
            else (low, middle)
        )
    return low


def ways_to_fit(model: Transformer, chip: Chip) -> list[Transformer]:
    """Return what to change so that a step fits on `chip` with a tenth to spare: the fewest changes.

    These changes of `model` are tried: a smaller batch, activation checkpointing, an optimizer that
    keeps less. Formats are not: whether a network still learns in two bytes is another question. Empty
    where it fits as it is, and where no way is found.

    >>> xl = Transformer(n_layer=24, n_embd=2048, n_head=16, block_size=1024, vocab_size=50257, batch_size=4)
    >>> [(way.batch_size, way.checkpointing, way.optimizer) for way in ways_to_fit(xl, catalog()["L4"])]
    [(4, False, 'sgd')]
    """
    if _leaves_room(model, chip):
        return []
    smaller = [name for name, kept in OPTIMIZERS.items() if kept < OPTIMIZERS[model.optimizer]]
    found: dict[int, list[Transformer]] = {}  # by the number of changes
    for checkpointing in sorted({model.checkpointing, True}):
        for optimizer in (model.optimizer, *smaller):
            way = replace(model, checkpointing=checkpointing, optimizer=optimizer)
            count = (way.checkpointing != model.checkpointing) + (way.optimizer != model.optimizer)
            if _leaves_room(way, chip):
                found.setdefault(count, []).append(way)
            elif rows := min(model.batch_size - 1, largest_batch(way, chip)):
                found.setdefault(count + 1, []).append(replace(way, batch_size=rows))
    return found[min(found)] if found else []


def _leaves_room(model: Transformer, chip: Chip) -> bool:
    return step_bytes(model, chip) <= (1 - HEADROOM) * chip.usable_memory


def _format_on(model: Transformer, chip: Chip) -> str:
    """The format in which the chip computes it: bf16, else fp16; fp32 if asked; else the chip's best."""
    wanted = ("fp32",) if model.number_format == "fp32" else ("bf16", "fp16")
    return next((name for name in wanted if name in chip.peak), chip.best_format)


def _speed(model: Transformer, chip: Chip) -> float:
    return chip_throughput.rates(chip.key)[_format_on(model, chip)].value


def _note(model: Transformer, chip: Chip) -> str:
    if chip.kind != "GPU":
        return f"in {chip.best_format}; as on a GPU, though its own compiler decides what fits"
    if model.number_format != "fp32" and "bf16" not in chip.peak:
        return "in fp16: no bf16 here"
    return ""
