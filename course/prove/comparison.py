"""Does a lesson still show what is stored? nbval compares the cells that are tagged for it.

Only this module and `repeated` know nbval: another tool would take its place here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from course.run import execute


def compare_stored_outputs(
    path: Path, environment: dict[str, str] | None = None, limit: int = 120
) -> list[str]:
    """Run a stored notebook with nbval and compare the outputs of cells tagged for it.

    Only these functions know nbval: another tool would take its place here.
    """
    fast = {**os.environ, "FAST": "1", **execute.QUICK_COMPILE}
    for _ in range(3):
        cases, printed = _run_nbval(path, fast | (environment or {}), limit)
        if _PORT_TAKEN not in printed:
            break
    return _nbval_problems(path, cases, printed)


def compare_with_run(path: Path, executed: Path) -> list[str]:
    """Compare a stored notebook, by nbval's rules, with a run that was made already."""
    environment = {**os.environ, "COURSE_EXECUTED": str(executed)}
    return _nbval_problems(path, *_run_nbval(path, environment, 120, "-p", "course.prove.repeated"))


def _nbval_problems(path: Path, cases: list[ElementTree.Element], printed: str) -> list[str]:
    if not cases:
        return [f"{path.name}: nbval ran no cell: {printed[-300:]}"]
    failed = [(case, node) for case in cases if (node := _failure(case)) is not None]
    return [f"{path.name}: {case.get('name')}: {_reason(node)}" for case, node in failed]


#: nbval lets the kernel choose ports, and two that start at once may choose the same.
_PORT_TAKEN = "Kernel died before replying to kernel_info"


def _run_nbval(
    path: Path, environment: dict[str, str], limit: int, *more: str
) -> tuple[list[ElementTree.Element], str]:
    """Return a test case for every cell, and what pytest printed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            sys.executable, "-m", "pytest", str(path), "-q", "--nbval-lax", "--nbval-current-env",
            f"--nbval-cell-timeout={limit}", "--nbval-kernel-startup-timeout=120",
            f"--rootdir={path.parent}", "-c", os.devnull, f"--junitxml={report}",
            "-p", "no:cacheprovider", "-p", "nbval.plugin", *more,
        ]  # fmt: skip
        alone = environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # the others only take time
        done = subprocess.run(command, env=alone, capture_output=True, text=True, cwd=path.parent)
        cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    return cases, done.stdout + done.stderr


def _failure(case: ElementTree.Element) -> ElementTree.Element | None:
    return next((node for node in case if node.tag in ("failure", "error")), None)


def _reason(node: ElementTree.Element) -> str:
    text = re.sub(r"\x1b\[[0-9;]*m|#x1B\[[0-9;]*m", "", f"{node.get('message')} {node.text}")
    return "a stored output differs: " + " ".join(text.split())[:300]
