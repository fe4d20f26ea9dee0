"""Who asked whom for what, when an error was raised over the border between two packages?"""

from __future__ import annotations

import difflib
import re
import sys
from dataclasses import dataclass
from types import FrameType, ModuleType

from colab_helpers.doctor.clues.clue import Clue, Raised, frames, module_of, text_of
from colab_helpers.doctor.clues.installed import Package, is_of_packages, package

_NAME = re.compile(r"cannot import name '(\w{1,90})'")
_KEYWORD = re.compile(r"([\w.<>]{1,200})\(\) got an unexpected keyword argument '(\w{1,90})'")


@dataclass(frozen=True)
class Asked:
    """Somebody asked a package for something that it does not have.

    `caller` is a `Package`, or the file that asked. `what` completes "asks for". `near` are names
    that it does have.
    """

    caller: Package | str
    provider: Package
    what: str
    near: tuple[str, ...] = ()

    @property
    def lacks(self) -> str:
        """How the other one says no: to a name, or to an argument."""
        return "take" if "=` in `" in self.what else "have"


def asked(error: BaseException) -> Asked | None:
    """Return who asked whom for what; None where `error` was not raised over such a border.

    >>> asked(KeyError("a")) is None
    True
    """
    if isinstance(error, ModuleNotFoundError):
        found = _formodule_of(error)
    elif isinstance(error, ImportError):
        name = _NAME.search(text_of(error))
        found = (error.name, f"`{error.name}.{name[1]}`", ()) if error.name and name else None
    elif isinstance(error, AttributeError):
        found = _for_attribute(error)
    else:
        found = _for_keyword(error)
    if found is None:
        return None
    module, what, near = found
    provider = package(module)
    caller = _caller(error) if provider else None
    if provider is None or caller is None or caller == provider:
        return None
    return Asked(caller, provider, what, near)


def _formodule_of(error: ModuleNotFoundError) -> tuple[str, str, tuple[str, ...]] | None:
    """A part of a package: `scipy.misc` where there is SciPy."""
    name = error.name or ""
    return (
        (name, f"`{name}`", ()) if "." in name and name.partition(".")[0] in sys.modules else None
    )


def _for_attribute(error: AttributeError) -> tuple[str, str, tuple[str, ...]] | None:
    of, name = error.obj, error.name
    last = next(frames(error), None)
    if of is None and last and last.f_code.co_name == "__getattr__" and "self" not in last.f_locals:
        wanted = last.f_locals.get(last.f_code.co_varnames[0])  # a module that says it itself
        return module_of(last), f"`{module_of(last)}.{wanted}`", ()
    if not name or of is None or name not in text_of(error):  # else it came from inside a property
        return None
    if isinstance(of, ModuleType):
        near = difflib.get_close_matches(name, dir(of), 2, 0.7)
        return of.__name__, f"`{of.__name__}.{name}`", tuple(near)
    kind = of if isinstance(of, type) else type(of)
    return kind.__module__, f"`{kind.__qualname__}.{name}`", ()


def _for_keyword(error: BaseException) -> tuple[str, str, tuple[str, ...]] | None:
    """An argument that a function of another package does not take."""
    match = _KEYWORD.search(text_of(error))
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
        module, path = module_of(frame), frame.f_code.co_filename
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


def mismatch(asked: Asked, raised: Raised) -> Clue:
    """Return what to say and do of `asked`; `raised` is the error."""
    near = f" It has {' and '.join(f'`{name}`' for name in asked.near)}." if asked.near else ""
    seen = f"{asked.caller} asks for {asked.what}, which {asked.provider} does not {asked.lacks}.{near}"
    if isinstance(asked.caller, Package):
        there = asked.provider
        remedy = (
            f"One of them is too old for the other. `%pip install -U {asked.caller.name}`, "
            f"{raised.restart}. If its newest release fails in the same way, an older {there.name}, one "
            f'step after the other: `%pip install "{there.name}<{step(there.version)}"`.'
        )
        return Clue("library-mismatch", seen, remedy)
    return Clue(
        "name-not-there",
        seen,
        f"A typing error, or code for another release of {asked.provider.name}: see the name in its release "
        "notes, and write what took its place; or install the release that the code was written for.",
    )


def step(version: str) -> str:
    """Return the release line of a `version`, below which all is older.

    >>> step("1.16.3"), step("3.0.1"), step("0.4.38")
    ('1.16', '3', '0.4.38')
    """
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    if major == "0":  # where releases that are no patches count as such
        return version
    return f"{major}.{minor}" if minor.strip("0") else major
