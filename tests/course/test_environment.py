"""environment.yml, pyproject.toml, constraints.txt and the Makefile describe one environment."""

import re
import shutil
import subprocess
import sys
from importlib.metadata import version

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet


def make_lines(root):
    return subprocess.run(
        ["make", "-n", "-B", "setup"], capture_output=True, text=True, check=True, cwd=root
    ).stdout


def makefile(root):
    return (root / "Makefile").read_text("utf-8")


def pinned(root):
    lines = (root / "constraints.txt").read_text("utf-8").splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {requirement.name.lower().replace("_", "-"): requirement for requirement in found}


def test_conda_and_make_install_the_same(root):
    conda = yaml.safe_load((root / "environment.yml").read_text("utf-8"))
    [by_pip] = [d["pip"] for d in conda["dependencies"] if isinstance(d, dict)]
    install = " ".join(make_lines(root).replace("\\\n", " ").replace('"', "").split())
    for option in by_pip:
        assert option in install
    assert set(re.findall(r"--(?:constraint|editable) \S+", install)) == set(by_pip)


def test_conda_and_project_ask_for_the_same_python(root, project):
    conda = yaml.safe_load((root / "environment.yml").read_text("utf-8"))
    [python] = [d for d in conda["dependencies"] if str(d).startswith("python")]
    assert SpecifierSet(python.removeprefix("python")) == SpecifierSet(project["requires-python"])


def test_extras_named_by_make_and_conda_exist(root, project):
    [named] = set(re.findall(r"\.\[([\w,]+)\]", make_lines(root)))
    assert set(named.split(",")) == set(project["optional-dependencies"])


def test_helper_asks_for_nothing_and_sets_no_upper_bound(project):
    assert project["dependencies"] == []
    assert "<" not in project["requires-python"]


def test_every_package_of_the_course_is_pinned(root, project):
    pins = pinned(root)
    wanted = [Requirement(r) for extra in project["optional-dependencies"].values() for r in extra]
    assert [w.name for w in wanted if w.name.lower().replace("_", "-") not in pins] == []
    assert all(str(pin.specifier).startswith("==") for pin in pins.values())


def test_this_environment_has_the_pinned_versions(root, project):
    """Build tags such as +cpu do not count."""
    pins = pinned(root)
    for extra in project["optional-dependencies"].values():
        for requirement in map(Requirement, extra):
            if requirement.marker is None or requirement.marker.evaluate():
                installed = version(requirement.name)
                assert pins[requirement.name.lower().replace("_", "-")].specifier.contains(
                    installed
                ), requirement.name


def test_make_alone_lists_every_target(root):
    told = subprocess.run(["make"], capture_output=True, text=True, check=True, cwd=root).stdout
    listed = re.findall(r"(?m)^  make ([a-z-]+) +\S", told)
    phony = re.search(r"(?m)^\.PHONY: (.*\n\t.*)$", makefile(root))[1].replace("\\\n", " ").split()
    assert sorted(listed) == sorted(phony)
    assert len(listed) <= 24


def test_each_target_has_its_line_in_the_guide(root):
    text = (root / "CONTRIBUTING.md").read_text("utf-8") + (root / "README.md").read_text("utf-8")
    named = set(re.findall(r"`(?:make )?([a-z-]+)`", text))
    assert set(re.findall(r"(?m)^([a-z-]+):.*## ", makefile(root))) - named - {"help"} == set()


def test_every_test_that_make_names_is_there(root):
    named = re.findall(r" (tests(?:/\w+)*)", makefile(root))
    assert named and all((root / name).exists() for name in named)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_an_environment_that_is_half_made_is_made_anew(tmp_path, root):
    """As Ctrl-C leaves it: an interpreter, and no pip."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(root / name, tmp_path)
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "x"\nbackend-path = ["."]\n'
    )
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / ".venv"], check=True)
    (tmp_path / ".venv" / ".ready").touch()
    make = ["make", "setup", f"PYTHON={sys.executable}", "UV=", "EXTRAS="]
    said = subprocess.run(make, cwd=tmp_path, capture_output=True, text=True).stdout
    assert "Making .venv" in said and "Installing the versions" in said
    pip = [tmp_path / ".venv/bin/python", "-m", "pip", "--version"]
    assert subprocess.run(pip, capture_output=True).returncode == 0


def test_a_folder_that_is_no_environment_is_left_alone(tmp_path, root):
    shutil.copy(root / "Makefile", tmp_path)
    for name in ("pyproject.toml", "constraints.txt", "mine/thesis.tex"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    make = ["make", "setup", "VENV=mine"]
    done = subprocess.run(make, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode and "mine is a folder, and no environment" in done.stdout
    assert (tmp_path / "mine" / "thesis.tex").exists()
