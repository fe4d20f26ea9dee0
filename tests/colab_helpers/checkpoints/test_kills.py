"""A training that is killed again and again ends with the very same weights as one that was let be."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import slow
from tests.colab_helpers.checkpoints import job

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no fork, no SIGKILL")


def run(folder, kills, seed=0):
    store, done = folder / "store", folder / "done"
    command = [sys.executable, "-m", job.__name__, store, done, str(kills), str(seed)]
    told = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3])
    assert told.returncode == 0 and "Traceback" not in told.stderr, told.stderr
    starts = [int(line) for line in (folder / "starts").read_text().split()]
    return done.read_text(), starts


@pytest.mark.parametrize("kills", slow.after(1, [25, 100]))
def test_kills_change_not_one_bit(tmp_path, kills):
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    for folder in (undisturbed, killed):
        folder.mkdir()
    wanted, _ = run(undisturbed, kills=0)
    told, starts = run(killed, kills=kills)
    assert told == wanted
    assert len(set(starts)) > kills // 3  # they died at many places
    left, right = (
        {path.name for path in (one / place).iterdir()}
        for one, place in ((undisturbed, "local"), (killed, "local"))
    )
    assert left == right and len(left) == 2  # the names tell checksums: moments and generators too
    there = [path.name for path in (killed / "store").iterdir()]
    assert len(there) == 2  # however many were killed while they copied
    assert max(there) == max(left)  # and the last one has arrived
