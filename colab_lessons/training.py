"""The course's job: train `models.GPT` on Shakespeare for 1,000 steps, with checkpoints.

`python -m colab_lessons.training FOLDER` runs it, resumes what is in FOLDER, and writes there the weights and
the record.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

import torch
from torch.nn import functional as F

from colab_helpers import _atomic_files, checkpoints, hardware
from colab_lessons import models, shakespeare

#: Steps after which the record keeps a sample.
SAMPLE_STEPS = (0, 100, 300, 1000)
PROMPT = "ROMEO:\n"
_EVAL_WINDOWS = 64  # stretches of each text that an evaluation on the way reads


@dataclass(frozen=True)
class TrainConfig:
    """How the job is trained: `steps` batches of `batch_size` stretches of text, AdamW.

    The learning rate rises for `warm_up` steps to `learning_rate`, and falls along half a cosine to a tenth.
    Gradients are clipped to a norm of `clip`. After each `evaluate_every` steps the losses are measured and a
    checkpoint is saved.
    """

    steps: int = 1000
    batch_size: int = 32
    learning_rate: float = 1e-3
    warm_up: int = 100
    clip: float = 1.0
    seed: int = 0
    evaluate_every: int = 100

    def rate(self, step: int) -> float:
        """Return the learning rate of `step`, counted from 0."""
        if step < self.warm_up:
            return self.learning_rate * (step + 1) / self.warm_up
        done = (step - self.warm_up) / max(1, self.steps - self.warm_up)
        return self.learning_rate * (0.55 + 0.45 * math.cos(math.pi * min(1, done)))


def batch(
    text: torch.Tensor, rows: int, length: int, generator: torch.Generator | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw `rows` stretches of `text`; return ids and, one place further on, targets: int64 (rows, length).

    >>> ids, targets = batch(shakespeare.load("test"), 2, 8)
    >>> bool((ids[:, 1:] == targets[:, :-1]).all())
    True
    """
    starts = torch.randint(len(text) - length, (rows, 1), generator=generator)
    chunk = text[starts + torch.arange(length + 1)].long()  # (rows, length + 1)
    return chunk[:, :-1], chunk[:, 1:]


@torch.no_grad()
def bits_per_character(
    model: torch.nn.Module, text: torch.Tensor, length: int = 256, windows: int | None = None
) -> float:
    """Return the cross-entropy of `model` on `text` in bits per character.

    The text is cut into stretches of `length`, so a character is predicted from 1 to `length` others.

    Args:
        model: Ids of shape (batch, length) in, logits (batch, length, characters) out.
        text: Ids of shape (characters,).
        length: The model's context.
        windows: So many stretches, evenly spaced; all if left out.
    """
    device = next(model.parameters()).device
    starts = torch.arange(0, len(text) - length, length)
    if windows is not None:
        starts = starts[torch.linspace(0, len(starts) - 1, windows).long()]
    total = 0.0
    for some in starts.split(32):
        chunk = text[some[:, None] + torch.arange(length + 1)].long().to(device)
        logits = model(chunk[:, :-1])  # (rows, length, characters)
        loss = F.cross_entropy(
            logits.flatten(0, 1).float(), chunk[:, 1:].flatten(), reduction="sum"
        )
        total += loss.item()
    return total / (len(starts) * length) / math.log(2)


@torch.no_grad()
def sample(
    model: models.GPT,
    prompt: str = PROMPT,
    count: int = 300,
    seed: int = 0,
    temperature: float = 0.8,
) -> str:
    """Return `prompt` and `count` characters that `model` writes after it, drawn with `seed`.

    Logits are divided by `temperature`: below 1, likely characters become likelier.

    Raises:
        ValueError: The prompt is empty, or `temperature` isn't above 0.
    """
    if not prompt or temperature <= 0:
        raise ValueError(
            f"The prompt must have a character, and the temperature be above 0 "
            f"(got {prompt!r:.40} and {temperature})."
        )
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(seed)
    ids = shakespeare.encode(prompt).long()
    for _ in range(count):
        context = ids[-model.config.block_size :]
        logits = model(context[None].to(device))[0, -1].float().cpu()  # (characters,)
        probabilities = torch.softmax(logits / temperature, 0)
        ids = torch.cat([ids, torch.multinomial(probabilities, 1, generator=generator)])
    return shakespeare.decode(ids)


