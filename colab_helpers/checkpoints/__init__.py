"""Checkpoints that are whole or not there, verified, and resumed from."""

from colab_helpers.checkpoints.order import Batches
from colab_helpers.checkpoints.pytorch import RandomState, resume, save
from colab_helpers.checkpoints.store import (
    CheckpointError,
    CheckpointWarning,
    Found,
    Resumed,
    Saved,
    Store,
)

__all__ = [
    "Batches",
    "CheckpointError",
    "CheckpointWarning",
    "Found",
    "RandomState",
    "Resumed",
    "Saved",
    "Store",
    "resume",
    "save",
]
