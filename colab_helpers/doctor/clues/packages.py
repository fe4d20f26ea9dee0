"""Which two packages of this session do not go together?

A traceback says which package asked, and the exception whom it asked for what. What is installed, what is
loaded, and what a package says it needs is looked up here.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType

from colab_helpers import _traces as traces
from colab_helpers.doctor.clues.asked import asked, mismatch, step
from colab_helpers.doctor.clues.clue import Clue, Raised, frames, module_of, text_of
from colab_helpers.doctor.clues.installed import (
    Package,
    forget,
    installed,
    is_of_packages,
    needs,
    package,
)
from colab_helpers.doctor.imports import distribution

_SIZES = re.compile(r"numpy\.dtype size changed.{0,80}Expected (96|88) from C header, got (88|96)")
#: How packages say themselves which release of another they want.
_AT_LEAST = re.compile(
    r"(?:requires|needs)(?: at least)? ([A-Za-z][\w-]{1,40})(?: version)? v?(\d[\d.]{0,12}) or "
    r"(?:newer|later|higher|above|greater)",
    re.IGNORECASE,
)
_AT_LEAST_OF = re.compile(
    r"requires version '?(\d[\d.]{0,12})'? or newer of '?([A-Za-z][\w-]{1,40})", re.I
)
_AT_MOST = re.compile(
    r"(?:requires|needs) ([A-Za-z][\w-]{1,40}) (\d+\.\d+) or (?:less|older|lower)", re.I
)
_WORD = re.compile(r"[A-Za-z_][\w-]{1,60}")
#: Known problems in which a file, and no package, asks for the name.
_FILES_ASK = ("numpy-2-pickle", "sklearn-pickle")
#: Errors that two packages of different times raise in each other; others are left alone.
_KINDS = (ImportError, AttributeError, TypeError, ValueError, RuntimeError, SystemError)


def clues(raised: Raised) -> Iterator[Clue]:
    """Yield, for `raised`, packages replaced under this session, and those that do not go together."""
    forget()  # something may have been installed since the last error
    for error in raised.chain:
        if isinstance(error, _KINDS):
            looks = (_replaced, _built_for_another, _unmet, _said, _over_the_border, _unmet_at_all)
            yield from next((found for look in looks if (found := list(look(error, raised)))), [])[
                :1
            ]


def _replaced(error: BaseException, raised: Raised) -> Iterator[Clue]:
    """Packages of which one version is loaded, and another was installed since."""
    mixed = []
    for top in _concerned(error):
        loaded = vars(sys.modules[top]).get("__version__")
        there = package(top)
        if there and isinstance(loaded, str) and _is_another(loaded, there) and _is_new(there):
            mixed.append(f"{top} {loaded} is loaded, and {there.version} was installed since")
    if mixed:
        yield Clue(
            "restart-needed",
            f"{'; '.join(mixed)}: this session mixes both.",
            f"{raised.restart[5:]}, then run from the top.",
        )


def _concerned(error: BaseException) -> list[str]:
    """Top-level modules, loaded, of a traceback and of an error's text."""
    tops = {module_of(frame).partition(".")[0] for frame in frames(error)}
    tops |= {word.lower() for word in _WORD.findall(text_of(error)[:5000])}
    return sorted(top for top in tops if isinstance(sys.modules.get(top), ModuleType))


def _is_another(loaded: str, there: Package) -> bool:
    plain = loaded.partition("+")[0]
    return not there.version.startswith(plain) and not plain.startswith(there.version)


def _is_new(there: Package) -> bool:
    """Whether a distribution was installed after this process started, as far as that is known."""
    running = traces.running()
    if not running:
        return True
    try:
        files = metadata.distribution(there.name).files or []
        records = [
            Path(str(file.locate())) for file in files if file.name in ("RECORD", "METADATA")
        ]
        installed = max(path.stat().st_mtime for path in records)
    except (OSError, ValueError, metadata.PackageNotFoundError):
        return False
    return installed > time.time() - running


