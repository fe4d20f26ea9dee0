"""Which two packages of this session do not go together."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import FrameType, ModuleType

from colab_doctor.diagnosis.base import Diagnosis, Failure, frames, module_of, text_of
from colab_doctor.diagnosis.installed_packages import (
    Package,
    forget,
    installed,
    is_of_packages,
    package_of_module,
    satisfies,
    unmet_requirements,
    update,
)
from colab_helpers import _environment_probes

_SIZES = re.compile(r"numpy\.dtype size changed.{0,80}Expected (96|88) from C header, got (88|96)")
_PARTS = re.compile(r"numpy\.core\.(?:multiarray|umath) failed to import|_ARRAY_API not found")
_WORD = re.compile(r"[A-Za-z_][\w-]{1,60}")
#: Errors that two packages of different times raise in each other; others are left alone.
_KINDS = (ImportError, AttributeError, TypeError, ValueError, RuntimeError, SystemError)


def diagnose(failure: Failure) -> Iterator[Diagnosis]:
    """Yield, for `failure`, packages replaced under this session, and those that do not go together."""
    forget()  # something may have been installed since the last error
    for error in failure.chain:
        found = [_replaced(error, failure)]
        if isinstance(error, _KINDS):
            found += [_built_for_another(error, failure), _unmet(error, failure)]
        yield from list(filter(None, found))[:1]


def _replaced(error: BaseException, failure: Failure) -> Diagnosis | None:
    """Packages of which one version is loaded, and another was installed since."""
    kinds = ImportError | AttributeError | SystemError  # what else fails has other causes usually
    if not isinstance(error, kinds) and not _SIZES.search(text_of(error)):
        return None
    mixed = []
    for top in _concerned(error):
        loaded = vars(sys.modules[top]).get("__version__")
        there = package_of_module(top)
        if there and isinstance(loaded, str) and _is_another(loaded, there) and _is_new(there):
            mixed.append(f"{top} {loaded} is loaded, and {there.version} was installed since")
    if not mixed:
        return None
    return Diagnosis(
        "restart-needed",
        f"{'; '.join(mixed)}: this session is using both.",
        f"{failure.restart_sentence}, then run from the top.",
        overrides_table=True,
    )


def _is_another(loaded: str, there: Package) -> bool:
    """Whether two versions differ in more than how they are written."""
    plain = loaded.partition("+")[0]
    return plain[:1].isdecimal() and not satisfies(there, f"=={plain}")


def _is_new(there: Package) -> bool:
    """Whether a distribution was installed after this process started; False if unknown."""
    running = _environment_probes.process_uptime()
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
    fix = f"{update(asker) if older else '`%pip install -U numpy`'}, {failure.restart_clause}."
    if older and sys.version_info < (3, 13):  # no NumPy 1 was built for later ones
        fix += ' If that is not possible: `%pip install "numpy<2"`.'
    observation = f"{asker} was compiled for NumPy {1 if older else 2}, and {there} is installed."
    return Diagnosis("numpy-abi", observation, fix)


def _unmet(error: BaseException, failure: Failure) -> Diagnosis | None:
    """What a package of the traceback says it needs, where another version of that is installed."""
    importing = any(frame.f_code.co_name == "<module>" for frame in _inside(error))
    if not importing and not isinstance(error, ImportError):
        return None  # what fails later has other causes usually
    concerned = {package_of_module(top) for top in _concerned(error)}
    for asker in _askers(error):
        for there, versions in unmet_requirements(asker):
            if there in concerned:
                return Diagnosis(
                    "library-mismatch",
                    f"{asker} asks for {there.name}{versions}, and {there} is installed.",
                    f'`%pip install "{there.name}{versions}"`, {failure.restart_clause}. If another '
                    f"package needs {there}: {update(asker)}.",
                )
    return None


def _inside(error: BaseException) -> list[FrameType]:
    """The frames that run code of packages."""
    return [each for each in frames(error) if is_of_packages(each.f_code.co_filename)]


def _askers(error: BaseException) -> list[Package]:
    """The packages of the traceback, each once, the one that raised first."""
    tops = dict.fromkeys(module_of(frame).partition(".")[0] for frame in _inside(error))
    return list(dict.fromkeys(each for top in tops if (each := package_of_module(top))))


def _concerned(error: BaseException) -> list[str]:
    """Top-level modules, loaded, of the traceback and of the text."""
    tops = {module_of(frame).partition(".")[0] for frame in frames(error)}
    tops |= {s for word in _WORD.findall(text_of(error)[:5000]) for s in (word, word.lower())}
    return sorted(top for top in tops if isinstance(sys.modules.get(top), ModuleType))
