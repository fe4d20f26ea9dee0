"""What files, libraries, memory and chips of a machine say of an error that was raised there."""

import dataclasses
import errno
import re
import threading

import pytest

import colab_doctor
from colab_doctor.diagnosis import Diagnosis, Failure, files, memory
from colab_helpers import _traces as traces
from colab_helpers import runtime
from colab_helpers._units import GIB
from tests.colab_doctor.conftest import told

OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked}. GPU 0 has a total capacity of "
    "14.75 GiB of which {free} is free. Process 17435 has 240.00 MiB memory in "
    "use. Of the allocated memory {allocated} is allocated by PyTorch, and {unused} is reserved by PyTorch "
    "but unallocated."
)
FULL = OUT_OF_MEMORY.format(
    asked="36.00 GiB", free="1.00 GiB", allocated="3.00 GiB", unused="1.00 MiB"
)


def test_how_far_a_path_leads(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "Train.csv").write_text("")
    finding = told(f"open({str(tmp_path / 'data' / 'train.csv')!r})").finding
    assert finding.id == "no-such-file"
    assert finding.observation == (
        f"The folder `{tmp_path / 'data'}` has no `train.csv`. Did you mean `Train.csv`?"
    )
    [clue] = told(f"open({str(tmp_path / 'out' / 'a.pt')!r}, 'wb')").diagnoses
    assert "has no `out`. It has `data`." in clue.observation
    assert f"`os.makedirs('{tmp_path / 'out'}', exist_ok=True)`" in clue.fix
    monkeypatch.chdir(tmp_path)
    seen = told("open('Train.csv')").finding.observation
    assert "There is one in `" in seen
    (tmp_path / "empty").mkdir()
    assert "It is empty." in told("open('empty/a')").finding.observation
    for number in range(9):
        (tmp_path / "empty" / f"file{number}.txt").write_text("")
    assert "It has 9 other files and folders." in told("open('empty/zebra')").finding.observation


def test_code_for_a_tpu_where_there_is_none(monkeypatch):
    _machine(monkeypatch)
    clue, *_ = told("raise ValueError('Please provide a TPU Name to connect to.')").diagnoses
    assert clue.observation == "This machine shows no TPU." and "v5e-1 TPU" in clue.fix


def test_the_other_path_of_a_move(tmp_path):
    (tmp_path / "a.txt").write_text("")
    finding = told(f"import os; os.rename('{tmp_path}/a.txt', '{tmp_path}/gone/a.txt')").finding
    assert "has no `gone`" in finding.observation


@pytest.mark.parametrize(
    ("fails", "says"),
    [
        ("open('https://example.org/a.csv')", "Download it first"),
        ("open('~/a.csv')", "os.path.expanduser"),
        ("import numpy; numpy.loadtxt('absent.txt')", "Correct the path"),
        ("import torch; torch.save({}, 'absent/a.pt')", "os.makedirs("),
    ],
)
def test_paths_that_libraries_look_for(tmp_path, monkeypatch, fails, says):
    monkeypatch.chdir(tmp_path)
    said = told(fails)
    assert any(says in one.fix for one in (said.finding, *said.diagnoses))


@pytest.mark.parametrize(
    ("answer", "id"),
    [("", "no-such-file"), ("does not answer (x)", "drive-dropped"), ("mounted", "no-such-file")],
)
def test_a_path_on_drive(tmp_path, monkeypatch, answer, id):
    monkeypatch.setattr(files, "_DRIVES", (str(tmp_path / "gdrive"),))
    monkeypatch.setattr(traces, "drive", lambda folder: answer)
    said = told(f"open({str(tmp_path / 'gdrive/MyDrive/a.txt')!r})")
    assert said.id == id
    assert ("drive.mount(" in said.finding.fix) == (answer != "mounted")
    assert ("force_remount" in said.finding.fix) == (id == "drive-dropped")


@pytest.mark.parametrize(
    ("full", "code", "id"),
    [
        (("/tmp",), "import os; raise error", "little-disk"),
        (
            ("/dev/shm",),
            "import multiprocessing.pool as p\nwith p.ThreadPool(1) as pool: pool.apply(raiser)",
            "shared-memory",
        ),
    ],
)
def test_which_disk_is_full(monkeypatch, full, code, id):
    free = dataclasses.make_dataclass("Usage", ["free"])
    monkeypatch.setattr(
        files.shutil, "disk_usage", lambda path: free(0.01 * GIB if str(path) in full else 60 * GIB)
    )
    monkeypatch.chdir("/")
    error = OSError(errno.ENOSPC, "No space left on device")

    def raiser():
        raise error

    with pytest.raises(OSError, match="No space") as caught:
        exec(code, {"error": error, "raiser": raiser})
    [clue] = files.of_files(Failure(str(error), "colab", (caught.value,)))
    assert clue.id == id and all(place in clue.observation for place in full)


