"""A file is written whole or not at all."""

import concurrent.futures
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from colab_helpers import _atomic_files


def test_text_and_bytes_are_written_and_the_folder_is_made(tmp_path):
    path = tmp_path / "a" / "b.txt"
    assert _atomic_files.write(path, "größer\n") == path
    assert path.read_bytes() == "größer\n".encode()
    _atomic_files.write(path, b"\x00")
    assert path.read_bytes() == b"\x00"
    assert [file.name for file in path.parent.iterdir()] == ["b.txt"]


def test_permissions_and_links_are_kept(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    _atomic_files.write(link, "new")
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
        _atomic_files.write(path, "new")
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_what_a_killed_process_left_is_cleared_and_a_live_ones_is_not(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    mine, dead = f"{_atomic_files.HOST}-{os.getpid()}-1", f"{_atomic_files.HOST}-{gone.pid}-1"
    left, live, elsewhere, older, never, another = (
        tmp_path / f".{name}.part"
        for name in (f"x.{dead}", f"y.{mine}", f"z.elsewhere-{gone.pid}-1", f"a.elsewhere-{gone.pid}-2",
                     f"b.{_atomic_files.HOST}-{10**20}-1", "c")
    )  # fmt: skip
    for path in (left, live, elsewhere, older, never, another):
        path.touch()
    os.utime(older, (0, 0))  # so old that no machine writes it any more
    _atomic_files.write(tmp_path / "file", "")
    assert {path for path in tmp_path.iterdir() if path.name != "file"} == {
        live,
        elsewhere,
        another,
    }


def test_threads_that_write_one_file_leave_one_of_their_contents(tmp_path):
    path = tmp_path / "file"

    def write(letter):
        for _ in range(50):
            _atomic_files.write(path, letter * 20_000)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(write, "abcd"))
    assert path.read_text() in {letter * 20_000 for letter in "abcd"}
    assert list(tmp_path.iterdir()) == [path]


def test_the_folder_is_flushed_after_the_rename(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(
        _atomic_files, "flush_folder", lambda folder: flushed.append(sorted(folder.iterdir()))
    )
    _atomic_files.write(tmp_path / "file", "new")
    assert flushed == [[tmp_path / "file"]]


def test_every_file_of_the_package_and_the_tools_is_written_so():
    """`write_text` and its kin truncate first; those that write scratch files may use them."""
    root = Path(__file__).parents[2]
    scratch = {
        "conditions.py",
        "sitecustomize.py",
        "release.py",
        "_atomic_files.py",
    }
    found = [
        f"{path.relative_to(root)}: {line.strip()}"
        for folder in ("colab_helpers", "colab_doctor", "colab_lessons", "course")
        for path in (root / folder).rglob("*.py")
        if path.name not in scratch
        for line in path.read_text("utf-8").splitlines()
        if any(call in line for call in (".write_text(", ".write_bytes(", "nbformat.write("))
    ]
    assert found == []


def test_files_of_others_that_look_unfinished_stay(tmp_path):
    theirs = [tmp_path / name for name in (".holiday.mp4.part", ".part", ".a.b-c-d.part")]
    folder = tmp_path / ".part-of-mine"
    folder.mkdir()
    for old in [*theirs, folder]:
        if old is not folder:
            old.write_text("years of work")
        os.utime(old, (0, 0))
    _atomic_files.write(tmp_path / "new.txt", "hello")
    with _atomic_files.private_folder(tmp_path):
        pass
    assert all(old.exists() for old in [*theirs, folder])
