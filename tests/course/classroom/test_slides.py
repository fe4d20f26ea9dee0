"""What a lesson's slides show, what their presenter reads, and how decks look in a browser."""

import itertools
import re
import shutil

import nbformat
import pytest
from nbconvert import SlidesExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from course import npm
from course.__main__ import main
from course.classroom import questions, slide_content, slides
from course.config import CourseError, load
from course.write import assemble, lesson_outline, slide_types
from tests import slow
from tests.course.accessible import violations
from tests.course.conftest import PAGE_TIMEOUT_MS

COURSE = load()
#: Of every slide, with all that comes on a click: what is outside of it or has to be scrolled, and what
#: is set in less than 20 pixels.
OVERFLOWING_JS = """() => Reveal.getSlides().flatMap((slide, place) => {
    const {h, v} = Reveal.getIndices(slide);
    Reveal.slide(h, v, 99);
    const page = slide.parentElement.parentElement.getBoundingClientRect();
    return [...slide.querySelectorAll("h1, h2, h3, p, pre, li, td, th, img, code, span")].filter((one) => {
        if (one.closest("aside")) return false;
        const box = one.getBoundingClientRect();
        const cut = one.scrollWidth > one.clientWidth + 2 && one.tagName === "PRE";
        const small = one.textContent.trim() && parseFloat(getComputedStyle(one).fontSize) < 20;
        return small || cut || box.bottom > page.top + 712 || box.right > page.left + 1272;
    }).map((one) => `${place + 1}: ${one.tagName} ${one.textContent.slice(0, 60)}`);
})"""
#: The slides that show nothing but a heading until something is clicked.
COUNT_EMPTY_JS = """() => Reveal.getSlides().filter((slide) =>
    ![...slide.children].some((one) => !one.matches("h2, h3, aside, .fragment"))).length"""
LOCAL_SCHEMES = ("file:", "data:", "blob:")

