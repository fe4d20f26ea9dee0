"""A check that cannot fail checks nothing: each is shown a notebook broken in just its way."""

import nbformat
import pytest

from course.check import notebook_lint, output_regression
from course.run import outcome_checks
from course.write import assemble
from tests.toy import edit_lesson, publish_toy, run_toy


def problems_of(course):
    return notebook_lint.static_problems(course, course.lessons[0])


@pytest.fixture
def quiet_shape(monkeypatch):
    """The toy is far shorter than a lesson."""
    monkeypatch.setattr(notebook_lint, "CODE_CELLS", range(1, 20))


def test_sound_toy_passes_everything(toy_course, quiet_shape):
    stored = nbformat.read(publish_toy(toy_course), as_version=4)
    assert problems_of(toy_course) == []
    outcome = run_toy(toy_course, solved=True)
    assert outcome_checks.run_problems(outcome) == []
    assert output_regression.compare_stored_outputs("toy", stored, outcome.notebook) == []


@pytest.mark.parametrize(("count", "fits"), [(19, False), (20, True), (61, True), (62, False)])
def test_too_few_or_too_many_cells(count, fits):
    problems = notebook_lint.shape_problems(code_cells(*["1"] * count))
    assert fits != any("code cells; 20 to 61 are wanted" in problem for problem in problems)


def test_lesson_that_raises(toy_course):
    edit_lesson(toy_course, "total = sum(range(10))", "total = 1 / 0")
    [problem] = outcome_checks.run_problems(run_toy(toy_course))
    assert "cell 7 (total = 1 / 0) raised ZeroDivisionError" in problem


def test_stored_output_that_changed(toy_course):
    stored = nbformat.read(publish_toy(toy_course), as_version=4)
    ran = nbformat.v4.new_notebook(cells=[nbformat.from_dict(cell) for cell in stored.cells])
    [cell] = [c for c in stored.cells if c.source.startswith("total = ")]
    cell.outputs[0].data["text/plain"] = "46"
    [problem] = output_regression.compare_stored_outputs("toy", stored, ran)
    assert "a stored output differs" in problem and "46" in problem and "45" in problem
    cell.outputs = []
    [problem] = output_regression.compare_stored_outputs("toy", stored, ran)
    assert "Unexpected output fields" in problem
    ran.cells.remove(next(each for each in ran.cells if each.id == cell.id))
    [problem] = output_regression.compare_stored_outputs("toy", stored, ran)
    assert "were not run" in problem


def test_solution_that_is_wrong(toy_course):
    edit_lesson(toy_course, "50e6 * 8 / 240e9", "50e6 * 4 / 240e9")
    [problem] = outcome_checks.run_problems(run_toy(toy_course, solved=True))
    assert "the solution is judged ['wrong']" in problem


def test_notebook_edited_by_hand(toy_course, quiet_shape):
    path = publish_toy(toy_course)
    path.write_text(path.read_text("utf-8").replace("range(10)", "range(11)"), "utf-8")
    [problem] = problems_of(toy_course)
    assert "differs from its source" in problem and "Edit lessons/01_toy.py" in problem


def test_metadata_edited_by_hand(toy_course, quiet_shape):
    path = publish_toy(toy_course)
    path.write_text(
        path.read_text("utf-8").replace('"gpuType": "T4"', '"gpuType": "A100"'), "utf-8"
    )
    [problem] = problems_of(toy_course)
    assert "metadata differs from course.toml" in problem


def test_figure_without_alt_text(toy_course, quiet_shape):
    edit_lesson(
        toy_course,
        "picture\n\n",
        "import IPython.display\nIPython.display.Image(data=picture.png)\n\n",
    )
    publish_toy(toy_course)
    [problem] = problems_of(toy_course)
    assert "a figure without alt text" in problem


def test_image_without_alt_text(toy_course, quiet_shape):
    edit_lesson(toy_course, "# ## A figure", "# ## A figure\n#\n# ![](https://example.org/x.png)")
    publish_toy(toy_course)
    [problem] = problems_of(toy_course)
    assert "an image without alt text" in problem


@pytest.mark.parametrize(
    "target",
    [
        "02_gone.ipynb",
        "../docs/gone.md",
        "https://github.com/somebody/toy/blob/main/docs/gone.md",
        "https://colab.research.google.com/github/somebody/toy/blob/main/notebooks/02_gone.ipynb",
    ],
)
def test_link_that_leads_nowhere(toy_course, quiet_shape, target):
    assemble.write(toy_course, toy_course.lessons[0])
    text = f"see [there]({target}) and [here](01_toy.ipynb)"
    [problem] = notebook_lint.markdown_link_problems(toy_course, text)
    assert "leads nowhere" in problem


def test_replayed_output_is_not_recorded_again_and_not_published(
    toy_course, quiet_shape, monkeypatch
):
    """`make notebooks` on a machine that lacks a package must not overwrite what was recorded."""
    edit_lesson(toy_course, "total = sum(", "# needs: no_such_package\n'x'\n\n# %%\ntotal = sum(")
    written = []
    monkeypatch.setattr(
        assemble.recorded_outputs, "record_outputs", lambda *told: written.append(told)
    )
    edit_lesson(
        toy_course,
        "from colab_lessons import",
        "from colab_lessons import recorded_outputs\nfrom colab_lessons import",
    )
    edit_lesson(
        toy_course,
        '# %% tags=["parameters"]',
        "recorded_outputs.watch('01_toy')\n\n# %% tags=[\"parameters\"]",
    )
    publish_toy(toy_course)
    assert written == []
    [problem] = problems_of(toy_course)
    assert "a replayed output" in problem


