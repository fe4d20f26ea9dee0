import dataclasses

from course import config


def test_lessons_come_in_order(course):
    assert [lesson.number for lesson in course.lessons] == list(range(1, len(course.lessons) + 1))
    for lesson in course.lessons:
        assert lesson.slug.startswith(f"{lesson.number:02d}_")
        assert len(lesson.objectives) == 3 and lesson.minutes <= 90


def test_the_address_of_the_repository_stands_once(course):
    """Everything else that names it is generated from pyproject.toml."""
    places = [*course.root.glob("colab_helpers/**/*.py"), *course.root.glob("course/**/*.py")]
    places += [*course.root.glob("lessons/*.py"), *course.root.glob("course/*.toml")]
    assert [path.name for path in places if course.repository.slug in path.read_text("utf-8")] == []


def test_paths_and_addresses_of_a_lesson(toy_course):
    [lesson] = toy_course.lessons
    assert toy_course.source(lesson) == toy_course.root / "lessons" / "01_toy.py"
    assert toy_course.notebook(lesson) == toy_course.root / "notebooks" / "01_toy.ipynb"
    address = (
        "https://colab.research.google.com/github/somebody/toy/blob/main/notebooks/01_toy.ipynb"
    )
    assert toy_course.colab_url(lesson) == address
    assert toy_course.badge(lesson).endswith(f"]({address})") and lesson.hardware == "GPU (T4)"


def test_a_release_of_this_version_is_what_people_get():
    repository = config.Repository("https://github.com/a/b", "main", "1.0.0")
    assert (repository.slug, repository.ref, repository.released) == ("a/b", "main", None)
    assert repository.helper == repository.archive == "https://github.com/a/b/archive/main.zip"
    released = dataclasses.replace(repository, release=config.Release("1.0.0", "abc"))
    assert released.ref == "v1.0.0"
    assert released.helper == (
        "https://github.com/a/b/releases/download/v1.0.0/"
        "colab_helpers-1.0.0-py3-none-any.whl#sha256=abc"
    )
    later = dataclasses.replace(released, version="1.0.1")
    assert (later.ref, later.helper) == ("main", repository.archive)
