"""What does a machine that has only PyTorch lack for running the course? Wheels of that, in a folder."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Collection, Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from course.table import CourseError

#: What runs and checks the lessons, without TensorFlow: its build for CUDA is no pure affair.
ROOTS = """
    coverage hypothesis ipykernel jinja2 jupyter-client jupytext keras matplotlib nbclient nbformat nbval
    nvidia-ml-py packaging papermill psutil pytest pytest-timeout pytest-xdist pyyaml safetensors
    scikit-learn
""".split()
#: What a machine made for PyTorch and JAX usually has; `make wheels THERE=file` takes its own `pip list`.
THERE = """
    absl-py attrs certifi charset-normalizer click contourpy coverage cycler execnet filelock flatbuffers
    fonttools fsspec grpcio h5py hypothesis idna iniconfig jax jaxlib jinja2 joblib kiwisolver markdown-it-py
    markupsafe matplotlib mdurl ml-dtypes mpmath networkx numpy nvidia-ml-py opt-einsum packaging pillow pip
    pluggy protobuf psutil pygments pyparsing pytest pytest-timeout pytest-xdist python-dateutil pyyaml
    requests rich scikit-learn scipy setuptools six sortedcontainers sympy threadpoolctl torch tqdm triton
    typing-extensions urllib3
""".split()
#: Newest first; pip matches each exactly.
_PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (34, 31, 28, 27, 26, 24, 17, 12, 5)] + [
    "manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64",
]  # fmt: skip


def fill(root: Path, folder: Path, python: str = "3.12", there: Collection[str] = ()) -> list[Path]:
    """Download what is lacking into `folder`, in the versions of constraints.txt; return the wheels.

    `there` names what the machine has, and needs no wheel. Raises `CourseError` for what has no wheel.
    """
    names = sorted(needed(ROOTS, there or THERE, python))
    versions = _versions(root / "constraints.txt")
    wanted = [f"{name}=={versions[name]}" for name in names if name in versions]
    unknown = [name for name in names if name not in versions]
    if unknown:
        raise CourseError(f"constraints.txt has no version of {', '.join(unknown)}.")
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.whl"):
        old.unlink()
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
    ]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", python]
    command += [part for name in _PLATFORMS for part in ("--platform", name)]
    done = subprocess.run(
        [*command, "--dest", str(folder), *wanted], capture_output=True, text=True
    )
    if done.returncode:
        raise CourseError(f"pip could not download the wheels: {done.stderr.strip()[-400:]}")
    return sorted(folder.glob("*.whl"))


def needed(roots: Iterable[str], there: Collection[str] = (), python: str = "") -> set[str]:
    """Return `roots` and what they need beyond `there`, read from this environment's metadata.

    For another Python than this one, give its version as in "3.12". What is not installed here is named,
    and what it needs is not known.
    """
    have = {canonicalize_name(name) for name in there}
    other = {"python_version": python, "python_full_version": f"{python}.0"} if python else {}
    todo = [canonicalize_name(name) for name in roots]
    found: set[str] = set()
    while todo:
        name = todo.pop()
        if name in found or name in have:
            continue
        found.add(name)
        todo += [
            canonicalize_name(need.name)
            for need in _requirements(name)
            if need.marker is None or need.marker.evaluate({**other, "extra": ""})
        ]
    return found


def _requirements(name: str) -> list[Requirement]:
    try:
        return [Requirement(text) for text in metadata.requires(name) or ()]
    except metadata.PackageNotFoundError:
        return []


def listed(path: Path) -> list[str]:
    """Return the names in what `pip list` or `pip freeze` printed."""
    lines = path.read_text("utf-8").splitlines()
    names = [re.split(r"[=\s@]", line.strip())[0] for line in lines if line.strip()]
    return [
        name for name in names if re.fullmatch(r"[A-Za-z\d][\w.-]*", name) and name != "Package"
    ]


def _versions(constraints: Path) -> dict[str, str]:
    pairs = (
        line.split("==") for line in constraints.read_text("utf-8").splitlines() if "==" in line
    )
    return {canonicalize_name(name): version.strip() for name, version in pairs}
