"""Tests that run where the fake GPU is installed; test_fake_gpu.py starts them, once a machine."""

import copy
import gc
import os

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from colab_helpers import hardware, memory, precision, preflight, runtime
from colab_lessons import measurements, models
from course import fake_gpu

MACHINE = fake_gpu.machines()[os.environ["FAKE_GPU"]]
DEVICE = torch.device(MACHINE.kind)
nvidia = pytest.mark.skipif(not MACHINE.is_nvidia, reason="CUDA's own")
two_cards = pytest.mark.skipif(MACHINE.cards < 2, reason="one card")


@pytest.fixture(autouse=True)
def empty():
    yield
    gc.collect()
    if MACHINE.is_nvidia:
        torch.cuda.empty_cache()


def test_pytorch_and_the_helper_name_the_machine():
    assert torch.accelerator.current_accelerator() == DEVICE
    assert torch.accelerator.device_count() == MACHINE.cards
    assert runtime.describe().platform == "fake-gpu"
    found = hardware.list_devices().main
    assert found.kind == "GPU" and found.name.endswith(MACHINE.name if MACHINE.is_nvidia else "GPU")


@nvidia
def test_the_driver_says_the_same_in_both_its_ways():
    by_nvml = hardware.list_devices().devices[: MACHINE.cards]

    class Silent:
        class NVMLError(Exception):
            pass

        def nvmlInit(self):  # noqa: N802
            raise self.NVMLError("no")

    by_smi = hardware.list_devices(nvml=Silent()).devices[: MACHINE.cards]
    assert [d.source for d in by_nvml + by_smi] == ["NVML"] * MACHINE.cards + [
        "nvidia-smi"
    ] * MACHINE.cards
    for one, other in zip(by_nvml, by_smi, strict=True):
        assert (one.name, one.memory_total) == (other.name, other.memory_total)
        assert one.capability == other.capability
        assert one.chip.capability == ".".join(map(str, torch.cuda.get_device_capability()))


def test_a_tensor_lies_where_it_was_put_and_its_results_too():
    x = torch.ones(3).to(DEVICE)
    assert (x * 2 + 1).device == x.device == torch.device(MACHINE.kind, 0)
    assert x.cpu().device.type == "cpu" and x.to("cpu").sum() == 3
    assert (
        torch.zeros(2, device=DEVICE).device
        == x.device
        == torch.as_tensor([1.0], device=DEVICE).device
    )
    assert f"device='{MACHINE.kind}:0'" in repr(x)
    assert x.to(x) is x and x.to(DEVICE, torch.float16).dtype == torch.float16


def test_devices_do_not_mix():
    x = torch.ones(3, device=DEVICE)
    with pytest.raises(RuntimeError, match=f"at least two devices, {MACHINE.kind}:0 and cpu"):
        x + torch.ones(3)
    with pytest.raises(TypeError, match=r"Use Tensor\.cpu"):
        x.numpy()
    assert (x + torch.tensor(1.0)).sum() == 6  # a number may lie on the CPU
    assert x[torch.tensor([0])].device == x.device  # so may an index


@two_cards
def test_cards_do_not_mix_either():
    x, y = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
    with pytest.raises(RuntimeError, match="cuda:0 and cuda:1"):
        x + y
    assert (x.to(y) + y).device == torch.device("cuda:1")
    with torch.cuda.device(1):
        assert torch.ones(1, device="cuda").device == torch.device("cuda:1")
    with pytest.raises(torch.AcceleratorError, match="invalid device ordinal"):
        torch.ones(1, device="cuda:2")


def test_modules_gradients_copies_and_files_keep_their_card(tmp_path):
    model = nn.Linear(3, 3).to(DEVICE)
    model(torch.ones(2, 3, device=DEVICE)).sum().backward()
    assert model.weight.grad.device == model.weight.device
    assert copy.deepcopy(model).weight.device == model.weight.device
    torch.save(model.state_dict(), tmp_path / "m.pt")
    assert torch.load(tmp_path / "m.pt")["weight"].device == model.weight.device
    assert torch.load(tmp_path / "m.pt", map_location="cpu")["weight"].device.type == "cpu"


