"""Notebooks as thirty students might hand them in, each with what a reader should find in it."""

import copy
import dataclasses
import itertools
import json
import random
from dataclasses import dataclass, field

from colab_helpers._rich_display import RECORD_MIME
from colab_lessons import exercises
from course.config import load
from course.write import assemble
from tests.colab_lessons.test_exercises import CASES

COURSE = load()
PYTORCH = "03_pytorch_on_gpu"
SCRIPT = "<script>alert('x')</script><img src=x onerror=alert(1)>"
WRONG = [
    (id, answer)
    for id in ("03.amdahl", "03.move_less", "03.hidden_stops")
    for answer, _ in CASES[id][3]
]
OUT_OF_MEMORY = {
    "output_type": "error",
    "ename": "OutOfMemoryError",
    "evalue": "CUDA out of memory. Tried to allocate 160.00 MiB. GPU 0 has a total capacity of 14.75 GiB of "
    "which 9.06 MiB is free.",
    "traceback": [
        "\u001b[0;31mOutOfMemoryError\u001b[0m: CUDA out of memory. Tried to allocate 160.00 MiB."
    ],
}
UNKNOWN = {
    "output_type": "error",
    "ename": "ZeroDivisionError",
    "evalue": "division by zero",
    "traceback": [],
}
ODD = {"a": {"number": "1", "unit": [], "meaning": 3}}
_runs = itertools.count(1)


@dataclass
class Sample:
    """A file's name and content, and what should be found in it; no lesson: it does not count."""

    name: str
    content: str
    lesson: str | None = None
    device: str = ""
    said: dict = field(default_factory=dict)
    exercises: dict = field(default_factory=dict)
    errors: tuple = ()
    ran: bool = True
    copy_of: str = ""
    problem: str = ""


def stored(slug=PYTORCH):
    [lesson] = COURSE.select([slug])
    return json.loads(COURSE.notebook(lesson).read_text("utf-8"))


