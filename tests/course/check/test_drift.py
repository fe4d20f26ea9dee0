"""Colab's lists compared with what was tested: nothing changed, something harmless, something that breaks."""

import pytest

from course.__main__ import main
from course.check import drift

RUNTIMES = ("cpu", "gpu", "tpu")


def listed(runtime, **changes):
    versions = {**drift.tested_versions(runtime), **changes}
    return {name: version for name, version in versions.items() if version}


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_tested_list_has_no_drift(course, runtime):
    assert drift.compare(course, drift.tested_versions(runtime), listed(runtime)) == []
    assert drift.detect_runtime(listed(runtime)) == runtime


@pytest.mark.parametrize(
    ("changes", "risk"),
    [
        ({"torch": "2.13.0+cu130"}, ""),
        ({"jax": "0.11.1"}, ""),
        ({"torch": "3.0.0"}, "a major version moved"),
        ({"numpy": "3.0.0"}, "a major version moved"),
        ({"torch": "2.5.1"}, "2.6 or newer"),
        ({"keras": "2.15.0"}, "3 or newer"),
        ({"tensorflow": ""}, "it is gone"),
        ({"ipython": "9.0.0"}, "a major version moved"),
    ],
)
def test_what_is_a_risk(course, changes, risk):
    [change] = drift.compare(course, drift.tested_versions("gpu"), listed("gpu", **changes))
    assert risk in change.risk and bool(risk) == bool(change.risk)
    assert change.lessons


def test_a_risk_comes_first_and_names_its_lessons(course):
    new = listed("gpu", **{"matplotlib": "3.11.0", "scikit-learn": "2.0.0"})
    first, second = drift.compare(course, drift.tested_versions("gpu"), new)
    assert (first.package, second.package) == ("scikit-learn", "matplotlib")
    assert "AT RISK" in str(first) and "03" in first.lessons


def freeze(tmp_path, versions):
    path = tmp_path / "freeze.txt"
    path.write_text("".join(f"{name}=={version}\n" for name, version in versions.items()))
    return str(path)


def test_command_ends_with_0_or_1(tmp_path, capsys):
    assert main(["drift", "--freeze", freeze(tmp_path, listed("tpu"))]) == 0
    assert "tpu runtime: 0 of the course's packages changed" in capsys.readouterr().out
    assert main(["drift", "--freeze", freeze(tmp_path, listed("cpu", torch="1.13.1"))]) == 1
    assert "AT RISK: the course needs 2.6" in capsys.readouterr().out


def test_facts_are_listed_by_age_and_fail_when_due(capsys):
    assert main(["facts", "--today", "2026-11-21"]) == 0
    listed = capsys.readouterr().out
    assert "tensorflow-cuda" in listed and "0 due" in listed
    assert main(["facts", "--today", "2030-01-01"]) == 1
    assert "look again" in capsys.readouterr().out
