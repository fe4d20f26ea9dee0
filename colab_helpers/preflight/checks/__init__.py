"""The checks, one small function each.

A check looks at a `State`, starts nothing, and returns a `Finding` or None. Its words are in
`problems.toml`; it adds what was seen.
"""

from __future__ import annotations

from collections.abc import Callable

from colab_helpers.preflight.checks import gpu, packages, session, tpu
from colab_helpers.preflight.state import State
from colab_helpers.problem_schema import Finding

Check = Callable[[State], Finding | None]

#: Every check, in the order of the card.
CHECKS: tuple[Check, ...] = (
    gpu.no_accelerator,
    gpu.gpu_hidden,
    gpu.other_chip,
    gpu.other_kind,
    gpu.silent_driver,
    gpu.cpu_build,
    gpu.cuda_too_new,
    gpu.gpu_too_old,
    gpu.replaced_build,
    gpu.tensorflow_cuda,
    gpu.gpu_held,
    gpu.bf16_emulated,
    gpu.gpu_slice,
    tpu.tpu_without_tensorflow,
    tpu.tpu_in_use,
    packages.old_python,
    packages.package_missing,
    packages.part_missing,
    packages.other_helper,
    packages.old_torch,
    packages.restart_needed,
    packages.torchao_peft,
    session.little_ram,
    session.little_disk,
    session.drive_dropped,
)
