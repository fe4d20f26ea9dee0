"""The table of known problems: whole, short enough to read, dated, and found by something."""

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import colab_doctor
from colab_helpers import platform_facts, preflight, problem_schema

ROOT = Path(__file__).parents[2]
PROBLEMS = colab_doctor.known_problems()
CHECKED = {check.__name__.replace("_", "-") for check in preflight.CHECKS} | {"check-failed"}


@pytest.mark.parametrize("topic", colab_doctor.TOPICS)
def test_every_problem_of_a_topic_is_whole(topic):
    for row in (row for row in PROBLEMS.values() if row.topic == topic):
        assert row.title and row.meaning and row.fix and row.sources, row.id
        assert row.severity in ("stop", "warn", "note")
        assert row.seen < row.review and len(row.title) <= 80
        assert platform_facts.quote(*row.facts).facts or not row.facts
        for source in (*row.sources, *(one for case in row.cases for one in case.sources)):
            assert re.fullmatch(r"[\w-]+/[\w.-]+#\d+|https://\S+/\S*", source), (row.id, source)


def test_no_two_problems_have_the_same_id():
    ids = [
        row["id"]
        for path in sorted((ROOT / "colab_doctor" / "problems").glob("*.toml"))
        for row in tomllib.loads(path.read_text("utf-8"))["problem"]
    ]
    assert len(ids) == len(set(ids))


def words(*texts):
    return len(" ".join(texts).split())


@pytest.mark.parametrize("row", PROBLEMS.values(), ids=lambda row: row.id)
def test_a_card_is_read_in_ten_seconds(row):
    cards = [(row.meaning, row.fix), (row.meaning, row.elsewhere)]
    cards += [(case.meaning, case.fix) for case in row.cases]
    assert max(words(row.title, *card) for card in cards) <= 45
    assert not re.search(r"\(\w[^)`]{60,}\)", row.meaning)  # a caveat that lost its nerve


def test_the_table_stays_small_and_its_reviews_are_spread():
    assert len(PROBLEMS) <= 192  # two for serving; 200 ever
    months = Counter(f"{row.review:%Y-%m}" for row in PROBLEMS.values())
    assert max(months.values()) <= 40, months.most_common(3)
    for path in (ROOT / "colab_doctor" / "problems").iterdir():
        assert path.stat().st_size < 64_000, path.name


def test_checks_and_notebook_rules_have_a_row_each():
    assert set(PROBLEMS) >= CHECKED | set(colab_doctor.NOTEBOOK_PROBLEMS)
    rows = tomllib.loads((ROOT / "colab_helpers/preflight/problems.toml").read_text("utf-8"))
    assert {row["id"] for row in rows["problem"]} == CHECKED


def test_every_problem_can_be_found():
    found = CHECKED | set(colab_doctor.NOTEBOOK_PROBLEMS)
    found |= {row.id for row in PROBLEMS.values() if row.errors}
    assert {row.id for row in PROBLEMS.values()} == found


def test_a_problem_is_superseded_by_known_ones_and_never_in_a_circle():
    for row in PROBLEMS.values():
        assert set(row.in_log) <= set(PROBLEMS), row.id
        for other in () if row.is_general else row.superseded_by:
            assert row.id not in PROBLEMS[other].superseded_by, (row.id, other)


def patterns():
    for row in PROBLEMS.values():
        of_cases = (one for case in row.cases for one in (*case.shows, *case.unless))
        yield from ((row.id, pattern) for pattern in (*row.errors, *of_cases))


def test_no_pattern_repeats_without_end_and_all_are_lower_case():
    for id, pattern in patterns():
        assert not re.search(r"(?<!\\)[*+]|\{\d*,\}", pattern), (id, pattern)
        plain = re.sub(r"\\[A-Z]", "", pattern)
        assert plain == plain.lower(), (id, pattern)


def test_what_a_fix_names_is_caught_by_each_pattern():
    for row in PROBLEMS.values():
        if row.errors and re.search(r"\bNAME\b", row.fix + row.elsewhere):
            caught = [re.compile(pattern).groups for pattern in row.errors]
            assert any(caught), row.id


def test_links_lead_to_the_site():
    finding = colab_doctor.explain_error("CUDA out of memory").finding
    assert re.fullmatch(
        r"https://[\w-]+\.github\.io/\S*problems/memory\.html#out-of-memory", finding.link
    )


def test_without_an_installed_helper_links_are_paths(monkeypatch):
    monkeypatch.setattr(problem_schema, "repository", lambda: "")
    assert PROBLEMS["out-of-memory"].link == "problems/memory.html#out-of-memory"


def test_a_lessons_card_leaves_out_what_no_lesson_needs(monkeypatch):
    """The doctor says it, the card of a lesson does not."""
    checks = (lambda state: state.report("bf16-emulated", ""),)
    monkeypatch.setattr(preflight.run_checks, "__defaults__", (checks,))
    assert [found.id for found in preflight.status_card().findings] == ["bf16-emulated"]
    assert preflight.status_card("01_enable_gpu").findings == ()


def test_what_colab_calls_a_restart_is_said_for_other_notebooks():
    fix = colab_doctor.explain_error("numpy.dtype size changed", "local").fix
    assert fix.startswith("Restart the kernel") and "Runtime" not in fix
