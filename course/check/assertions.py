"""Result assertions: what each lesson's record must hold, at any size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

INFINITY = float("inf")

#: lesson -> {value: (at least, at most)}
ASSERTIONS: dict[str, dict[str, tuple[float, float]]] = {
    "04_tensorflow_on_gpu": {
        "graphs": (5, 5),
        "loss_wrong": (3.99, 4.01),  # WRONG really goes wrong
        "gradient_gap": (0, 1e-5),
    },
    "05_tpu_strategy": {
        "weights_gap": (0, 1e-4),  # eight devices and one
        "one_row_gap": (1e-4, INFINITY),  # so that the tolerance tells them apart
        "recompiling": (10, INFINITY),
        "padded_loss": (1.5, INFINITY),
        "all_reduces": (1, INFINITY),
        "tokens_v5e": (2**17, 2**20),
        "dealt_out": (4e9, 16e9),
    },
    "06_memory_management": {
        "bytes_a_parameter": (15.9, 16.1),
        "rule_right": (0, 3),  # the rule of thumb must not do for all
        "rehearsal_right": (2, 4),
        "held_inside": (10**6, INFINITY),  # WRONG: inside except
        "retry_wrong": (0, 0),
        "retry_right": (1, 1),
        "left_after": (0, 0),
        "kept_by_out": (2**26, INFINITY),
        "leak": (10**6, INFINITY),
        "no_leak": (0, 100),
        "held_growing": (100, 200),
        "checkpoint_saved": (1, 100),
        "chunked_saved": (10, 100),
    },
    "07_mixed_precision": {
        "bf16_weight": (1, 1),  # WRONG: no update arrives
        "fp32_weight": (1.999, 2.001),
        "deep_fp16": (2.25, INFINITY),  # it guesses
        "deep_scaled": (0, 2.25),
        "small_fp16": (2, INFINITY),  # over its cliff
        "small_scaled": (0, 1.5),
        "small_bf16": (0, 1.5),
        "softmax_wrong": (1, 1),
        "softmax_right": (0, 0),
        "fp8_plain": (99, 100),
        "fp8_one_factor": (90, 100),
        "fp8_scaled": (0, 5),
    },
    "08_plan": {
        "by_hand": (0, 0),  # twenty lines and the helper, to the byte
        "step_peak": (17.0e9, 17.3e9),
        "least_more": (0, 4),  # per cent
        "most_more": (2, 8),
        "multiplies": (35, 65),
        "envelope_off": (3, 9),
        "sum_off": (1, 2.5),
        "least_factor": (1, 2),
        "most_factor": (1, 3),
        "seven_peak": (105e9, 115e9),
        "in_pieces": (7e9, 9e9),
        "meta_factor": (1.5, 2.5),
    },
    "09_survive": {
        "differ": (0, 0),  # a kill changes not one bit
        "differ_after": (0, 0),
        "weights_differ": (0, 0),
        "luck_high": (0, 0.6),
        "forgot_optimizer": (0.1, INFINITY),
        "forgot_most": (0.1, INFINITY),
        "left_over": (0, 0),
        "left_beside": (1, 1),
        "flipped": (30, 39),  # powers of ten: torch.load says nothing
        "went_on_from": (10, 10),
        "binned": (28, 28),
        "binned_store": (0, 0),
        "valley": (0.4, 2.5),
    },
    "11_many_devices": {
        "speedup_small": (0, 1),
        "bucket": (5, INFINITY),
        "ring_gap": (0, 1e-6),
        "same_gap": (0, 1e-6),
        "uneven_gap": (1e-3, INFINITY),  # WRONG, and no error
        "double_gap": (1e-3, INFINITY),
        "held": (50, 50),
        "reload_gap": (0, 1e-5),
    },
    "12_quantise": {
        "untouched": (95, 100),
        "matrix_5": (80, 100),
        "matrix_3": (0, 80),  # over the cliff
        "same": (95, 100),  # the large column changes nothing by itself
        "outlier_matrix": (0, 60),
        "outlier_column": (95, 100),
        "nf4_right": (90, 100),
        "rows_t4": (170, 180),
    },
    "13_write_a_kernel": {
        "table_gap": (0, 1e-5),
        "row": (4, 4),
        "column": (32, 32),
        "raced": (0, 4),  # WRONG: the barrier is missing
        "across": (4, INFINITY),
        "along": (1, 8),
        "tiled": (0.1, 1),
        "mma_t4": (0, 0),
        "mma_a100": (1, INFINITY),
    },
}


#: Values that a framework measures: where it is missing, and only there, they may be missing too.
_MEASURED_BY = {
    "04_tensorflow_on_gpu": dict.fromkeys(ASSERTIONS["04_tensorflow_on_gpu"], "tensorflow"),
    "05_tpu_strategy": {
        **dict.fromkeys(ASSERTIONS["05_tpu_strategy"], "jax"),
        "tokens_v5e": "libtpu",
        "dealt_out": "libtpu",
    },
    "13_write_a_kernel": {
        **dict.fromkeys(("row", "column", "raced", "across", "along", "tiled"), "numba"),
        **dict.fromkeys(("mma_t4", "mma_a100"), "triton"),
    },
}


def broken(
    lesson: str, values: Mapping[str, float], versions: Mapping[str, Any] | None = None
) -> list[str]:
    """Name each promise that these values do not keep.

    `versions` are those of the frameworks that were there; None for all of them.
    """
    measured_by = _MEASURED_BY.get(lesson, {})

    def may_be_missing(name: str) -> bool:
        return versions is not None and name in measured_by and not versions.get(measured_by[name])

    return [
        f"{lesson}: {name} is {values.get(name)}, promised from {low} to {high}"
        for name, (low, high) in ASSERTIONS.get(lesson, {}).items()
        if not low <= values.get(name, float("nan")) <= high
        if name in values or not may_be_missing(name)
    ]


def broken_in(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """Name each promise that the record among what a notebook handed out does not keep."""
    return [
        text
        for record in records
        if record["kind"] == "record"
        for text in broken(
            record["lesson"],
            {name: value["number"] for name, value in record["values"].items()},
            record["versions"],
        )
    ]
