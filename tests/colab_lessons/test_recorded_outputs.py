import json
from types import SimpleNamespace

import pytest

from colab_lessons import recorded_outputs

CELL = "# needs: no_such_framework\nprint('ran')\n"
OUTPUTS = [
    {"output_type": "stream", "name": "stdout", "text": "ran\n"},
    {"output_type": "execute_result", "data": {"text/plain": "42"}, "metadata": {}},
]


class Shell:
    """As much of IPython as `watch` uses."""

    def __init__(self):
        self.input_transformers_cleanup = []
        self.handlers = []
        self.events = SimpleNamespace(register=lambda name, handler: self.handlers.append(handler))

    def run(self, source):
        for handler in self.handlers:
            handler(SimpleNamespace(raw_cell=source))
        lines = source.splitlines(keepends=True)
        for transform in self.input_transformers_cleanup:
            lines = transform(lines)
        return "".join(lines)


@pytest.fixture
def shell():
    found = Shell()
    recorded_outputs.watch("04_toy", found)
    return found


def test_cells_run_as_they_are_where_nothing_is_missing(shell):
    for source in ("x = 1\n", "# needs: json\nx = 1\n", "x = 1  # needs: no_such_framework\n"):
        assert shell.run(source) == source
    assert recorded_outputs.tally() == {"json": {"ran": 1}}


def test_cell_whose_need_is_missing_is_replaced_by_a_replay(shell):
    text = shell.run(CELL)
    assert "print('ran')" not in text and "recorded_outputs.replay('04_toy'" in text
    assert recorded_outputs.tally() == {"no_such_framework": {"replayed": 1}}


def test_replay_shows_what_was_recorded_and_says_where(tmp_path, capsys):
    cells = [("x = 1", OUTPUTS), (CELL, OUTPUTS)]
    path = recorded_outputs.record_outputs("04_toy", "Tesla T4", "2026-11-20", cells, tmp_path)
    assert list(json.loads(path.read_text())["cells"]) == [recorded_outputs.digest(CELL)]
    recorded_outputs.replay("04_toy", recorded_outputs.digest(CELL), ["tensorflow"], tmp_path)
    told = capsys.readouterr().out
    assert told.startswith(
        "Not run here: tensorflow is not installed.\nRecorded on Tesla T4, 2026-11-20, "
        "with the predictions made there:\nran\n"
    )


def test_replay_without_a_record_says_so(tmp_path, capsys):
    recorded_outputs.replay("04_toy", "0000", ["tensorflow"], tmp_path)
    assert capsys.readouterr().out == (
        "Not run here: tensorflow is not installed. Nothing is recorded for this cell.\n"
    )


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (
            '# @title Start { display-mode: "form" }\n# needs: tensorflow, keras\nx',
            ("tensorflow", "keras"),
        ),
        ("# needs: jax", ("jax",)),
        ("# @title Start\ny = 1\n# needs: jax", ()),
        ("import x\n# needs: jax", ()),
    ],
)
def test_needs_stand_first_or_below_a_title(source, names):
    assert recorded_outputs.needs(source) == names


def test_outside_ipython_nothing_happens(monkeypatch):
    monkeypatch.setattr(recorded_outputs, "_shell", lambda: None)
    recorded_outputs.watch("04_toy")


@pytest.mark.parametrize(
    ("jax", "lacking"), [("0.7.2", ("libtpu for JAX 0.10 or newer",)), ("0.10.2", ()), ("1.0", ())]
)
def test_a_compiler_that_would_end_the_process_counts_as_missing(jax, lacking, monkeypatch):
    monkeypatch.setattr(recorded_outputs, "find_spec", lambda name: name)
    monkeypatch.setattr(recorded_outputs.metadata, "version", lambda name: jax)
    assert recorded_outputs.missing("# needs: jax, libtpu") == lacking
