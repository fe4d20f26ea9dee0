"""What the failing line worked with, and which keys there were, where nothing more exact is known."""

import importlib
import sys
import types

import numpy as np
import pytest
import torch

from colab_helpers import doctor
from colab_helpers.doctor.clues import line
from colab_helpers.doctor.clues.describe import describe
from tests.colab_helpers.doctor.conftest import error_of, told

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
    assert line.failed(error_of(IMPORTS + code)).code == piece


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
        assert explained.finding.seen == seen
        assert "help(" in explained.finding.remedy


def test_a_known_mistake_keeps_its_way_out_and_is_told_the_values():
    explained = told(IMPORTS + "x = [torch.ones(3, 2), torch.ones(4, 2)]\ntorch.stack(x)")
    assert explained.id == "collate-sizes"
    [clue] = explained.clues
    assert clue.seen == "`x`: list of 2: shape (3, 2), shape (4, 2)."
    assert str(explained).count("What to do") == 1
    assert "What to do in this case" not in explained._repr_mimebundle_()["text/html"]


def test_none():
    explained = told("def train():\n    pass\nmodel = train()\nmodel.eval()")
    assert explained.finding.seen == "`model`: None."
    assert "without `return`" in explained.finding.remedy


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
    assert (explained.finding.seen, explained.finding.remedy) == (seen, remedy)


def test_the_names_of_the_environment_are_not_told():
    assert not told("import os\nos.environ['NO_SUCH_TOKEN']")


def test_a_gradient_that_is_not_there():
    explained = told(IMPORTS + "p = torch.ones(2)\np.grad.norm()")
    assert (explained.id, explained.finding.seen) == ("no-gradient-there", "`p.grad` is None.")


ENVIRONMENT = """
class Env:
    def step(self, action): return 1, 2, 3, 4, 5
    def reset(self): return (1, {})
    def old(self): return 1, 2, 3, 4
env = Env()
"""


@pytest.mark.parametrize(
    ("code", "id"),
    [
        ("s, r, d, i = env.step(0)", "gym-five-values"),
        ("import math\nstate = env.reset()\nmath.sqrt(state.x)", "gym-five-values"),
        ("s, r, d, t, i = env.old()", ""),
        ("a, b, c, d = [env.old(), 2, 3, 4, 5]", ""),
    ],
)
def test_the_old_gym(code, id, monkeypatch):
    monkeypatch.delitem(sys.modules, "gymnasium", raising=False)
    monkeypatch.delitem(sys.modules, "gym", raising=False)
    assert not told(ENVIRONMENT + code)
    monkeypatch.setitem(sys.modules, "gymnasium", types.ModuleType("gymnasium"))
    assert told(ENVIRONMENT + code).id == id


def test_a_comma_that_makes_a_tuple():
    explained = told(IMPORTS + "loss_fn = torch.nn.MSELoss(),\nloss_fn(1, 2)")
    assert explained.id == "comma-makes-tuple" and explained.also is None
    assert explained.finding.seen == "`loss_fn` is a tuple that holds one MSELoss."
    assert told("pair = (1, 2)\npair(3)").id == "called-without-brackets"


def test_the_label_of_a_row_in_a_worker():
    lines = (
        '  File "/x/site-packages/pandas/core/series.py", line 1',
        "    raise KeyError(key)",
        "KeyError: 2",
    )
    text = "\n".join(("Caught KeyError in DataLoader worker process 0.", *lines))
    explained = told(f"def work():\n    raise KeyError({text!r})\nwork()")
    assert (explained.id, explained.finding.seen) == ("row-labels", "No row has the label 2.")


BEFORE, AFTER = (
    "def scale(x):\n    return x\n",
    "def scale(x, axis=0):\n    return x\n\n\ndef shift(x):\n    pass\n",
)


@pytest.mark.parametrize(
    ("after", "code", "changed"),
    [
        (AFTER, "from own_helpers import scale\nscale(1, axis=0)", True),
        (AFTER, "import own_helpers\nown_helpers.scale(1, axis=0)", True),
        (AFTER, "from own_helpers import shift", True),
        (BEFORE, "import own_helpers\nown_helpers.scale(1, axis=0)", False),
        (AFTER, "import own_helpers\nint('a')", False),
        ("def broken(", "import own_helpers\nown_helpers.scale(1, axis=0)", False),
    ],
)
def test_a_file_that_was_changed_after_its_import(tmp_path, monkeypatch, after, code, changed):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_helpers", raising=False)
    file = tmp_path / "own_helpers.py"
    file.write_text(BEFORE)
    importlib.import_module("own_helpers")
    file.write_text(after)
    try:
        explained = told(code)
        assert (explained.id == "module-changed") == changed
        assert not changed or "`own_helpers.py` was changed" in explained.finding.seen
    finally:
        sys.modules.pop("own_helpers", None)


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
        assert explained.finding.seen == "No weight of `model` has `requires_grad=True`."


def test_gradients_that_were_switched_off():
    try:
        explained = told(
            "import torch\ntorch.set_grad_enabled(False)\n"
            "w = torch.nn.Linear(3, 2)\nw(torch.ones(1, 3)).sum().backward()"
        )
    finally:
        torch.set_grad_enabled(True)
    assert explained.id == "gradients-off"


@pytest.mark.parametrize(("shape", "last"), [("(2, 32, 32, 3)", True), ("(2, 8, 32, 32)", False)])
def test_channels_that_are_last(shape, last):
    explained = told(f"{IMPORTS}torch.nn.Conv2d(3, 8, 3)(torch.ones{shape})")
    assert explained.id == "channels-first"
    assert any("they are last" in clue.seen for clue in explained.clues) == last


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
    doctor.explain_error(error, "colab")
    assert not Noisy.ran
