"""Which two packages of this session do not go together?

A traceback says which package asked, and the exception whom it asked for what. What is installed, what is
loaded, and what a package says it needs is looked up here.
"""

from __future__ import annotations

import difflib
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import FrameType, ModuleType

from colab_helpers import _traces as traces
from colab_helpers.doctor.clues.clue import Clue, Raised, frames
from colab_helpers.doctor.clues.installed import (
    Package,
    forget,
    installed,
    is_of_packages,
    needs,
    package,
)
from colab_helpers.doctor.imports import distribution

_NAME = re.compile(r"cannot import name '(\w{1,90})'")
_KEYWORD = re.compile(r"([\w.<>]{1,200})\(\) got an unexpected keyword argument '(\w{1,90})'")
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


@dataclass(frozen=True)
class _Asked:
    """Somebody asked a package for something that it does not have.

    `caller` is a `Package`, or the file that asked. `what` completes "asks for". `near` are names
    that it does have.
    """

    caller: Package | str
    provider: Package
    what: str
    near: tuple[str, ...] = ()


def clues(raised: Raised) -> Iterator[Clue]:
    """Yield, for `raised`, packages replaced under this session, and those that do not go together."""
    forget()  # something may have been installed since the last error
    for error in raised.chain:
        if isinstance(error, _KINDS):
            looks = (_replaced, _built_for_another, _unmet, _said, _asked, _unmet_at_all)
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
    tops = {_module(frame).partition(".")[0] for frame in frames(error)}
    tops |= {word.lower() for word in _WORD.findall(_text(error)[:5000])}
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
    match = _SIZES.search(_text(error))
    asker = next(iter(_packages(error)), None)
    there = installed("numpy")
    if match is None or asker is None or there is None:
        return
    older = match[1] == "96"  # NumPy 2 made it 88
    first, second = (
        (asker.name, '"numpy<2"') if older else ("numpy", f'"{asker.name}<{_step(asker.version)}"')
    )
    yield Clue(
        "numpy-abi",
        f"{asker} was compiled for NumPy {1 if older else 2}, and {there} is installed.",
        f'`%pip install -U {first}`, {raised.restart}. If that cannot be: `%pip install "{second}"`.',
    )


def _unmet(error: BaseException, raised: Raised) -> Iterator[Clue]:
    """What a package of the traceback says it needs, where another version of that is concerned."""
    concerned = {package(top) for top in _concerned(error)}
    words = {word.lower() for word in _WORD.findall(_text(error)[:5000])}
    concerned |= {installed(distribution(word)) for word in words - sys.stdlib_module_names}
    for asker in _packages(error):
        for there, versions in needs(asker):
            if there in concerned:
                yield _needs(asker, there, versions, raised)


def _unmet_at_all(error: BaseException, raised: Raised) -> Iterator[Clue]:
    """The same for whatever the packages need that were being imported; the error names none."""
    if any(f.f_code.co_name == "<module>" and _module(f) != "__main__" for f in frames(error)):
        for asker in _packages(error):
            for there, versions in needs(asker):
                yield _needs(asker, there, versions, raised, ": that may be the cause")


def _said(error: BaseException, raised: Raised) -> Iterator[Clue]:
    """What a package says in its error that it needs, where its own description does not."""
    text, asker = _text(error), next(iter(_packages(error)), None)
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
    tops = dict.fromkeys(_module(frame).partition(".")[0] for frame in inside)
    return list(dict.fromkeys(each for top in tops if (each := package(top))))


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _asked(error: BaseException, raised: Raised) -> Iterator[Clue]:
    """Who asked whom for what, if that was over the border between two packages."""
    if isinstance(error, ModuleNotFoundError):
        found = _for_module(error)
    elif isinstance(error, ImportError):
        name = _NAME.search(_text(error))
        found = (error.name, f"`{error.name}.{name[1]}`", ()) if error.name and name else None
    elif isinstance(error, AttributeError):
        found = _for_attribute(error)
    else:
        found = _for_keyword(error)
    if found is None:
        return
    module, what, near = found
    provider = package(module)
    caller = _caller(error) if provider else None
    if provider and caller and caller != provider and raised.known not in _FILES_ASK:
        yield _mismatch(_Asked(caller, provider, what, near), raised)


