"""Which two packages of this session do not go together?

A traceback says which package asked, and the exception whom it asked for what. What is installed, what is
loaded, and what a package says it needs is looked up here.
"""

from __future__ import annotations

import functools
import itertools
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import FrameType, ModuleType

from colab_helpers import _traces as traces
from colab_helpers.doctor.clues.asked import OFTEN, Asked, asked, mismatch, step
from colab_helpers.doctor.clues.clue import Clue, Raised, frames, module_of, text_of
from colab_helpers.doctor.clues.installed import (
    Package,
    forget,
    installed,
    is_of_packages,
    needs,
    package,
    suits,
    update,
)
from colab_helpers.doctor.imports import distribution

_SIZES = re.compile(r"numpy\.dtype size changed.{0,80}Expected (96|88) from C header, got (88|96)")
_PARTS = re.compile(r"numpy\.core\.(?:multiarray|umath) failed to import|_ARRAY_API not found")
_GONE = re.compile(r"(?<!be )\bremoved in (?:the )?([A-Za-z][\w-]{1,40}) v?(\d[\d.]{0,10}\d)")
#: How packages say themselves which release of another they want.
_AT_LEAST = re.compile(
    r"(?:requires|needs)(?: at least)? (?P<name>[A-Za-z][\w-]{1,40})(?: version)? "
    r"v?(?P<release>\d[\d.]{0,12}) or (?:newer|later|higher|above|greater)",
    re.IGNORECASE,
)
_AT_LEAST_OF = re.compile(
    r"requires version '?(?P<release>\d[\d.]{0,12})'? or newer of '?(?P<name>[A-Za-z][\w-]{1,40})",
    re.IGNORECASE,
)
_AT_MOST = re.compile(
    r"(?:requires|needs) (?P<name>[A-Za-z][\w-]{1,40}) (?P<release>\d+\.\d+) "
    r"or (?:less|older|lower)",
    re.IGNORECASE,
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
        case = _Case(error, raised)
        found = (clue for look in _looks(error) for clue in look(case))
        yield from itertools.islice(found, 1)


@dataclass(frozen=True)
class _Case:
    """One exception of a chain, with what several looks ask of it, each worked out once."""

    error: BaseException
    raised: Raised

    @functools.cached_property
    def text(self) -> str:
        return text_of(self.error)

    @functools.cached_property
    def packages(self) -> list[Package]:
        """The packages of the traceback, each once, the one that raised first."""
        tops = dict.fromkeys(module_of(frame).partition(".")[0] for frame in self.inside)
        return list(dict.fromkeys(each for top in tops if (each := package(top))))

    @functools.cached_property
    def inside(self) -> list[FrameType]:
        """The frames that run code of packages."""
        return [each for each in frames(self.error) if is_of_packages(each.f_code.co_filename)]

    @functools.cached_property
    def border(self) -> Asked | None:
        """Who asked whom."""
        return asked(self.error)

    @functools.cached_property
    def concerned(self) -> list[str]:
        """Top-level modules, loaded, of the traceback and of the text."""
        tops = {module_of(frame).partition(".")[0] for frame in frames(self.error)}
        tops |= self.words
        return sorted(top for top in tops if isinstance(sys.modules.get(top), ModuleType))

    @functools.cached_property
    def words(self) -> set[str]:
        return {word.lower() for word in _WORD.findall(self.text[:5000])}

    @property
    def importing(self) -> bool:
        """Whether packages were only being imported; what fails later has other causes usually."""
        return any(frame.f_code.co_name == "<module>" for frame in self.inside)

    def asker(self, but: str = "") -> Package | None:
        """The package of the traceback that raised first, but for the one of that name."""
        return next((each for each in self.packages if each.name != but), None)


def _looks(error: BaseException) -> tuple[Callable[[_Case], Iterator[Clue]], ...]:
    if not isinstance(error, _KINDS):
        return (_said, _dropped)
    return (_replaced, _built_for_another, _generated, _unmet, _said, _dropped, _over_the_border,
            _unmet_at_all)  # fmt: skip


def _replaced(case: _Case) -> Iterator[Clue]:
    """Packages of which one version is loaded, and another was installed since."""
    kinds = ImportError | AttributeError | SystemError  # what else fails has other causes usually
    if not isinstance(case.error, kinds) and not _SIZES.search(case.text):
        return
    mixed = []
    for top in case.concerned:
        loaded = vars(sys.modules[top]).get("__version__")
        there = package(top)
        if there and isinstance(loaded, str) and _is_another(loaded, there) and _is_new(there):
            mixed.append(f"{top} {loaded} is loaded, and {there.version} was installed since")
    if mixed:
        yield Clue(
            "restart-needed",
            f"{'; '.join(mixed)}: this session is using both.",
            f"{case.raised.restarting}, then run from the top.",
        )


def _is_another(loaded: str, there: Package) -> bool:
    """Whether two versions differ in more than how they are written."""
    plain = loaded.partition("+")[0]
    return plain[:1].isdecimal() and not suits(there, f"=={plain}")


def _is_new(there: Package) -> bool:
    """Whether a distribution was installed after this process started; no where that is unknown."""
    running = traces.running()
    try:
        files = metadata.distribution(there.name).files or []
        records = [
            Path(str(file.locate())) for file in files if file.name in ("RECORD", "METADATA")
        ]
        made = max(path.stat().st_mtime for path in records)
    except (OSError, ValueError, metadata.PackageNotFoundError):
        return False
    return bool(running) and made > time.time() - running


def _built_for_another(case: _Case) -> Iterator[Clue]:
    """A package that was compiled for NumPy 1 and meets NumPy 2, or the other way round."""
    there, asker = installed("numpy"), case.asker(but="numpy")
    sizes, parts = _SIZES.search(case.text), _PARTS.search(case.text)
    if asker is None or there is None or not (sizes or parts):
        return
    if not sizes and there.version.startswith(("0.", "1.")):
        return
    older = not sizes or sizes[1] == "96"  # NumPy 2 made it 88
    if older:  # no NumPy 1 was built for Python 3.13 and later
        remedy = f"{update(asker)}, {case.raised.restart}."
        if sys.version_info < (3, 13):
            remedy += ' If that is not possible: `%pip install "numpy<2"`.'
    else:
        remedy = (
            f"`%pip install -U numpy`, {case.raised.restart}. If that is not possible: "
            f'`%pip install "{asker.name}<{step(asker.version)}"`.'
        )
    seen = f"{asker} was compiled for NumPy {1 if older else 2}, and {there} is installed."
    yield Clue("numpy-abi", seen, remedy)


def _generated(case: _Case) -> Iterator[Clue]:
    """A package whose code was generated for an older protobuf."""
    there, asker = installed("protobuf"), case.asker(but="protobuf")
    if "Descriptors cannot be created directly" in case.text and asker and there:
        yield Clue(
            "protobuf-old",
            f"{asker} has code that was generated for an older protobuf than {there}, which is installed.",
            f"{update(asker)}, {case.raised.restart}. If its newest release fails in the same way: "
            '`%pip install "protobuf<3.21"`.',
        )


def _dropped(case: _Case) -> Iterator[Clue]:
    """What a package says itself that it has dropped, where another package still asks for it."""
    match = _GONE.search(case.text)
    there = installed(distribution(match[1].lower())) if match else None
    asker = case.asker(but=there.name) if there else None
    if match and there and asker and suits(there, f">={match[2]}"):
        yield Clue(
            "library-mismatch",
            f"{asker} asks for what {there.name} dropped in {match[2]}, and {there} is installed.",
            f"{update(asker)}, {case.raised.restart}. If its newest release fails in the same way: "
            f'`%pip install "{there.name}<{match[2]}"`.',
        )


def _unmet(case: _Case) -> Iterator[Clue]:
    """What a package of the traceback says it needs, where another version of that is concerned."""
    concerned = {package(top) for top in case.concerned}
    concerned |= {installed(distribution(word)) for word in case.words - sys.stdlib_module_names}
    border = case.border
    if border is not None and isinstance(border.caller, Package):
        for there, versions in needs(border.caller, extras=True):
            if there == border.provider:
                yield _needs(border.caller, there, versions, case.raised)
    if case.importing or isinstance(case.error, ImportError):
        for asker in case.packages:
            for there, versions in needs(asker):
                if there in concerned:
                    yield _needs(asker, there, versions, case.raised)


def _unmet_at_all(case: _Case) -> Iterator[Clue]:
    """The same for whatever the packages need that were being imported; the error names none."""
    for asker in case.packages if case.importing else ():
        for there, versions in needs(asker):
            yield _needs(asker, there, versions, case.raised, ": that may be the cause")


def _over_the_border(case: _Case) -> Iterator[Clue]:
    """Who asked whom for what."""
    border, known = case.border, case.raised.known
    if border is None or known in _FILES_ASK:
        return
    if isinstance(border.caller, Package) or known in OFTEN:  # else the table says it better
        yield mismatch(border, case.raised)


def _said(case: _Case) -> Iterator[Clue]:
    """What a package says in its error that it needs, where its own description does not."""
    least = _AT_LEAST.search(case.text) or _AT_LEAST_OF.search(case.text)
    said = least or _AT_MOST.search(case.text)
    if said is None:
        return
    release = said["release"].rstrip(".")
    wish = f">={release}" if least else f"<{_above(release)}"
    there, asker = installed(distribution(said["name"].lower())), case.asker()
    if asker and there and asker != there and not suits(there, wish):
        yield _needs(asker, there, wish, case.raised)


def _above(release: str) -> str:
    """The release line after one: 2.1 after 2.0."""
    major, minor = release.split(".")
    return f"{major}.{int(minor) + 1}"


def _needs(asker: Package, there: Package, versions: str, raised: Raised, sure: str = "") -> Clue:
    return Clue(
        "library-mismatch",
        f"{asker} asks for {there.name}{versions}, and {there} is installed{sure}.",
        f'`%pip install "{there.name}{versions}"`, {raised.restart}. If another package needs {there}: '
        f"{update(asker)}.",
    )
