"""PyTorch's state goes into a file without pickle and comes back to the last bit, or not at all."""

import importlib.util
import json
import random
import warnings

import numpy
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from colab_helpers import checkpoints
from colab_helpers.checkpoints import CheckpointError, CheckpointWarning, Store
from tests.colab_helpers.checkpoints import job


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "run")


def equal(one, other):
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, numpy.ndarray):
        return (
            one.dtype == other.dtype and one.shape == other.shape and numpy.array_equal(one, other)
        )
    return type(one) is type(other) and one == other


def test_a_resumed_run_is_the_same_to_the_last_bit(store):
    there = job.parts()
    for number in range(20):
        job.step(number, there)
        if number == 9:
            checkpoints.save(store, 10, there)
    here = job.parts()
    told = checkpoints.resume(store, here)
    assert told.step == 10 and "10 steps are done" in str(told)
    for number in range(told.step, 20):
        job.step(number, here)
    assert job.fingerprint(here) == job.fingerprint(there)
    state = {name: job_state(part) for name, part in there.items() if name != "random"}
    assert all(equal(value, job_state(here[name])) for name, value in state.items())


def job_state(part):
    from colab_helpers.checkpoints.pytorch import _state_of

    return _state_of(part, "part")


@pytest.mark.parametrize(
    "left_out", ["optimizer", "scheduler", "noise", "random", "torch", "python"]
)
def test_each_forgotten_state_changes_the_run(store, left_out):
    there, here = job.parts(), job.parts()
    for number in range(20):
        if number == 10:
            checkpoints.save(store, 10, {n: p for n, p in there.items() if n != left_out})
        job.step(number, there)
    fresh = {name: part for name, part in here.items() if name != left_out}
    checkpoints.resume(store, fresh)
    for number in range(10, 20):
        job.step(number, here)
    assert here["losses"][:10] == there["losses"][:10] and here["losses"] != there["losses"]


def test_nothing_in_the_file_is_pickled(store):
    path = checkpoints.save(store, 1, job.parts()).path
    content = path.read_bytes()
    assert b"cpickle" not in content.lower() and not content.startswith(b"PK")
    with safe_open(path, framework="pt") as file:
        about = json.loads(file.metadata()["checkpoint"])
    assert about["tree"]["losses"] == {"list": []}


def test_kinds_of_values_come_back_as_they_were(store):
    kept = {
        "numbers": [1, 2.5, float("inf"), True, None, 2**70, 1e-300],
        "nested": {1: (1, (2, [3])), "text": "ä"},
        "half": torch.tensor([1.0, 3e-5], dtype=torch.bfloat16),
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(3),
        "bool": torch.tensor([True, False]),
        "slanted": torch.arange(12.0).reshape(3, 4).T,
        "array": numpy.arange(4, dtype=numpy.uint32),
        "no rows": numpy.zeros((0, 3)),
    }
    base = torch.arange(10.0)
    kept["views"] = [base[:5], base[5:], base, base]
    checkpoints.save(store, 1, {"kept": kept})
    here = {"kept": {}}
    checkpoints.resume(store, here)
    assert equal(here["kept"], kept)


def test_tied_weights_are_written_once(store):
    model = torch.nn.ModuleDict({"in": torch.nn.Linear(300, 300), "out": torch.nn.Linear(300, 300)})
    apart = checkpoints.save(store, 1, {"model": model}).bytes
    model["out"].weight = model["in"].weight
    assert checkpoints.save(store, 2, {"model": model}).bytes < 0.6 * apart
    before = model["in"].weight.clone()
    model["in"].weight.data.zero_()
    checkpoints.resume(store, {"model": model})
    assert torch.equal(model["out"].weight, before) and model["out"].weight is model["in"].weight


