"""Would the tests see a fault? Some are planted at random, one at a time, and the matching tests run.

The faults are cosmic-ray's: an operator replaced, a number moved by one, a branch turned round, a line
left out. A fault that no test sees survives; the report lists those, to be judged by a person.
"""

from __future__ import annotations

import ast
import difflib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

from colab_helpers import _files
from course.publish import archive
from course.table import Course, CourseError

LIMIT = 240  # seconds for the matching tests; a fault that makes them hang is seen
#: What is not mutated: names and texts of tables, and what only a GPU, Colab or a person can see.
LEFT_OUT = (
    "course/run/conditions/sitecustomize.py",
    "course/run/colab.py",
    "course/run/twin.py",
    "course/prove/bench.py",
    "course/prove/mutants.py",
)


@dataclass(frozen=True)
class Mutant:
    """One planted fault: the file, cosmic-ray's operator, and which of its places in the file."""

    path: Path
    operator: str
    occurrence: int


@dataclass(frozen=True)
class Fate:
    """What became of a mutant: "killed", "survived" or "equal" (the same program), and its change."""

    mutant: Mutant
    status: str
    change: str
    seconds: float
    tests: tuple[str, ...]


def sample(course: Course, count: int, seed: int, only: Sequence[str] = ()) -> list[Mutant]:
    """Return `count` mutants at random from all there are. Raises `CourseError` without cosmic-ray."""
    every = _mutants(course.root, sources(course.root, only))
    return random.Random(seed).sample(every, min(count, len(every)))


def sources(root: Path, only: Sequence[str] = ()) -> list[Path]:
    """The modules that are mutated, relative to `root`; `only` names beginnings of their paths."""
    found = sorted(
        path.relative_to(root)
        for folder in ("colab_helpers", "course")
        for path in (root / folder).rglob("*.py")
    )
    chosen = [path for path in found if str(path) not in LEFT_OUT]
    return [path for path in chosen if not only or str(path).startswith(tuple(only))]


def matching_tests(root: Path, path: Path) -> list[str]:
    """The tests of a module: the files and folders of its name, and of the packages it is in.

    >>> matching_tests(Path("."), Path("colab_helpers/benchmark/timer.py"))[0]
    'tests/colab_helpers/benchmark/test_timer.py'
    """
    tests = root / "tests"
    parts = path.with_suffix("").parts
    found: list[Path] = []
    while len(parts) > 1:
        folder = tests.joinpath(*parts[:-1])
        found += [tests.joinpath(*parts)] if tests.joinpath(*parts).is_dir() else []
        found += sorted(folder.glob(f"test_{parts[-1].lstrip('_')}*.py"))
        if found and parts[-1] != "__init__":
            break
        parts = parts[:-1]
    extra = _BESIDE.get(path.parts[-1], ()) + _BESIDE.get("/".join(path.parts[:2]), ())
    names = [str(one.relative_to(root)) for one in found] + [*extra, "tests/test_house.py"]
    return [name for name in dict.fromkeys(names) if (root / name).exists()]


#: Module or folder -> tests that look at it besides its own.
_BESIDE = {
    "_output.py": ("tests/colab_helpers/test_html.py",),
    "card.py": ("tests/colab_helpers/test_preflight.py", "tests/colab_helpers/test_html.py"),
    "facts.py": ("tests/colab_helpers/test_html.py",),
    "static.py": ("tests/notebooks/test_checks_can_fail.py",),
    "runs.py": ("tests/notebooks/test_checks_can_fail.py", "tests/course/run/test_execute.py"),
    "comparison.py": ("tests/notebooks/test_checks_can_fail.py",),
    "repeated.py": ("tests/notebooks/test_checks_can_fail.py",),
    "outputs.py": ("tests/notebooks/test_checks_can_fail.py",),
    "assemble.py": (
        "tests/notebooks/test_checks_can_fail.py",
        "tests/course/publish/test_retarget.py",
    ),
    "report.py": ("tests/course/run/test_lessons.py", "tests/course/run/test_execute.py"),
    "commands.py": ("tests/course/run", "tests/course/write", "tests/course/prove"),
    "__main__.py": (
        "tests/colab_helpers/doctor",
        "tests/course/run/test_lessons.py",
    ),
    "figures": ("tests/colab_helpers/test_figures.py",),
    "colab_helpers/preflight": (
        "tests/colab_helpers/test_preflight.py",
        "tests/colab_helpers/test_problems.py",
    ),
    "colab_helpers/doctor": (
        "tests/colab_helpers/doctor",
        "tests/colab_helpers/test_problems.py",
    ),
    "table.py": ("tests/course/write", "tests/course/publish/test_retarget.py"),
    "colab_helpers/colab_images.py": (
        "tests/colab_helpers/test_preflight.py",
        "tests/course/prove",
    ),
}