@pytest.mark.skipif(MACHINE.is_nvidia, reason="Apple's own")
def test_an_apple_gpu_has_no_float64():
    with pytest.raises(TypeError, match="float64"):
        torch.ones(3, dtype=torch.float64, device=DEVICE)
    with pytest.raises(TypeError, match="float64"):
        torch.ones(3, device=DEVICE).to(torch.float64)


@nvidia
def test_memory_is_counted_in_blocks_and_in_requests():
    start = torch.cuda.memory_allocated(), torch.cuda.memory_stats()["requested_bytes.all.current"]
    x = torch.ones(1000, device=DEVICE)
    assert 0 < torch.cuda.mem_get_info()[0] < torch.cuda.mem_get_info()[1]
    assert torch.cuda.memory_allocated() - start[0] == 4096
    assert torch.cuda.memory_stats()["requested_bytes.all.current"] - start[1] == 4000
    view = x[10:]
    assert torch.cuda.memory_allocated() - start[0] == 4096
    del x
    assert torch.cuda.memory_allocated() - start[0] == 4096
    del view
    assert torch.cuda.memory_allocated() == start[0]


@nvidia
def test_memory_runs_out_as_on_the_card():
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate 256"):
        torch.empty(2**36, device=DEVICE)
    with memory.track(DEVICE, budget=2**28):
        torch.ones(58, 2**20, device=DEVICE)
        with pytest.raises(torch.OutOfMemoryError):
            torch.ones(65, 2**20, device=DEVICE)


def gpt(**sizes):
    config = models.GPTConfig(
        **{"block_size": 64, "n_embd": 64, "n_head": 4, "n_layer": 2, **sizes}
    )
    model = models.GPT(config).to(DEVICE)

    def loss_of(rows):
        ids = torch.randint(config.vocab_size, (rows, config.block_size), device=DEVICE)
        return F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())

    return model, loss_of


def test_the_footprint_is_foretold_to_one_per_cent():
    model, loss_of = gpt()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        loss_of(8).backward()
        optimizer.step()
        optimizer.zero_grad()
    told = memory.footprint(model, loss_of, 8, optimizer)
    with memory.track(DEVICE, known=[model, optimizer]) as tracker:
        standing = tracker.allocated
        loss = loss_of(8)
        activations = tracker.allocated - standing
        loss.backward()
        optimizer.step()
    assert told.activations == pytest.approx(activations, rel=0.01)
    assert told.peak == pytest.approx(tracker.peak, rel=0.01)
    assert standing == pytest.approx(told.parameters + told.optimizer_state, rel=0.01)
    assert 15.9 < (standing + told.gradients) / model.parameter_count < 16.1


@nvidia
def test_what_is_shown_is_never_a_reference(tmp_path):
    record = measurements.record(
        "06_memory_management", False, peak=measurements.Value(1.0, "B", "peak")
    )
    assert record.platform == "fake-gpu" and record.device == MACHINE.name
    with pytest.raises(measurements.RecordError, match="ran on a fake"):
        measurements.write(record, tmp_path)
    assert not list(tmp_path.iterdir())


@nvidia
def test_the_card_is_content_and_knows_the_chip():
    card = str(preflight.status_card())
    assert MACHINE.name in card and "speeds mean nothing here" in card
    native = precision.support(hardware.list_devices().main)["bf16"] == "native"
    assert native == torch.cuda.is_bf16_supported(including_emulation=False)


def test_autocast_takes_the_cards_short_format():
    layer = nn.Linear(4, 4).to(DEVICE)
    with torch.autocast(DEVICE.type):
        assert layer(torch.ones(1, 4, device=DEVICE)).dtype == torch.float16
    with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
        assert layer(torch.ones(1, 4, device=DEVICE)).dtype == torch.bfloat16
