"""Records that another machine made: from its notebooks, from an archive, and from what is neither."""

import io
import json
import tarfile

import nbformat
import pytest

from colab_helpers._output import RECORD_MIME
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


def test_an_archive_gives_what_lies_in_its_records(tmp_path):
    with tarfile.open(tmp_path / "there.tar.gz", "w:gz") as archive:
        for name in ("records/t4.json", "notes.json"):
            data = json.dumps(RECORD).encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    assert list(imported_records.records(tmp_path / "there.tar.gz")) == [
        ("records/t4.json", RECORD)
    ]


def test_what_is_neither_is_told(tmp_path):
    (tmp_path / "x").write_text("no archive")
    with pytest.raises(CourseError, match="no folder of notebooks, and no archive"):
        list(imported_records.records(tmp_path / "x"))
