"""The helper starts where nothing is installed, and brings in nothing."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS_OF_THE_STANDARD_LIBRARY = (
    "benchmark platform_facts formulas.serving formulas.training hardware preflight runtime"
)
IMPORT = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
before = set(sys.modules)
import colab_helpers
print(*sorted({{name.split('.')[0] for name in set(sys.modules) - before}}))
{"; ".join(f"import colab_helpers.{room}" for room in ROOMS_OF_THE_STANDARD_LIBRARY.split())}
from colab_helpers import preflight
import colab_doctor
from colab_lessons import exercises, measurements, recorded_outputs
names = {{name.split('.')[0] for name in set(sys.modules) - before}}
print(*sorted(names - set(sys.stdlib_module_names) - {{'colab_helpers', 'colab_doctor', 'colab_lessons'}}))
print(preflight.status_card())
"""


def interpreters():
    """Every Python from 3.11 to 3.13 that this machine has, started without site packages."""
    found = {sys.version_info[:2]: sys.executable}
    for minor in (11, 12, 13):
        name = f"python3.{minor}"
        pyenv = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/{name}"))
        path = str(pyenv[-1]) if pyenv else shutil.which(name)
        if path and (3, minor) not in found and _answers(path):
            found[3, minor] = path
    return found


def _answers(path):
    return subprocess.run([path, "-c", ""], capture_output=True).returncode == 0


@pytest.mark.parametrize(
    "version", interpreters(), ids=lambda version: f"{version[0]}.{version[1]}"
)
def test_import_needs_and_brings_nothing(version, tmp_path):
    done = subprocess.run(
        [interpreters()[version], "-S", "-I", "-c", IMPORT],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    by_package, by_rooms, *card = done.stdout.splitlines()
    assert by_package == "colab_helpers"
    assert by_rooms == ""
    assert "You are on" in card[0]
    assert done.stderr == ""
