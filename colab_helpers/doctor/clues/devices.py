"""Which accelerator does this machine show, where an error says that there is none, or that it is taken?"""

from __future__ import annotations

from collections.abc import Iterator

from colab_helpers import _traces as traces
from colab_helpers import runtime
from colab_helpers.doctor.clues.clue import Clue, Raised
from colab_helpers.doctor.problems import known_problems, way_out

#: Known problems that say a GPU was looked for and not found, or not used.
_WITHOUT = {
    "no-accelerator", "jax-without-gpu", "bitsandbytes-cuda", "cuda-unknown-error", "half-on-cpu",
    "triton-no-gpu", "checkpoint-from-gpu", "tensorflow-cuda", "tpu-not-there",
}  # fmt: skip

#: Known problems that say a TPU is in use.
_TAKEN = {"tpu-in-use", "tpu-device-busy"}


def clues(raised: Raised) -> Iterator[Clue]:
    """Yield why `raised` did not get a chip: none there, hidden, taken, or a build for CPUs."""
    if not raised.chain:
        return
    if raised.known in _TAKEN and (holders := traces.tpu_holders()):
        named = ", ".join(map(str, holders))
        yield Clue(
            raised.known,
            f"Another process has the TPU open: {named}.",
            f"`!kill -9 {named.replace(',', '')}`, {raised.restart}.",
        )
    if raised.known not in _WITHOUT:
        return
    seen = runtime.observe()
    here = runtime.describe(seen)
    if here.accelerator == "none" and runtime.hides_gpus(seen.env) and "/dev/nvidia0" in seen.paths:
        value = seen.env.get("CUDA_VISIBLE_DEVICES", "")
        yield _of(
            "gpu-hidden", f"There is a GPU, but `CUDA_VISIBLE_DEVICES={value!r}` hides it.", raised
        )
    elif here.accelerator == "none":
        id = raised.known if raised.known.startswith("tpu") else "no-accelerator"
        yield _of(id, "This machine shows no GPU and no TPU.", raised)
    elif here.accelerator == "GPU" and traces.torch_cuda() == "":
        version = here.frameworks.get("torch", "")
        yield _of(
            "cpu-build", f"There is a GPU, but PyTorch {version} is a build for CPUs.", raised
        )
    elif here.accelerator == "GPU" and raised.known == "no-accelerator":
        yield Clue(
            raised.known,
            "This machine does have a GPU, so the runtime type is not the problem.",
            f"`!nvidia-smi` has to list it. {raised.restarting}, and look for what hides it before the "
            "error: a process that was started before, `CUDA_VISIBLE_DEVICES`, an old driver.",
        )
    elif here.accelerator in ("TPU", "Apple GPU", "AMD GPU"):
        yield Clue(
            raised.known,
            f"This machine has {here.tpu or here.accelerator}, and no NVIDIA GPU.",
            known_problems()["other-kind"].remedy
            if raised.platform.startswith("colab")
            else "Take a machine with an NVIDIA GPU for this cell.",
        )


def _of(id: str, seen: str, raised: Raised) -> Clue:
    return Clue(id, seen, way_out(id, raised.platform))
