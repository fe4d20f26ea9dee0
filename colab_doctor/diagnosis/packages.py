"""Which two packages of this session do not go together, or where a missing one is."""

from __future__ import annotations

import difflib
import inspect
import itertools
import os
import pkgutil
import re
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from colab_doctor import log
from colab_doctor.diagnosis.base import Diagnosis, Failure, frames, module_of, text_of, walk
from colab_doctor.diagnosis.code import names_in, parts_of, stands_for
from colab_doctor.diagnosis.files import is_on_a_drive
from colab_doctor.diagnosis.installed import (
    Package,
    forget,
    installed,
    is_of_packages,
    needs,
    package,
    suits,
    update,
)
from colab_doctor.notebook.imports import colab_brings
from colab_doctor.table import known_problems
from colab_helpers import _traces as traces
from colab_helpers._distributions import distribution, normal

_NAME = re.compile(r"cannot import name '(\w{1,90})'")
_CALL = re.compile(
    r"([\w.<>]{1,200})\(\) (?:got an unexpected keyword argument '(\w{1,90})'"
    r"|(missing \d{1,3} required|takes \d{1,3}))"
)
_OWN = "Your cell"
_SIZES = re.compile(r"numpy\.dtype size changed.{0,80}Expected (96|88) from C header, got (88|96)")
_PARTS = re.compile(r"numpy\.core\.(?:multiarray|umath) failed to import|_ARRAY_API not found")
_WORD = re.compile(r"[A-Za-z_][\w-]{1,60}")
#: Known problems in which a file, and no package, asks for the name.
_FILES_ASK = ("numpy-2-pickle",)
#: Errors that two packages of different times raise in each other; others are left alone.
_KINDS = (ImportError, AttributeError, TypeError, ValueError, RuntimeError, SystemError)
#: What a message says to install.
_SAYS = re.compile(r"pip3? install (?:-\S{1,12} )?[\"'`]{0,2}([A-Za-z][\w.-]{0,40}\w)")
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
_LIBRARY = r"(lib[\w+-]{1,60}\.so[\d.]{0,12})"
_NO_LIBRARY = re.compile(
    rf"{_LIBRARY}[:'\"]{{0,2}} {{0,2}}(?:cannot open shared object|(?:is )?not found)"
    rf"|(?:Could not load (?:dynamic )?library|Unable to load any of \{{) ?['\"]?{_LIBRARY}"
)
#: Below a folder of packages, and below /: where libraries of CUDA lie.
_IN_PACKAGES = ("nvidia/*/lib", "torch/lib", "*_libs")
_ON_MACHINES = ("usr/local/cuda*/lib64", "usr/lib/*-linux-gnu", "usr/lib64-nvidia")


@dataclass(frozen=True)
class Asked:
    """Somebody asked a package for something that it does not have.

    `caller` is a `Package`, or the file that asked; `what` is told of the provider: "has no …"; `near` are
    names that it does have.
    """

    caller: Package | str
    provider: Package
    what: str
    near: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Wish:
    """What was asked for: of which module, in words; names that come near."""

    module: str
    what: str
    near: tuple[str, ...] = ()
    only_of_packages: bool = False


def of_pairs(failure: Failure) -> Iterator[Diagnosis]:
    """Yield, for `failure`, packages replaced under this session, and those that do not go together."""
    forget()  # something may have been installed since the last error
    for error in failure.chain:
        found = [_replaced(error, failure)]
        if isinstance(error, _KINDS):
            found += [_built_for_another(error, failure), _unmet(error, failure)]
            found += [_over_the_border(error, failure)]
        yield from itertools.islice(filter(None, found), 1)


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
    if wish.only_of_packages and not isinstance(caller, Package):
        return None  # Python's own words say all there is
    return Asked(caller, provider, wish.what, wish.near)


def _over_the_border(error: BaseException, failure: Failure) -> Diagnosis | None:
    """Who asked whom for what."""
    border, known = asked(error), known_problems().get(failure.known)
    if border is None or failure.known in _FILES_ASK:
        return None
    caller, there = border.caller, border.provider
    if isinstance(caller, Package):
        return Diagnosis(
            "library-mismatch",
            f"{caller} asks for {border.what}, which {there} does not have.",
            f"{update(caller)}, {failure.restart}. Still there? "
            f'`%pip install "{there.name}<{_line(there.version)}"`.',
        )
    if known is not None and known.diagnosis != "general":  # the table says it better
        return None
    near = " or ".join(f"`{name}`" for name in border.near)
    who = "" if caller == _OWN else f", which {caller} asks for"
    return Diagnosis(
        "name-not-there",
        f"{there} has no {border.what}{who}." + (f" Did you mean {near}?" if near else ""),
        "Check the spelling and `type(…)` of the object. Otherwise look the name up in the release "
        f"notes of {there.name}.",
        replaces=bool(near),
    )


