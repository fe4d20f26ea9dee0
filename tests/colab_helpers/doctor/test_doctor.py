"""Errors as recorded, notebooks from the days of other TPUs, and what the preflight says."""

import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from colab_helpers import doctor
from colab_helpers.__main__ import main
from colab_helpers.doctor import raised

#: error as recorded -> id. Sources: the issues that each problem names; TensorFlow 2.21, PyTorch
#: 2.13 and pip's resolver, run.
ERRORS = {
    "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU "
    "and installed a driver from http://www.nvidia.com/Download/index.aspx": "no-accelerator",
    "RuntimeError: No CUDA GPUs are available": "no-accelerator",
    "OSError: [Errno 5] Input/output error: '/content/drive/MyDrive/images/3.png'": "drive-small-files",
    "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory. "
    "This is an internal miniz error.": "checkpoint-broken",
    "RuntimeError: unexpected EOF, expected 2304 more bytes. The file might be corrupted.":
    "checkpoint-broken",
    "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file not "
    "fully covered": "checkpoint-broken",
    'RuntimeError: Error(s) in loading state_dict for Linear:\n\tMissing key(s) in state_dict: "weight".':
    "checkpoint-of-another",
    "ValueError: loaded state dict contains a parameter group that doesn't match the size of "
    "optimizer's group": "checkpoint-of-another",
    "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded, to do so you "
    "have two options": "pickle-refused",
    "Resume with the names that were saved: what is left out would start over.": "resume-anew",
    "CUDA driver initialization failed, you might not have a CUDA gpu.": "no-accelerator",
    "/bin/bash: line 1: nvidia-smi: command not found": "no-accelerator",
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
    "the latest NVIDIA driver is installed and running.": "no-accelerator",
    "I external/local_xla/xla/tsl/cuda/cudart_stub.cc:31] Could not find cuda drivers on your "
    "machine, GPU will not be used.": "no-accelerator",
    "Cannot connect to GPU backend": "no-backend",
    "You cannot currently connect to a GPU due to usage limits in Colab.": "no-backend",
    "Failed to initialize NVML: Driver/library version mismatch": "silent-driver",
    "AssertionError: Torch not compiled with CUDA enabled": "no-accelerator",
    "failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: UNKNOWN ERROR (303)":
    "no-accelerator",
    "Failed to assign a backend": "no-backend",
    "No backend with GPU available": "no-backend",
    "RuntimeError: The NVIDIA driver on your system is too old (found version 12080).": "cuda-too-new",
    "CUDA error: no kernel image is available for execution on the device": "no-kernel-image",
    "Could not load dynamic library 'libcublas.so.12'; dlerror: libcublas.so.12: cannot open shared "
    "object file: No such file or directory": "tensorflow-cuda",
    "W0000 gpu_device.cc:2431] Cannot dlopen some GPU libraries.": "tensorflow-cuda",
    "TPUs not found in the cluster. Failed in initialization: No OpKernel was registered to support "
    "Op 'ConfigureDistributedTPU' used by {{node ConfigureDistributedTPU}} with these attrs: "
    '[embedding_config="", is_global_init=false]\nRegistered devices: [CPU]': "tpu-plain-tensorflow",
    "Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by process with pid "
    "176028. Not attempting to load libtpu.so in this process.": "tpu-in-use",
    "libtpu.so already in use by another process probably owned by another user.": "tpu-in-use",
    "open(/dev/vfio/0): Device or resource busy: Couldn't open iommu group": "tpu-in-use",
    "A Google TPU may be present on this machine, but either a TPU-enabled jaxlib or libtpu is not "
    "installed. Falling back to cpu.": "tpu-without-libtpu",
    "ModuleNotFoundError: No module named 'tensorflow'": "tpu-without-tensorflow",
    "ValueError: Please provide a TPU Name to connect to.": "tpu-node",
    "KeyError: 'COLAB_TPU_ADDR'": "tpu-node",
    "ModuleNotFoundError: No module named 'jax.tools.colab_tpu'": "tpu-node",
    "failed to connect to all addresses: grpc://10.60.12.2:8470": "tpu-node",
    "ModuleNotFoundError: No module named 'sklearn'": "package-missing",
    "ModuleNotFoundError: No module named 'colab_helpers'": "helper-missing",
    "/bin/bash: line 1: colab-helpers: command not found": "helper-missing",
    "AttributeError: module 'torch' has no attribute 'accelerator'": "old-torch",
    "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C "
    "header, got 88 from PyObject": "restart-needed",
    "ImportError: numpy.core.multiarray failed to import": "restart-needed",
    "ImportError: numpy._core.umath failed to import": "restart-needed",
    "A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.0.2 as it may crash.":
    "numpy-abi",
    "AttributeError: _ARRAY_API not found": "numpy-abi",
    "ImportError: Found an incompatible version of torchao. Found version 0.10.0, but only versions "
    "above 0.16.0 are supported": "torchao-peft",
    "AttributeError: 'MessageFactory' object has no attribute 'GetPrototype'": "protobuf-tensorflow",
    "TypeError: Descriptors cannot be created directly.": "protobuf-old",
    "TypeError: Descriptors cannot not be created directly.": "protobuf-old",
    "google.protobuf.runtime_version.VersionError: Detected incompatible Protobuf Gencode/Runtime "
    "versions when loading x.proto: gencode 6.31.1 runtime 5.29.6.": "protobuf-old",
    "Your session crashed after using all available RAM.": "session-crashed",
    "Your session crashed for an unknown reason.": "crash-without-reason",
    "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 74.5 GiB for an array with shape "
    "(100000, 100000) and data type float64": "session-crashed",
    "MemoryError": "session-crashed",
    "RuntimeError: [enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate "
    "memory: you tried to allocate 4000000000000 bytes. Error code 12 (Cannot allocate memory)":
    "session-crashed",
    "The kernel for old.ipynb appears to have died. It will restart automatically.":
    "crash-without-reason",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total "
    "capacity of 14.56 GiB of which 15.81 MiB is free.": "out-of-memory",
    "RuntimeError: CUDA error: out of memory": "out-of-memory",
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
    "allocate 68719476736 bytes.": "out-of-memory",
    "ResourceExhaustedError: OOM when allocating tensor with shape[4096,4096]": "out-of-memory",
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, "
    "cuda:0 and cpu!": "two-devices",
    "TypeError: can't convert cuda:0 device type tensor to numpy.": "tensor-to-numpy",
    "torch.AcceleratorError: CUDA error: device-side assert triggered": "device-assert",
    "Runtime disconnected": "disconnected",
    "OSError: [Errno 28] No space left on device": "little-disk",
    "OSError: [Errno 107] Transport endpoint is not connected: '/content/drive'": "drive-dropped",
    "ValueError: Mountpoint must not already contain files": "drive-folder",
}  # fmt: skip


