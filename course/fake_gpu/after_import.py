"""Patch a module right after its import, by wrapping its loader."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


def after_import(calls: Mapping[str, Callable[[ModuleType], None]]) -> None:
    """Call each function with its module when that has been imported, before whoever asked for it goes on.

    `calls` maps names of modules to functions. Modules that are imported already are not looked at.
    """
    sys.meta_path.insert(0, _Finder(dict(calls)))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules as usual, and adds a call to the loader's own work."""

    def __init__(self, calls: dict[str, Callable[[ModuleType], None]]):
        self.calls = calls
        self._asking: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find one of the modules; None for all others, and while it is being looked for."""
        if name not in self.calls or name in self._asking:
            return None
        self._asking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking.discard(name)
        if spec is None or spec.loader is None:
            return None
        execute: Any = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self.calls.pop(name)(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
