"""Which two packages of this session do not go together?

A traceback says which package asked, and the exception whom it asked for what. What is installed, what is
loaded, and what a package says it needs is looked up here.
"""

from __future__ import annotations

import itertools
import re
import sys
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType

from colab_helpers import _traces as traces
from colab_helpers.doctor.clues.asked import OFTEN, asked, mismatch, step
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
        found = (clue for look in _looks(error) for clue in look(error, raised))
        yield from itertools.islice(found, 1)


def _looks(error: BaseException) -> tuple[Callable[[BaseException, Raised], Iterator[Clue]], ...]:
    if not isinstance(error, _KINDS):
        return (_said, _dropped)
    return (_replaced, _built_for_another, _generated, _unmet, _said, _dropped, _over_the_border,
            _unmet_at_all)  # fmt: skip


def _replaced(error: BaseException, raised: Raised) -> Iterator[Clue]:
    """Packages of which one version is loaded, and another was installed since."""
    if not isinstance(error, ImportError | AttributeError | SystemError) and not _SIZES.search(
        text_of(error)
    ):
        return  # what else fails has other causes as a rule
    mixed = []
    for top in _concerned(error):
        loaded = vars(sys.modules[top]).get("__version__")
        there = package(top)
        if there and isinstance(loaded, str) and _is_another(loaded, there) and _is_new(there):
            mixed.append(f"{top} {loaded} is loaded, and {there.version} was installed since")
    if mixed:
        yield Clue(
            "restart-needed",
            f"{'; '.join(mixed)}: this session is using both.",
            f"{raised.restarting}, then run from the top.",
        )


def _concerned(error: BaseException) -> list[str]:
    """Top-level modules, loaded, of a traceback and of an error's text."""
    tops = {module_of(frame).partition(".")[0] for frame in frames(error)}
    tops |= {word.lower() for word in _WORD.findall(text_of(error)[:5000])}
    return sorted(top for top in tops if isinstance(sys.modules.get(top), ModuleType))


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


def _built_for_another(error: BaseException, raised: Raised) -> Iterator[Clue]:
    """A package that was compiled for NumPy 1 and meets NumPy 2, or the other way round."""
    text, there = text_of(error), installed("numpy")
    asker = next((each for each in _packages(error) if each.name != "numpy"), None)
    sizes, parts = _SIZES.search(text), _PARTS.search(text)
    if asker is None or there is None or not (sizes or parts):
        return
    if not sizes and there.version.startswith(("0.", "1.")):
        return
    older = not sizes or sizes[1] == "96"  # NumPy 2 made it 88
    if older:  # no NumPy 1 was built for Python 3.13 and later
        other = (
            ""
            if sys.version_info >= (3, 13)
            else ' If that is not possible: `%pip install "numpy<2"`.'
        )
        remedy = f"{update(asker)}, {raised.restart}.{other}"
    else:
        remedy = (
            f"`%pip install -U numpy`, {raised.restart}. If that is not possible: "
            f'`%pip install "{asker.name}<{step(asker.version)}"`.'
        )
    seen = f"{asker} was compiled for NumPy {1 if older else 2}, and {there} is installed."
    yield Clue("numpy-abi", seen, remedy)


def _generated(error: BaseException, raised: Raised) -> Iterator[Clue]:
    """A package whose code was generated for an older protobuf."""
    asker = next((each for each in _packages(error) if each.name != "protobuf"), None)
    there = installed("protobuf")
    if "Descriptors cannot be created directly" in text_of(error) and asker and there:
        yield Clue(
            "protobuf-old",
            f"{asker} has code that was generated for an older protobuf than {there}, which is installed.",
            f"{update(asker)}, {raised.restart}. If its newest release fails in the same way: "
            '`%pip install "protobuf<3.21"`.',
        )


def _dropped(error: BaseException, raised: Raised) -> Iterator[Clue]:
    """What a package says itself that it has dropped, where another package still asks for it."""
    match = _GONE.search(text_of(error))
    there = installed(distribution(match[1].lower())) if match else None
    asker = next((each for each in _packages(error) if each != there), None)
    if match and there and asker and suits(there, f">={match[2]}"):
        yield Clue(
            "library-mismatch",
            f"{asker} asks for what {there.name} dropped in {match[2]}, and {there} is installed.",
            f"{update(asker)}, {raised.restart}. If its newest release fails in the same way: "
            f'`%pip install "{there.name}<{match[2]}"`.',
        )


def _unmet(error: BaseException, raised: Raised) -> Iterator[Clue]:
    """What a package of the traceback says it needs, where another version of that is concerned."""
    concerned = {package(top) for top in _concerned(error)}
    words = {word.lower() for word in _WORD.findall(text_of(error)[:5000])}
    concerned |= {installed(distribution(word)) for word in words - sys.stdlib_module_names}
    border = asked(error)
    if border is not None and isinstance(border.caller, Package):
        for there, versions in needs(border.caller, extras=True):
            if there == border.provider:
                yield _needs(border.caller, there, versions, raised)
    if _importing(error) or isinstance(error, ImportError):
        for asker in _packages(error):
            for there, versions in needs(asker):
                if there in concerned:
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
    if border is None or raised.known in _FILES_ASK:
        return
    if isinstance(border.caller, Package) or raised.known in OFTEN:  # else the table says it better
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
    wish = wish.rstrip(".")
    if asker and there and asker != there and not suits(there, wish):
        yield _needs(asker, there, wish, raised)


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


def _packages(error: BaseException) -> list[Package]:
    """The packages of a traceback, each once, the one that raised first."""
    inside = (frame for frame in frames(error) if is_of_packages(frame.f_code.co_filename))
    tops = dict.fromkeys(module_of(frame).partition(".")[0] for frame in inside)
    return list(dict.fromkeys(each for top in tops if (each := package(top))))