@pytest.mark.parametrize("error", ERRORS)
def test_recorded_error_is_explained(error):
    finding = doctor.explain_error(error).finding
    assert finding.id == ERRORS[error] and finding.severity == "stop"
    assert finding.seen and finding.remedy and finding.link.endswith(f"#{finding.id}")


def test_the_way_out_depends_on_the_platform_and_names_the_package():
    error = "ModuleNotFoundError: No module named 'sklearn'"
    assert "%pip install scikit-learn" in doctor.explain_error(error, "kaggle").finding.remedy
    error = "numpy.dtype size changed"
    assert "Runtime >" in doctor.explain_error(error, "colab").finding.remedy
    assert "Runtime >" not in doctor.explain_error(error, "local").finding.remedy


def test_an_exception_is_explained_like_its_text():
    assert doctor.explain_error(KeyError("COLAB_TPU_ADDR")).id == "tpu-node"


@pytest.mark.parametrize(
    "error",
    [
        "",
        "ValueError: shapes do not match",
        "Unable to load libtpu",
        "429 RESOURCE_EXHAUSTED. You exceeded your current quota",  # a service, not a chip
        "java.lang.OutOfMemoryError: Java heap space",
        "ModuleNotFoundError: No module named 'somebody_elses'",
    ],
)
def test_other_errors_are_not_explained(error):
    assert not doctor.explain_error(error)


