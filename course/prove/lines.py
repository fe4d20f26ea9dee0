"""Which lines of the lessons ran, and which run only where there is an accelerator?

A kernel that is watched writes what it ran. Counted are statements, and both ends of a conditional
expression that asks for a device (`a if device.type == "cuda" else b`), by the place where they begin.
"""

from __future__ import annotations

import ast
import atexit
import builtins
import json
import os
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from colab_helpers import _files
from colab_helpers.lessons import replay
from course.run.after_import import after_import

_DEVICE = re.compile(r"\b(device|chip|gpus?|on_gpu|cuda)\b")
APART = "# runs in a process of its own"  # the first line of a cell
ENOUGH = 0.95  # of the lines that need an accelerator have to run under a stand-in


@dataclass(frozen=True, order=True)
class Line:
    """A statement, or an end of a conditional expression: its lesson, its place in the cell, its text."""

    path: str
    place: tuple[int, int]
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


def watch(folder: str) -> None:
    """Write the lines of cells that this process runs into `folder` when it ends."""
    after_import({"IPython.core.interactiveshell": lambda module: _watch_shells(module, folder)})


def _watch_shells(module: ModuleType, folder: str) -> None:
    """Mark each statement of each cell that an IPython shell is given, and keep the marks that are passed."""
    begin = module.InteractiveShell.__init__
    told: dict[str, set[tuple[int, int]]] = {}

    def start(shell: Any, *args: Any, **kwargs: Any) -> None:
        begin(shell, *args, **kwargs)
        marker = _Marker(told)
        shell.events.register("pre_run_cell", lambda info: marker.begin(info.raw_cell))
        shell.ast_transformers.append(marker)

    module.InteractiveShell.__init__ = start
    process = os.getpid()

    def write() -> None:
        if os.getpid() == process and told:  # not in a fork, such as a DataLoader's worker
            cells = [{"source": source, "places": sorted(found)} for source, found in told.items()]
            _files.write(Path(folder, f"{process}.json"), json.dumps(cells))

    atexit.register(write)


