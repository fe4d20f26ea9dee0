"""Checks of a stored notebook that need no run.

Every check returns problems in words: where, what was seen, what to do. An empty list is a pass.
They see what a run on a CPU doesn't show: calls that only CUDA has, missing synchronization, stale text.
"""

from __future__ import annotations

import ast
import json
import os
import re
import statistics

from nbformat import NotebookNode

from colab_doctor.notebook import cells, removed_apis
from colab_lessons import claims, recorded_outputs
from course.config import Course, CourseError, Lesson
from course.run import execute
from course.write import assemble, generated_sections, lesson_outline

MAX_MINUTES_OFF = 4  # what course.toml says from what the formula does
MAX_CELL_LINES = 30  # a code cell
P90_CELL_LINES = 20  # nine of ten
CODE_CELLS = range(20, 62)  # with the three that every lesson has
MIN_COMPARED = 3  # cells whose stored output is compared
#: Lines with code of the cells that are not folded: median, nine of ten, longest.
MAX_OPEN_CELL_LINES = (6, 14, 20)

#: What must not stand in a lesson's code, beside what the helper's table of retired names has.
MISLEADING = {
    r"\.total_mem\b": "there is no .total_mem: .total_memory",
    r"input_shape\s*=": "keras.Input(shape) as the first layer",
    r"XLA_PYTHON_CLIENT_MEM_FRACTION": "now XLA_CLIENT_MEM_FRACTION",
    r"PYTORCH_CUDA_ALLOC_CONF": "now PYTORCH_ALLOC_CONF",
    r"allow_tf32": 'torch.set_float32_matmul_precision("high")',
    r"is_bf16_supported\(\)": "says True on a T4: is_bf16_supported(including_emulation=False)",
    r"time\.time\(\)": "time.perf_counter(), which never jumps",
}
_NOT_TO_BE_STORED = {
    r"(INFO|WARNING):(tensorflow|absl)|oneDNN custom|InitializeLog|cuda_executor": "a framework's log",
    rf"(?m)^{claims.MARK}": "a sentence that this run contradicts",
    rf"^{recorded_outputs.NOT_RUN}": "a replayed output, made where a package is missing,",
}
#: What only a program in an output has; Colab would run it in the reader's page.
_SCRIPT_MARKERS = ("<script", "javascript", "<iframe", " onerror=", " onload=")
_INSTALL = re.compile(r"\b(pip3?|uv pip|conda|mamba|apt|apt-get|npm)\s+(install|add)\b")
_SYNCHRONIZES = re.compile(
    r"synchronize|\bwait\(|block_until_ready|sync_devices|\.item\(\)|\.numpy\(\)|\.cpu\(\)"
)


def static_problems(course: Course, lesson: Lesson) -> list[str]:
    """Run every check that needs no kernel on the stored notebook of a lesson."""
    path = course.notebook(lesson)
    if not path.exists():
        return [f"notebooks/{path.name} is missing: run `make notebooks`."]
    try:
        notebook = assemble.read(path)
    except assemble.UnreadableNotebookError as error:
        return [str(error)]
    return [
        *stale_problems(course, lesson),
        *code_problems(notebook),
        *shape_problems(notebook),
        *plumbing_problems(notebook),
        *minutes_problems(course, lesson),
        *alt_text_problems(notebook),
        *link_problems(course, notebook),
        *stored_output_problems(notebook),
        *tampered_output_problems(course, lesson, notebook),
    ]


def stale_problems(course: Course, lesson: Lesson) -> list[str]:
    """Compare the stored notebook with what its lesson builds."""
    path, source = course.notebook(lesson), f"lessons/{lesson.slug}.py"
    hint = f"Edit {source} (not the notebook), then run `make notebooks`."
    try:
        stored = assemble.read(path)
    except assemble.UnreadableNotebookError as error:
        return [str(error)]
    fresh = assemble.build(course, lesson)
    for index, (old, new) in enumerate(
        zip(assemble.sources(stored), assemble.sources(fresh), strict=False)
    ):
        if old != new:
            return [
                f"{path.name}: {execute.describe_cell(stored, index)} differs from its source. {hint}"
            ]
    if len(stored.cells) != len(fresh.cells):
        return [
            f"{path.name}: {len(stored.cells)} cells, its source builds {len(fresh.cells)}. {hint}"
        ]
    if stored.metadata != fresh.metadata:
        return [f"{path.name}: its metadata differs from course.toml. {hint}"]
    if path.read_text("utf-8") != assemble.render(course, lesson):
        return [f"{path.name}: not in canonical form, or with links to another fork. {hint}"]
    return []


