"""A promise that is broken is named, and a value that is missing is no kept promise."""

import pytest

from course.check import record_assertions

LESSON = "05_tpu_strategy"
KEPT = {name: max(low, 0.001) for name, (low, high) in record_assertions.ASSERTIONS[LESSON].items()}
KEPT |= {"weights_gap": 0.0, "strategy_gap": 0.0}
HERE = {"python": "3.11.7", "jax": "0.10", "libtpu": "0.0.42"}


def of_lesson(**changes):
    values = {
        name: {"number": number} for name, number in (KEPT | changes).items() if number is not None
    }
    return {"kind": "record", "lesson": LESSON, "values": values, "versions": HERE, "fast": False}


def test_kept_promises_are_not_named():
    assert record_assertions.violations_in([of_lesson()]) == []


@pytest.mark.parametrize("value", [None, 1.0, float("nan")])
def test_a_broken_promise_is_named(value):
    (said,) = record_assertions.violations_in([of_lesson(weights_gap=value)])
    assert "weights_gap" in said and "0.0001" in said


def test_what_a_missing_framework_measures_may_be_missing():
    record = of_lesson(tokens_v5e=None, sharded=None)
    assert len(record_assertions.violations_in([record])) == 2
    record["versions"] = HERE | {"libtpu": None}
    assert record_assertions.violations_in([record]) == []


@pytest.mark.parametrize("changes", [{"tokens_v5e": 1.0}, {"all_reduces": None}])
def test_without_libtpu_wrong_values_and_those_of_others_still_count(changes):
    record = of_lesson(**changes) | {"versions": {"python": "3.11.7", "jax": "0.10"}}
    assert len(record_assertions.violations_in([record])) == 1


def test_what_a_short_training_cannot_reach_is_asked_of_full_runs_alone():
    for lesson, names in record_assertions.FULL_SIZE.items():
        assert set(names) < set(record_assertions.ASSERTIONS[lesson])
        values = {name: low for name, (low, _) in record_assertions.ASSERTIONS[lesson].items()}
        values[names[0]] = float("nan")
        assert record_assertions.violations(lesson, values, fast=True) == []
        assert len(record_assertions.violations(lesson, values)) == 1
