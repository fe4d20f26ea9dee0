"""Checkpoints that are whole or not there, verified, and resumed from."""

from colab_helpers.checkpoints.jax import resume_jax, save_jax
from colab_helpers.checkpoints.keras import resume_keras, save_keras
from colab_helpers.checkpoints.order import Batches
from colab_helpers.checkpoints.pytorch import RandomState, resume, save
from colab_helpers.checkpoints.stop import StopRequest
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
    "StopRequest",
    "Store",
    "resume",
    "resume_jax",
    "resume_keras",
    "save",
    "save_jax",
    "save_keras",
]
