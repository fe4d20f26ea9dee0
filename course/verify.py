"""Is a notebook fit to be published?

Every check returns problems in words: where, what was seen, what to do. An empty list is a pass.
Static checks see what a run on a CPU cannot; the others judge a run.
"""

from __future__ import annotations

import ast
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import nbformat
from nbformat import NotebookNode

from colab_helpers import parts
from course import build, execute
from course.table import Course, Lesson

MOST_LINES = 30  # a code cell
MOST_LINES_USUALLY = 20  # nine of ten
CODE_CELLS = range(20, 42)
LEAST_COMPARED = 3  # cells whose stored output is compared

#: What must not stand in a lesson's code -> why, and what to write.
RETIRED = {
    r"torch\.cuda\.amp\.": 'torch.cuda.amp is deprecated: torch.amp.autocast("cuda", …)',
    r"\.total_mem\b": "there is no .total_mem: .total_memory",
    r"COLAB_TPU_ADDR": "COLAB_TPU_ADDR is gone since 2024: jax.devices()",
    r"experimental_connect_to_cluster": "not needed for a local TPU",
    r"is_gpu_available\(": 'deprecated: tf.config.list_physical_devices("GPU")',
    r"input_shape\s*=": "keras.Input(shape) as the first layer",
    r"XLA_PYTHON_CLIENT_MEM_FRACTION": "now XLA_CLIENT_MEM_FRACTION",
    r"PYTORCH_CUDA_ALLOC_CONF": "now PYTORCH_ALLOC_CONF",
    r"allow_tf32": 'torch.set_float32_matmul_precision("high")',
    r"is_bf16_supported\(\)": "says True on a T4: is_bf16_supported(including_emulation=False)",
    r"time\.time\(\)": "time.perf_counter(), which never jumps",
}
_NOT_TO_BE_STORED = {
    r"(INFO|WARNING):(tensorflow|absl)|oneDNN custom|InitializeLog|cuda_executor": "a framework's chatter",
    rf"^{parts.NOT_RUN}": "a replayed output, made where a package is missing,",
}
_INSTALL = re.compile(r"\b(pip3?|uv pip|conda|mamba|apt|apt-get|npm)\s+(install|add)\b")
_WAITS = re.compile(r"synchronize|block_until_ready|sync_devices|\.item\(\)|\.numpy\(\)|\.cpu\(\)")


def static_problems(course: Course, lesson: Lesson) -> list[str]:
    """Run every check that needs no kernel on the stored notebook of a lesson."""
    path = course.notebook(lesson)
    if not path.exists():
        return [f"notebooks/{path.name} is missing: run `make notebooks`."]
    notebook = nbformat.read(path, as_version=4)
    return [
        *stale(course, lesson),
        *code_problems(notebook),
        *shape_problems(notebook),
        *alt_text_problems(notebook),
        *link_problems(course, notebook),
        *stored_output_problems(notebook),
    ]


def stale(course: Course, lesson: Lesson) -> list[str]:
    """Compare the stored notebook with what its lesson builds."""
    path, source = course.notebook(lesson), f"lessons/{lesson.slug}.py"
    mend = f"Edit {source} (not the notebook), then run `make notebooks`."
    stored = nbformat.read(path, as_version=4)
    fresh = build.build(course, lesson)
    for index, (old, new) in enumerate(
        zip(build.sources(stored), build.sources(fresh), strict=False)
    ):
        if old != new:
            return [
                f"{path.name}: {execute.describe_cell(stored, index)} differs from its source. {mend}"
            ]
    if len(stored.cells) != len(fresh.cells):
        return [
            f"{path.name}: {len(stored.cells)} cells, its source builds {len(fresh.cells)}. {mend}"
        ]
    if stored.metadata != fresh.metadata:
        return [f"{path.name}: its metadata differs from course.toml. {mend}"]
    if path.read_text("utf-8") != build.dumps(stored):
        return [f"{path.name}: not in canonical form. {mend}"]
    return []


def code_problems(notebook: NotebookNode) -> list[str]:
    """Find code that will fail or mislead on hardware that this machine does not have."""
    problems = []
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type != "code" or "set-up" in build._tags(cell):
            continue
        where = execute.describe_cell(notebook, index)
        problems += [
            f"{where}: {why}." for old, why in RETIRED.items() if re.search(old, cell.source)
        ]
        if _INSTALL.search(cell.source):
            problems.append(f"{where}: installs a package. Lessons install nothing but the helper.")
        if re.search(r"\.cuda\(", cell.source):
            problems.append(f"{where}: .cuda() fails without a GPU: use .to(device).")
        if _times_without_waiting(cell) and not _is_wrong_on_purpose(notebook, index):
            problems.append(f"{where}: reads a clock without waiting for the device.")
    return problems


