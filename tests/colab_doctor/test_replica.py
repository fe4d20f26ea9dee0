"""The replica of Colab: what it installs, which Python it takes, and what it says of a notebook."""

import json
import subprocess
import sys

import nbformat
import pytest
from packaging.requirements import Requirement

from colab_doctor.replica import __main__ as command
from colab_doctor.replica import environment, notebook_run
from colab_helpers import runtime_images
from course.__main__ import main
from course.run import replica_lessons

IMAGES = runtime_images.images()
#: What lessons import and a runtime does not bring; they do without.
NOT_THERE = {"cpu": {"nvidia-ml-py"}, "gpu": set(), "tpu": {"nvidia-ml-py", "tensorflow"}}
each_image = pytest.mark.parametrize("image", IMAGES.values(), ids=IMAGES)


def test_the_present_image_and_two_past_ones_are_known():
    assert list(IMAGES) == ["latest", "2026.07", "2026.04"]
    assert all(image.source and image.seen for image in IMAGES.values())
    assert set(IMAGES["latest"].runtimes) == {"cpu", "gpu", "tpu"}


@each_image
def test_everything_a_lesson_imports_is_installed_in_colabs_version(image, project):
    wanted = replica_lessons.requirements(image)
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
    with pytest.raises(environment.ReplicaError, match="--python /path/to/python3"):
        environment.create(image, tmp_path / "venv", sys.executable, [])
    both = r"(?s)nothing that runs.*REPLICA_PYTHON=/path/to/python"
    with pytest.raises(replica_lessons.CourseError, match=both):
        replica_lessons.create(image, tmp_path / "venv", "python3.99")
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
    made = environment.Replica(IMAGES["latest"], folder, kernel_problem="it is not needed here")
    environment.write_kernel(made)
    return made


@pytest.mark.slow
def test_the_kernel_is_colabs_where_its_class_is_there(small_twin):
    spec = small_twin.folder / "share/jupyter/kernels/colab-replica/kernel.json"
    assert "kernel_class" not in spec.read_text()
    environment.write_kernel(environment.Replica(small_twin.image, small_twin.folder))
    argv = json.loads(spec.read_text())["argv"]
    assert argv[0] == str(small_twin.python) and argv[-1].endswith(environment.KERNEL_CLASS)
    environment.write_kernel(small_twin)


def written(path, *codes):
    cells = [nbformat.v4.new_code_cell(code, execution_count=7) for code in codes]  # run before
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def test_a_kernel_in_it_sees_colabs_variables_and_nothing_of_this_machine(small_twin, tmp_path):
    code = "import os, sys\nprint(os.environ['COLAB_RELEASE_TAG'], sys.prefix, os.listdir())"
    source = written(tmp_path / "one.ipynb", code)
    found = notebook_run.run(small_twin, source, tmp_path / "out" / "one.ipynb", 60)
    assert found.ok and str(found).startswith("runs: 1 cells")
    printed = nbformat.read(tmp_path / "out" / "one.ipynb", 4).cells[0].outputs[0].text
    assert printed.startswith("release-colab") and f"{small_twin.folder} []" in printed


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        (("x = 1", "import kwave_that_is_nowhere"), ["cell 2 of 2", "%pip install"]),
        (("open('data.csv')",), ["cell 1 of 1", "without the files beside it"]),
        (("raise RuntimeError('CUDA error: no device')",), ["This is Colab's CPU runtime"]),
        (("x = 1", "while True: pass"), ["cell 2 of 2", "didn't end within 2 s"]),
        (("import os; os._exit(9)",), ["cell 1 of 1", "The kernel died"]),
    ],
    ids=["package", "file", "gpu", "endless", "dead"],
)
def test_it_says_in_which_cell_a_notebook_stops_and_why(small_twin, tmp_path, codes, words):
    source = written(tmp_path / "one.ipynb", *codes)
    found = notebook_run.run(small_twin, source, tmp_path / "out.ipynb", 2)
    assert not found.ok and all(word in str(found) for word in words), str(found)


def test_the_command_installs_what_is_imported_at_colabs_versions(
    small_twin, tmp_path, monkeypatch, capsys
):
    """pip is a stand-in here: `broken` can't be had, and nothing needs anything else."""
    asked = []

    def install(folder, wanted, *options):
        asked.append((*wanted, *options))
        if "broken==1.0" in wanted:
            raise environment.ReplicaError("no")

    monkeypatch.setattr(environment, "install", install)
    monkeypatch.setattr(environment, "create", lambda *_: small_twin)
    monkeypatch.setattr(environment.Replica, "output_of", lambda *_: "unlisted")
    (tmp_path / "list.txt").write_text("torch==2.11.0+cpu\nnumpy==2.1.0\nbroken==1.0\nother==3\n")
    code = "import numpy as np, json\ntry:\n    import torch, broken, unlisted\nexcept ImportError:\n    pass"
    good = written(tmp_path / "good.ipynb", code)
    rest = ["--list", str(tmp_path / "list.txt"), "--folder", str(tmp_path / "replica")]
    assert command.main(["run", str(good), *rest]) == 0
    assert asked == [
        ("broken==1.0", "--no-deps"),
        ("numpy==2.1.0", "--no-deps"),
        ("torch==2.11.0",),
    ]
    said = capsys.readouterr().out
    assert "pip can't install broken==1.0 here" in said and "good.ipynb: runs: 1 cells" in said
    assert (tmp_path / "replica" / "latest" / "out" / "good.ipynb").exists()


def test_the_command_refuses_in_words_what_it_cant_use(tmp_path, capsys, monkeypatch):
    (tmp_path / "no.ipynb").write_text("hello")
    assert command.main(["run", str(tmp_path / "no.ipynb")]) == 2
    assert "is not a notebook" in capsys.readouterr().err
    good = written(tmp_path / "good.ipynb", "1")
    assert command.main(["run", str(good), "--image", "2026.04"]) == 2
    assert "give one with --list" in capsys.readouterr().err
    monkeypatch.setattr(runtime_images, "list_address", lambda _: "http://127.0.0.1:9/list.txt")
    assert command.main(["run", str(good)]) == 2
    assert "can't be fetched" in capsys.readouterr().err
