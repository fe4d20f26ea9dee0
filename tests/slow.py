"""Which cases of a test are for `make test-slow`: those that do once more what the first ones do."""

from collections.abc import Iterable
from typing import Any

import pytest


def after(first: int, cases: Iterable[Any]) -> list[Any]:
    """All cases, of which `make test` runs the first ones only."""
    cases = list(cases)
    assert 0 < first < len(cases)
    rest = [
        pytest.param(*(case if isinstance(case, tuple) else [case]), marks=pytest.mark.slow)
        for case in cases[first:]
    ]
    return cases[:first] + rest
