"""Which two packages do not go together, in a session and in a text; and what a clue never does."""

import importlib
import sys
from pathlib import Path

import pytest

import colab_doctor
from colab_doctor.diagnosis import Failure, diagnose, installed, packages
from colab_helpers import _traces as traces
from tests.colab_doctor.conftest import told


@pytest.mark.parametrize(
    ("asks", "what"),
    [
        ("from provider import gone", "`provider.gone`"),
        ("import provider; provider.gone", "`provider.gone`"),
        ("import provider.gone", "`provider.gone`"),
        ("import provider; provider.Box().gone", "`Box.gone`"),
        ("import provider; provider.Box.gone", "`Box.gone`"),
        ("import provider; provider.make(gone=1)", "argument `gone` in `make()`"),
        ("from provider import Box; Box(gone=1)", "argument `gone` in `Box()`"),
        ("import provider as p\nclass Mine(p.Box):\n  def __init__(self): super().__init__(gone=1)\nMine()",
         "argument `gone` in `Box()`"),
        ("try:\n import provider; provider.gone\nexcept AttributeError as e:\n raise RuntimeError() from e",
         "`provider.gone`"),
    ],
)  # fmt: skip
def test_who_asked_whom_for_what(session, asks, what):
    session("provider", "class Box:\n    def __init__(self): pass\ndef make(): pass")
    session("asker", asks, "0.9")
    explained = told("import asker")
    assert explained.id == "library-mismatch"
    assert (
        explained.finding.observation
        == f"asker 0.9 asks for {what}, which provider 2.1.3 does not have."
    )
    assert explained.fix.startswith("`%pip install -U asker`") and '"provider<2.1"' in explained.fix


def test_a_module_that_says_itself_that_a_name_is_gone(session):
    session("provider", "def __getattr__(name): raise AttributeError(f'{name} was removed')")
    session("asker", "import provider; provider.gone")
    assert "asker 2.1.3 asks for `provider.gone`" in told("import asker").finding.observation


@pytest.mark.parametrize(
    "fails",
    [
        "from provider import Box\nclass Mine:\n    @property\n    def a(self): return Box().gone\nMine().a",
        "raise ValueError('no')",
        "{}['a']",
        "None.gone",
        "import json; json.gone",
    ],
)
def test_what_is_no_matter_between_two_packages(session, fails):
    """A property in which something fails looks from outside as if it were not there."""
    session("provider", "class Box: pass")
    session("asker", fails)
    said = str(told("import asker"))
    assert "which provider" not in said or "`Box.gone`" in said


def test_what_a_package_says_that_it_needs_comes_first(session):
    session("provider", "")
    session(
        "asker",
        "from provider import gone",
        needs=["provider<2,>=1.4", "absent>=9; extra == 'all'"],
    )
    finding = told("import asker").finding
    assert (
        finding.observation
        == "asker 2.1.3 asks for provider<2,>=1.4, and provider 2.1.3 is installed."
    )
    assert finding.fix.startswith('`%pip install "provider<2,>=1.4"`')


def test_no_guess_where_a_package_only_ran(session):
    session("provider", "")
    session("asker", "def run(): raise RuntimeError('something else')", needs=["provider<2"])
    assert not told("import asker; asker.run()")


def test_without_anything_that_reads_requirements(session, monkeypatch):
    monkeypatch.setattr(installed, "_requirement", lambda: importlib.import_module("absent.module"))
    session("provider", "")
    session("asker", "from provider import gone", needs=["provider<2"])
    assert "`provider.gone`" in told("import asker").finding.observation


@pytest.mark.skipif(not traces.running(), reason="when this process started is unknown here")
def test_a_package_that_was_replaced_under_the_session(session, tmp_path):
    session("provider", "__version__ = '1.0'")
    importlib.import_module("provider")
    said = told("import provider; provider.gone")
    assert (
        said.id == "name-not-there"
    )  # another version by its own name is no sign alone: some always differ
    (tmp_path / "site-packages/provider-2.1.3.dist-info/METADATA").touch()
    said = told("import provider; provider.gone")
    assert said.id == "restart-needed"
    assert "provider 1.0 is loaded, and 2.1.3 was installed since" in said.finding.observation
    assert said.finding.fix == "Runtime > Restart session, then run from the top."


def test_a_restart_that_is_due_comes_before_what_the_table_says(session, tmp_path):
    session("provider", "__version__ = '1.0'", old=False)
    session(
        "asker",
        "import provider; raise ImportError('operator torchvision::nms does not exist: provider')",
    )
    said = told("import asker")
    assert (said.id, said.also.id) == ("restart-needed", "torchvision-mismatch")


