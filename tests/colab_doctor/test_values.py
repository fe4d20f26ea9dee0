"""What the failing line worked with, and which keys there were, where nothing more exact is known."""

import numpy as np
import pytest
import torch

import colab_doctor
from colab_doctor.diagnosis.code import failed
from colab_doctor.diagnosis.values import describe
from tests.colab_doctor.conftest import error_of, told

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
def test_the_piece_of_code_that_failed(code, piece):
    assert failed(error_of(IMPORTS + code)).code == piece


def test_where_the_source_is_not_known():
    with pytest.raises(ZeroDivisionError) as caught:
        exec(compile("x = [0]\n1 / x[0]", "<nowhere>", "exec"), {})
    assert not colab_doctor.explain_error(caught.value, "colab")


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
            "`labels`: Tensor of shape (4, 2), int64, values from 0 to 7; `size`: 3.",
        ),
        (
            "x = np.ones((3, 4))\nnp.linalg.inv(x)",
            "`x`: ndarray of shape (3, 4), float64.",
        ),
    ],
)
def test_what_the_line_worked_with(code, seen):
    explained = told(IMPORTS + code)
    assert (explained.id == "values-of-the-line") == bool(seen)
    if seen:
        assert explained.finding.observation == seen
        assert "follow the odd one back" in explained.finding.fix


def test_a_known_mistake_keeps_its_way_out_and_is_told_the_values():
    explained = told(IMPORTS + "x = [torch.ones(3, 2), torch.ones(4, 2)]\ntorch.stack(x)")
    assert explained.id == "collate-sizes"
    [clue] = explained.diagnoses
    assert clue.observation == "`x`: list of 2: shape (3, 2), shape (4, 2)."
    assert str(explained).count("Fix: ") == 1 and clue.observation in str(explained)


def test_none():
    explained = told("def train():\n    pass\nmodel = train()\nmodel.eval()")
    assert explained.finding.observation == "`model`: None."
    assert "without `return`" in explained.finding.fix


@pytest.mark.parametrize(
    "code",
    [
        "x = torch.ones(3)\nraise ValueError('own words')",
        "x = torch.ones(3)\nassert x.sum() == 4, 'not four'",
        "name, x = 'a', torch.ones(3)\nint(name, 99)",
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
        ("secret", "str of 6 characters"),
        ([], "list of 0"),
        ({"a": 1}, "dict of 1: 'a'"),
        ((torch.ones(2, 3), None), "tuple of 2: shape (2, 3), None"),
        (np.array([3, 1]), "ndarray of shape (2,), int64, values from 1 to 3"),
        (torch.nn.Linear(3, 2), "Linear(in_features=3, out_features=2, bias=True)"),
        (torch.nn.Sequential(torch.nn.ReLU()), "Sequential"),
        (torch.ones(2, device="meta"), "Tensor of shape (2,), float32 on meta"),
        (Loud(), ""),
        (Endless(), ""),
        (print, ""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_value_is(value, said):
    assert describe(value) == said


def test_a_table():
    seen = {}
    exec(TABLE, seen)
    assert describe(seen["DataFrame"](a=[1])) == "DataFrame of shape (1, 1)"


def test_a_model_of_keras_by_its_shapes():
    keras = pytest.importorskip("keras")
    model = keras.Sequential([keras.layers.Dense(3)])
    assert describe(model) == "Sequential"
    model.build((None, 2))
    assert describe(model) == "Sequential from (None, 2) to (None, 3)"


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
            "found = {str(i): i for i in range(20)}\nfound['colour']",
            "`found` has no key `colour`. It has `0`, `1`, `2`, `3`, `4`, `5`, `6`, `7`, `8`, `9`, `10`, "
            "`11` ….",
            "Look where `found` is made: the key was never put there, or has another name.",
        ),
    ],
)
def test_which_keys_there_are(code, seen, remedy):
    explained = told(code)
    assert explained.id == "no-such-key"
    assert (explained.finding.observation, explained.finding.fix) == (seen, remedy)


def test_the_names_of_the_environment_are_not_told():
    assert not told("import os\nos.environ['NO_SUCH_TOKEN']")


