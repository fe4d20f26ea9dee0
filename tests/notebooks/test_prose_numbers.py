"""Numbers in a lesson's text, each of which must stand in an output, the code, a fact or a published row."""

import dataclasses
import functools
import re

import nbformat
import pytest

from colab_helpers import chip_throughput, hardware, platform_facts, published_results
from course import config

COURSE = config.load()
SCALES = {
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "m": 1e-3,
    "µ": 1e-6,
    "n": 1e-9,
    "": 1,
}
_SIZES, _TIMES = r"[kMGTP]?(?:B/s|FLOP/s|FLOPs?|B|iB)|KiB", r"[mµn]?s|seconds?|minutes?|hours?"
_UNIT = rf"(?:{_SIZES}|{_TIMES}|×|%|tokens per second|per second)"
_NUMBER = re.compile(rf"(?<![\w.,^])(\d[\d,]*(?:\.\d+)?)[  ]?({_UNIT})(?![\w/])")
_ANY = re.compile(r"(?<![\w.])(\d[\d,_]*(?:\.\d+)?(?:e[+-]?\d+)?)(?![\d])")
_LONGER = {"minutes": 60, "minute": 60, "hours": 3600, "hour": 3600}
#: Numbers that stand in no evidence, and why they may: (lesson, number and unit as written) -> reason.
EXCEPTIONS = {
    ("03", "60 ms"): "given by the exercise",
    ("05", "2.25 GiB"): "an eighth of 18.0, as its sentence says",
    ("05", "48 GiB"): "given by the exercise",
    ("06", "15.6 GB"): "14.56 GiB in the other unit",
    ("06", "4.1 GiB"): "a difference of two numbers in the exercise's message",
    ("06", "6.1 GB"): "given by the exercise",
    ("06", "8.6 GB"): "given by the exercise",
    ("06", "31%"): "given by the exercise",
    ("08", "15.5 GB"): "a T4's memory less the driver's part, as the planner has it",
    ("08", "3.3 GB"): "16 × 1,024 × 50,257 × 4 bytes, as its sentence says",
    ("12", "15.6 GB"): "14.56 GiB in the other unit",
    ("14", "48 hours"): "given by the exercise",
    ("15", "1.2 GB"): "2,048 × 151,936 × 4 bytes, as its sentence says",
    ("15", "131 GB"): "8 billion parameters at 16 bytes, and the activations",
}


def stated(text):
    """(as written, number, unit) in Markdown, without code, links and tables of contents."""
    plain = re.sub(r"(?s)```.*?```|`[^`]*`|\]\([^)]*\)|\*\*\d+ minutes\.\*\*", " ", text)
    return [(m[0], m[1].replace(",", ""), m[2]) for m in _NUMBER.finditer(plain)]


def numbers(text):
    return {float(found.replace(",", "").replace("_", "")) for found in _ANY.findall(text)}


@functools.cache
def known_everywhere():
    """Every number of the dated facts, the published rows, the rates and the data sheets."""
    found = set()
    for row in (*platform_facts.all_facts(), *published_results.all_rows().values()):
        found |= numbers(" ".join(map(str, dataclasses.astuple(row))))
    for key, chip in hardware.catalog().items():
        found |= {float(v) for v in (chip.memory, chip.bandwidth, *chip.peak.values()) if v}
        found |= {
            end
            for rate in chip_throughput.rates(key).table.values()
            for end in (rate.low, rate.high)
        }
    return found


def evidence(notebook):
    """Every number of the code and of the stored outputs."""
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            texts += [output.get("text", ""), data.get("text/plain", ""), data.get("text/html", "")]
    return set().union(*map(numbers, texts)) | known_everywhere()


def is_shown(number, unit, known):
    """Whether a known number, in this unit or in its base, rounds to the one that is written."""
    value, digits = float(number), len(number.partition(".")[2])
    prefix = (
        unit[0]
        if unit[0] in SCALES and unit not in ("minutes", "s", "seconds", "per second")
        else ""
    )
    scale = SCALES[prefix] * _LONGER.get(unit, 1)
    step = 0.5 * 10**-digits
    if not digits and number.endswith("0") and value >= 10:  # round: 40 may be 38 to 42
        step = 0.05 * value
    return any(abs(one / factor - value) <= step * 1.0001 for one in known for factor in {1, scale})


def unsupported(lesson, notebook):
    known = evidence(notebook)
    return [
        written
        for cell in notebook.cells
        if cell.cell_type == "markdown"
        for written, number, unit in stated(cell.source)
        if not is_shown(number, unit, known) and (lesson.slug[:2], written) not in EXCEPTIONS
    ]


@pytest.mark.parametrize("lesson", COURSE.lessons, ids=lambda lesson: lesson.slug)
def test_numbers_in_the_text_stand_in_the_evidence(lesson):
    assert unsupported(lesson, nbformat.read(COURSE.notebook(lesson), 4)) == []


@pytest.mark.parametrize("plant", ["12.7×", "417 GB/s", "1,234 TFLOP/s"])
def test_a_false_number_is_found(plant):
    lesson = COURSE.lessons[0]
    notebook = nbformat.read(COURSE.notebook(lesson), 4)
    notebook.cells.append(nbformat.v4.new_markdown_cell(f"On a T4 that makes {plant}, see below."))
    assert unsupported(lesson, notebook) == [plant]


def test_the_list_of_exceptions_is_short_and_used():
    assert len(EXCEPTIONS) <= 20
    for number, written in EXCEPTIONS:
        [lesson] = [each for each in COURSE.lessons if each.slug.startswith(number)]
        cells = nbformat.read(COURSE.notebook(lesson), 4).cells
        assert any(written in cell.source for cell in cells if cell.cell_type == "markdown"), (
            written
        )
