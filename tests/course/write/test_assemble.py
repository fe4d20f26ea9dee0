import re

import nbformat
import pytest

from course.config import CourseError
from course.write import assemble
from tests.toy import edit_lesson, publish_toy


def cells(course, solved=False):
    return assemble.build(course, course.lessons[0], solved).cells


def tagged(course, tag, solved=False):
    return [cell for cell in cells(course, solved) if tag in cell.metadata.get("tags", [])]


def test_cell_ids_are_unique_and_follow_the_text(toy_course):
    before = {cell.source: cell["id"] for cell in cells(toy_course)}
    assert len(set(before.values())) == len(before)
    edit_lesson(toy_course, "# ## A figure", "# ## Another figure")
    after = {cell.source: cell["id"] for cell in cells(toy_course)}
    assert {text for text in after if before.get(text) != after[text]} == {"## Another figure"}


def test_metadata_asks_colab_for_the_chip(toy_course):
    metadata = assemble.build(toy_course, toy_course.lessons[0]).metadata
    assert metadata["accelerator"] == "GPU"
    assert metadata["colab"] == {"gpuType": "T4", "provenance": [], "toc_visible": True}
    assert "widgets" not in metadata


def test_title_has_badge_objectives_and_minutes(toy_course):
    [title] = tagged(toy_course, "title")
    assert title.source.startswith("# 01 · A toy\n\n[![Open in Colab](")
    assert (
        "Fail in one way." in title.source and "**7 minutes.** Best with: GPU (T4)" in title.source
    )


def test_set_up_cell_is_folded_and_short(course):
    for lesson in course.lessons:
        notebook = assemble.build(course, lesson)
        [cell] = [c for c in notebook.cells if "set-up" in c.metadata.get("tags", [])]
        assert cell.metadata["cellView"] == "form" and cell.source.startswith("# @title")
        assert len(cell.source.splitlines()) <= 26
        assert cell.source.count(course.repository.helper) == 1
        assert "--no-deps" in cell.source


def test_learner_sees_stub_check_and_folded_solution(toy_course):
    [stub] = tagged(toy_course, assemble.EXERCISE)
    assert "mib = ...  # the bytes" in stub.source and "SOLUTION" not in stub.source
    assert 'exercises.check("02.at_least", mib)' in stub.source
    [solution] = tagged(toy_course, assemble.SOLUTION)
    assert solution.cell_type == "markdown" and solution.source.startswith("<details>")
    assert "mib = 1000 * 50e6 * 8 / 240e9" in solution.source


def test_no_solution_leaks_into_a_learners_code_cell(course):
    for lesson in course.lessons:
        source = course.source(lesson).read_text("utf-8")
        assert source.count(assemble.BEGIN) == source.count(assemble.END) >= 3
        code = [c.source for c in assemble.build(course, lesson).cells if c.cell_type == "code"]
        assert not any("SOLUTION" in text for text in code)


@pytest.mark.parametrize("broken", [assemble.BEGIN, assemble.END])
def test_unbalanced_solution_markers_are_named(toy_course, broken):
    edit_lesson(toy_course, broken + "\n", "")
    with pytest.raises(CourseError, match=r"01_toy: an exercise needs one .*mib = \.\.\."):
        cells(toy_course)


def test_building_keeps_outputs_of_cells_that_did_not_change(toy_course):
    path = publish_toy(toy_course)
    edit_lesson(toy_course, "total = sum(range(10))", "total = sum(range(11))")
    assemble.write(toy_course, toy_course.lessons[0])
    stored = {cell.source: cell for cell in nbformat.read(path, as_version=4).cells}
    assert stored['"the same everywhere"'].outputs
    assert not stored["total = sum(range(11))\ntotal"].outputs


def test_ids_follow_from_the_text_and_no_two_are_the_same(toy_course):
    edit_lesson(toy_course, "# ## A figure", "# ## A figure\n\n# %% [markdown]\n# ## A figure")
    ids = [cell.id for cell in assemble.build(toy_course, toy_course.lessons[0]).cells]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[0-9a-f]{10}-\d", id) for id in ids)
    assert sum(id.endswith("-2") for id in ids) == 1
    assert ids == [cell.id for cell in assemble.build(toy_course, toy_course.lessons[0]).cells]
