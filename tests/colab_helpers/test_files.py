"""A file is written whole or not at all."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from colab_helpers import _files


def test_text_and_bytes_are_written_and_the_folder_is_made(tmp_path):
    path = tmp_path / "a" / "b.txt"
    assert _files.write(path, "größer\n") == path
    assert path.read_bytes() == "größer\n".encode()
    _files.write(path, b"\x00")
    assert path.read_bytes() == b"\x00"
    assert [file.name for file in path.parent.iterdir()] == ["b.txt"]


def test_permissions_and_links_are_kept(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    _files.write(link, "new")
    assert link.is_symlink() and real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, fails):
    path = tmp_path / "file"
    path.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os if fails == "fsync" else Path, fails, full)
    with pytest.raises(OSError, match="No space left"):
        _files.write(path, "new")
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_what_a_killed_process_left_is_cleared_and_a_live_ones_is_not(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left, live, other = (
        tmp_path / f".x.{gone.pid}.part",
        tmp_path / f".y.{os.getpid()}.part",
        tmp_path / ".z.part",
    )
    for path in (left, live, other):
        path.touch()
    _files.write(tmp_path / "file", "")
    assert not left.exists() and live.exists() and other.exists()


def test_every_file_of_the_package_and_the_tools_is_written_so():
    """`write_text` and its kin truncate first; those that write scratch files may use them."""
    root = Path(__file__).parents[2]
    scratch = {"machine_conditions.py", "replica.py", "sitecustomize.py", "release.py", "_files.py"}
    found = [
        f"{path.relative_to(root)}: {line.strip()}"
        for folder in ("colab_helpers", "colab_doctor", "colab_lessons", "course")
        for path in (root / folder).rglob("*.py")
        if path.name not in scratch
        for line in path.read_text("utf-8").splitlines()
        if any(call in line for call in (".write_text(", ".write_bytes(", "nbformat.write("))
    ]
    assert found == []
