"""Which accelerator this machine shows, where an error says that there is none or that it is taken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from colab_doctor.diagnosis.base import Diagnosis, Failure, fix_of
from colab_doctor.table import known_problems
from colab_helpers import _traces as traces
from colab_helpers import runtime

#: Known problems that say a GPU was looked for and not found; the first also of PyTorch alone.
_PYTORCH = {"no-accelerator", "bitsandbytes-cuda", "cuda-unknown-error", "triton-no-gpu"}
_WITHOUT = _PYTORCH | {"jax-without-gpu", "tensorflow-cuda"}
#: Known problems that say a TPU is in use.
_TAKEN = {"tpu-in-use", "tpu-device-busy"}
#: Known problems of code for TPUs, which looks so too where there is none.
_FOR_TPUS = {
    "tpu-not-there",
    "tpu-node",
    "tpu-xrt",
    "tpu-libtpu-mismatch",
    "tpu-without-libtpu",
    "libtpu-missing",
}
_OTHERS = re.compile(r"jax|xla|tensorflow|tpu", re.IGNORECASE)


def of_chips(failure: Failure) -> Iterator[Diagnosis]:
    """Yield why `failure` did not get a chip: none there, hidden, taken, or a build for CPUs."""
    if not failure.chain:
        return
    if failure.known in _TAKEN:
        yield from _taken(failure)
    elif failure.known in _WITHOUT:
        yield from _without(failure)
    elif failure.known in _FOR_TPUS:
        yield from _for_a_tpu(failure)


def _for_a_tpu(failure: Failure) -> Iterator[Diagnosis]:
    """Whether there is a TPU at all."""
    tpu = runtime.describe(runtime.observe()).tpu
    if tpu and failure.known == "tpu-not-there":
        observation = f"This machine does have a {tpu}: it is there, and could not be started."
        yield Diagnosis("tpu-not-there", observation, fix_of("tpu-in-use", failure.platform))
    elif not tpu:
        yield _no_tpu(failure)


def _no_tpu(failure: Failure) -> Diagnosis:
    fix = (
        "Runtime > Change runtime type > v5e-1 TPU > Save, then run from the top."
        if failure.platform.startswith("colab")
        else "Take a machine with a TPU (Kaggle: Settings > Accelerator), or let the code use what there is."
    )
    return Diagnosis("tpu-not-there", "This machine shows no TPU.", fix)


def _without(failure: Failure) -> Iterator[Diagnosis]:
    """Why no GPU is seen."""
    seen = runtime.observe()
    here = runtime.describe(seen)
    of_pytorch = failure.known in _PYTORCH and not _OTHERS.search(failure.text)
    if here.accelerator == "none" and runtime.hides_gpus(seen.env) and "/dev/nvidia0" in seen.paths:
        value = seen.env.get("CUDA_VISIBLE_DEVICES", "")
        yield _of(
            "gpu-hidden", f"There is a GPU, but `CUDA_VISIBLE_DEVICES={value!r}` hides it.", failure
        )
    elif here.accelerator == "none":
        yield _of("no-accelerator", "This machine shows no GPU and no TPU.", failure)
    elif here.accelerator == "GPU" and of_pytorch and traces.torch_cuda() == "":
        version = here.frameworks.get("torch", "")
        yield _of(
            "cpu-build", f"There is a GPU, but PyTorch {version} is a build for CPUs.", failure
        )
    elif here.accelerator == "GPU" and failure.known == "no-accelerator":
        yield Diagnosis(
            failure.known,
            "This machine does have a GPU, so the runtime type is not the problem.",
            f"`!nvidia-smi` has to list it. {failure.restarting}, and look for what hides it before "
            "the error: a process that was started before, `CUDA_VISIBLE_DEVICES`, an old driver.",
        )
    elif here.accelerator == "TPU":
        observation = f"This machine has a {here.tpu}, and no NVIDIA GPU."
        yield Diagnosis(failure.known, observation, known_problems()["other-kind"].fix)
    elif here.accelerator == "AMD GPU" and of_pytorch:
        yield Diagnosis(
            failure.known,
            "This machine has an AMD GPU, and PyTorch here is not built for it.",
            "Install PyTorch's build for ROCm: https://pytorch.org/get-started/locally/",
        )


def _taken(failure: Failure) -> Iterator[Diagnosis]:
    """Who has the TPU open, beside this session and those that started it."""
    named = [(pid, _command(pid)) for pid in traces.tpu_holders()]
    if named:
        listed = ", ".join(
            f"{pid} (`{command}`)" if command else str(pid) for pid, command in named
        )
        yield Diagnosis(
            failure.known,
            f"Another process has the TPU open: {listed}.",
            "End it where it was started: another notebook, or an earlier `!python` line. If it "
            f"is nobody's work any more: `!kill {' '.join(str(pid) for pid, _ in named)}`, "
            f"{failure.restart}.",
        )


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()[:80]
    except OSError:  # it has ended, or belongs to somebody else
        return ""


def _of(id: str, observation: str, failure: Failure) -> Diagnosis:
    return Diagnosis(id, observation, fix_of(id, failure.platform))
