import dataclasses
import json
import subprocess
import sys

import pytest

import colab_doctor
from colab_helpers import hardware, preflight, problem_schema, runtime
from colab_helpers.__main__ import main
from colab_helpers._environment_probes import Symptoms

GIB = 2**30
MIB = 2**20
CPU = hardware.Device("CPU", "Xeon", "", 13 * GIB, cores=2)
T4 = hardware.Device(
    "GPU", "Tesla T4", "NVML", 15360 * MIB, memory_used=3 * MIB, driver="580.82.07",
    capability="7.5", cuda="13.0",
)  # fmt: skip
L4 = dataclasses.replace(T4, name="NVIDIA L4", memory_total=23034 * MIB, capability="8.9")
V5E = hardware.Device("TPU", "TPU v5e", "PCI id")
COLAB = {
    "torch": "2.11.0+cu130", "tensorflow": "2.20.0", "numpy": "2.1.3", "nvidia-cublas-cu12": "12.5.3.2"
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Machine:
    """What a machine shows, and what problems have left behind on it."""

    evidence: runtime.SystemInfo
    traces: Symptoms


SOUND = Machine(
    runtime.SystemInfo(
        env={"COLAB_RELEASE_TAG": "x"}, shell="google.colab", python="3.13.15", cores=2,
        ram_total=13 * GIB, ram_available=11 * GIB, disk_total=100 * GIB, disk_free=60 * GIB,
        packages=COLAB, nvidia_smi=True, paths=("/dev/nvidia0",),
    ),
    Symptoms(torch_cuda="13.0", cublas=(12, 13)),
)  # fmt: skip


def changed(machine, **changes):
    """A machine with other evidence or traces."""
    traces = {f.name for f in dataclasses.fields(Symptoms)} & changes.keys()
    return Machine(
        dataclasses.replace(
            machine.evidence, **{k: v for k, v in changes.items() if k not in traces}
        ),
        dataclasses.replace(machine.traces, **{name: changes[name] for name in traces}),
    )


def machine(**changes):
    return changed(SOUND, **changes)


def state(seen=SOUND, devices=(T4, CPU), problems=(), loaded=None, **wants):
    return preflight.State(
        runtime=runtime.describe(seen.evidence),
        inventory=hardware.Inventory(tuple(devices), tuple(problems)),
        required=preflight.Requirements(**{"accelerator": "GPU", "chip": "T4", **wants}),
        evidence=seen.evidence,
        symptoms=seen.traces,
        loaded=loaded or {},
    )


def packages(**versions):
    """Colab's packages with these in other versions, or, for None, without them."""
    named = {name.replace("_", "-"): version for name, version in versions.items()}
    return {name: version for name, version in {**COLAB, **named}.items() if version}


def held(gib, **changes):
    return dataclasses.replace(T4, memory_used=gib * GIB, **changes)


NO_GPU = machine(nvidia_smi=False, paths=())
TPU = machine(
    nvidia_smi=False, paths=(), pci=((0x1AE0, 0x0063),), packages={"jax": "0.7.2"},
    torch_cuda=None, cublas=(),
)  # fmt: skip
LAPTOP = machine(env={}, shell="", packages=packages(torch="2.13.0"))

#: id -> a machine that has the problem, words of the remedy, and one that nearly has it.
FIRES = {
    "no-accelerator": (state(NO_GPU, (CPU,)), "> T4 GPU > Save", state()),
    "gpu-hidden": (
        state(machine(env={"COLAB_RELEASE_TAG": "x", "CUDA_VISIBLE_DEVICES": "-1"}), (CPU,)),
        "Restart session",
        state(machine(env={"COLAB_RELEASE_TAG": "x", "CUDA_VISIBLE_DEVICES": "0"})),
    ),
    "other-chip": (state(chip="L4"), "measures the chip you have", state(chip="T4")),
    "other-kind": (state(TPU, (V5E, CPU)), "> T4 GPU", state(TPU, (V5E, CPU), accelerator="TPU")),
    "silent-driver": (
        state(devices=(CPU,), problems=("nvidia-smi hangs.",)),
        "Disconnect and delete",
        state(NO_GPU, (CPU,)),
    ),
    "cpu-build": (
        state(machine(packages=packages(torch="2.11.0+cpu"), torch_cuda="")),
        "Disconnect and delete",
        state(changed(NO_GPU, torch_cuda=""), (CPU,)),
    ),
    "cuda-too-new": (
        state(devices=(dataclasses.replace(T4, cuda="12.8"), CPU)),
        "--no-deps",
        state(machine(torch_cuda="13.2")),  # a newer minor version works
    ),
    "gpu-too-old": (
        state(
            machine(packages=packages(torch="2.11.0+cu128")),
            (dataclasses.replace(T4, name="Tesla V100-SXM2-16GB", capability="7.0"), CPU),
        ),
        "a T4 or newer",
        state(machine(packages=packages(torch="2.11.0+cu128"))),  # a T4 has 7.5
    ),
    "replaced-build": (
        state(machine(packages=packages(torch="2.14.0"))),
        "--no-deps",
        state(LAPTOP),
    ),
    "tensorflow-cuda": (
        state(machine(cublas=(13,))),
        "Runtime version > 2026.07",
        state(machine(cublas=(13,), packages=packages(tensorflow=None, tensorflow_cpu="2.20.0"))),
    ),
    "gpu-held": (
        state(devices=(held(12), CPU)),
        "Manage sessions",
        state(devices=(held(12), CPU), loaded={"torch": "2.11.0+cu130"}),  # it is this process
    ),
    "bf16-emulated": (state(), "GradScaler", state(devices=(L4, CPU))),
    "gpu-slice": (
        state(
            devices=(
                dataclasses.replace(T4, name="NVIDIA A100-SXM4-40GB MIG", capability="8.0"),
                CPU,
            )
        ),
        "the slice's own",
        state(),
    ),
    "tpu-without-tensorflow": (
        state(TPU, (V5E, CPU), accelerator="TPU"),
        "KERAS_BACKEND",
        state(changed(TPU, packages={"tensorflow-tpu": "2.20.0"}), (V5E, CPU)),
    ),
    "tpu-in-use": (
        state(changed(TPU, tpu_holders=(42,)), (V5E, CPU)),
        "Runtime > Restart session",
        state(TPU, (V5E, CPU)),
    ),
    "old-python": (
        state(machine(python="3.10.12")),
        "Runtime version",
        state(machine(python="3.11.0")),
    ),
    "package-missing": (state(packages=("jax",)), "%pip install jax", state(packages=("numpy",))),
    "part-missing": (state(optional=("jax",)), "%pip install jax", state(optional=("tensorflow",))),
    "other-helper": (
        state(helper_from="ada/fork"),
        "Disconnect and delete runtime",
        state(helper_from="/".join(problem_schema.repository().split("/")[-2:]).upper()),
    ),
    "old-torch": (
        state(machine(packages=packages(torch="2.5.1+cu121"))),
        "Latest",
        state(machine(packages=packages(torch="2.6.0+cu124"))),
    ),
    "restart-needed": (
        state(loaded={"numpy": "2.0.2"}),
        "Runtime > Restart session",
        state(loaded={"numpy": "2.1.3"}),
    ),
    "torchao-peft": (
        state(machine(packages=packages(peft="0.20.0", torchao="0.10.0"))),
        "%pip uninstall -y torchao",
        state(machine(packages=packages(peft="0.20.0", torchao="0.16.0"))),
    ),
    "little-ram": (
        state(machine(ram_available=2 * GIB - 1)),
        "Restart session",
        state(machine(ram_total=0, ram_available=0)),  # unknown
    ),
    "little-disk": (
        state(machine(disk_free=GIB - 1)),
        "huggingface",
        state(machine(disk_free=GIB)),
    ),
    "drive-dropped": (
        state(machine(drive="does not answer (Transport endpoint is not connected)")),
        "force_remount=True",
        state(machine(drive="mounted")),
    ),
}


def ids(state):
    return {finding.id for finding in preflight.run_checks(state)}


@pytest.mark.parametrize("id", FIRES)
def test_check_fires_on_its_recorded_state(id):
    seen, remedy, _ = FIRES[id]
    [finding] = [f for f in preflight.run_checks(seen) if f.id == id]
    assert remedy in finding.fix
    assert finding.observation and finding.link.endswith(f"#{id}")


@pytest.mark.parametrize("id", FIRES)
def test_check_stays_silent_on_a_machine_that_nearly_has_it(id):
    assert id not in ids(FIRES[id][2])


def test_checks_stay_silent_on_a_machine_that_fits():
    enough = machine(ram_available=2 * GIB)
    assert preflight.run_checks(state(enough, (L4, CPU), chip="L4")) == ()


def test_every_check_is_tested():
    assert list(FIRES) == [check.__name__.replace("_", "-") for check in preflight.CHECKS]


def test_a_check_that_fails_is_told_and_the_others_go_on():
    def breaks(state):
        raise IndexError("tuple index out of range")

    seen = state(NO_GPU, (CPU,))
    found = preflight.run_checks(seen, (breaks, *preflight.CHECKS))
    assert {finding.id for finding in found} == {"no-accelerator", "check-failed"}
    assert "breaks (IndexError: tuple index" in found[-1].observation


def test_what_could_not_be_looked_for_is_told():
    broken = machine(problems=("cublas (OSError: File name too long)",))
    seen = state(broken, (L4, CPU), chip="L4")
    [finding] = preflight.run_checks(seen)
    assert finding.id == "check-failed" and "File name too long" in finding.observation


@pytest.mark.parametrize("version", ["main", "", "2", "unknown-1"])
@pytest.mark.parametrize("name", ["torch", "tensorflow", "numpy", "peft", "torchao"])
def test_odd_versions_fire_nothing_and_break_nothing(name, version):
    seen = machine(packages={**COLAB, "peft": "0.20", "torchao": "0.17", name: version})
    found = ids(state(seen, (L4, CPU), chip="L4")) - {"replaced-build"}
    assert found == ({"old-torch"} if (name, version) == ("torch", "2") else set())


@pytest.mark.parametrize(
    ("torch", "cuda", "capability", "fires"),
    [
        ("2.7.1", "12.8", "6.0", False),
        ("2.8.0", "12.6", "6.0", False),
        ("2.8.0", "12.8", "6.0", True),
        ("2.8.0", "12.8", "7.0", False),
        ("2.10.0", "12.8", "7.0", False),
        ("2.11.0", "12.8", "7.0", True),
        ("2.11.0", "12.6", "7.0", False),
        ("2.11.0", "13.0", "7.5", False),
        ("2.15.0", "12.6", "7.0", True),
        ("2.15.0", "", "7.0", False),  # a build for CPUs
    ],
)
def test_which_builds_have_no_code_for_which_gpus(torch, cuda, capability, fires):
    gpu = dataclasses.replace(T4, name="an old GPU", capability=capability)
    seen = machine(packages=packages(torch=f"{torch}+x"), torch_cuda=cuda)
    assert ("gpu-too-old" in ids(state(seen, (gpu, CPU)))) == fires


def test_a_card_for_a_newer_lesson_is_refused():
    with pytest.raises(preflight.OldHelperError, match=r"this lesson needs 99\.0\.0"):
        preflight.status_card("01", helper="99.0.0 of ada/course")
    card = preflight.status_card("01", helper="0.0.1 of ada/course")
    assert [f.id for f in card.findings if f.id == "other-helper"] == ["other-helper"]


def test_the_whole_inspection_starts_no_framework():
    code = (
        "import sys; from colab_helpers import preflight; preflight.run_checks(preflight.collect_state()); "
        "print(*{'torch', 'tensorflow', 'jax', 'keras', 'numpy', 'psutil'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_findings_come_worst_first():
    seen = state(
        machine(nvidia_smi=False, paths=(), disk_free=0), (CPU,), packages=("nothing_such",)
    )
    severities = [finding.severity for finding in preflight.run_checks(seen)]
    assert severities == ["stop", "warn", "note"]


def test_no_gpu_outside_colab_says_where_one_is():
    seen = state(machine(nvidia_smi=False, paths=(), env={}, shell=""), (CPU,))
    [finding] = preflight.run_checks(seen)
    assert finding.fix.startswith("To get one, open the notebook in Colab, then Runtime >")


def test_remedies_outside_colab_do_not_speak_of_colabs_menu():
    """Where the way out differs, the row has both."""
    there = changed(NO_GPU, env={}, shell="", ram_available=GIB)
    [finding] = [f for f in preflight.run_checks(state(there, (CPU,))) if f.id == "little-ram"]
    assert "Runtime >" not in finding.fix
    for problem in colab_doctor.known_problems().values():
        assert "Runtime >" not in problem.elsewhere


@pytest.mark.parametrize(
    ("loaded", "installed", "restart"),
    [
        ("2.11.0+cu130", "2.11.0", False),  # PyPI's build: the package has no suffix
        ("2.11.0+cu130", "2.11.0+cpu", True),
        ("2.11.0+cu130", "2.13.0", True),
    ],
)
def test_a_suffix_alone_asks_for_no_restart(loaded, installed, restart):
    seen = state(machine(packages=packages(torch=installed)), loaded={"torch": loaded})
    assert ("restart-needed" in ids(seen)) == restart


def test_without_a_lesson_a_machine_without_an_accelerator_is_told():
    seen = dataclasses.replace(state(NO_GPU, (CPU,)), required=preflight.Requirements())
    [finding] = preflight.run_checks(seen)
    assert finding.id == "no-accelerator" and "GPU or TPU" in finding.observation


def test_no_gpu_on_kaggle_speaks_of_kaggles_menu():
    kaggle = {"KAGGLE_KERNEL_RUN_TYPE": "Interactive"}
    [finding] = preflight.run_checks(state(machine(nvidia_smi=False, paths=(), env=kaggle), (CPU,)))
    assert finding.fix.startswith("Settings > Accelerator > GPU")


def test_card_shows_where_what_and_wishes():
    card = preflight.StatusCard("01", state(), ())
    for text in (str(card), card._repr_html_()):
        for part in (
            "Google Colab",
            "Tesla T4",
            "15.0 GiB",
            "580.82.07",
            "torch 2.11.0+cu130",
            "GPU T4",
        ):
            assert part in text
    assert card.fits and "Nothing to fix" in str(card)


def test_doctor_speaks_json(capsys):
    main(["card", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["runtime"]["cores"] >= 1 and isinstance(told["findings"], list)


@pytest.mark.parametrize(
    ("capability", "fires"), [("7.5", True), ("7.9", True), ("8.0", False), ("12.0", False)]
)
def test_bf16_is_native_from_8_on(capability, fires):
    gpu = dataclasses.replace(T4, capability=capability)
    assert ("bf16-emulated" in ids(state(devices=(gpu, CPU)))) == fires


@pytest.mark.parametrize(
    ("version", "fires"), [("2.17.0", False), ("2.18.0", True), ("2.22.0", True), ("2.23.0", False)]
)
def test_tensorflows_whose_cuda_is_known(version, fires):
    seen = machine(cublas=(13,), packages=packages(tensorflow=version))
    assert ("tensorflow-cuda" in ids(state(seen))) == fires


def test_a_gpu_number_that_does_not_exist_hides_them_all():
    seen = machine(env={"COLAB_RELEASE_TAG": "x", "CUDA_VISIBLE_DEVICES": "7"})
    found = ids(state(seen, (CPU,)))
    assert "gpu-hidden" in found and "silent-driver" not in found


def test_a_part_of_a_missing_package_is_missing():
    found = {finding.id for finding in preflight.status_card(packages="no_such.part").findings}
    assert "package-missing" in found and "check-failed" not in found