def test_cell_that_was_never_run(toy_course, quiet_shape):
    assemble.write(toy_course, toy_course.lessons[0])
    problems = problems_of(toy_course)
    assert sum("was never run" in problem for problem in problems) == 1


def test_too_few_outputs_that_are_compared(toy_course, quiet_shape):
    path = publish_toy(toy_course)
    stored = nbformat.read(path, 4)
    for cell in stored.cells:
        if assemble.COMPARE in assemble.tags_of(cell):
            cell.outputs = []
    path.write_text(assemble.dumps(stored), "utf-8")
    assert any("0 stored outputs are compared" in problem for problem in problems_of(toy_course))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("torch.cuda.amp.autocast()", "torch.amp.autocast"),
        ("properties.total_mem", ".total_memory"),
        ("os.environ['COLAB_TPU_ADDR']", "no address is needed"),
        ("model.cuda()", "use .to(device)"),
        ("a = time.perf_counter()\nb = time.perf_counter() - a", "without waiting for the device"),
        ("!apt-get install x", "installs a package"),
        ("# %pip install numpy", "installs a package"),
        ("# needs: jax\nimport jax", "no recorded_outputs.watch()"),
    ],
)
def test_code_that_fails_or_misleads_elsewhere(code, said):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    [problem] = notebook_lint.code_problems(notebook)
    assert said in problem


def cell_with(notebook, text):
    return next(cell for cell in notebook.cells if cell.source.startswith(text))


def change_a_number(notebook):
    cell_with(notebook, "total = ").outputs[0].data["text/plain"] = "46"


def remove_an_output(notebook):
    cell_with(notebook, "total = ").outputs = []


def add_a_script(notebook):
    card = notebook.cells[1].outputs[0].data
    card["text/html"] += "<script>alert(1)</script>"


def add_javascript(notebook):
    output = nbformat.v4.new_output("display_data", data={"application/javascript": "alert(1)"})
    cell_with(notebook, "total = ").outputs.append(output)


def hide_the_source(notebook):
    cell_with(notebook, "total = ").metadata["jupyter"] = {"source_hidden": True}


def attach_a_file(notebook):
    notebook.cells[0]["attachments"] = {"x.png": {"image/png": "AAAA"}}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (change_a_number, "not the one that the last run wrote"),
        (remove_an_output, "not the one that the last run wrote"),
        (add_a_script, "a program is stored"),
        (add_javascript, "a program is stored"),
        (hide_the_source, "not in canonical form"),
        (attach_a_file, "not in canonical form"),
    ],
)
def test_notebook_tampered_with(toy_course, quiet_shape, change, words):
    path = publish_toy(toy_course)
    assert problems_of(toy_course) == []
    notebook = nbformat.read(path, as_version=4)
    change(notebook)  # by hand
    path.write_text(assemble.dumps(notebook), "utf-8")
    assert any(words in problem for problem in problems_of(toy_course))


@pytest.mark.parametrize("count", [0, 2])
def test_one_cell_has_the_parameters(toy_course, quiet_shape, count):
    notebook = assemble.build(toy_course, toy_course.lessons[0])
    cell = next(cell for cell in notebook.cells if assemble.PARAMETERS in assemble.tags_of(cell))
    if count:
        notebook.cells.append(cell)
    else:
        cell.metadata["tags"] = []
    assert any(
        f'{count} cells tagged "parameters"' in p for p in notebook_lint.shape_problems(notebook)
    )


def code_cells(*sources):
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    cells[0].metadata["tags"] = [assemble.PARAMETERS]
    return nbformat.v4.new_notebook(cells=cells)


def test_cells_that_hold_only_the_lesson_pass():
    record = (
        '# @title Keep it { display-mode: "form" }\nmeasurements.record("01", FAST)' + "\n1" * 30
    )
    beside = '# @title Beside { display-mode: "form" }\npredicted = {"guess": guess(guess, 3)}'
    notebook = code_cells(
        "FAST = False\nN = 2 if FAST else 4", "guess = None  # @param", beside, record
    )
    assert notebook_lint.plumbing_problems(notebook) == []


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("steps = 2 if FAST else 9", "reads FAST"),
        ("measurements.load('01')", "records results"),
        ("guess = 3  # @param\nyour_prediction(guess)", "a prediction is filled in"),
        ("times_up = None  # @param", "never compared with a result"),
        ("\n".join("x = 1" for _ in range(21)), "longest 21"),
    ],
)
def test_cell_that_holds_more_than_the_lesson(source, seen):
    [problem] = notebook_lint.plumbing_problems(
        code_cells("FAST = False", "1", "2", "3", source, "4", "5")
    )[:1]
    assert seen in problem


@pytest.mark.parametrize(
    ("old", "new", "seen"),
    [
        ('tags=["minutes-7"]', "", "the part 'Exercise' has no minutes"),
        ("minutes-7", "minutes-2", "its parts have 2 minutes, and course.toml says 7"),
        ('"minutes-7"', '"minutes-7", "short-0"', "the short cut has 0 minutes instead of 7"),
        ('"minutes-0"', '"minutes-0", "short-1"', "'A figure' is longer in the short cut"),
    ],
)
def test_minutes_that_do_not_add_up(toy_course, old, new, seen):
    source = toy_course.source(toy_course.lessons[0])
    source.write_text(source.read_text("utf-8").replace(old, new), "utf-8")
    found = notebook_lint.minutes_problems(toy_course, toy_course.lessons[0])
    assert any(seen in problem for problem in found), found
