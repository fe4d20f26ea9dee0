"""What an error and the session it was raised in show: of packages, files, the GPU's memory, the machine."""

import dataclasses
import errno
import importlib
import os
import re
import sys
import time
from pathlib import Path

import pytest

from colab_helpers import _traces as traces
from colab_helpers import doctor, runtime
from colab_helpers._units import GIB
from colab_helpers.doctor.clues import Clue, Raised, files, installed, look, memory, packages

OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked}. GPU 0 has a total capacity of "
    "14.75 GiB of which {free} is free. Including non-PyTorch memory, this process has 14.0 GiB memory in "
    "use. Of the allocated memory {allocated} is allocated by PyTorch, and {unused} is reserved by PyTorch "
    "but unallocated."
)
FULL = OUT_OF_MEMORY.format(
    asked="36.00 GiB", free="1.00 GiB", allocated="3.00 GiB", unused="1.00 MiB"
)


@pytest.fixture
def session(tmp_path, monkeypatch):
    """A session with two packages, `asker` and `provider`, made anew for each test."""
    site = tmp_path / "site-packages"
    monkeypatch.syspath_prepend(site)

    def package(name, code, version="2.1.3", needs=(), old=True):
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").write_text(code)
        about = site / f"{name}-{version}.dist-info"
        about.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {each}" for each in needs]
        (about / "METADATA").write_text("\n".join(lines))
        (about / "RECORD").write_text(
            f"{name}/__init__.py,,\n{name}-{version}.dist-info/METADATA,,\n"
        )
        if old:
            before = time.time() - traces.running() - 3600
            os.utime(about / "METADATA", (before, before))
        importlib.invalidate_caches()

    yield package
    for name in ("asker", "provider"):
        sys.modules.pop(name, None)


def told(code):
    """What the doctor says of the error of a cell."""
    with pytest.raises(Exception) as caught:
        exec(compile(code, "<ipython-input-1>", "exec"), {"__name__": "__main__"})
    return doctor.explain_error(caught.value, "colab")


@pytest.mark.parametrize(
    ("asks", "what"),
    [
        ("from provider import gone", "`provider.gone`"),
        ("import provider; provider.gone", "`provider.gone`"),
        ("import provider.gone", "`provider.gone`"),
        ("import provider; provider.Box().gone", "`Box.gone`"),
        ("import provider; provider.Box.gone", "`Box.gone`"),
        ("import provider; provider.make(gone=1)", "`gone=` in `make()`"),
        ("from provider import Box; Box(gone=1)", "`gone=` in `Box()`"),
        ("import provider as p\nclass Mine(p.Box):\n  def __init__(self): super().__init__(gone=1)\nMine()",
         "`gone=` in `Box()`"),
        ("try:\n import provider; provider.gone\nexcept AttributeError as e:\n raise RuntimeError() from e",
         "`provider.gone`"),
    ],
)  # fmt: skip
def test_who_asked_whom_for_what(session, asks, what):
    session("provider", "class Box:\n    def __init__(self): pass\ndef make(): pass")
    session("asker", asks, "0.9")
    explained = told("import asker")
    assert explained.id == "library-mismatch"
    assert (
        explained.finding.seen == f"asker 0.9 asks for {what}, which provider 2.1.3 does not have."
    )
    assert "`%pip install -U asker`" in explained.finding.remedy
    assert '`%pip install "provider<2.1"`' in explained.finding.remedy


def test_a_module_that_says_itself_that_a_name_is_gone(session):
    session("provider", "def __getattr__(name): raise AttributeError(f'{name} was removed')")
    session("asker", "import provider; provider.gone")
    assert "asker 2.1.3 asks for `provider.gone`" in told("import asker").finding.seen


@pytest.mark.parametrize(
    "fails",
    [
        "from provider import Box\nclass Mine:\n    @property\n    def a(self): return Box().gone\nMine().a",
        "raise ValueError('no')",
        "{}['a']",
        "None.gone",
        "import json; json.gone",
    ],
)
def test_what_is_no_matter_between_two_packages(session, fails):
    """A property in which something fails looks from outside as if it were not there."""
    session("provider", "class Box: pass")
    session("asker", fails)
    said = str(told("import asker"))
    assert "which provider" not in said or "`Box.gone`" in said


