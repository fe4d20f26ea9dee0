"""What stands on which slide, and how decks look in a browser."""

import json
import re
import shutil

import nbformat
import pytest

from course import npm
from course.__main__ import main
from course.classroom import blocks, deck, questions, slides
from course.table import CourseError, load
from course.write import assemble, parts
from tests import slow
from tests.course.accessible import violations
from tests.course.conftest import PATIENCE
from tests.toy import edit_lesson

COURSE = load()
#: Of every slide, with all that comes on a click, what stands outside of it.
OUTSIDE = """() => [...document.querySelectorAll(".slides > section")].flatMap((slide, place) => {
    Reveal.slide(place);
    slide.querySelectorAll(".fragment").forEach((one) => one.classList.add("visible"));
    const page = slide.getBoundingClientRect();
    return [...slide.querySelectorAll("h1, h2, p, pre, li, td, img, table")].filter((one) => {
        const box = one.getBoundingClientRect();
        const cut = one.tagName === "PRE" && one.scrollWidth > one.clientWidth + 2;
        return !one.closest("aside") && (box.bottom > page.top + 712 || box.right > page.left + 1272 || cut);
    }).map((one) => `${place + 1}: ${one.tagName} ${one.textContent.slice(0, 60)}`);
})"""
OWN = ("file:", "data:", "blob:")
SMALLEST = """() => Math.min(...[...document.querySelectorAll(".body > *, .body li, .body td")]
    .filter((one) => !one.matches(".said.size-2, img"))
    .map((one) => parseFloat(getComputedStyle(one).fontSize)))"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Where decks are made; without npm these tests say that they did not run."""
    if shutil.which("npm") is None:
        pytest.skip("NOT TESTED: slides, since npm is not here")
    return tmp_path_factory.mktemp("slides")


def made(lesson, short=False):
    return deck.make(COURSE, lesson, assemble.read(COURSE.notebook(lesson)), short)


lessons = pytest.mark.parametrize("lesson", COURSE.lessons, ids=lambda lesson: lesson.slug)


@lessons
def test_minutes_add_up_in_both_cuts_and_the_short_one_leaves_parts_out(lesson):
    whole, short = made(lesson), made(lesson, short=True)
    for one, minutes in ((whole, lesson.minutes), (short, min(45, lesson.minutes))):
        assert one.minutes == minutes == sum(slide.minutes for slide in one.slides)
    assert len(short.slides) <= len(whole.slides) <= lesson.minutes and len(short.slides) <= 45
    assert (len(short.slides) < len(whole.slides)) == (lesson.minutes > 45)


@lessons
def test_a_prediction_comes_before_what_it_is_about(lesson):
    found = made(lesson).slides
    asked = [place for place, slide in enumerate(found) if slide.kind == "predict"]
    assert len(asked) == len(questions.of(assemble.build(COURSE, lesson))) >= 3
    for place in asked:
        assert "<img" not in found[place].body and "<pre" not in found[place].body
    assert not any("@param" in slide.body or "reference.record" in slide.body for slide in found)


@lessons
def test_questions_of_the_teachers_page_stand_in_the_notes_with_their_answers(lesson):
    notes = "\n".join(slide.notes for slide in made(lesson).slides)
    for note in parts.notes(COURSE, lesson):
        words = re.findall(r"\w+", note.answer or note.text)[:4]
        assert all(word in notes for word in words), note