def notebook(*cells, **colab):
    cells = [{"cell_type": "code", "source": source} for source in cells]
    return {"metadata": {"colab": colab}, "cells": cells}


def test_notebook_that_asks_for_a_retired_tpu():
    [finding] = doctor.explain_notebook(notebook(gpuType="V28"))
    assert finding.id == "tpu-retired" and "v5e-1 TPU" in finding.remedy


def test_old_lines_are_found_with_their_cell_and_what_replaces_them():
    old = notebook(
        "import os",
        [
            "tpu = tf.distribute.cluster_resolver.TPUClusterResolver()\n",
            "tf.config.experimental_connect_to_cluster(tpu)\n",
        ],
        "strategy = tf.distribute.experimental.TPUStrategy(tpu)",
        "tpu = tf.distribute.cluster_resolver.TPUClusterResolver(tpu='')",
        "from jax.tools.colab_tpu import setup_tpu",
        gpuType="T4",
    )
    seen = [finding.seen for finding in doctor.explain_notebook(old)]
    assert [text.partition(":")[0] for text in seen] == [
        "Cell 2, line 1 (and in 4)",
        "Cell 2, line 2",
        "Cell 3, line 1",
        "Cell 5, line 1",
    ]


READS_DRIVE = (
    "for f in os.listdir('/content/drive/MyDrive/train'):\n    images.append(cv2.imread(f))"
)
TRAINS = "loss.backward()\noptimizer.step()\ntorch.save(model.state_dict(), path)"
LOADS = "model.load_state_dict(torch.load(path))"


def test_notebook_that_reads_each_file_from_drive():
    [finding] = doctor.explain_notebook(notebook("import cv2", READS_DRIVE))
    assert finding.id == "drive-small-files" and finding.seen.startswith("Cell 2")
    assert doctor.explain_notebook(notebook(READS_DRIVE.replace("drive/MyDrive", "data"))) == ()


@pytest.mark.parametrize(
    "line",
    [
        "optimizer.load_state_dict(state)",
        "self.opt.load_state_dict(s)",
        "optim['a'].load_state_dict(s)",
    ],
)
def test_notebook_that_resumes_without_its_optimiser(line):
    [finding] = doctor.explain_notebook(notebook(TRAINS, LOADS))
    assert finding.id == "resume-anew" and "lesson 09" in finding.remedy
    assert doctor.explain_notebook(notebook(TRAINS, LOADS, line.replace("['a']", "[a]"))) == ()
    assert doctor.explain_notebook(notebook(LOADS)) == ()  # it does not train


def test_todays_notebook_is_left_alone():
    assert doctor.explain_notebook(notebook("jax.devices()", gpuType="V5E1")) == ()
    assert doctor.explain_notebook({}) == ()


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (json.dumps(notebook("import jax")), 0, "nothing found"),
        (json.dumps(notebook(gpuType="V28")), 1, "v2-8"),
        ("\ufeff" + json.dumps(notebook("import jax")), 0, "nothing found"),
        ('{"metadata": {"colab": null}, "cells": [{"cell_type": "code"}]}', 0, "nothing found"),
        ('{"metadata": [1], "cells": [3, null, "x", [], {}]}', 0, "nothing found"),
        (
            '{"metadata": {"colab": [2]}, "cells": [{"cell_type": "code", "source": 3}]}',
            0,
            "nothing found",
        ),
        (
            '{"cells": [{"cell_type": "code", "source": [1, null, "os.environ[\\"COLAB_TPU_ADDR\\"]"]}]}',
            1,
            "Cell 1",
        ),
        ('{"cells": [{"cell_type": ["code"], "source": {"a": 1}}]}', 0, "nothing found"),
        ("no JSON", 2, "is not a notebook"),
        ("[1]", 2, "is not a notebook"),
        ('{"seconds": 3}', 2, "is not a notebook"),
        ('{"cells": {"a": 1}}', 2, "is not a notebook"),
        ("[" * 100_000, 2, "is not a notebook"),
    ],
)
def test_doctor_judges_a_notebook(tmp_path, capsys, content, code, words):
    path = tmp_path / "old.ipynb"
    path.write_text(content)
    assert main(["doctor", "--notebook", str(path)]) == code
    told = capsys.readouterr()
    assert words in told.out + told.err and "Traceback" not in told.err


