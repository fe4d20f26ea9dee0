"""A fork points everything at itself, in one step that can be taken again."""

import json
import re
import subprocess

import nbformat
import pytest

from course.check import notebook_lint
from course.config import CourseError, load
from course.publish import retarget
from course.write import assemble, generated_sections, output_digests
from tests import slow
from tests.toy import publish_toy, stopped_after


def with_recorded_outputs(course):
    """A published course whose set-up card and recorded outputs link to its page on problems."""
    path = publish_toy(course)
    link = f"{course.repository.site}problems/memory.html#little-ram"
    shown = nbformat.read(path, 4)
    shown.cells[1].outputs = [nbformat.v4.new_output("stream", text=link)]
    path.write_text(assemble.dumps(shown), "utf-8")
    recorded = course.root / "colab_lessons" / "measurements" / "outputs" / "01_toy.json"
    recorded.parent.mkdir(parents=True)
    recorded.write_text(json.dumps({"text": link}), "utf-8")
    (course.root / "CITATION.cff").write_text(
        f"repository-code: {course.repository.url}\n", "utf-8"
    )
    generated_sections.write(course)
    return path


def tree(course):
    """Every file of the course and what is in it."""
    return {
        str(path.relative_to(course.root)): path.read_text("utf-8")
        for path in sorted(course.root.rglob("*"))
        if path.is_file() and "out" not in path.parts[-2] and path.name != "toy.ipynb"
    }


def test_every_address_moves_and_outputs_stay(toy_course):
    path = with_recorded_outputs(toy_course)
    digest = output_digests.digest(nbformat.read(path, 4).cells[1], toy_course.repository)
    changed = retarget.retarget(toy_course, "ada/gpu-course", "v2")
    assert sorted(p.name for p in changed) == [
        "01_toy.ipynb", "01_toy.json", "01_toy.md", "CITATION.cff", "README.md", "doctor.md",
        "pyproject.toml",
    ]  # fmt: skip
    for page in changed:
        text = page.read_text("utf-8")
        assert re.search("ada(/|.github.io/)gpu-course", text)
        assert not re.search("somebody(/|.github.io/)toy", text)
    moved = load(toy_course.root)
    assert moved.repository.archive == "https://github.com/ada/gpu-course/archive/v2.zip"
    assert notebook_lint.stale_problems(moved, moved.lessons[0]) == []
    assert '"execution_count": 1' in path.read_text("utf-8")
    assert output_digests.digest(nbformat.read(path, 4).cells[1], moved.repository) == digest
    assert retarget.retarget(moved, "ada/gpu-course") == []


@pytest.mark.parametrize("writes", slow.after(2, [1, 4, 0, 2, 3, 5]))
def test_stopped_after_any_write_the_same_command_ends_the_work(toy_course, monkeypatch, writes):
    with_recorded_outputs(toy_course)
    before = load(toy_course.root).repository
    with stopped_after(writes, assemble):
        retarget.retarget(toy_course, "ada/gpu-course")
    assert load(toy_course.root).repository == before  # it says itself that it is not done
    retarget.retarget(load(toy_course.root), "ada/gpu-course")
    everything = "".join(tree(toy_course).values())
    assert not re.search("somebody(/|.github.io/)toy", everything)


def test_a_release_is_of_one_repository(toy_course):
    project = toy_course.root / "pyproject.toml"
    line = 'release = { version = "1.0.0", sha256 = "0" }\n'
    project.write_text(project.read_text().replace('branch = "main"\n', f'branch = "main"\n{line}'))
    publish_toy(load(toy_course.root))
    generated_sections.write(load(toy_course.root))
    retarget.retarget(load(toy_course.root), "somebody/toy")
    assert line in project.read_text()
    retarget.retarget(load(toy_course.root), "ada/gpu-course")
    assert line not in project.read_text() and load(toy_course.root).repository.release is None


def test_links_to_another_fork_are_found(toy_course, monkeypatch):
    path = with_recorded_outputs(toy_course)
    text = path.read_text().replace("somebody.github.io/toy/", "ada.github.io/other/")
    path.write_text(text)
    [problem] = notebook_lint.stale_problems(toy_course, toy_course.lessons[0])
    assert "links to another fork" in problem
    assemble.write(toy_course, toy_course.lessons[0])
    assert notebook_lint.stale_problems(toy_course, toy_course.lessons[0]) == []


@pytest.mark.parametrize(
    "name",
    ["ada", "https://github.com/ada/x", "a b/c", "/x", "ada/x/y", "ada/.", "ada/..", "ada/x.git",
     "-ada/x", "ada-/x", "ada/", 'ada/x"y', "ada/x{1+1}", "ada/$(id)", "ada/x\ny"],
)  # fmt: skip
def test_what_is_no_repository_is_refused(toy_course, name):
    with pytest.raises(CourseError, match="write owner/name"):
        retarget.retarget(toy_course, name)


@pytest.mark.parametrize(
    ("remote", "expected"),
    [
        ("https://github.com/ada/gpu-course.git", "ada/gpu-course"),
        ("https://github.com/ada/gpu-course", "ada/gpu-course"),
        ("https://token@github.com/ada/gpu-course.git", "ada/gpu-course"),
        ("git@github.com:ada/gpu-course.git", "ada/gpu-course"),
        ("ssh://git@github.com/ada/gpu-course", "ada/gpu-course"),
        ("https://gitlab.com/ada/gpu-course.git", None),
        (None, None),
    ],
)
def test_without_a_name_gits_origin_is_taken(tmp_path, remote, expected):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    if remote:
        subprocess.run(["git", "-C", tmp_path, "remote", "add", "origin", remote], check=True)
    if expected:
        assert retarget.origin(tmp_path) == expected
    else:
        with pytest.raises(CourseError, match="say REPO=owner/name"):
            retarget.origin(tmp_path)
