"""Running a lesson, and reading what it said.

Runs notebooks headless through papermill. A lesson that fails does not stop the others; a cell that
raises, a killed kernel, a hang and an unknown parameter each become one line, and what the lesson
had put out until then is kept.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat
import papermill
from jupyter_client import AsyncKernelManager
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbconvert.filters import strip_ansi
from nbformat import NotebookNode
from papermill.engines import NBClientEngine, papermill_engines
from papermill.exceptions import PapermillExecutionError

from colab_helpers import _atomic_files
from colab_helpers._rich_display import RECORD_MIME
from colab_lessons import recorded_outputs

CELL_TIMEOUT = 600  # seconds a cell
START_TIMEOUT = 120  # seconds until a kernel answers
MAX_SOCKET_FOLDER = 90  # bytes; an address has 107 at most, on macOS 103
ENGINE = "course"

#: For runs that only check: torch.compile trusts the CPU and precompiles no headers. It saves 15 s.
QUICK_COMPILE = {"TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0", "TORCHINDUCTOR_VEC_ISA_OK": "1"}

logging.getLogger("papermill").setLevel(logging.ERROR)


def _is_news(record: logging.LogRecord) -> bool:
    # nbclient watches its kernel in a task: after Ctrl-C its exception is never retrieved.
    return not (record.exc_info and isinstance(record.exc_info[1], DeadKernelError))


logging.getLogger("asyncio").addFilter(_is_news)

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Settings:
    """How to run: lesson parameters, extra environment, seconds a cell, the folder to stand in.

    `kernel` names another kernel than this environment's own, found through JUPYTER_PATH.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    cell_timeout: int = CELL_TIMEOUT
    folder: Path | None = None
    kernel: str = "python3"


@dataclass(frozen=True)
class Outcome:
    """What became of one run. `problem` is one line, or "" when every cell ran."""

    name: str
    path: Path
    seconds: float
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether every cell ran to its end."""
        return not self.problem

    @property
    def notebook(self) -> NotebookNode:
        """The executed notebook, as far as it got; an empty one where nothing could be written."""
        try:
            return nbformat.read(self.path, as_version=4)
        except Exception:  # whatever a full disk or a kill has left
            return nbformat.v4.new_notebook()


def run(
    source: Path, target: Path, settings: Settings | None = None, progress: Progress | None = None
) -> Outcome:
    """Run the notebook `source` and write it, with outputs, to `target`.

    A lesson never raises. Ctrl-C does; what was put out until then is in `target`.
    """
    settings = settings or Settings()
    watch = _Watch(progress)
    start = time.perf_counter()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        problem = _unknown_parameters(source, settings)
        if problem:
            _atomic_files.write(target, source.read_text("utf-8"))
        else:
            problem = _run_watched(source, target, settings, watch)
    except OSError as error:
        problem = f"{watch.where}: {target} could not be written: {error.strerror or error}"
    return Outcome(source.stem, target, time.perf_counter() - start, problem)


def packages(
    environment: Mapping[str, str] | None = None, python: str = sys.executable
) -> dict[str, str]:
    """Return name and version of every distribution that a kernel of `python` would see."""
    code = (
        "import importlib.metadata as m, json; "
        "print(json.dumps({d.name: d.version for d in m.distributions() if d.name}))"
    )
    done = subprocess.run(
        [python, "-c", code],
        env={**os.environ, **(environment or {})},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def changed_packages(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Name what a run installed, removed or changed.

    >>> changed_packages({"a": "1", "b": "1"}, {"a": "2", "c": "1"})
    ['a 1 became 2', 'b 1 was removed', 'c 1 was installed']
    """
    found = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old and new and old != new:
            found.append(f"{name} {old} became {new}")
        elif old and not new:
            found.append(f"{name} {old} was removed")
        elif new and not old:
            found.append(f"{name} {new} was installed")
    return found


def records(notebook: NotebookNode) -> list[dict]:
    """Return what the cells of an executed notebook handed to machines, in order."""
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", []))
    return [o["data"][RECORD_MIME] for o in outputs if RECORD_MIME in o.get("data", {})]


def stderr(notebook: NotebookNode) -> list[tuple[int, str]]:
    """Return (cell index, text) for everything that cells wrote to stderr: warnings and chatter."""
    return [
        (index, output.text)
        for index, cell in enumerate(notebook.cells)
        for output in cell.get("outputs", [])
        if output.output_type == "stream" and output.name == "stderr"
    ]


def describe_cell(notebook: NotebookNode, index: int) -> str:
    """Say which cell is meant: its number and its first line.

    >>> describe_cell(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x = 1")]), 0)
    'cell 1 (x = 1)'
    """
    if "injected-parameters" in notebook.cells[index].metadata.get("tags", []):
        return "the cell with this run's parameters"
    lines = notebook.cells[index].source.strip().splitlines()
    first = [line for line in lines if not recorded_outputs.needs(line)] or [""]
    injected = sum(
        "injected-parameters" in c.metadata.get("tags", []) for c in notebook.cells[:index]
    )
    return f"cell {index + 1 - injected} ({first[0][:60]})"


