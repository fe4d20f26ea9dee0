"""PyTorch's state goes into a file without pickle and comes back to the last bit, or not at all."""

import collections
import itertools
import random
import warnings

import numpy
import pytest
import torch
from torch._subclasses import FakeTensorMode

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
        same = type(one) is type(other) and list(one) == list(other)
        return same and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        same = type(one) is type(other) and len(one) == len(other)
        return same and all(map(equal, one, other))
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


def test_a_file_is_read_by_plain_torch(store):
    parts = job.parts()
    job.step(0, parts)
    path = checkpoints.save(store, 1, parts).path
    content = torch.load(path, weights_only=True)["parts"]
    assert content["losses"] == parts["losses"]
    fresh = job.parts()["model"]
    fresh.load_state_dict(content["model"])
    assert equal(dict(fresh.state_dict()), dict(parts["model"].state_dict()))
    assert content["model"]._metadata == parts["model"].state_dict()._metadata


def test_kinds_of_values_come_back_as_they_were(store):
    kept = {
        "numbers": [1, 2.5, float("inf"), True, None, 2**70, 1e-300, 1j],
        "nested": {1: (1, (2, [3])), "text": "ä", (1, 2): b"bytes"},
        "ordered": collections.OrderedDict(b=1, a=collections.OrderedDict(c=[()])),
        "half": torch.tensor([1.0, 3e-5], dtype=torch.bfloat16),
        "complex": torch.ones(2, dtype=torch.complex128).conj(),
        "sparse": torch.eye(3).to_sparse().coalesce(),
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(3),
        "bool": torch.tensor([True, False]),
        "slanted": torch.arange(12.0).reshape(3, 4).T,
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "set": {1, 2},
        "shape": torch.Size([2, 3]),
        "type": torch.float16,
    }
    base = torch.arange(10.0)
    kept["views"] = [base[:5], base[5:], base, base]
    checkpoints.save(store, 1, {"kept": kept})
    here = {"kept": {}}
    checkpoints.resume(store, here)
    sparse, wanted = here["kept"].pop("sparse"), kept.pop("sparse")
    assert torch.equal(sparse.to_dense(), wanted.to_dense()) and sparse.layout is wanted.layout
    assert equal(here["kept"], kept)


def test_equal_states_give_equal_files(store):
    """Whatever shares memory with what: the name of a file tells its contents."""
    word, pair = "".join(["wo", "rd"]), (1, 2)
    one = checkpoints.save(store, 1, {"log": [word, word, pair, pair]})
    other = checkpoints.save(
        store, 1, {"log": ["".join(["wo", "rd"]), "word", (1, 2), (1, int(2.5))]}
    )
    assert one.path == other.path


@pytest.mark.parametrize("kind", [numpy.random.MT19937, numpy.random.SFC64, numpy.random.Philox])
def test_generators_of_numpy_go_on(store, kind):
    generator = numpy.random.Generator(kind(7))
    checkpoints.save(store, 1, {"noise": generator})
    wanted = generator.normal(size=9)
    checkpoints.resume(store, {"noise": generator})
    assert (generator.normal(size=9) == wanted).all()
    with pytest.raises(CheckpointError, match="PCG64 in this program"):
        checkpoints.resume(store, {"noise": numpy.random.default_rng(0)})


def test_a_dict_with_a_default_keeps_it(store):
    history = collections.defaultdict(list, loss=[1.0])
    checkpoints.save(store, 1, {"history": history})
    history["loss"].append(2.0)
    checkpoints.resume(store, {"history": history})
    assert history == {"loss": [1.0]} and history["accuracy"] == []


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
        CheckpointError,
        match=r"different model: model.bias is \(2,\) float32 in the checkpoint and \(3,\)",
    ):
        checkpoints.resume(store, {"losses": losses, "model": other})
    assert torch.equal(other.weight, before) and losses == []
    with pytest.raises(CheckpointError, match=r"model\.0\.bias is missing in the checkpoint"):
        checkpoints.resume(store, {"model": torch.nn.Sequential(other), "losses": []})


