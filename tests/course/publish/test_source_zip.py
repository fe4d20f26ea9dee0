"""The archive of the working tree, and the notebook that installs from it."""

import zipfile

import nbformat

from course.publish import source_zip


def test_it_has_what_pip_needs(course, tmp_path):
    source_zip.zip_repository(course.root, tmp_path / "main.zip")
    names = set(zipfile.ZipFile(tmp_path / "main.zip").namelist())
    assert {"course-main/pyproject.toml", "course-main/colab_helpers/runtime_images.toml"} <= names
    assert not any(".venv" in name for name in names)


def unpacked(course, folder):
    """The repository as somebody has it who downloaded a zip: no git."""
    source_zip.zip_repository(course.root, folder / "main.zip")
    zipfile.ZipFile(folder / "main.zip").extractall(folder)
    return folder / "course-main"


def test_without_git_it_is_the_same(course, tmp_path):
    root = unpacked(course, tmp_path)
    for made in (
        "build/course/x.html",
        "my-venv/pyvenv.cfg",
        "my-venv/bin/python",
        ".venv/bin/python",
        "dist/x.whl",
        "tests/__pycache__/x.pyc",
    ):
        (root / made).parent.mkdir(parents=True, exist_ok=True)
        (root / made).touch()
    by_git = {file.relative_to(course.root) for file in source_zip.files(course.root)}
    assert {file.relative_to(root) for file in source_zip.files(root)} == by_git


def test_a_checkout_of_somebody_else_is_walked_too(course, tmp_path, monkeypatch):
    """git refuses to answer there: "dubious ownership"."""
    root = unpacked(course, tmp_path)
    refuses = tmp_path / "bin" / "git"
    refuses.parent.mkdir()
    refuses.write_text("#!/bin/sh\necho 'fatal: detected dubious ownership' >&2; exit 128\n")
    refuses.chmod(0o755)
    monkeypatch.setenv("PATH", f"{refuses.parent}:/usr/bin:/bin")
    assert (root / "pyproject.toml") in source_zip.files(root)


def test_the_notebook_installs_from_it(course, tmp_path):
    path = tmp_path / "built" / "one.ipynb"
    source_zip.write_notebook(course, course.lessons[0], "file:///here.zip", path)
    text = nbformat.read(path, 4).cells[1].source
    assert text.count("file:///here.zip") == 1 and course.repository.archive not in text
