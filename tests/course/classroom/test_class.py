"""What the page says of a class, beside what was made for it."""

import json
import math
import os

import pytest

from colab_helpers._rich_display import RECORD_MIME
from course.__main__ import main
from course.classroom import class_page, class_summary, submissions
from course.config import load
from tests.course.classroom import samples

COURSE = load()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Notebooks of all kinds in one folder, some of them deeper."""
    place = tmp_path_factory.mktemp("class")
    for one in samples.everything():
        path = place / one.name.replace("/b>", "_b>")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(one.content, "utf-8")
    hidden = place / ".ipynb_checkpoints" / "old.ipynb"
    hidden.parent.mkdir()
    hidden.write_text(samples.everything()[0].content, "utf-8")
    return place


@pytest.fixture(scope="module")
def read(folder):
    """What is read of them, and the page."""
    handed = submissions.read_folder(COURSE, folder)
    work = class_summary.summarize(COURSE, handed)
    return handed, work, class_page.page(work, handed)


def test_every_row_is_right(read):
    handed = {one.file.replace("_b>", "/b>"): one for one in read[0]}
    wanted = {one.name: one for one in samples.everything()}
    assert handed.keys() == wanted.keys() and len(wanted) >= 30
    for name, want in wanted.items():
        found = handed[name]
        assert (found.lesson, found.duplicate_of) == (want.lesson, want.copy_of), name
        assert (found.record.device if found.record else "") == want.device, name
        assert {n: p.guess for n, p in found.predictions.items() if p.made} == want.said, name
        assert {id: tried.status for id, tried in found.exercises.items()} == want.exercises, name
        assert tuple(error.id for error in found.errors) == want.errors, name
        assert bool(found.ran) == (want.ran and want.lesson is not None), name
        assert want.problem in "; ".join(found.problems), name
        assert want.problem or not found.problems, (name, found.problems)


def test_hostile_text_is_text(read):
    page = class_page.page(read[1], read[0], names=True)
    assert "onerror" not in read[2]  # it is one student's own
    assert "<script" not in page and "<img" not in page and "onerror=alert" in page
    assert (
        "&lt;script&gt;" in page
        and 'http-equiv="Content-Security-Policy" content="default-src \'none\'' in page
    )


def test_who_was_off_by_ten_and_in_which_direction(read):
    [lesson] = [one for one in read[1].lessons if one.slug == samples.PYTORCH]
    [ladder] = [one for one in lesson.predictions if one.question.name == "ladder_gains"]
    number = {one.submission.file: one.number for one in lesson.students}
    measured = next(p.measured for _, p in ladder.answers if p.measured)
    assert math.isclose(dict(ladder.times_off)[number["01-ada.ipynb"]], 10 / measured)
    assert ladder.too_much == [number["02-ben/lesson.ipynb"]]
    assert ladder.too_little == [number["03 chi (1).ipynb"]]
    assert number["04-t4.ipynb"] in ladder.near and ladder.question.text.startswith("How many")
    [words] = [
        g for one in read[1].lessons for g in one.predictions if g.question.name == "your_choice"
    ]
    guessed = {word: count for word, count, _ in words.words if count}
    [measured] = {p.measured for _, p in words.answers}
    assert guessed == {"T4 GPU": 1, "A100 GPU": 1}
    assert {word: count for word, _, count in words.words if count} == {measured: 2}


def test_wrong_answers_stand_together_by_the_mistake_that_the_judge_named(read):
    [lesson] = [one for one in read[1].lessons if one.slug == samples.PYTORCH]
    tasks = {task.id: task for task in lesson.tasks}
    assert tasks["03.amdahl"].title == "2 · What can a GPU gain you?"
    told = {text: len(students) for text, students in tasks["03.amdahl"].mistakes}
    assert told["That is the new time over the old. Turn it round."] == 1
    assert len(tasks["03.hidden_stops"].by_status["right"]) == 1
    wrong = len(tasks["03.move_less"].by_status["wrong"])
    assert wrong == sum(id == "03.move_less" for id, _ in samples.WRONG) + 1  # and the hostile one


def test_chips_stand_beside_their_data_sheets_and_nothing_is_measured_on_a_fake_gpu(read):
    machines = {machine.name: machine for machine in read[1].machines}
    assert (
        machines["Tesla T4"].sheet.startswith("8.10 TFLOP/s in fp32")
        and len(machines["Tesla T4"].students) == 3
    )
    assert machines["Tesla T4 (fake GPU: nothing measured)"].measured == ()
    assert any("ladder" in meaning for meaning, _ in machines["NVIDIA A100-SXM4-40GB"].measured)
    assert "Tesla T4" in {machine.name for machine in read[1].measuring} and read[1].compared
    assert any(" to " in text for machine in machines.values() for _, text in machine.measured)


def test_errors_have_their_explanation(read):
    first, *rest = read[1].errors
    assert first.error.id == "out-of-memory" and len(first.students) == 2 and first.error.remedy
    assert "ZeroDivisionError: division by zero" in {met.error.text for met in rest}


def test_names_stand_there_only_if_asked_for(folder, tmp_path, capsys, read):
    assert main(["class", str(folder), "--out", str(tmp_path / "a")]) == 0
    page = (tmp_path / "a" / "class.html").read_text("utf-8")
    counted = len(submissions.counted(read[0]))
    assert f"{counted} of {len(read[0])} notebooks count" in capsys.readouterr().out
    assert "ben" not in page and "student 2" in page
    named = class_page.page(read[1], read[0], names=True)
    assert "02-ben/lesson.ipynb" in named and "&lt;b&gt;hostile" in named


def test_a_prediction_that_was_changed_after_the_run_is_told(tmp_path):
    one = samples.submission("a.ipynb", said={"ladder_gains": 10})
    one.content = one.content.replace("ladder_gains = 10", "ladder_gains = 1.5")
    (tmp_path / "a.ipynb").write_text(one.content, "utf-8")
    [handed] = submissions.read_folder(COURSE, tmp_path)
    assert handed.problems == ("prediction changed after the run: ladder_gains",)
    assert handed.predictions["ladder_gains"].guess == 10


def test_predictions_without_a_run_are_read_and_nothing_is_executed(tmp_path):
    notebook = json.loads(samples.submission("a.ipynb").content)
    samples._untouched(notebook)
    danger = f"open({str(tmp_path / 'made')!r}, 'w')"
    for cell in notebook["cells"]:
        cell["source"] = (
            cell["source"]
            .replace("ladder_gains = None", "ladder_gains = 4")
            .replace("times_faster = None", f"times_faster = {danger}")
        )
    (tmp_path / "a.ipynb").write_text(json.dumps(notebook), "utf-8")
    [handed] = submissions.read_folder(COURSE, tmp_path)
    assert {name: one.guess for name, one in handed.predictions.items()} == {"ladder_gains": 4}
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


def read_one(tmp_path, notebook, name="a.ipynb"):
    """What is read of one notebook, and its page: none of it may raise."""
    text = notebook if isinstance(notebook, str) else json.dumps(notebook)
    (tmp_path / name).write_text(text, "utf-8")
    handed = submissions.read_folder(COURSE, tmp_path)
    work = class_summary.summarize(COURSE, handed)
    for names in (False, True):
        class_page.page(work, handed, names).encode("utf-8")
    return handed


def record_of(notebook):
    [(_, record)] = samples.handed(notebook, "record")
    return record


LONE = "A\ud800"
ODD = {
    "half a letter": lambda r: r.update(device=LONE),
    "half a letter in an exercise": lambda r: r["exercises"].update(
        {"03.amdahl": {"status": "wrong", "message": LONE, "tries": 1}}
    ),
    "a message that is none": lambda r: r["exercises"].update(
        {"03.amdahl": {"status": "wrong", "message": None, "tries": 1}}
    ),
    "an exercise of nobody": lambda r: r["exercises"].update(
        {"03.nonsense": {"status": "wrong", "message": "x", "tries": 1}}
    ),
    "a unit that is none": lambda r: r["predictions"]["ladder_gains"].update(unit=[1]),
    "a number too large": lambda r: r["values"]["ladder"].update(number=10**400),
    "no number": lambda r: r["values"]["ladder"].update(number=float("nan")),
    "next to nothing": lambda r: r["predictions"]["ladder_gains"].update(guess=5e-324, measured=12),
    "less than nothing": lambda r: r["predictions"]["ladder_gains"].update(guess=-3),
    "too many values": lambda r: r["values"].update(
        {str(i): {"number": 1, "unit": "", "meaning": str(i)} for i in range(100_000)}
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_records_break_nothing(tmp_path, name):
    notebook = json.loads(samples.submission("a").content)
    ODD[name](record_of(notebook))
    [handed] = read_one(tmp_path, notebook)
    assert handed.lesson == samples.PYTORCH and "03.nonsense" not in handed.exercises


def field_of(text, notebook=None):
    notebook = notebook or json.loads(samples.submission("a").content)
    for cell in notebook["cells"]:
        cell["source"] = cell["source"].replace("ladder_gains = None", f"ladder_gains = {text}")
    return notebook


@pytest.mark.parametrize("text", ["{[]}", "{[]: 1}", "(" * 500, " " * 200_000 + "y", "1 # @param"])
@pytest.mark.timeout(20)
def test_odd_fields_break_nothing(tmp_path, text):
    [handed] = read_one(tmp_path, field_of(text))
    assert handed.lesson == samples.PYTORCH


def test_very_many_cells_are_refused_before_they_take_memory(tmp_path):
    [handed] = read_one(tmp_path, '{"cells": [' + "{}," * 1_000_000 + "{}]}")
    assert "1,000,001 cells" in handed.problems[0]


def test_of_two_files_with_one_record_the_one_that_was_saved_last_counts(tmp_path):
    for name, said, when in (("a", 1, 10**9), ("b", 2, 2 * 10**9)):
        notebook = json.loads(samples.submission("a", said={"ladder_gains": 10}).content)
        record_of(notebook)["run"] = {"id": "one", "began": "", "recorded": "2026-11-22T10:10"}
        text = json.dumps(notebook).replace("ladder_gains = 10", f"ladder_gains = {said}")
        path = tmp_path / f"{name}.ipynb"
        path.write_text(text, "utf-8")
        os.utime(path, (when, when))
    [counted] = submissions.counted(submissions.read_folder(COURSE, tmp_path))
    assert counted.file == "b.ipynb"


WORDS = "Zelda Quux", "/home/zelda.quux/hw", "zelda-quux-laptop"


def test_nothing_that_one_student_wrote_is_shown_without_names(tmp_path):
    """A name in every place of a notebook that holds text."""
    name, path, host = WORDS
    notebook = json.loads(samples.submission(f"{name}.ipynb", said={"ladder_gains": 10}).content)
    record = record_of(notebook)
    record["device"], record["platform"] = f"NVIDIA of {host}", name
    record["values"] = {"x": {"number": 1.0, "unit": name, "meaning": f"by {name}"}}
    record["predictions"] = {"ladder_gains": {"guess": name, "measured": path, "unit": name}}
    wrong = {
        "kind": "exercise",
        "exercise": "03.fix",
        "status": "wrong",
        "message": f"{path}: {name}",
    }
    for _, handed in samples.handed(notebook, "exercise"):
        handed.update(status="wrong", message=f"By {name}, in {path}")
    error = {"output_type": "error", "ename": "ValueError", "evalue": f"{name} at {path}"}
    mine = {"output_type": "display_data", "data": {RECORD_MIME: wrong}, "metadata": {}}
    notebook["cells"][4]["outputs"] = [error, mine]
    notebook["metadata"]["authors"] = [{"name": name}]
    handed = read_one(tmp_path, notebook, f"{name}.ipynb")
    (tmp_path / f"{name}, broken.ipynb").write_text(name)
    handed = submissions.read_folder(COURSE, tmp_path)
    work = class_summary.summarize(COURSE, handed)
    shown = class_page.page(work, handed).lower()
    assert not [word for word in ("zelda", "quux", "laptop", "/home") if word in shown]
    assert "valueerror" in shown and "another device" in shown
    assert "zelda" in class_page.page(work, handed, names=True).lower()


def class_told(tmp_path, messages):
    """The page of a class in which each was told one thing of every exercise."""
    for name, told in messages.items():
        notebook = json.loads(samples.submission(name).content)
        for _, handed in samples.handed(notebook, "exercise"):
            handed.update(status="wrong", message=told)
        (tmp_path / f"{name}.ipynb").write_text(json.dumps(notebook))
    handed = submissions.read_folder(COURSE, tmp_path)
    work = class_summary.summarize(COURSE, handed)
    return class_page.page(work, handed)


def test_what_several_were_told_is_shown(tmp_path):
    page = class_told(tmp_path, {"a": "It adds.", "b": "It adds.", "c": "It's mine alone."})
    assert "It adds." in page and "alone" not in page


def test_what_their_code_raised_is_not_shown_to_others_though_two_got_it(tmp_path):
    told = "Your answer raised an error (KeyError: 'Quux (Zelda)'). Count again."
    shown = class_told(tmp_path, dict.fromkeys("ab", told))
    assert "raised an error (KeyError). Count again." in shown and "Zelda" not in shown


def test_both_sides_of_a_copy_are_flagged(tmp_path):
    notebook = json.loads(samples.submission("a").content)
    for name in ("anna", "bob", "carla"):
        (tmp_path / f"{name}.ipynb").write_text(json.dumps(notebook) + " " * len(name))
    handed = submissions.read_folder(COURSE, tmp_path)
    assert sorted(one.copies for one in handed) == [0, 0, 2]
    work = class_summary.summarize(COURSE, handed)
    assert "2 other files with the same run" in class_page.page(work, handed)
    assert class_page.page(work, handed).count("the same as student") == 2


def test_of_nbgraders_folders_what_was_submitted_counts(tmp_path):
    for place, folder in enumerate(("submitted", "autograded", "feedback", "source")):
        notebook = json.loads(samples.submission("a").content)
        record_of(notebook)["run"]["id"] = f"{place}" * 8
        path = tmp_path / "course" / folder / "ada" / "ps1" / "lesson.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(notebook))
    alone = tmp_path / "other" / "source" / "lesson.ipynb"  # nobody's nbgrader
    alone.parent.mkdir(parents=True)
    alone.write_text(samples.submission("b").content)
    found = [one.file for one in submissions.read_folder(COURSE, tmp_path)]
    assert found == ["course/submitted/ada/ps1/lesson.ipynb", "other/source/lesson.ipynb"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (b" \n\0\0", "it is empty"),
        ('{"cells": []}'.encode("utf-16"), "it is in UTF-16"),
        ('{"cells": []}'.encode("utf-16-le"), "it is in UTF-16"),
        (b"\n<!DOCTYPE html><title>Sign in</title>", "it is a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "a pointer of Git LFS"),
        (b'{"cells": [\n<<<<<<< HEAD\n{}\n=======\n>>>>>>> main\n]}', "a merge conflict of Git"),
        (
            b'{"url": "https://drive.google.com/x", "doc_id": "1"}',
            "a shortcut to a file on Google Drive",
        ),
    ],
)
def test_what_is_no_notebook_is_named_as_what_it_is(tmp_path, content, said):
    (tmp_path / "a.ipynb").write_bytes(content)
    [handed] = submissions.read_folder(COURSE, tmp_path)
    assert said in handed.problems[0]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda output: output.update(output_type="stream", name="stdout", text=[1, None]),
        lambda output: output.update(metadata=[1]),
        lambda output: output.update(data=[1]),
        lambda output: output.update(data={"image/png": "AAAA"}, metadata={"image/png": 3}),
    ],
)
def test_a_learners_own_page_survives_what_the_class_page_survives(tmp_path, spoil):
    notebook = json.loads(samples.submission("a").content)
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            if RECORD_MIME not in output.get("data", {}):
                spoil(output)
        if "takeaways = {" in "".join(cell["source"]):
            cell["outputs"] = [{}]
            spoil(cell["outputs"][0])
    (tmp_path / "a.ipynb").write_text(json.dumps(notebook))
    assert main(["results", str(tmp_path)]) == 0


def test_a_file_of_more_than_fifty_megabytes_is_not_opened(tmp_path):
    with (tmp_path / "a.ipynb").open("wb") as file:
        file.truncate(submissions.MAX_BYTES + 1)
    [handed] = submissions.read_folder(COURSE, tmp_path)
    assert handed.problems == ("larger than 50 MB: not opened",)
