"""Known mistakes that the failing line shows, where its error's text alone does not."""

from __future__ import annotations

import ast
import difflib
import itertools
import re
import sys
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import CO_VARARGS
from pathlib import Path
from types import FunctionType
from typing import Any, cast

from colab_doctor.diagnosis.base import Diagnosis, Failure, fix_of, frames, module_of
from colab_doctor.diagnosis.code import FailedCode, is_own_file, names_in, parts_of, stands_for
from colab_doctor.diagnosis.values import weights
from colab_doctor.table import known_problems

_MOST_NAMES = 2000  # of a session, that are looked through
_KEY = 30  # characters of a key that is told
_IN_WORKER = re.compile(r"pandas[/\\\\]core[/\\\\][\s\S]{1,9000}KeyError: (-?\d{1,15})\s*$")


def of_the_line(failure: Failure) -> Iterator[Diagnosis]:
    """Yield the mistake that the failing line of `failure` shows."""
    error, own = failure.error, failure.own
    if error is None or own is None:
        return
    for look in _LOOKS:
        if found := look(error, own, failure):
            id, observation = found
            yield Diagnosis(id, observation, fix_of(id, failure.platform), replaces=True)


def _nothing_learns(_: BaseException, own: FailedCode, failure: Failure) -> tuple[str, str] | None:
    """Why the loss has no graph, where the session shows that."""
    torch = sys.modules.get("torch")
    if failure.known != "loss-without-graph" or torch is None:
        return None
    if not torch.is_grad_enabled():
        return "gradients-off", "Gradients are switched off in this session."
    values = itertools.islice({**own.frame.f_locals, **own.scope}.items(), _MOST_NAMES)
    models = [(name, value) for name, value in values if issubclass(type(value), torch.nn.Module)]
    learns = {name: each for name, value in models if (each := _learns(value)) is not None}
    if learns and not any(learns.values()):  # else one may be frozen on purpose
        return "all-frozen", f"No weight of `{next(iter(learns))}` has `requires_grad=True`."
    return None


def _learns(model: object) -> bool | None:
    """Whether any weight of a model of PyTorch learns; None for one without weights."""
    learns = [weight.requires_grad for weight in weights(model)]
    return any(learns) if learns else None


def _row_label(error: BaseException, own: FailedCode, failure: Failure) -> tuple[str, str] | None:
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
        observation = (
            f"No column is called {wanted}: `[…]` asks for a column, `.iloc[…]` for a row."
        )
        return "row-labels", observation
    return None


def _comma(error: BaseException, own: FailedCode, failure: Failure) -> tuple[str, str] | None:
    called = re.match(r"([\w.]{1,200})\(", own.code)
    calls = called[1] if called and "'tuple' object is not callable" in failure.text else ""
    for name in names_in(own.code):
        for part in (name, name.rpartition(".")[0]):
            value = None if not part or part in _stars(own) else stands_for(part, own.scope)
            guilty = part == calls or value is getattr(error, "obj", None)
            if guilty and type(value) is tuple and len(value) == 1 and type(value[0]) is not int:
                kind = type(value[0]).__name__
                return "comma-makes-tuple", f"`{part}` is a tuple that holds one {kind}."
    return None


def _stars(own: FailedCode) -> tuple[str, ...]:
    """The name of `*args`, which is always a tuple."""
    code = own.frame.f_code
    named = code.co_argcount + code.co_kwonlyargcount
    return code.co_varnames[named : named + bool(code.co_flags & CO_VARARGS)]


def _dict_unpacked(
    error: BaseException, own: FailedCode, failure: Failure
) -> tuple[str, str] | None:
    """A batch with keys, of which a loop took the keys for the values."""
    if not isinstance(error, AttributeError | TypeError) or "'str' object" not in failure.text:
        return None
    used = {name.partition(".")[0] for name in names_in(own.code)}
    for target in _unpacked(own):
        names = [each.id for each in target.elts if isinstance(each, ast.Name)]
        texts = [own.scope.get(name) for name in names]
        keys = all(
            type(each) is str and each.isidentifier() and len(each) <= _KEY for each in texts
        )
        if used & {*names} and len(names) == len(target.elts) > 1 and keys:
            listed = ", ".join(
                f"`{name}` is {text!r}" for name, text in zip(names, texts, strict=True)
            )
            return "batch-is-a-dict", f"{listed}: these are keys of a dict, not what it holds."
    return None


def _unpacked(own: FailedCode) -> Iterator[ast.Tuple]:
    """Names that loops and lines of the source take apart into."""
    for node in ast.walk(own.tree):
        targets = [node.target] if isinstance(node, ast.For) else getattr(node, "targets", [])
        for target in targets:
            yield from (each for each in ast.walk(target) if isinstance(each, ast.Tuple))


_LOOKS: tuple[Callable[[BaseException, FailedCode, Failure], tuple[str, str] | None], ...] = (
    _nothing_learns,
    _row_label,
    _comma,
    _dict_unpacked,
)


_MOST_KEYS = 12  # keys that are named
_LONGEST_KEY = 60  # characters of a key; longer ones are texts
#: What pandas says instead of the key.
_OF_PANDAS = re.compile(
    r"\['([^']{1,60})'(?:, '[^']*')*\] not (?:in index|found in axis)"
    r"|None of \['([^']{1,60})'\] are in the columns"
)
_OF_SEVERAL = re.compile(
    r" not (?:in index|found in axis)$| are in the |^Column not found|^Label\(s\)"
)
#: Methods of a table that ask another one too, or hand the work to a function.
_OTHERS = (
    "merge", "join", "apply", "map", "agg", "aggregate", "transform", "pipe", "assign", "rename",
)  # fmt: skip
#: What looks like a token or an address, and not like a name.
_SECRET = re.compile(
    r"@|(?=\S*\d)(?=\S*[A-Za-z])[\w-]{24,}|^(hf|sk|pk|ghp|gho|xox.|AKIA|AIza)[-_]?\w{8,}"
)


