"""Result assertions: what each lesson's record must hold."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
#: lesson -> the values that only trainings of full length reach
FULL_SIZE: dict[str, list[str]] = _TABLE.pop("full_size")
#: lesson -> {value: [at least, at most]}
ASSERTIONS: dict[str, dict[str, list[float]]] = _TABLE

#: Values that a framework measures: where it is missing, and only there, they may be missing too.
_MEASURED_BY = {
    "04_tensorflow_on_gpu": dict.fromkeys(ASSERTIONS["04_tensorflow_on_gpu"], "tensorflow"),
    "05_tpu_strategy": {
        **dict.fromkeys(ASSERTIONS["05_tpu_strategy"], "jax"),
        "tokens_v5e": "libtpu",
        "sharded": "libtpu",
    },
    "13_write_a_kernel": {
        **dict.fromkeys(("row", "column", "raced", "across", "along", "tiled"), "numba"),
        **dict.fromkeys(("mma_t4", "mma_a100"), "triton"),
    },
    "15_fine_tune": {
        **dict.fromkeys(set(ASSERTIONS["15_fine_tune"]) - {"bf16_slower"}, "transformers"),
        **dict.fromkeys(("library", "library_unplugged", "stops"), "bitsandbytes"),
    },
}


def violations(
    lesson: str,
    values: Mapping[str, float],
    versions: Mapping[str, Any] | None = None,
    fast: bool = False,
) -> list[str]:
    """Return a message for each assertion of `lesson` that `values` violate.

    `versions` are those of the frameworks that were there; None for all of them. `fast`: trainings were cut
    short, and what they reach at full length is not asked for.
    """
    measured_by = _MEASURED_BY.get(lesson, {})
    not_asked = FULL_SIZE.get(lesson, []) if fast else []

    def may_be_missing(name: str) -> bool:
        return versions is not None and name in measured_by and not versions.get(measured_by[name])

    return [
        f"{lesson}: {name} is {values.get(name)}, promised from {low} to {high}"
        for name, (low, high) in ASSERTIONS.get(lesson, {}).items()
        if name not in not_asked and not low <= values.get(name, float("nan")) <= high
        if name in values or not may_be_missing(name)
    ]


def violations_in(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a message for each violated assertion; `records` that aren't of kind "record" are skipped."""
    return [
        text
        for record in records
        if record["kind"] == "record"
        for text in violations(
            record["lesson"],
            {name: value["number"] for name, value in record["values"].items()},
            record["versions"],
            record["fast"],
        )
    ]
