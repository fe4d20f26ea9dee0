"""Which accelerator does this machine show, where an error says that there is none, or that it is taken?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from colab_helpers import _traces as traces
from colab_helpers import runtime
from colab_helpers.doctor.clues.clue import Clue, Raised
from colab_helpers.doctor.problems import known_problems, way_out

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


def clues(raised: Raised) -> Iterator[Clue]:
    """Yield why `raised` did not get a chip: none there, hidden, taken, or a build for CPUs."""
    if not raised.chain:
        return
    if raised.known in _TAKEN:
        yield from _taken(raised)
    elif raised.known in _WITHOUT:
        yield from _without(raised)
    elif raised.known in _FOR_TPUS:
        yield from _for_a_tpu(raised)


def _for_a_tpu(raised: Raised) -> Iterator[Clue]:
    """Whether there is a TPU at all."""
    tpu = runtime.describe(runtime.observe()).tpu
    if tpu and raised.known == "tpu-not-there":
        seen = f"This machine does have a {tpu}: it is there, and could not be started."
        yield Clue("tpu-not-there", seen, way_out("tpu-in-use", raised.platform))
    elif not tpu:
        yield _no_tpu(raised)


def _no_tpu(raised: Raised) -> Clue:
    remedy = (
        "Runtime > Change runtime type > v5e-1 TPU > Save, then run from the top."
        if raised.platform.startswith("colab")
        else "Take a machine with a TPU (Kaggle: Settings > Accelerator), or let the code use what there is."
    )
    return Clue("tpu-not-there", "This machine shows no TPU.", remedy)


def _without(raised: Raised) -> Iterator[Clue]:
    """Why no GPU is seen."""
    seen = runtime.observe()
    here = runtime.describe(seen)
    of_pytorch = raised.known in _PYTORCH and not _OTHERS.search(raised.text)
    if here.accelerator == "none" and runtime.hides_gpus(seen.env) and "/dev/nvidia0" in seen.paths:
        value = seen.env.get("CUDA_VISIBLE_DEVICES", "")
        yield _of(
            "gpu-hidden", f"There is a GPU, but `CUDA_VISIBLE_DEVICES={value!r}` hides it.", raised
        )
    elif here.accelerator == "none":
        yield _of("no-accelerator", "This machine shows no GPU and no TPU.", raised)
    elif here.accelerator == "GPU" and of_pytorch and traces.torch_cuda() == "":
        version = here.frameworks.get("torch", "")
        yield _of(
            "cpu-build", f"There is a GPU, but PyTorch {version} is a build for CPUs.", raised
        )
    elif here.accelerator == "GPU" and raised.known == "no-accelerator":
        yield Clue(
            raised.known,
            "This machine does have a GPU, so the runtime type is not the problem.",
            f"`!nvidia-smi` has to list it. {raised.restarting}, and look for what hides it before "
            "the error: a process that was started before, `CUDA_VISIBLE_DEVICES`, an old driver.",
        )
    elif here.accelerator == "TPU":
        seen_here = f"This machine has a {here.tpu}, and no NVIDIA GPU."
        yield Clue(raised.known, seen_here, known_problems()["other-kind"].remedy)
    elif here.accelerator == "AMD GPU" and of_pytorch:
        yield Clue(
            raised.known,
            "This machine has an AMD GPU, and PyTorch here is not built for it.",
            "Install PyTorch's build for ROCm: https://pytorch.org/get-started/locally/",
        )


def _taken(raised: Raised) -> Iterator[Clue]:
    """Who has the TPU open, beside this session and those that started it."""
    named = [(pid, _command(pid)) for pid in traces.tpu_holders()]
    if named:
        told = ", ".join(f"{pid} (`{command}`)" if command else str(pid) for pid, command in named)
        yield Clue(
            raised.known,
            f"Another process has the TPU open: {told}.",
            "End it where it was started: another notebook, or an earlier `!python` line. If it "
            f"is nobody's work any more: `!kill {' '.join(str(pid) for pid, _ in named)}`, "
            f"{raised.restart}.",
        )


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()[:80]
    except OSError:  # it has ended, or belongs to somebody else
        return ""


def _of(id: str, seen: str, raised: Raised) -> Clue:
    return Clue(id, seen, way_out(id, raised.platform))