def of_keys(failure: Failure) -> Iterator[Diagnosis]:
    """Yield what has no such key, and which it has, where `failure` is a KeyError of own code."""
    wanted = _wanted(failure.error)
    own = failure.own if wanted else None
    if own is None or own.raises:
        return
    name, value = _asked(own)
    keys = _keys(value)
    if keys and wanted not in keys:
        yield _no_such(name, wanted, keys, "column" if _is_table(value) else "key")


def _wanted(error: BaseException | None) -> str:
    """The key that was not there; "" where the error names none, or several."""
    said = error.args[0] if isinstance(error, KeyError) and error.args else None
    if type(said) is not str:
        return ""
    if match := _OF_PANDAS.fullmatch(said):
        return match[1] or match[2]
    return "" if _OF_SEVERAL.search(said) or len(said) > _LONGEST_KEY else said


def _asked(own: FailedCode) -> tuple[str, Any]:
    """What was asked for a key, as its reader writes it, and what that is.

    That is what stands before the last brackets. Of a call only a table is one, `df` of `df.groupby("x")`;
    what a function looks up inside is its own.
    """
    tree = own.expression
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Attribute):
        if tree.func.attr in _OTHERS:
            return "", None
        value = _value(tree.func.value, own.scope)
        return ast.unparse(tree.func.value), value if _is_table(value) else None
    if isinstance(tree, ast.Subscript):
        return ast.unparse(tree.value), _value(tree.value, own.scope)
    return "", None


def _value(tree: ast.expr, scope: Mapping[str, Any]) -> Any:
    """What a name, a part of it, or a place in a plain dictionary or list is; None for anything else."""
    if isinstance(tree, ast.Subscript) and isinstance(tree.slice, ast.Constant):
        outer = _value(tree.value, scope)
        try:
            return outer[tree.slice.value] if type(outer) in (dict, list) else None
        except (LookupError, TypeError):
            return None
    named = isinstance(tree, ast.Name | ast.Attribute)
    return stands_for(ast.unparse(tree), scope) if named else None


def _is_table(value: Any) -> bool:
    return type(value).__name__ == "DataFrame" and type(value).__module__.startswith("pandas")


def _keys(value: Any) -> list[str]:
    """The names by which a dictionary, a table or a batch can be asked; nothing of its own is run."""
    if _is_table(value):
        found: Iterable[Any] = value.columns
    elif issubclass(type(value), dict):
        found = dict.keys(value)
    elif issubclass(type(value), UserDict):  # a batch of transformers
        inside = parts_of(value).get("data")
        found = inside if type(inside) is dict else ()
    else:
        return []
    keys = [key for key in itertools.islice(found, 1000) if type(key) is str]
    return [key for key in keys if len(key) <= _LONGEST_KEY and not _SECRET.search(key)]


def _no_such(name: str, wanted: str, keys: list[str], what: str) -> Diagnosis:
    lower = {key.strip().lower(): key for key in keys}
    near = difflib.get_close_matches(wanted.strip().lower(), lower, 3, 0.6)
    listed = ", ".join(f"`{key}`" for key in keys[:_MOST_KEYS]) + (
        " …" if len(keys) > _MOST_KEYS else ""
    )
    observation = f"`{name}` has no {what} `{wanted}`. It has {listed}."
    fix = (
        f"Did you mean {' or '.join(f'`{lower[each]}`' for each in near)}?"
        if near
        else f"Look where `{name}` is made: the {what} was never put there, or has another name."
    )
    return Diagnosis("no-such-key", observation, fix)


#: What Python says of a call that does not fit, with the name of the function as its class knows it.
_CALL = re.compile(
    r"TypeError: ((?:\w{1,60}\.){0,4}\w{1,60})\(\) "
    r"(?:takes .{1,40} positional arguments? but|missing \d{1,2} required|got an unexpected keyword argument)"
)
#: Known problems with names of arguments that libraries have given up.
_OF_OTHERS = ("keras-2-code", "keras-old-arguments", "renamed-argument", "lightning-1")


def of_calls(failure: Failure) -> Iterator[Diagnosis]:
    """Yield how the function of `failure` was defined, if the reader wrote it."""
    calls = list(_CALL.finditer(failure.text))
    if not calls or failure.own is None:
        return
    function = _own_function(calls[-1][1], failure.own)
    if function is None:
        return
    known = known_problems().get(failure.known)
    code = function.__code__
    takes = ", ".join(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    alone = not known or known.id in _OF_OTHERS
    observation = (
        f"`{calls[-1][1]}` is defined with ({takes}), and was called with other arguments."
    )
    yield Diagnosis("own-call", observation, fix_of("own-call", failure.platform), replaces=alone)


def _own_function(name: str, own: FailedCode) -> FunctionType | None:
    """The function of a name such as `Net.forward`, if the reader wrote it."""
    first, *rest = name.split(".")
    value: Any = own.scope.get(first)
    if value is None:
        value = parts_of(sys.modules.get("__main__")).get(first)
    for part in rest:
        value = parts_of(value).get(part) if issubclass(type(value), type) else None
    if type(value) is not FunctionType or not is_own_file(value.__code__.co_filename):
        return None
    return value
