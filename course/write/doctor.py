"""The doctor's page: how many errors does it explain, how many wrongly, and does its way out help?"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from course.write.tables import table

_DATA = Path(__file__).parents[2] / "tests" / "colab_helpers" / "doctor"
#: Real errors with their thread, and the verdict of whoever judged the first answer to each.
ERRORS = _DATA / "errors.json"
#: What `course mismatches` has kept of its last run.
MISMATCHES = _DATA / "mismatches.json"
_VERDICTS = ("right", "partly", "wrong", "silent")
_SETS = {
    "a": "patterns were written with these in sight",
    "b": "set aside beforehand",
    "c": "collected afterwards, unseen",
    "d": "collected after that, unseen",
    "e": "collected then, unseen, at most two of a project",
    "f": "collected after e, unseen, in the same way",
    "g": "collected after f, unseen, from threads since 2023",
    "h": "collected last, unseen, in the same way",
}


def judged_table() -> str:
    """Verdicts on the first answer, by set: how many, and what share."""
    sets = {f"{name}: {what}": {name} for name, what in _SETS.items()}
    sets["b to h: all that were unseen"] = {*_SETS} - {"a"}
    lines = []
    for what, names in sets.items():
        counts = Counter(row["judged_first"] for row in _errors() if row["set"] in names)
        whole = sum(counts.values())
        shares = (f"{100 * counts[verdict] / whole:.0f} %" for verdict in _VERDICTS)
        lines.append((what, str(whole), *shares))
    return table(("errors", "how many", *_VERDICTS), lines)


def categories_table() -> str:
    """Verdicts on what nobody had seen when the patterns were written, by category."""
    rows = [row for row in _errors() if row["set"] != "a"]
    lines = []
    for category in sorted({row["category"] for row in rows}):
        counts = Counter(row["judged_first"] for row in rows if row["category"] == category)
        lines.append((category, *(str(counts[verdict]) for verdict in _VERDICTS)))
    return table(("category, sets b to h", *_VERDICTS), lines)


def sessions_table() -> str:
    """Verdicts on the cards of errors that somebody made in cells, at their first run."""
    rows = json.loads((_DATA / "sessions.json").read_text("utf-8"))
    counts = Counter(row["judged_first"] for row in rows)
    now = sum(bool(row["explained_as"]) for row in rows)
    numbers = (str(len(rows)), *(str(counts[verdict]) for verdict in _VERDICTS), str(now))
    head = ("errors made in cells", *_VERDICTS, "texts that the table knows since")
    return table(head, [numbers])


def mismatches_table() -> str:
    """Pairs of packages that do not go together: named, and mended by what the cards say?"""
    known = json.loads(MISMATCHES.read_text("utf-8"))
    others = [row for row in known if row["unseen"]]
    groups = {
        "the rules were written with these in sight": [row for row in known if not row["unseen"]],
        "chosen by somebody else, at the first run": [
            row | (row["at_first"] or {}) for row in others
        ],
    }
    if any(row["at_first"] for row in others):
        groups["the same, after the rules had learned from them"] = others
    lines = []
    for what, group in groups.items():
        steps = [len(row["steps"]) for row in group if row["mended"]]
        named = sum(row["named"] for row in group)
        counts = (len(group), named, steps.count(1), len(steps) - steps.count(1))
        lines.append((what, *map(str, counts)))
    return table(("pairs", "how many", "both named", "mended at once", "mended later"), lines)


@functools.cache
def _errors() -> Sequence[dict]:
    return json.loads(ERRORS.read_text("utf-8"))
