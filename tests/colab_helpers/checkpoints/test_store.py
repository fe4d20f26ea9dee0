"""Files that are whole or not there: what is kept, what is refused, and what a person is told."""

import concurrent.futures
import errno
import os
import random
import subprocess
import threading
import time
import warnings

import pytest

from colab_helpers import _atomic_files, checkpoints
from colab_helpers.checkpoints import CheckpointError, CheckpointWarning, Store
from colab_helpers.checkpoints.drive_copies import Copier


def put(store, step, text="weights"):
    return store.write(step, ".txt", lambda path: path.write_text(text))


def newest(store):
    told = store.read(".txt", lambda path: path.read_text())
    return None if told is None else (told[0].step, told[1])


def refuse(number):
    def write(path):
        path.write_bytes(b"half")
        raise OSError(number, os.strerror(number))

    return write


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "run")


def names(store):
    return sorted(path.name for path in store.folder.iterdir())


def test_the_newest_are_kept_and_the_newest_is_read(store):
    assert newest(store) is None
    for step in (5, 10, 15):
        assert put(store, step, f"of {step}").problem == ""
    assert [found.step for found in store.files()] == [15, 10]
    assert newest(store) == (15, "of 15")


def test_going_back_to_an_older_step_keeps_what_was_just_written(store):
    put(store, 100)
    put(store, 200)
    with pytest.warns(CheckpointWarning, match="Step 50 is being saved beside step 200"):
        put(store, 50, "begun again")
    assert [found.step for found in store.files()] == [200, 50]


def test_a_new_run_in_the_folder_of_another_is_told_once_and_before_it_saves(store, tmp_path):
    put(store, 700, "of another run")
    new = Store(tmp_path / "run")

    def write(path):
        told.append(len(caught))  # the warning is there before the file
        path.write_text("new")

    told = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in (100, 200, 300):
            new.write(step, ".txt", write)
        new.write(100, ".log", lambda path: path.touch())  # another kind has no later step
    assert told == [1, 1, 1] and len(caught) == 1
    assert "resuming would take the latter. Use an empty folder" in str(caught[0].message)


def test_a_run_that_fell_back_from_a_spoilt_file_is_not_warned(store, tmp_path):
    put(store, 10)
    put(store, 20).path.write_text("spoilt")
    again = Store(tmp_path / "run")
    with pytest.warns(CheckpointWarning, match="it was cut off"):
        assert newest(again) == (10, "weights")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        put(again, 15)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: path.write_text("wei"), "has 3 B of 7 B: it was cut off"),
        (lambda path: path.write_text("weighty"), "its checksum does not match"),
        (lambda path: path.write_text(""), "has 0 B of 7 B"),
    ],
)
def test_a_spoilt_file_is_named_and_the_one_before_it_is_read(store, spoil, words):
    put(store, 1, "before ")
    spoil(put(store, 2).path)
    with pytest.warns(CheckpointWarning, match=words):
        assert newest(store) == (1, "before ")
    assert len(names(store)) == 2  # nothing is deleted for it


def test_when_none_is_whole_nobody_begins_anew_by_mistake(store):
    put(store, 1).path.write_text("")
    with (
        pytest.warns(CheckpointWarning),
        pytest.raises(
            CheckpointError, match=r"incomplete or corrupt: .* 0 B of 7 B.* Nothing was deleted"
        ),
    ):
        newest(store)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EROFS, "it is read-only"),
        (errno.EDQUOT, "the storage quota is used up"),
        (errno.ENOTCONN, "the mount has dropped"),
        (errno.EACCES, "no permission"),
    ],
)
def test_a_disk_that_refuses_is_named_and_the_work_goes_on(store, number, words):
    put(store, 1)
    with pytest.warns(CheckpointWarning, match=f"Step 2 was not saved.*{words}.*as they were"):
        saved = store.write(2, ".txt", refuse(number))
    assert saved.path is None and words in saved.problem and "NOT saved" in str(saved)
    assert newest(store) == (1, "weights") and len(names(store)) == 1


@pytest.fixture
def drive(tmp_path):
    """A store that saves on the machine's own disk, and copies."""
    return Store(tmp_path / "drive", local=tmp_path / "local")