lessons = pytest.mark.parametrize("lesson", COURSE.lessons, ids=lambda lesson: lesson.slug)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Where decks are made; without npm these tests say that they did not run."""
    if shutil.which("npm") is None:
        pytest.skip("NOT TESTED: slides, since npm is not here")
    return tmp_path_factory.mktemp("slides")


def made(lesson):
    notebook = assemble.read(COURSE.notebook(lesson))
    chosen = [part for part in lesson_outline.split_into_parts(lesson, notebook) if part.minutes]
    return slides.prepared(COURSE, lesson, notebook, chosen).cells


def kind(cell):
    return cell.metadata["slideshow"]["slide_type"]


def of_part(*cells):
    """The cells of slides that these cells of one part make."""
    cells = [new_markdown_cell("## A part"), *cells]
    slide_types.add(cells)
    return list(slide_content.slides_of_part(lesson_outline.Part("A part", 3, 3, tuple(cells)), []))


@lessons
def test_a_prediction_comes_before_what_it_is_about(lesson):
    cells = made(lesson)
    asked = [i for i, cell in enumerate(cells) if "**Predict" in cell.source]
    written = assemble.build(COURSE, lesson)
    assert len(asked) == sum("**Predict" in cell.source for cell in written.cells) >= 3
    assert len(questions.predictions_in(written)) >= len(asked)
    for place in asked:
        beside = itertools.takewhile(lambda cell: kind(cell) in ("-", "notes"), cells[place + 1 :])
        assert all(cell.cell_type == "markdown" for cell in beside)
    assert not any(
        "@param" in cell.source or "measurements.record" in cell.source for cell in cells
    )


@lessons
def test_questions_of_the_teachers_page_are_in_the_notes_with_their_answers(lesson):
    notes = "\n".join(cell.source for cell in made(lesson) if kind(cell) == "notes")
    for note in lesson_outline.notes(COURSE, lesson):
        assert (note.answer or note.text) in notes


@lessons
def test_every_figure_is_there_with_its_alt_text(lesson):
    def alts(cells):
        images = (output for cell in cells for output in cell.get("outputs", []))
        return [
            one.metadata["image/png"]["alt"] for one in images if "image/png" in one.get("data", {})
        ]

    divided = lesson_outline.split_into_parts(lesson, assemble.read(COURSE.notebook(lesson)))
    assert alts(made(lesson)) == alts(
        cell for part in divided if part.minutes for cell in part.cells
    )


@lessons
def test_a_deck_ends_with_what_to_take_home(lesson):
    *_, last = [cell for cell in made(lesson) if kind(cell) not in ("notes", "skip")]
    assert len(re.findall(r"(?m)^- \*\*.+?\*\*: ", last.source)) == 3


def test_the_cell_that_shows_nothing_of_the_subject_is_skipped():
    types = {
        kind(cell) for cell in assemble.build(COURSE, COURSE.lessons[0]).cells
        if {"set-up", "sizes", "navigation"} & set(assemble.tags_of(cell)) or "@param" in cell.source
    }  # fmt: skip
    assert types == {"skip"}


def test_a_type_in_the_lesson_wins():
    cell = new_code_cell("x = 1", metadata={"slideshow": {"slide_type": "skip"}})
    slide_types.add([cell])
    assert kind(cell) == "skip"


@pytest.mark.parametrize("number", slow.after(1, ["06", "09"]))
def test_plain_nbconvert_presents_the_notebook_too(number):
    [lesson] = COURSE.select([number])
    notebook = assemble.read(COURSE.notebook(lesson))
    page, _ = SlidesExporter().from_notebook_node(notebook)
    types = [kind(cell) for cell in notebook.cells]
    slide, subslide = types.count("slide"), types.count("subslide")
    assert len(re.findall(r"<section\s*>", page)) == 2 * slide + subslide > 40
    assert page.count('<aside class="notes">') == types.count("notes") > 10
    assert "status_card" not in page and "image/png" in page


def test_prose_is_said_and_a_task_is_shown():
    cells = of_part(
        new_markdown_cell("Why we do it.\n\n- a list"),
        new_code_cell("x = 1\nx", outputs=[new_output("stream", text="1\n")]),
        new_markdown_cell("What it means.\n\n### 1 · Your turn\n\nDo it."),
        new_code_cell("y = ...\n\nexercises.check('1', y)", metadata={"tags": ["exercise"]}),
    )
    assert [(kind(cell), cell.source) for cell in cells[2:]] == [
        ("-", "- a list"),
        ("notes", "Why we do it."),
        ("subslide", "x = 1\nx"),
        ("fragment", ""),
        ("notes", "What it means."),
        ("subslide", "### 1 · Your turn"),
        ("-", "Do it."),
        ("-", "y = ..."),
    ]
    assert cells[0].metadata["slideshow"]["data"] == {"timing": 180}


def test_words_are_with_what_they_are_about():
    def figure():
        data = new_output(
            "display_data", {"image/png": "aGk="}, metadata={"image/png": {"alt": "Up."}}
        )
        return new_code_cell("figures.bars(a)", outputs=[data], metadata={"cellView": "form"})

    cells = of_part(
        new_code_cell("a = 1"),
        new_markdown_cell("Code that shows nothing isn't explained yet: this leads to the figure."),
        figure(),
        new_markdown_cell("About the figure.\n\nWhat comes next."),
        new_code_cell("b = 1"),
        figure(),
        new_markdown_cell("About it.\n\nSo what?\n\n**Predict.** How many?"),
    )
    told = [cell.source[:20] if cell.cell_type == "markdown" else kind(cell) for cell in cells[2:]]
    assert told == [
        "-", "subslide", "Up.", "Code that shows noth", "About the figure.", "subslide", "What comes next.",
        "subslide", "Up.", "About it.", "So what?\n\n**Predict.",
    ]  # fmt: skip


def test_code_too_wide_for_a_slide_is_broken_as_python():
    wide = f"result = function({', '.join(f'argument_{i}' for i in range(12))})"
    [code] = [cell for cell in of_part(new_code_cell(wide)) if cell.cell_type == "code"]
    assert max(map(len, code.source.splitlines())) <= 84 and "".join(code.source.split()) != wide
    magic = "listing = !ls " + "name " * 20 + "("  # no Python: as it is
    [code] = [cell for cell in of_part(new_code_cell(magic)) if cell.cell_type == "code"]
    assert code.source == magic


def test_outputs_are_plain_text_or_a_figure():
    figure = new_output("display_data", {"image/png": "aGk=", "text/plain": "<Figure>"})
    told = [
        new_output("stream", name="stderr", text="warned"),
        new_output("execute_result", {"text/plain": "'a \\x1b[31mred\\x1b[0m word'"}),
        new_output("error", ename="ValueError", evalue="no", traceback=[]),
        figure,
    ]
    form = new_code_cell("a\nfigures.bars(a)", outputs=told, metadata={"cellView": "form"})
    *_, drawn, said, error = of_part(form)
    assert said.source == "a red word" and error.source == "ValueError: no"
    assert drawn.source == "" and drawn.outputs[0].data["image/png"] == "aGk="


def test_a_heading_inside_a_cell_is_refused():
    lesson = COURSE.lessons[0]
    cells = [new_markdown_cell("Before.\n\n## A part", metadata={"tags": ["minutes-5"]})]
    with pytest.raises(CourseError, match="begins a cell"):
        lesson_outline.split_into_parts(lesson, nbformat.v4.new_notebook(cells=cells))


def test_outputs_can_be_those_of_the_teachers_own_run(tmp_path, capsys, cache):
    lesson = COURSE.lessons[1]
    executed = assemble.read(COURSE.notebook(lesson))
    cell = next(
        cell for cell in executed.cells if cell.get("outputs") and "re.search" in cell.source
    )
    cell.outputs = [new_output("stream", text="seen on <b>my</b> machine")]
    nbformat.write(executed, tmp_path / "mine.ipynb")
    asked = ["slides", "--from", str(tmp_path / "mine.ipynb"), "--folder", str(tmp_path / "made")]
    assert main(asked) == 0
    text = (tmp_path / "made" / f"{lesson.slug}.html").read_text("utf-8")
    assert "seen on &lt;b&gt;my&lt;/b&gt; machine" in text
    assert f"for {min(45, lesson.minutes)} minutes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "There is no notebook"),
        ("{", "cannot be read as a notebook. Download it anew"),
        (True, "is no lesson of this course"),
    ],
)
def test_a_run_that_is_none_is_told(tmp_path, capsys, content, said):
    path = tmp_path / "mine.ipynb"
    if content is True:
        nbformat.write(nbformat.v4.new_notebook(), path)
    elif content:
        path.write_text(content)
    assert main(["slides", "--from", str(path)]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", slow.after(1, range(5)))
def test_decks_are_whole_and_accessible_in_a_browser(browser, cache, part):
    for lesson in COURSE.lessons[part::5]:
        written = slides.write(COURSE, lesson, cache / "made")
        assert [minutes for _, minutes in written] == sorted(
            {min(45, lesson.minutes), lesson.minutes}, reverse=True
        )
        for path, _ in written:
            page, wrong = opened(browser, path)
            assert page.evaluate(OVERFLOWING_JS) == [], path.name
            assert page.evaluate(COUNT_EMPTY_JS) == 0, path.name
            if path.stem == lesson.slug:  # the short one has no slide that this one lacks
                page.goto(f"{path.as_uri()}?view=print")  # all slides at once
                page.wait_for_selector(".pdf-page")
                assert violations(page) == [], path.name
            assert wrong == [], path.name
            page.close()


def opened(browser, path):
    """A deck in a browser, and a list of what it complains about or asks of other hosts."""
    wrong = []
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    page.set_default_timeout(PAGE_TIMEOUT_MS)
    page.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith(LOCAL_SCHEMES) else wrong.append(r.url))
    page.goto(path.as_uri())
    page.wait_for_function("window.Reveal && Reveal.isReady()")
    return page, wrong


def test_what_is_too_long_for_a_slide_goes_on_on_the_next(browser, cache):
    lesson = COURSE.lessons[0]
    code = "\n".join(f'"""line {i}' if i == 30 else f"x{i} = {i}" for i in range(70)) + '\n"""'
    rows = "\n".join(f"| {i} | row |" for i in range(40))
    deck = nbformat.v4.new_notebook(
        cells=of_part(
            new_code_cell(code, outputs=[new_output("stream", text="\n".join(["said"] * 50))]),
            new_markdown_cell(f"| n | what |\n|---|---|\n{rows}"),
            new_markdown_cell("\n".join(f"{i}. item" for i in range(1, 41))),
        )
    )
    path = cache / "long.html"
    path.write_text(slides.page(COURSE, lesson, deck), "utf-8")
    page, _ = opened(browser, path)
    assert page.evaluate(OVERFLOWING_JS) == [] and page.evaluate("Reveal.getSlides().length") >= 8
    shown = page.evaluate(
        "Reveal.getSlides().map((slide) => [...slide.children]"
        ".filter((one) => !one.matches('aside')).map((one) => one.textContent).join('\\n')).join('\\n')"
    )
    assert [int(i) for i in re.findall(r"x(\d+) =", shown)] == [i for i in range(70) if i != 30]
    assert shown.count("said") == 50 and shown.count("row") == 40 and shown.count("item") == 40
    last = page.evaluate("[...document.querySelectorAll('ol')].map((one) => one.start)")
    assert last[0] == 1 and sorted(set(last)) == last and len(last) > 1


def test_the_presenter_sees_question_and_answer(browser, cache):
    lesson = COURSE.lessons[2]
    [(path, _), *_] = slides.write(COURSE, lesson, cache / "made")
    context = browser.new_context()
    context.set_default_timeout(PAGE_TIMEOUT_MS)
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_function("window.Reveal && Reveal.isReady()")
    with context.expect_page() as popped:
        page.keyboard.press("s")
    view = popped.value
    page.evaluate(
        "() => { const slide = Reveal.getSlides().find((one) =>"
        " one.textContent.includes('How long Python takes to put work into a queue'));"
        " const {h, v} = Reveal.getIndices(slide); Reveal.slide(h, v); }"
    )
    view.wait_for_function(
        "document.body.innerText.includes('How long Python takes to put work into a queue')"
    )
    context.close()


def test_a_file_that_the_package_does_not_have_is_named(cache):
    slides.write(COURSE, COURSE.lessons[0], cache / "made")
    with pytest.raises(CourseError, match="has no file none"):
        npm.files(npm.REVEAL, ["none.js"], npm.cache(COURSE))
