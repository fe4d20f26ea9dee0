"""The replica of Colab: what it installs, which Python it takes, and how it judges a run."""

import json
import subprocess
import sys

import nbformat
import pytest
from packaging.requirements import Requirement

from colab_helpers import colab_images
from course.__main__ import main
from course.config import CourseError
from course.run import execute, replica

IMAGES = colab_images.images()
#: What lessons import and a runtime does not bring; they do without.
NOT_THERE = {"cpu": {"nvidia-ml-py"}, "gpu": set(), "tpu": {"nvidia-ml-py", "tensorflow"}}
each_image = pytest.mark.parametrize("image", IMAGES.values(), ids=IMAGES)


def test_the_present_image_and_two_past_ones_are_known():
    assert list(IMAGES) == ["latest", "2026.07", "2026.04"]
    assert all(image.source and image.seen for image in IMAGES.values())
    assert set(IMAGES["latest"].runtimes) == {"cpu", "gpu", "tpu"}


@each_image
def test_everything_a_lesson_imports_is_installed_in_colabs_version(image, project):
    wanted = replica.requirements(image)
    assert f"ipython=={image.kernel['ipython']}" in wanted
    assert image.kernel["ipython"] == "7.34.0" and image.kernel["ipykernel"] == "6.17.1"
    names = {line.split("==")[0] for line in wanted}
    assert {"torch", "tensorflow", "keras", "jax", "numpy", "matplotlib", "scikit-learn"} <= names
    assert not any("+" in line for line in wanted)  # PyPI has no +cpu
    imported = {Requirement(line).name for line in project["optional-dependencies"]["lessons"]}
    imported -= {"tensorflow-cpu"}  # TensorFlow by another name
    for runtime, versions in image.runtimes.items():
        assert imported - set(versions) == NOT_THERE[runtime]


def test_another_python_is_refused_in_words(tmp_path):
    image = next(i for i in IMAGES.values() if not sys.version.startswith(i.python[:4]))
    with pytest.raises(CourseError, match="REPLICA_PYTHON=/path/to/python"):
        replica.create(image, tmp_path / "venv", sys.executable)
    with pytest.raises(CourseError, match="nothing that runs"):
        replica.create(image, tmp_path / "venv", "python3.99")
    assert not (tmp_path / "venv").exists()


def test_an_unknown_image_says_which_there_are(capsys):
    assert main(["replica", "--image", "2019.01"]) == 1
    assert "2026.07" in capsys.readouterr().err


@pytest.fixture(scope="module")
def small_twin(tmp_path_factory):
    """An environment with this one's packages visible, as a replica: made in a second."""
    folder = tmp_path_factory.mktemp("replica") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    libraries = next((folder / "lib").glob("python*/site-packages"))
    ours = next(path for path in sys.path if path.endswith("site-packages"))
    # Not as a .pth file's import line: editable installs of ours must stay out.
    (libraries / "ours.pth").write_text(f"{ours}\n")
    made = replica.Replica(IMAGES["latest"], folder, lacks="it is not needed here")
    replica._write_kernel(made)
    return made


@pytest.mark.slow
def test_the_kernel_is_colabs_where_its_class_is_there(small_twin):
    spec = small_twin.folder / "share/jupyter/kernels/colab-replica/kernel.json"
    assert "kernel_class" not in spec.read_text()
    colab = replica.Replica(small_twin.image, small_twin.folder)
    replica._write_kernel(colab)
    argv = json.loads(spec.read_text())["argv"]
    assert argv[0] == str(small_twin.python) and argv[-1].endswith(replica.KERNEL_CLASS)
    replica._write_kernel(small_twin)


def test_a_kernel_in_it_sees_colabs_variables_and_not_this_checkout(small_twin, tmp_path):
    code = "import os, sys\nprint(os.environ['COLAB_RELEASE_TAG'], sys.prefix, sys.path[0] or '.')"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbformat.write(notebook, tmp_path / "one.ipynb")
    settings = execute.Settings(environment=small_twin.environment, kernel="colab-replica")
    outcome = execute.run(tmp_path / "one.ipynb", tmp_path / "out" / "one.ipynb", settings)
    assert outcome.ok, outcome.problem
    assert f"{small_twin.folder}" in outcome.notebook.cells[0].outputs[0].text
    assert "release-colab" in outcome.notebook.cells[0].outputs[0].text