def copied(store, *steps):
    for step in steps:
        assert put(store, step, f"of {step}").problem == ""
        store.wait()


def test_the_disk_comes_first_and_the_newest_is_copied(drive):
    saved = put(drive, 5, "of 5")
    drive.wait()
    assert saved.path.parent == drive.local
    assert [found.path.parent for found in drive.files()] == [drive.local, drive.folder]
    assert newest(drive) == (5, "of 5")


def test_a_new_machine_goes_on_from_the_copy(drive, tmp_path):
    copied(drive, 5, 10)
    assert newest(Store(tmp_path / "drive", local=tmp_path / "new")) == (10, "of 10")


def test_nothing_is_ever_deleted_where_the_copies_are(drive, tmp_path):
    links = (
        tmp_path / "links"
    )  # a second name for each file: the first one may go, the second stays
    links.mkdir()
    for step in range(1, 12):
        copied(drive, step)
        for path in drive.folder.iterdir():
            if path.stat().st_nlink == 1:
                os.link(path, links / str(step))
    assert [path.stat().st_nlink for path in links.iterdir()] == [2, 2]  # the same two, overwritten
    assert [found.step for found in drive.files() if found.path.parent == drive.folder] == [11, 10]
    shorter = put(drive, 12, "")
    drive.wait()
    assert (drive.folder / shorter.path.name).read_text() == ""  # nothing of the longer one is left


def test_what_comes_while_a_copy_is_under_way_is_left_out_but_the_newest(drive, monkeypatch):
    gate, seen = threading.Event(), []
    copy = drive._copier._copy

    def slow(path, suffix):
        gate.wait(10)
        seen.append(path)
        copy(path, suffix)

    monkeypatch.setattr(drive._copier, "_copy", slow)
    for step in range(1, 6):
        put(drive, step)
    gate.set()
    drive.wait()
    assert len(seen) <= 3 and drive.files()[1].step == 5  # one, perhaps a second, and the newest


def test_a_copy_that_was_cut_off_is_no_checkpoint_and_is_written_over(drive, monkeypatch):
    copied(drive, 1, 2)

    def half(source, file, length):
        file.write(b"ha")
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("colab_helpers.checkpoints.drive_copies.shutil.copyfileobj", half)
        put(drive, 3)
        with pytest.warns(
            CheckpointWarning, match=r"the disk or the mount fails.*this machine only"
        ):
            drive.wait()
    there = [found for found in drive.files() if found.path.parent == drive.folder]
    assert [found.step for found in there] == [2] and "unfinished.txt" in names(drive)
    with pytest.warns(CheckpointWarning, match="this machine only"):
        assert put(drive, 4).path  # told again with the next save, which is not stopped by it
    drive.wait()
    assert len(names(drive)) == 2 and newest(drive) == (4, "weights")


def test_a_spoilt_copy_is_written_over_first(drive, tmp_path):
    copied(drive, 1, 2)
    (drive.folder / drive.files()[0].path.name).write_text("")
    new = Store(tmp_path / "drive", local=tmp_path / "new")
    with pytest.warns(CheckpointWarning, match="it was cut off"):
        assert newest(new) == (1, "of 1")
    copied(new, 3)
    assert {found.step for found in new.files()} == {1, 3}


def test_without_the_mount_the_work_goes_on_and_is_copied_when_it_is_back(drive, tmp_path):
    copied(drive, 1)
    drive.folder.rename(tmp_path / "dropped")
    put(drive, 2, "of 2")
    with pytest.warns(CheckpointWarning, match=r"is gone .*force_remount=True.*this machine only"):
        drive.wait()
    assert newest(drive) == (2, "of 2")  # from the machine's own disk
    (tmp_path / "dropped").rename(drive.folder)
    with pytest.warns(CheckpointWarning):
        put(drive, 3)
    drive.wait()
    assert [found.step for found in drive.files()][:2] == [3, 3]


