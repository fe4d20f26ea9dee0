"""What the site's pages ask of the helper. Text goes in, JSON comes out.

This runs in the reader's browser, by Pyodide, beside the helper's own files: the same answers as in a
notebook, and nothing leaves the page.
"""

from __future__ import annotations

import json
from dataclasses import asdict

import colab_doctor
from colab_doctor import explain, pasted_log
from colab_helpers import platform_facts
from colab_helpers.formulas import serving, training


def error(text: str, platform: str = "") -> str:
    """Say what an error means; `platform` is "colab", "kaggle" or "local", or "" for what paths tell."""
    found = colab_doctor.explain_error(text, platform or pasted_log.platform(text) or "colab")
    also = found.also and {
        "id": found.also.id,
        "title": colab_doctor.known_problems()[found.also.id].title,
    }
    card = {"id": found.id, "title": found.title, "meaning": found.meaning, "fix": found.fix}
    return json.dumps({"card": card if found else None, "also": also, "asking": explain.NOT_FOUND})


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
        model = training.Transformer(**json.loads(form))
        found = training.fits(model)
    except (ValueError, TypeError) as problem:  # a size that cannot be, or one that is missing
        return _refused(str(problem))
    return json.dumps(
        {
            "parameters": model.parameters,
            "alive": model.memory_by_phase[model.peak_phase],
            "peak": model.peak,
            "worst": model.peak_phase,
            "most_off": training.MAX_PEAK_ERROR,
            "rooms": [_fit(model, fit) for fit in found],
        }
    )


def _fit(model: training.Transformer, fit: training.Fit) -> dict:
    names = (
        "menu_name step_bytes capacity_bytes largest_batch seconds units_per_hour free note verdict"
    )
    ways = [
        {name: getattr(way, name) for name in ("batch_size", "checkpointing", "optimizer")}
        for way in training.ways_to_fit(model, fit.chip)
    ]
    return {"ways": ways, **{name: getattr(fit, name) for name in names.split()}}


def serve(form: str) -> str:
    """Say how fast Colab's machines answer with a language model; `form` has config and sizes, as JSON."""
    try:
        given = json.loads(form)
        config = given.pop("config")
        pasted = config.lstrip().startswith("{")
        model = serving.read_config(json.loads(config) if pasted else config)
        machines = platform_facts.machine_table().by_chip
        rooms = [
            _served(machine.menu_name, model, chip, given) for chip, machine in machines.items()
        ]
    except (ValueError, TypeError, KeyError) as problem:
        return _refused(str(problem))
    cache = model.kv_cache_bytes(given["context"])
    return json.dumps({"parameters": model.parameters, "cache": cache, "rooms": rooms})


def _served(menu_name: str, model: serving.ServedModel, chip: str, given: dict) -> dict:
    found = serving.serve(model, chip, **given)
    quick = serving.max_users_at(10, model, chip, given["context"], given["bits"])
    names = "fits users max_users weight_bytes tokens_per_second ttft_seconds".split()
    price = found.dollars_per_million if found.fits else None
    own = {"menu_name": menu_name, "price": price, "quick": quick}
    return own | {name: getattr(found, name) for name in names}


def _refused(why: str) -> str:
    return json.dumps({"refused": why})
