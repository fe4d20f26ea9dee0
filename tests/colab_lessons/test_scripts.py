"""The script to keep of lesson 14, as it stands there: a job that is killed, and one that hangs."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

LESSON = Path(__file__).parents[2] / "lessons" / "14_beyond_colab.py"
ONCE_KILLED = """
import json, os, signal
if not os.path.exists("seen"):
    open("seen", "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
json.dump(20, open("last.json", "w"))
"""
HANGS = """
import json, time
json.dump(5, open("last.json", "w"))
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("cell", "limit", "saved", "status"), [(ONCE_KILLED, 60, "20", "0"), (HANGS, 6, "5", "124")]
)
def test_the_script_to_keep_ends_and_brings_home_what_there_is(
    tmp_path, cell, limit, saved, status
):
    card = LESSON.read_text("utf-8").rpartition("# ```bash\n")[2].partition("# ```\n")[0]
    script = "".join(f"{line[2:]}\n" for line in card.splitlines()).replace("sleep 5", "sleep 1")
    (tmp_path / "run.sh").write_text(script)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    nbformat.write(notebook, tmp_path / "mine.ipynb")
    python = Path(sys.executable).parent
    environment = {"PATH": f"{python}:/usr/bin:/bin", "LIMIT": f"{limit}s", "HOME": str(tmp_path)}
    done = subprocess.run(
        ["bash", "run.sh"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    subprocess.run(["sha256sum", "-c", "results.sha256"], cwd=tmp_path, check=True)
    subprocess.run(["tar", "xf", "results.tar", "-C", "."], cwd=tmp_path, check=True)
    assert (tmp_path / "last.json").read_text() == saved
    assert (tmp_path / "status").read_text().strip() == status