def test_copies_keep_their_distance_and_the_last_one_comes_at_once(tmp_path):
    store = Store(tmp_path / "drive", local=tmp_path / "local", min_seconds_between_copies=1000)
    for step in range(1, 6):
        put(store, step, f"of {step}")
        while store._copier._thread:  # it copies what is newest when it begins
            pass
    there = [found.step for found in store.files() if found.path.parent == store.folder]
    assert there == [1]  # the first at once, the others not yet
    store.wait()
    there = [found.step for found in store.files() if found.path.parent == store.folder]
    assert there == [5, 1]


@pytest.mark.parametrize("apart", [0, 300])
@pytest.mark.parametrize("pause", [0, 1e-4, 1e-3])
def test_no_schedule_of_the_threads_loses_the_newest_copy(tmp_path, monkeypatch, apart, pause):
    """The worker ends, and another file arrives, at any place between two lines of `wait`."""
    rng = random.Random(f"{apart} {pause}")
    start, work = Copier._start, Copier._work

    def slow_start(self, newest, due):
        found = start(self, newest, due)
        time.sleep(rng.random() * pause)
        if rng.random() < 0.3 and found is not None and not newest:
            found.join()  # the worst moment: it ends before anybody looks
        return found

    monkeypatch.setattr(Copier, "_start", slow_start)
    monkeypatch.setattr(
        Copier, "_work", lambda self: (time.sleep(rng.random() * pause), work(self))
    )
    for number in range(17):
        run = tmp_path / str(number)
        run.mkdir()
        store = Store(run / "drive", local=run / "local", min_seconds_between_copies=apart)
        last = rng.randrange(1, 5)
        for step in range(1, last + 1):
            put(store, step, f"of {step}")
        store.wait()
        there = [found.step for found in store.files() if found.path.parent == store.folder]
        assert max(there) == last


def test_of_two_kinds_of_files_each_gets_its_turn(tmp_path):
    store = Store(tmp_path / "drive", local=tmp_path / "local", min_seconds_between_copies=0.05)
    for step in range(1, 9):
        for suffix in (".a", ".b"):
            store.write(step, suffix, lambda path: path.write_text("weights"))
        time.sleep(0.1)
    assert {path.suffix for path in (tmp_path / "drive").iterdir()} >= {".a", ".b"}


def test_on_drive_the_local_folder_is_found_again(tmp_path, monkeypatch):
    monkeypatch.setattr("colab_helpers.checkpoints.store._DRIVE", tmp_path)
    monkeypatch.setattr(type(tmp_path), "is_mount", lambda path: path == tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    first, again, other = (Store(tmp_path / name) for name in ("run", "run", "two"))
    assert first.local == again.local != other.local
    assert first._copier._min_seconds == 300


def test_a_mount_is_never_taken_for_granted(tmp_path, monkeypatch):
    monkeypatch.setattr("colab_helpers.checkpoints.store._DRIVE", tmp_path)
    with pytest.raises(CheckpointError, match=r"is not mounted.*would be lost with the runtime"):
        Store(tmp_path / "MyDrive")
    with pytest.raises(CheckpointError, match="cannot hold checkpoints: no such folder"):
        Store("/no-such-mount/run")


def test_what_writers_that_are_gone_have_left_is_cleared_away(store):
    dead = subprocess.Popen(["true"])
    dead.wait()
    names_of_parts = (
        f".part-{_atomic_files.HOST}-{dead.pid}-a", f".part-{_atomic_files.HOST}-{os.getppid()}-b",
        f".part-elsewhere-{dead.pid}-c", f".part-elsewhere-{dead.pid}-d",
    )  # fmt: skip
    for name in names_of_parts:
        (store.folder / name).mkdir()
        (store.folder / name / "state.txt").write_text("half")
    os.utime(store.folder / names_of_parts[3], (0, 0))  # so old that nobody writes it any more
    put(store, 1)
    assert [name for name in names(store) if name.startswith(".")] == sorted(names_of_parts[1:3])


def test_two_threads_in_one_folder_do_not_meet(store):
    def save(thread):
        for step in range(20):
            store.write(
                1000 * thread + step, f".{thread}", lambda path: path.write_text(f"{thread}" * 9999)
            )

    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(save, range(1, 5)))
    assert [found.step for found in store.files()] == [
        4019,
        4018,
        3019,
        3018,
        2019,
        2018,
        1019,
        1018,
    ]
    assert all(not found.problem() for found in store.files())