def test_files_that_do_not_answer_are_not_waited_for(monkeypatch):
    answer = threading.Event()
    monkeypatch.setattr(traces, "ANSWER_WITHIN", 0.01)
    monkeypatch.setattr(
        files, "_ends", lambda paths: answer.wait(600)
    )  # longer than a test may take
    assert told("open('/nowhere/a.txt')").diagnoses == ()
    answer.set()


def test_a_look_at_files_that_fails_prints_nothing(monkeypatch, capsys):
    monkeypatch.setattr(files, "_ends", lambda paths: 1 / 0)
    assert told("open('/nowhere/a.txt')").diagnoses == ()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("asked", "free", "allocated", "unused", "id", "says"),
    [
        ("36.00 GiB", "10.22 GiB", "3.72 GiB", "264.21 MiB", "out-of-memory", "the whole GPU has 14.8 GiB"),
        ("216.00 MiB", "24.56 MiB", "69.17 MiB", "16.8 MiB", "gpu-held", "Another notebook or library holds"),
        ("20.00 MiB", "0.01 GiB", "6.80 GiB", "1.40 GiB", "out-of-memory", "own tensors hold 6.8"),
        ("13.90 GiB", "14.00 GiB", "0 bytes", "0 bytes", "out-of-memory", "nearly empty GPU"),
        ("0.50 GiB", "0.10 GiB", "6.90 GiB", "0.10 GiB", "gpu-held", "library holds 7.7 GiB"),
        ("20.00 MiB", "9.35 GiB", "0.8 GiB", "24.85 MiB", "out-of-memory", "was refused"),
        ("1.41 GiB", "1.20 GiB", "8.56 GiB", "3.74 GiB", "out-of-memory", "fragmented"),
        ("6.78 GiB", "5.71 GiB", "6.31 GiB", "1.49 GiB", "out-of-memory", "One piece of 6.8 GiB"),
        ("86.00 MiB", "80.81 MiB", "13.37 GiB", "0.42 GiB", "out-of-memory", "own tensors hold 13.4"),
        ("844.00 MiB", "498.75 MiB", "9.70 GiB", "0.45 GiB", "out-of-memory", "own tensors hold 9.7"),
    ],
)  # fmt: skip
def test_what_the_numbers_of_a_full_gpu_say(asked, free, allocated, unused, id, says):
    text = OUT_OF_MEMORY.format(asked=asked, free=free, allocated=allocated, unused=unused)
    [clue] = colab_doctor.explain_error(text, "colab").diagnoses
    assert clue.id == id and says in clue.observation


def test_another_library_of_this_session_may_hold_the_gpu():
    text = OUT_OF_MEMORY.format(
        asked="1.00 GiB", free="0.10 GiB", allocated="1.00 GiB", unused="1.00 MiB"
    )
    own = text.replace("Process 17435 has 240.00 MiB", "this process has 14.60 GiB")
    assert colab_doctor.explain_error(text, "colab").diagnoses[0].id == "gpu-held"
    [clue] = colab_doctor.explain_error(own, "colab").diagnoses
    assert (
        clue.id == "out-of-memory"
        and "another library in this session holds 13.6 GiB" in clue.observation
    )


def test_numbers_of_every_release():
    old = (
        "Tried to allocate 20.00 MiB (GPU 0; 3.00 GiB total capacity; 2.10 GiB already allocated; 14.36 MiB "
        "free; 2.20 GiB reserved in total by PyTorch)"
    )
    misspelt = OUT_OF_MEMORY.replace("capacity", "capacty").format(
        asked="1.00 KiB", free="0 bytes", allocated="1.00 GiB", unused="512.00 bytes"
    )
    said = memory.numbers(old)
    assert said.unused == pytest.approx(0.1 * GIB) and said.total == 3 * GIB
    said = memory.numbers(misspelt)
    assert (said.asked, said.free, said.unused) == (1024, 0, 512)
    assert memory.numbers("CUDA out of memory. Tried to allocate 2.00 GiB") is None


def _machine(monkeypatch, **shown):
    seen = dataclasses.replace(runtime.Evidence(), **shown)
    monkeypatch.setattr(runtime, "observe", lambda: seen)


@pytest.mark.parametrize(
    ("shown", "cuda", "id", "says"),
    [
        ({}, "12.8", "no-accelerator", "shows no GPU and no TPU"),
        ({"paths": ("/dev/nvidia0",), "env": {"CUDA_VISIBLE_DEVICES": ""}}, "12.8", "gpu-hidden", "hides it"),
        ({"paths": ("/dev/nvidia0",), "nvidia_smi": True, "packages": {"torch": "2.9"}}, "", "cpu-build",
         "PyTorch 2.9 is a build for CPUs"),
        ({"pci": ((0x1AE0, 0x0063),)}, "12.8", "no-accelerator", "has a TPU v5e, and no NVIDIA GPU"),
    ],
)  # fmt: skip
def test_why_no_gpu_is_seen(monkeypatch, shown, cuda, id, says):
    _machine(monkeypatch, **shown)
    monkeypatch.setattr(traces, "torch_cuda", lambda: cuda)
    [clue] = told("raise RuntimeError('No CUDA GPUs are available')").diagnoses
    assert clue.id == id and says in clue.observation