def test_a_notebook_that_is_not_there(tmp_path, capsys):
    assert main(["doctor", "--notebook", str(tmp_path / "none.ipynb")]) == 2
    assert "cannot be read: No such file" in capsys.readouterr().err
    binary = tmp_path / "binary.ipynb"
    binary.write_bytes(b"\xff\xfe\x00" * 99)
    assert main(["doctor", "--notebook", str(binary)]) == 2
    assert "is not a notebook" in capsys.readouterr().err


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["pipe", "/dev/zero", "folder"])
def test_what_never_ends_is_not_read(tmp_path, kind):
    path = Path(kind) if kind.startswith("/") else tmp_path / kind
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    done = in_terminal(["--notebook", str(path)])
    assert (done.returncode, done.stderr) == (2, f"{path} is no file.\n")


def in_terminal(arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "colab_helpers", "doctor", *arguments],
        **{
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
            "timeout": 60,
            **options,
        },
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has /dev/full")
def test_an_answer_that_cannot_be_written_is_told_in_one_line():
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = in_terminal([], stdout=full)
    assert (done.returncode, done.stderr) == (
        2, "The answer could not be written: No space left on device.\n"
    )  # fmt: skip


def test_a_reader_that_goes_away_is_no_error():
    read, write = os.pipe()
    os.close(read)
    done = in_terminal(["--error", "CUDA out of memory"], stdout=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_standard_input_that_is_closed_is_told():
    command = f"exec {sys.executable} -m colab_helpers doctor --error - <&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "Standard input cannot be read" in done.stderr


HOSTILE = {
    "devices": "/dev/vfio" * 120_000,
    "libraries": "libcublas.so.12" * 70_000,
    "blanks": "TPUClusterResolver(" + " " * 1_000_000,
    "worker": "DataLoader worker " * 60_000,
    "brackets": "(" * 500_000 + ")" * 500_000,
    "lines": "\n" * 1_000_000,
    "exhausted": "RESOURCE_EXHAUSTED:" * 55_000,
    "any": "".join(chr(33 + 7919 * i % 90) for i in range(1_000_000)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_megabyte_of_hostile_text_is_judged_in_a_second(name):
    doctor.known_problems()
    start = time.perf_counter()
    doctor.explain_error(HOSTILE[name], "colab")
    doctor.explain_notebook(notebook(HOSTILE[name]))
    assert time.perf_counter() - start < 1


def test_no_pattern_repeats_without_end():
    for problem in doctor.known_problems().values():
        for pattern in problem.errors:
            assert not re.search(r"(?<!\\)[*+]|\{\d*,\}", pattern), pattern


def test_a_long_text_is_looked_at_from_both_ends_and_no_further():
    text = "a" * 100_000 + "CUDA out of memory" + "b" * 900_000
    assert not doctor.explain_error(text)
    assert len(raised.plain(text)) < 70_000
    assert raised.plain("x" * 65_536) == "x" * 65_536


def test_the_error_at_the_end_of_a_long_log_is_found():
    log = "INFO step\n" * 100_000
    assert doctor.explain_error(log + "RuntimeError: CUDA out of memory").id == "out-of-memory"
    assert doctor.explain_error("CUDA out of memory\n" + log).id == "out-of-memory"


def test_doctor_explains_an_error(capsys, monkeypatch):
    assert main(["doctor", "--error", "CUDA out of memory"]) == 0
    assert "smaller batch" in capsys.readouterr().out
    assert main(["doctor", "--error", "CUDA", "out", "of", "memory"]) == 0  # without quotes
    capsys.readouterr()
    for unknown in ("something else", "", "   "):
        assert main(["doctor", "--error", unknown]) == 1
        assert "not in the table" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.StringIO("KeyError: 'COLAB_TPU_ADDR'"))
    assert main(["doctor", "--json", "--error", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["finding"]["id"] == "tpu-node"


def test_an_error_without_a_text_is_not_an_error():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    assert not doctor.explain_error(Mute())
