"""What the site's pages ask of the helper. Text goes in, JSON comes out.

This runs in the reader's browser, by Pyodide, beside the helper's own files: the same answers as in a
notebook, and nothing leaves the page.
"""

from __future__ import annotations

import json
from dataclasses import asdict

import colab_doctor
from colab_doctor import explain, pasted_log
from colab_lessons import transformer


def error(text: str, platform: str = "") -> str:
    """Say what an error means; `platform` is "colab", "kaggle" or "local", or "" for what paths tell."""
    found = colab_doctor.explain_error(text, platform or pasted_log.platform(text) or "colab")
    also = found.also and {
        "id": found.also.id,
        "title": colab_doctor.known_problems()[found.also.id].title,
    }
    card = {"id": found.id, "title": found.title, "meaning": found.meaning, "fix": found.fix}
    return json.dumps({"card": card if found else None, "also": also, "asking": explain.ASKING})


def notebook(text: str) -> str:
    """Say what in a notebook is gone; `text` is the file."""
    try:
        read = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as problem:
        where = f" at line {problem.lineno}" if isinstance(problem, json.JSONDecodeError) else ""
        return _refused(f"This is not a notebook: no valid JSON{where}.")
    if not isinstance(read, dict) or not isinstance(read.get("cells"), list):
        return _refused("This is not a notebook: it has no list of cells.")
    findings = colab_doctor.explain_notebook(read)
    return json.dumps({"findings": [asdict(one) for one in findings]})


def fits(form: str) -> str:
    """Say which of Colab's machines a transformer fits; `form` has the sizes, as JSON."""
    try:
        model = transformer.Transformer(**json.loads(form))
        found = transformer.fits(model)
    except (ValueError, TypeError) as problem:  # a size that cannot be, or one that is missing
        return _refused(str(problem))
    return json.dumps(
        {
            "parameters": model.parameters,
            "alive": model.moments[model.worst],
            "peak": model.peak,
            "worst": model.worst,
            "most_off": transformer.MOST_OFF,
            "rooms": [_fit(model, fit) for fit in found],
        }
    )


def _fit(model: transformer.Transformer, fit: transformer.Fit) -> dict:
    names = "choice takes has batch_size seconds units_per_hour free note verdict".split()
    ways = [
        {name: getattr(way, name) for name in ("batch_size", "checkpointing", "optimizer")}
        for way in transformer.ways_to_fit(model, fit.chip)
    ]
    return {"ways": ways, **{name: getattr(fit, name) for name in names}}


def _refused(why: str) -> str:
    return json.dumps({"refused": why})
