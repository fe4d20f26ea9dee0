"""What the lessons promise about their results, read from the records of full runs."""

import pytest

from colab_lessons import measurements
from course.check.record_assertions import violations

BY_DEVICE: dict = {}
for path in sorted(measurements.FOLDER.glob("*.json")):
    record = measurements.read(path)
    BY_DEVICE.setdefault(record.device, {})[record.lesson] = record

devices = pytest.mark.parametrize("device", BY_DEVICE)


def value(device, lesson, name):
    record = BY_DEVICE[device].get(lesson)
    if record is None:
        pytest.skip(f"{lesson} has no record on {device}")
    return record.values[name].number


def test_there_is_a_machine_with_every_lesson(course):
    lessons = {lesson.slug for lesson in course.lessons}
    assert any(set(records) >= lessons for records in BY_DEVICE.values())


@pytest.mark.parametrize(
    ("device", "lesson"), [(device, lesson) for device in BY_DEVICE for lesson in BY_DEVICE[device]]
)
def test_record_keeps_the_promises_of_its_lesson(device, lesson):
    values = BY_DEVICE[device][lesson].values
    assert violations(lesson, {name: value.number for name, value in values.items()}) == []


@devices
def test_clock_that_does_not_wait_is_far_off(device):
    assert value(device, "03_pytorch_on_gpu", "wrong_clock") > 10


@devices
def test_two_devices_and_one_give_the_same_gradient(device):
    assert value(device, "04_tensorflow_on_gpu", "gradient_gap") < 1e-6


@devices
def test_effects_of_the_first_lessons_are_large(device):
    assert value(device, "02_check_hardware", "eight") < 2
    assert value(device, "02_check_hardware", "stairs") > 2
    assert value(device, "02_check_hardware", "added") < 5
    assert value(device, "03_pytorch_on_gpu", "reading") > 1.5
    assert value(device, "03_pytorch_on_gpu", "starved") > 70
    assert value(device, "03_pytorch_on_gpu", "fed") > 2
    assert value(device, "03_pytorch_on_gpu", "ladder") > 1.3
    assert value(device, "04_tensorflow_on_gpu", "graph") > 3
    assert value(device, "04_tensorflow_on_gpu", "decoded_once") > 1.5


#: Quantities that several lessons record: on one machine they agree within 15%.
SAME = {"peak": ("01_enable_gpu", "02_check_hardware", "03_pytorch_on_gpu")}


@devices
@pytest.mark.parametrize("name", SAME)
def test_what_several_lessons_measure_is_the_same(device, name):
    by_chip: dict = {}  # two chips may go by one name: what they can do tells them apart
    for lesson in SAME[name]:
        number = value(device, lesson, name)  # skips where a record is missing
        features = BY_DEVICE[device][lesson].details.get("features")
        by_chip.setdefault(str(features), {})[lesson] = number
    for found in by_chip.values():
        assert max(found.values()) <= 1.15 * min(found.values()), found


def test_every_quantity_of_two_lessons_is_compared():
    """A name that two lessons record is either compared, or means another thing and is named here."""
    other = {
        "digits", "wrong_clock", "peak_off", "checkpoint_saved", "fed", "starved",  # of its own work
    }  # fmt: skip
    names: dict = {}
    for records in BY_DEVICE.values():
        for lesson, record in records.items():
            for name in record.values:
                names.setdefault(name, set()).add(lesson)
    shared = {name for name, lessons in names.items() if len(lessons) > 1}
    assert shared - other == set(SAME)


@devices
def test_the_line_promises_the_batch_that_fits(device):
    promised, found = (
        value(device, "06_memory_management", name) for name in ("batch_promised", "batch_found")
    )
    assert abs(promised - found) <= max(1, 0.05 * found)


@devices
def test_effects_of_the_later_lessons_are_large(device):
    assert value(device, "05_tpu_strategy", "tokens_v5e") == 2**19  # what the compiler said
    assert value(device, "06_memory_management", "rule_right") <= 2
    saved = (value(device, "07_mixed_precision", name) for name in ("saved_few", "saved_many"))
    few, many = saved
    assert many > few + 20
