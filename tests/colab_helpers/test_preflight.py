import dataclasses
import json

import pytest

from colab_helpers import hardware, preflight, runtime
from colab_helpers.__main__ import main
from colab_helpers.preflight import checks

GIB = 2**30
MIB = 2**20
CPU = hardware.Device("CPU", "Xeon", "", 13 * GIB, cores=2)
T4 = hardware.Device("GPU", "Tesla T4", "NVML", 15360 * MIB, driver="580.82.07", capability="7.5")
RTX = hardware.Device("GPU", "NVIDIA GeForce RTX 3060", "NVML", 12288 * MIB)
V5E = hardware.Device("TPU", "TPU v5e", "PCI id")


def machine(**changes):
    evidence = runtime.Evidence(
        env={"COLAB_RELEASE_TAG": "x"}, shell="google.colab", python="3.13.15", cores=2,
        ram_total=13 * GIB, ram_available=11 * GIB, disk_total=100 * GIB, disk_free=60 * GIB,
        packages={"torch": "2.11.0+cu130", "tensorflow": "2.20.0", "numpy": "2.1.3"},
        nvidia_smi=True, paths=("/dev/nvidia0",),
    )  # fmt: skip
    return dataclasses.replace(evidence, **changes)


def state(evidence=None, devices=(T4, CPU), problems=(), loaded=None, **wants):
    seen = evidence or machine()
    return preflight.State(
        runtime=runtime.describe(seen),
        inventory=hardware.Inventory(tuple(devices), tuple(problems)),
        wants=preflight.Wants(**{"accelerator": "GPU", "chip": "T4", **wants}),
        packages=seen.packages,
        loaded=loaded or {},
    )


NO_GPU = machine(nvidia_smi=False, paths=())
TPU = machine(nvidia_smi=False, paths=(), pci=((0x1AE0, 0x0063),), packages={"jax": "0.7.2"})

FIRES = {
    "no-accelerator": (state(NO_GPU, (CPU,)), "Runtime > Change runtime type > T4 GPU > Save"),
    "other-chip": (state(chip="L4"), "the wish is a request"),
    "other-kind": (state(TPU, (V5E, CPU)), "Runtime > Change runtime type > T4 GPU"),
    "old-torch": (state(machine(packages={"torch": "2.5.1+cu121"})), "Latest"),
    "unknown-chip": (state(devices=(RTX, CPU)), "accelerators.toml"),
    "silent-driver": (
        state(devices=(CPU,), problems=("nvidia-smi hangs.",)),
        "Disconnect and delete",
    ),
    "cpu-build": (state(machine(packages={"torch": "2.11.0+cpu"})), "Disconnect and delete"),
    "tpu-without-tensorflow": (
        state(TPU, (V5E, CPU), accelerator="TPU", chip="v5e"),
        "KERAS_BACKEND",
    ),
    "tpu-plain-tensorflow": (
        state(dataclasses.replace(TPU, packages={"tensorflow": "2.20.0"}), (V5E, CPU)),
        "tensorflow-tpu in place of tensorflow",
    ),
    "package-missing": (state(packages=("jax",)), "%pip install jax"),
    "part-missing": (state(TPU, (V5E, CPU), optional=("tensorflow",)), "%pip install tensorflow"),
    "restart-needed": (state(loaded={"numpy": "2.0.2"}), "Runtime > Restart session"),
    "little-ram": (state(machine(ram_available=GIB)), "Restart session"),
    "little-disk": (state(machine(disk_free=GIB // 2)), "huggingface"),
    "old-python": (state(machine(python="3.10.12")), "Runtime version"),
}


@pytest.mark.parametrize("id", FIRES)
def test_check_fires_on_its_recorded_state(id):
    seen, remedy = FIRES[id]
    findings = {finding.id: finding for finding in preflight.find_problems(seen)}
    assert remedy in findings[id].remedy


def test_checks_stay_silent_on_a_machine_that_fits():
    assert preflight.find_problems(state()) == ()


def test_every_check_is_tested():
    assert len(FIRES) == len(preflight.CHECKS)


def test_tensorflow_built_for_a_tpu_is_fine():
    seen = state(
        dataclasses.replace(TPU, packages={"tensorflow-tpu": "2.20.0"}),
        (V5E, CPU),
        accelerator="TPU",
        chip="v5e",
    )
    assert preflight.find_problems(seen) == ()


def test_findings_come_worst_first():
    seen = state(
        machine(nvidia_smi=False, paths=(), disk_free=0), (CPU,), packages=("nothing_such",)
    )
    severities = [finding.severity for finding in preflight.find_problems(seen)]
    assert severities == ["stop", "warn", "note"]


def test_no_gpu_outside_colab_does_not_speak_of_a_menu():
    seen = state(machine(nvidia_smi=False, paths=(), env={}, shell=""), (CPU,))
    [finding] = preflight.find_problems(seen)
    assert "Runtime >" not in finding.remedy


def test_no_gpu_on_kaggle_speaks_of_kaggles_menu():
    kaggle = {"KAGGLE_KERNEL_RUN_TYPE": "Interactive"}
    [finding] = preflight.find_problems(
        state(machine(nvidia_smi=False, paths=(), env=kaggle), (CPU,))
    )
    assert finding.remedy.startswith("Settings > Accelerator > GPU")


def test_two_gpus_are_counted():
    card = preflight.StatusCard("01", state(devices=(T4, T4, CPU)), ())
    assert "2 × Tesla T4, 15.0 GiB each; the lessons use the first" in str(card)


def test_packages_are_found_under_their_import_names():
    seen = state(machine(packages={"scikit-learn": "1.6.1"}), packages=("sklearn",))
    assert "package-missing" not in {finding.id for finding in preflight.find_problems(seen)}


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
    assert card.fits and "Nothing to mend" in str(card)


def test_card_escapes_what_it_shows():
    card = preflight.StatusCard(
        "01", state(devices=(dataclasses.replace(RTX, name="<b>x</b>"), CPU)), ()
    )
    assert "<b>x</b>" not in card._repr_html_()


def test_card_sets_no_colour_of_text_or_page():
    html = preflight.StatusCard("01", state(), ())._repr_html_()
    assert "background" not in html and "color:" not in html


def test_notes_do_not_make_a_machine_unfit():
    seen = state(NO_GPU, (CPU,))
    assert preflight.StatusCard("", seen, preflight.find_problems(seen)).fits


def test_doctor_prints_the_card(capsys):
    assert main(["doctor"]) == 0
    assert "You are on" in capsys.readouterr().out


def test_doctor_speaks_json(capsys):
    main(["doctor", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["runtime"]["cores"] >= 1 and isinstance(told["findings"], list)


def test_doctor_ends_with_1_on_a_machine_that_does_not_fit(capsys, monkeypatch):
    monkeypatch.setattr(checks, "MIN_DISK", 2**60)
    assert main(["doctor"]) == 1
    assert "Delete downloads" in capsys.readouterr().out
