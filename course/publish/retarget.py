"""Pointing every badge and setup cell at a fork."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path

from course.config import Course, CourseError
from course.write import assemble, generated_sections

_OWNER, _NAME = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?", r"[A-Za-z0-9._-]+"
#: What git takes as the name of a branch, less what a shell or a quoted text could misread.
_BRANCH = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*"


def retarget(course: Course, repository: str, branch: str | None = None) -> list[Path]:
    """Point everything at owner/name (and a branch), and return the files that changed.

    All texts are made before the first is written, and `pyproject.toml`, which says whether there is
    anything to do, is written last: stopped in the middle, the same command ends the work. A release
    is the published one of a repository, so another repository starts without. Raises `CourseError`
    for what is no repository, or no branch.
    """
    check_repository(repository)
    if branch is not None:
        _check_branch(branch)
    return assemble.write_all(
        _texts(course, f"https://github.com/{repository}", branch or course.repository.branch)
    )


def notebooks(course: Course) -> dict[Path, str]:
    """Every notebook's text for this address. Raises `CourseError` for one that cannot be read.

    It would be made anew, without its outputs: nothing to do in passing.
    """
    for path in filter(Path.exists, map(course.notebook, course.lessons)):
        assemble.read(path)
    return {course.notebook(le): assemble.render(course, le) for le in course.lessons}


def origin(root: Path) -> str:
    """Return owner/name of git's remote "origin". Raises `CourseError` where it is not on GitHub."""
    command = ["git", "-C", str(root), "remote", "get-url", "origin"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        raise CourseError("git is not installed: say REPO=owner/name.") from None
    found = re.fullmatch(
        rf"(?:https://(?:[^@/]+@)?|ssh://git@|git@)github\.com[:/]({_OWNER}/{_NAME}?)(?:\.git)?/?",
        done.stdout.strip(),
    )
    if not found:
        raise CourseError(
            f"git's origin is {done.stdout.strip() or 'not set'}, and that is no repository on GitHub: "
            "say REPO=owner/name."
        )
    return found[1].removesuffix(".git")


def check_repository(name: str) -> None:
    """Raise `CourseError` for what is not owner/name."""
    last = name.rpartition("/")[2]
    if not re.fullmatch(rf"{_OWNER}/{_NAME}", name) or last in (".", "..") or last.endswith(".git"):
        raise CourseError(f"REPO={name}: write owner/name, as in REPO=ada/gpu-course.")


def _check_branch(name: str) -> None:
    if not re.fullmatch(_BRANCH, name) or ".." in name or name.endswith((".lock", ".")):
        raise CourseError(f"BRANCH={name}: write a branch or tag, as in BRANCH=main.")


def _texts(course: Course, url: str, branch: str) -> dict[Path, str]:
    """Every file that names the address, as it should be; `pyproject.toml` last."""
    old, project = course.repository, course.root / "pyproject.toml"
    release = old.release if url == old.url else None
    there = dataclasses.replace(old, url=url, branch=branch, release=release)
    moved = dataclasses.replace(course, repository=there)
    texts = notebooks(moved)
    for path in generated_sections.recorded_outputs(moved):
        texts[path] = assemble.move_links(moved, path.read_text("utf-8"))
    texts |= generated_sections.render(moved)
    for path in (course.root / "docs").rglob("*.md"):
        texts[path] = (texts.get(path) or path.read_text("utf-8")).replace(old.site, there.site)
    own = re.sub(
        r'(?m)^(Repository = )".*"$', lambda m: f'{m[1]}"{url}"', project.read_text("utf-8")
    )
    own = re.sub(r'(?m)^(branch = )"[^"]*"', lambda m: f'{m[1]}"{branch}"', own)
    own = own.replace(f"{old.url}/", f"{url}/")  # issues and changelog
    for citation in (course.root / "CITATION.cff", course.root / "codemeta.json"):
        if citation.exists():
            texts[citation] = citation.read_text("utf-8").replace(old.url, url)
    conda = course.root / "environment.yml"
    if conda.exists():
        name = f"name: {url.rpartition('/')[2]}"
        texts[conda] = re.sub(r"(?m)^name: .*$", name, conda.read_text("utf-8"))
    if release is None:
        own = re.sub(r"(?m)^release = .*\n", "", own)
    return {**texts, project: own}
