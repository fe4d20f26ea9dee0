"""What one learner measured, on a page of their own."""

import json
import re
import shutil

import pytest

from course.__main__ import main
from course.classroom import learner_page
from course.config import load
from tests.course.accessible import violations
from tests.course.classroom import samples
from tests.course.conftest import PAGE_TIMEOUT_MS

COURSE = load()
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def ran(folder, said, recorded, name="a.ipynb"):
    """A notebook with a record, a prediction, something learned and a figure."""
    notebook = json.loads(samples.submission("a", said={"ladder_gains": said}).content)
    for _, record in samples.handed(notebook, "record"):
        record["run"] = {"id": recorded, "began": "", "recorded": recorded}
        record["values"]["peak"] = {"number": 5e12, "unit": "FLOP/s", "meaning": "large products"}
    [taken] = [cell for cell in notebook["cells"] if "takeaways = {" in "".join(cell["source"])]
    taken["outputs"] = [
        {"output_type": "stream", "name": "stdout", "text": f"Wait <rarely>: {said}.\n"}
    ]
    figure = {"data": {"image/png": PNG}, "metadata": {"image/png": {"alt": "A <line>"}}}
    notebook["cells"][4]["outputs"] = [{"output_type": "display_data", **figure}]
    (folder / name).write_text(json.dumps(notebook), "utf-8")


def test_a_learners_numbers_stand_beside_those_of_others(tmp_path, capsys):
    ran(tmp_path, 10, "2026-11-22T10:10")
    assert main(["results", str(tmp_path), "--out", str(tmp_path / "mine.html")]) == 0
    assert "mine.html: 1 lesson\n" in capsys.readouterr().out
    page = (tmp_path / "mine.html").read_text("utf-8")
    assert re.search(r"<b>[^<]*</b>.*?5\.00 TFLOP/s.*?yours", page, re.S)
    assert re.search(r"<td>T4</td>\s*<td[^>]*>4\.17 TFLOP/s.*?measured by others", page, re.S)
    assert "<li>Wait &lt;rarely&gt;: 10.</li>" in page and 'alt="A &lt;line&gt;"' in page
    assert re.search(r'<td class="number">10 ?×</td>\s*<td class="number">', page)
    assert not re.search(r"""(src|href)=["']?https?:""", page)  # it opens without a network


def test_the_newest_run_of_a_lesson_counts(tmp_path):
    ran(tmp_path, 1, "2026-11-22T10:10", "z.ipynb")
    ran(tmp_path, 2, "2026-11-23T10:10")
    page, lessons = learner_page.write(COURSE, tmp_path, tmp_path / "page.html")
    assert lessons == 1 and "Wait &lt;rarely&gt;: 2." in page.read_text("utf-8")


@pytest.mark.parametrize("content", [None, "{", "untouched"])
def test_without_a_run_it_is_said_what_to_do(tmp_path, capsys, content):
    if content == "untouched":
        shutil.copy(COURSE.notebook(COURSE.lessons[0]), tmp_path)
    elif content:
        (tmp_path / "a.ipynb").write_text(content)
    assert main(["results", str(tmp_path), "--out", str(tmp_path / "mine.html")]) == 1
    assert "was run to its end. In Colab: Runtime > Run all" in capsys.readouterr().err
    assert not (tmp_path / "mine.html").exists()
    assert main(["results", str(tmp_path / "none")]) == 1


def test_everybody_can_read_it(tmp_path, browser):
    ran(tmp_path, 10, "2026-11-22T10:10")
    path, _ = learner_page.write(COURSE, tmp_path, tmp_path / "page.html")
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme)
        page.set_default_timeout(PAGE_TIMEOUT_MS)
        page.goto(path.as_uri())
        assert violations(page) == []
        page.close()