def code_problems(notebook: NotebookNode) -> list[str]:
    """Find code that will fail or mislead on hardware that this machine does not have."""
    problems = [
        f"{execute.describe_cell(notebook, place.cell - 1)}: {place.code}: {place.row.why} "
        f"Today: {place.row.instead}"
        for place in removed_apis.find(cells.cells(notebook))
    ]
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    if any(map(recorded_outputs.needs, sources)) and not any(
        "recorded_outputs.watch(" in source for source in sources
    ):
        problems.append(
            "cells need packages, and no recorded_outputs.watch() stands in for missing ones."
        )
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type != "code" or "set-up" in assemble.tags_of(cell):
            continue
        where = execute.describe_cell(notebook, index)
        problems += [
            f"{where}: {why}." for old, why in MISLEADING.items() if re.search(old, cell.source)
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
    own = [
        cell for cell in code if "set-up" not in assemble.tags_of(cell)
    ]  # the build writes that one
    lengths = [len(cell.source.splitlines()) for cell in own]
    problems = []
    if len(code) not in CODE_CELLS:
        problems.append(
            f"{len(code)} code cells; {CODE_CELLS.start} to {CODE_CELLS.stop - 1} are wanted."
        )
    if max(lengths) > MAX_CELL_LINES:
        problems.append(f"a code cell has {max(lengths)} lines; {MAX_CELL_LINES} are the most.")
    if statistics.quantiles(lengths, n=10)[-1] > P90_CELL_LINES:
        problems.append(f"more than one cell of ten is over {P90_CELL_LINES} lines.")
    titles = [c for c in notebook.cells if c.cell_type == "markdown" and re.match(r"# ", c.source)]
    if len(titles) != 1:
        problems.append(f"{len(titles)} H1 titles; the build writes the only one.")
    tagged = [cell for cell in code if assemble.PARAMETERS in assemble.tags_of(cell)]
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


def plumbing_problems(notebook: NotebookNode) -> list[str]:
    """Find what a reader should not have to read: sizes, records, guesses filled in, long cells."""
    code = [
        (i, cell)
        for i, cell in enumerate(notebook.cells)
        if cell.cell_type == "code" and "set-up" not in assemble.tags_of(cell)
    ]
    predicted = {
        name for _, cell in code for name in re.findall(r"\byour_prediction\((\w+)", cell.source)
    }
    problems = [
        f"{execute.describe_cell(notebook, i)}: a prediction is filled in. It begins as None."
        for i, cell in code
        for name in re.findall(r"(?m)^(\w+) = (?!None\b).*# @param", cell.source)
        if name in predicted or "**Predict" in notebook.cells[i - 1].source
    ]
    kept = {name for _, cell in code for name in re.findall(r"\bguess\((\w+)", cell.source)}
    problems += [
        f"{execute.describe_cell(notebook, i)}: this prediction is never compared with a result."
        for i, cell in code
        for name in re.findall(r"(?m)^(\w+) = None +# @param", cell.source)
        if name not in kept
    ]
    shown = [(i, cell) for i, cell in code if not _is_folded(cell)]
    for i, cell in shown:
        where = execute.describe_cell(notebook, i)
        sets_sizes = {assemble.PARAMETERS, assemble.SIZES} & {*assemble.tags_of(cell)}
        if re.search(r"\bFAST\b", cell.source) and not sets_sizes:
            problems.append(f"{where}: reads FAST. Give the size a name in the cell tagged sizes.")
        if re.search(r"\bmeasurements\.", cell.source):
            problems.append(f"{where}: records results. Put that in a collapsed cell.")
    lengths = [sum(map(_is_code, cell.source.splitlines())) for _, cell in shown]
    seen = statistics.median(lengths), statistics.quantiles(lengths, n=10)[-1], max(lengths)
    if any(number > limit for number, limit in zip(seen, MAX_OPEN_CELL_LINES, strict=True)):
        problems.append(
            f"lines a cell: median {seen[0]:g}, nine of ten under {seen[1]:g}, longest {seen[2]}; "
            f"at most {MAX_OPEN_CELL_LINES[0]}, {MAX_OPEN_CELL_LINES[1]} and {MAX_OPEN_CELL_LINES[2]}."
        )
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
                    f"{where}: a figure without alt text. Show it with colab_lessons.figures."
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
    refs = {course.repository.ref, course.published.repository.ref}
    places = [f"{start}/blob/{ref}/" for start in (web, colab) for ref in refs]
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        place = next((place for place in places if target.startswith(place)), "")
        if place:
            inside = target.removeprefix(place).split("#")[0]
        elif target.startswith(f"{colab}/"):
            inside = f"{target}, which is of another branch"
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
    if not any(cell.execution_count for _, cell in code):
        return ["The notebook was never run. Run `make notebooks LESSONS=…`."]
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
    compared = [c for _, c in code if assemble.COMPARE in assemble.tags_of(c) and c.outputs]
    if len(compared) < MIN_COMPARED:
        problems.append(f"{len(compared)} stored outputs are compared; at least {MIN_COMPARED}.")
    return problems


def tampered_output_problems(course: Course, lesson: Lesson, notebook: NotebookNode) -> list[str]:
    """Find outputs that the last run did not write, that ran with FAST, or that carry a program."""
    problems = [
        f"{execute.describe_cell(notebook, index)}: its output is not the one that the last run wrote. "
        "Run `make notebooks`."
        for index in assemble.changed_outputs(course, lesson, notebook)
    ]
    if assemble.is_fast(notebook):
        problems.append("its record is one of a run with FAST. Run `make notebooks`.")
    for index, cell in enumerate(notebook.cells):
        text = json.dumps(cell.get("outputs", [])).lower()
        if any(word in text for word in _SCRIPT_MARKERS):
            problems.append(f"{execute.describe_cell(notebook, index)}: a program is stored.")
    return problems


def _is_folded(cell: NotebookNode) -> bool:
    """A form cell, collapsed by default."""
    return "display-mode" in cell.source.partition("\n")[0]


def minutes_problems(course: Course, lesson: Lesson) -> list[str]:
    """Check that a lesson's parts have minutes that add up, and that teachers' notes find theirs."""
    try:
        divided = lesson_outline.split_into_parts(lesson, assemble.build(course, lesson))
    except CourseError as error:
        return [str(error)]
    titles = {part.title for part in divided}
    run = generated_sections.read_timings(course).get(lesson.slug)
    needed = lesson_outline.estimate(divided, run.seconds if run else 0.0)
    far = abs(lesson.minutes - needed) > MAX_MINUTES_OFF
    lost = {note.part for note in lesson_outline.notes(course, lesson)} - titles
    return [
        *lesson_outline.problems(lesson, divided),
        *([f"course.toml says {lesson.minutes} minutes, the formula {needed:.0f}."] if far else []),
        *lesson_outline.unmatched_questions(course, lesson),
        *(
            f"docs/teaching/{lesson.slug}.md: the lesson has no part '{part}'."
            for part in sorted(lost)
        ),
    ]


def _is_code(line: str) -> bool:
    return bool(line.strip()) and not line.startswith(
        ("# needs:", "# runs in a process of its own")
    )


def _times_without_waiting(cell: NotebookNode) -> bool:
    return cell.source.count("perf_counter()") > 1 and not _SYNCHRONIZES.search(cell.source)


def _is_wrong_on_purpose(notebook: NotebookNode, index: int) -> bool:
    """A cell below a heading that says WRONG shows the mistake itself."""
    above = [cell.source for cell in notebook.cells[:index] if cell.cell_type == "markdown"]
    return bool(above) and re.search(r"(?m)^#+ WRONG", above[-1]) is not None