def test_an_optimizer_that_does_not_fit_is_named_before_anything_is_loaded(store):
    one, two = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
    checkpoints.save(store, 1, {"model": one, "optimizer": torch.optim.SGD(one.parameters())})
    before = two.weight.clone()
    with pytest.raises(
        CheckpointError, match=r"'optimizer' does not match: .*\[2\] parameters .* program \[1\]"
    ):
        checkpoints.resume(store, {"model": two, "optimizer": torch.optim.SGD([two.weight])})
    assert torch.equal(two.weight, before)


@pytest.mark.parametrize("saved", [[1, 2], {"a": 1}], ids=["list", "dict"])
def test_a_part_that_was_saved_as_something_else_is_refused(store, saved):
    model = torch.nn.Linear(2, 2)
    parts = [model, torch.optim.SGD(model.parameters()), numpy.random.default_rng(0)]
    checkpoints.save(store, 1, {"part": saved})
    for part in parts:
        with pytest.raises(CheckpointError, match="part"):
            checkpoints.resume(store, {"part": part})


class Twins(torch.nn.Module):
    """Two layers of one shape."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)


def in_order(model):
    return [{"params": [*model.first.parameters()]}, {"params": [*model.second.parameters()]}]


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (lambda m: in_order(m)[::-1], r"0 of group 0 .* is model\.first\.weight \(3, 3\) in the"),
        (
            lambda m: [{"params": [*m.first.parameters()][::-1]}, in_order(m)[1]],
            r"model\.first\.weight \(3, 3\) in the checkpoint and model\.first\.bias \(3,\) in this",
        ),
        (
            lambda m: [
                {"params": [m.second.weight, m.first.bias]},
                {"params": [m.first.weight, m.second.bias]},
            ],
            r"model\.second\.weight \(3, 3\) in this program\. Give the optimizer",
        ),
    ],
)
def test_an_optimizer_whose_parameters_come_in_another_order_is_refused(store, groups, words):
    model, other = Twins(), Twins()
    adam = torch.optim.AdamW(in_order(model))
    checkpoints.save(store, 1, {"model": model, "optimizer": adam})
    changed = torch.optim.AdamW(groups(other))
    before = other.first.weight.clone()
    with pytest.raises(CheckpointError, match=words):
        checkpoints.resume(store, {"model": other, "optimizer": changed})
    assert torch.equal(other.first.weight, before) and not changed.state
    same = torch.optim.AdamW(in_order(other))
    assert checkpoints.resume(store, {"model": other, "optimizer": same}).step == 1


def test_without_the_model_the_shapes_have_to_agree(store):
    model = torch.nn.Linear(4, 2)
    checkpoints.save(store, 1, {"optimizer": torch.optim.SGD([model.weight, model.bias])})
    with pytest.raises(CheckpointError, match=r"is \(2, 4\) in the checkpoint and \(2,\) in this"):
        checkpoints.resume(store, {"optimizer": torch.optim.SGD([model.bias, model.weight])})


def test_other_kinds_and_formats_of_numbers_are_refused(store):
    checkpoints.save(store, 1, {"model": torch.nn.Linear(2, 2), "log": {"a": 1}})
    with pytest.raises(
        CheckpointError, match="'log' is a dict in the checkpoint and a list in this program"
    ):
        checkpoints.resume(store, {"model": torch.nn.Linear(2, 2), "log": []})
    with pytest.raises(CheckpointError, match=r"float32 in the checkpoint and \(2,\) bfloat16 now"):
        checkpoints.resume(store, {"model": torch.nn.Linear(2, 2).bfloat16(), "log": {}})


def test_another_class_of_optimizer_is_refused(store):
    model = torch.nn.Linear(2, 2)
    checkpoints.save(store, 5, {"optimizer": torch.optim.Adam(model.parameters())})
    sgd = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    with pytest.raises(CheckpointError, match="is Adam in the checkpoint and SGD in this program"):
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


@pytest.mark.parametrize("asked", [("model",), ("model", "losses", "scaler")])
def test_parts_that_would_begin_anew_are_named(store, asked):
    model = torch.nn.Linear(2, 2)
    checkpoints.save(store, 1, {"model": model, "losses": []})
    parts = {"model": model, "losses": [], "scaler": torch.amp.GradScaler("cpu")}
    with pytest.raises(
        CheckpointError, match=r"contains losses, model; you asked for .* start from scratch"
    ):
        checkpoints.resume(store, {name: parts[name] for name in asked})


@pytest.mark.parametrize("content", [{"format": 1}, {"model": {}}, [1.0], torch.zeros(3)])
def test_another_format_is_refused_and_left_as_it_is(store, content):
    written = store.write(1, ".pt", lambda path: torch.save(content, path))
    with pytest.raises(
        CheckpointError, match=r"has format (1|unknown), and this version .* reads 2"
    ):
        checkpoints.resume(store, {"model": torch.nn.Linear(1, 1)})
    assert written.path.exists()


def test_files_of_the_first_format_are_not_overlooked(store):
    store.write(7, ".safetensors", lambda path: path.write_bytes(b"old"))
    with pytest.raises(CheckpointError, match=r"has format 1, .* Resume with the version"):
        checkpoints.resume(store, {"model": torch.nn.Linear(1, 1)})


class Mine:
    """Something that only a pickle can hold."""


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"format": 2, "parts": {"model": Mine()}}, r"contains .*test_pytorch\.Mine: no class"),
        ({"format": 2, "parts": {"model": print}}, r"contains builtins\.print: no class"),
        ({"format": 2, "parts": {"a": numpy.zeros(2)}}, r"contains numpy.* no class"),
        (b"\0" * 64, "is not a file of torch.save"),
        (b"", "is not a file of torch.save"),
    ],
)
def test_what_cannot_be_read_leads_to_the_one_before(store, content, words):
    model = torch.nn.Linear(1, 1)
    checkpoints.save(store, 1, {"model": model})
    if isinstance(content, bytes):
        store.write(2, ".pt", lambda path: path.write_bytes(content))
    else:
        store.write(2, ".pt", lambda path: torch.save(content, path))
    with pytest.warns(CheckpointWarning, match=words):
        assert checkpoints.resume(store, {"model": model}).step == 1


def _endless():
    log = []
    log.append(log)
    return log


def _fake():
    with FakeTensorMode():
        return torch.zeros(2)


Pair = collections.namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (object(), "a object, has no state_dict .* checkpoints.ResumableBatchSampler"),
        ({"now": Mine()}, r"part.now is a .*test_pytorch\.Mine. .* run any code"),
        ({"losses": [1.0, numpy.float64(2)]}, r"part.losses\[1\] is a numpy.float64. .*float\("),
        ([numpy.zeros(2)], r"part\[0\] is a numpy.ndarray. .*torch.from_numpy"),
        ({"at": {Pair(1, 2): 3}}, r"part.at, key Pair\(a=1, b=2\), is a .*Pair. .*convert it"),
        ([{"log": collections.defaultdict(list)}], r"part\[0\].log is a collections.defaultdict"),
        ([range(3)], r"part\[0\] is a builtins.range"),
        ([len], r"part\[0\] is a builtins.builtin_function"),
        ([torch.zeros(2, device="meta")], r"part\[0\] is a torch.Tensor. Only .* with data"),
        ([_fake()], r"part\[0\] is a .*FakeTensor. Only plain tensors"),
        (_endless(), "contains itself"),
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
    batches = checkpoints.ResumableBatchSampler(examples=103, batch_size=10, seed=4)
    whole = [rows for _, rows in zip(range(45), batches.starting_at(0), strict=False)]
    assert whole == [batches[step] for step in range(45)]
    for begin in (1, 9, 10, 11, 37):
        assert next(iter(batches.starting_at(begin))) == whole[begin]
    for epoch in range(4):
        seen = [row for rows in whole[10 * epoch : 10 * epoch + 10] for row in rows]
        assert len(set(seen)) == 100
    assert whole[0] != whole[10] and whole[:10] != [
        checkpoints.ResumableBatchSampler(103, 10, seed=5)[step] for step in range(10)
    ]
    with pytest.raises(ValueError, match="from 1 to the size"):
        checkpoints.ResumableBatchSampler(examples=3, batch_size=4)
    with pytest.raises(TypeError, match="starting_at"):  # it would begin at 0 after a resume
        next(iter(torch.utils.data.DataLoader(range(103), batch_sampler=batches)))


def test_a_loader_takes_them_and_with_a_generator_of_its_own_draws_from_no_other():
    batches = checkpoints.ResumableBatchSampler(examples=64, batch_size=8)
    data = torch.utils.data.TensorDataset(torch.arange(64))
    before = torch.get_rng_state()
    chosen = list(itertools.islice(batches.starting_at(5), 4))
    loader = torch.utils.data.DataLoader(data, batch_sampler=chosen, generator=torch.Generator())
    assert [rows.tolist() for (rows,) in loader] == [batches[step] for step in range(5, 9)]
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(IndexError, match="counted from 0"):
        batches[-1]


@pytest.mark.parametrize(
    ("part", "saved"),
    [
        (torch.Generator(), {}),
        (random.Random(), {}),
        (torch.optim.lr_scheduler.ConstantLR(torch.optim.SGD([torch.zeros(1)])), []),
    ],
)
def test_nothing_is_loaded_where_a_later_part_was_saved_from_something_else(store, part, saved):
    checkpoints.save(store, 1, {"model": torch.nn.Linear(2, 2), "other": saved})
    model = torch.nn.Linear(2, 2)
    before = model.weight.clone()
    with pytest.raises(CheckpointError, match="'other'"):
        checkpoints.resume(store, {"model": model, "other": part})
    assert torch.equal(model.weight, before)


@pytest.mark.parametrize("step", [-1, -100])
def test_batches_are_counted_from_0(step):
    sampler = checkpoints.ResumableBatchSampler(10, 2)
    with pytest.raises(IndexError, match="counted from 0"):
        next(sampler.starting_at(step))


def test_tensors_and_lists_that_the_program_holds_get_the_values(store):
    image, losses = torch.ones(2, requires_grad=True), [1, 2]
    checkpoints.save(store, 1, {"image": [image], "log": {"losses": losses}})
    image, losses = torch.zeros(2, requires_grad=True), []
    checkpoints.resume(store, {"image": [image], "log": {"losses": losses}})
    assert image.tolist() == [1, 1] and losses == [1, 2]


def test_a_scheduler_of_another_class_is_refused(store):
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 100)
    checkpoints.save(store, 1, {"optimizer": optimizer, "scheduler": scheduler})
    other = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    with pytest.raises(CheckpointError, match="StepLR in the checkpoint and ExponentialLR"):
        checkpoints.resume(store, {"optimizer": optimizer, "scheduler": other})
    with pytest.raises(CheckpointError, match="SGD in the checkpoint and a dict"):
        checkpoints.resume(store, {"optimizer": {}, "scheduler": scheduler})


def test_a_scaler_that_was_disabled_stays_as_it_is(store):
    checkpoints.save(store, 1, {"scaler": torch.amp.GradScaler("cpu", enabled=False)})
    scaler = torch.amp.GradScaler("cpu")
    with pytest.warns(CheckpointWarning, match="saved without a state"):
        assert checkpoints.resume(store, {"scaler": scaler}).step == 1
    assert scaler.get_scale() == 2**16


def test_lazy_layers_and_parts_in_another_order_resume(store):
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 2))
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    parts = {"model": model, "head": model[1], "optimizer": optimizer}
    checkpoints.save(store, 1, parts)
    assert checkpoints.resume(store, dict(reversed(parts.items()))).step == 1
    checkpoints.save(store, 2, {"model": model[0]})
    lazy = torch.nn.LazyLinear(2)
    checkpoints.resume(store, {"model": lazy})
    assert torch.equal(lazy.weight, model[0].weight)
