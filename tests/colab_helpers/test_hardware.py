import subprocess
from types import SimpleNamespace

import pytest

from colab_helpers import hardware, runtime

MIB = 2**20
GPU_MACHINE = runtime.SystemInfo(
    nvidia_smi=True, paths=("/dev/nvidia0",), cores=2, ram_total=8 * 2**30
)
TPU_MACHINE = runtime.SystemInfo(pci=((0x1AE0, 0x0063),), cores=24)

# What NVML and nvidia-smi answered for these chips (names and MiB from public logs of 2026).
RECORDED = {
    "T4": ("Tesla T4", 15360, "7.5", "580.82.07"),
    "L4": ("NVIDIA L4", 23034, "8.9", "580.95.05"),
    "A100-40": ("NVIDIA A100-SXM4-40GB", 40960, "8.0", "580.82.07"),
    "A100-80": ("NVIDIA A100-SXM4-80GB", 81920, "8.0", "580.95.05"),
    "H100": ("NVIDIA H100 80GB HBM3", 81559, "9.0", "580.95.05"),
    "H200": ("NVIDIA H200", 143771, "9.0", "580.159.03"),
    "G4": ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, "12.0", "580.95.05"),
}


class FakeNVML:
    """Answers as nvidia-ml-py does, for one recorded GPU."""

    class NVMLError(Exception):
        pass

    def __init__(self, name, mib, capability, driver, fails_at=None, as_bytes=False):
        self.answers = name, mib, capability, driver
        self.fails_at, self.as_bytes, self.open = fails_at, as_bytes, 0

    def _answer(self, call, value):
        if call == self.fails_at:
            raise self.NVMLError("Driver/library version mismatch")
        return value

    def nvmlInit(self):  # noqa: N802
        self._answer("init", None)
        self.open += 1

    def nvmlShutdown(self):  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self):  # noqa: N802
        return self._answer("count", 1)

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return index

    def nvmlDeviceGetName(self, handle):  # noqa: N802
        return self.answers[0].encode() if self.as_bytes else self.answers[0]

    nvmlMemory_v2 = 2  # noqa: N815

    def nvmlDeviceGetMemoryInfo(self, handle, version=1):  # noqa: N802
        return self._answer("memory", SimpleNamespace(total=self.answers[1] * MIB, used=3 * MIB))

    def nvmlDeviceGetCudaComputeCapability(self, handle):  # noqa: N802
        return tuple(map(int, self.answers[2].split(".")))

    def nvmlSystemGetDriverVersion(self):  # noqa: N802
        return self.answers[3]

    def nvmlSystemGetCudaDriverVersion_v2(self):  # noqa: N802
        return self._answer("cuda", 13000)


def fake_smi(stdout="", returncode=0, error=None):
    def run(command, **options):
        assert options["timeout"], "nvidia-smi may hang: it needs a time limit"
        if error:
            raise error
        return subprocess.CompletedProcess(command, returncode, stdout, "")

    return run


def smi_line(name, mib, capability, driver, uuid="GPU-0"):
    return f"{name}, {mib}, 3, {driver}, {capability}, {uuid}\n"


@pytest.mark.parametrize("key", RECORDED)
@pytest.mark.parametrize("as_bytes", [False, True])
def test_recorded_gpus_are_found_through_nvml(key, as_bytes):
    nvml = FakeNVML(*RECORDED[key], as_bytes=as_bytes)
    found = hardware.list_devices(
        GPU_MACHINE, nvml=nvml, run=fake_smi(error=AssertionError("asked"))
    )
    device = found.main
    assert (device.source, device.chip.key) == ("NVML", key)
    assert device.capability == device.chip.capability
    assert device.memory_total == RECORDED[key][1] * MIB == device.chip.memory_mib * MIB
    assert found.problems == () and nvml.open == 0


@pytest.mark.parametrize("key", RECORDED)
def test_recorded_gpus_are_found_through_nvidia_smi_when_nvml_fails(key):
    nvml = FakeNVML(*RECORDED[key], fails_at="init")
    found = hardware.list_devices(GPU_MACHINE, nvml=nvml, run=fake_smi(smi_line(*RECORDED[key])))
    assert (found.main.source, found.main.chip.key) == ("nvidia-smi", key)
    assert "Driver/library version mismatch" in found.problems[0]