def test_what_a_package_says_that_it_needs_comes_first(session):
    session("provider", "")
    session(
        "asker",
        "from provider import gone",
        needs=["provider<2,>=1.4", "absent>=9; extra == 'all'"],
    )
    finding = told("import asker").finding
    assert finding.seen == "asker 2.1.3 asks for provider<2,>=1.4, and provider 2.1.3 is installed."
    assert finding.remedy.startswith('`%pip install "provider<2,>=1.4"`')


def test_a_need_that_the_error_does_not_name_is_a_guess_and_called_so(session):
    session("provider", "")
    session("asker", "raise RuntimeError('something else')", needs=["provider<2"])
    assert told("import asker").finding.seen.endswith("2.1.3 is installed: that may be the cause.")


def test_no_guess_where_a_package_only_ran(session):
    session("provider", "")
    session("asker", "def run(): raise RuntimeError('something else')", needs=["provider<2"])
    assert not told("import asker; asker.run()")


def test_without_anything_that_reads_requirements(session, monkeypatch):
    monkeypatch.setattr(installed, "_requirement", lambda: importlib.import_module("absent.module"))
    session("provider", "")
    session("asker", "from provider import gone", needs=["provider<2"])
    assert "`provider.gone`" in told("import asker").finding.seen


@pytest.mark.skipif(not traces.running(), reason="when this process started is unknown here")
def test_a_package_that_was_replaced_under_the_session(session, tmp_path):
    session("provider", "__version__ = '1.0'")
    importlib.import_module("provider")
    said = told("import provider; provider.gone")
    assert (
        said.id == "name-not-there"
    )  # another version by its own name is no sign alone: some always differ
    (tmp_path / "site-packages/provider-2.1.3.dist-info/METADATA").touch()
    said = told("import provider; provider.gone")
    assert said.id == "restart-needed"
    assert "provider 1.0 is loaded, and 2.1.3 was installed since" in said.finding.seen
    assert said.finding.remedy == "Runtime > Restart session, then run from the top."


def test_a_restart_that_is_due_comes_before_what_the_table_says(session, tmp_path):
    session("provider", "__version__ = '1.0'", old=False)
    session(
        "asker",
        "import provider; raise ImportError('libGL.so.1: cannot open shared object file: provider')",
    )
    said = told("import asker")
    assert (said.id, said.also.id) == ("restart-needed", "opencv-libgl")


def test_compiled_for_another_numpy(session):
    text = "numpy.dtype size changed, may … Expected {} from C header, got {} from PyObject"
    session("asker", f"raise ValueError({text.format(96, 88)!r})", "1.5.3")
    assert "asker 1.5.3 was compiled for NumPy 1, and numpy" in str(told("import asker"))
    (Path(sys.path[0]) / "asker/__init__.py").write_text(
        f"raise ValueError({text.format(88, 96)!r})  # and more"
    )
    said = str(told("import asker"))
    assert (
        "compiled for NumPy 2" in said
        and "`%pip install -U numpy`" in said
        and '"asker<1.5"' in said
    )


def test_a_name_of_ones_own_cell(session):
    session("provider", "restore = 1")
    finding = told("import provider; provider.restored").finding
    assert finding.id == "name-not-there"
    assert finding.seen == (
        "Your cell asks for `provider.restored`, which provider 2.1.3 does not have. It has `restore`."
    )


def test_own_code_is_named_by_its_file_and_is_no_package(session, tmp_path, monkeypatch):
    session("provider", "")
    own = tmp_path / "project"
    own.mkdir()
    (own / "asker.py").write_text("from provider import gone")
    monkeypatch.syspath_prepend(own)
    session("asker", "")  # a package of that name, which the own file hides
    assert told("import asker").finding.seen.startswith(f"`{own / 'asker.py'}` asks for")


