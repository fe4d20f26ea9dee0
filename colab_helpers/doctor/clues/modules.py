"""Where is a package that could not be imported: misspelt, for another Python, or not installed?"""

from __future__ import annotations

import difflib
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from colab_helpers import _traces as traces
from colab_helpers.doctor.clues.clue import Clue, Raised
from colab_helpers.doctor.clues.files import is_on_a_drive
from colab_helpers.doctor.clues.installed import installed, is_of_packages
from colab_helpers.doctor.imports import distribution, normal
from colab_helpers.doctor.missing import brought

#: Names that people import a package by, and the one that it has.
_CALLED = {
    "pytorch": "torch",
    "opencv": "cv2",
    "scikit_learn": "sklearn",
    "pillow": "PIL",
    "tf": "tensorflow",
}
_POPULAR = (
    "numpy", "pandas", "torch", "torchvision", "tensorflow", "keras", "jax", "matplotlib", "sklearn", "scipy",
    "seaborn", "transformers", "datasets", "accelerate", "diffusers", "requests", "tqdm", "cv2",
)  # fmt: skip

#: What a message says to install.
_SAYS = re.compile(r"pip3? install (?:-\S{1,12} )?[\"'`]{0,2}([A-Za-z][\w.-]{0,40}\w)")


def clues(raised: Raised) -> Iterator[Clue]:
    """Yield where the package is that `raised` could not import, or says to install."""
    if raised.known == "install-named":
        yield from _named(raised)
    else:
        yield from _not_found(raised)


def _named(raised: Raised) -> Iterator[Clue]:
    """Whether what a message says to install is here already, and was only looked for too early."""
    said = _SAYS.findall(raised.text)
    found = installed(said[-1]) if said and raised.chain else None
    if found:
        seen = f"{found} is installed here, so it came after the library had looked for it, or is too old."
        remedy = f"{raised.restarting}. If that does not help: `%pip install -U {found.name}`, and again."
        yield Clue("install-named", seen, remedy)


def _not_found(raised: Raised) -> Iterator[Clue]:
    error = raised.error
    name = error.name if isinstance(error, ModuleNotFoundError) and error.name else ""
    top = name.partition(".")[0]
    if not top or top in sys.modules:
        return
    if raised.known not in ("", "package-missing"):  # the table knows how this one is installed
        return
    near = difflib.get_close_matches(top, _POPULAR, 1, 0.75)
    if own := _own(top):
        yield _told(
            f"There is `{own}`, whose folder is not searched.",
            f'`import sys; sys.path.append("{own.parent}")` before the import.',
        )
    elif right := _CALLED.get(top.lower()):
        yield _told(
            f"There is no module `{top}`: it is imported as `{right}`.", f"`import {right}`"
        )
    elif folder := _elsewhere(top):
        yield Clue(
            "another-python",
            f"`{top}` is in `{folder}`, and this session's Python ({sys.executable}, "
            f"{sys.version_info.major}.{sys.version_info.minor}) does not search that folder.",
            f"{_install(top, folder)} With %, pip installs where this session looks.",
        )
    elif normal(distribution(top)) in brought("gpu"):
        yield _told(f"`{top}` is not installed here.", f"`%pip install {distribution(top)}`")
    elif near:
        yield _told(
            f"Nothing here is called `{top}`. Did you mean `{near[0]}`?", f"`import {near[0]}`"
        )
    else:
        yield _told(
            f"Nothing that is installed here has a module `{top}`.",
            f"A package: `%pip install {distribution(top)}`, if its documentation gives no other name "
            "for pip. A file of your own, or of a repository, is found if its folder is the current one "
            "or on `sys.path`. Check the spelling.",
        )


def _own(top: str) -> Path | None:
    """A module of that name in a folder of the current one, as in a repository that was cloned."""
    here = traces.working_folder()
    if is_on_a_drive(str(here)):  # each look there goes over the network
        return None
    found = itertools.chain(here.glob(f"*/{top}.py"), here.glob(f"*/{top}/__init__.py"))
    file = next((each for each in found if not is_of_packages(str(each))), None)
    return file.parent if file and file.name == "__init__.py" else file


def _install(top: str, folder: Path) -> str:
    """How to install what lies in a folder of another Python, if its files tell by which name."""
    for about in folder.glob("*.dist-info"):
        listed = about / "RECORD"
        if listed.is_file() and re.search(
            rf"(?m)^{re.escape(top)}(/|\.py)", listed.read_text("utf-8", "replace")
        ):
            return f"`%pip install {normal(about.name.partition('-')[0])}`."
    return "Install it for this Python."


def _elsewhere(top: str) -> Path | None:
    """The folder of another Python on this machine that has the package."""
    ours = {Path(entry).resolve() for entry in sys.path if entry}
    roots = (Path("/usr/local/lib"), Path.home() / ".local/lib", Path("/opt"),
             traces.working_folder() / ".venv/lib", Path("/content/.venv/lib"))  # fmt: skip
    patterns = ("python3*/site-packages", "python3*/dist-packages", "*/lib/python3*/site-packages")
    folders = (folder for root in roots for pattern in patterns for folder in root.glob(pattern))
    return next(
        (
            folder
            for folder in folders
            if folder.resolve() not in ours
            and ((folder / top).is_dir() or (folder / f"{top}.py").is_file())
        ),
        None,
    )


def _told(seen: str, remedy: str) -> Clue:
    return Clue("package-missing", seen, remedy)
