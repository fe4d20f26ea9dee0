"""Checks of packages and their versions."""

from __future__ import annotations

from importlib.util import find_spec

from colab_helpers import runtime, runtime_images
from colab_helpers._import_names import distribution_name
from colab_helpers.preflight.state import State, problems_by_id
from colab_helpers.problem_schema import Finding, fix_on, repository


def old_python(state: State) -> Finding | None:
    """Python below the course's minimum."""
    if not runtime_images.is_older(state.runtime.python, "3.11"):
        return None
    return state.report("old-python", f"Python {state.runtime.python} is older than 3.11.")


def package_missing(state: State) -> Finding | None:
    """A package that the lesson imports is not installed."""
    missing = [name for name in state.required.packages if not _is_installed(name, state)]
    if not missing:
        return None
    seen = f"The lesson imports {', '.join(missing)}, and that is not installed."
    return state.report("package-missing", seen, _naming("package-missing", state, missing))


def part_missing(state: State) -> Finding | None:
    """Some cells need a package that is not installed; they show recorded results."""
    missing = [name for name in state.required.optional if not _is_installed(name, state)]
    if not missing:
        return None
    seen = f"Not installed: {', '.join(missing)}. Cells that need it show recorded results."
    if state.runtime.accelerator == "TPU" and "tensorflow" in missing:
        # The plain one would be of no use there.
        return state.report("part-missing", seen, "Nothing to do: a GPU or CPU machine has it.")
    return state.report("part-missing", seen, _naming("part-missing", state, missing))


def other_helper(state: State) -> Finding | None:
    """The helper that is installed comes from another repository than the lesson."""
    wanted, ours = state.required.helper_from, "/".join(repository().split("/")[-2:])
    if not wanted or not ours or wanted.lower() == ours.lower():
        return None
    return state.report("other-helper", f"The helper here is {ours}'s; this lesson is {wanted}'s.")


def old_torch(state: State) -> Finding | None:
    """PyTorch from before torch.accelerator."""
    version = state.runtime.frameworks.get("torch", "")
    if not runtime_images.is_older(version, "2.6"):
        return None
    return state.report(
        "old-torch", f"PyTorch {version} is older than 2.6, which has torch.accelerator."
    )


def restart_needed(state: State) -> Finding | None:
    """An imported package was replaced on disk: two versions are mixed from here on."""
    mixed = [
        f"{name} {version} is loaded, {state.packages[name]} is installed"
        for name, version in state.loaded.items()
        if name in state.packages and not _is_same(version, state.packages[name])
    ]
    return state.report("restart-needed", "; ".join(mixed) + ".") if mixed else None


def torchao_peft(state: State) -> Finding | None:
    """PEFT refuses the torchao that is installed."""
    peft, torchao = state.packages.get("peft"), state.packages.get("torchao")
    if not peft or not torchao:
        return None
    if runtime_images.is_older(peft, "0.19") or not runtime_images.is_older(torchao, "0.16"):
        return None
    return state.report("torchao-peft", f"PEFT {peft} refuses torchao {torchao}.")


def _naming(id: str, state: State, imports: list[str]) -> str:
    """The fix, with the distributions of these imports in it."""
    names = " ".join(distribution_name(name) for name in imports)
    return fix_on(state.runtime.platform, problems_by_id()[id]).replace("NAME", names)


def _is_installed(name: str, state: State) -> bool:
    if name in state.runtime.frameworks or distribution_name(name) in state.packages:
        return True
    if name.replace("_", "-") in runtime.WATCHED_PACKAGES:
        return False
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of "a.b", a is missing
        return False


def _is_same(loaded: str, installed: str) -> bool:
    """PyPI's PyTorch calls itself 2.11.0+cu130 and its package 2.11.0: only a suffix of both counts."""
    if "+" in loaded and "+" in installed:
        return loaded == installed
    plain = (name.partition("+")[0].replace("-", "") for name in (loaded, installed))  # 2.20.0-rc0
    return len({*plain}) == 1
