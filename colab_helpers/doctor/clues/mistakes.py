"""Which known mistake does the line that failed show, where its error's text alone does not?"""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from colab_helpers.doctor.clues.clue import Clue, Raised, frames, module_of, names_in, stands_for
from colab_helpers.doctor.clues.files import is_on_a_drive
from colab_helpers.doctor.clues.installed import is_of_packages
from colab_helpers.doctor.clues.line import Failed, failed
from colab_helpers.doctor.problems import way_out

#: What is found here alone; the line shows it, so the table need not be asked.
SHOWN = (
    "all-frozen",
    "comma-makes-tuple",
    "gradients-off",
    "gym-five-values",
    "module-changed",
    "no-gradient-there",
    "row-labels",
)
_MOST_NAMES = 2000  # of a session, that are looked through
_GRADIENT = re.compile(r"([\w.\[\]]{1,60})\.grad\b")
_ENVIRONMENT = re.compile(r"\.(step|reset)\(")
_IN_WORKER = re.compile(r"pandas[/\\\\]core[/\\\\][\s\S]{1,9000}KeyError: (-?\d{1,15})\s*$")
_ROW = re.compile(r"\[[^\]]{1,60}\]\[([^\]]{1,60})\]|\.\w{1,60}\[([^\]]{1,60})\]")


def clues(raised: Raised) -> Iterator[Clue]:
    """Yield the mistake that the failing line of `raised` shows."""
    error = raised.chain[-1] if raised.chain else None
    own = failed(error) if error else None
    if error is None or own is None:
        return
    for look in _LOOKS:
        if found := look(error, own, raised):
            id, seen = found
            yield Clue(id, seen, way_out(id, raised.platform), leaves_no_other=True)


def _no_gradient(_: BaseException, own: Failed, raised: Raised) -> tuple[str, str] | None:
    match = _GRADIENT.search(own.code) if "NoneType" in raised.text else None
    return ("no-gradient-there", f"`{match[1]}.grad` is None.") if match else None


def _old_environment(_: BaseException, own: Failed, raised: Raised) -> tuple[str, str] | None:
    there = " and ".join(sorted({"gym", "gymnasium"} & sys.modules.keys()))
    match = _ENVIRONMENT.search(own.code) if "values to unpack" in raised.text else None
    if there and match:
        values = "five values" if match[1] == "step" else "two values"
        return "gym-five-values", f"`{match[1]}` of {there} returns {values} here."
    for name in names_in(own.code) if there and "tuple" in raised.text else ():
        value = own.seen.get(name)
        if type(value) is tuple and len(value) == 2 and type(value[1]) is dict:
            return (
                "gym-five-values",
                f"`{name}` is a tuple of what was seen and a dict, as `reset` of {there} returns.",
            )
    return None


def _nothing_learns(_: BaseException, own: Failed, raised: Raised) -> tuple[str, str] | None:
    """Why the loss has no graph, where the session shows that."""
    torch = sys.modules.get("torch")
    if raised.known != "loss-without-graph" or torch is None:
        return None
    if not torch.is_grad_enabled():
        return "gradients-off", "Gradients are switched off in this session."
    learns: dict[str, bool] = {}
    for name, value in itertools.islice(own.seen.items(), _MOST_NAMES):
        if issubclass(type(value), torch.nn.Module):
            weights = list(torch.nn.Module.parameters(value))
            learns |= {name: any(weight.requires_grad for weight in weights)} if weights else {}
    if learns and not any(learns.values()):  # else one may be frozen on purpose
        return "all-frozen", f"No weight of `{next(iter(learns))}` has `requires_grad=True`."
    return None


def _row_label(error: BaseException, own: Failed, raised: Raised) -> tuple[str, str] | None:
    wanted = error.args[0] if isinstance(error, KeyError) and error.args else None
    if isinstance(wanted, str) and (match := _IN_WORKER.search(wanted)):
        return "row-labels", f"No row has the label {match[1]}."
    of_pandas = any(module_of(frame).startswith("pandas.") for frame in frames(error))
    if isinstance(wanted, bool) or not isinstance(wanted, int) or not of_pandas:
        return None
    return ("row-labels", f"No row has the label {wanted}.") if _ROW.search(own.code) else None


def _comma(_: BaseException, own: Failed, raised: Raised) -> tuple[str, str] | None:
    if not re.search(r"'tuple' object (is not callable|has no attribute)", raised.text):
        return None
    for name in names_in(own.code):
        for part in (name, name.rpartition(".")[0]):
            value = stands_for(part, own.seen) if part else None
            if type(value) is tuple and len(value) == 1:
                kind = type(value[0]).__name__
                return "comma-makes-tuple", f"`{part}` is a tuple that holds one {kind}."
    return None


def _changed_module(error: BaseException, own: Failed, raised: Raised) -> tuple[str, str] | None:
    if not isinstance(error, TypeError | AttributeError | ImportError):
        return None
    values = [own.seen.get(name.partition(".")[0]) for name in names_in(own.code)]
    homes = [_home(value) for value in values] + [module_of(own.frame), getattr(error, "name", "")]
    for home in dict.fromkeys(homes):
        module = sys.modules.get(home or "")
        file = _own_file(module)
        if module and file and _is_another(module, file):
            return "module-changed", f"`{file.name}` was changed after this session imported it."
    return None


def _home(value: object) -> str:
    """The module that a value is, or comes from."""
    if isinstance(value, ModuleType):
        return value.__name__
    kind = value if isinstance(value, type | FunctionType) else type(value)
    return str(kind.__module__)


def _own_file(module: ModuleType | None) -> Path | None:
    """The file of a module, if somebody may have written it: no package's, and none of Python's own."""
    file = getattr(module, "__file__", None)
    if not file or not file.endswith(".py") or is_of_packages(file) or is_on_a_drive(file):
        return None
    top = str(getattr(module, "__name__", "")).partition(".")[0]
    return None if top in (*sys.stdlib_module_names, "__main__") else Path(file)


def _is_another(module: ModuleType, file: Path) -> bool:
    """Whether a function of the file is not the one that the module has."""
    source = file.read_text("utf-8")
    named = {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    whole = compile(source, str(file), "exec", dont_inherit=True)
    for code in whole.co_consts:
        if isinstance(code, CodeType) and code.co_name in named:
            there = vars(module).get(code.co_name)
            if there is None or (isinstance(there, FunctionType) and there.__code__ != code):
                return not hasattr(there, "__wrapped__")
    return False


_LOOKS: tuple[Callable[[BaseException, Failed, Raised], tuple[str, str] | None], ...] = (
    _no_gradient,
    _old_environment,
    _nothing_learns,
    _row_label,
    _comma,
    _changed_module,
)
