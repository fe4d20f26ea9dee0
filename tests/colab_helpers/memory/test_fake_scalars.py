"""What a traced step reads, and which way its branches go."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from colab_helpers import memory
from tests.colab_helpers.allocator_events import peak_bytes

layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(6))


def trace(loss_of, net=layers, rows=32):
    return memory.footprint(net, loss_of, rows, torch.optim.Adam(net.parameters()))


def forward_loss(x, skip=lambda i: False):
    for i, layer in enumerate(layers):
        if not skip(i):
            x = torch.relu(layer(x))
    return x.square().mean() + sum(0 * layer.bias.sum() for layer in layers)


@pytest.mark.parametrize(
    ("skip", "reads"),
    [
        (lambda i: torch.rand(()) < 0.0, 6),
        (lambda i: not torch.rand(1) >= 0.1, 6),
        (lambda i: torch.empty(1).uniform_().item() < 0.2, 6),
        (lambda i: torch.isnan(torch.randn(50)).any(), 6),
        (lambda i: not torch.isfinite(torch.randn(50)).all(), 6),
        (lambda i: torch.logical_or(torch.rand(3) > 2, torch.rand(3) < -1).any(), 6),
        (lambda i: torch.rand(()) * 3 - 5 > 0, 6),
        (lambda i: torch.zeros(3).any(), 0),  # known, and not assumed
        (lambda i: torch.full((2,), 7.0).sum() < 0, 0),
        (lambda i: torch.equal(torch.zeros(3), torch.ones(3)), 0),
        (lambda i: torch.ones(2, 2).view(4)[1:].mean() != 1, 0),
        (lambda i: torch.ones(2, 3).sum() != 6, 0),
        (lambda i: torch.tensor(3) > 4, 0),
    ],
)
def test_layers_that_no_real_step_skips_are_not_skipped(skip, reads):
    found = trace(lambda rows: forward_loss(torch.randn(rows, 64), skip))
    assert found.peak == trace(lambda rows: forward_loss(torch.randn(rows, 64))).peak
    assert found.assumed_reads == reads
    assert ("assumed" in str(found)) == (reads > 0)


def test_a_branch_that_depends_on_data_is_counted():
    data = torch.randn(1000, 64)

    def loss_of(rows):
        x = data[:rows]
        if x.mean() > 0.1:
            x = x * 2
        return forward_loss(x, lambda i: x[i].sum() > 10)

    assert trace(loss_of).assumed_reads == 7
    assert "; 7 values that the step read were assumed" in str(trace(loss_of))


def test_a_real_number_stays_the_number_that_it_is():
    warm_up, seen = torch.tensor(3.5), []

    def loss_of(rows):
        seen.append((warm_up.item(), bool(warm_up > 3), float(warm_up * 2)))
        return forward_loss(torch.randn(rows, 64))

    assert trace(loss_of).assumed_reads == 0
    assert seen == [(3.5, True, 7.0)] * 2


def test_what_is_written_into_a_part_is_no_longer_known():
    def loss_of(rows):
        used = torch.zeros(rows, dtype=torch.bool)
        used[torch.randint(rows, (1,))] = True
        assert used.any()  # it was all False, and reads of zeros say so
        return forward_loss(torch.randn(rows, 64))

    assert trace(loss_of).assumed_reads == 1


@pytest.mark.parametrize("shown", ["{:.4f}", "{:>12.2e}", "{}"])
def test_a_loss_can_be_printed(shown, capsys):
    def loss_of(rows):
        loss = forward_loss(torch.randn(rows, 64))
        print("loss", shown.format(loss))
        return loss

    trace(loss_of)
    assert capsys.readouterr().out.count("loss") == 2
    with pytest.raises(TypeError):
        format(torch.zeros(3), ".2f")  # outside, PyTorch's own rule holds again


#: A fork of this process could have threads of other frameworks, which other tests have loaded.
APART = {"multiprocessing_context": "spawn"}


def loader_made_before():
    batches = iter(
        DataLoader(TensorDataset(torch.randn(64, 64)), batch_size=8, num_workers=1, **APART)
    )
    return lambda rows: forward_loss(next(batches)[0])


def loader_made_inside():
    loader = DataLoader(TensorDataset(torch.randn(64, 64)), batch_size=8, num_workers=1, **APART)
    return lambda rows: forward_loss(next(iter(loader))[0])


@pytest.mark.parametrize("make", [loader_made_before, loader_made_inside])
def test_loaders_with_workers_are_refused_and_lose_no_batch(make):
    loss_of = make()
    with pytest.raises(memory.TraceError, match=r"DataLoader with workers.*num_workers=0"):
        trace(loss_of)
    assert loss_of(8).isfinite()


def test_nested_tensors_are_refused_in_words():
    def loss_of(rows):
        ragged = torch.nested.nested_tensor([torch.randn(i + 1, 64) for i in range(rows)])
        return forward_loss(torch.nested.to_padded_tensor(ragged, 0.0))

    with pytest.raises(memory.TraceError, match=r"nested.* measure it with memory\.track"):
        trace(loss_of)


def test_lazy_layers_are_refused_before_anything_runs():
    net = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d())
    with pytest.raises(memory.TraceError, match="run one through it before"):
        memory.footprint(net, lambda rows: net(torch.randn(rows, 3)).sum(), 2, None)


def test_an_error_of_the_step_says_where_it_was_raised():
    with pytest.raises(RuntimeError, match="63") as caught:
        trace(lambda rows: forward_loss(torch.randn(rows, 63)))
    assert "memory.track" in caught.value.__notes__[0]


def recurrent(**how):
    net = nn.ModuleList([nn.LSTM(40, 72, batch_first=True, **how), nn.LazyLinear(9)])
    net[1](net[0](torch.randn(1, 2, 40))[0])

    def loss_of(rows):
        last = net[0](torch.randn(rows, 11, 40))[0][:, -1]
        return nn.functional.cross_entropy(net[1](last), torch.randint(9, (rows,)))

    return net, loss_of


@pytest.mark.parametrize("rows", [6, 70])
@pytest.mark.parametrize("how", [{}, {"num_layers": 2}, {"bidirectional": True}, {"bias": False}])
def test_the_backward_pass_of_a_recurrent_layer_counts_what_it_takes_inside(how, rows):
    net, loss_of = recurrent(**how)
    optimizer = torch.optim.Adam(net.parameters())
    found = memory.footprint(net, loss_of, rows, optimizer)
    assert found.peak == pytest.approx(peak_bytes(net, loss_of, rows, optimizer), rel=0.03)


@pytest.mark.filterwarnings("ignore:Sparse invariant")
def test_products_of_sparse_matrices_are_named():
    table = torch.eye(50).to_sparse()
    net = nn.Linear(64, 8)
    found = trace(lambda rows: torch.sparse.mm(table, net(torch.randn(50, 64))).sum(), net)
    assert found.uncounted and "sparse" in str(found)
    assert not trace(lambda rows: forward_loss(torch.randn(rows, 64))).uncounted


@pytest.mark.filterwarnings("ignore:Sparse invariant")
@pytest.mark.parametrize("layer", ["Embedding", "EmbeddingBag"])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.SparseAdam, torch.optim.Adagrad])
def test_sparse_gradients_are_traced(kind, layer):
    table = getattr(nn, layer)(3000, 16, sparse=True)
    optimizer = kind(table.parameters(), 0.1)

    def loss_of(rows):
        return table(torch.randint(3000, (rows, 5))).square().mean()

    found = memory.footprint(table, loss_of, 16, optimizer)
    assert found.peak == pytest.approx(peak_bytes(table, loss_of, 16, optimizer), rel=0.05)