def shape_problems(notebook: NotebookNode) -> list[str]:
    """Check what makes a lesson readable: one title, one parameters cell, short cells."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    lengths = [len(cell.source.splitlines()) for cell in code]
    problems = []
    if len(code) not in CODE_CELLS:
        problems.append(
            f"{len(code)} code cells; {CODE_CELLS.start} to {CODE_CELLS.stop - 1} are wanted."
        )
    if max(lengths) > MOST_LINES:
        problems.append(f"a code cell has {max(lengths)} lines; {MOST_LINES} are the most.")
    if statistics.quantiles(lengths, n=10)[-1] > MOST_LINES_USUALLY:
        problems.append(f"more than one cell of ten is over {MOST_LINES_USUALLY} lines.")
    titles = [c for c in notebook.cells if c.cell_type == "markdown" and re.match(r"# ", c.source)]
    if len(titles) != 1:
        problems.append(f"{len(titles)} H1 titles; the build writes the only one.")
    tagged = [cell for cell in code if build.PARAMETERS in build._tags(cell)]
    if len(tagged) != 1 or "FAST" not in tagged[0].source:
        problems.append(
            f'{len(tagged)} cells tagged "parameters"; one is wanted, and it sets FAST.'
        )
    for cell in code:
        plain = re.sub(r"(?m)^(\s*)[%!].*$", r"\1pass", cell.source)
        try:
            ast.parse(plain)
        except SyntaxError as error:
            problems.append(f"a code cell is not Python: {error}.")
    return problems


def alt_text_problems(notebook: NotebookNode) -> list[str]:
    """Find figures and images that say nothing to those who cannot see them."""
    problems = []
    for index, cell in enumerate(notebook.cells):
        where = execute.describe_cell(notebook, index)
        for output in cell.get("outputs", []):
            images = [mime for mime in output.get("data", {}) if mime.startswith("image/")]
            if any(not output.metadata.get(mime, {}).get("alt", "").strip() for mime in images):
                problems.append(
                    f"{where}: a figure without alt text. Show it with colab_helpers.figures."
                )
        if cell.cell_type == "markdown":
            bare = re.search(r"!\[\s*\]\(", cell.source)
            tag = re.search(r"<img(?![^>]*\balt=['\"][^'\"]+)", cell.source)
            if bare or tag:
                problems.append(f"{where}: an image without alt text.")
    return problems


def link_problems(course: Course, notebook: NotebookNode) -> list[str]:
    """Find links to lessons, pages or places of this course that are not there."""
    problems = []
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            where = execute.describe_cell(notebook, index)
            problems += [f"{where}: {why}" for why in markdown_link_problems(course, cell.source)]
    return problems


def markdown_link_problems(course: Course, text: str, folder: str = "notebooks") -> list[str]:
    """Check the course's own links in Markdown text that stands in `folder`."""
    problems = []
    web, colab = (
        course.repository.url,
        f"https://colab.research.google.com/github/{course.repository.slug}",
    )
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(colab):
            inside = target.removeprefix(f"{colab}/blob/{course.repository.branch}/").split("#")[0]
        elif target.startswith(f"{web}/blob/{course.repository.branch}/"):
            inside = target.removeprefix(f"{web}/blob/{course.repository.branch}/").split("#")[0]
        elif re.match(r"https?:|mailto:|#", target):
            continue
        else:
            inside = os.path.normpath(f"{folder}/{target.split('#')[0]}")
        if not (course.root / inside).exists():
            problems.append(f"the link to {target} leads nowhere: there is no {inside}.")
    return problems


