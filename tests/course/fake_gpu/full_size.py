"""Lesson 06 at full size on a card that is not there: tensors without data take the allocator's bytes."""

import sys

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

from colab_helpers import memory
from colab_lessons import models

DEVICE = torch.device("cuda")
BUDGET = 4000 * 2**20  # as lesson 06 has it on an accelerator

sys.modules["course.fake_gpu.tensor_placement"].is_fake = lambda tensor: (
    False
)  # so that they are counted
with FakeTensorMode(allow_non_fake_inputs=True):
    config = models.GPTConfig()
    with DEVICE:
        model = models.GPT(config)
    optimizer = torch.optim.Adam(model.parameters())

    def training_step(rows):
        optimizer.zero_grad()
        ids = torch.randint(config.vocab_size, (rows, config.block_size), device=DEVICE)
        F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
        optimizer.step()

    def peak_of(rows):
        optimizer.zero_grad()
        with memory.track(DEVICE, known=[model, optimizer]) as tracker:
            training_step(rows)
        return tracker.peak

    training_step(2)
    batches = (8, 12, 16)
    a_row, fixed = np.polyfit(batches, [peak_of(rows) for rows in batches], 1)
    promised = int((BUDGET - fixed) / a_row)
    print(promised, round(1000 * peak_of(promised) / BUDGET))
