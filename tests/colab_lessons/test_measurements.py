import dataclasses
import json

import numpy as np
import pytest

from colab_helpers import hardware
from colab_lessons import exercises, measurements

T4 = hardware.Device("GPU", "Tesla T4", "NVML", 15360 * 2**20, driver="580.82.07")


def made(fast=False, lesson="01_enable_gpu"):
    return measurements.record(
        lesson, fast, device=T4,
        speedup=measurements.Value(83.2, "×", "faster"),
        matmul=measurements.series([1, 2], [0.1, 0.2], "s", "product"),
    )  # fmt: skip


def test_a_record_survives_the_file(tmp_path):
    record = made()
    path = measurements.write(record, tmp_path)
    assert path.name == "tesla-t4--01_enable_gpu.json"
    kept = dataclasses.replace(record, predictions={}, exercises={}, run=measurements.Run())
    assert measurements.read(path) == kept  # what a learner said and tried is nobody's reference
    assert measurements.load("01_enable_gpu", tmp_path) == [kept]
    assert measurements.load("02_check_hardware", tmp_path) == []


def test_a_record_knows_device_versions_and_date():
    record = made()
    assert (record.device, record.kind, record.details["driver"]) == (
        "Tesla T4",
        "GPU",
        "580.82.07",
    )
    assert record.versions["python"] and len(record.date) == 10
    assert record.label == f"Tesla T4, {record.date}"


def test_a_record_has_predictions_exercises_and_the_run_that_it_is_of():
    exercises.check("03.move_less", "?")
    predicted = {
        "times_up": measurements.Prediction(10, np.float32(2.5), "×"),
        "left": measurements.Prediction(None, "both"),
    }
    record = measurements.record("03_pytorch_on_gpu", False, device=T4, predicted=predicted)
    again = measurements.Record.from_dict(json.loads(json.dumps(record.to_dict())))
    assert again == record
    assert again.predictions["times_up"].times_off == 4 and not again.predictions["left"].made
    tried = again.exercises["03.move_less"]
    assert tried.status == "wrong" and tried.tries >= 1 and "number" in tried.message
    assert set(again.exercises) == {id for id in again.exercises if id.startswith("03.")}
    later = measurements.record("03_pytorch_on_gpu", False, device=T4)
    assert later.run.id == record.run.id and later.run.began <= record.run.recorded


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (3, 3), (2.5, 2.5), ("", None), (None, None), ("bf16", "bf16"), (True, True),
        (float("nan"), "nan"), (10**400, "1" + 119 * "0"), ("x" * 500, "x" * 120), ([1], "[1]"),
    ],
)  # fmt: skip
def test_a_prediction_is_plain_data_whatever_was_entered(said, kept):
    assert measurements.Prediction(said, 1).guess == kept


def test_fast_runs_are_no_reference(tmp_path):
    with pytest.raises(ValueError, match="ran with FAST"):
        measurements.write(made(fast=True), tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot be read"),
        ("[]", "not a record of schema 1"),
        ('{"schema": 99}', "schema: 99"),
        ('{"schema": 1, "kind": "record"}', "lacks something"),
        ('{"benchmarks": [1, 2]}', "schema: None"),
    ],
)
def test_unreadable_and_foreign_records_are_named_and_left_out(tmp_path, text, said):
    (tmp_path / "bad.json").write_text(text)
    good = measurements.write(made(), tmp_path)
    with pytest.raises(measurements.RecordError, match=r"bad\.json") as caught:
        measurements.read(tmp_path / "bad.json")
    assert said in str(caught.value) and "elete it" in str(caught.value)
    with pytest.warns(UserWarning, match=r"bad\.json"):
        assert measurements.load("01_enable_gpu", tmp_path) == [measurements.read(good)]


def test_shipped_records_are_sound():
    for path in measurements.FOLDER.glob("*.json"):
        record = measurements.read(path)
        assert not record.fast and record.values and record.versions["torch"]
        assert path.name.endswith(f"--{record.lesson}.json")


def test_record_speaks_to_people_and_machines():
    bundle = made(fast=True)._repr_mimebundle_()
    assert "faster  83×" in bundle["text/plain"]
    assert "83×" in bundle["text/html"] and "no reference" in bundle["text/html"]
    data = bundle["application/vnd.colab-helpers.record+json"]
    assert data["kind"] == "record" and data["device_kind"] == "GPU"
    json.dumps(data)
