"""Which lines ran: what is counted, what is left out, and that a line that did not run is named."""

import json
import os
import subprocess
import sys

import pytest

from course.prove import lines
from course.run import matrix

CELL = '''
"""A docstring."""
def choose(device):
    """Another."""
    if device == "cuda":
        return 1
    return 2 if device == "cpu" else 3
try:
    answer = choose("cpu")
except ValueError:
    answer = None
stub = ...
'''


def texts(found):
    return sorted(line.text.split("   in: ")[0] for line in found)


def ran(cells, folder):
    """Run cells in a watched IPython of its own."""
    program = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        f"results = [shell.run_cell(cell) for cell in {cells!r}]\n"
        "print([result.result for result in results])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": matrix.DENIED, "WATCH_LINES": str(folder)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip().splitlines()[-1]


def test_statements_and_ends_that_ask_for_a_device_are_counted():
    counted = [text.split("   in: ")[0] for text in lines.places(CELL).values()]
    assert sorted(counted) == sorted([
        "def choose(device):", 'if device == "cuda":', "return 1", 'return 2 if device == "cpu" else 3',
        "2", "3", "try:", 'answer = choose("cpu")',
    ])  # fmt: skip


def test_what_waits_for_full_size_is_left_out():
    source = 'n = 1 if FAST else 2 if device == "cpu" else 3\nm = 4 if x else 5'
    assert list(lines.places(source).values()) == source.splitlines()


def test_what_did_not_run_is_named(tmp_path):
    ran([CELL], tmp_path / "cpu")
    ran([CELL.replace('choose("cpu")', 'choose("cpu")')], tmp_path / "gpu")
    needed, missed = lines.judge("01_a", [CELL], tmp_path / "cpu", tmp_path / "gpu")
    assert texts(needed) == texts(missed) == ["3", "return 1"]
    assert str(min(missed)).startswith("01_a: ")
    needed, missed = lines.judge("01_a", [CELL], tmp_path / "cpu", tmp_path / "gpu", ["return 1"])
    assert texts(missed) == ["3"]


def test_a_run_with_a_gpu_closes_the_gap(tmp_path):
    cell = 'import os\ndevice = os.environ["PLAYED"]\nwhere = 1 if device == "cuda" else 2\nwhere'
    for name, device in (("cpu", "cpu"), ("gpu", "cuda")):
        os.environ["PLAYED"] = device
        assert ran([cell], tmp_path / name) == ("[1]" if device == "cuda" else "[2]")
    needed, missed = lines.judge("01_a", [cell], tmp_path / "cpu", tmp_path / "gpu")
    assert (texts(needed), missed) == (["1"], set())


def test_functions_that_autograph_rewrites_count_where_they_are_defined(tmp_path):
    cell = "# needs: tensorflow\ndef f(x):\n    return x\n1"
    ran([cell], tmp_path)
    whole, done = lines.ran(tmp_path, "04_a", [cell, "%pip install x"])
    assert whole == done and "return x" in texts(whole)


def test_a_cell_whose_package_is_not_installed_waits_for_no_accelerator(tmp_path):
    cells = [CELL, f"# needs: no_such_package\n{CELL}"]
    ran([CELL], tmp_path / "cpu")
    needed, _ = lines.judge("05_a", cells, tmp_path / "cpu", tmp_path / "cpu")
    assert texts(needed) == ["3", "return 1"]


@pytest.mark.parametrize(
    "cell", ["def f():\n    'doc'\n    return f.__doc__\nf()", "[1 if True else 2][0]"]
)
def test_marks_change_no_result(cell, tmp_path):
    shell = (
        "from IPython.core.interactiveshell import InteractiveShell as S\nshell = S.instance()\n"
    )
    plain = subprocess.run(
        [sys.executable, "-c", f"{shell}print([shell.run_cell({cell!r}).result])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran([cell], tmp_path) == plain.stdout.strip().splitlines()[-1]
    assert json.loads(next(tmp_path.glob("*.json")).read_text())


def test_functions_that_run_in_a_process_of_their_own_count_where_they_are_defined(tmp_path):
    (tmp_path / "cpu").mkdir()
    apart = "# runs in a process of its own\ndef main(path):\n    print(path)\n    return 3"
    entry = [{"source": source, "places": [(source.count("def", 0, 40) and source.count("#") + 1, 0)]}
             for source in (apart, apart.partition("\n")[2])]  # fmt: skip
    (tmp_path / "cpu" / "1.json").write_text(json.dumps(entry))
    for source, left in zip((apart, apart.partition("\n")[2]), (0, 2), strict=True):
        needed, _ = lines.judge("09_a", [source], tmp_path / "cpu", tmp_path / "cpu")
        assert len(needed) == left
