"""A snapshot of everything that a step's code can write to, and how to restore it.

Starting from the step, it visits the globals that functions name, closures, attributes and containers. What
cannot be restored, such as a running generator, can be named.
"""

from __future__ import annotations

import functools
import gc
import random
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

#: Containers with more entries are kept, but not searched: a data set, a vocabulary.
_LONGEST = 2_000
_MAX_OBJECTS = 200_000  # things that are looked at
_ATOMS = (str, bytes, bytearray, int, float, complex, bool, type(None), range, slice)
_NOTHING = object()


@dataclass(frozen=True)
class _Place:
    """Something that is written to in place: `read` and `write` take its contents as a dict."""

    holder: Any
    read: Callable[[Any], dict[Any, Any]]
    write: Callable[[Any, dict[Any, Any]], object]

    def contents(self) -> dict[Any, Any]:
        """What it holds now."""
        return self.read(self.holder)


class ReachableState:
    """Keeps what is written in everything that `roots` reach. No tensor's data is copied.

    >>> losses = []
    >>> state = ReachableState(lambda: losses.append(torch.zeros(1)))
    >>> losses.append(torch.ones(1))
    >>> state.restore(lambda thing: isinstance(thing, torch.Tensor))
    >>> losses
    []
    """

    def __init__(self, *roots: Any):
        self._kept: list[tuple[_Place, dict[Any, Any]]] = []
        self._caches: list[Any] = []  # of functools: they cannot be read, but emptied
        self._seen: dict[int, Any] = {}  # the things too, so that no id is used twice
        todo = deque(roots)
        while todo and len(self._seen) < _MAX_OBJECTS:
            thing = todo.popleft()
            if not isinstance(thing, _ATOMS) and id(thing) not in self._seen:
                self._seen[id(thing)] = thing
                todo.extend(self._keep(thing))
        seen = self._seen.values()
        self._generators = [(one, state) for one in seen if (state := _draws(one))]

    def restore(self, is_left: Callable[[Any], bool]) -> None:
        """Restore each container whose new contents reach an object for which `is_left` is true.

        Generators of random numbers are put back in any case.
        """
        for generator, state in self._generators:
            if isinstance(generator, random.Random):
                generator.setstate(state)
            else:
                generator.bit_generator.state = state
        for place, before in self._kept:
            new = [v for key, v in place.contents().items() if before.get(key, _NOTHING) is not v]
            if any(self._leads(value, is_left) for value in new):
                place.write(place.holder, before)

    def clear_caches(self) -> None:
        """Empty each `functools.cache` that was reached."""
        for cache in self._caches:
            cache.cache_clear()

    def _keep(self, thing: Any) -> Iterable[Any]:
        """Keep what `thing` holds, and return what to look at next."""
        if isinstance(thing, functools._lru_cache_wrapper):
            self._caches.append(thing)
        further = list(_constants(thing))
        for place in _places(thing):
            before = place.contents()
            self._kept.append((place, before))
            if not isinstance(thing, types.FunctionType) and len(before) <= _LONGEST:
                further += before.values()
        return further

    def _leads(self, thing: Any, is_left: Callable[[Any], bool]) -> bool:
        """Whether `thing` reaches an object for which `is_left` is true, not through kept ones."""
        todo, looked = [thing], dict[int, Any]()
        while todo and len(looked) < _MAX_OBJECTS:
            one = todo.pop()
            if isinstance(one, _ATOMS) or id(one) in looked:
                continue
            if is_left(one):
                return True
            looked[id(one)] = one
            if id(one) not in self._seen:
                todo += _constants(one)
                todo += _variables(one).values()
                places = () if isinstance(one, types.FunctionType) else _places(one)
                todo += [value for place in places for value in place.contents().values()]
        return False


