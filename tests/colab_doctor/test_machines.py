"""What files, libraries, memory and chips of a machine say of an error that was raised there."""

import pytest

import colab_doctor
from colab_doctor.diagnosis import Diagnosis, memory
from colab_helpers import runtime
from colab_helpers._units import GIB
from tests.colab_doctor.conftest import explain_cell

OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked}. GPU 0 has a total capacity of "
    "14.75 GiB of which {free} is free. Process 17435 has 240.00 MiB memory in "
    "use. Of the allocated memory {allocated} is allocated by PyTorch, and {unused} is reserved by PyTorch "
    "but unallocated."
)
FULL = OUT_OF_MEMORY.format(
    asked="36.00 GiB", free="1.00 GiB", allocated="3.00 GiB", unused="1.00 MiB"
)


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
    said = memory.parse_cuda_oom(old)
    assert said.unused == pytest.approx(0.1 * GIB) and said.total == 3 * GIB
    said = memory.parse_cuda_oom(misspelt)
    assert (said.asked, said.free, said.unused) == (1024, 0, 512)
    assert memory.parse_cuda_oom("CUDA out of memory. Tried to allocate 2.00 GiB") is None


@pytest.mark.parametrize(
    ("asked", "says"), [("9.31 TiB", "12.7 GiB"), ("3.73 GiB", "1.0 GiB are free")]
)
def test_an_array_that_is_too_large(monkeypatch, asked, says):
    seen = runtime.SystemInfo(ram_total=int(12.7 * GIB), ram_available=GIB)
    monkeypatch.setattr(runtime, "probe", lambda: seen)
    text = f"Unable to allocate {asked} for an array with shape (500, 9) and data type float64"
    [clue] = explain_cell(f"raise MemoryError({text!r})").diagnoses
    assert says in clue.observation


def test_a_card_shows_this_case_instead_of_what_is_known():
    shown = colab_doctor.explain_error(FULL, "colab")
    for text in (str(shown), shown._repr_mimebundle_()["text/html"]):
        assert "36.0 GiB was asked for" in text and "No setting helps" in text
        assert "Runtime > Restart session first" not in text
    data = shown._repr_mimebundle_()
    assert any(isinstance(value, dict) and value.get("diagnoses") for value in data.values())
    assert str(Diagnosis("a", "b.", "c.")) == "b. c."
