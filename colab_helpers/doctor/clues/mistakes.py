"""Which known mistake does the line that failed show, where its error's text alone does not?"""

from __future__ import annotations

import ast
import itertools
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from inspect import CO_VARARGS
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import cast

from colab_helpers.doctor.clues.clue import Clue, Raised, frames, module_of
from colab_helpers.doctor.clues.describe import weights
from colab_helpers.doctor.clues.files import is_on_a_drive
from colab_helpers.doctor.clues.installed import is_of_packages
from colab_helpers.doctor.clues.line import Failed
from colab_helpers.doctor.clues.names import names_in, parts_of, stands_for
from colab_helpers.doctor.problems import way_out

#: What is found here alone; the line shows it, so the table need not be asked.
SHOWN = (
    "all-frozen",
    "batch-is-a-dict",
    "comma-makes-tuple",
    "gradients-off",
    "gym-five-values",
    "module-changed",
    "no-gradient-there",
    "row-labels",
    "state-carried",
)
#: What makes two pieces of code the same, wherever they stand.
_OF_CODE = (
    "co_code", "co_names", "co_varnames", "co_freevars", "co_argcount", "co_kwonlyargcount", "co_flags",
)  # fmt: skip
_MOST_NAMES = 2000  # of a session, that are looked through
_KEY = 30  # characters of a key that is told
_GRADIENT = re.compile(r"([\w.]{1,60})\.grad\b")
_IN_WORKER = re.compile(r"pandas[/\\\\]core[/\\\\][\s\S]{1,9000}KeyError: (-?\d{1,15})\s*$")


def clues(raised: Raised) -> Iterator[Clue]:
    """Yield the mistake that the failing line of `raised` shows."""
    error, own = raised.error, raised.own
    if error is None or own is None:
        return
    for look in _LOOKS:
        if found := look(error, own, raised):
            id, seen = found
            yield Clue(id, seen, way_out(id, raised.platform), leaves_no_other=True)


def _no_gradient(_: BaseException, own: Failed, raised: Raised) -> tuple[str, str] | None:
    torch = sys.modules.get("torch")
    if torch is None or "NoneType" not in raised.text:
        return None
    for match in _GRADIENT.finditer(own.code):
        value = stands_for(match[1], own.seen)
        plain = type(value) in (torch.Tensor, torch.nn.Parameter)
        if plain and value.is_leaf and value.grad is None:
            return "no-gradient-there", f"`{match[1]}.grad` is None."
    return None


def _old_environment(_: BaseException, own: Failed, raised: Raised) -> tuple[str, str] | None:
    there = " and ".join(sorted({"gym", "gymnasium"} & sys.modules.keys()))
    if not there:
        return None
    if "too many values to unpack (expected 4" in raised.text and ".step(" in own.code:
        return "gym-five-values", f"`step` of {there} returns five values here."
    names = (name.partition(".")[0] for name in names_in(own.code))
    for name in names if "tuple" in raised.text else ():
        value = own.seen.get(name)
        from_reset = re.search(rf"\b{name}\s{{0,9}}=\s{{0,9}}[\w.]{{1,60}}\.reset\(", own.source)
        if from_reset and type(value) is tuple and len(value) == 2 and type(value[1]) is dict:
            seen = f"`{name}` is all that `reset` of {there} returns: two values."
            return "gym-five-values", seen
    return None


def _nothing_learns(_: BaseException, own: Failed, raised: Raised) -> tuple[str, str] | None:
    """Why the loss has no graph, where the session shows that."""
    torch = sys.modules.get("torch")
    if raised.known != "loss-without-graph" or torch is None:
        return None
    if not torch.is_grad_enabled():
        return "gradients-off", "Gradients are switched off in this session."
    values = itertools.islice({**own.frame.f_locals, **own.seen}.items(), _MOST_NAMES)
    models = [(name, value) for name, value in values if issubclass(type(value), torch.nn.Module)]
    learns = {name: each for name, value in models if (each := _learns(value)) is not None}
    if learns and not any(learns.values()):  # else one may be frozen on purpose
        return "all-frozen", f"No weight of `{next(iter(learns))}` has `requires_grad=True`."
    return None


