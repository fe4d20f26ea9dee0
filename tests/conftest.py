"""What several tests share."""

from pathlib import Path

import pytest

from course import table


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