def test_a_comma_that_makes_a_tuple():
    explained = told(IMPORTS + "loss_fn = torch.nn.MSELoss(),\nloss_fn(1, 2)")
    assert explained.id == "comma-makes-tuple" and explained.also is None
    assert explained.finding.observation == "`loss_fn` is a tuple that holds one MSELoss."
    assert told("pair = (1, 2)\npair(3)").id == "called-without-brackets"


def test_the_label_of_a_row_in_a_worker():
    lines = (
        '  File "/x/site-packages/pandas/core/series.py", line 1',
        "    raise KeyError(key)",
        "KeyError: 2",
    )
    text = "\n".join(("Caught KeyError in DataLoader worker process 0.", *lines))
    explained = told(f"def work():\n    raise KeyError({text!r})\nwork()")
    assert (explained.id, explained.finding.observation) == (
        "row-labels",
        "No row has the label 2.",
    )


FROZEN = IMPORTS + (
    "model = torch.nn.Linear(3, 2)\nmodel.requires_grad_(LEARNS)\n"
    "loss = model(torch.ones(1, 3)).sum()DETACHED\nloss.backward()"
)


@pytest.mark.parametrize(
    ("learns", "detached", "id"),
    [
        ("False", "", "all-frozen"),
        ("True", ".detach()", "loss-without-graph"),
        ("False)\nother = torch.nn.Linear(3, 2", "", "loss-without-graph"),
    ],
)
def test_why_nothing_learns(learns, detached, id):
    explained = told(FROZEN.replace("LEARNS", learns).replace("DETACHED", detached))
    assert explained.id == id
    if id == "all-frozen":
        assert explained.finding.observation == "No weight of `model` has `requires_grad=True`."


def test_gradients_that_were_switched_off():
    try:
        explained = told(
            "import torch\ntorch.set_grad_enabled(False)\n"
            "w = torch.nn.Linear(3, 2)\nw(torch.ones(1, 3)).sum().backward()"
        )
    finally:
        torch.set_grad_enabled(True)
    assert explained.id == "gradients-off"


@pytest.mark.parametrize(
    ("code", "not_told"),
    [
        ("x = np.ones(2)\n[np.linalg.inv(x) for x in [np.ones((2, 3))]]", "(2,)"),
        ("x = np.ones(2)\nnp.linalg.inv(np.stack([x for x in [np.ones(3)] * 2]))", "`x`"),
        ("pin, y = 4711, np.ones((2, 3))\nnp.linalg.inv(y, pin)", "4711"),
        ("y = np.ones((2, 3)); x = y\nnp.linalg.inv({'x': y}['x'])  # of x", "`x`"),
    ],
)
def test_what_is_not_told(code, not_told):
    assert not_told not in str(told(IMPORTS + code))


@pytest.mark.parametrize(
    "code",
    [
        "config = {'model': {'width': 1}}\nconfig['model']['height']",
        "users = {'hf_AbCdEfGhIjKlMnOp': 1, 'ada@example.org': 2}\nusers['name']",
        "import string\nstring.Template('$b').substitute({'a': 1})",
        "rows = [{'a': 1}]; row = {'p': 1}\n[row['c'] for row in rows]",
    ],
)
def test_the_keys_of_something_else_are_not_told(code):
    explained = told(code)
    assert "`config` has no" not in str(explained)
    assert "hf_" not in str(explained) and "@" not in str(explained)
    assert "`p`" not in str(explained)


class Noisy:
    """Whoever looks at it in the usual way runs its code."""

    ran = False

    def __getattribute__(self, name):
        type(self).ran = True
        return object.__getattribute__(self, name)

    @property
    def __class__(self):
        Noisy.ran = True
        return int


@pytest.mark.parametrize("code", ["np.linalg.inv(x)", "x + 1", "1 / 0 * x.part", "{'a': 1}[x]"])
def test_nothing_of_an_object_is_run(code):
    error = error_of(f"{IMPORTS}from {__name__} import Noisy\nx = Noisy()\n{code}")
    Noisy.ran = False
    colab_doctor.explain_error(error, "colab")
    assert not Noisy.ran
