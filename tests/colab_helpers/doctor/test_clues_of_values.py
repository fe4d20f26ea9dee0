"""What the failing line worked with, and which keys there were, where nothing more exact is known."""

import numpy as np
import pytest
import torch

from colab_helpers import doctor
from colab_helpers.doctor.clues import values
from tests.colab_helpers.doctor.conftest import told

#: As much of a table of pandas as is looked at.
TABLE = """
class DataFrame(dict):
    __module__ = "pandas.core.frame"
    columns = property(list)
    shape = property(lambda self: (1, len(self)))
"""
IMPORTS = "import numpy as np, torch, torch.nn.functional as F\n"


@pytest.mark.parametrize(
    ("code", "piece"),
    [
        ("x = torch.ones(3)\nfor _ in range(2):\n    y = F.relu(\n        x(1),\n    )", "x(1)"),
        ("x = torch.ones(3)\na, b = x", "a, b = x"),
        ("x = torch.ones(3)\nx[5] = 1", "x[5] = 1"),
        ("x = 'é' * 2; y = x + 'ü' + 3", "x + 'ü' + 3"),
        ("x = 3\nfor a in x:\n    a = 'never'", "x"),
        ("y = torch.cat(\n    [1,\n     2])", "torch.cat(\n    [1,\n     2])"),
    ],
)
def test_the_piece_of_code_that_failed(code, piece, monkeypatch):
    from colab_helpers.doctor.clues import line

    pieces = []
    monkeypatch.setattr(values, "failed", lambda e: pieces.append(line.failed(e)))
    told(IMPORTS + code)
    [failed] = pieces
    assert failed.code == piece or failed.code == "for a in x:"  # Python 3.11 knows the line alone


def test_where_the_source_is_not_known():
    with pytest.raises(ZeroDivisionError) as caught:
        exec(compile("x = [0]\n1 / x[0]", "<nowhere>", "exec"), {})
    assert not doctor.explain_error(caught.value, "colab")


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        (
            "logits = torch.ones(4, 10)\nlabels = torch.arange(4).reshape(4, 1)\n"
            "loss = F.made_up_loss(\n    logits,\n    labels)",
            None,  # a name that a package does not have is another case
        ),
        (
            "size = 3\nlabels = torch.arange(8).reshape(4, 2)\n"
            "torch.linalg.cholesky(\n    labels,\n    upper=size > 2)",
            "`labels` is a Tensor of shape (4, 2), int64, values from 0 to 7; `size` is 3.",
        ),
        (
            "x = np.ones((3, 4))\nnp.linalg.inv(x)",
            "`x` is an ndarray of shape (3, 4), float64.",
        ),
    ],
)
def test_what_the_line_worked_with(code, seen):
    explained = told(IMPORTS + code)
    assert (explained.id == "values-of-the-line") == bool(seen)
    if seen:
        assert explained.finding.seen == seen
        assert "help(" in explained.finding.remedy


def test_a_known_mistake_keeps_its_way_out_and_is_told_the_values():
    explained = told(IMPORTS + "x = [torch.ones(3, 2), torch.ones(4, 2)]\ntorch.stack(x)")
    assert explained.id == "collate-sizes"
    [clue] = explained.clues
    assert clue.seen == "`x` is a list of 2: shape (3, 2), shape (4, 2)."
    assert str(explained).count("What to do") == 1
    assert "What to do in this case" not in explained._repr_mimebundle_()["text/html"]


def test_none():
    explained = told("def train():\n    pass\nmodel = train()\nmodel.eval()")
    assert explained.finding.seen == "`model` is None."
    assert "without `return`" in explained.finding.remedy


@pytest.mark.parametrize(
    "code",
    [
        "x = torch.ones(3)\nraise ValueError('own words')",
        "x = torch.ones(3)\nassert x.sum() == 4, 'not four'",
        "name, x = 'a', torch.ones(3)\nint(name)",
        "1 / 0",
    ],
)
def test_nothing_is_said_of_own_words_nor_of_lines_without_tensors(code):
    assert not told(IMPORTS + code)


class Loud:
    def __repr__(self):
        raise SystemExit

    shape = property(__repr__)


class Endless:
    """As AutoGraph's undefined values: whatever one asks it, it gives itself."""

    __module__ = "tensorflow.python.autograph"

    def __getattribute__(self, name):
        return self

    def __getitem__(self, index):
        return self


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "None"),
        (3, "3"),
        ("secret", "a str of 6 characters"),
        ([], "a list of 0"),
        ({"a": 1}, "a dict of 1: 'a'"),
        ((torch.ones(2, 3), None), "a tuple of 2: shape (2, 3), None"),
        (np.array([3, 1]), "an ndarray of shape (2,), int64, values from 1 to 3"),
        (torch.nn.Linear(3, 2), "`Linear(in_features=3, out_features=2, bias=True)`"),
        (torch.nn.Sequential(torch.nn.ReLU()), "a Sequential"),
        (torch.ones(2, device="meta"), "a Tensor of shape (2,), float32 on meta"),
        (Loud(), ""),
        (Endless(), ""),
        (print, ""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_value_is(value, said):
    assert values.describe(value) == said


def test_a_table():
    seen = {}
    exec(TABLE, seen)
    assert values.describe(seen["DataFrame"](a=[1])) == "a DataFrame of shape (1, 1)"


def test_a_model_of_keras_by_its_shapes():
    keras = pytest.importorskip("keras")
    model = keras.Sequential([keras.layers.Dense(3)])
    assert values.describe(model) == "a Sequential"
    model.build((None, 2))
    assert values.describe(model) == "a Sequential from (None, 2) to (None, 3)"


@pytest.mark.parametrize(
    ("code", "seen", "remedy"),
    [
        (
            "batch = {'label': 1, 'input_ids': 2}\nbatch['labels']",
            "`batch` has no key `labels`. It has `label`, `input_ids`.",
            "Did you mean `label`?",
        ),
        (
            f"{TABLE}\ntable = DataFrame(**{{'Price ': [1]}})\ntable['price']",
            "`table` has no column `price`. It has `Price `.",
            "Did you mean `Price `?",
        ),
        (
            "found = {str(i): i for i in range(20)}\nfound['accuracy']",
            "`found` has no key `accuracy`. It has `0`, `1`, `2`, `3`, `4`, `5`, `6`, `7`, `8`, `9`, `10`, "
            "`11` ….",
            "Look where `found` is made: the key was never put there, or has another name.",
        ),
    ],
)
def test_which_keys_there_are(code, seen, remedy):
    explained = told(code)
    assert explained.id == "no-such-key"
    assert (explained.finding.seen, explained.finding.remedy) == (seen, remedy)


def test_the_names_of_the_environment_are_not_told():
    assert not told("import os\nos.environ['NO_SUCH_TOKEN']")