def test_a_file_of_another_model_changes_nothing(store):
    torch.manual_seed(0)
    checkpoints.save(store, 1, {"model": torch.nn.Linear(4, 2), "losses": [1.0]})
    other, losses = torch.nn.Linear(4, 3), []
    before = other.weight.clone()
    with pytest.raises(
        CheckpointError, match=r"another model: model.bias is \(2,\) float32 there and \(3,\)"
    ):
        checkpoints.resume(store, {"losses": losses, "model": other})
    assert torch.equal(other.weight, before) and losses == []
    with pytest.raises(CheckpointError, match=r"model\.0\.bias is missing there"):
        checkpoints.resume(store, {"model": torch.nn.Sequential(other), "losses": []})


def test_an_optimiser_that_does_not_fit_is_named_before_anything_is_loaded(store):
    one, two = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
    checkpoints.save(store, 1, {"model": one, "optimizer": torch.optim.SGD(one.parameters())})
    before = two.weight.clone()
    with pytest.raises(
        CheckpointError, match=r"'optimizer' does not fit: .*\[2\] weights .* \[1\] here"
    ):
        checkpoints.resume(store, {"model": two, "optimizer": torch.optim.SGD([two.weight])})
    assert torch.equal(two.weight, before)


def test_other_kinds_and_formats_of_numbers_are_refused(store):
    checkpoints.save(store, 1, {"model": torch.nn.Linear(2, 2), "log": {"a": 1}})
    with pytest.raises(CheckpointError, match="'log' is a dict there and a list here"):
        checkpoints.resume(store, {"model": torch.nn.Linear(2, 2), "log": []})
    with pytest.raises(CheckpointError, match=r"float32 there and \(2,\) bfloat16 here"):
        checkpoints.resume(store, {"model": torch.nn.Linear(2, 2).bfloat16(), "log": {}})


def test_another_class_of_optimizer_is_refused(store):
    model = torch.nn.Linear(2, 2)
    checkpoints.save(store, 5, {"optimizer": torch.optim.Adam(model.parameters())})
    sgd = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    with pytest.raises(CheckpointError, match="'optimizer' is Adam there and SGD here"):
        checkpoints.resume(store, {"optimizer": sgd})
    assert sgd.param_groups[0]["lr"] == 0.1


def test_another_learning_rate_is_told_and_a_schedule_is_none(store):
    model = torch.nn.Linear(2, 2)
    first = torch.optim.SGD(model.parameters(), 1e-3)
    schedule = torch.optim.lr_scheduler.StepLR(first, 1)
    first.step()
    schedule.step()  # its rate is another now, as it should be
    checkpoints.save(store, 5, {"optimizer": first})
    again = torch.optim.SGD(model.parameters(), 1e-3)
    torch.optim.lr_scheduler.StepLR(again, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checkpoints.resume(store, {"optimizer": again})
    other = torch.optim.SGD(model.parameters(), 1e-5)
    with pytest.warns(CheckpointWarning, match="lr=0.001 replaces lr=1e-05"):
        checkpoints.resume(store, {"optimizer": other})


@pytest.mark.parametrize("missing", ["safetensors", "numpy"])
def test_a_missing_package_is_named_before_the_first_step(store, monkeypatch, missing):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == missing else find(name)
    )
    with pytest.raises(CheckpointError, match=f"and {missing} cannot be found here"):
        checkpoints.resume(store, {"model": torch.nn.Linear(2, 2)})


@pytest.mark.parametrize("asked", [("model",), ("model", "losses", "scaler")])
def test_parts_that_would_begin_anew_are_named(store, asked):
    model = torch.nn.Linear(2, 2)
    checkpoints.save(store, 1, {"model": model, "losses": []})
    parts = {"model": model, "losses": [], "scaler": torch.amp.GradScaler("cpu")}
    with pytest.raises(CheckpointError, match=r"has losses, model; you asked for .* start over"):
        checkpoints.resume(store, {name: parts[name] for name in asked})


@pytest.mark.parametrize("about", [None, {"checkpoint": '{"format": "0", "tree": {}}'}])
def test_an_older_format_is_refused_and_left_as_it_is(store, about):
    written = store.write(
        1, ".safetensors", lambda path: save_file({"w": torch.zeros(1)}, path, about)
    )
    with pytest.raises(
        CheckpointError, match=r"has format (0|unknown), and this version .* reads 1"
    ):
        checkpoints.resume(store, {"model": torch.nn.Linear(1, 1)})
    assert written.path.exists()


