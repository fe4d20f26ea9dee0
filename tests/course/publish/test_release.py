"""A release: the same bytes from the same tree, and nothing that disagrees."""

import hashlib
import io
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

from colab_helpers import _atomic_files
from course.config import CourseError, load
from course.publish import release
from course.write import generated_sections
from tests.course.publish.test_source_zip import unpacked


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """This repository, in a folder of its own and without git."""
    root = unpacked(load(), tmp_path_factory.mktemp("copy"))
    project = root / "pyproject.toml"  # as before any release
    lines = project.read_text().splitlines(keepends=True)
    project.write_text("".join(line for line in lines if not line.startswith("release = ")))
    return root


@pytest.fixture
def fresh(copy, tmp_path):
    shutil.copytree(copy, tmp_path / "course")
    return load(tmp_path / "course")


def test_the_same_tree_gives_the_same_bytes(fresh):
    first = release.build_wheel(fresh.root)
    for path in fresh.root.rglob("*.py"):
        os.utime(path, (1e9, 1e9))
        path.chmod(0o755)
    (fresh.root / "colab_helpers" / "__pycache__").mkdir(exist_ok=True)
    (fresh.root / "colab_helpers" / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert release.build_wheel(fresh.root).content == first.content
    assert first.name == f"colab_helpers-{fresh.repository.version}-py3-none-any.whl"


def test_the_wheel_has_the_helper_and_its_facts_and_nothing_else(fresh, tmp_path):
    wheel = release.build_wheel(fresh.root, "9.9.9")
    path = _atomic_files.write(tmp_path / wheel.name, wheel.content)
    names = set(zipfile.ZipFile(path).namelist())
    for name in (
        "colab_helpers/__init__.py",
        "colab_helpers/py.typed",
        "colab_helpers/hardware/accelerators.toml",
        "colab_doctor/problems/tpu.toml",
        "colab_lessons/exercises/lesson_01.py",
    ):
        assert name in names
    assert {name.split("/")[0] for name in names} == {
        "colab_helpers",
        "colab_doctor",
        "colab_lessons",
        "colab_helpers-9.9.9.dist-info",
    }
    assert fresh.repository.version != "9.9.9"  # the tree is as it was


def test_a_release_puts_version_address_and_hash_everywhere(fresh):
    changed = release.prepare(fresh, "9.9.9")
    there = load(fresh.root)
    wheel = fresh.root / "dist" / there.repository.release.wheel
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() == there.repository.release.sha256
    address = f"{there.repository.url}/releases/download/v9.9.9/{wheel.name}#sha256="
    for lesson in there.lessons:
        text = there.notebook(lesson).read_text("utf-8")
        assert address + there.repository.release.sha256 in text
        assert f"helper='9.9.9 of {there.repository.slug}'" in text
        assert (
            f"/blob/v9.9.9/notebooks/{lesson.slug}.ipynb" in (fresh.root / "README.md").read_text()
        )
    assert changed[-1].name == "pyproject.toml"
    assert release.problems(there, "v9.9.9") == []
    assert release.prepare(there, "9.9.9") == []


def test_what_disagrees_is_named(fresh):
    assert "Nothing is released" in release.problems(fresh)[0]
    release.prepare(fresh, "9.9.9")
    assert "The tag is v1.0.0" in release.problems(load(fresh.root), "v1.0.0")[0]
    lesson = fresh.notebook(fresh.lessons[0])
    good = lesson.read_text()
    lesson.write_text(good.replace("#sha256=", "#sha256=0"))
    assert "installs something else" in release.problems(load(fresh.root))[0]
    lesson.write_text(good)
    own = fresh.root / "colab_helpers" / "_units.py"
    own.write_text(own.read_text() + "# changed\n")
    assert "the helper changed" in " ".join(release.problems(load(fresh.root)))
    version = fresh.root / "colab_helpers" / "__init__.py"
    version.write_text(version.read_text().replace("9.9.9", "9.9.10"))
    there = load(fresh.root)
    assert "The helper is 9.9.10, and the release 9.9.9" in release.problems(there)[0]
    assert there.repository.helper == there.repository.archive  # work goes on, on the branch
    assert there.repository.ref == "main"
    assert there.published.repository.ref == "v9.9.9"  # README and pages stay with the release
    assert set(generated_sections.render(there).values()) == set(
        generated_sections.render(there.published).values()
    )


def test_a_tag_that_is_there_is_not_released_again(fresh):
    for command in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
        ["tag", "v9.9.9"],
    ):
        subprocess.run(["git", "-C", fresh.root, *command], check=True)
    (fresh.root / "colab_helpers" / "scratch.py").write_text("# lies about")
    assert "scratch" not in str(
        zipfile.ZipFile(io.BytesIO(release.build_wheel(fresh.root).content)).namelist()
    )
    with pytest.raises(CourseError, match=r"a tag v9\.9\.9 already"):
        release.prepare(fresh, "9.9.9")


def test_pip_refuses_a_wheel_with_another_hash(fresh, tmp_path):
    wheel = release.build_wheel(fresh.root)
    path = _atomic_files.write(tmp_path / wheel.name, wheel.content)
    for digest, code in ((wheel.sha256, 0), ("0" * 64, 1)):
        wanted = f"colab-helpers @ {path.as_uri()}#sha256={digest}"
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
             "--target", str(tmp_path / digest[:4]), wanted],
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
    assert "DO NOT MATCH THE HASHES" in done.stderr
