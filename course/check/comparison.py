"""A stored notebook against a run of today: nbval compares the cells that are tagged for it.

Only this module knows nbval: another tool would take its place here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from course.run import execute

#: nbval lets the kernel choose ports, and two that start at once may choose the same.
_PORT_TAKEN = "Kernel died before replying to kernel_info"


def compare_stored_outputs(
    path: Path, environment: Mapping[str, str] | None = None, limit: int = 400
) -> list[str]:
    """Run the stored notebook `path` with FAST; say which tagged cells no longer show what is stored.

    `environment` is added to this process's; `limit` is in seconds a cell.
    """
    variables = {**os.environ, "FAST": "1", **execute.QUICK_COMPILE, **(environment or {})}
    variables["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # other plugins only take time
    for _ in range(3):
        cases, printed = _run_nbval(path, variables, limit)
        if _PORT_TAKEN not in printed:
            break
    if not cases:
        return [f"{path.name}: nbval ran no cell: {printed[-300:]}"]
    failed = [(case, node) for case in cases for node in case if node.tag in ("failure", "error")]
    return [f"{path.name}: {case.get('name')}: {_reason(node)}" for case, node in failed]


def _run_nbval(
    path: Path, variables: Mapping[str, str], limit: int
) -> tuple[list[ElementTree.Element], str]:
    """Return a test case for every cell, and what pytest printed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            sys.executable, "-m", "pytest", str(path), "-q", "-p", "nbval.plugin", "--nbval-lax",
            "--nbval-current-env", f"--nbval-cell-timeout={limit}", "--nbval-kernel-startup-timeout=120",
            f"--rootdir={path.parent}", "-c", os.devnull, f"--junitxml={report}", "-p", "no:cacheprovider",
        ]  # fmt: skip
        done = subprocess.run(command, env=variables, capture_output=True, text=True, cwd=folder)
        cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    return cases, done.stdout + done.stderr


def _reason(node: ElementTree.Element) -> str:
    text = re.sub(r"\x1b\[[0-9;]*m|#x1B\[[0-9;]*m", "", f"{node.get('message')} {node.text}")
    return "a stored output differs: " + " ".join(text.split())[:300]