def _built_for_another(error: BaseException, raised: Raised) -> Iterator[Clue]:
    """A package that was compiled for NumPy 1 and meets NumPy 2, or the other way round."""
    match = _SIZES.search(text_of(error))
    asker = next(iter(_packages(error)), None)
    there = installed("numpy")
    if match is None or asker is None or there is None:
        return
    older = match[1] == "96"  # NumPy 2 made it 88
    first, second = (
        (asker.name, "numpy<2") if older else ("numpy", f"{asker.name}<{step(asker.version)}")
    )
    yield Clue(
        "numpy-abi",
        f"{asker} was compiled for NumPy {1 if older else 2}, and {there} is installed.",
        f'`%pip install -U {first}`, {raised.restart}. If that cannot be: `%pip install "{second}"`.',
    )


def _unmet(error: BaseException, raised: Raised) -> Iterator[Clue]:
    """What a package of the traceback says it needs, where another version of that is concerned."""
    concerned = {package(top) for top in _concerned(error)}
    words = {word.lower() for word in _WORD.findall(text_of(error)[:5000])}
    concerned |= {installed(distribution(word)) for word in words - sys.stdlib_module_names}
    border = asked(error)
    for asker in _packages(error):
        for there, versions in needs(asker):
            met = border is not None and (border.caller, border.provider) == (asker, there)
            if met or (
                there in concerned and (_importing(error) or isinstance(error, ImportError))
            ):
                yield _needs(asker, there, versions, raised)


def _unmet_at_all(error: BaseException, raised: Raised) -> Iterator[Clue]:
    """The same for whatever the packages need that were being imported; the error names none."""
    for asker in _packages(error) if _importing(error) else ():
        for there, versions in needs(asker):
            yield _needs(asker, there, versions, raised, ": that may be the cause")


def _importing(error: BaseException) -> bool:
    """Whether packages were only being imported; what fails later has other causes as a rule."""
    inside = (frame for frame in frames(error) if is_of_packages(frame.f_code.co_filename))
    return any(frame.f_code.co_name == "<module>" for frame in inside)


def _over_the_border(error: BaseException, raised: Raised) -> Iterator[Clue]:
    border = asked(error)
    if border is not None and raised.known not in _FILES_ASK:
        yield mismatch(border, raised)


def _said(error: BaseException, raised: Raised) -> Iterator[Clue]:
    """What a package says in its error that it needs, where its own description does not."""
    text, asker = text_of(error), next(iter(_packages(error)), None)
    least, least_of, most = (each.search(text) for each in (_AT_LEAST, _AT_LEAST_OF, _AT_MOST))
    name, wish = (
        (least[1], f">={least[2]}") if least
        else (least_of[2], f">={least_of[1]}") if least_of
        else (most[1], f"<{_above(most[2])}") if most
        else ("", "")
    )  # fmt: skip
    there = installed(distribution(name.lower())) if name else None
    if asker and there and asker != there:
        yield _needs(asker, there, wish.rstrip("."), raised)


def _above(release: str) -> str:
    """The release line after one: 2.1 after 2.0."""
    major, minor = release.split(".")
    return f"{major}.{int(minor) + 1}"


def _needs(asker: Package, there: Package, versions: str, raised: Raised, sure: str = "") -> Clue:
    return Clue(
        "library-mismatch",
        f"{asker} asks for {there.name}{versions}, and {there} is installed{sure}.",
        f'`%pip install "{there.name}{versions}"`, {raised.restart}. If another package needs {there}: '
        f"`%pip install -U {asker.name}`.",
    )


def _packages(error: BaseException) -> list[Package]:
    """The packages of a traceback, each once, the one that raised first."""
    inside = (frame for frame in frames(error) if is_of_packages(frame.f_code.co_filename))
    tops = dict.fromkeys(module_of(frame).partition(".")[0] for frame in inside)
    return list(dict.fromkeys(each for top in tops if (each := package(top))))