def _line(version: str) -> str:
    """The release line of a version, below which all is older.

    >>> _line("1.16.3"), _line("3.0.1"), _line("0.4.38")
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
        parts = [part.name for part in pkgutil.iter_modules(list(getattr(home, "__path__", ())))]
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
        near = _near(wanted, list(last.f_globals))
        return _Wish(module_of(last), f"`{module_of(last)}.{wanted}`", near)
    if not name or of is None or name not in text:  # else it came from inside a property
        return None
    if isinstance(of, ModuleType):
        return _Wish(of.__name__, f"`{of.__name__}.{name}`", _near(name, dir(of)))
    kind = of if isinstance(of, type) else type(of)
    inside = [key for part in ("_parameters", "_modules") for key in parts_of(of).get(part) or ()]
    near = _near(name, [*dir(kind), *inside])  # a layer keeps its weights apart
    return _Wish(kind.__module__, f"`{kind.__qualname__}.{name}`", near)


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
        return _Wish(module, f"`{name}()` with these arguments", only_of_packages=True)
    near = _near(match[2], _parameters(called))
    return _Wish(module, f"argument `{match[2]}` in `{name}()`", near)


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
    scope = {**frame.f_globals, **frame.f_locals}
    first = next((name for name in names if name.isidentifier()), "")
    wanted = (first, names[-1])
    kinds = [kind for kind in type(frame.f_locals.get("self")).__mro__ if kind.__name__ == first]
    in_line = [stands_for(name, scope) for name in names_in(line) if name.endswith(wanted)]
    modules = [each for each in scope.values() if isinstance(each, ModuleType)]
    inside = [vars(each).get(name) for each in modules for name in wanted]
    found = [*kinds, *in_line, *(scope.get(name) for name in wanted), *inside]
    found += [vars(each).get(names[-1]) for each in found if isinstance(each, type)]
    return next((each for each in found if _qualified(each) == ".".join(names)), None)


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


def _inside(error: BaseException) -> list[FrameType]:
    """The frames that run code of packages."""
    return [each for each in frames(error) if is_of_packages(each.f_code.co_filename)]


def _askers(error: BaseException) -> list[Package]:
    """The packages of the traceback, each once, the one that raised first."""
    tops = dict.fromkeys(module_of(frame).partition(".")[0] for frame in _inside(error))
    return list(dict.fromkeys(each for top in tops if (each := package(top))))


def _concerned(error: BaseException) -> list[str]:
    """Top-level modules, loaded, of the traceback and of the text."""
    tops = {module_of(frame).partition(".")[0] for frame in frames(error)}
    tops |= {word.lower() for word in _WORD.findall(text_of(error)[:5000])}
    return sorted(top for top in tops if isinstance(sys.modules.get(top), ModuleType))


def _replaced(error: BaseException, failure: Failure) -> Diagnosis | None:
    """Packages of which one version is loaded, and another was installed since."""
    kinds = ImportError | AttributeError | SystemError  # what else fails has other causes usually
    if not isinstance(error, kinds) and not _SIZES.search(text_of(error)):
        return None
    mixed = []
    for top in _concerned(error):
        loaded = vars(sys.modules[top]).get("__version__")
        there = package(top)
        if there and isinstance(loaded, str) and _is_another(loaded, there) and _is_new(there):
            mixed.append(f"{top} {loaded} is loaded, and {there.version} was installed since")
    if not mixed:
        return None
    return Diagnosis(
        "restart-needed",
        f"{'; '.join(mixed)}: this session is using both.",
        f"{failure.restarting}, then run from the top.",
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
        records = [str(file.locate()) for file in files if file.name in ("RECORD", "METADATA")]
        made = max(Path(path).stat().st_mtime for path in records)
    except (OSError, ValueError, metadata.PackageNotFoundError):
        return False
    return bool(running) and made > time.time() - running


def _built_for_another(error: BaseException, failure: Failure) -> Diagnosis | None:
    """A package that was compiled for NumPy 1 and meets NumPy 2, or the other way round."""
    there = installed("numpy")
    asker = next((each for each in _askers(error) if each.name != "numpy"), None)
    sizes, parts = _SIZES.search(text_of(error)), _PARTS.search(text_of(error))
    if asker is None or there is None or not (sizes or parts):
        return None
    if not sizes and there.version.startswith(("0.", "1.")):
        return None
    older = not sizes or sizes[1] == "96"  # NumPy 2 made it 88
    fix = f"{update(asker) if older else '`%pip install -U numpy`'}, {failure.restart}."
    if older and sys.version_info < (3, 13):  # no NumPy 1 was built for later ones
        fix += ' If that is not possible: `%pip install "numpy<2"`.'
    observation = f"{asker} was compiled for NumPy {1 if older else 2}, and {there} is installed."
    return Diagnosis("numpy-abi", observation, fix)


def _unmet(error: BaseException, failure: Failure) -> Diagnosis | None:
    """What a package of the traceback says it needs, where another version of that is installed."""
    border = asked(error)
    if border is not None and isinstance(border.caller, Package):
        for there, versions in needs(border.caller, extras=True):
            if there == border.provider:
                return _needs(border.caller, there, versions, failure)
    importing = any(frame.f_code.co_name == "<module>" for frame in _inside(error))
    if not importing and not isinstance(error, ImportError):
        return None  # what fails later has other causes usually
    concerned = {package(top) for top in _concerned(error)}
    return next(
        (
            _needs(asker, there, versions, failure)
            for asker in _askers(error)
            for there, versions in needs(asker)
            if there in concerned
        ),
        None,
    )


def _needs(asker: Package, there: Package, versions: str, failure: Failure) -> Diagnosis:
    return Diagnosis(
        "library-mismatch",
        f"{asker} asks for {there.name}{versions}, and {there} is installed.",
        f'`%pip install "{there.name}{versions}"`, {failure.restart}. If another package needs {there}: '
        f"{update(asker)}.",
    )


def of_modules(failure: Failure) -> Iterator[Diagnosis]:
    """Yield where the package is that `failure` could not import, or says to install."""
    if failure.known == "install-named" and failure.chain:
        said = _SAYS.findall(failure.text)
        if said and (found := installed(said[-1])):
            observation = (
                f"{found} is installed already: the library looked for it before, or it is too old."
            )
            fix = f"{failure.restarting}. Still there? `%pip install -U {found.name}`."
            yield Diagnosis("install-named", observation, fix)
        return
    error = failure.error
    name = error.name if isinstance(error, ModuleNotFoundError) and error.name else ""
    top = name.partition(".")[0]
    if not top or top in sys.modules or failure.known not in ("", "package-missing"):
        return
    yield _where_is(top)


def _where_is(top: str) -> Diagnosis:
    near = difflib.get_close_matches(top, _POPULAR, 1, 0.75)
    if own := _own(top):
        return _missing(
            f"There is `{own}`, whose folder is not searched.",
            f'`import sys; sys.path.append("{own.parent}")` before the import.',
        )
    if right := _CALLED.get(top.lower()):
        return _missing(
            f"There is no module `{top}`: it is imported as `{right}`.", f"`import {right}`"
        )
    if folder := _elsewhere(top):
        return Diagnosis(
            "another-python",
            f"`{top}` is in `{folder}`, which this session's Python ({sys.executable}) does not search.",
            f"`%pip install {distribution(top)}`. With %, pip installs where this session looks.",
        )
    if normal(distribution(top)) in colab_brings("gpu"):
        return _missing(f"`{top}` is not installed here.", f"`%pip install {distribution(top)}`")
    if near:
        return _missing(f"There is no `{top}`. Did you mean `{near[0]}`?", f"`import {near[0]}`")
    return _missing(
        f"Nothing that is installed here has a module `{top}`.",
        f"`%pip install {distribution(top)}`, if that is its name for pip. A file of yours: its folder must "
        "be the current one or on `sys.path`.",
    )


def _missing(observation: str, fix: str) -> Diagnosis:
    return Diagnosis("package-missing", observation, fix)


def _own(top: str) -> Path | None:
    """A module of that name in a folder of the current one, as in a repository that was cloned."""
    here = traces.working_folder()
    if is_on_a_drive(str(here)):  # each look there goes over the network
        return None
    found = itertools.chain(here.glob(f"*/{top}.py"), here.glob(f"*/{top}/__init__.py"))
    file = next((each for each in found if not is_of_packages(str(each))), None)
    return file.parent if file and file.name == "__init__.py" else file


def _elsewhere(top: str) -> Path | None:
    """The folder of another Python on this machine that has the package."""
    ours = {Path(entry).resolve() for entry in sys.path if entry}
    roots = (Path("/usr/local/lib"), Path.home() / ".local/lib", Path("/opt"),
             traces.working_folder() / ".venv/lib", Path("/content/.venv/lib"))  # fmt: skip
    kinds = ("python3*/site-packages", "python3*/dist-packages", "*/lib/python3*/site-packages")
    folders = (folder for root in roots for kind in kinds for folder in root.glob(kind))
    for folder in folders:
        has = (folder / top).is_dir() or (folder / f"{top}.py").is_file()
        if has and folder.resolve() not in ours:
            return folder
    return None


def of_libraries(failure: Failure) -> Iterator[Diagnosis]:
    """Yield where the shared library of `failure` is, or which others there are."""
    missing = _NO_LIBRARY.search(failure.text) if failure.chain else None
    if missing is None:
        return
    name = (missing[1] or missing[2]).rstrip(".")
    stem = name.partition(".so")[0]
    there = {file.name: file for folder in folders() for file in folder.glob(f"{stem}.so*")}
    id = failure.known or "cuda-library-missing"
    if name in there:
        yield Diagnosis(
            id,
            f"`{name}` is here, in `{there[name].parent}`, a folder that is not searched.",
            f'Before the import: `import ctypes; ctypes.CDLL("{there[name]}")`.',
        )
    elif there:
        others = ", ".join(f"`{other}`" for other in sorted(there)[:4])
        yield Diagnosis(
            id,
            f"There is no `{name}` here; there is {others}.",
            f"Install a build for the version that is here, {failure.restart}.",
        )


def folders(root: Path = Path("/")) -> Iterator[Path]:
    """Yield folders in which libraries lie; `root` stands for /."""
    named = os.environ.get("LD_LIBRARY_PATH", "").split(":") if root == Path("/") else []
    yield from (Path(name) for name in named if name and Path(name).is_dir())
    for pattern in _ON_MACHINES:
        yield from root.glob(pattern)
    for entry in filter(is_of_packages, sys.path):
        for pattern in _IN_PACKAGES:
            yield from Path(entry).glob(pattern)


_DOTTED = r"(?P<module>[A-Za-z_]\w{0,60}(?:\.\w{1,60}){0,9})"
#: How Python says that a module has no such name, or a package no such part.
_ASKS = (
    re.compile(rf"cannot import name '(?P<name>\w{{1,90}})' from '{_DOTTED}'"),
    re.compile(rf"module '{_DOTTED}' has no attribute '(?P<name>\w{{1,90}})'"),
    re.compile(rf"No module named '{_DOTTED}\.(?P<name>\w{{1,90}})'"),
)
#: A frame's file, as Python, IPython 7 and IPython 9 print it, and the installed package in it.
_FILE = re.compile(r"[^\s\"'()<>]{1,300}\.py\b")
_PACKAGE = re.compile(r"(?:site|dist)-packages[/\\]{1,2}(\w{1,80})[/\\.]")


def of_tracebacks(failure: Failure) -> Iterator[Diagnosis]:
    """Yield who asked whom for what in `failure`, a pasted text; no versions are known there."""
    if failure.chain or failure.known not in ("", "library-mismatch"):
        return
    message = next(iter(log.raised(failure.text)), "")
    wish = next((match for each in _ASKS if (match := each.search(message))), None)
    if wish is None:
        return
    provider = wish["module"].partition(".")[0]
    above = failure.text[: failure.text.rfind(message)][-20_000:]
    inside = [_PACKAGE.search(file) for file in _FILE.findall(above)]
    tops = [match[1] if match else "" for match in inside]
    top = next((top for top in reversed(tops) if top != provider), "")
    if not top or provider in sys.stdlib_module_names:
        return
    asker, other = normal(distribution(top)), normal(distribution(provider))
    yield Diagnosis(
        "library-mismatch",
        f"{asker} asks for `{wish['module']}.{wish['name']}`, which the installed {other} does not have.",
        f"Update {asker}, {failure.restart}. Still there? An older {other}.",
    )
