"""Where this code runs: platform, accelerator, memory, packages.

`probe` collects what the machine shows from outside, without importing a framework and without
touching a chip; `describe` judges it. The two are apart so that any machine ever recorded can be
judged again on any other.
"""

from __future__ import annotations

from colab_helpers.runtime.description import (
    Runtime,
    describe,
    hides_gpus,
    tpu_chips,
)
from colab_helpers.runtime.log_noise import capture_stderr
from colab_helpers.runtime.system_info import DRIVE, WATCHED_PACKAGES, SystemInfo, probe

__all__ = [
    "DRIVE",
    "WATCHED_PACKAGES",
    "Runtime",
    "SystemInfo",
    "capture_stderr",
    "describe",
    "hides_gpus",
    "probe",
    "tpu_chips",
]
