"""Which tensor of the failing line does not fit: named, with what it is."""

import types

import numpy as np
import pytest
import torch

import colab_doctor
from colab_doctor.diagnosis import code


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
    explained = colab_doctor.explain_error(caught.value, "colab")
    assert explained.id == id
    told = [explained.finding.observation, *(clue.observation for clue in explained.diagnoses)]
    assert f"In the line that failed, {seen}" in told


def test_what_a_layer_expects_and_gets():
    net = torch.nn.Sequential(torch.nn.Flatten(0), torch.nn.Linear(16, 10))
    with pytest.raises(RuntimeError) as caught:
        torch.nn.Sequential(torch.nn.Flatten(), net[1])(torch.ones(4, 3, 3))
    explained = colab_doctor.explain_error(caught.value, "colab")
    assert explained.id == "tensor-shapes"
    clue = explained.diagnoses[0]
    assert clue.observation == "A layer `Linear(16, 10)` expects 16 values per row, and gets 9."
    assert "`Linear(9, 10)`" in clue.fix


def test_the_same_shape_twice_may_not_fit_either():
    def product():
        a, b = torch.ones(3, 4), torch.ones(3, 4)
        return a @ b

    with pytest.raises(RuntimeError) as caught:
        product()
    explained = colab_doctor.explain_error(caught.value, "colab")
    [clue] = explained.diagnoses
    assert "`a` has shape (3, 4), `b` has shape (3, 4)" in clue.observation
    assert "`.T`" in explained.finding.fix


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
    explained = colab_doctor.explain_error(caught.value, "colab")
    assert any(says in clue.fix for clue in explained.diagnoses)


def test_where_the_line_is_not_known_the_whole_function_is_looked_at():
    lines = (
        "def f():",
        " a = torch.ones(2, 3)",
        " b = torch.ones(2, 4)",
        " torch.cat([a, b])",
        "f()",
    )
    source = compile("\n".join(lines), "/content/gone.py", "exec")
    with pytest.raises(RuntimeError) as caught:
        exec(source, {"torch": torch})
    assert "`a` has shape (2, 3), `b` has shape (2, 4)" in str(
        colab_doctor.explain_error(caught.value, "colab")
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
        assert colab_doctor.explain_error(caught.value, "colab").diagnoses == ()


def test_no_property_of_anybody_is_run():
    class Trap:
        @property
        def x(self):
            raise SystemExit

    assert code.stands_for("trap.x", {"trap": Trap()}) is None
    assert code.stands_for("a.b", {"a": types.SimpleNamespace(b=3)}) == 3
    assert code.stands_for("gone.b", {}) is None