class _Marker(ast.NodeTransformer):
    """Puts before each statement a call that keeps its line: `set.add`, so that compilers see through it."""

    def __init__(self, told: dict[str, set[tuple[int, int]]]):
        self.told = told
        self.name = ""

    def begin(self, source: str) -> None:
        """Take up a new cell."""
        found = self.told.setdefault(source.strip(), set())
        self.name = f"_ran_{len(self.told)}"
        setattr(builtins, self.name, found.add)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Mark both ends: a mark is None, so `mark or end` is the end."""
        super().generic_visit(node)
        for part in ("body", "orelse"):
            end = getattr(node, part)
            both = ast.BoolOp(ast.Or(), [self._mark(end, _place(end)), end])
            setattr(node, part, ast.copy_location(both, end))
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Mark the statements of each block."""
        super().generic_visit(node)
        for part in ("body", "orelse", "finalbody"):
            block = getattr(node, part, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                setattr(node, part, [new for old in block for new in self._marked(old)])
        return node

    def _marked(self, statement: ast.stmt) -> list[ast.stmt]:
        if _is_bare(statement):  # a docstring has to stay the first, and a stub alone
            return [statement]
        mark = ast.Expr(self._mark(statement, _place(statement)))
        return [ast.copy_location(mark, statement), statement]

    def _mark(self, node: ast.AST, place: tuple[int, int]) -> ast.expr:
        """A call that keeps a place."""
        call = ast.parse(f"{self.name}({place})", mode="eval").body
        for inner in ast.walk(call):
            if hasattr(inner, "lineno"):
                ast.copy_location(inner, node)
        return call


def _place(node: Any) -> tuple[int, int]:
    return node.lineno, node.col_offset


def places(source: str) -> dict[tuple[int, int], str]:
    """Return where each statement of a cell begins, and each end of a conditional expression, with its text.

    Left out is what needs no accelerator to run, but something else: docstrings, stubs (`...`), and what
    stands in an `except` block.
    """
    tree = ast.parse(source)
    left_out: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            left_out |= {inner for child in node.body for inner in ast.walk(child)}
        elif _is_bare(node):
            left_out.add(node)
    nodes = [n for n in ast.walk(tree) if n not in left_out]
    found: list[Any] = [n for n in nodes if isinstance(n, ast.stmt)]
    lines = source.splitlines()
    questions = [
        n
        for n in nodes
        if isinstance(n, ast.IfExp)
        and _DEVICE.search(ast.unparse(n.test))
        and "FAST" not in lines[n.lineno - 1]  # its other end waits for full size
    ]
    found += [end for n in questions for end in (n.body, n.orelse)]
    return {_place(node): _text(source, node) for node in found}


def _text(source: str, node: ast.AST) -> str:
    """The first line of a node, with its own line around it where it is a part of one."""
    whole = source.splitlines()[node.lineno - 1].strip()  # type: ignore[attr-defined]
    part = (ast.get_source_segment(source, node) or "").splitlines()[0]
    return whole if isinstance(node, ast.stmt) else f"{part}   in: {whole}"


def _is_bare(node: ast.AST) -> bool:
    """Whether it is a text, such as a docstring, or a stub: `...`, returned or assigned."""
    value = node.value if isinstance(node, ast.Expr | ast.Return | ast.Assign) else None
    if not isinstance(value, ast.Constant):
        return False
    return value.value is ... or (isinstance(node, ast.Expr) and isinstance(value.value, str))


def ran(folder: Path, path: str, cells: Iterable[str]) -> tuple[set[Line], set[Line]]:
    """Return all statements of a lesson's cells, and those that the processes watched in `folder` ran.

    `path` names the lesson. Cells that are no plain Python, such as the set-up cell's, are left out.
    What TensorFlow's AutoGraph rewrites runs under another name: the bodies of functions in cells that
    need TensorFlow count as run where their `def` did, and so do those of a cell that begins with
    `APART`: the lesson sees what they did there.
    """
    by_source: dict[str, set[tuple[int, int]]] = {}
    for file in sorted(folder.glob("*.json")):
        for entry in json.loads(file.read_text("utf-8")):
            passed = {(line, column) for line, column in entry["places"]}
            by_source.setdefault(entry["source"], set()).update(passed)
    whole: set[Line] = set()
    done: set[Line] = set()
    for source in map(str.strip, cells):  # IPython takes empty lines at the top away
        try:
            found = places(source)
        except SyntaxError:
            continue
        passed = by_source.get(source, set())
        if "tensorflow" in replay.needs(source) or source.startswith(APART):
            passed = passed | _in_functions(source)
        whole |= {Line(path, place, text) for place, text in found.items()}
        done |= {Line(path, place, text) for place, text in found.items() if place in passed}
    return whole, done


def judge(
    path: str, cells: Iterable[str], cpu: Path, gpu: Path, wait_for: Collection[str] = ()
) -> tuple[set[Line], set[Line]]:
    """Return the lines of a lesson that need an accelerator, and those of them that did not run with one.

    They are what did not run in `cpu`, the folder that a run without an accelerator wrote, but for lines with
    a text of `wait_for`, and for cells that need a package which is not installed. `gpu` is the folder of
    a run with one.
    """
    cells = [cell for cell in cells if not replay.missing(cell)]
    whole, on_cpu = ran(cpu, path, cells)
    _, on_gpu = ran(gpu, path, cells)
    needed = {line for line in whole - on_cpu if not any(text in line.text for text in wait_for)}
    return needed, needed - on_gpu


def _in_functions(source: str) -> set[tuple[int, int]]:
    functions = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef)]
    inside = [inner for f in functions for n in f.body for inner in ast.walk(n)]
    return {_place(n) for n in inside if isinstance(n, ast.stmt)}
