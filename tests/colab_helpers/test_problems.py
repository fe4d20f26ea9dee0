"""The table of known problems: whole, dated, and on the page under the same ids."""

import re
from pathlib import Path

import pytest

from colab_helpers import doctor, facts, preflight
from colab_helpers.doctor import problems
from colab_helpers.doctor.clues import ONLY_HERE

ROOT = Path(__file__).parents[2]
KNOWN = doctor.known_problems().values()
CHECKED = {check.__name__.replace("_", "-") for check in preflight.CHECKS}


@pytest.mark.parametrize("problem", KNOWN, ids=lambda problem: problem.id)
def test_every_problem_is_whole(problem):
    assert problem.title and problem.text and problem.remedy and problem.sources
    assert problem.severity in ("stop", "warn", "note") and problem.confidence in "HML"
    assert problem.seen < problem.review
    assert facts.quote(*problem.facts).facts or not problem.facts
    for source in (*problem.sources, *(one for case in problem.cases for one in case.sources)):
        assert re.fullmatch(r"[\w-]+/[\w.-]+#\d+|https://\S+", source)


def test_what_is_named_in_a_remedy_is_caught_by_each_pattern():
    for problem in KNOWN:
        if problem.errors and re.search(r"\bNAME\b", problem.remedy + problem.elsewhere):
            assert all(re.compile(pattern).groups for pattern in problem.errors), problem.id


def test_checks_and_notebook_rules_have_a_row_each():
    assert set(doctor.known_problems()) >= CHECKED
    assert set(doctor.IN_NOTEBOOKS) <= set(doctor.known_problems())


def test_every_problem_can_be_found_by_a_check_an_error_a_clue_or_in_a_notebook():
    found = CHECKED | set(doctor.IN_NOTEBOOKS) | set(ONLY_HERE) | {p.id for p in KNOWN if p.errors}
    found.add("check-failed")  # by what runs the checks
    assert {problem.id for problem in KNOWN} - found == set()


def test_the_list_has_every_id_and_the_pages_every_remedy():
    listed = (ROOT / doctor.PAGE).read_text("utf-8")
    assert re.findall(r'<a name="([^"]+)">', listed) == list(doctor.known_problems())
    for problem in KNOWN:
        page = (ROOT / problem.page).read_text("utf-8")
        assert f"({problem.page.removeprefix('docs/')}#{problem.id})" in listed
        assert f'<a name="{problem.id}">' in page and problem.remedy in page


def test_each_group_has_a_page_and_there_is_no_other_and_none_too_large_for_github():
    there = {str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "problems").iterdir()}
    assert there == {problem.page for problem in KNOWN}
    assert all(doctor.PAGES.fullmatch(page) for page in there | {doctor.PAGE})
    assert max((ROOT / page).stat().st_size for page in there) < 500_000


def test_links_lead_to_the_repository():
    finding = doctor.explain_error("CUDA out of memory").finding
    assert re.fullmatch(
        r"https://github\.com/\S+/blob/HEAD/docs/problems/memory\.md#out-of-memory", finding.link
    )


def test_a_lessons_card_leaves_out_what_no_lesson_needs(monkeypatch):
    """The doctor says it, the card of a lesson does not."""
    monkeypatch.setattr(
        preflight,
        "CHECKS",
        (lambda _: problems.report("gpu-idle", "", platform="colab"),),
    )
    monkeypatch.setattr(preflight.run_checks, "__defaults__", (preflight.CHECKS,))
    assert [f.id for f in preflight.status_card().findings] == ["gpu-idle"]
    assert preflight.status_card("01_enable_gpu").findings == ()
