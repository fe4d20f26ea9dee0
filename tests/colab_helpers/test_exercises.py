"""For each exercise: the stub is open, the solution right, wrong answers name the misconception."""

import importlib
import pkgutil

import pytest

import colab_helpers.exercises as exercises
from colab_helpers.benchmark import Measurement
from colab_helpers.exercises import lesson_01

RACE = {
    "one lane": [Measurement((3e-6,)), Measurement((2e-3,))],
    "two lanes": [Measurement((80e-6,)), Measurement((1.25e-3,))],
}
CROSSING = {"hand_over": 50e-6, "slow": 100e9, "fast": 400e9}
CHOICES = lesson_01.RUNTIMES
PANDAS, GPT, CHAIN, LARGE, JAX = CHOICES
LIMITS = {"a + b": "bandwidth", "A @ B": "compute", "A @ v": "bandwidth"}
READING = {"free MiB": 14313, "share of power": 0.371, "CUDA 13.0 toolkit": "cannot tell"}
OPEN = "open", ""

#: id -> (context, stub, solution, [(wrong answer, words of the misconception)])
CASES = {
    "01.speedup": (
        {"race": RACE}, ..., 1.6,
        [(0.625, "fast divided by slow"), (0.75e-3, "a difference"), (3 / 80, "smallest size"),
         (160, "per cent"), (60, "per cent"), (2.9, "divide the slow one"), ("fast", "A number is wanted")],
    ),
    "01.crossover": (
        CROSSING, ..., 149.4,
        [(188.2, "2n³ operations"), (3.33e6, "third root"), (135.7, "compare both"), (7, "solve for n")],
    ),
    "01.runtimes": (
        {}, dict.fromkeys(CHOICES, ...), dict(CHOICES),
        [({**CHOICES, PANDAS: "T4"}, "pandas runs on the CPU"),
         ({**CHOICES, CHAIN: "A100"}, "one chain"),
         ({**CHOICES, LARGE: "T4"}, "16 GB"),
         ({**CHOICES, JAX: "T4"}, "no bf16 units"),
         ({**CHOICES, GPT: "cpu"}, "hours that you measured"),
         ({**CHOICES, GPT: "abacus"}, "Read that one again"),
         ({**CHOICES, GPT: ...}, "Still without an answer"),
         ("T4", "cannot be read")],
    ),
    "02.tensor_bytes": (
        {}, ..., 36.75,
        [(38.535, "MB (10**6)"), (9.1875, "4 bytes"), (294, "bits"), (73.5, "float64"),
         (38535168, "in bytes"), (1, "2**20 bytes a MiB"), (None.__class__, "A number is wanted")],
    ),
    "02.limits": (
        {}, dict.fromkeys(LIMITS, ...), LIMITS,
        [({**LIMITS, "a + b": "compute"}, "12 bytes"), ({**LIMITS, "A @ B": "bandwidth"}, "n/6"),
         ({**LIMITS, "A @ v": "compute"}, "two operations only")],
    ),
    "02.read_smi": (
        {}, dict.fromkeys(READING, ...), READING,
        [({**READING, "free MiB": 1047}, "what is used"), ({**READING, "free MiB": 15360}, "the total"),
         ({**READING, "free MiB": 1}, "total minus used"),
         ({**READING, "share of power": 0.12}, "GPU-Util"), ({**READING, "share of power": 37.1}, "fraction"),
         ({**READING, "share of power": 0.9}, "watts"),
         ({**READING, "CUDA 13.0 toolkit": "yes"}, "newest that this driver"),
         ({**READING, "CUDA 13.0 toolkit": "no"}, "the driver only"),
         ({**READING, "CUDA 13.0 toolkit": ...}, "Still without")],
    ),
}  # fmt: skip


def all_exercises():
    for module in pkgutil.iter_modules(exercises.__path__, f"{exercises.__name__}."):
        importlib.import_module(module.name)
    return sorted(exercises._registry)


def test_every_exercise_has_cases():
    assert sorted(CASES) == all_exercises()
    assert all(len(wrong) >= 2 for *_, wrong in CASES.values())


@pytest.mark.parametrize("id", CASES)
def test_untouched_stub_gets_the_hint(id):
    context, stub, _, _ = CASES[id]
    verdict = exercises.check(id, stub, **context)
    assert (verdict.status, verdict.message) == ("open", exercises.find(id).hint)


@pytest.mark.parametrize("id", CASES)
def test_solution_is_right(id):
    context, _, solution, _ = CASES[id]
    assert exercises.check(id, solution, **context).status == "right"


@pytest.mark.parametrize(
    ("id", "answer", "words"),
    [(id, answer, words) for id, (*_, wrong) in CASES.items() for answer, words in wrong],
)
def test_wrong_answer_names_the_misconception(id, answer, words):
    verdict = exercises.check(id, answer, **CASES[id][0])
    assert verdict.status == "wrong"
    assert words in verdict.message


@pytest.mark.parametrize("id", CASES)
@pytest.mark.parametrize(
    "answer", ["?", [], {}, object(), float("nan"), -1, True, {"a": None}, lambda: 1]
)
def test_no_answer_whatsoever_raises(id, answer):
    assert exercises.check(id, answer, **CASES[id][0]).status == "wrong"


def test_verdict_speaks_to_people_and_machines():
    verdict = exercises.check("02.tensor_bytes", 9.1875)
    bundle = verdict._repr_mimebundle_()
    assert bundle["text/plain"].startswith("Exercise 02.tensor_bytes · Not yet:")
    assert "Not yet" in bundle["text/html"]
    assert bundle["application/vnd.colab-helpers.record+json"]["status"] == "wrong"


def test_what_the_learner_wrote_is_escaped():
    verdict = exercises.check("02.tensor_bytes", "<script>")
    assert "<script>" not in verdict._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize(("id", "said"), [("99.x", "lesson '99' has none"), ("01.x", "01.speedup")])
def test_unknown_exercise_says_which_there_are(id, said):
    with pytest.raises(KeyError, match=said):
        exercises.check(id, 1)