def stored_output_problems(notebook: NotebookNode) -> list[str]:
    """Check that the stored notebook was run whole, without errors or warnings."""
    problems = []
    code = [(i, cell) for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    for index, cell in code:
        where = execute.describe_cell(notebook, index)
        if cell.execution_count is None:
            problems.append(f"{where}: was not run. Run `make notebooks`.")
        if any(output.output_type == "error" for output in cell.outputs):
            problems.append(f"{where}: an error is stored.")
    problems += [
        f"{execute.describe_cell(notebook, i)}: a warning is stored."
        for i, _ in execute.stderr(notebook)
    ]
    for pattern, what in _NOT_TO_BE_STORED.items():
        problems += [
            f"{execute.describe_cell(notebook, i)}: {what} is stored."
            for i, cell in code
            for output in cell.outputs
            if output.output_type == "stream" and re.search(pattern, output.text)
        ]
    compared = [c for _, c in code if build.COMPARE in build._tags(c) and c.outputs]
    if len(compared) < LEAST_COMPARED:
        problems.append(f"{len(compared)} stored outputs are compared; at least {LEAST_COMPARED}.")
    return problems


#: A CUDA build of PyTorch says so on a machine with CUDA's compiler and without a GPU.
_NO_WARNING = "No CUDA runtime is found, using CUDA_HOME"


def run_problems(outcome: execute.Outcome, allowed: str = "") -> list[str]:
    """Judge a run: it ended, nothing warned, a record came out, stubs are open, solutions right.

    Warnings that match the pattern `allowed` are expected.
    """
    if not outcome.ok:
        return [f"{outcome.name}: {outcome.problem}"]
    notebook = outcome.notebook
    expected = "|".join(filter(None, (_NO_WARNING, allowed)))
    problems = [
        f"{outcome.name}: {execute.describe_cell(notebook, index)} wrote to stderr: {text.strip()[:200]}"
        for index, text in execute.stderr(notebook)
        if not re.search(expected, text)
    ]
    handed = execute.records(notebook)
    if sum(record["kind"] == "record" for record in handed) != 1:
        problems.append(
            f"{outcome.name}: no record of its measurements; end with reference.record(…)."
        )
    return problems + exercise_problems(notebook)


def device_problems(outcome: execute.Outcome, kind: str) -> list[str]:
    """Check that a lesson was measured on an accelerator of this kind, and not beside it."""
    if not outcome.ok:
        return []  # said already
    handed = execute.records(outcome.notebook)
    return [
        f"{outcome.name}: measured on {record['device']}, not on a {kind}: "
        "its framework does not use the one that is there."
        for record in handed
        if record["kind"] == "record" and record["device_kind"] != kind
    ]


def exercise_problems(notebook: NotebookNode) -> list[str]:
    """Check exercises of a run: an untouched stub is open, a solution is right."""
    problems = []
    for index, cell in enumerate(notebook.cells):
        tags = build._tags(cell)
        wanted = "right" if build.SOLUTION in tags else "open" if build.EXERCISE in tags else None
        if wanted is None or cell.cell_type != "code":
            continue
        where = execute.describe_cell(notebook, index)
        verdicts = execute.records(nbformat.v4.new_notebook(cells=[cell]))
        found = [v["status"] for v in verdicts if v["kind"] == "exercise"]
        if found != [wanted]:
            kind = "solution" if wanted == "right" else "untouched stub"
            problems.append(
                f"{where}: the {kind} is judged {found or 'not at all'}, not {wanted!r}."
            )
    return problems


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
    return _nbval_problems(path, *_run_nbval(path, environment, 120, "-p", "course.repeated"))


def _nbval_problems(path: Path, cases: list[ElementTree.Element], printed: str) -> list[str]:
    if not cases:
        return [f"{path.name}: nbval ran no cell: {printed[-300:]}"]
    failed = [case for case in cases if _failure(case) is not None]
    return [f"{path.name}: {case.get('name')}: {_reason(case)}" for case in failed]


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
            "-p", "no:cacheprovider", "-p", "no:xdist", *more,
        ]  # fmt: skip
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, cwd=path.parent
        )
        cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    return cases, done.stdout + done.stderr


def _failure(case: ElementTree.Element) -> ElementTree.Element | None:
    return next((node for node in case if node.tag in ("failure", "error")), None)


def _reason(case: ElementTree.Element) -> str:
    node = _failure(case)
    text = re.sub(r"\x1b\[[0-9;]*m|#x1B\[[0-9;]*m", "", f"{node.get('message')} {node.text}")
    return "a stored output differs: " + " ".join(text.split())[:300]


def _times_without_waiting(cell: NotebookNode) -> bool:
    return cell.source.count("perf_counter()") > 1 and not _WAITS.search(cell.source)


def _is_wrong_on_purpose(notebook: NotebookNode, index: int) -> bool:
    """A cell below a heading that says WRONG shows the mistake itself."""
    above = [cell.source for cell in notebook.cells[:index] if cell.cell_type == "markdown"]
    return bool(above) and re.search(r"(?m)^#+ WRONG", above[-1]) is not None