class TrainingRun:
    """One training of the job, in a folder from which it resumes."""

    def __init__(
        self,
        recipe: TrainConfig,
        folder: Path,
        device: torch.device,
        config: models.GPTConfig | None = None,
    ):
        self.recipe, self.device = recipe, device
        torch.manual_seed(recipe.seed)
        self.model = models.GPT(config).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=recipe.learning_rate)
        for group in self.optimizer.param_groups:  # as a scheduler would: `step` changes "lr"
            group["initial_lr"] = recipe.learning_rate
        self.generator = torch.Generator().manual_seed(recipe.seed)
        self.texts = {part: shakespeare.load(part) for part in ("train", "test")}
        mine = {name: value for name, value in asdict(recipe).items() if name != "steps"}
        self.record: dict = {name: [] for name in ("seconds", "losses", "evaluated")}
        self.record |= {"samples": {}, "recipe": {**mine}}
        self.store = checkpoints.Store(folder)
        self.done = checkpoints.resume(self.store, self._parts()).step
        if self.record.get("recipe") != mine or self.done > recipe.steps:
            raise ValueError(
                f"{folder} holds {self.done} steps of a training with other settings. Use another folder."
            )

    def _parts(self) -> dict:
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "generator": self.generator,
            "record": self.record,
        }

    def train(self, report: Callable[[str], object] = print) -> None:
        """Run the steps that are left, and say how far it is at each evaluation."""
        while self.done < self.recipe.steps:
            if self.done == 0:
                self._evaluate(report)
            start = time.perf_counter()
            loss = self.step()
            self.record["seconds"].append(time.perf_counter() - start)
            self.record["losses"].append(loss / math.log(2))
            self.done += 1
            if self.done % self.recipe.evaluate_every == 0 or self.done == self.recipe.steps:
                self._evaluate(report)
                checkpoints.save(self.store, self.done, self._parts())

    def step(self) -> float:
        """Train on one batch; return its loss in nats per character."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.rate(self.done)
        ids, targets = batch(
            self.texts["train"],
            self.recipe.batch_size,
            self.model.config.block_size,
            self.generator,
        )
        logits = self.model(ids.to(self.device))  # (batch, tokens, characters)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.to(self.device).flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()  # waits for the device, so that the clock around it is right

    def _evaluate(self, report: Callable[[str], object]) -> None:
        length = self.model.config.block_size
        self.model.eval()
        on = {
            part: bits_per_character(self.model, text, length, windows=_EVAL_WINDOWS)
            for part, text in self.texts.items()
        }
        self.record["evaluated"].append({"step": self.done, **on})
        if self.done in SAMPLE_STEPS:
            self.record["samples"][str(self.done)] = sample(self.model)
        self.model.train()
        spent = sum(self.record["seconds"])
        report(
            f"step {self.done}: {on['train']:.3f} and {on['test']:.3f} bits per character, {spent:.0f} s"
        )


def main() -> None:
    """Train the job, or go on with it, and write weights and record into the folder."""
    parser = argparse.ArgumentParser(prog="python -m colab_lessons.training", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=TrainConfig.steps)
    parser.add_argument("--learning-rate", type=float, default=TrainConfig.learning_rate)
    parser.add_argument("--seed", type=int, default=0)
    found = torch.accelerator.current_accelerator(check_available=True)
    parser.add_argument("--device", type=torch.device, default=found or torch.device("cpu"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    recipe = TrainConfig(
        steps=options.steps, learning_rate=options.learning_rate, seed=options.seed
    )
    run = TrainingRun(recipe, options.folder, options.device)
    run.train(lambda line: print(line, flush=True))
    torch.save(run.model.state_dict(), options.folder / "weights.pt")
    about = {
        "date": date.today().isoformat(),
        "device": getattr(
            hardware.list_devices(), "cpu" if options.device.type == "cpu" else "main"
        ).short_name,
        "threads": torch.get_num_threads(),
        "torch": str(torch.__version__),
        "test_bits": bits_per_character(run.model, run.texts["test"]),
    }
    record = {**about, **asdict(recipe), **run.record}
    del record["recipe"]
    print(
        _atomic_files.write(options.folder / "record.json", json.dumps(record, indent=1).encode())
    )


if __name__ == "__main__":
    main()
