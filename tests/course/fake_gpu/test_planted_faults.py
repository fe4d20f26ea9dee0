"""Faults planted in a copy of the helper: lesson 06, as a T4, breaks the promise that guards against each.

`make test-fake GPU` runs it; it takes a minute and a half.
"""

import os
import shutil
from pathlib import Path

import pytest

import colab_helpers
from course import fake_gpu
from course.check import assertions
from course.run import execute
from course.table import load
from course.write import assemble

REHEARSAL = '    device = next((p.device for p in model.parameters()), torch.device("cpu"))\n'
#: name -> (file, what stands there, what stands there instead, the promises that break; "" for none)
FAULTS = {
    "none": ("memory/cuda.py", "meter.keep()", "meter.keep()", ""),
    "a leak in footprint": (
        "memory/footprint.py",
        REHEARSAL,
        f"{REHEARSAL}    vars(nn).setdefault('kept', []).append(torch.zeros(10**6, device=device))\n",
        "rehearsal_left",
    ),
    "whole blocks counted": (
        "memory/cuda.py",
        'kind = "requested" if stats.get("requested_bytes.all.allocated") else "allocated"',
        'kind = "allocated"',
        "peak_off bytes_a_parameter",
    ),
    "peak read late": ("memory/cuda.py", "meter.keep()", "pass", "kept_between"),
}


@pytest.mark.skipif("FAULTS" not in os.environ, reason="make test-fake GPU")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_breaks_its_promise(name, tmp_path):
    file, old, new, guards = FAULTS[name]
    helper = shutil.copytree(
        Path(colab_helpers.__file__).parent, tmp_path / "site" / "colab_helpers"
    )
    text = (helper / file).read_text("utf-8")
    assert text.count(old) == 1
    (helper / file).write_text(text.replace(old, new), "utf-8")
    course = load()
    [lesson] = course.select(["06"])
    source = tmp_path / "06.ipynb"
    source.write_text(assemble.dumps(assemble.build(course, lesson)), "utf-8")
    environment = fake_gpu.environment("T4", tmp_path)
    environment["PYTHONPATH"] = f"{tmp_path / 'site'}{os.pathsep}{environment['PYTHONPATH']}"
    settings = execute.Settings({"FAST": True}, {**execute.QUICK_COMPILE, **environment}, 200)
    outcome = execute.run(source, tmp_path / "out" / source.name, settings)
    assert outcome.ok, outcome.problem
    broken = assertions.broken_in(execute.records(outcome.notebook))
    assert [text.split(": ")[1].split()[0] for text in broken] == guards.split()
