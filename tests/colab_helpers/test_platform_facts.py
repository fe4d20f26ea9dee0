import re
from datetime import date

import pytest

from colab_helpers import hardware, platform_facts


def test_every_fact_has_source_dates_and_address():
    for fact in platform_facts.all_facts():
        assert fact.text and fact.source and fact.url.startswith("https://")
        assert date(2026, 1, 1) < fact.seen < fact.review
        assert fact.confidence in ("H", "M", "L")


def test_a_fact_is_due_after_its_review_date():
    fact = platform_facts.quote("disk-used").facts[0]
    assert not fact.is_due(fact.review)
    assert fact.is_due(date(fact.review.year + 1, 1, 1))


def test_facts_are_shown_with_source_and_date():
    shown = platform_facts.quote("tensorflow-cuda", "free-tier")
    for text in (str(shown), shown._repr_html_()):
        assert "2026-10-09" in text and "#106653" in text
    assert "<code>nvidia-smi</code>" in shown._repr_html_()


def test_unknown_names_say_which_there_are():
    with pytest.raises(KeyError, match="disk-used"):
        platform_facts.quote("no-such-fact")
    with pytest.raises(KeyError, match="nvidia-smi-t4"):
        platform_facts.console_output("no-such-output")


def test_machines_name_chips_of_the_catalog():
    table = platform_facts.machine_table()
    known = {"", *hardware.catalog()}
    assert {machine.chip for machine in table.machines} <= known


def test_price_of_a_unit_is_the_one_that_the_fact_tells():
    [fact] = [fact for fact in platform_facts.all_facts() if fact.id == "compute-units"]
    units, dollars = re.search(r"(\d+) units cost (\d+\.\d+) US dollars", fact.text).groups()
    price = platform_facts.machine_table().dollars_per_unit
    assert price == pytest.approx(float(dollars) / float(units))
