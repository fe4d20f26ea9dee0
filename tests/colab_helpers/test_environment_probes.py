"""What problems leave behind on a machine, made here in small: folders, files and processes."""

import os
import subprocess
import sys
import threading

import pytest

from colab_helpers import _environment_probes, runtime


@pytest.mark.parametrize(
    ("line", "built_for"),
    [("cuda: Optional[str] = '13.0'", "13.0"), ("cuda = '12.8'", "12.8"), ("cuda = None", "")],
)
def test_pytorchs_cuda_is_read_without_importing_it(monkeypatch, tmp_path, line, built_for):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text(f"__version__ = '2.11.0'\n{line}\nhip = None\n")
    dist = tmp_path / "torch-2.11.0.dist-info"
    dist.mkdir()
    (dist / "METADATA").write_text("Name: torch\nVersion: 2.11.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert _environment_probes.torch_cuda() == built_for


def test_no_pytorch(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert _environment_probes.torch_cuda() is None


def test_cudas_libraries_are_found_as_files_and_as_packages(tmp_path):
    assert _environment_probes.cublas({}, root=tmp_path) == ()
    folder = tmp_path / "usr/local/cuda-13.3/lib64"
    folder.mkdir(parents=True)
    (folder / "libcublas.so.13").touch()
    (folder / "libcublas.so.13.3.1").touch()
    (folder / "libcublas.so").touch()
    assert _environment_probes.cublas({}, root=tmp_path) == (13,)
    assert _environment_probes.cublas({"nvidia-cublas-cu12": "12.8"}, root=tmp_path) == (12, 13)


def test_a_process_that_has_the_tpu_open_is_found(tmp_path):
    chip = tmp_path / "vfio-0"
    chip.touch()
    program = f"import time; f = open({str(chip)!r}); print('open', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        try:
            assert _environment_probes.tpu_holders(devices=[chip]) == (other.pid,)
        finally:
            other.kill()
    assert _environment_probes.tpu_holders(devices=[chip]) == ()


def test_this_process_is_no_other(tmp_path):
    chip = tmp_path / "vfio-0"
    with chip.open("w"):
        assert _environment_probes.tpu_holders(devices=[chip]) == ()


def test_the_notebook_that_asks_a_child_is_no_other(tmp_path):
    """`!colab-helpers card` runs below the kernel, which may have the TPU itself."""
    chip = tmp_path / "vfio-0"
    probes = "from colab_helpers import _environment_probes as probes"
    code = f"{probes}; print(probes.tpu_holders(devices=[{str(chip)!r}]))"
    with chip.open("w"):
        command = ["sh", "-c", f'"{sys.executable}" -c "{code}"; true']
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "()"


def test_no_tpu_asks_nobody(monkeypatch):
    monkeypatch.setattr(_environment_probes, "_has_open", lambda *_: pytest.fail("asked"))
    assert _environment_probes.tpu_holders(devices=[]) == ()


def test_drive(monkeypatch, tmp_path):
    assert _environment_probes.drive(tmp_path / "drive") == ""
    (tmp_path / "drive").mkdir()
    assert _environment_probes.drive(tmp_path / "drive") == ""  # nobody has mounted or written
    (tmp_path / "drive" / "MyDrive").mkdir()
    assert _environment_probes.drive(tmp_path / "drive") == "not mounted"
    answer = threading.Event()
    monkeypatch.setattr(
        _environment_probes, "_drive", lambda _: answer.wait(600)
    )  # longer than a test may take
    monkeypatch.setattr(_environment_probes, "DRIVE_TIMEOUT", 0.1)
    assert _environment_probes.drive(tmp_path / "drive") == "does not answer"
    answer.set()


class Dropped(type(_environment_probes.Path())):
    """A folder as a mount that was lost shows it."""

    def stat(self, **_):
        raise OSError(107, os.strerror(107))


@pytest.mark.skipif(sys.platform != "linux", reason="errors are named otherwise elsewhere")
def test_a_mount_that_was_lost():
    assert _environment_probes.drive(Dropped("/content/drive")) == (
        "does not answer (Transport endpoint is not connected)"
    )


def test_a_working_folder_that_is_gone(monkeypatch, tmp_path):
    """As when it lies on a Drive that dropped: the machine is described all the same."""

    def lost():
        raise OSError(107, "Transport endpoint is not connected")

    monkeypatch.setattr(_environment_probes.Path, "cwd", lost)
    assert _environment_probes.working_folder() == _environment_probes.Path("/")
    assert runtime.probe().disk_total > 0