def handed(notebook, kind):
    """The outputs in which a notebook hands something of this kind to machines."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            if output.get("data", {}).get(RECORD_MIME, {}).get("kind") == kind:
                yield cell, output["data"][RECORD_MIME]


def _ladder():
    """What the stored run measured on the ladder, so that somebody can be near it."""
    [(_, record)] = handed(stored(), "record")
    return record["predictions"]["ladder_gains"]["measured"]


def submission(name, slug=PYTORCH, said=None, answers=None, errors=(), times=1.0, **record):
    """A lesson as somebody ran it: predictions, answers to exercises, errors, another chip."""
    notebook, said = stored(slug), said or {}
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):  # no run shows the very same as the stored one
            output["metadata"] = {"run": name}
    [(_, kept)] = handed(notebook, "record")
    kept.update(
        record,
        run={"id": f"run{next(_runs)}", "began": "", "recorded": "2026-11-22T12:00:00+00:00"},
    )
    for value in kept["values"].values():
        value["number"] *= times
    for field_name, value in said.items():
        kept["predictions"][field_name]["guess"] = value
        for cell in notebook["cells"]:
            cell["source"] = cell["source"].replace(
                f"{field_name} = None", f"{field_name} = {value!r}"
            )
    standing = {data["exercise"]: "open" for _, data in handed(notebook, "exercise")}
    for id, answer in (answers or {}).items():
        verdict = exercises.check(id, answer, **CASES[id][0])
        standing[id] = verdict.status
        for _, data in handed(notebook, "exercise"):
            if data["exercise"] == id:
                data.update(dataclasses.asdict(verdict))
        kept["exercises"][id] = {"status": verdict.status, "message": verdict.message, "tries": 3}
    for error in errors:
        next(c for c in reversed(notebook["cells"]) if c["cell_type"] == "code")["outputs"].append(
            error
        )
    known = {"OutOfMemoryError": "out-of-memory", "ZeroDivisionError": ""}
    return Sample(
        name, json.dumps(notebook), slug, kept["device"], said, standing,
        tuple(known[error["ename"]] for error in errors),
    )  # fmt: skip


def changed(made, name, change, **expected):
    """The same with its notebook changed by `change`, and other expectations."""
    notebook = json.loads(made.content)
    change(notebook)
    return dataclasses.replace(made, name=name, content=json.dumps(notebook), **expected)


def _untouched(notebook):
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None


def _without_record(notebook):
    [(cell, _)] = handed(notebook, "record")
    cell["outputs"] = []


def _older_record(notebook):
    [(_, record)] = handed(notebook, "record")
    for name in ("predictions", "exercises", "run"):
        del record[name]


def _record_of(**wrong):
    def change(notebook):
        [(_, record)] = handed(notebook, "record")
        record.update(wrong)

    return change


def _moved(notebook):
    random.Random(0).shuffle(notebook["cells"])
    notebook["cells"] = [
        c for c in notebook["cells"] if "@title Set up" not in "".join(c["source"])
    ][:-5]
    [(cell, _)] = handed(notebook, "record")
    assert cell


def _much_output(notebook):
    line = "x" * 99 + "\n"
    code = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    code["outputs"].append({"output_type": "stream", "name": "stdout", "text": [line] * 400_000})


def _hostile(notebook):
    [(_, record)] = handed(notebook, "record")
    record["device"] = SCRIPT
    record["predictions"]["ladder_gains"]["guess"] = SCRIPT
    record["values"]["ladder"]["meaning"] = SCRIPT
    for _, data in handed(notebook, "exercise"):
        data.update(status="wrong", message=SCRIPT)
    notebook["cells"][3]["outputs"] = [{"output_type": "error", "ename": SCRIPT, "evalue": SCRIPT}]


def everything():
    """All thirty and more."""
    t4, a100 = (
        {"device": "Tesla T4", "device_kind": "GPU"},
        {"device": "NVIDIA A100-SXM4-40GB", "device_kind": "GPU"},
    )
    cpu = submission("01-ada.ipynb", said={"ladder_gains": 10, "percent_waiting": 1.5})
    made = [
        cpu,
        submission("02-ben/lesson.ipynb", said={"ladder_gains": 100, "factor": 2}, times=2.0),
        submission("03 chi (1).ipynb", said={"ladder_gains": 0.01}, times=0.5),
        submission(
            "04-t4.ipynb",
            said={"ladder_gains": round(1.1 * _ladder(), 2)},
            answers={"03.move_less": 47.04},
            **t4,
        ),
        submission(
            "05-t4.ipynb", said={"ladder_gains": 3}, answers={"03.hidden_stops": {3, 5, 7}}, **t4
        ),
        submission("06-a100.ipynb", times=20.0, **a100),
        submission("07-fake-gpu.ipynb", platform="fake-gpu", **t4),
        submission("08-fast.ipynb", fast=True),
        submission("09-memory.ipynb", errors=[OUT_OF_MEMORY]),
        submission("10-zero.ipynb", errors=[UNKNOWN, OUT_OF_MEMORY], **t4),
        submission("11-other-lesson.ipynb", "08_plan", said={"your_choice": "T4 GPU"}),
        submission("12-words.ipynb", "08_plan", said={"your_choice": "A100 GPU"}),
        *(
            submission(f"20-wrong-{place:02d}.ipynb", answers={id: answer})
            for place, (id, answer) in enumerate(WRONG)
        ),
        changed(cpu, "50-untouched.ipynb", _untouched, ran=False, device="", exercises={}),
        dataclasses.replace(cpu, name="51-copy.ipynb", copy_of=cpu.name),
        changed(
            cpu,
            "52-run-again-later.ipynb",
            lambda n: n["cells"][0].update(source="my notes"),
            copy_of=cpu.name,
        ),
    ]
    again = [
        changed(submission("x"), "53-no-record.ipynb", _without_record, device=""),
        changed(submission("x"), "54-older.ipynb", _older_record),
        changed(submission("x"), "55-schema.ipynb", _record_of(schema=99), device="", problem="not a record"),
        changed(submission("x"), "56-odd.ipynb", _record_of(values=ODD), device="", problem="cannot be read"),
        changed(submission("x"), "57-run.ipynb", _record_of(run=[1]), device="", problem="cannot be read"),
        changed(submission("x", said={"ladder_gains": 7}), "58-moved.ipynb", _moved),
        changed(submission("x"), "59-much.ipynb", _much_output),
        changed(submission("x"), "60-<b>hostile</b>.ipynb", _hostile, device=SCRIPT,
                said={"ladder_gains": SCRIPT}, errors=("",), problem="changed after the run",
                exercises={f"03.{n}": "wrong" for n in
                ("amdahl", "move_less", "hidden_stops", "quick_loop")}),
        submission("61-formula.ipynb", said={"ladder_gains": "=HYPERLINK(\"x\")"}),
    ]  # fmt: skip
    odd = [
        Sample("70-broken.ipynb", '{"cells": [', problem="no readable notebook"),
        Sample("71-list.ipynb", "[1, 2]", problem="no readable notebook"),
        Sample("72-empty.ipynb", "", problem="no readable notebook"),
        Sample("73-deep.ipynb", "[" * 100_000, problem="no readable notebook"),
        Sample("74-other-course.ipynb", json.dumps(_foreign()), problem="no lesson of this course"),
        Sample("75-cells.ipynb", '{"cells": [3, null, {"source": {"a": 1}, "outputs": 7}]}',
             problem="no lesson of this course"),
    ]  # fmt: skip
    return made + again + odd


def _foreign():
    notebook = assemble.build(COURSE, COURSE.lessons[0])
    cells = [copy.deepcopy(dict(cell)) for cell in notebook.cells[:2]]
    return {
        "cells": [
            *cells,
            {"cell_type": "code", "source": "print(1)", "outputs": [], "metadata": {}},
        ]
    }
