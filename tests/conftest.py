"""What several tests share."""

import os
from pathlib import Path

import pytest

from course import table


def pytest_sessionstart(session):
    """Kernels that import another checkout's helper would test that one."""
    from course.run import lessons

    if os.environ.get("COURSE_ANY_TREE"):  # a copy with a planted fault
        return
    try:
        lessons.check_environment(table.load())
    except table.CourseError as error:
        pytest.exit(str(error), returncode=1)


@pytest.fixture(scope="session")
def course():
    return table.load()


@pytest.fixture
def toy_course(tmp_path):
    """A course of one tiny lesson in a folder of its own, to be broken in one way at a time."""
    from tests.toy import make_toy_course

    return make_toy_course(tmp_path / "toy")


@pytest.fixture
def root():
    return Path(__file__).parent.parent