def test_compiled_for_another_numpy(session):
    text = "numpy.dtype size changed, may … Expected {} from C header, got {} from PyObject"
    session("asker", f"raise ValueError({text.format(96, 88)!r})", "1.5.3")
    assert "asker 1.5.3 was compiled for NumPy 1, and numpy" in str(told("import asker"))
    (Path(sys.path[0]) / "asker/__init__.py").write_text(
        f"raise ValueError({text.format(88, 96)!r})  # and more"
    )
    said = str(told("import asker"))
    assert "compiled for NumPy 2" in said and "`%pip install -U numpy`" in said


def test_an_own_cell_is_no_package_that_is_too_old():
    said = told("from sklearn.linear_model import gone")
    assert said.id == "sklearn-others"


def test_a_name_of_ones_own_cell(session):
    session(
        "provider", "restore = _restorer = 1\nclass Box:\n    def __init__(self, colour=1): pass"
    )
    for asks, seen in {
        "provider.restored": "has no `provider.restored`. Did you mean `restore`?",
        "provider.Box(color=2)": "has no argument `color` in `Box()`. Did you mean `colour`?",
        "provider.zebra": "has no `provider.zebra`.",
    }.items():
        finding = told(f"import provider; {asks}").finding
        assert (finding.id, finding.observation) == ("name-not-there", f"provider 2.1.3 {seen}")


@pytest.mark.parametrize("asks", ["import torch; torch.nn.Liner", "import numpy as np; np.arrray([1])",
                                  "import torch; torch.nn.Linear(3, 2, bais=False)",
                                  "from sklearn.model_selection import train_test_splitt"])  # fmt: skip
def test_a_misspelt_name_is_no_matter_of_releases(asks):
    said = told(asks)
    assert said.id == "name-not-there" and "Did you mean `" in said.finding.observation
    assert said.also is None


def test_own_code_is_named_by_its_file_and_is_no_package(session, tmp_path, monkeypatch):
    session("provider", "")
    own = tmp_path / "project"
    own.mkdir()
    (own / "asker.py").write_text("from provider import gone")
    monkeypatch.syspath_prepend(own)
    session("asker", "")  # a package of that name, which the own file hides
    seen = told("import asker").finding.observation
    assert seen == f"provider 2.1.3 has no `provider.gone`, which `{own / 'asker.py'}` asks for."


def test_an_own_file_that_hides_a_package(session, tmp_path, monkeypatch):
    session("provider", "value = 1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "provider.py").write_text("")
    said = told("import provider; provider.value")
    assert said.id == "broken-install"
    assert f"`{tmp_path / 'provider.py'}` was imported instead of the real `provider`" in str(said)
    sys.modules.pop("provider")
    assert "instead of the real `provider`" in str(told("import provider.part"))


def test_an_own_folder_or_a_file_that_imports_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "gspread").mkdir()
    said = told("from gspread import login")
    assert said.id == "broken-install" and f"`{tmp_path / 'gspread'}` was imported instead" in str(
        said
    )
    (tmp_path / "altair.py").write_text("import altair.vegalite")
    assert f"`{tmp_path / 'altair.py'}` was imported instead" in str(told("import altair"))
    sys.modules.pop("gspread")


def test_a_package_of_another_python(tmp_path, monkeypatch):
    site = tmp_path / ".venv/lib/python3.9/site-packages"
    (site / "only_there").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    finding = told("import only_there").finding
    assert finding.id == "another-python" and "%pip install only_there" in finding.fix


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("pytorch", "it is imported as `torch`"),
        ("nunpy", "Did you mean `numpy`?"),
        ("gspread", "`%pip install gspread`"),
        ("nowhere_at_all", "its name for pip"),
        ("utilities_of_mine", "`import sys; sys.path.append("),
    ],
)
def test_a_package_that_is_not_there(name, says, tmp_path, monkeypatch):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "utilities_of_mine.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert says in str(told(f"import {name}"))


def test_a_bug_in_a_class_is_not_laid_upon_the_one_it_builds_on(session):
    session("provider", "class Base: pass")
    session("asker", "from provider import Base\nclass Mine(Base): pass\ndef go(): Mine().gone")
    assert not told("import asker; asker.go()")


@pytest.mark.parametrize(
    "says",
    [
        "asker needs Provider 1.0 or newer",
        "this will be removed in Provider 3.0",
        "cannot import name 'gone' from 'google.protobuf.internal' (/x.py)",
    ],
)
def test_what_is_installed_speaks_against_it(session, says):
    session("provider", "")
    session("asker", f"raise ImportError({says!r})")
    assert told("import asker").diagnoses == ()


