"""What is shown in a notebook carries no program, whatever stands in it."""

import dataclasses
from datetime import date
from html.parser import HTMLParser

import pytest

import colab_doctor
from colab_helpers import hardware, platform_facts, preflight, runtime
from colab_helpers.problem_schema import Finding
from colab_lessons import exercises, measurements

HOSTILE = """<script>alert(1)</script>'><img src=x onerror="alert(2)">"<b>&amp;`<i>`"""
TAGS = {
    "div",
    "table",
    "tr",
    "td",
    "th",
    "b",
    "br",
    "a",
    "p",
    "small",
    "ul",
    "li",
    "code",
    "details",
    "summary",
}


class Reader(HTMLParser):
    """Collects tags, and what their attributes say."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes = set(), set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def with_hostile_text(thing):
    """The same dataclass with hostile text in each field that holds text."""
    fields = {f.name: getattr(thing, f.name) for f in dataclasses.fields(thing) if f.init}
    return dataclasses.replace(
        thing, **{name: HOSTILE for name, value in fields.items() if isinstance(value, str)}
    )


def state():
    cpu = with_hostile_text(hardware.Device("CPU", "x", "", 2**34, cores=2))
    place = dataclasses.replace(
        runtime.describe(runtime.SystemInfo()), python=HOSTILE, frameworks={HOSTILE: HOSTILE}
    )
    gpu = dataclasses.replace(with_hostile_text(cpu), kind="GPU")
    wants = preflight.Requirements(HOSTILE, HOSTILE, (HOSTILE,), (HOSTILE,))
    cpu = dataclasses.replace(cpu, kind="CPU")
    return preflight.State(place, hardware.Inventory((gpu, cpu), (HOSTILE,)), wants)


def fact():
    return platform_facts.Fact("id", "x", "x", "x", date(2026, 1, 1), date(2026, 2, 1), "H")


def record():
    values = {HOSTILE: measurements.Value(1.0, HOSTILE, HOSTILE)}
    return measurements.Record(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, False, values=values)


SHOWN = {
    "card": lambda: preflight.StatusCard(
        HOSTILE, state(), (Finding("id", "stop", HOSTILE, HOSTILE, HOSTILE),)
    )._repr_html_(),
    "explanation": lambda: colab_doctor.Explanation(
        Finding("little-disk", "stop", HOSTILE, HOSTILE, HOSTILE),
        Finding("little-disk", "stop", HOSTILE, HOSTILE, HOSTILE),
        diagnoses=(colab_doctor.Diagnosis("little-disk", HOSTILE, HOSTILE),),
    )._repr_mimebundle_()["text/html"],
    "facts": lambda: platform_facts.Quotes(
        (dataclasses.replace(with_hostile_text(fact()), confidence="H"),)
    )._repr_html_(),
    "verdict": lambda: exercises.Verdict(HOSTILE, "wrong", HOSTILE)._repr_mimebundle_()[
        "text/html"
    ],
    "record": lambda: record()._repr_mimebundle_()["text/html"],
    "records side by side": lambda: measurements._as_html(record(), [record()]),
}


@pytest.mark.parametrize("name", SHOWN)
def test_hostile_text_stays_text(name):
    reader = Reader()
    shown = SHOWN[name]()
    reader.feed(shown)
    assert reader.tags and reader.tags <= TAGS
    assert reader.attributes <= {"style", "href"}
    assert "&lt;script&gt;" in shown
