"""The course table and the repository's address, from course.toml and pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import colab_helpers

ROOT = Path(__file__).resolve().parent.parent
COLAB = "https://colab.research.google.com"


class CourseError(ValueError):
    """Something about the course that a maintainer has to fix: what was seen, and what to do."""

    exit_code = 1


@dataclass(frozen=True)
class Release:
    """A published version of the helper, and the SHA-256 of its wheel."""

    version: str
    sha256: str

    @property
    def tag(self) -> str:
        """The tag that a release has."""
        return f"v{self.version}"

    @property
    def wheel(self) -> str:
        """The file name of its wheel."""
        return f"colab_helpers-{self.version}-py3-none-any.whl"


@dataclass(frozen=True)
class Repository:
    """Where the published course lives: web address, and the branch that people work on.

    `version` is the helper's in this tree. `release` is the last one that was published here.
    """

    url: str
    branch: str
    version: str = "0"
    release: Release | None = None

    @property
    def slug(self) -> str:
        """The repository as owner/name."""
        return "/".join(self.url.rstrip("/").split("/")[-2:])

    @property
    def released(self) -> Release | None:
        """The release that this tree is, or None: nothing released yet, or a later version."""
        same = self.release is not None and self.release.version == self.version
        return self.release if same else None

    @property
    def ref(self) -> str:
        """The branch or tag that badges and links point at: a release's lessons do not move."""
        return self.released.tag if self.released else self.branch

    @property
    def site(self) -> str:
        """The address of the course's pages on the web, as GitHub Pages gives it."""
        owner, name = self.slug.split("/")
        host = f"https://{owner.lower()}.github.io/"
        return host if name.lower() == f"{owner.lower()}.github.io" else f"{host}{name}/"

    @property
    def archive(self) -> str:
        """The address of a zip file of the branch, which pip can install."""
        return f"{self.url}/archive/{self.branch}.zip"

    @property
    def helper(self) -> str:
        """The address that setup cells install from: a wheel with its hash, or the archive."""
        if self.released is None:
            return self.archive
        place = f"{self.url}/releases/download/{self.released.tag}/{self.released.wheel}"
        return f"{place}#sha256={self.released.sha256}"


@dataclass(frozen=True)
class Lesson:
    """One row of the course table."""

    number: int
    slug: str
    title: str
    accelerator: str
    gpu_type: str
    chip: str
    minutes: int
    packages: tuple[str, ...]
    objectives: tuple[str, ...]
    measures: str
    framework: str = "torch"
    optional: tuple[str, ...] = ()
    hook: str = ""

    @property
    def hardware(self) -> str:
        """What the lesson asks for, as people say it."""
        return f"{self.accelerator} ({self.chip})" if self.accelerator else "any"

    @property
    def runs_on(self) -> str:
        """A sentence or two: the runtime that suits the lesson best, if one does, and that others do."""
        best = f"Best with: {self.hardware}. " if self.accelerator else ""
        return f"{best}Runs on any machine."


@dataclass(frozen=True)
class Course:
    """The whole course: lessons in order, the repository, and the folder all paths start from."""

    lessons: tuple[Lesson, ...]
    repository: Repository
    root: Path = ROOT

    @property
    def published(self) -> Course:
        """The course at its last release, or as it is where there is none."""
        release = self.repository.release
        if release is None:
            return self
        return replace(self, repository=replace(self.repository, version=release.version))

    def source(self, lesson: Lesson) -> Path:
        """The text file that a maintainer edits."""
        return self.root / "lessons" / f"{lesson.slug}.py"

    def notebook(self, lesson: Lesson) -> Path:
        """The notebook that people open."""
        return self.root / "notebooks" / f"{lesson.slug}.ipynb"

    def colab_url(self, lesson: Lesson) -> str:
        """The address that opens the notebook in Colab."""
        repository = self.repository
        path = f"notebooks/{lesson.slug}.ipynb"
        return f"{COLAB}/github/{repository.slug}/blob/{repository.ref}/{path}"

    def badge(self, lesson: Lesson) -> str:
        """The "Open in Colab" badge as Markdown."""
        return f"[![Open in Colab]({COLAB}/assets/colab-badge.svg)]({self.colab_url(lesson)})"

    def select(self, names: Sequence[str]) -> tuple[Lesson, ...]:
        """Return the lessons with these slugs or numbers; all of them for no names.

        Raises `CourseError` for a name that is no lesson.
        """
        if not names:
            return self.lessons
        by_name = {lesson.slug: lesson for lesson in self.lessons}
        by_name |= {str(lesson.number): lesson for lesson in self.lessons}
        by_name |= {f"{lesson.number:02d}": lesson for lesson in self.lessons}
        unknown = [name for name in names if name not in by_name]
        if unknown:
            known = ", ".join(lesson.slug for lesson in self.lessons)
            raise CourseError(f"No lesson {', '.join(unknown)}. There are: {known}.")
        return tuple(by_name[name] for name in names)


def load(root: Path = ROOT) -> Course:
    """Read the course table and the repository's address below `root`. Raises `CourseError`."""
    table = _read(root / "course" / "course.toml")
    try:
        rows = tuple(_lesson(row) for row in table["lesson"])
    except (KeyError, TypeError, AttributeError) as error:
        raise CourseError(
            f"course/course.toml: a [[lesson]] lacks something or has too much ({error}). Its head says "
            "what each has."
        ) from error
    return Course(lessons=rows, repository=repository(root), root=root)


def repository(root: Path = ROOT) -> Repository:
    """Read the repository's address below `root`, and its last release. Raises `CourseError`."""
    project = _read(root / "pyproject.toml")
    try:
        ours = project["tool"]["course"]
        url = project["project"]["urls"]["Repository"].rstrip("/")
        release = Release(**ours["release"]) if "release" in ours else None
        return Repository(url, ours["branch"], helper_version(root), release)
    except (KeyError, TypeError, AttributeError) as error:
        raise CourseError(
            f"pyproject.toml lacks the course's address or branch: {error}."
        ) from error


def helper_version(root: Path = ROOT) -> str:
    """Return the version that stands in this tree's helper, which is not imported."""
    path = root / "colab_helpers" / "__init__.py"
    found = (
        re.search(r'(?m)^__version__ = "([^"]+)"$', path.read_text("utf-8"))
        if path.exists()
        else None
    )
    return found[1] if found else colab_helpers.__version__


def _read(path: Path) -> dict:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise CourseError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise CourseError(f"{path.name} is no valid TOML: {error}.") from error


def _lesson(row: dict) -> Lesson:
    lists = {key: tuple(row[key]) for key in ("packages", "objectives", "optional") if key in row}
    return Lesson(**{**row, **lists})