def _learns(model: object) -> bool | None:
    """Whether any weight of a model of PyTorch learns; None for one without weights."""
    learns = [weight.requires_grad for weight in weights(model)]
    return any(learns) if learns else None


def _row_label(error: BaseException, own: Failed, raised: Raised) -> tuple[str, str] | None:
    wanted = error.args[0] if isinstance(error, KeyError) and error.args else None
    said = cast(str, wanted) if issubclass(type(wanted), str) else ""  # torch has a kind of its own
    if match := _IN_WORKER.search(said):
        return "row-labels", f"No row has the label {match[1]}."
    if type(wanted) is not int and type(wanted).__module__ != "numpy":
        return None
    inside = itertools.takewhile(lambda frame: frame is not own.frame, frames(error))
    of_pandas = (frame for frame in inside if module_of(frame).startswith("pandas."))
    asked = {Path(frame.f_code.co_filename).name for frame in of_pandas}
    if asked & {"series.py", "indexing.py"}:
        return "row-labels", f"No row has the label {wanted}."
    if "frame.py" in asked and own.code.endswith("]"):
        seen = f"No column is called {wanted}: `[…]` of a table asks for a column, `.iloc[…]` for a row."
        return "row-labels", seen
    return None


def _comma(error: BaseException, own: Failed, raised: Raised) -> tuple[str, str] | None:
    called = re.match(r"([\w.]{1,200})\(", own.code)
    calls = called[1] if called and "'tuple' object is not callable" in raised.text else ""
    for name in names_in(own.code):
        for part in (name, name.rpartition(".")[0]):
            value = None if not part or part in _stars(own) else stands_for(part, own.seen)
            guilty = part == calls or value is getattr(error, "obj", None)
            if guilty and type(value) is tuple and len(value) == 1 and type(value[0]) is not int:
                kind = type(value[0]).__name__
                return "comma-makes-tuple", f"`{part}` is a tuple that holds one {kind}."
    return None


def _stars(own: Failed) -> tuple[str, ...]:
    """The name of `*args`, which is always a tuple."""
    code = own.frame.f_code
    named = code.co_argcount + code.co_kwonlyargcount
    return code.co_varnames[named : named + bool(code.co_flags & CO_VARARGS)]


def _dict_unpacked(error: BaseException, own: Failed, raised: Raised) -> tuple[str, str] | None:
    """A batch with keys, of which a loop took the keys for the values."""
    if not isinstance(error, AttributeError | TypeError) or "'str' object" not in raised.text:
        return None
    used = {name.partition(".")[0] for name in names_in(own.code)}
    for target in _unpacked(own):
        names = [each.id for each in target.elts if isinstance(each, ast.Name)]
        texts = [own.seen.get(name) for name in names]
        keys = all(
            type(each) is str and each.isidentifier() and len(each) <= _KEY for each in texts
        )
        if used & {*names} and len(names) == len(target.elts) > 1 and keys:
            told = ", ".join(
                f"`{name}` is {text!r}" for name, text in zip(names, texts, strict=True)
            )
            return "batch-is-a-dict", f"{told}: these are keys of a dict, not what it holds."
    return None


def _unpacked(own: Failed) -> Iterator[ast.Tuple]:
    """Names that loops and lines of the source take apart into."""
    for node in ast.walk(own.tree):
        targets = [node.target] if isinstance(node, ast.For) else getattr(node, "targets", [])
        for target in targets:
            yield from (each for each in ast.walk(target) if isinstance(each, ast.Tuple))


