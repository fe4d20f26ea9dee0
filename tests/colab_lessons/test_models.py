import torch

from colab_lessons import models

SMALL = models.GPTConfig(vocab_size=11, block_size=8, n_embd=16, n_head=2, n_layer=2)


def test_no_position_sees_the_future():
    torch.manual_seed(0)
    model = models.GPT(SMALL)
    ids = torch.randint(11, (1, 8))
    changed = ids.clone()
    changed[0, -1] = (ids[0, -1] + 1) % 11
    before, after = model(ids), model(changed)
    assert torch.allclose(before[:, :-1], after[:, :-1], atol=1e-6)
    assert not torch.allclose(before[:, -1], after[:, -1], atol=1e-6)


def test_it_learns():
    torch.manual_seed(0)
    model = models.GPT(SMALL)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    ids = torch.randint(11, (4, 9))
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(
            model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()
        )
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 5
