"""A kernel that is killed from outside, in a random cell at a random moment: what does the runner say?

`make test` does it on toy lessons; `make test-kills` twenty times on the lessons themselves.
"""

import os
import random
import shutil
import signal
import threading
import time

import psutil
import pytest

from course import table
from course.__main__ import main
from course.run import execute
from course.write import assemble
from tests import slow
from tests.toy import add_second_lesson

TIMES = int(os.environ.get("KILLS", "0"))
MOMENT = 2.0 if TIMES else 0.05  # seconds from a cell's begin; the kill comes within
HOLD = 0.3  # seconds that a kernel is held before it is killed


class Killer:
    """Kills the kernel of one lesson, `delay` seconds after its cell `cell` has begun."""

    def __init__(self, slug, cell, delay):
        self.slug, self.cell, self.delay = slug, cell, delay
        self.running = self.killed_in = 0

    def watch(self, lesson):
        """Stand where the command shows its progress."""

        def progress(cell, of):
            self.running = cell
            if lesson.slug == self.slug and cell == self.cell and not self.killed_in:
                threading.Thread(target=self._kill, args=(cell,), daemon=True).start()

        return progress

    def _kill(self, cell):
        until = time.perf_counter() + self.delay
        while self.running == cell and time.perf_counter() < until:
            time.sleep(0.001)  # a cell that ends earlier passes the kill on to the next
        children = psutil.Process().children()
        [kernel] = [c for c in children if "ipykernel_launcher" in " ".join(c.cmdline())]
        # Held first: a kernel that has just answered would let the next cell begin.
        kernel.send_signal(signal.SIGSTOP)
        time.sleep(HOLD)
        self.killed_in = self.running
        kernel.send_signal(signal.SIGKILL)


def copy_of_the_course(folder):
    """The lessons' own course, in a folder that no other test writes to."""
    for name in ("lessons", "course/course.toml", "pyproject.toml"):
        source, target = table.ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    return table.load(folder)


def reported(course, lesson, cell):
    """How the runner names the cell that is number `cell` where papermill has added the parameters."""
    notebook = assemble.build(course, lesson)
    return execute.describe_cell(notebook, cell - 2)


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
@pytest.mark.parametrize("seed", range(TIMES) or slow.after(1, range(3)))
@pytest.mark.timeout(600)
def test_the_killed_cell_is_named_and_the_other_lesson_is_kept(
    seed, toy_course, tmp_path, monkeypatch, capsys
):
    course = copy_of_the_course(tmp_path) if TIMES else add_second_lesson(toy_course)
    monkeypatch.setattr("course.__main__.load", lambda: table.load(course.root))
    chance = random.Random(seed)
    victim, other = chance.sample(course.lessons, 2)
    code = [i for i, c in enumerate(assemble.build(course, victim).cells) if c.cell_type == "code"]
    # Not the last one, which may be over before the kill.
    killer = Killer(victim.slug, chance.choice(code[3:-1]) + 1, chance.uniform(0, MOMENT))
    monkeypatch.setattr("course.run.lessons._progress", killer.watch)

    exit_code = main(["run", victim.slug, other.slug, "-p", "FAST=true"])

    told = capsys.readouterr().out
    where = reported(course, victim, killer.killed_in)
    print(f"seed {seed}: killed {victim.slug} in {where}; kept {other.slug}; exit code {exit_code}")
    assert killer.killed_in, "nothing was killed"
    assert exit_code == 1
    assert f"{victim.slug}: the kernel died in {where}: killed, or out of memory" in told
    assert f"{other.slug}: ok" in told
    page = (course.root / "build" / "course" / "report.html").read_text("utf-8")
    assert "1 of 2 lessons ran to their end" in page and "the kernel died in" in page
    kept = execute.Outcome(other.slug, course.root / f"build/course/{other.slug}.ipynb", 0.0)
    assert any(record["kind"] == "record" for record in execute.records(kept.notebook))
