"""Which tensor of the failing line does not fit: named, with what it is."""

import types

import numpy as np
import pytest
import torch

from colab_helpers import doctor
from colab_helpers.doctor.clues import Raised, names, sizes


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(3, 2)

    def forward(self, x):
        x = x.to(torch.bfloat16)
        return self.head(x.contiguous())


def types_of_a_model():
    Net()(torch.randn(2, 3))


def types_of_tensors():
    a, b = torch.randn(4, 3), torch.randn(3, 2, dtype=torch.float16)
    return a @ b


def shapes_of_a_model():
    model, x = torch.nn.Linear(3, 2), torch.randn(4, 4)
    return model(x)


def shapes_of_tensors():
    a, b = torch.randn(2, 3), torch.randn(2, 4)
    return torch.cat([a, b])


def shapes_of_arrays():
    a, b = np.zeros((3, 4)), np.ones((3, 2))
    return a @ b


def devices():
    a, b = torch.randn(4, 3, device="meta"), torch.randn(4, 3)
    return torch.nn.functional.mse_loss(a, b)


@pytest.mark.parametrize(
    ("fails", "id", "seen"),
    [
        (types_of_a_model, "mixed-dtypes", "`self.head` is float32, `x` is bfloat16."),
        (types_of_tensors, "mixed-dtypes", "`a` is float32, `b` is float16."),
        (
            shapes_of_a_model,
            "tensor-shapes",
            "`model` expects 3 values per row, `x` has shape (4, 4).",
        ),
        (shapes_of_tensors, "arrays-to-join", "`a` has shape (2, 3), `b` has shape (2, 4)."),
        (shapes_of_arrays, "tensor-shapes", "`a` has shape (3, 4), `b` has shape (3, 2)."),
        (devices, "two-devices", "`a` is on meta, `b` is on cpu."),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_the_odd_one_out_is_named(fails, id, seen):
    with pytest.raises((RuntimeError, ValueError)) as caught:
        fails()
    explained = doctor.explain_error(caught.value, "colab")
    assert explained.id == id
    told = [explained.finding.seen, *(clue.seen for clue in explained.clues)]
    assert f"In the line that failed, {seen}" in told


def test_what_a_layer_expects_and_gets():
    net = torch.nn.Sequential(torch.nn.Flatten(0), torch.nn.Linear(16, 10))
    with pytest.raises(RuntimeError) as caught:
        torch.nn.Sequential(torch.nn.Flatten(), net[1])(torch.ones(4, 3, 3))
    explained = doctor.explain_error(caught.value, "colab")
    assert explained.id == "tensor-shapes"
    clue = explained.clues[0]
    assert clue.seen == "A layer `Linear(16, 10)` expects 16 values per row, and gets 9."
    assert "`Linear(9, 10)`" in clue.remedy


def test_the_same_shape_twice_may_not_fit_either():
    def product():
        a, b = torch.ones(3, 4), torch.ones(3, 4)
        return a @ b

    with pytest.raises(RuntimeError) as caught:
        product()
    explained = doctor.explain_error(caught.value, "colab")
    [clue] = explained.clues
    assert "`a` has shape (3, 4), `b` has shape (3, 4)" in clue.seen
    assert "`.T`" in explained.finding.remedy


@pytest.mark.parametrize(
    ("dtype", "says"),
    [
        (torch.float64, "`x = x.float()`"),
        (torch.int64, "x.float() / 255"),
        (torch.bfloat16, "next(model"),
    ],
)
def test_what_to_do_about_a_type(dtype, says):
    model, x = torch.nn.Linear(3, 2), torch.ones(4, 3).to(dtype)
    with pytest.raises(RuntimeError) as caught:
        model(x)
    explained = doctor.explain_error(caught.value, "colab")
    assert any(says in clue.remedy for clue in explained.clues)


def test_where_the_line_is_not_known_the_whole_function_is_looked_at():
    lines = (
        "def f():",
        " a = torch.ones(2, 3)",
        " b = torch.ones(2, 4)",
        " torch.cat([a, b])",
        "f()",
    )
    code = compile("\n".join(lines), "/content/gone.py", "exec")
    with pytest.raises(RuntimeError) as caught:
        exec(code, {"torch": torch})
    assert "`a` has shape (2, 3), `b` has shape (2, 4)" in str(
        doctor.explain_error(caught.value, "colab")
    )


def test_nothing_is_said_where_all_fit_or_nothing_is_a_tensor():
    def all_fit():
        a = torch.ones(2, 3)
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied {a.shape}")

    def none():
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    for fails in (all_fit, none):
        with pytest.raises(RuntimeError) as caught:
            fails()
        assert doctor.explain_error(caught.value, "colab").clues == ()


def test_no_property_of_anybody_is_run():
    class Trap:
        @property
        def x(self):
            raise SystemExit

    assert names.stands_for("trap.x", {"trap": Trap()}) is None
    assert names.stands_for("a.b", {"a": types.SimpleNamespace(b=3)}) == 3
    assert names.stands_for("gone.b", {}) is None


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("cannot be multiplied (112x28 and 784x10)", "784 = 28 × 28: one of the two was flattened"),
        (
            "cannot be multiplied (8x8192 and 2048x5)",
            "8192 = 2 × 2 × 2048: as if pictures had 2 times",
        ),
        ("number of samples: [3072, 32]".replace("number", "numbers"), "3072 = 3 × 32 × 32: one"),
        ("tensor a (24) must match the size of tensor b (25)", "25 and 24 differ by one"),
        ("tensor a (4) must match the size of tensor b (5)", ""),
        ("tensor a (224) must match the size of tensor b (3)", ""),
        ("cannot be multiplied (8x3600 and 4096x10)", ""),
    ],
)
def test_what_two_sizes_have_to_do_with_each_other(text, seen):
    found = [clue.seen for clue in sizes.clues(Raised(text, "colab"))]
    assert [one.startswith(seen) for one in found] == [True] * bool(seen)
