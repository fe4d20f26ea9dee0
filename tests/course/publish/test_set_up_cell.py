"""The setup cell as a learner meets it: a machine without the helper, and the repository's archive."""

import subprocess
import sys

import pytest

from course.config import load
from course.publish import source_zip
from course.write import assemble

IPYTHON = "ipython==9.18.1"  # any; it stands for the notebook front end


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The interpreter of a fresh environment that has IPython and nothing of ours."""
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", IPYTHON]
    subprocess.run(install, check=True)
    return python


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The repository as GitHub zips it."""
    path = tmp_path_factory.mktemp("archive") / "main.zip"
    source_zip.zip_repository(load().root, path)
    return path.as_uri()


def run_set_up_cell(python, address, folder):
    """Execute the cell of lesson 01 with another address; return what IPython printed."""
    course = load()
    source = assemble.build(course, course.lessons[0]).cells[1].source
    assert course.repository.helper in source
    cell = folder / "cell.ipy"
    cell.write_text(source.replace(course.repository.helper, address))
    return subprocess.run(
        [python, "-m", "IPython", "--colors=NoColor", "--no-banner", "-c",
         f"get_ipython().run_cell(open({str(cell)!r}).read()); print('went on')"],
        capture_output=True, text=True, cwd=folder, timeout=240,
    )  # fmt: skip


def freeze(python):
    command = [python, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.timeout(300)
def test_an_install_that_fails_says_what_it_needs_and_changes_nothing(python, tmp_path):
    before = freeze(python)
    done = run_set_up_cell(python, (tmp_path / "gone.zip").as_uri(), tmp_path)
    assert "this needs the Internet (on Kaggle: Settings > Internet > On)" in done.stdout
    assert "ModuleNotFoundError: No module named 'colab_helpers'" in done.stdout
    assert freeze(python) == before


@pytest.mark.timeout(300)
def test_set_up_cell_installs_the_helper_and_changes_nothing_else(python, address, tmp_path):
    before = freeze(python)
    done = run_set_up_cell(python, address, tmp_path)
    assert "You are on" in done.stdout, done.stdout + done.stderr
    assert "fix first" in done.stdout and "torch" in done.stdout  # this machine has no PyTorch
    after = freeze(python)
    assert before <= after
    assert [
        line.split()[0].split("@")[0].split("==")[0] for line in after - before if "colab" in line
    ]
    new = {line for line in after - before if not line.startswith(("colab-helpers", "@", "file:"))}
    assert new == set()
