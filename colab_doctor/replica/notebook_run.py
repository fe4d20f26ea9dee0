"""One notebook, run in a replica as on Colab: from the top, in a folder with nothing else in it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colab_doctor import explain_error
from colab_doctor.replica.environment import KERNEL, Replica

#: Run in the replica: the notebook, where to write it, the folder that cells see, seconds for a cell.
_EXECUTE = f"""
import sys, nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

source, target, folder, seconds = sys.argv[1:]
notebook = nbformat.read(source, 4)
for cell in notebook.cells:
    if cell.cell_type == "code":
        cell.update(outputs=[], execution_count=None)
place = {{"metadata": {{"path": folder}}}}
client = NotebookClient(notebook, kernel_name="{KERNEL}", timeout=int(seconds), resources=place)
try:
    client.execute()
except (CellTimeoutError, DeadKernelError) as error:
    print(type(error).__name__)
except CellExecutionError:
    pass  # the cell says it
finally:
    with open(target, "w", encoding="utf-8") as file:
        file.write(nbformat.writes(notebook))
"""
#: What the replica lacks and Colab has, by what an error says.
_ONLY_THERE = {
    r"google\.colab": "Only Colab's page can answer that; on Colab this cell may well run.",
    r"FileNotFoundError|No such file": (
        "Colab opens a notebook without the files beside it. Download them in a cell, or try --with-files."
    ),
    r"(?i)cuda|nvidia": "This is Colab's CPU runtime; on its GPU runtimes this cell may well run.",
}


@dataclass(frozen=True)
class NotebookRun:
    """How it went: seconds, and where it stopped. `cell` counts from 1, and is 0 where all ran."""

    seconds: float
    cells: int
    cell: int = 0
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether every cell ran."""
        return not self.cell

    def __str__(self) -> str:
        if self.ok:
            return f"runs: {self.cells} cells, {self.seconds:.0f} s"
        where = f"in cell {self.cell} of {self.cells}" if self.cells else "before its first cell"
        lines = [f"stops {where}, after {self.seconds:.0f} s", f"    {self.error}"]
        known = explain_error(self.error)
        lines += (
            [f"    {line}" for line in str(known).splitlines() if line.strip()] if known else []
        )
        lines += [f"    {why}" for sign, why in _ONLY_THERE.items() if re.search(sign, self.error)]
        return "\n".join(lines)


def run(
    replica: Replica, notebook: Path, out: Path, seconds: int, with_files: bool = False
) -> NotebookRun:
    """Run the cells of `notebook` in `replica` until one fails, and write what they gave to `out`.

    `seconds` is what a cell may take; `with_files` copies what lies beside the notebook.
    """
    start = time.perf_counter()
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="content-") as content:
        if with_files:
            shutil.copytree(notebook.parent, content, dirs_exist_ok=True)
        command = [str(replica.python), "-c", _EXECUTE, str(notebook.resolve()), str(out.resolve())]
        done = subprocess.run(
            [*command, content, str(seconds)],
            capture_output=True, text=True, cwd=content, env=replica.environment,
        )  # fmt: skip
    took = time.perf_counter() - start
    if done.returncode:
        said = done.stderr.strip() or "What runs the notebook was killed."
        return NotebookRun(took, 0, 1, said.splitlines()[-1])
    return _judged(json.loads(out.read_text("utf-8")), took, done.stdout.strip(), seconds)


def _judged(notebook: Mapping[str, Any], took: float, ended: str, seconds: int) -> NotebookRun:
    """How a run went. Cells are numbered as `colab-doctor --notebook` does, text cells included."""
    numbered = [(n, c) for n, c in enumerate(notebook["cells"], 1) if c["cell_type"] == "code"]
    if ended:
        error = "The kernel died, most likely because memory ran out."
        if ended == "CellTimeoutError":
            error = f"It didn't end within {seconds} s; --seconds gives a cell more."
        begun = [number for number, cell in numbered if cell["execution_count"]]
        return NotebookRun(took, len(notebook["cells"]), begun[-1] if begun else 1, error)
    for number, cell in numbered:
        for output in cell["outputs"]:
            if output["output_type"] == "error":
                error = f"{output['ename']}: {output['evalue']}"
                return NotebookRun(took, len(notebook["cells"]), number, error)
    return NotebookRun(took, len(numbered))
