"""The set-up cell as a learner meets it: a machine without the helper, and the repository's archive."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from course.publish import archive
from course.table import load
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
    archive.zip_repository(load().root, path)
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
def test_impossible_install_says_what_to_do_in_two_lines(python, tmp_path):
    before = freeze(python)
    done = run_set_up_cell(python, (tmp_path / "gone.zip").as_uri(), tmp_path)
    lines = [line for line in done.stdout.splitlines() if line.strip() and line != "went on"]
    assert lines == [
        "The course's helper cannot be used (ModuleNotFoundError: No module named "
        f"'colab_helpers'); this lesson's own is {(tmp_path / 'gone.zip').as_uri()}",
        "Check your connection (on Kaggle: Settings > Internet), then run this cell again.",
    ]
    assert "Traceback" not in done.stdout + done.stderr
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


def package(folder, text):
    (folder / "colab_helpers").mkdir(parents=True)
    if text is not None:
        (folder / "colab_helpers" / "__init__.py").write_text(text)


OLD = """
__version__ = "0.0.1"
class preflight:
    @staticmethod
    def status_card(lesson="", accelerator="", chip="", packages="", optional=""):
        return "an old card"
"""
HELPERS = {
    "foreign": "__version__ = '7.0'\ndef preflight(): pass\n",
    "broken": "1 / 0\n",
    "a folder": None,
}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", HELPERS)
def test_another_helper_in_the_session_is_replaced_by_the_lessons_own(
    python, address, tmp_path, kind
):
    """It lies where packages are installed, as one of an earlier lesson or image would."""
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    said = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    site = Path(said.stdout.strip())
    subprocess.run([python, "-m", "pip", "uninstall", "-qy", "colab-helpers"], check=True)
    package(site, HELPERS[kind])
    try:
        done = run_set_up_cell(python, address, tmp_path)
        assert "You are on" in done.stdout, done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr and "old card" not in done.stdout
    finally:
        subprocess.run([python, "-m", "pip", "uninstall", "-qy", "colab-helpers"], check=True)
        shutil.rmtree(site / "colab_helpers", ignore_errors=True)


@pytest.mark.timeout(300)
def test_a_helper_in_a_folder_of_ones_own_is_not_replaced_and_told_in_two_lines(python, tmp_path):
    package(tmp_path, OLD)
    done = run_set_up_cell(python, (tmp_path / "gone.zip").as_uri(), tmp_path)
    lines = [line for line in done.stdout.splitlines() if line.strip() and line != "went on"]
    assert len(lines) == 2 and "unexpected keyword argument 'helper'" in lines[0]
    assert lines[1].endswith("mend it there, or move it away.") and str(tmp_path) in lines[1]
