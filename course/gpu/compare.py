"""The helper's own figures against CUDA's counters and events."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from colab_helpers import benchmark, memory
from colab_lessons import models

#: Shares by which the two may differ.
BYTES_OFF, SECONDS_OFF = 0.02, 0.10
_CALLS = 50  # between two events


@dataclass(frozen=True)
class Agreement:
    """One figure of the helper beside CUDA's own, in bytes or seconds."""

    what: str
    ours: float
    cudas: float
    allowed: float

    @property
    def off(self) -> float:
        """By which share ours is larger."""
        return self.ours / self.cudas - 1

    @property
    def holds(self) -> bool:
        """Whether they agree as far as they have to."""
        return abs(self.off) <= self.allowed

    def __str__(self) -> str:
        verdict = "" if self.holds else f"   MORE THAN {self.allowed:.0%}"
        return (
            f"{self.what}: {self.ours:.6g}, CUDA says {self.cudas:.6g} ({self.off:+.1%}){verdict}"
        )


def footprints() -> Iterator[Agreement]:
    """Predict the peak of training steps without running them, then run them."""
    device = torch.device("cuda")
    for name, build, batch in _steps(device):
        model, loss_of = build()
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(2):  # the state, and the workspaces of CUDA's libraries
            loss_of(batch).backward()
            optimizer.step()
            optimizer.zero_grad()
        predicted = memory.footprint(model, loss_of, batch, optimizer).peak
        standing = memory.tensor_bytes([model, optimizer])
        gc.collect()
        torch.cuda.synchronize()
        before = _requested("current")
        torch.cuda.reset_peak_memory_stats()
        loss_of(batch).backward()
        optimizer.step()
        torch.cuda.synchronize()
        found = _requested("peak") - before + standing
        yield Agreement(f"peak bytes, {name}", predicted, found, BYTES_OFF)
        optimizer.zero_grad()
        del model, loss_of, optimizer
        memory.release()


def timings(n: int = 4096) -> Iterator[Agreement]:
    """Time work on matrices of n × n with the helper's timer, and with events in CUDA's own queue."""
    for name, work in _work(torch.device("cuda"), n).items():
        ours = benchmark.measure(work, budget=1.0).median
        yield Agreement(f"seconds, {name}", ours, _by_events(work), SECONDS_OFF)


def _by_events(work: Callable[[], object]) -> float:
    for _ in range(3):
        work()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(_CALLS):
        work()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1000 / _CALLS


def _requested(what: str) -> int:
    return torch.cuda.memory_stats()[f"requested_bytes.all.{what}"]


def _steps(device: torch.device) -> Iterator[tuple[str, Callable, int]]:
    def gpt():
        config = models.GPTConfig(context=128, width=192, heads=6, layers=4)
        model = models.GPT(config).to(device)

        def loss_of(rows: int) -> torch.Tensor:
            ids = torch.randint(config.vocabulary, (rows, config.context), device=device)
            return F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())

        return model, loss_of

    def wide():
        model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 10)).to(device)
        return model, lambda rows: model(torch.randn(rows, 512, device=device)).square().mean()

    def images():
        layers = (
            nn.Conv2d(3, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(32, 10)).to(device)
        return (
            model,
            lambda rows: model(torch.randn(rows, 3, 64, 64, device=device)).square().mean(),
        )

    yield "GPT, 16 rows", gpt, 16
    yield "two layers, 4096 rows", wide, 4096
    yield "convolution, 64 images", images, 64


def _work(device: torch.device, n: int) -> dict[str, Callable[[], object]]:
    a, x = torch.randn(n, n, device=device), torch.randn(n * n, device=device)
    out = torch.empty_like(x)
    return {
        f"product of {n} × {n}": lambda: a @ a,
        f"copy of {x.numel():,} numbers": lambda: out.copy_(x),
        "sum in place of 16 numbers": lambda: out[:16].add_(1.0),
    }