@pytest.mark.parametrize("spoil", ["", "weighty"])
def test_a_spoilt_file_does_not_push_out_a_good_one(store, spoil):
    put(store, 10, "good   ")
    put(store, 20).path.write_text(spoil)
    with pytest.warns(CheckpointWarning):
        assert newest(store) == (10, "good   ")
    put(store, 15, "later  ")
    with pytest.warns(CheckpointWarning):
        assert newest(store) == (15, "later  ")
    assert 10 in [found.step for found in store.files()]


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of 256 KiB, where this machine lets us mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("file systems cannot be mounted here; the same errors are tested by name above")
    yield folder
    subprocess.run(["umount", "-l", folder], capture_output=True, check=False)


def test_real_disks_that_are_full_read_only_and_gone(small_disk):
    import torch

    store = Store(small_disk / "run")
    model = torch.nn.Linear(100, 100)  # 40 kB
    assert checkpoints.save(store, 1, {"model": model}).path
    with pytest.warns(CheckpointWarning, match="the disk is full"):
        checkpoints.save(store, 2, {"model": torch.nn.Linear(300, 300)})
    assert checkpoints.resume(store, {"model": model}).step == 1
    assert len(names(store)) == 1  # and no half file takes its room

    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.warns(CheckpointWarning, match="it is read-only"):
        checkpoints.save(store, 3, {"model": model})
    with pytest.raises(CheckpointError, match="cannot hold checkpoints: it is read-only"):
        Store(small_disk / "other")
    assert checkpoints.resume(store, {"model": model}).step == 1

    subprocess.run(["umount", small_disk], check=True)
    with pytest.warns(CheckpointWarning, match="no longer mounted"):
        checkpoints.save(store, 4, {"model": model})
    (small_disk / "run").mkdir()  # somebody makes the folder below the mount that dropped
    with pytest.warns(CheckpointWarning, match="no longer mounted"):
        checkpoints.save(store, 4, {"model": model})
    assert not list((small_disk / "run").iterdir())


def test_kinds_in_one_folder_leave_each_other_alone(tmp_path):
    store = Store(tmp_path / "run", local=tmp_path / "local", min_seconds_between_copies=300)
    for step in (1, 2, 3):
        for suffix in (".pt", ".ema.pt"):
            store.write(step, suffix, lambda path: path.write_text("weights"))
    store.wait()
    for suffix in (".pt", ".ema.pt"):
        here = [one.step for one in store.files(suffix) if one.path.parent == store.local]
        there = [one.step for one in store.files(suffix) if one.path.parent == store.folder]
        assert here == [3, 2] and there[0] == 3


def test_a_corrupt_copy_is_written_again(tmp_path):
    store = Store(tmp_path / "run", local=tmp_path / "local")
    put(store, 200)
    store.wait()
    copy = next(store.folder.glob("step-*"))
    copy.write_bytes(bytes(copy.stat().st_size))
    for path in store.local.iterdir():
        path.unlink()
    with pytest.warns(CheckpointWarning), pytest.raises(CheckpointError):
        newest(store)
    put(store, 200)
    store.wait()
    assert [one.problem() for one in store.files()] == ["", ""]


def test_an_emptied_folder_says_where_the_old_run_still_is(tmp_path):
    store = Store(tmp_path / "run", local=tmp_path / "local")
    put(store, 500)
    store.wait()
    for path in store.folder.iterdir():
        path.unlink()
    with pytest.warns(CheckpointWarning, match=r"has no checkpoint.*delete the latter"):
        assert newest(Store(tmp_path / "run", local=tmp_path / "local"))[0] == 500


def test_a_folder_that_cannot_be_listed_is_told_in_words(store, monkeypatch):
    def refuse_listing(folder):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(type(store.folder), "iterdir", refuse_listing)
    with pytest.raises(CheckpointError, match="cannot be listed"):
        store.files()
    assert put(store, 1).path is not None