def test_driver_tells_its_cuda():
    device = hardware.list_devices(GPU_MACHINE, nvml=FakeNVML(*RECORDED["T4"])).main
    assert device.cuda == "13.0"
    smi = fake_smi(smi_line(*RECORDED["T4"]))
    asked = hardware.list_devices(
        GPU_MACHINE, nvml=FakeNVML(*RECORDED["T4"], fails_at="init"), run=smi
    )
    assert asked.main.cuda is None


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (fake_smi(error=subprocess.TimeoutExpired("nvidia-smi", 5)), "timed out after 5 s"),
        (fake_smi(error=FileNotFoundError("nvidia-smi")), "could not be started"),
        (
            fake_smi("Failed to initialize NVML: Unknown Error\n", returncode=255),
            "code 255: Failed",
        ),
        (fake_smi("", returncode=9), "code 9: no message"),
        (fake_smi("<html>what?</html>\n"), "something unexpected"),
        (fake_smi("Tesla T4, lots, 3, 580, 7.5, GPU-0\n"), "something unexpected"),
    ],
)
def test_nvidia_smi_that_fails_is_reported_in_words(run, said):
    nvml = FakeNVML(*RECORDED["T4"], fails_at="init")
    found = hardware.list_devices(GPU_MACHINE, nvml=nvml, run=run)
    assert found.accelerator is None and found.main.kind == "CPU"
    assert said in found.problems[1]


def test_tpu_is_found_on_the_pci_bus_without_touching_it():
    found = hardware.list_devices(TPU_MACHINE, run=fake_smi(error=AssertionError("asked")))
    assert (found.main.kind, found.main.chip.key) == ("TPU", "v5e")


def test_a_chip_that_is_not_in_the_catalog():
    nvml = FakeNVML("NVIDIA GeForce RTX 3060", 12288, "8.6", "580.1")
    assert hardware.list_devices(GPU_MACHINE, nvml=nvml).main.chip is None


@pytest.mark.parametrize(
    "name",
    [
        *("NVIDIA L40S", "NVIDIA T400", "NVIDIA H100 PCIe", "NVIDIA H100 NVL", "Quadro T4000", ""),
        *("NVIDIA H200 NVL", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"),
        *("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "Tesla V100-PCIE-16GB"),
        *("NVIDIA A100-SXM4-40GB MIG 3g.20gb", "NVIDIA H100 80GB HBM3 MIG 1g.10gb"),
    ],
)
def test_similar_names_are_not_confused(name):
    assert hardware.find_chip(name, 80 * 2**30) is None


def test_memory_decides_between_variants():
    assert hardware.find_chip("GRID A100", 40960 * MIB).key == "A100-40"
    assert hardware.find_chip("GRID A100", 81920 * MIB).key == "A100-80"


def test_a_card_with_limits_of_its_own_has_its_own_row():
    found = hardware.find_chip("NVIDIA A100 80GB PCIe")
    assert (
        found.bandwidth == 1935e9 and hardware.find_chip("NVIDIA A100-SXM4-80GB").bandwidth > 2e12
    )
    assert hardware.find_chip("NVIDIA A100-PCIE-40GB").key == "A100-40"
    assert hardware.find_chip("Tesla P100-PCIE-16GB").key == "P100"


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, ["a", "b", "c"]),
        ("0", ["a"]),
        ("2,0", ["c", "a"]),
        ("GPU-b", ["b"]),
        ("GPU-b1, 1", ["b"]),  # one kind of name
        ("0,0", []),
        ("MIG-3f", ["a MIG"]),
        ("0,7,1", ["a"]),  # CUDA stops at the first that is not there
        ("GPU", []),  # fits several
    ],
)
def test_gpus_are_those_that_cuda_shows(visible, expected):
    lines = "".join(smi_line(name, 100, "8.0", "580", f"GPU-{name}1") for name in "abc")
    env = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    seen = runtime.SystemInfo(env=env, nvidia_smi=True, paths=("/dev/nvidia0",))
    if visible == "GPU":
        seen = runtime.SystemInfo(nvidia_smi=True, paths=("/dev/nvidia0",))
        found = hardware.nvidia.gpus(
            FakeNVML(*RECORDED["T4"], fails_at="init"), fake_smi(lines), visible
        )[0]
    else:
        nvml = FakeNVML(*RECORDED["T4"], fails_at="init")
        found = hardware.list_devices(seen, nvml=nvml, run=fake_smi(lines)).devices[:-1]
    assert [device.name for device in found] == expected