def test_a_tpu_that_is_there_is_not_told_to_be_no_gpu(monkeypatch):
    _machine(monkeypatch, pci=((0x1AE0, 0x0063),))
    [clue] = told(
        "raise RuntimeError(\"Unable to initialize backend 'tpu': UNAVAILABLE: No TPU found\")"
    ).diagnoses
    assert clue.id == "tpu-not-there" and "does have a TPU v5e" in clue.observation


def test_a_build_for_cpus_is_said_of_pytorch_alone(monkeypatch):
    _machine(monkeypatch, paths=("/dev/nvidia0",), nvidia_smi=True, packages={"torch": "2.9"})
    monkeypatch.setattr(traces, "torch_cuda", lambda: "")
    for text in (
        "No GPU/TPU found, falling back to CPU.",
        "Could not find cuda drivers on your machine, tensorflow",
    ):
        assert all(
            clue.id != "cpu-build" for clue in told(f"raise RuntimeError({text!r})").diagnoses
        )


def test_a_gpu_that_is_there_speaks_against_what_the_table_says(monkeypatch):
    _machine(monkeypatch, paths=("/dev/nvidia0",), nvidia_smi=True)
    monkeypatch.setattr(traces, "torch_cuda", lambda: "12.8")
    [clue] = told("raise RuntimeError('No CUDA GPUs are available')").diagnoses
    assert "so the runtime type is not the problem" in clue.observation
    assert told("raise RuntimeError('CUDA error: unknown error')").diagnoses == ()


def test_who_has_the_tpu(monkeypatch):
    monkeypatch.setattr(traces, "tpu_holders", lambda: (42, 77))
    [clue] = told(
        "raise RuntimeError('The TPU is already in use by process with pid 42.')"
    ).diagnoses
    assert re.match(r"Another process has the TPU open: 42.*, 77", clue.observation)
    assert clue.fix.endswith("`!kill 42 77`, then Runtime > Restart session.")
    monkeypatch.setattr(traces, "tpu_holders", lambda: ())
    assert (
        told("raise RuntimeError('The TPU is already in use by process with pid 42.')").diagnoses
        == ()
    )


@pytest.mark.parametrize(
    ("asked", "says"), [("9.31 TiB", "12.7 GiB"), ("3.73 GiB", "1.0 GiB are free")]
)
def test_an_array_that_is_too_large(monkeypatch, asked, says):
    _machine(monkeypatch, ram_total=int(12.7 * GIB), ram_available=GIB)
    text = f"Unable to allocate {asked} for an array with shape (500, 9) and data type float64"
    [clue] = told(f"raise MemoryError({text!r})").diagnoses
    assert says in clue.observation


@pytest.mark.parametrize(
    ("there", "says"),
    [
        ("libfoo.so.9", "`libfoo.so.9` is here, in `"),
        ("libfoo.so.8", "no `libfoo.so.9` here; there is `libfoo.so.8`."),
    ],
)
def test_where_a_library_is(session, tmp_path, there, says):
    folder = tmp_path / "site-packages/nvidia/foo/lib"
    folder.mkdir(parents=True)
    (folder / there).write_text("")
    session("asker", "import ctypes\nctypes.CDLL('libfoo.so.9')")
    said = told("import asker")
    assert says in said.meaning and said.id == "cuda-library-missing"


def test_a_package_that_was_installed_after_it_was_looked_for():
    code = "raise ImportError('Sums need NumPy. Install it with `pip install {}`')"
    said = told(code.format("numpy"))
    assert said.id == "install-named" and said.meaning.startswith("numpy 2")
    assert "Restart session" in said.fix
    said = told(code.format("no-such-package"))
    assert (said.id, said.diagnoses) == ("install-named", ())
    assert "%pip install" in said.finding.fix


def test_a_library_that_is_nowhere(session):
    session("asker", "import ctypes\nctypes.CDLL('libfoo_nowhere.so.9')")
    assert told("import asker").diagnoses == ()


def test_a_card_shows_this_case_instead_of_what_is_known():
    shown = colab_doctor.explain_error(FULL, "colab")
    for text in (str(shown), shown._repr_mimebundle_()["text/html"]):
        assert "36.0 GiB was asked for" in text and "No setting helps" in text
        assert "Runtime > Restart session first" not in text
    data = shown._repr_mimebundle_()
    assert any(isinstance(value, dict) and value.get("diagnoses") for value in data.values())
    assert str(Diagnosis("a", "b.", "c.")) == "b. c."
