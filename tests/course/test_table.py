import pytest

from course.table import CourseError


def test_lessons_come_in_order(course):
    assert [lesson.number for lesson in course.lessons] == list(range(1, len(course.lessons) + 1))
    for lesson in course.lessons:
        assert lesson.slug.startswith(f"{lesson.number:02d}_")
        assert len(lesson.objectives) == 3 and lesson.minutes <= 90


@pytest.mark.parametrize("name", ["2", "02", "02_check_hardware"])
def test_lessons_are_found_by_number_and_name(course, name):
    assert course.select([name]) == (course.lessons[1],)


def test_no_name_means_all(course):
    assert course.select([]) == course.lessons


def test_unknown_lesson_says_which_there_are(course):
    with pytest.raises(CourseError, match=r"No lesson 99\. There are: 01_enable_gpu"):
        course.select(["99"])


def test_addresses(toy_course):
    lesson = toy_course.lessons[0]
    assert toy_course.repository.archive == "https://github.com/somebody/toy/archive/main.zip"
    assert toy_course.badge(lesson) == (
        "[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]"
        "(https://colab.research.google.com/github/somebody/toy/blob/main/notebooks/01_toy.ipynb)"
    )


def test_the_address_of_the_repository_stands_once(course):
    """Everything else that names it is generated from pyproject.toml."""
    places = [*course.root.glob("colab_helpers/**/*.py"), *course.root.glob("course/**/*.py")]
    places += [*course.root.glob("lessons/*.py"), *course.root.glob("course/*.toml")]
    assert [path.name for path in places if course.repository.slug in path.read_text("utf-8")] == []
