"""What several tests share."""

import functools
import gc
import os
import tomllib
from pathlib import Path

import pytest

from course import config

os.environ["NUMBA_ENABLE_CUDASIM"] = (
    "1"  # before anything imports numba: kernels run in its simulator
)


def pytest_sessionstart(session):
    """Kernels that import another checkout's helper would test that one."""
    from course.run import lessons

    if os.environ.get("COURSE_ANY_TREE"):  # a copy with a planted fault
        return
    try:
        lessons.check_environment(config.load())
    except config.CourseError as error:
        pytest.exit(str(error), returncode=1)


def pytest_collection_modifyitems(items):
    """Run what takes long first: at the end, one worker would finish it while the others wait."""
    items.sort(
        key=lambda item: not item.nodeid.startswith(("tests/notebooks/", "tests/course/site/"))
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Send files whose tests share what they make to one worker each, and others anywhere."""
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False  # it would put what shares nothing last

    class ModuleScopeScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file, _, _ = nodeid.partition("::")
            return file if shares_module_fixture(config.rootpath / file) else nodeid

    return ModuleScopeScheduling(config, log)


@functools.cache
def shares_module_fixture(file):
    return 'scope="module"' in file.read_text("utf-8")


@pytest.fixture(scope="module", autouse=True)
def freeze_garbage():
    """Frameworks leave a million objects, which each `gc.collect` of a test would go through again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def course():
    return config.load()


@pytest.fixture
def toy_course(tmp_path):
    """A course of one tiny lesson in a folder of its own, to be broken in one way at a time."""
    from tests.toy import make_toy_course

    return make_toy_course(tmp_path / "toy")


@pytest.fixture(scope="session")
def project():
    """pyproject.toml's [project]."""
    text = (config.load().root / "pyproject.toml").read_text("utf-8")
    return tomllib.loads(text)["project"]


@pytest.fixture
def root():
    return Path(__file__).parent.parent