def test_an_own_file_that_hides_a_package(session, tmp_path, monkeypatch):
    session("provider", "value = 1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "provider.py").write_text("")
    said = told("import provider; provider.value")
    assert said.id == "broken-install"
    assert f"`provider` was read from `{tmp_path / 'provider.py'}`" in str(said)


def test_a_package_of_another_python(tmp_path, monkeypatch):
    (tmp_path / ".venv/lib/python3.9/site-packages/only_there").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    finding = told("import only_there").finding
    assert finding.id == "another-python" and "`%pip install only_there`" in finding.remedy
    assert not told("import nowhere_at_all").clues


def test_how_far_a_path_leads(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "Train.csv").write_text("")
    finding = told(f"open({str(tmp_path / 'data' / 'train.csv')!r})").finding
    assert finding.id == "no-such-file"
    assert (
        finding.seen
        == f"`{tmp_path / 'data'}` is there, and in it is no `train.csv`: it has `Train.csv`."
    )
    assert "it has `data`" in told(f"open({str(tmp_path / 'dat' / 'a')!r})").finding.seen
    monkeypatch.chdir(tmp_path / "data")
    seen = told("open('other/a.txt')").finding.seen
    assert "no `other`: it has 1 other names. The path is relative; this session stands in" in seen
    (tmp_path / "data" / "Train.csv").unlink()
    assert "it is empty" in told("open('a')").finding.seen


@pytest.mark.parametrize(
    ("answer", "id"),
    [("", "no-such-file"), ("does not answer (x)", "drive-dropped"), ("mounted", None)],
)
def test_a_path_on_drive(tmp_path, monkeypatch, answer, id):
    monkeypatch.setattr(traces, "DRIVE", str(tmp_path / "drive"))
    monkeypatch.setattr(traces, "drive", lambda: answer)
    said = told(f"open({str(tmp_path / 'drive/MyDrive/a.txt')!r})")
    assert ("drive.mount" in said.finding.remedy) == (answer != "mounted")
    assert id is None or said.id == id


@pytest.mark.parametrize(
    ("full", "id"), [(("/tmp", "/dev/shm"), "little-disk"), (("/dev/shm",), "shared-memory")]
)
def test_which_disk_is_full(monkeypatch, tmp_path, full, id):
    free = dataclasses.make_dataclass("Usage", ["free"])
    monkeypatch.setattr(
        files.shutil, "disk_usage", lambda path: free(GIB / 2 if str(path) in full else 60 * GIB)
    )
    monkeypatch.chdir("/")
    error = OSError(errno.ENOSPC, "No space left on device")
    [clue] = files.clues(Raised(str(error), "colab", (error,)))
    assert clue.id == id and all(place in clue.seen for place in full)


@pytest.mark.parametrize(
    ("asked", "free", "allocated", "unused", "id", "says"),
    [
        ("36.00 GiB", "10.22 GiB", "3.72 GiB", "264.21 MiB", "out-of-memory", "the whole GPU has 14.8 GiB"),
        ("216.00 MiB", "24.56 MiB", "69.17 MiB", "16.8 MiB", "gpu-held", "held by somebody else"),
        ("20.00 MiB", "9.35 GiB", "0.8 GiB", "24.85 MiB", "out-of-memory", "refused all the same"),
        ("1.41 GiB", "1.20 GiB", "8.56 GiB", "3.74 GiB", "out-of-memory", "fragmented"),
        ("6.78 GiB", "5.71 GiB", "6.31 GiB", "1.49 GiB", "out-of-memory", "One tensor of 6.8 GiB"),
        ("86.00 MiB", "80.81 MiB", "13.37 GiB", "0.42 GiB", "out-of-memory", "own tensors fill the GPU"),
        ("844.00 MiB", "498.75 MiB", "9.70 GiB", "0.45 GiB", "out-of-memory", "holds 4.1 GiB"),
    ],
)  # fmt: skip
def test_what_the_numbers_of_a_full_gpu_say(asked, free, allocated, unused, id, says):
    text = OUT_OF_MEMORY.format(asked=asked, free=free, allocated=allocated, unused=unused)
    [clue] = doctor.explain_error(text, "colab").clues
    assert clue.id == id and says in clue.seen


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
        ({"pci": ((0x1AE0, 0x0063),)}, "12.8", "no-accelerator", "has TPU v5e, and no NVIDIA GPU"),
    ],
)  # fmt: skip
def test_why_no_gpu_is_seen(monkeypatch, shown, cuda, id, says):
    _machine(monkeypatch, **shown)
    monkeypatch.setattr(traces, "torch_cuda", lambda: cuda)
    [clue] = told("raise RuntimeError('No CUDA GPUs are available')").clues
    assert clue.id == id and says in clue.seen


def test_a_gpu_that_is_there_speaks_against_what_the_table_says(monkeypatch):
    _machine(monkeypatch, paths=("/dev/nvidia0",), nvidia_smi=True)
    monkeypatch.setattr(traces, "torch_cuda", lambda: "12.8")
    [clue] = told("raise RuntimeError('No CUDA GPUs are available')").clues
    assert "that none was chosen is not the cause" in clue.seen
    assert told("raise RuntimeError('CUDA error: unknown error')").clues == ()


