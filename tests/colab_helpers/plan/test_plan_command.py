"""`colab-helpers plan`: a table, JSON, exit codes, and one clear line for whatever stands in the way."""

import json
import sys

import pytest

from colab_helpers.__main__ import main

JOB = """
import torch
from torch import nn

def job():
    model = nn.Linear(100, 10)
    return model, lambda rows: model(torch.zeros(rows, 100)).sum(), torch.optim.Adam(model.parameters())

def huge():
    with torch.device("meta"):
        model = nn.Linear(10**6, 10**6)
    return model, lambda rows: model(torch.zeros(rows, 10**6)), None

def shapeless():
    model = nn.Linear(4, 4)
    loss = lambda rows: model(torch.ones(rows, 4)[torch.ones(rows) > 0]).sum()
    return model, loss, torch.optim.SGD(model.parameters())

def failing():
    raise KeyError("weights.pt")

def broken():
    model = nn.Linear(4, 4)
    return model, lambda rows: model(torch.ones(rows, 5)).sum(), torch.optim.SGD(model.parameters())

def alone():
    return nn.Linear(1, 1)

number = 3
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(JOB)
    return path


def test_table_and_the_cheapest(file, capsys):
    assert main(["plan", f"{file}:job", "--steps", "500", "--deadline", "1"]) == 0
    told = capsys.readouterr().out
    assert "T4 GPU" in told and "500 steps" in told and "Cheapest within 1 hour: T4 GPU." in told


def test_json_has_numbers(file, capsys):
    assert (
        main(["plan", f"{file}:job", "--batch-size", "8", "--chips", "T4", "H100", "--json"]) == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert told["batch_size"] == 8 and told["flops"] == 2 * 2 * 8 * 100 * 10
    assert [estimate["chip"] for estimate in told["estimates"]] == ["T4", "H100"]
    assert told["estimates"][1]["units"] is None and told["estimates"][0]["fits"] is True


def test_what_fits_nowhere_exits_with_1(file, capsys):
    assert main(["plan", f"{file}:huge", "--deadline", "1"]) == 1
    assert "No machine that fits" in capsys.readouterr().out


@pytest.mark.parametrize(
    "where, line",
    [
        ("{file}", "expected FILE:FUNCTION"), ("{file}:nobody", "no function 'nobody'"),
        ("{file}:number", "no function 'number'"), ("gone.py:job", "No such file: gone.py"),
        ("{file}:failing", "raised KeyError: 'weights.pt'"), ("{file}:alone", "return (model, forward"),
        ("{file}:shapeless", "data-dependent shape"), ("{file}:broken", "raised RuntimeError"),
    ],
)  # fmt: skip
def test_one_clear_line(file, where, line, capsys):
    assert main(["plan", where.format(file=file)]) == 2
    told = capsys.readouterr()
    assert line in told.err and not told.out and "Traceback" not in told.err


def test_unknown_chip_and_file_that_does_not_run(file, tmp_path, capsys):
    assert main(["plan", f"{file}:job", "--chips", "T5"]) == 2
    assert "Available: T4" in capsys.readouterr().err
    other = tmp_path / "other.py"
    other.write_text("import os\nimport no_such_thing")
    assert main(["plan", f"{other}:job"]) == 2
    assert (
        "raised ModuleNotFoundError: No module named 'no_such_thing' (line 2)"
        in capsys.readouterr().err
    )


def test_without_pytorch(file, capsys, monkeypatch):
    monkeypatch.setattr("colab_helpers.__main__.find_spec", lambda name: None)
    assert main(["plan", f"{file}:job"]) == 2
    assert "needs PyTorch" in capsys.readouterr().err


def test_a_file_is_loaded_as_if_it_were_run(tmp_path, capsys):
    (tmp_path / "beside.py").write_text("WIDTH = 7\n")
    (tmp_path / "later.py").write_text("OUT = 1\n")
    path = tmp_path / "train.py"
    path.write_text(
        "from __future__ import annotations\nimport argparse\nfrom dataclasses import dataclass\n"
        "import torch\nfrom beside import WIDTH\n"
        "@dataclass\nclass Sizes:\n    width: int = WIDTH\n"
        "options = argparse.ArgumentParser().parse_args()\n"
        "def job():\n    import later\n    model = torch.nn.Linear(Sizes().width, later.OUT)\n"
        "    return model, lambda rows: model(torch.zeros(rows, 7)), None\n"
        "def leaves():\n    raise SystemExit(0)\n"
        "def odd():\n    model, forward, _ = job()\n    return model, forward, model.parameters()\n"
    )
    assert main(["plan", f"{path}:job", "--deadline", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cheapest"] == "T4 GPU"
    assert main(["plan", f"{path}:leaves"]) == 2 and main(["plan", f"{path}:odd"]) == 2
    assert "optimizer may be None" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["plan", f"{path}:job", "--deadline", "nan"])


def test_a_file_may_change_its_path_print_and_exit(tmp_path, capsys, monkeypatch):
    (tmp_path / "train.py").write_text(
        f"import sys\nsys.path = [*sys.path[1:]]\nprint('using cpu')\n{JOB}"
        "\ndef leaving():\n    model = nn.Linear(1, 1)\n    return model, lambda rows: sys.exit(3), None\n"
    )
    before = [*sys.path]
    assert main(["plan", f"{tmp_path}/train.py:job", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) and sys.path == before
    assert main(["plan", f"{tmp_path}/train.py:leaving"]) == 2
    assert "SystemExit" in capsys.readouterr().err


def test_neighbors_of_the_same_name_are_not_mixed_up(tmp_path):
    from colab_helpers.plan.plan_command import plan_file

    found = []
    for folder, width in (("a", 100), ("b", 10)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "model.py").write_text(
            f"from torch import nn\nnet = nn.Linear({width}, 1)"
        )
        (tmp_path / folder / "train.py").write_text(
            "import torch\nfrom model import net\n"
            "def job():\n    return net, lambda rows: net(torch.zeros(rows, net.in_features)), None\n"
        )
        work, _ = plan_file(f"{tmp_path}/{folder}/train.py:job", 1, ["T4"])
        found.append(work.footprint.parameters)
    assert found == [404, 44]