def _state_carried(_: BaseException, own: Failed, raised: Raised) -> tuple[str, str] | None:
    """What each step of a training loop takes from the one before, with all that led to it."""
    if raised.known != "backward-twice":
        return None
    for loop in ast.walk(own.tree):
        inside = list(ast.walk(loop)) if isinstance(loop, ast.For | ast.While) else []
        if not any(isinstance(each, ast.Attribute) and each.attr == "backward" for each in inside):
            continue
        times = Counter(name for each in inside for name in _bound(each))
        for step in inside:
            for name in sorted(_from_itself(step)):
                if times[name] == 1:  # else it begins anew in each step
                    seen = f"`{ast.unparse(step)}` takes `{name}` from the step before, with its graph."
                    return "state-carried", seen
    return None


def _from_itself(step: ast.AST) -> set[str]:
    """Names that a line makes by a call which is given them."""
    if not isinstance(step, ast.Assign) or not isinstance(step.value, ast.Call):
        return set()
    if isinstance(step.value.func, ast.Attribute) and step.value.func.attr == "detach":
        return set()
    made = {name for target in step.targets for each in ast.walk(target) for name in _bound(each)}
    given = (each for argument in step.value.args for each in ast.walk(argument))
    return made & {each.id for each in given if isinstance(each, ast.Name)}


def _changed_module(error: BaseException, own: Failed, raised: Raised) -> tuple[str, str] | None:
    if not isinstance(error, TypeError | AttributeError | ImportError):
        return None
    values = [own.seen.get(name.partition(".")[0]) for name in names_in(own.code)]
    named = error.name if isinstance(error, ImportError) else ""
    homes = [*map(_home, values), module_of(own.frame), named]
    for home in dict.fromkeys(homes):
        module = sys.modules.get(home or "")
        file = _own_file(module)
        if module and file and _is_another(module, file):
            return "module-changed", f"`{file.name}` was changed after this session imported it."
    return None


def _home(value: object) -> str:
    """The module that a value is, or comes from; asked of Python's own kinds alone."""
    if issubclass(type(value), ModuleType):
        return str(parts_of(value).get("__name__", ""))
    if type(value) is FunctionType:
        return str(value.__module__)
    kind = value if issubclass(type(value), type) else type(value)
    return str(parts_of(kind).get("__module__", ""))


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its code: the reader has seen them
        tree = ast.parse(source)
        whole = compile(tree, str(file), "exec", dont_inherit=True)
    times = Counter(name for node in ast.walk(tree) for name in _bound(node))
    plain = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.decorator_list and times[node.name] == 1
    }
    for code in whole.co_consts:
        if isinstance(code, CodeType) and code.co_name in plain:
            there = vars(module).get(code.co_name)
            if there is None or (type(there) is FunctionType and not _same(there.__code__, code)):
                return True
    return False


def _bound(node: ast.AST) -> list[str]:
    """Names that a piece of code makes, changes or deletes."""
    if isinstance(node, ast.Name):
        return [] if isinstance(node.ctx, ast.Load) else [node.id]
    if isinstance(node, ast.alias):
        return [(node.asname or node.name).partition(".")[0]]
    name = getattr(node, "name", None)
    return [name] if isinstance(name, str) else []


def _same(one: object, other: object) -> bool:
    """Whether two pieces of code do the same, wherever they stand."""
    if not (isinstance(one, CodeType) and isinstance(other, CodeType)):
        return type(one) is type(other) and one == other
    return (
        all(getattr(one, part) == getattr(other, part) for part in _OF_CODE)
        and len(one.co_consts) == len(other.co_consts)
        and all(map(_same, one.co_consts, other.co_consts))
    )


_LOOKS: tuple[Callable[[BaseException, Failed, Raised], tuple[str, str] | None], ...] = (
    _no_gradient,
    _old_environment,
    _nothing_learns,
    _row_label,
    _comma,
    _dict_unpacked,
    _state_carried,
    _changed_module,
)