def test_who_has_the_tpu(monkeypatch):
    monkeypatch.setattr(traces, "tpu_holders", lambda: (42, 77))
    [clue] = told("raise RuntimeError('The TPU is already in use by process with pid 42.')").clues
    assert clue.seen == "Another process has the TPU open: 42, 77."
    assert clue.remedy == "`!kill -9 42 77`, then Runtime > Restart session."
    monkeypatch.setattr(traces, "tpu_holders", lambda: ())
    assert (
        told("raise RuntimeError('The TPU is already in use by process with pid 42.')").clues == ()
    )


@pytest.mark.parametrize(
    ("asked", "says"), [("9.31 TiB", "has 12.7 GiB"), ("3.73 GiB", "1.0 GiB are free")]
)
def test_an_array_that_is_too_large(monkeypatch, asked, says):
    _machine(monkeypatch, ram_total=int(12.7 * GIB), ram_available=GIB)
    text = f"Unable to allocate {asked} for an array with shape (500, 9) and data type float64"
    [clue] = told(f"raise MemoryError({text!r})").clues
    assert says in clue.seen


def test_of_a_text_from_elsewhere_this_session_says_nothing(tmp_path):
    text = f"FileNotFoundError: [Errno 2] No such file or directory: '{tmp_path / 'a.txt'}'"
    assert doctor.explain_error(text).clues == ()
    assert doctor.explain_error("RuntimeError: No CUDA GPUs are available").clues == ()


TRACEBACK = """Traceback (most recent call last):
  File "/content/run.py", line 1, in <module>
    import albumentations
  File "/usr/lib/python3.12/dist-packages/albumentations/core.py", line 9, in <module>
    from albucore.utils import preserve_channel_dim
{middle}{error}
"""


@pytest.mark.parametrize(
    ("middle", "error", "what"),
    [
        ("", "ImportError: cannot import name 'gone' from 'albucore.utils' (/x.py)", "utils.gone"),
        ("", "AttributeError: module 'albucore' has no attribute 'gone'", "gone"),
        ("", "ModuleNotFoundError: No module named 'albucore.gone'", "gone"),
        ('  File "/usr/lib/python3.12/dist-packages/albucore/__init__.py", line 2, in __getattr__\n',
         "AttributeError: module 'albucore' has no attribute 'gone'", "gone"),
    ],
)  # fmt: skip
def test_who_asked_whom_in_a_text(middle, error, what):
    explained = doctor.explain_error(TRACEBACK.format(middle=middle, error=error))
    assert explained.id == "library-mismatch"
    assert explained.finding.seen.startswith(
        f"albumentations asks for `albucore.{what}`, which the albucore"
    )
    assert (
        "`%pip install -U albumentations`, then Runtime > Restart session"
        in explained.finding.remedy
    )


@pytest.mark.parametrize(
    ("middle", "error"),
    [
        ("", "ModuleNotFoundError: No module named 'albucore'"),
        ("", "AttributeError: module 'albumentations' has no attribute 'gone'"),
        ("", "AttributeError: module 'json' has no attribute 'gone'"),
        (
            '  File "/content/x.py", line 2, in f\n',
            "AttributeError: module 'albucore' has no attribute 'gone'",
        ),
    ],
)
def test_a_text_in_which_no_package_asked_another(middle, error):
    assert not doctor.explain_error(TRACEBACK.format(middle=middle, error=error))


def test_a_look_that_fails_leaves_the_others(monkeypatch, session):
    def broken(raised):
        raise ValueError("a fault of ours")

    monkeypatch.setattr("colab_helpers.doctor.clues._LOOKS", (broken, packages.clues))
    session("provider", "")
    session("asker", "from provider import gone")
    assert "`provider.gone`" in str(told("import asker"))
    monkeypatch.setattr("colab_helpers.doctor.clues._LOOKS", (broken,))
    assert look(Raised("x", "colab", (ValueError("x"),))) == ()


def test_an_error_whose_text_cannot_be_made(session):
    class Mute(ImportError):
        def __str__(self):
            raise ValueError

    assert look(Raised("", "colab", (Mute(),))) == ()


def test_a_card_shows_the_clue_and_what_is_known():
    shown = doctor.explain_error(FULL, "colab")
    html = shown._repr_mimebundle_()["text/html"]
    assert html.index("<b>In this case:</b>") < html.index("<b>What to do:</b>")
    assert re.search(
        r"(?s)In this case: One tensor.*What to do in this case: .*What to do: ", str(shown)
    )
    data = shown._repr_mimebundle_()
    assert any(isinstance(value, dict) and value.get("clues") for value in data.values())
    assert str(Clue("a", "b.", "c.")) == "b. c."