@lessons
def test_every_figure_is_there_with_its_alt_text(lesson):
    bodies = "\n".join(slide.body for slide in made(lesson).slides)
    divided = parts.of(lesson, assemble.read(COURSE.notebook(lesson)))
    figures = [
        output
        for part in divided
        if part.minutes
        for cell in part.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert len(figures) == bodies.count("<img ") and 'alt=""' not in bodies


def test_outputs_can_be_those_of_the_teachers_own_run(tmp_path, capsys, cache):
    lesson = COURSE.lessons[1]
    executed = assemble.read(COURSE.notebook(lesson))
    cell = next(
        cell for cell in executed.cells if cell.get("outputs") and "re.search" in cell.source
    )
    cell.outputs = [nbformat.v4.new_output("stream", text="seen on <b>my</b> machine")]
    nbformat.write(executed, tmp_path / "mine.ipynb")
    assert (
        main(["slides", "--from", str(tmp_path / "mine.ipynb"), "--folder", str(tmp_path / "made")])
        == 0
    )
    text = (tmp_path / "made" / f"{lesson.slug}.html").read_text("utf-8")
    assert "seen on &lt;b&gt;my&lt;/b&gt; machine" in text
    assert "for 45 minutes" in capsys.readouterr().out


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


def toy_slides(course, text):
    edit_lesson(course, "# ## A figure", f"# ## A figure\n#\n# {text}")
    edit_lesson(course, 'tags=["minutes-0"]', 'tags=["minutes-1"]')
    [lesson] = course.lessons
    [first, _] = parts.of(lesson, assemble.build(course, lesson))
    return slides.of(first)


def test_what_does_not_fit_goes_on_on_the_next_slide():
    sentence = "One sentence that says something about a chip, and goes on for a while. "
    words = nbformat.v4.new_markdown_cell(30 * sentence)
    bodies = [slide.body for slide in slides.of(parts.Part("A part", 1, 1, (words,)))]
    assert len(bodies) > 1 and sum(body.count("One sentence") for body in bodies) == 30


def test_code_that_is_long_is_small_and_then_cut_at_an_empty_line():
    short, longer = "x = 1", "\n".join(f"x{i} = {i}" for i in range(12))
    assert "size-0" in blocks.code(short) and "size-1" in blocks.code(longer)
    halves = list(blocks.fitting("\n".join([longer, "", longer])))
    assert halves == [longer, longer]
    wide = "f(" + "a, " * 2000 + ")"
    assert list(blocks.fitting(wide)) == [wide]  # it fits nowhere, and is shown all the same


@pytest.mark.parametrize(
    ("text", "lines"), [("x\n" * 40, 23), (("y" * 300 + "\n") * 21, 8), ("z" * 100_000, 1)]
)
def test_long_outputs_are_cut_by_the_room_that_they_take(text, lines):
    block = slides._output(text)
    assert (
        block.height <= blocks.HEIGHT
        and block.html.count("\n") + 1 == lines
        and "more line" in block.html
    )


@lessons
def test_no_slide_is_empty_before_its_first_click(lesson):
    for slide in made(lesson).slides:
        shown = re.sub(r'<pre class="said[^"]*fragment">.*?</pre>', "", slide.body, flags=re.S)
        assert shown.strip(), slide.title


@lessons
def test_a_line_of_output_stands_below_its_code(lesson):
    found = made(lesson).slides
    alone = [slide.body for slide in found if slide.body.startswith('<pre class="said')]
    short = [body for body in alone if body.count("\n") == 0]
    assert len(short) <= 1, short  # code that fills a slide has no room below


@pytest.mark.parametrize("number", ["09", "10"])
def test_what_a_task_asks_about_is_shown(number):
    [lesson] = COURSE.select([number])
    [cell] = [
        cell
        for cell in assemble.read(COURSE.notebook(lesson)).cells
        if re.match("# @title (Print the three|Profile the sixth patient)", cell.source)
    ]
    first = cell.outputs[0].text.split()[0]
    assert any(f">{first} " in slide.body for slide in made(lesson).slides)


def test_solutions_are_said_where_their_task_is_shown():
    found = made(COURSE.lessons[2]).slides
    tasks = [slide for slide in found if re.match(r"\d · ", slide.title)]
    assert len(tasks) >= 4
    for slide in tasks:
        assert "One solution:" in slide.notes and "One solution" not in slide.body


def test_text_of_a_lesson_is_not_taken_for_html(toy_course):
    found = toy_slides(toy_course, "A <script>alert(1)</script> and `<b>`.")
    assert "<script" not in found[0].body and "&lt;script&gt;" in found[0].body


def slides_of(*cells):
    """Slides of one part with these cells: (source, what it put out)."""
    made = [nbformat.v4.new_markdown_cell("## A part")]
    for source, said in cells:
        outputs = [nbformat.v4.new_output("stream", text=said)] if said else []
        made.append(nbformat.v4.new_code_cell(source, outputs=outputs))
    return slides.of(parts.Part("A part", 1, 1, tuple(made[1:])))


def test_facts_are_said_and_what_to_take_home_is_shown_without_its_code():
    quoted = "- A T4 has <15 GB. [Google, 2026-01-01]\n"
    taken = "Wait rarely: 1.4 times.\nMove once: n = 3 < 4.\n"
    before, last = slides_of(
        ("x = 1\nx", "1"),
        ('facts.quote("a", "b")', quoted),
        ("takeaways = {1: 2}\nprint(takeaways)", taken),
    )
    assert "<p>A T4 has &lt;15 GB. [Google, 2026-01-01]</p>" in before.notes
    assert "facts" not in before.body + before.notes
    assert "<li><b>Move once</b>: n = 3 &lt; 4.</li>" in last.body
    assert "takeaways" not in last.body


def test_words_are_said_but_for_a_question_and_a_line_that_leads_to_code():
    cells = [
        nbformat.v4.new_markdown_cell("Long ago. There was. A step."),
        nbformat.v4.new_code_cell("x = 1\nx"),
        nbformat.v4.new_markdown_cell("What it means.\n\nHere is how to count."),
        nbformat.v4.new_code_cell("y = 1\ny"),
        nbformat.v4.new_markdown_cell("This goes on."),
        nbformat.v4.new_code_cell("z = 1\nz"),
        nbformat.v4.new_markdown_cell("### A heading\n\nOnly said.\n\nSay a number. **Predict.**"),
    ]
    first, second, third, asked = slides.of(parts.Part("A part", 3, 3, tuple(cells)))
    assert "Long ago" in first.notes and "x" in first.body
    assert "What it means" in second.notes  # code that has said nothing is not explained yet
    assert "Here is how to count" in second.body
    assert "This goes on" in third.notes and "goes on" not in third.body and "z" in third.body
    assert asked.title == "A heading" and asked.kind == "predict" and "Only said" in asked.body
    assert [slide.minutes for slide in (first, second, third, asked)] == [3, 0, 0, 0]


def test_a_few_words_lead_to_a_question_and_code_does_not():
    text = "Short words first.\n\n**Predict.** How many?"
    part = parts.Part("A part", 1, 1, (nbformat.v4.new_markdown_cell(text),))
    [slide] = slides.of(part)
    assert slide.kind == "predict" and slide.body.index("Short") < slide.body.index("Predict")
    long = nbformat.v4.new_markdown_cell(
        "\n\n".join(["A sentence of some length. " * 3] * 5 + [text])
    )
    [asked] = slides.of(parts.Part("A part", 1, 1, (long,)))
    assert "some length" in asked.notes and "some length" not in asked.body
    code = nbformat.v4.new_code_cell("x = 1\ny = 2")
    ask = nbformat.v4.new_markdown_cell("**Predict.** How many?")
    assert len(slides.of(parts.Part("A part", 1, 1, (code, ask)))) == 2


def test_sentences_of_a_paragraph_are_read_one_by_one():
    part = parts.Part(
        "P", 1, 1, (nbformat.v4.new_markdown_cell("One (1.5 GB) is `x`. Two! Is it three?"),)
    )
    [slide] = slides.of(part)
    assert slide.body.count("<li>") == 3 and "<li>One (1.5 GB) is" in slide.body


@lessons
def test_a_deck_ends_with_what_to_take_home(lesson):
    *before, last = made(lesson).slides
    assert last.title == "Three things to take away" and last.body.count("<li>") == 3
    assert not [slide for slide in before if slide.title == last.title]


def test_a_deck_needs_nothing_from_elsewhere(cache):
    lesson = COURSE.lessons[0]
    [(path, _)] = deck.write(COURSE, lesson, cache / "made")
    text = path.read_text("utf-8")
    assert "MIT" in text[:3000] and "Hakim El Hattab" in text
    assert not re.search(
        r"""(src|href)=["']?(https?:)?//(?![^"']*["']>)""", text.split("<script>")[0]
    )
    assert path.stat().st_size < 3e6


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", slow.after(1, range(3)))
def test_decks_are_whole_and_accessible_in_a_browser(browser, cache, part):
    for lesson in COURSE.lessons[part::3]:
        for path, _ in deck.write(COURSE, lesson, cache / "made"):
            wrong, outside = [], []
            page = browser.new_page(viewport={"width": 1280, "height": 720})
            page.set_default_timeout(PATIENCE)
            page.on(
                "console",
                lambda m, w=wrong: w.append(m.text) if m.type in ("error", "warning") else 0,
            )
            page.on("pageerror", lambda error, w=wrong: w.append(str(error)))
            page.on(
                "request", lambda r, o=outside: None if r.url.startswith(OWN) else o.append(r.url)
            )
            page.goto(path.as_uri())
            page.wait_for_function("window.Reveal && Reveal.isReady()")
            assert page.evaluate(OUTSIDE) == [], path.name
            assert page.evaluate(SMALLEST) >= 21, path.name  # but for wide tables of output
            if path.stem == lesson.slug:  # the short one has no slide that this one lacks
                page.goto(f"{path.as_uri()}?view=print")  # all slides at once
                page.wait_for_selector(".pdf-page")
                assert violations(page) == [], path.name
            assert (wrong, outside) == ([], []), path.name
            page.close()


def test_the_presenter_sees_question_and_answer(browser, cache):
    lesson = COURSE.lessons[2]
    [(path, _), *_] = deck.write(COURSE, lesson, cache / "made")
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_function("window.Reveal && Reveal.isReady()")
    with context.expect_page() as popped:
        page.keyboard.press("s")
    view = popped.value
    page.evaluate(
        "() => Reveal.slide([...document.querySelectorAll('.slides > section')]"
        ".findIndex((one) => one.querySelector('h2')?.textContent === 'The clock that stops too early'))"
    )
    view.wait_for_function(
        "document.body.innerText.includes('How long Python takes to put work into a queue')"
    )
    context.close()


def test_a_file_that_the_package_does_not_have_is_named(cache):
    deck.write(COURSE, COURSE.lessons[0], cache / "made")
    with pytest.raises(CourseError, match="has no file none"):
        npm.files(npm.REVEAL, ["none.js"], npm.cache(COURSE))


def test_slides_of_one_lesson(tmp_path, capsys, cache):
    assert main(["slides", "4", "--folder", str(tmp_path / "made")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert json.dumps(sorted(path.name for path in (tmp_path / "made").iterdir())).count("04_") == 2