def containers(roots: Iterable[Any]) -> list[tuple[_Place, dict[Any, Any]]]:
    """Return the containers and parameters in `roots`, and in one another, with what they hold."""
    found, seen, todo = [], set[int](), list(roots)
    while todo and len(seen) < _MAX_OBJECTS:
        thing = todo.pop()
        if (
            isinstance(thing, list | dict | set | deque | torch.nn.Parameter)
            and id(thing) not in seen
        ):
            seen.add(id(thing))
            place = next(_places(thing))
            before = place.contents()
            found.append((place, before))
            todo += before.values() if len(before) <= _LONGEST else ()
    return found


def holders(thing: Any) -> list[str]:
    """Say in words what holds `thing`, as far as the garbage collector knows."""
    found = []
    for holder in gc.get_referrers(thing):
        if isinstance(holder, dict):
            owners = [o for o in gc.get_referrers(holder) if getattr(o, "__dict__", None) is holder]
            of = f"of a {type(owners[0]).__name__}" if owners else "in a dict"
            found.append(f"`{_key_of(holder, thing)}` {of}")
        elif isinstance(holder, types.GeneratorType | types.CoroutineType):
            found.append(f"the {type(holder).__name__} `{holder.__name__}`")
        elif not isinstance(holder, types.FrameType):
            found.append(f"a {type(holder).__name__}")
    return sorted(found, key=lambda words: "`" not in words)


def _key_of(table: dict, thing: Any) -> Any:
    for key, value in table.items():
        if value is thing:
            return key
    return None


def _constants(thing: Any) -> Iterable[Any]:
    """What a thing refers to and cannot exchange."""
    if isinstance(thing, functools._lru_cache_wrapper):
        return [thing.__wrapped__]
    if isinstance(thing, types.FunctionType):
        own = [*(thing.__closure__ or ()), *(thing.__defaults__ or ())]
        return [*own, thing.__kwdefaults__ or {}, *_named_globals(thing)]
    if isinstance(thing, types.MethodType):
        return [thing.__func__, thing.__self__]
    if isinstance(thing, types.BuiltinMethodType):  # losses.append
        return [thing.__self__]
    if isinstance(thing, functools.partial):
        return [thing.func, *thing.args, *thing.keywords.values()]
    if isinstance(thing, tuple | frozenset):
        return thing if len(thing) <= _LONGEST else ()
    if isinstance(thing, types.ModuleType):
        return ()
    if isinstance(thing, type):  # its objects may write to its attributes, or to those of its bases
        return () if _is_library(thing.__module__) else thing.__mro__[1:]
    return [type(thing)]


def _named_globals(function: types.FunctionType) -> list[Any]:
    """The globals that a user's function names; of their own modules what it may mean there."""
    if _is_library(function.__module__):
        return []
    names, known = _names(function.__code__), function.__globals__
    found = [known[name] for name in names if name in known]
    modules = [one for one in found if isinstance(one, types.ModuleType)]
    own = [vars(one) for one in modules if not _is_library(one.__name__)]
    return found + [table[name] for table in own for name in names if name in table]


def _names(code: types.CodeType) -> set[str]:
    """The names in a function's code, and in the functions that it defines."""
    inner = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return set(code.co_names).union(*map(_names, inner))


def _places(thing: Any) -> Iterator[_Place]:
    """Where a thing can be written to in place."""
    if isinstance(thing, types.FunctionType):
        if not _is_library(thing.__module__):
            yield _Place(thing.__globals__, dict, _refill_dict)
    elif isinstance(thing, type):
        if not _is_library(thing.__module__):
            yield _Place(thing, lambda kind: dict(vars(kind)), _reset_attributes)
        return
    elif isinstance(thing, types.ModuleType):
        return
    elif isinstance(thing, types.CellType):
        yield _Place(thing, _read_cell, _write_cell)
    elif isinstance(thing, dict):
        yield _Place(thing, lambda one: dict(dict.items(one)), _refill_dict)
    elif isinstance(thing, list | deque):
        yield _Place(thing, lambda one: dict(enumerate(one)), _refill)
    elif isinstance(thing, set):
        yield _Place(thing, lambda one: {id(value): value for value in one}, _refill_set)
    elif isinstance(thing, torch.Tensor) and thing.is_leaf:
        yield _Place(thing, lambda one: {"grad": one.grad}, _reset_attributes)
    if isinstance(own := _attribute(thing, "__dict__"), dict):
        yield _Place(own, dict, _refill_dict)
    if slots := [name for kind in type(thing).__mro__ for name in _slots(kind)]:
        read = functools.partial(_read_slots, slots)
        yield _Place(thing, read, functools.partial(_reset_slots, slots))