def test_what_is_no_safetensors_file_is_named(store):
    store.write(1, ".safetensors", lambda path: path.write_bytes(b"\0" * 64))
    with (
        pytest.warns(CheckpointWarning),
        pytest.raises(CheckpointError, match="is no file of safetensors"),
    ):
        checkpoints.resume(store, {})


@pytest.mark.parametrize(
    "about", [{"checkpoint": "{"}, {"checkpoint": "[1]"}, {"checkpoint": '{"format": "1"}'}]
)
def test_a_description_that_cannot_be_read_leads_to_the_one_before(store, about):
    model = torch.nn.Linear(1, 1)
    checkpoints.save(store, 1, {"model": model})
    store.write(2, ".safetensors", lambda path: save_file({"w": torch.zeros(1)}, path, about))
    with pytest.warns(CheckpointWarning, match="does not say what is in it"):
        assert checkpoints.resume(store, {"model": model}).step == 1


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (object(), "a object, has no state_dict, .* checkpoints.Batches"),
        ({"now": object()}, "part.now has the type object, .* a pickle runs whatever"),
        ({(1, 2): 3}, "has a key that is a tuple"),
        ([torch.zeros(2).to_sparse()], "part.0 is sparse"),
        ([torch.zeros(2, dtype=torch.complex128)], "no format for torch.complex128"),
        ([numpy.zeros(2, "complex64")], "only real numbers"),
    ],
)
def test_what_cannot_be_kept_is_named_before_anything_is_written(store, part, words):
    with pytest.raises(CheckpointError, match=words):
        checkpoints.save(store, 1, {"part": part})
    assert not list(store.folder.iterdir())


def test_generators_of_python_and_numpy_go_on():
    random.seed(3)
    numpy.random.seed(3)
    kept = checkpoints.RandomState().state_dict()
    drawn = random.random(), numpy.random.rand(), float(torch.rand(1))
    checkpoints.RandomState().load_state_dict(kept)
    assert drawn == (random.random(), numpy.random.rand(), float(torch.rand(1)))


def test_batches_from_anywhere_are_those_of_the_whole_run():
    batches = checkpoints.Batches(examples=103, batch_size=10, seed=4)
    whole = [rows for _, rows in zip(range(45), batches.starting_at(0), strict=False)]
    assert whole == [batches[step] for step in range(45)]
    for begin in (1, 9, 10, 11, 37):
        assert next(iter(batches.starting_at(begin))) == whole[begin]
    for epoch in range(4):
        seen = [row for rows in whole[10 * epoch : 10 * epoch + 10] for row in rows]
        assert len(set(seen)) == 100
    assert whole[0] != whole[10] and whole[:10] != [
        checkpoints.Batches(103, 10, seed=5)[step] for step in range(10)
    ]
    with pytest.raises(ValueError, match="there is none"):
        checkpoints.Batches(examples=3, batch_size=4)


def test_a_loader_takes_them_as_its_batch_sampler():
    data = torch.utils.data.TensorDataset(torch.arange(64))
    batches = checkpoints.Batches(examples=64, batch_size=8)
    loader = torch.utils.data.DataLoader(data, batch_sampler=_first(batches, 5, 4))
    assert [rows.tolist() for (rows,) in loader] == [batches[step] for step in range(5, 9)]


def test_a_loader_with_a_generator_of_its_own_draws_from_no_other():
    batches = checkpoints.Batches(examples=64, batch_size=8)
    data = torch.utils.data.TensorDataset(torch.arange(64))
    before = torch.get_rng_state()
    for _ in torch.utils.data.DataLoader(
        data, batch_sampler=_first(batches, 5, 4), generator=torch.Generator()
    ):
        pass
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(IndexError, match="counted from 0"):
        batches[-1]


def _first(batches, begin, count):
    return [rows for _, rows in zip(range(count), batches.starting_at(begin), strict=False)]
