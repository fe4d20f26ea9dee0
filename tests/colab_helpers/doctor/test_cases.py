"""The causes of a known problem that the text of an error gives away."""

import re

import pytest

from colab_helpers import doctor
from tests.colab_helpers.doctor import test_doctor, test_errors

PROBLEMS = doctor.known_problems()
CASES = [(problem, case) for problem in PROBLEMS.values() for case in problem.cases]
#: Texts of problems and of their cases that no other collection of the tests has.
TEXTS = test_errors.TEXTS
OF_CASES = [row for row in TEXTS if "seen" in row]


def shown(text):
    explained = doctor.explain_error(text, "colab")
    return {(clue.id, clue.seen) for clue in explained.clues} if explained else set()


@pytest.mark.parametrize("row", OF_CASES, ids=lambda row: row["seen"])
def test_a_text_is_told_as_the_case_that_it_is(row):
    [(id, seen)] = shown(row["text"])
    assert id == row["problem"] and seen.startswith(row["seen"])


def test_every_case_is_shown_by_a_text():
    rows = [*test_errors.ERRORS, *test_errors.UNRELATED]
    told = [row["error"] for row in (*test_errors.IN_SESSIONS, *test_errors.RAISED)]
    words = [
        word for one in test_errors.VOCABULARIES if one.get("a_choice") for word in one["told"]
    ]
    texts = [*test_errors.MORE, *test_doctor.ERRORS, *told, *words]
    texts += [row["text"] for row in (*rows, *TEXTS)]
    met = set().union(*map(shown, texts))
    assert {(problem.id, case.seen) for problem, case in CASES} - met == set()


@pytest.mark.parametrize(("problem", "case"), CASES, ids=lambda each: getattr(each, "id", ""))
def test_a_case_is_written_as_the_table_is(problem, case):
    for pattern in (*case.shows, *case.unless):
        assert not re.search(r"(?<!\\)[*+]|\{\d*,\}", pattern) and pattern == pattern.lower()
    assert case.seen.endswith((".", ":")) and case.remedy != problem.remedy


def test_the_first_case_that_is_shown_is_told_above_what_is_so_in_general():
    explained = doctor.explain_error("UnpicklingError: invalid load key, '<'.", "colab")
    assert len(explained.clues) == 1 and explained.id == "not-the-file"
    said = str(explained)
    assert said.index("a web page was saved") < said.index(PROBLEMS["not-the-file"].remedy)
    assert doctor.explain_error("UnpicklingError: invalid load key, 'x'.", "colab").clues == ()


def test_cases_see_the_functions_in_which_an_exception_was_raised():
    def backward():
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")

    with pytest.raises(RuntimeError) as caught:
        backward()
    seen = [clue.seen for clue in doctor.explain_error(caught.value, "colab").clues]
    assert "It happened in the backward pass, which keeps what every layer computed." in seen
    assert not any("backward" in seen for _, seen in shown(str(caught.value)))


def test_what_colab_calls_a_restart_is_said_for_other_notebooks():
    text = "ImportError: Loading a GPTQ quantized model requires optimum (`pip install optimum`)"
    remedy = doctor.explain_error(text, "local").clues[0].remedy
    assert "then restart the kernel." in remedy and "Runtime" not in remedy
