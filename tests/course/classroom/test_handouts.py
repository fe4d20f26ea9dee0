"""What students get has no answers in it; what nbgrader gets, it can use."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest

from course.classroom import handouts, nbgrader_export
from course.config import CourseError, load
from course.write import assemble, lesson_outline
from tests.toy import edit_lesson

COURSE = load()
PLACE = handouts.Location("teacher/my-class", "main", "week 1")
lessons = pytest.mark.parametrize("lesson", COURSE.lessons, ids=lambda lesson: lesson.slug)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("class")
    handouts.write(COURSE, COURSE.lessons, PLACE, place)
    return place


@lessons
def test_no_solution_is_left_in_what_students_get(folder, lesson):
    text = (folder / "students" / f"{lesson.slug}.ipynb").read_text("utf-8")
    assert handouts.leaked_lines(COURSE, lesson, text) == []
    assert "BEGIN SOLUTION" not in text and "Solution (try first)" not in text
    notebook = nbformat.reads(text, 4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not [cell for cell in code if cell.outputs or cell.execution_count]
    solved = (folder / "teacher" / f"{lesson.slug}-solved.ipynb").read_text("utf-8")
    assert len(handouts.leaked_lines(COURSE, lesson, solved)) >= 3  # the search can find them


@lessons
def test_a_hand_out_for_45_minutes_runs_what_it_does_not_show(folder, lesson):
    path = folder / "students" / f"{lesson.slug}-45.ipynb"
    assert path.exists() == (lesson.minutes > 45)
    if not path.exists():
        return
    text = path.read_text("utf-8")
    assert handouts.leaked_lines(COURSE, lesson, text) == []
    whole, short = (
        [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        for notebook in (
            nbformat.read(path.with_name(f"{lesson.slug}.ipynb"), 4),
            nbformat.reads(text, 4),
        )
    )
    folded = [(long, cut) for long, cut in zip(whole, short, strict=True) if long != cut]
    assert folded and all(cut.split("\n", 1)[1] == long for long, cut in folded)
    left_out = [
        part
        for part in lesson_outline.split_into_parts(lesson, assemble.build(COURSE, lesson))
        if not part.short
    ]
    left_out = [part.title for part in left_out if part.minutes]
    assert [f"## {title}\\n\\nNot for today" in text for title in left_out] == [True] * len(
        left_out
    )
    assert COURSE.repository.slug not in "".join(re.findall(r"colab.research[^)]*", text))


@lessons
def test_what_stands_in_a_solution_is_found_wherever_it_is_hidden(lesson):
    notebook = handouts.for_students(COURSE, lesson)
    solved = assemble.build(COURSE, lesson, solved=True)
    [hidden, *_] = [c for c in solved.cells if assemble.SOLUTION in assemble.tags_of(c)]
    for hide in (
        lambda cell: cell.metadata.update(note=hidden.source),
        lambda cell: cell.outputs.append(nbformat.v4.new_output("stream", text=hidden.source)),
    ):
        changed = nbformat.from_dict(json.loads(assemble.dumps(notebook)))
        hide(next(cell for cell in changed.cells if cell.cell_type == "code"))
        assert handouts.leaked_lines(COURSE, lesson, assemble.dumps(changed))


def test_a_solution_that_is_given_away_stops_the_hand_out(toy_course, tmp_path):
    edit_lesson(toy_course, "mib = ...  # the bytes", "mib = ...  # think of 1000 * 50e6")
    [lesson] = toy_course.lessons
    hint = lambda notebook: notebook.cells[0].update(source="mib = 1000 * 50e6 * 8 / 240e9")  # noqa: E731
    given = handouts.for_students
    try:
        handouts.for_students = lambda *asked: (lambda n: (hint(n), n)[1])(given(*asked))
        with pytest.raises(CourseError, match="still holds a solution"):
            handouts.write(toy_course, [lesson], PLACE, tmp_path)
    finally:
        handouts.for_students = given


@lessons
def test_badges_and_ways_on_lead_to_the_hand_outs(folder, lesson):
    text = (folder / "students" / f"{lesson.slug}.ipynb").read_text("utf-8")
    assert f"/github/teacher/my-class/blob/main/week%201/{lesson.slug}.ipynb)" in text
    assert COURSE.colab_url(lesson) not in text


@lessons
def test_the_sheet_has_every_prediction_with_its_choices(folder, lesson):
    sheet = (folder / "students" / f"{lesson.slug}-predictions.html").read_text("utf-8")
    fields = re.findall(r"(?m)^\w+ = None +# @param", COURSE.source(lesson).read_text("utf-8"))
    assert sheet.count('<td class="blank">') == 2 * len(fields) and "http" not in sheet
    asked = re.findall(r"<tr><td>(.+)\n", sheet)
    assert len(asked) == len(set(asked)) == len(fields) and all(
        "?" in one or "." in one for one in asked
    )


def test_the_bundle_for_a_learning_platform_has_what_students_get_and_no_more(folder):
    with zipfile.ZipFile(folder / "students.zip") as bundle:
        names = set(bundle.namelist())
        content = {name: bundle.read(name) for name in names}
    files = {path.name: path.read_bytes() for path in (folder / "students").iterdir()}
    short = sum(lesson.minutes > 45 for lesson in COURSE.lessons)
    assert content == files and len(names) == 2 * len(COURSE.lessons) + short


def test_teachers_get_solutions_that_run_with_what_the_judge_knows(folder):
    notebook = nbformat.read(folder / "teacher" / "03_pytorch_on_gpu-solved.ipynb", 4)
    told = [cell.source for cell in notebook.cells if cell.source.startswith("**The judge**")]
    assert len(told) == 4 and "That is float32: four bytes a pixel." in told[0]
    assert "pixels are sent" in told[0]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", f"{COURSE.repository.slug}/blob/{COURSE.repository.branch}/handouts/"),
        ("a/b/main/here/there", "a/b/blob/main/here/there/"),
        ("https://github.com/a/b/tree/main/here", "a/b/blob/main/here/"),
        ("  www.github.com/a/b/blob/main/here/?tab=readme#x ", "a/b/blob/main/here/"),
        ("a/b.git/main/my class", "a/b/blob/main/my%20class/"),
    ],
)
def test_a_place_is_read(text, address):
    lesson = COURSE.lessons[0]
    assert address + lesson.slug in handouts.Location.parse(COURSE, text).colab_url(lesson)


def test_only_what_is_handed_out_leads_to_hand_outs_and_nothing_old_stays(tmp_path):
    handouts.write(COURSE, COURSE.lessons[:2], PLACE, tmp_path)
    handouts.write(COURSE, COURSE.lessons[4:5], handouts.Location("c", "d", "e"), tmp_path)
    short, notebook = sorted((tmp_path / "students").glob("*.ipynb"))
    assert "e/05_tpu_strategy-45.ipynb" in short.read_text("utf-8")
    text = notebook.read_text("utf-8")  # the others have their solutions in them
    assert not [one.slug for one in COURSE.lessons if COURSE.colab_url(one) in text]
    assert "[All lessons]" in text
    sources = tmp_path / "nbgrader" / "source"
    assert [path.name for path in sources.iterdir()] == ["05_tpu_strategy"]
    source = sources / "05_tpu_strategy" / "05_tpu_strategy.ipynb"
    assert "/github/c/blob/d/e/05_tpu_strategy.ipynb" in source.read_text("utf-8")


@lessons
def test_an_assignment_has_a_point_for_each_exercise(lesson):
    notebook = nbgrader_export.assignment(COURSE, lesson)
    told = [cell.metadata["nbgrader"] for cell in notebook.cells if "nbgrader" in cell.metadata]
    answers, judges = ([one for one in told if one[kind]] for kind in ("solution", "grade"))
    exercises = COURSE.source(lesson).read_text("utf-8").count("### BEGIN SOLUTION")
    assert len(answers) == len(judges) == exercises == sum(one["points"] for one in judges)
    assert len({one["grade_id"] for one in told}) == 2 * exercises


def nbgrader(folder, *words):
    """nbgrader's own command, as somebody would type it in `folder`."""
    bin = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}", "FAST": "1"}
    command = [sys.executable, "-m", "nbgrader", *words]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def graded(folder):
    pytest.importorskip("nbgrader")
    return folder / "nbgrader"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nbgrader_makes_the_students_version_itself(graded, folder):
    lesson = COURSE.lessons[1]
    said = nbgrader(graded, "generate_assignment", lesson.slug)
    released = graded / "release" / lesson.slug / f"{lesson.slug}.ipynb"
    assert released.exists(), said
    text = released.read_text("utf-8")
    assert handouts.leaked_lines(COURSE, lesson, text) == [] and "replace the dots above" in text
    source = graded / "source" / lesson.slug / f"{lesson.slug}.ipynb"
    assert "passes all the tests" in nbgrader(graded, "validate", str(source))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nbgrader_sees_an_open_answer(toy_course, graded, tmp_path):
    handouts.write(toy_course, toy_course.lessons, PLACE, tmp_path)
    said = nbgrader(tmp_path / "nbgrader", "generate_assignment", "01_toy")
    released = tmp_path / "nbgrader" / "release" / "01_toy" / "01_toy.ipynb"
    assert released.exists(), said
    answer = nbgrader(released.parent, "validate", str(released))
    assert "VALIDATION FAILED ON 1 CELL" in answer and "AssertionError" in answer