def _for_module(error: ModuleNotFoundError) -> tuple[str, str, tuple[str, ...]] | None:
    """A part of a package: `scipy.misc` where there is SciPy."""
    name = error.name or ""
    return (
        (name, f"`{name}`", ()) if "." in name and name.partition(".")[0] in sys.modules else None
    )


def _for_attribute(error: AttributeError) -> tuple[str, str, tuple[str, ...]] | None:
    of, name = error.obj, error.name
    last = next(frames(error), None)
    if of is None and last and last.f_code.co_name == "__getattr__" and "self" not in last.f_locals:
        asked = last.f_locals.get(last.f_code.co_varnames[0])  # a module that says it itself
        return _module(last), f"`{_module(last)}.{asked}`", ()
    if not name or of is None or name not in _text(error):  # else it came from inside a property
        return None
    if isinstance(of, ModuleType):
        near = difflib.get_close_matches(name, dir(of), 2, 0.7)
        return of.__name__, f"`{of.__name__}.{name}`", tuple(near)
    kind = of if isinstance(of, type) else type(of)
    return kind.__module__, f"`{kind.__qualname__}.{name}`", ()


def _for_keyword(error: BaseException) -> tuple[str, str, tuple[str, ...]] | None:
    """An argument that a function of another package does not take."""
    match = _KEYWORD.search(_text(error))
    frame = next(frames(error), None)
    if not match or frame is None:
        return None
    called = _called(match[1].split("."), frame)
    module = getattr(called, "__module__", None)
    if not isinstance(module, str):
        return None
    return module, f"`{match[2]}=` in `{match[1].removesuffix('.__init__')}()`", ()


def _called(names: list[str], frame: FrameType) -> object | None:
    """The function or class of that name that a frame can see, itself or in a module it knows."""
    seen = {**frame.f_globals, **frame.f_locals}
    first = next((name for name in names if name.isidentifier()), "")
    wanted = [first, names[-1]]
    own = frame.f_locals.get("self")
    kinds = (
        [kind for kind in type(own).__mro__ if kind.__name__ == first] if own is not None else []
    )
    modules = [each for each in seen.values() if isinstance(each, ModuleType)]
    inside = [vars(each).get(name) for each in modules for name in wanted]
    found = [*kinds, *(seen.get(name) for name in wanted), *inside]
    return next((each for each in found if callable(each)), None)


def _caller(error: BaseException) -> Package | str | None:
    """Who asked: the frame that raised, but for Python's own, and what only says that a name is gone."""
    for frame in frames(error):
        module, path = _module(frame), frame.f_code.co_filename
        top = module.partition(".")[0]
        if path.startswith("<frozen") or (top in sys.stdlib_module_names and top != "__main__"):
            continue
        if frame.f_code.co_name in (
            "__getattr__",
            "getattr",
        ):  # how a module says that a name is gone
            continue
        found = package(module) if is_of_packages(path) else None
        return found or ("Your cell" if module == "__main__" else f"`{path}`")
    return None


def _mismatch(asked: _Asked, raised: Raised) -> Clue:
    near = f" It has {' and '.join(f'`{name}`' for name in asked.near)}." if asked.near else ""
    seen = f"{asked.caller} asks for {asked.what}, which {asked.provider} does not have.{near}"
    if isinstance(asked.caller, Package):
        there = asked.provider
        remedy = (
            f"One of them is too old for the other. `%pip install -U {asked.caller.name}`, "
            f"{raised.restart}. If its newest release fails in the same way, an older {there.name}, one "
            f'step after the other: `%pip install "{there.name}<{_step(there.version)}"`.'
        )
        return Clue("library-mismatch", seen, remedy)
    return Clue(
        "name-not-there",
        seen,
        f"A typing error, or code for another release of {asked.provider.name}: see the name in its release "
        "notes, and write what took its place; or install the release that the code was written for.",
    )


def _step(version: str) -> str:
    """The release line of a version, below which all is older: 1.16 of 1.16.3, 3 of 3.0.1."""
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    if major == "0":  # where releases that are no patches count as such
        return version
    return f"{major}.{minor}" if minor.strip("0") else major


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # an exception whose text cannot be made
        return ""
