"""A pytest plugin: nbval's comparison against a run that has been made already.

nbval starts a kernel and runs a notebook again. With this plugin (`-p course.prove.repeated`) its kernel
repeats what each cell put out in the executed notebook that COURSE_EXECUTED names. nbval's own rules
decide what is equal; nothing runs twice.
"""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import Any

import nbformat

_KEYS = {
    "stream": ("name", "text"),
    "error": ("ename", "evalue", "traceback"),
    "display_data": ("data", "metadata"),
    "execute_result": ("data", "metadata", "execution_count"),
}


class RepeatedKernel:
    """As much of nbval's kernel as it uses. A cell that the run did not have raises `LookupError`."""

    def __init__(self, kernel_name: str, cwd: str | None = None, startup_timeout: int = 60):
        executed = nbformat.read(Path(os.environ["COURSE_EXECUTED"]), as_version=4)
        self._runs: dict[str, deque] = {}
        for cell in executed.cells:
            if cell.cell_type == "code":
                self._runs.setdefault(cell.source, deque()).append(cell.outputs)
        self._messages: deque[dict] = deque()
        self._count = 0

    def execute_cell_input(self, source: str, allow_stdin: bool | None = None) -> str:
        """Put the recorded outputs of a cell in the queue, and return the message's id."""
        if not self._runs.get(source):
            raise LookupError(f"the run had no such cell: {source.strip().splitlines()[0][:80]}")
        self._count += 1
        parent = str(self._count)
        outputs = self._runs[source].popleft()
        self._messages.extend(_message(parent, output) for output in outputs)
        idle = {"execution_state": "idle"}
        self._messages.append(
            {"msg_type": "status", "content": idle, "parent_header": {"msg_id": parent}}
        )
        return parent

    def get_message(self, stream: str, timeout: float | None = None) -> dict:
        """Return the next recorded message."""
        return self._messages.popleft()

    def await_reply(self, msg_id: str, timeout: float | None = None) -> None:
        """Nothing to wait for."""

    def await_idle(self, parent_id: str, timeout: float) -> None:
        """Skip to the end of a cell."""
        while self._messages and self._messages.popleft()["msg_type"] != "status":
            pass

    def is_alive(self) -> bool:
        """Always: there is no process."""
        return True

    def stop(self) -> None:
        """Nothing to stop."""


def _message(parent: str, output: dict) -> dict:
    kind = output["output_type"]
    content: dict[str, Any] = {key: output[key] for key in _KEYS[kind]}
    return {"msg_type": kind, "content": content, "parent_header": {"msg_id": parent}}


def pytest_configure(config: Any) -> None:
    """Give nbval this kernel."""
    import nbval.plugin

    nbval.plugin.RunningKernel = RepeatedKernel
