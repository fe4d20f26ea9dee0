"""What do the site's pages ask of the helper? Text goes in, JSON comes out.

This runs in the reader's browser, by Pyodide, beside the helper's own files: the same answers as in a
notebook, and nothing leaves the page.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from colab_helpers import doctor, transformer
from colab_helpers.doctor import explain, raised


def error(text: str, platform: str = "") -> str:
    """Say what an error means; `platform` is "colab", "kaggle" or "local", or "" for what paths tell."""
    explained = doctor.explain_error(text, platform or raised.place(text) or "colab")
    return json.dumps(
        {
            "finding": _told(explained.finding),
            "also": _told(explained.also),
            "clues": [asdict(clue) for clue in explained.clues],
            "nearest": [{"title": title, "id": _id(link)} for title, link in explained.nearest],
            "asking": "" if explained else explain.ASKING,
        }
    )


def notebook(text: str) -> str:
    """Say what in a notebook is gone; `text` is the file."""
    try:
        read = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as problem:
        where = f" at line {problem.lineno}" if isinstance(problem, json.JSONDecodeError) else ""
        return _refused(f"This is not a notebook: no valid JSON{where}.")
    if not isinstance(read, dict) or not isinstance(read.get("cells"), list):
        return _refused("This is not a notebook: it has no list of cells.")
    findings = doctor.explain_notebook(read)
    return json.dumps({"findings": [asdict(one) for one in findings]})


def fits(form: str) -> str:
    """Say which of Colab's machines a transformer fits; `form` has the sizes, as JSON."""
    try:
        model = transformer.Transformer(**json.loads(form))
        rooms = transformer.rooms(model)
    except (ValueError, TypeError) as problem:  # a size that cannot be, or one that is missing
        return _refused(str(problem))
    return json.dumps(
        {
            "parameters": model.parameters,
            "alive": model.moments[model.worst],
            "peak": model.peak,
            "worst": model.worst,
            "most_off": transformer.MOST_OFF,
            "rooms": [_room(model, room) for room in rooms],
        }
    )


def _room(model: transformer.Transformer, room: transformer.Room) -> dict:
    names = (
        "choice",
        "takes",
        "has",
        "rows",
        "seconds",
        "units_per_hour",
        "free",
        "note",
        "verdict",
    )
    ways = [
        {name: getattr(way, name) for name in ("rows", "checkpointing", "optimizer")}
        for way in transformer.ways_to_fit(model, room.chip)
    ]
    return {"ways": ways, **{name: getattr(room, name) for name in names}}


def _told(finding: doctor.Finding | None) -> dict | None:
    if finding is None:
        return None
    return {**asdict(finding), "title": doctor.known_problems()[finding.id].title}


def _id(link: str) -> str:
    return link.rpartition("#")[2]


def _refused(why: str) -> str:
    return json.dumps({"refused": why})