def _variables(thing: Any) -> dict[str, Any]:
    """The variables of a generator or coroutine that stands still."""
    if not isinstance(thing, types.GeneratorType | types.CoroutineType):
        return {}
    frame = thing.gi_frame if isinstance(thing, types.GeneratorType) else thing.cr_frame
    return dict(frame.f_locals) if isinstance(frame, types.FrameType) else {}


@functools.cache
def _is_library(module: str | None) -> bool:
    """Whether a module is Python's own or an installed one. Its objects are looked at, its code is not."""
    name = (module or "").partition(".")[0]
    file = getattr(sys.modules.get(name), "__file__", None) or ""
    installed = "site-packages" in file or "dist-packages" in file
    return installed or name in sys.stdlib_module_names - {"__main__"}


def _draws(thing: Any) -> Any:
    """The state of a generator of Python or NumPy; None for anything else."""
    if isinstance(thing, random.Random) and not isinstance(thing, random.SystemRandom):
        return thing.getstate()
    numpy = sys.modules.get("numpy")
    if numpy and isinstance(thing, numpy.random.Generator):
        return thing.bit_generator.state
    return None


def _slots(kind: type) -> list[str]:
    if _is_library(kind.__module__):
        return []
    slots = vars(kind).get("__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _read_slots(names: list[str], thing: Any) -> dict[str, Any]:
    found = {name: _attribute(thing, name) for name in names}
    return {name: value for name, value in found.items() if value is not _NOTHING}


def _attribute(thing: Any, name: str) -> Any:
    """An attribute without the object's own code, which may refuse or make one; `_NOTHING` without it."""
    try:
        return object.__getattribute__(thing, name)
    except Exception:
        return _NOTHING


def _reset_slots(names: list[str], thing: Any, before: dict[str, Any]) -> None:
    for name in names:
        if name in before:
            object.__setattr__(thing, name, before[name])
        elif hasattr(thing, name):
            object.__delattr__(thing, name)


def _reset_attributes(thing: Any, before: dict[str, Any]) -> None:
    now = {"grad": thing.grad} if isinstance(thing, torch.Tensor) else dict(vars(thing))
    for name in now.keys() - before.keys():
        delattr(thing, name)
    for name, value in before.items():
        if now.get(name, _NOTHING) is not value:
            setattr(thing, name, value)


def _read_cell(cell: types.CellType) -> dict[str, Any]:
    try:
        return {"cell": cell.cell_contents}
    except ValueError:  # nothing assigned yet
        return {}


def _write_cell(cell: types.CellType, before: dict[str, Any]) -> None:
    if "cell" in before:
        cell.cell_contents = before["cell"]
    else:
        del cell.cell_contents


def _refill_dict(thing: dict, before: dict[Any, Any]) -> None:
    kind = OrderedDict if isinstance(thing, OrderedDict) else dict  # past what a subclass refuses
    for key in [key for key in dict.keys(thing) if key not in before]:
        kind.__delitem__(thing, key)
    for key, value in before.items():
        if dict.get(thing, key, _NOTHING) is not value:
            kind.__setitem__(thing, key, value)


def _refill(thing: Any, before: dict[Any, Any]) -> None:
    thing.clear()
    thing.extend(before.values())


def _refill_set(thing: set, before: dict[Any, Any]) -> None:
    thing.clear()
    thing.update(before.values())