class _Watch:
    """Tracks which cell is running, to name it when the kernel dies."""

    def __init__(self, progress: Progress | None):
        self.progress = progress
        self.manager: Any = None
        self.where = "before the first cell"

    def attach(self, manager: Any) -> None:
        """Hook into papermill's execution manager, to learn when each cell starts."""
        self.manager = manager
        start = manager.cell_start

        def cell_start(cell: NotebookNode, cell_index: int, **rest: Any) -> None:
            # Now, because papermill puts a cell of its own above one that failed.
            self.where = describe_cell(manager.nb, cell_index)
            if self.progress:
                self.progress(cell_index + 1, len(manager.nb.cells))
            start(cell, cell_index, **rest)

        manager.cell_start = cell_start

    def save(self, target: Path) -> None:
        """Keep what was put out until the run ended."""
        if self.manager is not None:
            _atomic_files.write(target, nbformat.writes(self.manager.nb))


class _LocalKernelManager(AsyncKernelManager):
    """Uses Unix sockets: kernels that start at once could take each other's TCP ports."""

    sockets = ""  # the folder for them; each run makes a class of its own with its folder
    stderr_file: Any = None  # the file for what a kernel itself, not a cell, writes to stderr

    def __init__(self, **options: Any):
        super().__init__(**options)
        if self.sockets:
            self.transport = "ipc"
            self.ip = str(Path(self.sockets) / "ipc")  # not in the notebook's own folder

    async def _async_launch_kernel(self, kernel_cmd: list[str], **options: Any) -> None:
        # In a terminal it would stand among the progress, as a traceback of a kernel that is stopped.
        await super()._async_launch_kernel(kernel_cmd, **{"stderr": self.stderr_file, **options})


class _WatchedEngine(NBClientEngine):
    """papermill's own engine, with somebody watching."""

    @classmethod
    def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, watch: _Watch, **rest: Any):
        watch.attach(nb_man)
        return super().execute_managed_notebook(nb_man, kernel_name, **rest)


papermill_engines.register(ENGINE, _WatchedEngine)


def _run_watched(source: Path, target: Path, settings: Settings, watch: _Watch) -> str:
    try:
        with (
            mock.patch.dict(os.environ, PYDEVD_DISABLE_FILE_VALIDATION="1", **settings.environment),
            _socket_folder() as sockets,
            tempfile.TemporaryFile() as stderr_file,
        ):
            own = {"sockets": sockets, "stderr_file": stderr_file}
            manager = type("Manager", (_LocalKernelManager,), own)
            papermill.execute_notebook(
                source, target,
                parameters=dict(settings.parameters),
                engine_name=ENGINE, kernel_name=settings.kernel,
                progress_bar=False, request_save_on_cell_execute=False, autosave_cell_every=0,
                start_timeout=START_TIMEOUT, execution_timeout=settings.cell_timeout,
                cwd=settings.folder or target.parent, watch=watch, kernel_manager_class=manager,
            )  # fmt: skip
    except PapermillExecutionError as error:
        return f"{watch.where} raised {error.ename}: {first_line(error.evalue)}"
    except DeadKernelError:
        watch.save(target)
        return f"the kernel died in {watch.where}: killed, or out of memory"
    except CellTimeoutError:
        watch.save(target)
        return f"{watch.where} ran longer than {settings.cell_timeout} s and was stopped"
    except KeyboardInterrupt:
        watch.save(target)
        raise
    except RuntimeError as error:  # the kernel never answered
        watch.save(target)
        return f"no kernel {watch.where}: {first_line(str(error))}"
    return ""


@contextlib.contextmanager
def _socket_folder() -> Iterator[str]:
    """A folder whose sockets have short enough addresses; "" where there is none, for ports."""
    for place in (None, "/tmp"):
        if sys.platform == "win32" or (place and not os.access(place, os.W_OK)):
            continue
        with tempfile.TemporaryDirectory(prefix="kernel-", dir=place) as folder:
            if len(os.fsencode(folder)) <= MAX_SOCKET_FOLDER:
                yield folder
                return
    yield ""


def _unknown_parameters(source: Path, settings: Settings) -> str:
    # papermill itself only logs an unknown name, and runs on without it.
    if not settings.parameters:
        return ""
    with contextlib.redirect_stdout(None):
        known = papermill.inspect_notebook(source)
    unknown = [name for name in settings.parameters if name not in known]
    if not unknown:
        return ""
    return (
        f"no parameter {', '.join(unknown)}; the parameters cell has {', '.join(known) or 'none'}"
    )


def first_line(text: str) -> str:
    """Return the first line of a message, without colors; "no message" for none."""
    plain = strip_ansi(text).strip()
    return plain.splitlines()[0][:200] if plain else "no message"
