"""Atomic, verified checkpoints, and resuming from them."""

from colab_helpers.checkpoints.batch_sampler import ResumableBatchSampler
from colab_helpers.checkpoints.pytorch import RandomState, resume, save
from colab_helpers.checkpoints.store import (
    CheckpointError,
    CheckpointFile,
    CheckpointWarning,
    ResumeResult,
    SaveResult,
    Store,
)

__all__ = [
    "CheckpointError",
    "CheckpointFile",
    "CheckpointWarning",
    "RandomState",
    "ResumableBatchSampler",
    "ResumeResult",
    "SaveResult",
    "Store",
    "resume",
    "save",
]
