"""Commands that are killed at a random moment: the next run repairs, and the tree is the undisturbed one.

`make test-slow` does it once for the two that change most, `make test-interruptions` fifty times
for each.
"""

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

import nbformat
import pytest

from course.publish import archive
from course.table import load
from course.write import pages
from tests.toy import make_toy_course, publish_toy, run_command

TIMES = int(os.environ.get("INTERRUPTIONS", "0"))
COMMANDS = {
    "build": ["build"],
    "retarget": ["retarget", "ada/gpu-course", "--branch", "v2"],
    "release": ["release", "9.9.9"],
    "notebooks": ["notebooks"],
}
CHOSEN = [*COMMANDS] if TIMES else ["retarget", "notebooks"]
moments = pytest.mark.parametrize("number", range(TIMES or 1))


def copy_of_this_repository(root):
    here = load().root
    for file in archive.files(here):
        target = root / file.relative_to(here)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    for lesson in load(root).lessons[::2]:  # so that `build` has something to do
        path = load(root).notebook(lesson)
        path.write_text(
            path.read_text("utf-8").replace('"cellView": "form"', '"cellView": "x"'), "utf-8"
        )
    page = root / "README.md"
    page.write_text(page.read_text("utf-8").replace("minutes |", "hours |"), "utf-8")
    return root


def toy(root):
    course = make_toy_course(root)
    publish_toy(course)
    pages.write(course)
    shutil.rmtree(root / "out", ignore_errors=True)  # another test may have run the same toy
    (root / "toy.ipynb").unlink(missing_ok=True)
    path = course.notebook(course.lessons[0])
    path.write_text("<<<<<<< HEAD", "utf-8")  # what a merge may leave; a run makes it anew
    return root


def tree(root):
    """Every file below a folder, and what is in it; of what was measured, only that it is there."""
    found = {}
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if (
            path.is_file()
            and inside.parts[0] not in ("build", ".mypy_cache")
            and "__pycache__" not in inside.parts
        ):
            found[str(inside)] = path.read_bytes()
    return found


def without_measurements(root):
    found = tree(root)
    for name in found:
        if name in ("docs/timings.json", "notebooks/outputs.json"):
            found[name] = sorted(json.loads(found[name]))
        elif name.endswith(".ipynb"):
            notebook = nbformat.reads(found[name].decode(), 4)
            found[name] = [
                (c.id, c.get("execution_count"), len(c.get("outputs", []))) for c in notebook.cells
            ]
        elif name.startswith("docs/teaching"):
            found[name] = b""  # has the seconds
    return found


@pytest.fixture(scope="module", params=CHOSEN)
def undisturbed(request, tmp_path_factory):
    """The command, a tree before it, the tree after it has run undisturbed, and its seconds."""
    folder = tmp_path_factory.mktemp(request.param)
    make, look = (
        (toy, without_measurements)
        if request.param == "notebooks"
        else (copy_of_this_repository, tree)
    )
    before = make(folder / "before")
    after = shutil.copytree(before, folder / "after")
    start = time.perf_counter()
    assert finish(run_command(after, COMMANDS[request.param])) == 0
    return COMMANDS[request.param], before, look, look(after), time.perf_counter() - start


def finish(process):
    return process.wait(timeout=120)


@pytest.mark.slow
@pytest.mark.timeout(300)
@moments
def test_the_next_run_repairs(undisturbed, number, tmp_path):
    command, before, look, expected, seconds = undisturbed
    root = shutil.copytree(before, tmp_path / "tree")
    delay = random.Random(f"{command}{number}").uniform(0, seconds)
    with (tmp_path / "said").open("w") as said:
        process = run_command(root, command, stdout=said, stderr=said, start_new_session=True)
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for path in root.rglob("*.ipynb"):
        if "build" not in path.parts and path.read_text("utf-8") != "<<<<<<< HEAD":
            nbformat.validate(nbformat.reads(path.read_text("utf-8"), 4))  # whole, old or new
    assert finish(run_command(root, command)) == 0
    assert look(root) == expected, f"killed after {delay:.2f} s of {seconds:.2f}"
    assert not [path for path in Path(root).rglob(".*.part") if "build" not in path.parts]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_an_environment_that_is_half_made_is_made_anew(tmp_path, root):
    """As Ctrl-C leaves it: an interpreter, and no pip."""
    import subprocess
    import sys

    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(root / name, tmp_path)
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "x"\nbackend-path = ["."]\n'
    )
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / ".venv"], check=True)
    (tmp_path / ".venv" / ".ready").touch()
    make = ["make", "setup", f"PYTHON={sys.executable}", "UV=", "EXTRAS="]
    said = subprocess.run(make, cwd=tmp_path, capture_output=True, text=True).stdout
    assert "Making .venv" in said and "Installing the versions" in said
    pip = subprocess.run(
        [tmp_path / ".venv/bin/python", "-m", "pip", "--version"], capture_output=True
    )
    assert pip.returncode == 0


def test_a_folder_that_is_no_environment_is_left_alone(tmp_path, root):
    import subprocess

    shutil.copy(root / "Makefile", tmp_path)
    for name in ("pyproject.toml", "constraints.txt", "mine/thesis.tex"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    done = subprocess.run(
        ["make", "setup", "VENV=mine"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode and "mine is a folder, and no environment" in done.stdout
    assert (tmp_path / "mine" / "thesis.tex").exists()
