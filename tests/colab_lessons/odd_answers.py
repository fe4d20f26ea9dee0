"""Answers that nobody would give, until somebody does."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import enum
import fractions
import itertools
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch


class Evil:
    """Raises on whatever is asked of it, in words that raise too."""

    def _refuse(self, *args: Any, **named: Any) -> Any:
        raise EvilError

    __repr__ = __str__ = __len__ = __iter__ = __getitem__ = __float__ = __int__ = __bool__ = _refuse
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = __abs__ = __sub__ = __call__ = _refuse

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class EvilError(Exception):
    """An error without words."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Liar:
    """Equal to everything, and larger and smaller."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return True

    __lt__ = __le__ = __gt__ = __ge__ = __eq__
    __hash__ = None


class Color(enum.Enum):
    """An enumeration."""

    RED = 1


def _typo(*args):
    return undefined_name  # noqa: F821


def _leaves(*args):
    sys.exit(3)


def _asserts(*args):
    assert False  # noqa: B011


def _deep(*args):
    return _deep(*args)


def _raises(error):
    def function(*args):
        raise error

    return function


def deep_list(levels: int = 5000) -> list:
    """A list in a list in a list."""
    nested: list = []
    for _ in range(levels):
        nested = [nested]
    return nested


def endless() -> list:
    """A list that holds itself."""
    own: list = []
    own.append(own)
    return own


def values() -> Iterator[Any]:
    """Every kind of odd value, some forty of them."""
    yield from (None.__class__, ..., NotImplemented, True, False, 0, -1, 1e308, -1e-308, 10**400)
    yield from (
        float("nan"),
        float("inf"),
        float("-inf"),
        3 + 4j,
        "",
        " ",
        "?",
        "40",
        "NaN",
        "\x00",
    )
    yield from (
        "<script>alert(1)</script>",
        "x" * 100_000,
        b"40",
        bytearray(b"4"),
        memoryview(b"4"),
    )
    yield from ([], (), {}, set(), frozenset({3}), range(3), iter([3, 5]), [None], [[3]], {1: 2})
    yield from (decimal.Decimal("NaN"), decimal.Decimal(40), fractions.Fraction(3, 7), Color.RED)
    yield from (datetime.date(2026, 11, 21), Evil(), Liar(), Evil, deep_list(), endless(), object())
    yield from (np.array([]), np.array([1, 2]), np.array(40), np.float16("inf"), np.ma.masked)
    yield from (torch.tensor([]), torch.ones(2), torch.tensor(40), torch.ones(2, device="meta"))
    yield from (
        _typo,
        _leaves,
        _asserts,
        _deep,
        lambda: ...,
        lambda *_: Evil(),
        print,
        len,
        Exception,
    )
    yield from (
        _raises(IndexError()),
        _raises(ImportError("x")),
        _raises(EvilError()),
        torch.nn.Module,
    )
    yield from (_raises(AssertionError()), contextlib.nullcontext(), itertools.count(), type, sys)


def inside(solution: Any) -> Iterator[Any]:
    """Answers of the right shape, with odd values in them."""
    if isinstance(solution, dict):
        for value in values():
            yield dict.fromkeys(solution, value)
            first = next(iter(solution))
            yield {**solution, first: value}
    elif isinstance(solution, list | set):
        for value in values():
            with contextlib.suppress(TypeError, RuntimeError, EvilError):
                yield type(solution)([value] * len(solution))