def test_what_is_tied_to_pytorch_or_came_from_a_folder_is_not_updated_by_pip(session):
    session("provider", "")
    session("asker", "from provider import gone")
    origin = Path(sys.path[0]) / "asker-2.1.3.dist-info/direct_url.json"
    origin.write_text("{}")
    assert "Update asker where it came from" in told("import asker").finding.fix
    assert "together with this PyTorch" in installed.update(installed.Package("torchvision", "1"))


@pytest.mark.parametrize(
    "fails",
    [
        "import torch; torch.nn.Linear(3)",
        "import torch, provider; provider.Dataset().load(split=1)",
    ],
)
def test_where_pythons_own_words_say_all(session, fails):
    session("provider", "class Dataset:\n    def load(self): pass")
    assert "torch has no" not in str(told(fails))


def test_a_need_that_is_an_extra_counts_where_it_is_met(session):
    session("provider", "")
    session("asker", "from provider import gone", needs=["provider>=3; extra == 'all'"])
    assert "asker 2.1.3 asks for provider>=3, and" in told("import asker").finding.observation


def test_of_a_text_from_elsewhere_this_session_says_nothing(tmp_path):
    text = f"FileNotFoundError: [Errno 2] No such file or directory: '{tmp_path / 'a.txt'}'"
    assert colab_doctor.explain_error(text).diagnoses == ()
    assert colab_doctor.explain_error("RuntimeError: No CUDA GPUs are available").diagnoses == ()


TRACEBACK = """Traceback (most recent call last):
  File "/content/run.py", line 1, in <module>
    import albumentations
  File "/usr/lib/python3.12/dist-packages/albumentations/core.py", line 9, in <module>
    from albucore.utils import preserve_channel_dim
{middle}{error}
"""


@pytest.mark.parametrize(
    ("middle", "error", "what"),
    [
        ("", "ImportError: cannot import name 'gone' from 'albucore.utils' (/x.py)", "utils.gone"),
        ("", "AttributeError: module 'albucore' has no attribute 'gone'", "gone"),
        ("", "ModuleNotFoundError: No module named 'albucore.gone'", "gone"),
        ('  File "/usr/lib/python3.12/dist-packages/albucore/__init__.py", line 2, in __getattr__\n',
         "AttributeError: module 'albucore' has no attribute 'gone'", "gone"),
    ],
)  # fmt: skip
def test_who_asked_whom_in_a_text(middle, error, what):
    explained = colab_doctor.explain_error(TRACEBACK.format(middle=middle, error=error))
    assert explained.id == "library-mismatch"
    assert explained.finding.observation.startswith(
        f"albumentations asks for `albucore.{what}`, which the installed albucore"
    )
    assert "Update albumentations, then Runtime > Restart session" in explained.finding.fix


@pytest.mark.parametrize(
    ("middle", "error"),
    [
        ("", "ModuleNotFoundError: No module named 'albucore'"),
        ("", "AttributeError: module 'albumentations' has no attribute 'gone'"),
        ("", "AttributeError: module 'json' has no attribute 'gone'"),
        (
            '  File "/content/x.py", line 2, in f\n',
            "AttributeError: module 'albucore' has no attribute 'gone'",
        ),
    ],
)
def test_a_text_in_which_no_package_asked_another(middle, error):
    explained = colab_doctor.explain_error(TRACEBACK.format(middle=middle, error=error))
    assert explained.id in ("", "package-missing") and explained.diagnoses == ()


def test_a_look_that_fails_leaves_the_others(monkeypatch, session):
    def broken(raised):
        raise ValueError("a fault of ours")

    monkeypatch.setattr("colab_doctor.diagnosis._LOOKS", (broken, packages.of_pairs))
    session("provider", "")
    session("asker", "from provider import gone")
    assert "`provider.gone`" in str(told("import asker"))
    monkeypatch.setattr("colab_doctor.diagnosis._LOOKS", (broken,))
    assert diagnose(Failure("x", "colab", (ValueError("x"),))) == ()


def test_an_error_whose_text_cannot_be_made(session):
    class Mute(ImportError):
        def __str__(self):
            raise ValueError

    assert diagnose(Failure("", "colab", (Mute(),))) == ()


def test_a_misspelt_part_of_a_package_that_was_not_imported(session):
    session("asker", "")
    session("provider", "")
    (Path(sys.path[0]) / "provider" / "pyplot.py").write_text("")
    explained = told("import provider\nimport provider.pylot")
    assert explained.id == "name-not-there" and "`pyplot`" in str(explained)
