"""environment.yml, pyproject.toml, constraints.txt and the Makefile describe one environment."""

import re
import subprocess
from importlib.metadata import version

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


def test_the_guide_is_short(root):
    assert (root / "CONTRIBUTING.md").stat().st_size <= 6000


def test_ci_runs_the_tests(root):
    assert "make test" in (root / ".ci" / "run").read_text("utf-8").splitlines()


def test_every_test_that_make_names_is_there(root):
    named = re.findall(r" (tests(?:/\w+)*)", makefile(root))
    assert named and all((root / name).exists() for name in named)
