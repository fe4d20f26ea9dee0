"""The doctor's page: how many errors does it explain, how many wrongly, and does its way out help?"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from colab_helpers import doctor
from course.write.tables import table

_DATA = Path(__file__).parents[2] / "tests" / "colab_helpers" / "doctor"
#: Real errors with their thread, and the verdict of whoever judged the first answer to each.
ERRORS = _DATA / "errors.json"
#: What `course mismatches` has kept of its last run.
MISMATCHES = _DATA / "mismatches.json"
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
}
#: Errors that somebody made in cells, by set.
_SESSIONS = {
    "first": "the first eighty, when mistakes in one's own code were still left alone",
    "second": "eighty more, by somebody else, after rows were written for those",
    "third": "eighty of another hand, at the same time",
}


def short() -> str:
    """How good the doctor is, in a few lines: what was known of it when it was last asked."""
    texts = _shares(Counter(row["judged_first"] for row in _errors() if row["set"] != "a"))
    cells = _judged_cells()
    again = _shares(cells["third, once more"])
    newest = _shares(cells["second"] + cells["third"])
    known = sum(bool(problem.errors) for problem in doctor.known_problems().values())
    return " ".join(
        (
            f"The table knows the texts of {known} problems.",
            "**Errors of accelerators, packages and machines** that nobody here had seen were explained",
            f"rightly in {texts['right']} of 100 cases; in {texts['wrong']} the card named another cause, in",
            f"{texts['silent']} it said nothing. **Mistakes in one's own code**, made in cells by people who",
            f"had not seen the doctor: {newest['right']} of 100 right, {newest['wrong']} wrong,",
            f"{newest['silent']} without help. After rows had been written from half of those, the other",
            f"half, which had been held back, came out at {again['right']} right, {again['wrong']} wrong,",
            f"{again['silent']} without help. So check a card against your own error before you act.",
        )
    )


def judged_table() -> str:
    """Verdicts on the first answer, by set: how many, and what share."""
    sets = {f"{name}: {what}": {name} for name, what in _SETS.items()}
    sets["b to h: all that were unseen"] = {*_SETS} - {"a"}
    counts = {
        what: Counter(row["judged_first"] for row in _errors() if row["set"] in names)
        for what, names in sets.items()
    }
    return _table("errors", counts)


def categories_table() -> str:
    """Verdicts on what nobody had seen when the patterns were written, by category, the best first."""
    rows = [row for row in _errors() if row["set"] != "a"]
    counts = {
        category: Counter(row["judged_first"] for row in rows if row["category"] == category)
        for category in {row["category"] for row in rows}
    }
    order = sorted(counts, key=lambda one: (-counts[one]["right"] / counts[one].total(), one))
    return _table("category, sets b to h", {one: counts[one] for one in order})


def sessions_table() -> str:
    """Verdicts on the cards of errors that somebody made in cells, at their first run."""
    cells = _judged_cells()
    names = _SESSIONS | {
        "third, once more": "the same, after rows were written from the eighty above it"
    }
    return _table("errors made in cells", {names[key]: counts for key, counts in cells.items()})


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
    rows = json.loads((_DATA / "sessions.json").read_text("utf-8"))
    counts = {
        key: Counter(row["judged_first"] for row in rows if row["set"] == key) for key in _SESSIONS
    }
    again = Counter(row["judged_again"] for row in rows if row["judged_again"])
    return counts | {"third, once more": again}


def _shares(counts: Counter[str]) -> dict[str, int]:
    return {verdict: round(100 * counts[verdict] / counts.total()) for verdict in _VERDICTS}


def _table(head: str, groups: Mapping[str, Counter[str]]) -> str:
    lines = []
    for what, counts in groups.items():
        shares = (f"{share} %" for share in _shares(counts).values())
        lines.append((what, str(counts.total()), *shares))
    return table((head, "how many", *_VERDICTS), lines)


@functools.cache
def _errors() -> Sequence[dict]:
    return json.loads(ERRORS.read_text("utf-8"))
