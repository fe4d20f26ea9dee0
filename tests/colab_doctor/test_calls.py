"""What a function of one's own takes, and what a loop hands from step to step."""

import pytest

from tests.colab_doctor.conftest import told

IMPORTS = "import torch\n"


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        (
            "class Scale:\n    def __call__(self, img):\n        return img\nScale()(1, 2)",
            "`Scale.__call__` is defined with (self, img),",
        ),
        (
            "def train(model, *, epochs):\n    pass\ntrain(1, 2)",
            "`train` is defined with (model, epochs),",
        ),
        (
            "class Net:\n    def __init__(self, width, *sizes, act, **rest):\n        pass\nNet(3)",
            "`Net.__init__` is defined with (self, width, act),",
        ),
        (
            "def step(x, y=1):\n    pass\nstep(1, lr=2)",
            "`step` is defined with (x, y),",
        ),
    ],
)
def test_what_a_function_of_ones_own_takes(code, seen):
    explained = told(code)
    assert explained.id == "own-call" and explained.also is None
    assert explained.finding.observation.startswith(seen)


def test_it_is_found_through_a_worker_too():
    text = "Caught TypeError in DataLoader worker process 0.\\nTypeError: f() missing 1 required positional "
    code = f"def f(a, b):\n    pass\nraise TypeError({text!r} + 'argument: ' + repr('b'))"
    observation = told(code.replace("\\\\n", "\\n")).finding.observation
    assert observation.startswith("`f` is defined with (a, b),")


@pytest.mark.parametrize(
    "code",
    [
        "import json\njson.dumps(1, 2)",  # somebody else's
        "from shutil import copy\ncopy('a')",  # that too, by a name of one's own
        "f = lambda: 0\nf(1)",  # without a name
        "def f():\n    pass\ndel f\nraise TypeError('f() takes 0 positional arguments but 1 was given')",
    ],
)
def test_what_others_wrote_is_not_told(code):
    assert not told(code)


def test_what_a_library_wants_is_told_second():
    code = "class Trainer:\n    def compute_loss(self, model):\n        pass\n"
    explained = told(code + "Trainer().compute_loss(1, num_items_in_batch=2)")
    assert (explained.id, explained.also.id) == ("own-call", "huggingface-mismatch")


LOADER = "loader = [{'image': torch.ones(2), 'label': torch.ones(1)}]\n"


def test_a_batch_with_keys():
    explained = told(IMPORTS + LOADER + "for images, labels in loader:\n    images.to('cpu')")
    assert (explained.id, explained.finding.observation) == (
        "batch-is-a-dict",
        "`images` is 'image', `labels` is 'label': these are keys of a dict, not what it holds.",
    )


@pytest.mark.parametrize(
    "code",
    [
        "for image, label in [('a b', 'c d')]:\n    image.to('cpu')",  # texts, and no keys
        "for image, label in [('a', 3)]:\n    image.to('cpu')",
        "a, b = 'ab', 'cd'\nc = 'x'\nc.to('cpu')",
    ],
)
def test_other_texts_are_no_keys(code):
    assert told(code).id != "batch-is-a-dict"
