"""The doctor's page: how many errors does it explain, how many wrongly, and does its way out help?"""

from __future__ import annotations

import functools
import json
import math
import tomllib
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from colab_helpers import doctor
from course.write.tables import table

_DATA = Path(__file__).parents[2] / "tests" / "colab_helpers" / "doctor"
#: Real errors with their thread, and the verdict of whoever judged the first answer to each.
ERRORS = _DATA / "errors.json"
#: What `course mismatches` has kept of its last run.
MISMATCHES = _DATA / "mismatches.json"
#: Errors that have nothing to do with an accelerator, and what is told for each.
UNRELATED = _DATA / "unrelated.json"
#: What the layers below a framework can say, and the problem told for each.
WORDS = _DATA / "vocabularies.toml"
_VERDICTS = ("right", "partly", "wrong", "silent")
_SETS = {
    "a": "patterns were written from these: not a test",
    "b": "set aside before the first pattern",
    "c": "threads of all years",
    "d": "threads of all years",
    "e": "at most two of a project",
    "f": "at most two of a project",
    "g": "threads since 2023",
    "h": "threads since 2023, at most two of a project",
    "i": "many TPUs, clusters and containers",
    "j": "mostly Colab and Kaggle",
    "k": "mostly Colab and Kaggle, after the doctor had learned to tell causes apart",
    "l": "a fixed number of each category, by two other authors",
    "m": "mostly Colab and Kaggle, by another author",
    "n": "new threads, by another author",
    "o": "well-known messages, nearly all without a thread",
    "p": "mostly Colab and Kaggle, by two other authors, after 240 more causes",
    "q": "mostly Colab and Kaggle, by two other authors, after 280 more problems",
    "r": "messages from the programs' source, nearly all without a thread, by two other authors",
}
_UNSEEN = {*_SETS} - {"a"}
_RANGE = f"{min(_UNSEEN)} to {max(_UNSEEN)}"
#: The sets that were judged last, which measured the list nearest to today's.
_LATEST = "qr"
#: Errors that somebody made in cells, by set; nobody who made any had seen the doctor.
_SESSIONS = {
    "first": "set 1, while mistakes in one's own code were still left alone",
    "second": "set 2, another author, after improvements from set 1",
    "third": "set 3, a third author, at the same stage",
    "third again": "set 3 again, after improvements from set 2 alone",
    "fourth": "set 4, a fourth author, after improvements from sets 2 and 3",
    "fourth again": "set 4, the same cards, by a second judge",
    "fifth": "set 5, a fifth author, after improvements from set 4",
    "fifth again": "set 5, the same cards, by a second judge",
}


def short() -> str:
    """How good the doctor is, in a few lines: what was known of it when it was last asked."""
    texts, latest = _verdicts(_UNSEEN), _verdicts(_LATEST)
    late = _shares(latest)
    cells = _judged_cells()["fourth"] + _judged_cells()["fifth"]
    known = sum(bool(problem.errors) for problem in doctor.known_problems().values())
    return (
        f"The doctor's list has the texts of {known} problems. **Mistakes in one's own code** (sets 4 and 5 "
        f"below: {cells.total()} errors made in cells, by two authors who had not seen the doctor): "
        f"{_told(cells)}. **Errors of accelerators, packages and machines** (sets {_RANGE}: "
        f"{texts.total()} texts, each judged before anybody had written for it): {_told(texts)}. Of the "
        f"latest {latest.total()} texts (sets {_LATEST[0]} and {_LATEST[-1]}), {late['right']} % were right "
        f"and {late['wrong']} % wrong. All figures are rounded. So check a card against your own error "
        "before you act."
    )


def _told(counts: Counter[str]) -> str:
    share = _shares(counts)
    return (
        f"{share['right']} % of the cards were right, {share['partly']} % partly right, "
        f"{share['wrong']} % wrong, and {share['silent']} % said nothing useful"
    )


def judged_table() -> str:
    """Verdicts on the first answer, by set: how many, and what share."""
    sets = {f"{name}: {what}": {name} for name, what in _SETS.items()}
    sets[f"{_RANGE}: all that were unseen"] = _UNSEEN
    return _table("errors", {what: _verdicts(names) for what, names in sets.items()})


