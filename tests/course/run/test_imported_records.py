"""Records that another machine made, from its notebooks."""

import nbformat
import pytest

from colab_helpers._rich_display import RECORD_MIME
from course.config import CourseError
from course.run import imported_records

RECORD = {"kind": "record", "lesson": "01_enable_gpu", "device": "Tesla T4"}


def test_executed_notebooks_give_their_records(tmp_path):
    shown = [
        nbformat.v4.new_output("display_data", {RECORD_MIME: one})
        for one in (RECORD, {"kind": "x"})
    ]
    cell = nbformat.v4.new_code_cell("1", outputs=shown)
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "01.ipynb")
    assert list(imported_records.records(tmp_path)) == [("01.ipynb", RECORD)]


def test_what_is_no_folder_is_told(tmp_path):
    with pytest.raises(CourseError, match="no folder of notebooks"):
        list(imported_records.records(tmp_path / "x"))
