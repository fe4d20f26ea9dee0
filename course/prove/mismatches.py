"""Does the doctor name the two packages that do not go together, and does its way out help?

Each row of the table is an environment made for it, in which one line of code fails. The doctor is asked
there, where the error happens, and its cards are followed, one `%pip` line after the other, until it runs.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path

from colab_helpers import _files
from colab_helpers.doctor.imports import normal
from course.table import CourseError

ROOT = Path(__file__).parents[2]
_DATA = ROOT / "tests" / "colab_helpers" / "doctor"
#: The table, and what came out when it was last run.
ROWS, OUTCOMES = _DATA / "mismatches.toml", _DATA / "mismatches.json"
MOST_STEPS = 8  # cards that are followed
_MOST_SECONDS = 300
_COMMAND = re.compile(r"`%pip install ([^`]+)`")
_PIP = [sys.executable, "-m", "pip"]

#: Run in the environment: the code, and if it fails, what the doctor says where it fails.
_ASK = """
import json, sys
sys.path.append(sys.argv[1])
try:
    exec(compile(sys.argv[2], "<ipython-input-1>", "exec"), {"__name__": "__main__"})
    said = None
except Exception as error:
    from colab_helpers import doctor
    told = doctor.explain_error(error, "colab")
    table = doctor.explain_error(f"{type(error).__name__}: {error}", "colab")
    findings = [told.finding, told.also] if told else []
    said = {"error": f"{type(error).__name__}: {error}"[:300], "table": table.id,
            "card": [[each.seen, each.remedy] for each in (*told.clues, *findings) if each]}
print("SAID" + json.dumps(said))
"""


@dataclass(frozen=True)
class Mismatch:
    """One environment: what is installed, `over` it without asking others, and the `code` that fails then.

    `asker` asks `provider` for what that does not have. `unseen`: chosen by somebody who had not seen the
    doctor's rules, after they were written.
    """

    name: str
    install: tuple[str, ...]
    over: tuple[str, ...]
    code: str
    asker: str
    provider: str
    unseen: bool = False


@dataclass(frozen=True)
class Outcome:
    """What came of one: the error, the table's answer to its text alone, and the card where it was raised.

    `named`: what it says first names both packages. `steps`: the `%pip` lines that were run until the code
    ran, as the cards said; `mended`: it did. `at_first`: the same three of an unseen row's first run, before
    anybody could learn from it.
    """

    name: str
    unseen: bool
    day: str
    error: str
    table: str
    seen: str
    named: bool
    mended: bool
    steps: list[str] = field(default_factory=list)
    at_first: dict | None = None


class NotMadeError(CourseError):
    """An environment cannot be made, or its code does not fail any more: what was seen."""


def rows(path: Path = ROWS) -> tuple[Mismatch, ...]:
    """Return the table's rows, in its order."""
    table = tomllib.loads(path.read_text("utf-8"))["mismatch"]
    return tuple(
        Mismatch(**{**row, "install": tuple(row["install"]), "over": tuple(row["over"])})
        for row in table
    )


def follow(names: Sequence[str], folder: Path, jobs: int = 2) -> int:
    """Judge the rows of these names, all without one, print and keep what came out; 1 if one cannot be made.

    `folder` is where the environments go.
    """
    known_rows = {row.name: row for row in rows()}
    if unknown := set(names) - set(known_rows):
        raise CourseError(f"No row {unknown}. There are: {', '.join(known_rows)}.")
    outcomes, failed = [], []
    for outcome in judge_all([known_rows[name] for name in names or known_rows], folder, jobs):
        if isinstance(outcome, str):
            failed.append(outcome)
            print(outcome, flush=True)
            continue
        outcomes.append(outcome)
        pair = "names both" if outcome.named else "DOES NOT NAME BOTH"
        ends = f"mended in {len(outcome.steps)}" if outcome.mended else "NOT MENDED"
        print(f"{outcome.name}: {pair}, {ends}: {outcome.seen or outcome.error}", flush=True)
    print(f"Kept in {keep(outcomes).relative_to(ROOT)}; then `make build`.")
    return 1 if failed else 0


