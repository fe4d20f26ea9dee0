"""A card under the traceback: for known errors alone, and the traceback as it was, byte for byte."""

import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from colab_doctor import hook
from course.run import execute
from tests.colab_doctor import cells_that_fail

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def shown():
    done = subprocess.run(
        [sys.executable, cells_that_fail.__file__],
        capture_output=True, text=True, timeout=120, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert "SHOWN" in done.stdout, done.stderr
    return json.loads(done.stdout.rpartition("SHOWN")[2])


def _same(text):
    """Addresses of objects and names of threads differ from run to run."""
    return re.sub(r"0x[0-9a-f]+|Thread-\d+", "", text)


EXPLAINED = {
    "known": "CUDA out of memory",
    "nested": "No space left on device",
    "chained": "No space left on device",
}


@pytest.mark.parametrize("name", cells_that_fail.CELLS)
def test_the_traceback_is_as_it_was_and_a_card_comes_for_what_is_known(shown, name):
    (plain, error, before), (also, error_also, cards) = shown[name]
    assert (_same(plain), _same(error), before) == (_same(also), _same(error_also), [])
    assert len(cards) == (name in EXPLAINED) and all(EXPLAINED[name] in card for card in cards)


def test_off_in_a_word(shown):
    assert shown["unloaded"][0][2] == []


def test_what_fails_in_the_explanation_is_not_shown(monkeypatch, capsys):
    def broken(error):
        raise ValueError("a fault of ours")

    monkeypatch.setattr(hook, "explain_error", broken)
    hook._explain(type("Result", (), {"error_in_exec": RuntimeError("x")})())
    assert capsys.readouterr() == ("", "")


def test_in_a_notebook_run_headless_the_card_stands_below_the_error(tmp_path):
    path = tmp_path / "fails.ipynb"
    cells = ["%load_ext colab_doctor", "raise RuntimeError('CUDA out of memory')"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in cells])
    nbformat.write(notebook, path)
    outcome = execute.run(path, tmp_path / "out.ipynb", execute.Settings({}, {}, 60))
    kinds = [output.output_type for output in outcome.notebook.cells[-1].outputs]
    assert "error" in kinds and "display_data" in kinds
    [card] = [
        one for one in outcome.notebook.cells[-1].outputs if one.output_type == "display_data"
    ]
    assert "<b>Fix:</b>" in card.data["text/html"]
