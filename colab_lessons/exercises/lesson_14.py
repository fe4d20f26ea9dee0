"""The checks of lesson 14's exercises."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from colab_lessons.exercises.judging import Wrong, close, exercise, field, filled, number

_LIMIT = 0.5  # seconds that a started command may run
_PATIENCE = 8.0  # seconds until a judge gives up


@exercise("14.costs", hint="Hours times dollars an hour.")
def costs(answer: Mapping[str, Any]) -> str:
    """The price of one job on two machines."""
    h100, a100 = (number(field(answer, key)) for key in ("H100", "A100"))
    if not close(h100, 79.8, 0.005):
        raise Wrong("The H100 works for 20 hours, at 3.99 dollars each.")
    if not close(a100, 85.92, 0.005):
        raise Wrong("The A100 works for 48 hours, at 1.79 dollars each.")
    return "The machine that's dearer by the hour is cheaper for the job. Compare dollars a job."


@exercise(
    "14.start", hint="limit.py or timeout in front of the command, and start_new_session=True."
)
def start(answer: Callable) -> str:
    """Whether a command runs in a session of its own, at once, and ends when its time is up."""
    with tempfile.TemporaryDirectory() as folder:
        return _started(answer, Path(folder))


def _started(answer: Callable, folder: Path) -> str:
    code = (
        "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getsid(0)));"
        "[(open(sys.argv[2], 'w').close(), time.sleep(0.05)) for _ in range(100)]"
    )
    session, beat = folder / "session", folder / "beat"
    begun, threads = time.monotonic(), {*threading.enumerate()}
    job = filled(answer([sys.executable, "-c", code, str(session), str(beat)], _LIMIT), "start")
    waited = time.monotonic() - begun
    if not isinstance(job, subprocess.Popen):
        raise Wrong("Return what subprocess.Popen returns.")
    try:
        if waited > _LIMIT:
            raise Wrong("It waits until the command has ended. Return at once.")
        _wait_for(lambda: session.exists() and session.read_text() != "")
        if not session.exists():
            raise Wrong("The command never began.")
        if int(session.read_text()) == os.getsid(0):
            raise Wrong("It has no session of its own: start_new_session=True.")
        if {*threading.enumerate()} - threads:
            raise Wrong("The timer is a thread of this notebook. It would die with it.")
        time.sleep(3 * _LIMIT + 0.5)
        if time.time() - beat.stat().st_mtime < _LIMIT:
            raise Wrong(f"It still runs long after the limit of {_LIMIT} s.")
    finally:
        _end(job)
    return f"A session of its own, and over after about {_LIMIT} s."


def _wait_for(done: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE
    while not done() and time.monotonic() < end:
        time.sleep(0.02)


def _end(job: subprocess.Popen) -> None:
    """Kill what a learner has started, and its children where they have a group of their own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(job.pid) != os.getpgid(0):
            os.killpg(job.pid, signal.SIGKILL)
    job.kill()
    job.wait()


@exercise("14.close", hint="chmod takes three digits: you, your group, everybody else.")
def shut(answer: Callable) -> str:
    """Whether others are kept out of a folder, and its owner isn't."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "data"
        folder.mkdir()
        folder.chmod(0o755)
        (folder / "a.csv").touch()
        (folder / "a.csv").chmod(0o644)
        filled(answer(folder), "close")
        if not folder.exists():
            raise Wrong("The folder is gone.")
        mode = stat.S_IMODE(folder.stat().st_mode)
        if mode & 0o700 != 0o700:
            folder.chmod(0o755)
            raise Wrong("You've locked yourself out: 7 for you, and 0o before the three digits.")
        if not (folder / "a.csv").exists():
            raise Wrong("Something in the folder is gone.")
        if mode & 0o070:
            raise Wrong("Your group can still get in.")
        if mode & 0o007:
            raise Wrong("Others can still get in. Closing files alone doesn't hide later ones.")
    return "Others can't enter the folder, so everything in it is private, even files added later."
