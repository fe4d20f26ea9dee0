"""Which lessons are there, and where does the course live? From course.toml, pyproject.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLAB = "https://colab.research.google.com"


class CourseError(ValueError):
    """Something about the course that a maintainer has to mend: what was seen, and what to do."""

    exit_code = 1


@dataclass(frozen=True)
class Repository:
    """Where the published course lives: web address, and the branch or tag that links point at."""

    url: str
    branch: str

    @property
    def slug(self) -> str:
        """The repository as owner/name."""
        return "/".join(self.url.rstrip("/").split("/")[-2:])

    @property
    def archive(self) -> str:
        """The address of a zip file of the branch, which pip can install."""
        return f"{self.url}/archive/{self.branch}.zip"


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
    optional: tuple[str, ...] = ()

    @property
    def hardware(self) -> str:
        """What the lesson asks for, as people say it."""
        return f"{self.accelerator} ({self.chip})" if self.accelerator else "any"


@dataclass(frozen=True)
class Course:
    """The whole course: lessons in order, the repository, and the folder all paths start from."""

    lessons: tuple[Lesson, ...]
    repository: Repository
    root: Path = ROOT

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
        return f"{COLAB}/github/{repository.slug}/blob/{repository.branch}/{path}"

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
    """Read the course table and the repository's address below `root`."""
    table = tomllib.loads((root / "course" / "course.toml").read_text("utf-8"))
    return Course(
        lessons=tuple(_lesson(row) for row in table["lesson"]),
        repository=_repository(root),
        root=root,
    )


def _repository(root: Path) -> Repository:
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    url = project["project"]["urls"]["Repository"].rstrip("/")
    return Repository(url=url, branch=project["tool"]["course"]["branch"])


def _lesson(row: dict) -> Lesson:
    lists = {key: tuple(row[key]) for key in ("packages", "objectives", "optional") if key in row}
    return Lesson(**{**row, **lists})
