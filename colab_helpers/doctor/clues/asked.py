"""Who asked whom for what, when an error was raised over the border between two packages?"""

from __future__ import annotations

import difflib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from colab_helpers.doctor.clues.clue import Clue, Raised, frames, module_of, text_of, walk
from colab_helpers.doctor.clues.installed import Package, is_of_packages, package, update
from colab_helpers.doctor.clues.names import names_in, stands_for

_NAME = re.compile(r"cannot import name '(\w{1,90})'")
_CALL = re.compile(
    r"([\w.<>]{1,200})\(\) (?:got an unexpected keyword argument '(\w{1,90})'"
    r"|(missing \d{1,3} required|takes \d{1,3}))"
)
_OWN = "Your cell"
#: What the table says of any name that is not there, where it knows nothing more exact of that name.
OFTEN = (
    "",
    "library-mismatch",
    "sklearn-others",
    "torch-names",
    "keras-2-code",
    "huggingface-mismatch",
    "jax-names",
)


@dataclass(frozen=True)
class Asked:
    """Somebody asked a package for something that it does not have.

    `caller` is a `Package`, or the file that asked. `what` is told of the provider: "has no …". `near` are
    names that it does have. `built_on`: what was asked is of a class that builds on the caller's. `hint`: the
    usual way out.
    """

    caller: Package | str
    provider: Package
    what: str
    near: tuple[str, ...] = ()
    built_on: bool = False
    hint: str = ""


@dataclass(frozen=True)
class _Wish:
    """What was asked for: of which module, in words; names that come near; what is usual of that kind."""

    module: str
    what: str
    near: tuple[str, ...] = ()
    kind: type | None = None
    told: bool = True
    hint: str = ""


def asked(error: BaseException) -> Asked | None:
    """Return who asked whom for what; None where `error` was not raised over such a border.

    >>> asked(KeyError("a")) is None
    True
    """
    wish = _wish(error)
    provider = package(wish.module) if wish else None
    if wish is None or provider is None:
        return None
    caller = _caller(error)
    if caller == provider and isinstance(error, TypeError):
        caller = _caller(error, beyond=provider)
    if caller is None or caller == provider:
        return None
    if not wish.told and not isinstance(caller, Package):  # Python's own words say all there is
        return None
    built_on = wish.kind is not None and caller in _bases(wish.kind)
    return Asked(caller, provider, wish.what, wish.near, built_on, wish.hint)