def try_all(course: Course, mutants: Sequence[Mutant], jobs: int) -> Iterator[Fate]:
    """Run the matching tests on each mutant, each in a copy of the tree; fates come as they fall."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees: Queue[Path] = Queue()
        for number in range(jobs):
            trees.put(_copy(course.root, Path(folder) / str(number)))

        def run(mutant: Mutant) -> Fate:
            tree = trees.get()
            try:
                return _try(course.root, tree, mutant)
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(run, mutants)


def check_baseline(course: Course, mutants: Sequence[Mutant]) -> None:
    """Raise `CourseError` where a test fails without any fault: it would see every one."""
    names = {name for mutant in mutants for name in matching_tests(course.root, mutant.path)}
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = _copy(course.root, Path(folder) / "tree")
        if not _passes(tree, Path("colab_helpers/__init__.py"), sorted(names), 20 * LIMIT):
            raise CourseError(
                "A test fails in a copy of the tree as it is: run `make test-unit` first."
            )


def report(fates: Sequence[Fate], seed: int) -> str:
    """Return the score and the survivors as Markdown."""
    faults = [fate for fate in fates if fate.status != "equal"]
    killed = sum(fate.status == "killed" for fate in faults)
    lines = [
        f"# {killed} of {len(faults)} planted faults seen ({killed / max(1, len(faults)):.0%}), seed {seed}",
        "",
        f"{len(fates) - len(faults)} of {len(fates)} changes made the same program and do not count.",
    ]
    for fate in faults:
        if fate.status == "survived":
            mutant = fate.mutant
            lines += ["", f"## {mutant.path}, {mutant.operator} {mutant.occurrence}", ""]
            lines += [
                "```diff",
                fate.change,
                "```",
                "",
                f"Tests: {', '.join(fate.tests) or 'none'}.",
            ]
    return "\n".join(lines) + "\n"


def write(course: Course, text: str) -> Path:
    """Write the report below build/ and return its path."""
    return _files.write(course.root / "build" / "mutants" / "report.md", text)


def _mutants(root: Path, paths: Sequence[Path]) -> list[Mutant]:
    """Every fault that cosmic-ray can plant in these files, in a fixed order."""
    try:
        from cosmic_ray.commands import init
        from cosmic_ray.work_db import WorkDB, use_db
    except ImportError:
        raise CourseError(
            "cosmic-ray is not installed: `make mutants` brings it into the environment."
        ) from None
    with (
        tempfile.TemporaryDirectory() as folder,
        use_db(str(Path(folder) / "work.sqlite"), WorkDB.Mode.create) as database,
    ):
        init([root / path for path in paths], database, {})
        specs = [item.mutations[0] for item in database.work_items]
    found = [
        Mutant(Path(spec.module_path).relative_to(root), spec.operator_name, spec.occurrence)
        for spec in specs
    ]
    return sorted(found, key=lambda m: (str(m.path), m.operator, m.occurrence))


def _changed(code: str, mutant: Mutant) -> str:
    from cosmic_ray import mutating, plugins

    operator = plugins.get_operator(mutant.operator)()
    return mutating.mutate_code(code, operator, mutant.occurrence) or code


def _is_same_program(before: str, after: str) -> bool:
    """Annotations are not evaluated here, so what changes only them changes nothing."""
    try:
        return ast.dump(_Bare().visit(ast.parse(before))) == ast.dump(
            _Bare().visit(ast.parse(after))
        )
    except SyntaxError:
        return False


class _Bare(ast.NodeTransformer):
    """Takes annotations out of a program."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)


def _copy(root: Path, target: Path) -> Path:
    for file in archive.files(root):
        copy = target / file.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    return target


def _passes(tree: Path, path: Path, tests: Sequence[str], limit: float = LIMIT) -> bool:
    """Whether the tests, and the doctests of the module, find nothing wrong in this tree."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "OMP_NUM_THREADS": "1",
        "COURSE_ANY_TREE": "1",
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
    ]
    doctests = ["--doctest-modules", str(path)]
    try:
        done = subprocess.run(
            [*command, *tests, *doctests],
            cwd=tree, env=environment, capture_output=True, text=True, timeout=limit,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False
    if done.returncode == 4:
        raise CourseError(f"pytest was called wrongly: {done.stderr.strip()[-300:]}")
    return done.returncode in (0, 5)  # 5: there is no test at all


def _try(root: Path, tree: Path, mutant: Mutant) -> Fate:
    start = time.perf_counter()
    original = (root / mutant.path).read_text("utf-8")
    changed = _changed(original, mutant)
    tests = matching_tests(tree, mutant.path)
    change = "\n".join(
        difflib.unified_diff(original.splitlines(), changed.splitlines(), lineterm="", n=0)
    )
    if _is_same_program(original, changed):
        return Fate(mutant, "equal", change, 0.0, tuple(tests))
    (tree / mutant.path).write_text(changed, "utf-8")
    try:
        status = "survived" if _passes(tree, mutant.path, tests) else "killed"
    finally:
        (tree / mutant.path).write_text(original, "utf-8")
    return Fate(mutant, status, change, time.perf_counter() - start, tuple(tests))
