"""Formats as PyTorch has them, chips as their vendors describe them."""

import pytest
import torch

from colab_helpers import hardware, precision

FORMATS = precision.formats()
STORED = [f for f in FORMATS.values() if f.dtype is not None]


def gpu(capability):
    return hardware.Device("GPU", "a GPU", "NVML", capability=capability)


def cpu(*features):
    return hardware.Device("CPU", "a CPU", "", cores=2, features=features)


@pytest.mark.parametrize("entry", STORED, ids=lambda entry: entry.name)
def test_format_is_pytorchs(entry):
    info = torch.finfo(entry.dtype)
    assert (entry.bits, entry.max) == (info.bits, info.max)
    assert entry.eps == info.eps


@pytest.mark.parametrize("entry", FORMATS.values(), ids=lambda entry: entry.name)
@pytest.mark.parametrize("value", [1.0, -1.5, 0.1, 3.0, -0.02, 200.0])
def test_bits_give_the_number_back(entry, value):
    sign, exponent, mantissa = precision.bits(value, entry)
    assert (len(sign), len(exponent), len(mantissa)) == (
        1,
        entry.exponent_bits,
        entry.mantissa_bits,
    )
    bias = 2 ** (entry.exponent_bits - 1) - 1
    number = (1 + int(mantissa, 2) / 2**entry.mantissa_bits) * 2.0 ** (int(exponent, 2) - bias)
    assert (-number if sign == "1" else number) == pytest.approx(value, rel=entry.eps)


@pytest.mark.parametrize(
    ("capability", "native"),
    [
        ("3.7", {"fp32"}),
        ("6.1", {"fp32"}),
        ("7.0", {"fp32", "fp16"}),
        ("7.5", {"fp32", "fp16"}),
        ("8.0", {"fp32", "fp16", "bf16", "tf32"}),
        ("8.6", {"fp32", "fp16", "bf16", "tf32"}),
        ("8.9", {"fp32", "fp16", "bf16", "tf32", "fp8"}),
        ("9.0", {"fp32", "fp16", "bf16", "tf32", "fp8"}),
        ("12.0", {"fp32", "fp16", "bf16", "tf32", "fp8"}),
    ],
)
def test_gpus_by_compute_capability(capability, native):
    found = precision.support(gpu(capability))
    assert {name for name, how in found.items() if how == "native"} == native


def test_t4_says_yes_to_bf16_and_emulates_it():
    assert precision.support(gpu("7.5"))["bf16"] == "emulated"


@pytest.mark.parametrize(
    ("features", "bf16", "fp16"),
    [
        ((), "emulated", "emulated"),
        (("avx2", "avx512f"), "emulated", "emulated"),
        (("avx512_bf16",), "native", "emulated"),
        (("amx_bf16", "avx512_fp16"), "native", "native"),
    ],
)
def test_cpus_by_their_flags(features, bf16, fp16):
    found = precision.support(cpu(*features))
    assert (found["fp32"], found["bf16"], found["fp16"]) == ("native", bf16, fp16)


@pytest.mark.parametrize(
    ("device", "name", "scaler"),
    [
        (gpu("7.5"), "fp16", True),
        (gpu("8.0"), "bf16", False),
        (gpu("3.7"), "fp32", False),
        (hardware.Device("TPU", "TPU v5e", "PCI id"), "bf16", False),
        (cpu("avx512_bf16"), "bf16", False),
        (cpu("avx512_fp16"), "fp32", False),
        (cpu(), "fp32", False),
    ],
)
def test_advice(device, name, scaler):
    advice = precision.advise(device)
    assert (advice.format, advice.needs_scaler) == (name, scaler) and advice.reason


def test_autocast_is_recorded_op_by_op():
    layer = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8))
    with precision.record_operations() as seen, torch.autocast("cpu", dtype=torch.bfloat16):
        layer(torch.ones(2, 8))
    by_name = {operation.name: operation for operation in seen}
    assert by_name["addmm"].output_dtypes == ("bfloat16",)
    assert "_to_copy" in by_name