def mismatch(border: Asked, raised: Raised) -> Clue:
    """Return what to say and do of `border`; `raised` is the error."""
    caller, there = border.caller, border.provider
    if isinstance(caller, Package):
        first, other = (there, caller) if border.built_on else (caller, there)
        return Clue(
            "library-mismatch",
            f"{caller} asks for {border.what}, which {there} does not have.",
            f"One of them is too old for the other. {update(first)}, {raised.restart}. If its "
            f"newest release fails in the same way, an older {other.name}, one step after the other: "
            f'`%pip install "{other.name}<{step(other.version)}"`.',
        )
    near = " or ".join(f"`{name}`" for name in border.near)
    meant = f" Did you mean {near}?" if near else ""
    who = "" if caller == _OWN else f", which {caller} asks for"
    usual = (
        "If it is not a typing error: is it the object that you expect (`type(…)`)? Or the code "
        f"was written for another release of {there.name}: look the name up in its release notes."
    )
    return Clue(
        "name-not-there",
        f"{there} has no {border.what}{who}.{meant}",
        border.hint or usual,
        leaves_no_other=bool(near or border.hint),
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


def _wish(error: BaseException) -> _Wish | None:
    text = text_of(error)
    if isinstance(error, ModuleNotFoundError):  # of a part: `scipy.misc` where there is SciPy
        name = error.name or ""
        top = sys.modules.get(name.partition(".")[0])
        home = sys.modules.get(name.rpartition(".")[0], top)
        folder = list(getattr(home, "__path__", ()))
        parts = [part.name for part in pkgutil.iter_modules(folder)]  # imports none
        near = _near(name.rpartition(".")[2], [*dir(home), *parts])
        return _Wish(name, f"`{name}`", near) if "." in name and top else None
    if isinstance(error, ImportError):
        match = _NAME.search(text)
        if not error.name or not match:
            return None
        near = _near(match[1], dir(sys.modules.get(error.name)))
        return _Wish(error.name, f"`{error.name}.{match[1]}`", near)
    if isinstance(error, AttributeError):
        return _attribute(error, text)
    return _argument(error, text) if isinstance(error, TypeError) else None


def _attribute(error: AttributeError, text: str) -> _Wish | None:
    of, name, last = error.obj, error.name, next(frames(error), None)
    if of is None and last and last.f_code.co_name == "__getattr__" and "self" not in last.f_locals:
        wanted = str(last.f_locals.get(last.f_code.co_varnames[0]))  # a module that says it itself
        known = list(last.f_globals)
        return _Wish(module_of(last), f"`{module_of(last)}.{wanted}`", _near(wanted, known))
    if not name or of is None or name not in text:  # else it came from inside a property
        return None
    if isinstance(of, ModuleType):
        part = f"{of.__name__}.{name}"
        hint = (
            f"It is a part that has to be imported: `import {part}`."
            if _is_a_part(of, name)
            else ""
        )
        return _Wish(of.__name__, f"`{part}`", () if hint else _near(name, dir(of)), hint=hint)
    kind = of if isinstance(of, type) else type(of)
    near = _near(name, dir(kind))
    hint = "" if near else _usual(kind.__name__, name)
    return _Wish(kind.__module__, f"`{kind.__qualname__}.{name}`", near, kind, hint=hint)


def _is_a_part(module: ModuleType, name: str) -> bool:
    """Whether a package has a module of that name, which nobody has imported yet."""
    return any(
        Path(folder, f"{name}.py").is_file() or Path(folder, name, "__init__.py").is_file()
        for folder in getattr(module, "__path__", ())
    )


def _usual(kind: str, name: str) -> str:
    """What somebody has usually missed who asks an object of that kind for a name that it lacks."""
    if name.endswith("_") and not name.startswith("_"):
        return "Names with `_` at their end come with `fit`: call that first."
    return {
        "DataFrame": "If you mean a column: `df.columns` lists those that there are.",
        "DataParallel": "The model inside is its `.module`.",
        "DistributedDataParallel": "The model inside is its `.module`.",
        "ndarray": "It is an array. Of an array of objects take one, as `axes[0]`; a PyTorch "
        "tensor is made by `torch.from_numpy(x)`.",
    }.get(kind, "")


def _argument(error: BaseException, text: str) -> _Wish | None:
    """An argument that a function of another package does not take, or one that it wants."""
    match, last = _CALL.search(text), next(walk(error), None)
    if not match or last is None:
        return None
    called = _called(match[1].split("."), *last)
    module = getattr(called, "__module__", None)
    if not isinstance(module, str):
        return None
    name = match[1].removesuffix(".__init__")
    if not match[2]:
        return _Wish(module, f"`{name}()` with these arguments", told=False)
    return _Wish(
        module, f"argument `{match[2]}` in `{name}()`", _near(match[2], _parameters(called))
    )


def _near(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """Names for the public that differ by a letter or two."""
    public = [each for each in names if not each.startswith("_") and each != name]
    same = [each for each in public if each.lower() == name.lower()]
    capitals = sorted(same, key=str.islower)  # `DataLoader` before the module `dataloader`
    return tuple(capitals[:1] or difflib.get_close_matches(name, public, 2, 0.75))


def _parameters(called: Any) -> list[str]:
    try:
        return list(inspect.signature(called).parameters)
    except (TypeError, ValueError):  # of a function in C
        return []


def _called(names: list[str], frame: FrameType, line: str) -> object | None:
    """The function or class of that name that a frame can see, itself or by a module it knows."""
    seen = {**frame.f_globals, **frame.f_locals}
    first = next((name for name in names if name.isidentifier()), "")
    wanted = (first, names[-1])
    own = frame.f_locals.get("self")
    kinds = [kind for kind in type(own).__mro__ if kind.__name__ == first]
    in_line = [stands_for(name, seen) for name in names_in(line) if name.endswith(wanted)]
    modules = [each for each in seen.values() if isinstance(each, ModuleType)]
    inside = [vars(each).get(name) for each in modules for name in wanted]
    found = [*kinds, *in_line, *(seen.get(name) for name in wanted), *inside]
    found += [vars(each).get(names[-1]) for each in found if isinstance(each, type)]
    full = ".".join(names)
    return next((each for each in found if _qualified(each) == full), None)


def _qualified(called: Any) -> str:
    """The name by which Python speaks of a function, or of a class's making, in an error."""
    name = getattr(called, "__qualname__", "") if callable(called) else ""
    return f"{name}.__init__" if isinstance(called, type) else name


def _caller(error: BaseException, beyond: Package | None = None) -> Package | str | None:
    """Who asked: the frame that raised, but for Python's own, and what only says that a name is gone."""
    for frame in frames(error):
        module, path = module_of(frame), frame.f_code.co_filename
        top = module.partition(".")[0]
        if path.startswith("<frozen") or (top in sys.stdlib_module_names and top != "__main__"):
            continue
        if frame.f_code.co_name in ("__getattr__", "getattr"):
            continue
        found = package(module) if is_of_packages(path) else None
        if beyond is not None and found == beyond:
            continue
        return found or (_OWN if module == "__main__" else f"`{path}`")
    return None


def _bases(kind: type | None) -> list[Package]:
    """The packages of the classes on which one builds, the nearest first."""
    modules = [each.__module__ for each in (kind.__mro__[1:] if kind else ())]
    return list(dict.fromkeys(found for module in modules if (found := package(module))))