def judge_all(chosen: Sequence[Mismatch], folder: Path, jobs: int = 2) -> Iterator[Outcome | str]:
    """Yield the outcome of each, or in words why there is none."""

    def one(row: Mismatch) -> Outcome | str:
        try:
            return judge(row, folder / row.name)
        except (NotMadeError, subprocess.TimeoutExpired) as error:
            return f"{row.name}: {error}"
        finally:
            shutil.rmtree(folder / row.name, ignore_errors=True)  # a hundred of them fill a disk

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(one, chosen)


def judge(row: Mismatch, folder: Path) -> Outcome:
    """Make the environment of a row in `folder`, ask there, and do as the cards say."""
    python = _make(row, folder)
    said = _ask(python, row.code)
    if said is None:
        raise NotMadeError("its code runs: nothing fails there any more.")
    first, seen, steps = said, _seen(said), list[str]()
    while said is not None and len(steps) < MOST_STEPS:
        command = next((each for each in _commands(said) if each not in steps), None)
        if command is None:
            break
        steps.append(command)
        _pip(python, [word.strip("\"'") for word in command.split()])
        said = _ask(python, row.code)
    return Outcome(
        name=row.name,
        unseen=row.unseen,
        day=date.today().isoformat(),
        error=first["error"],
        table=first["table"],
        seen=seen,
        named=all(re.search(rf"\b{re.escape(normal(each))}\b", normal(seen)) for each in
                  (row.asker, row.provider)),
        mended=said is None,
        steps=steps,
    )  # fmt: skip


def keep(outcomes: Sequence[Outcome]) -> Path:
    """Write outcomes beside those of other rows that were kept, and return the file."""
    kept = {outcome.name: outcome for outcome in known()}
    kept |= {
        outcome.name: _beside_the_first(outcome, kept.get(outcome.name)) for outcome in outcomes
    }
    order = [row.name for row in rows()]
    told = [asdict(kept[name]) for name in order if name in kept]
    return _files.write(OUTCOMES, json.dumps(told, indent=1, ensure_ascii=False) + "\n")


def _beside_the_first(outcome: Outcome, before: Outcome | None) -> Outcome:
    """An outcome with what came out of its row's first run, if that was unseen."""
    if not outcome.unseen or before is None:
        return outcome
    first = before.at_first or {
        name: getattr(before, name) for name in ("named", "mended", "steps")
    }
    return replace(outcome, at_first=first)


def known() -> tuple[Outcome, ...]:
    """Return the outcomes that were kept."""
    if not OUTCOMES.exists():
        return ()
    return tuple(Outcome(**row) for row in json.loads(OUTCOMES.read_text("utf-8")))


def _make(row: Mismatch, folder: Path) -> Path:
    venv.create(folder, clear=True, with_pip=False)
    python = folder / "bin" / "python"
    for words in ([*row.install, "packaging"], ["--no-deps", *row.over]):
        done = _pip(python, words)
        if done.returncode:
            raise NotMadeError(f"pip install {' '.join(words)}: {done.stderr.strip()[-300:]}")
    return python


def _pip(python: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    command = [*_PIP, "--python", str(python), "install", "-q", "--prefer-binary", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=_MOST_SECONDS)


def _ask(python: Path, code: str) -> dict | None:
    done = subprocess.run(
        [str(python), "-W", "ignore", "-c", _ASK, str(ROOT), code],
        capture_output=True, text=True, timeout=_MOST_SECONDS, cwd=python.parent,
    )  # fmt: skip
    if "SAID" not in done.stdout:
        raise NotMadeError(f"Python ended: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout.rpartition("SAID")[2])


def _seen(said: dict) -> str:
    """What the card says first."""
    return next((seen for seen, _ in said["card"]), "")


def _commands(said: dict) -> list[str]:
    found = [command for _, remedy in said["card"] for command in _COMMAND.findall(remedy)]
    return [command for command in found if "PACKAGE" not in command]  # the reader's to fill in
