"""Which two packages do not go together, in a session and in a text; and what a clue never does."""

import importlib
import sys
from pathlib import Path

import pytest

from colab_doctor.diagnosis import Failure, diagnose, installed_packages
from colab_helpers import _environment_probes
from tests.colab_doctor.conftest import explain_cell


def test_what_a_package_says_that_it_needs_comes_first(session):
    session("provider", "")
    session(
        "asker",
        "from provider import gone",
        needs=["provider<2,>=1.4", "absent>=9; extra == 'all'"],
    )
    finding = explain_cell("import asker").finding
    assert (
        finding.observation
        == "asker 2.1.3 asks for provider<2,>=1.4, and provider 2.1.3 is installed."
    )
    assert finding.fix.startswith('`%pip install "provider<2,>=1.4"`')


def test_no_guess_where_a_package_only_ran(session):
    session("provider", "")
    session("asker", "def run(): raise RuntimeError('something else')", needs=["provider<2"])
    assert not explain_cell("import asker; asker.run()")


def test_without_anything_that_reads_requirements(session, monkeypatch):
    monkeypatch.setattr(
        installed_packages, "_requirement", lambda: importlib.import_module("absent.module")
    )
    session("provider", "")
    session("asker", "from provider import gone", needs=["provider<2"])
    assert not explain_cell("import asker")


@pytest.mark.skipif(
    not _environment_probes.process_uptime(), reason="when this process started is unknown here"
)
def test_a_package_that_was_replaced_under_the_session(session, tmp_path):
    session("provider", "__version__ = '1.0'")
    importlib.import_module("provider")
    # another version by its own name is no sign alone: some always differ
    assert not explain_cell("import provider; provider.gone")
    (tmp_path / "site-packages/provider-2.1.3.dist-info/METADATA").touch()
    said = explain_cell("import provider; provider.gone")
    assert said.id == "restart-needed"
    assert "provider 1.0 is loaded, and 2.1.3 was installed since" in said.finding.observation
    assert said.finding.fix == "Runtime > Restart session, then run from the top."


def test_a_restart_that_is_due_comes_before_what_the_table_says(session, tmp_path):
    session("provider", "__version__ = '1.0'", old=False)
    session(
        "asker",
        "import provider; raise ImportError('operator torchvision::nms does not exist: provider')",
    )
    said = explain_cell("import asker")
    assert (said.id, said.also.id) == ("restart-needed", "torchvision-mismatch")


def test_compiled_for_another_numpy(session):
    text = "numpy.dtype size changed, may … Expected {} from C header, got {} from PyObject"
    session("asker", f"raise ValueError({text.format(96, 88)!r})", "1.5.3")
    assert "asker 1.5.3 was compiled for NumPy 1, and numpy" in str(explain_cell("import asker"))
    (Path(sys.path[0]) / "asker/__init__.py").write_text(
        f"raise ValueError({text.format(88, 96)!r})  # and more"
    )
    said = str(explain_cell("import asker"))
    assert "compiled for NumPy 2" in said and "`%pip install -U numpy`" in said


def test_what_is_tied_to_pytorch_or_came_from_a_folder_is_not_updated_by_pip(session):
    session("provider", "")
    session("asker", "from provider import gone", needs=["provider<2"])
    origin = Path(sys.path[0]) / "asker-2.1.3.dist-info/direct_url.json"
    origin.write_text("{}")
    assert "Update asker where it came from" in explain_cell("import asker").finding.fix
    assert "together with this PyTorch" in installed_packages.update(
        installed_packages.Package("torchvision", "1")
    )


def test_a_look_that_fails_leaves_the_others(monkeypatch, session):
    def broken(raised):
        raise ValueError("a fault of ours")

    monkeypatch.setattr("colab_doctor.diagnosis.memory.diagnose", broken)
    session("provider", "")
    session("asker", "from provider import gone", needs=["provider<2"])
    assert "asker 2.1.3 asks for provider<2" in str(explain_cell("import asker"))
    monkeypatch.setattr("colab_doctor.diagnosis.package_conflicts.diagnose", broken)
    assert diagnose(Failure("x", "colab", (ValueError("x"),))) == ()


def test_an_error_whose_text_cannot_be_made(session):
    class Mute(ImportError):
        def __str__(self):
            raise ValueError

    assert diagnose(Failure("", "colab", (Mute(),))) == ()
