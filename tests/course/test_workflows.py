"""The workflows of the published repository: pinned, with few rights, and calling what exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEXTS = {path.stem: path.read_text("utf-8") for path in WORKFLOWS}
workflows = pytest.mark.parametrize("name", TEXTS)
WORK = {"release": "publish.release", "drift": "check.drift"}


def commands(name):
    jobs = yaml.safe_load(TEXTS[name])["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


def test_only_a_release_may_write_and_it_checks_before():
    for name in TEXTS:
        jobs = yaml.safe_load(TEXTS[name])["jobs"].values()
        writes = any(job.get("permissions", {}).get("contents") == "write" for job in jobs)
        assert writes == (name == "release")
    steps = commands("release")
    check = next(i for i, step in enumerate(steps) if "release --check --tag" in step)
    publish = next(i for i, step in enumerate(steps) if "gh release create" in step)
    assert check < publish


@pytest.mark.parametrize("name", ["release", "drift"])
def test_its_commands_start_with_what_it_installs(name):
    [installed] = [step for step in commands(name) if "pip install" in step]
    absent = {"torch", "tensorflow", "jax", "matplotlib"}
    absent |= {"packaging", "numpy", "nbformat"} if name == "drift" else set()
    missing = dict.fromkeys(absent - {*installed.split()})
    code = f"import sys; sys.modules |= {missing}; import course.{WORK[name]}"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_fork_is_told_when_badges_point_elsewhere():
    assert any("-m course address" in step for step in commands("tests"))


@workflows
def test_actions_are_pinned_by_commit_and_say_their_version(name):
    uses = re.findall(r"uses: (\S+)(.*)", TEXTS[name])
    assert uses
    for action, comment in uses:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action


@workflows
def test_each_says_its_rights_and_its_time_limit(name):
    workflow = yaml.safe_load(TEXTS[name])
    rights = workflow["permissions"]
    assert rights["contents"] == "read"
    assert set(rights) <= {"contents", "issues"}
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())


def test_tests_run_on_every_python_of_the_course_and_on_macos():
    matrix = yaml.safe_load(TEXTS["tests"])["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.11", "3.12", "3.13"]
    assert any(row["os"].startswith("macos") for row in matrix["include"])


@workflows
def test_targets_and_commands_exist(name):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    parser = (ROOT / "course" / "__main__.py").read_text("utf-8")
    for command in commands(name):
        assert set(re.findall(r"\bmake ([a-z-]+)", command)) <= targets
        for called in re.findall(r"-m course ([a-z]+)", command):
            assert re.search(rf"add\(\s*\"{called}\"", parser), called


@pytest.mark.parametrize("name", ["drift", "links", "conditions"])
def test_what_does_not_follow_a_change_runs_every_week(name):
    workflow = yaml.safe_load(TEXTS[name])
    # YAML 1.1 reads the key `on` as true.
    [schedule] = workflow[True]["schedule"]
    assert re.fullmatch(r"\d+ \d+ \* \* \d", schedule["cron"])