def categories_table() -> str:
    """Verdicts on what nobody had seen, by category, the best first; how many of the latest were right."""
    unseen = _by_category(_UNSEEN)
    latest = _by_category(_LATEST)
    order = sorted(unseen, key=lambda one: (-unseen[one]["right"] / unseen[one].total(), one))
    lines = []
    for one in order:
        shares = (f"{share} %" for share in _shares(unseen[one]).values())
        of_latest = f"{latest[one]['right']} of {latest[one].total()}"
        lines.append((one, str(unseen[one].total()), *shares, of_latest))
    last = f"right in {_LATEST[0]} and {_LATEST[-1]}"
    return table((f"category, sets {_RANGE}", "how many", *_VERDICTS, last), lines)


def _verdicts(sets: Collection[str]) -> Counter[str]:
    return Counter(row["judged_first"] for row in _errors() if row["set"] in sets)


def _by_category(sets: Collection[str]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in _errors():
        if row["set"] in sets:
            counts[row["category"]][row["judged_first"]] += 1
    return counts


def words() -> str:
    """How much is explained of what the layers below a framework can say."""
    lists = [
        one for one in tomllib.loads(WORDS.read_text("utf-8"))["list"] if "a_choice" not in one
    ]
    told = [id for one in lists for id in one["told"].values()]
    left = told.count("")
    return (
        "CUDA and its libraries, NVIDIA's driver, NCCL, Linux, HTTP and pip publish lists of their errors. "
        f"Of [{len(told)} such messages](../tests/colab_helpers/doctor/vocabularies.toml), the doctor "
        f"explains {len(told) - left}; the other {left} are too rare or too general."
    )


def unrelated() -> str:
    """How many errors of other programs are left alone."""
    rows = json.loads(UNRELATED.read_text("utf-8"))
    alone = sum(not row["explained_as"] for row in rows)
    return (
        f"Of [{len(rows)} errors](../tests/colab_helpers/doctor/unrelated.json) that have nothing to do "
        "with an accelerator, many of them with harmless lines of TensorFlow or CUDA around them, "
        f"{alone} get no card, as intended. The other {len(rows) - alone} are problems that the list "
        "covers by now: nearly all of them mistakes in code (sizes that do not match, a backward pass "
        "taken twice)."
    )


def sessions_table() -> str:
    """Verdicts on the cards of errors that somebody made in cells."""
    cells = _judged_cells()
    return _table("errors made in cells", {what: cells[key] for key, what in _SESSIONS.items()})


def mismatches_table() -> str:
    """Pairs of packages that do not go together: named, and solved by what the cards say?"""
    known = json.loads(MISMATCHES.read_text("utf-8"))
    others = [row for row in known if row["unseen"]]
    groups = {
        "rules were written from these: not a test": [row for row in known if not row["unseen"]],
        "chosen by somebody else, at the first run": [
            row | (row["at_first"] or {}) for row in others
        ],
    }
    if any(row["at_first"] for row in others):
        groups["the same, after rules were written from them"] = others
    lines = []
    for what, group in groups.items():
        steps = [len(row["steps"]) for row in group if row["mended"]]
        named = sum(row["named"] for row in group)
        counts = (steps.count(1), len(steps) - steps.count(1), len(group) - len(steps))
        shares = (f"{100 * count / len(group):.0f} %" for count in (named, *counts))
        lines.append((what, str(len(group)), *shares))
    solved = ("solved by its first `%pip`", "by a later one", "not solved")
    return table(("pairs", "how many", "card names both", *solved), lines)


def _judged_cells() -> dict[str, Counter[str]]:
    """Verdicts by set of cells; a second judgement of a set stands beside the first."""
    counts: dict[str, Counter[str]] = {key: Counter() for key in _SESSIONS}
    for row in json.loads((_DATA / "sessions.json").read_text("utf-8")):
        counts[row["set"]][row["judged_first"]] += 1
        if row["judged_again"]:
            counts[f"{row['set']} again"][row["judged_again"]] += 1
    return counts


def _shares(counts: Counter[str]) -> dict[str, int]:
    """Per cent of each verdict; a half is rounded up, that of the wrong ones too."""
    whole = counts.total()
    return {verdict: math.floor(100 * counts[verdict] / whole + 0.5) for verdict in _VERDICTS}


def _table(head: str, groups: Mapping[str, Counter[str]]) -> str:
    lines = []
    for what, counts in groups.items():
        shares = (f"{share} %" for share in _shares(counts).values())
        lines.append((what, str(counts.total()), *shares))
    return table((head, "how many", *_VERDICTS), lines)


@functools.cache
def _errors() -> Sequence[dict]:
    return json.loads(ERRORS.read_text("utf-8"))
