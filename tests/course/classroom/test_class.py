"""What the page says of a class, beside what was made for it."""

import csv
import dataclasses
import json
import math
import time

import pytest

from course.__main__ import main
from course.classroom import gathered, report, submissions
from course.table import load
from tests.course.classroom import made

COURSE = load()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Notebooks of all kinds in one folder, some of them deeper."""
    place = tmp_path_factory.mktemp("class")
    for one in made.everything():
        path = place / one.name.replace("/b>", "_b>")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(one.content, "utf-8")
    hidden = place / ".ipynb_checkpoints" / "old.ipynb"
    hidden.parent.mkdir()
    hidden.write_text(made.everything()[0].content, "utf-8")
    return place


@pytest.fixture(scope="module")
def read(folder):
    """What is read of them, and how long that takes with the page."""
    begin = time.perf_counter()
    handed = submissions.read_folder(COURSE, folder)
    work = gathered.gather(COURSE, handed)
    pages = report.page(work, handed), report.table(work)
    return handed, work, pages, time.perf_counter() - begin


def test_every_row_is_right(read):
    handed = {one.file.replace("_b>", "/b>"): one for one in read[0]}
    wanted = {one.name: one for one in made.everything()}
    assert handed.keys() == wanted.keys() and len(wanted) >= 30
    for name, want in wanted.items():
        found = handed[name]
        assert (found.lesson, found.same_as) == (want.lesson, want.copy_of), name
        assert (found.record.device if found.record else "") == want.device, name
        assert {n: p.said for n, p in found.predictions.items() if p.made} == want.said, name
        assert {id: tried.status for id, tried in found.exercises.items()} == want.exercises, name
        assert tuple(error.id for error in found.errors) == want.errors, name
        assert bool(found.ran) == (want.ran and want.lesson is not None), name
        assert want.problem in "; ".join(found.problems), name
        assert want.problem or not found.problems, (name, found.problems)


def test_two_hundred_megabytes_and_all_others_take_less_than_ten_seconds(folder, read):
    assert max(path.stat().st_size for path in folder.iterdir()) > 200e6
    assert read[3] < 10


def test_hostile_text_is_text(read):
    page, _ = read[2]
    assert "<script" not in page and "<img" not in page and "onerror=alert" in page
    assert (
        "&lt;script&gt;" in page
        and 'http-equiv="Content-Security-Policy" content="default-src \'none\'' in page
    )


def test_no_cell_of_the_table_is_a_formula(read):
    rows = list(csv.reader(read[2][1].splitlines()))
    assert len({len(row) for row in rows}) == 1
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "@", "+"))]
    assert any(cell.startswith("'=HYPERLINK") for row in rows for cell in row)


def test_who_was_off_by_ten_and_in_which_direction(read):
    [lesson] = [one for one in read[1].lessons if one.slug == made.PYTORCH]
    [ladder] = [one for one in lesson.guesses if one.question.name == "times_up"]
    number = {one.handed.file: one.number for one in lesson.students}
    measured = next(p.measured for _, p in ladder.answers if p.measured)
    assert math.isclose(dict(ladder.times_off)[number["01-ada.ipynb"]], 10 / measured)
    assert ladder.too_much == [number["02-ben/lesson.ipynb"]]
    assert ladder.too_little == [number["03 chi (1).ipynb"]]
    assert number["04-t4.ipynb"] in ladder.near and ladder.question.text.startswith(
        "From the first rung"
    )
    [words] = [g for one in read[1].lessons for g in one.guesses if g.question.name == "held_back"]
    assert ("all three", 1, 0) in words.words and ("a + b and A @ v", 1, 2) in words.words


def test_wrong_answers_stand_together_by_the_mistake_that_the_judge_named(read):
    [lesson] = [one for one in read[1].lessons if one.slug == made.PYTORCH]
    tasks = {task.id: task for task in lesson.tasks}
    told = {text: len(students) for text, students in tasks["03.beside"].mistakes}
    assert told["With a model on … you returned cpu. Use the model's device."] == 2
    assert len(tasks["03.hidden_stops"].standing["right"]) == 1
    wrong = len(tasks["03.move_less"].standing["wrong"])
    assert wrong == sum(id == "03.move_less" for id, _ in made.WRONG) + 1  # and the hostile one


def test_chips_stand_beside_their_data_sheets_and_nothing_is_measured_on_a_stand_in(read):
    machines = {machine.name: machine for machine in read[1].machines}
    assert (
        machines["Tesla T4"].sheet.startswith("8.10 TFLOP/s in fp32")
        and len(machines["Tesla T4"].students) == 3
    )
    assert machines["Tesla T4 (stand-in: nothing measured)"].measured == ()
    assert any("ladder" in meaning for meaning, _ in machines["NVIDIA A100-SXM4-40GB"].measured)
    assert any(" to " in text for machine in machines.values() for _, text in machine.measured)


def test_errors_have_their_explanation(read):
    first, *rest = read[1].errors
    assert first.error.id == "out-of-memory" and len(first.students) == 2 and first.error.remedy
    assert "ZeroDivisionError: division by zero" in {met.error.text for met in rest}


def test_names_stand_there_only_if_asked_for(folder, tmp_path, capsys, read):
    assert main(["class", str(folder), "--out", str(tmp_path / "a")]) == 0
    page, table = (
        (tmp_path / "a" / name).read_text("utf-8") for name in ("class.html", "class.csv")
    )
    counted = len(submissions.counted(read[0]))
    assert f"{counted} of {len(read[0])} notebooks count" in capsys.readouterr().out
    assert "ben" not in page + table and "student 2" in page and "student 2" in table
    named = report.page(read[1], read[0], names=True) + report.table(read[1], names=True)
    assert "02-ben/lesson.ipynb" in named and "&lt;b&gt;hostile" in named


def test_a_prediction_that_was_changed_after_the_run_is_told(tmp_path):
    one = made.submission("a.ipynb", said={"times_up": 10})
    one.content = one.content.replace("times_up = 10", "times_up = 1.5")
    (tmp_path / "a.ipynb").write_text(one.content, "utf-8")
    [handed] = submissions.read_folder(COURSE, tmp_path)
    assert handed.problems == ("prediction changed after the run: times_up",)
    assert handed.predictions["times_up"].said == 10


def test_predictions_without_a_run_are_read_and_nothing_is_executed(tmp_path):
    notebook = json.loads(made.submission("a.ipynb").content)
    made._untouched(notebook)
    danger = f"open({str(tmp_path / 'made')!r}, 'w')"
    for cell in notebook["cells"]:
        cell["source"] = (
            cell["source"]
            .replace("times_up = None", "times_up = 4")
            .replace("times_faster = None", f"times_faster = {danger}")
        )
    (tmp_path / "a.ipynb").write_text(json.dumps(notebook), "utf-8")
    [handed] = submissions.read_folder(COURSE, tmp_path)
    assert {name: one.said for name, one in handed.predictions.items()} == {"times_up": 4}
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("make", "said"), [(False, "is no folder"), (True, "There is no notebook")]
)
def test_a_folder_without_notebooks_is_told(tmp_path, capsys, make, said):
    place = tmp_path / "there"
    if make:
        place.mkdir()
    assert main(["class", str(place)]) == 1
    assert said in capsys.readouterr().err


def test_one_student_is_a_class_too(tmp_path):
    (tmp_path / "a.ipynb").write_text(made.submission("a.ipynb").content, "utf-8")
    handed = submissions.read_folder(COURSE, tmp_path)
    page = report.page(gathered.gather(COURSE, handed), handed)
    assert "1 notebook of 1 file." in page and dataclasses.is_dataclass(handed[0])