def test_every_data_sheet_is_complete():
    for chip in hardware.catalog().values():
        assert chip.source and chip.url.startswith("https://") and chip.confidence in "HML"
        assert 4e9 < chip.memory < 1e12 and 1e11 < chip.bandwidth < 1e13
        assert 4e12 < max(chip.peak.values()) < 1e16
        assert (chip.capability is None) == (chip.kind == "TPU")


def test_ridges_of_the_fact_sheet():
    expected = {
        "T4": 203,
        "L4": 403,
        "A100-40": 201,
        "A100-80": 153,
        "H100": 295,
        "v5e": 241,
        "v6e": 560,
    }
    assert {key: round(hardware.catalog()[key].ridge()) for key in expected} == expected


X86 = """processor\t: 0
vendor_id\t: AuthenticAMD
model name\t: AMD EPYC 7B12
flags\t\t: fpu sse2 avx2 avx512f avx512_bf16 avx512_fp16_not

processor\t: 1
model name\t: AMD EPYC 7B12 (the second)
"""
ARM = "processor\t: 0\nFeatures\t: fp asimd asimdhp sve bf16\n"
SEEN = runtime.SystemInfo(cores=2, ram_total=8 * 2**30, ram_available=5 * 2**30, machine="aarch64")


def cpuinfo(folder, text):
    (folder / "cpuinfo").write_text(text)
    return folder / "cpuinfo"


def test_a_processor_is_read_from_cpuinfo(tmp_path):
    found = hardware.processor.cpu(SEEN, cpuinfo(tmp_path, X86))
    assert (found.kind, found.name, found.source) == ("CPU", "AMD EPYC 7B12", "/proc/cpuinfo")
    assert found.features == ("avx2", "avx512f", "avx512_bf16")
    assert (found.cores, found.memory_total, found.memory_used) == (2, 8 * 2**30, 3 * 2**30)


def test_an_arm_processor_has_features_and_no_model_name(tmp_path, monkeypatch):
    monkeypatch.setattr(hardware.processor.platform, "system", lambda: "Linux")
    monkeypatch.setattr(hardware.processor.platform, "processor", lambda: "")
    found = hardware.processor.cpu(SEEN, cpuinfo(tmp_path, ARM))
    assert (found.name, found.source) == ("aarch64", "platform")
    assert set(found.features) == {"sve", "bf16", "asimdhp"}


@pytest.mark.parametrize(
    ("evidence", "name"),
    [
        (runtime.SystemInfo(system="Darwin", machine="arm64"), "GPU"),
        (runtime.SystemInfo(paths=("/dev/kfd",)), "AMD GPU"),
    ],
)
def test_other_makers_gpus_are_devices_too(evidence, name):
    found = hardware.list_devices(evidence, run=fake_smi(error=AssertionError("asked")))
    assert found.accelerator.kind == "GPU" and found.accelerator.name.endswith(name)
    assert found.accelerator.capability is None


@pytest.mark.parametrize(("version", "text"), [(13000, "13.0"), (12080, "12.8"), (11020, "11.2")])
def test_nvmls_number_for_cuda(version, text):
    nvml = FakeNVML(*RECORDED["T4"])
    nvml.nvmlSystemGetCudaDriverVersion_v2 = lambda: version
    assert hardware.list_devices(GPU_MACHINE, nvml=nvml).main.cuda == text


def test_a_driver_that_raises_anything_is_a_problem_and_no_error():
    class Broken:
        def nvmlInit(self):  # noqa: N802
            raise OSError("no library")

    found = hardware.list_devices(
        GPU_MACHINE, nvml=Broken(), run=fake_smi(smi_line(*RECORDED["T4"]))
    )
    assert found.main.source == "nvidia-smi" and "no library" in found.problems[0]


def test_two_cards_alike_are_both_there():
    run, broken = (
        fake_smi(2 * smi_line(*RECORDED["T4"])),
        FakeNVML(*RECORDED["T4"], fails_at="init"),
    )
    assert len(hardware.nvidia.gpus(broken, run, "0,1")[0]) == 2


def test_a_share_of_a_card_is_not_the_card():
    assert hardware.find_chip("GRID T4-4Q", 4096 * MIB) is None
    assert hardware.find_chip("Tesla V100-SXM2-32GB", 32768 * MIB) is None
