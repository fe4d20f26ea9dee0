"""What somebody sees who opens the site: in a real browser, on every page."""

import itertools
import json
from collections import Counter

import pytest

import colab_doctor
from colab_doctor import pasted_log
from colab_helpers.formulas import serving, training
from tests import slow
from tests.colab_doctor import test_errors, test_machines, test_notebooks
from tests.course.accessible import violations
from tests.course.conftest import PAGE_TIMEOUT_MS

WIDE, PHONE = {"width": 1400, "height": 900}, {"width": 390, "height": 844}


def opened(browser, **how):
    """A page in a context of its own, and a list that fills with what went wrong."""
    page = browser.new_context(**{"viewport": WIDE, **how}).new_page()
    page.set_default_timeout(PAGE_TIMEOUT_MS)
    wrong = []
    page.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    return page, wrong


@pytest.fixture
def page(browser):
    page, wrong = opened(browser)
    yield page
    page.context.close()
    assert wrong == []


def pages(site):
    found = sorted(str(path.relative_to(site)) for path in site.rglob("*.html"))
    assert len(found) > 60
    return found


def part_of(site, number):
    """A part of all pages: 0 has those of a kind of their own, and of each folder the largest."""
    folders = itertools.groupby(pages(site), key=lambda name: name.rpartition("/")[0])
    largest = {max(inside, key=lambda n: (site / n).stat().st_size) for _, inside in folders}
    first = largest | {"index.html", "explain.html", "fits.html", "chips.html", "search.html"}
    return sorted(first) if number == 0 else sorted({*pages(site)} - first)[number - 1 :: 3]


def test_parts_are_all_pages_each_once(site):
    parts = [part_of(site, number) for number in range(4)]
    assert sorted(itertools.chain(*parts)) == pages(site) and all(parts) and len(parts[0]) > 8


@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", slow.after(1, range(4)))
def test_every_page_is_whole_accessible_and_asks_nobody_else(site, address, browser, part):
    page, wrong = opened(browser)
    outside, found = [], {}
    own = (address, "data:", "blob:")
    page.on("request", lambda r: None if r.url.startswith(own) else outside.append(r.url))
    page.on("response", lambda r: outside.append(r.url) if r.status >= 400 else None)
    for name in part_of(site, part):
        page.goto(address + name)
        if said := violations(page, ["dark"]):
            found[name] = said
        if page.evaluate("document.documentElement.scrollWidth") > WIDE["width"]:
            found.setdefault(name, []).append("wider than the screen")
    assert (found, outside, Counter(wrong)) == ({}, [], Counter())
    page.context.close()


@pytest.mark.parametrize(
    "name",
    [
        "index",
        "explain",
        "fits",
        "chips",
        "glossary",
        "lessons/06_memory_management",
        "problems/gpu",
    ],
)
def test_a_phone_shows_it_without_scrolling_sideways(address, browser, name):
    page, wrong = opened(browser, viewport=PHONE)
    page.goto(f"{address}{name}.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert wrong == []
    page.context.close()


@pytest.mark.parametrize(
    ("words", "first", "soon"),
    [
        ("out of memory", "problems/memory.html#out-of-memory", "lessons/06_memory_management"),
        (
            "CUDA out of memory",
            "problems/memory.html#out-of-memory",
            "lessons/06_memory_management",
        ),
        ("GPU memory", "lessons/06_memory_management", "problems/gpu.html#gpu-held"),
        ("v5e", "lessons/", "lessons/05_tpu_strategy"),
        ("GradScaler", "problems/precision.html#scaler-with-bf16", "lessons/07_mixed_precision"),
        ("profiler", "lessons/10_profile", "lessons/03_pytorch_on_gpu"),
        ("LoRA", "lessons/15_fine_tune", "lessons/06_memory_management"),
        ("quantization", "lessons/12_quantize", "problems/precision"),
        ("ridge", "glossary.html#term-ridge", "lessons/02_check_hardware"),
        ("DataLoader", "problems/processes.html#dataloader-worker", "lessons/"),
        ("mixed precision", "lessons/07_mixed_precision", ""),
    ],
)
def test_search_finds_what_was_meant_among_the_first_three(address, page, words, first, soon):
    page.goto(f"{address}search.html?q={words.replace(' ', '+')}")
    found = page.locator("ul.search > li")
    found.nth(2).locator("p.context").wait_for(timeout=20_000)
    links = [found.nth(k).locator("a").first.evaluate("one => one.href") for k in range(3)]
    assert first in links[0] and any(soon in link for link in links), links
    excerpt = found.first.locator("p.context").inner_text().lower()
    assert any(word[:6] in excerpt for word in words.lower().split())


def test_tables_sort_by_number_and_by_name(address, page):
    page.goto(f"{address}chips.html")
    table = page.locator(".sortable table").first
    column = lambda n: table.locator(f"tbody tr td:nth-child({n})").all_inner_texts()  # noqa: E731
    table.get_by_role("button", name="bandwidth").click()
    speeds = [float(text) for text in column(4)]
    assert speeds == sorted(speeds)
    table.get_by_role("button", name="bandwidth").click()
    assert [float(text) for text in column(4)] == sorted(speeds, reverse=True)
    table.get_by_role("button", name="chip").click()
    assert column(1) == sorted(column(1), key=str.lower)


@pytest.fixture(scope="module")
def python(site):
    """The site with its Python; without npm these tests say that they did not run."""
    if not (site / "_static" / "pyodide").exists():
        pytest.skip("NOT TESTED: the doctor and the planner in the browser, since npm is not here")


@pytest.fixture(scope="module")
def started(python, address, browser):
    """The doctor's page on which Python has started."""
    page, wrong = opened(browser)
    page.goto(f"{address}explain.html")
    ask(page, "error", "x", "")
    yield page
    page.context.close()
    assert wrong == []


@pytest.fixture
def doctors(started):
    """That page, with nothing asked and nothing said."""
    started.evaluate(
        "() => { const said = document.getElementById('doctor-said'); said.replaceChildren();"
        " said.setAttribute('aria-busy', 'true'); document.getElementById('doctor-text').value = ''; }"
    )
    return started


def ask(page, question, *given):
    """What the page's own way of asking answers, as data."""
    return page.evaluate(
        "async ([question, given]) => {"
        " const { ask } = await import(new URL('_static/asking.js', document.baseURI));"
        " return ask(question, ...given); }",
        [question, list(given)],
    )


def expected(text):
    """What Python here answers for a text, where nothing but the text tells the place."""
    found = colab_doctor.explain_error(text, pasted_log.platform(text) or "colab")
    return found.id, found.meaning, found.fix, found.also.id if found.also else ""


@pytest.mark.timeout(900)
def test_the_doctor_answers_as_python_does(started):
    page = started
    texts = [text for text, _, _ in test_errors.MET]
    assert len(texts) > 600
    answers = page.evaluate(
        "async (texts) => {"
        " const { ask } = await import(new URL('_static/asking.js', document.baseURI));"
        " const answers = []; for (const text of texts) answers.push(await ask('error', text, ''));"
        " return answers; }",
        texts,
    )
    for text, answer in zip(texts, answers, strict=True):
        card = answer["card"] or {"id": "", "meaning": "", "fix": ""}
        also = (answer["also"] or {"id": ""})["id"]
        assert (card["id"], card["meaning"], card["fix"], also) == expected(text), text


def answered(page):
    page.wait_for_function(
        "document.getElementById('doctor-said').getAttribute('aria-busy') === 'false'",
        timeout=PAGE_TIMEOUT_MS,
    )
    return page.locator("#doctor-said").inner_text()


def test_the_doctor_by_keyboard_alone(python, address, page):
    page.goto(f"{address}explain.html")
    page.locator("#doctor-text").focus()
    page.keyboard.type("RuntimeError: No CUDA GPUs are available")
    for _ in range(2):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "What does it mean?"
    page.keyboard.press("Enter")
    said = answered(page)
    assert colab_doctor.known_problems()["no-accelerator"].title.replace("`", "") in said
    link = page.locator("#doctor-said a").get_attribute("href")
    page.goto(link)
    assert page.locator("#no-accelerator").count() == 1


def test_what_the_numbers_of_an_error_say_stands_above_what_is_known(doctors):
    page = doctors
    page.fill("#doctor-text", test_machines.FULL)
    page.keyboard.press("Control+Enter")
    said = answered(page)
    assert said.index("36.0 GiB was asked for") < said.index("More about this problem")


HOSTILE = {
    "script": "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">",
    "long": "RuntimeError: " + "CUDA out of <memory> " * 250_000,
    "binary": "".join(map(chr, range(1, 256))) * 4000,
    "lines": "\n".join(['  File "/content/x.py", line 1, in <b>'] * 100_000),
}


@pytest.mark.parametrize("name", slow.after(2, HOSTILE))
def test_hostile_texts_stay_texts(doctors, name):
    page = doctors
    page.evaluate("text => { document.getElementById('doctor-text').value = text }", HOSTILE[name])
    page.locator("#doctor button").click()
    assert answered(page).strip()
    assert (
        page.title() != "owned"
        and page.locator("#doctor-said img, #doctor-said script").count() == 0
    )


OLD = test_notebooks.notebook(
    "%tensorflow_version 1.x\nimport tensorflow as tf\nsess = tf.Session()", "import <b>apex</b>"
)


def test_a_notebook_by_file_and_by_paste(doctors, tmp_path):
    page = doctors
    wanted = [finding.observation for finding in colab_doctor.explain_notebook(OLD)]
    assert len(wanted) >= 2
    file = tmp_path / "<img src=x>.ipynb"
    file.write_text(json.dumps(OLD), "utf-8")
    page.set_input_files("#doctor-file", str(file))
    by_file = answered(page)
    page.fill("#doctor-text", json.dumps(OLD))
    page.locator("#doctor button").click()
    page.wait_for_function(
        "document.getElementById('doctor-said').innerText.startsWith('The notebook')"
    )
    by_paste = answered(page)
    assert all(seen in by_file and seen in by_paste for seen in wanted)
    assert page.locator("#doctor-said img, #doctor-said b").count() == 0


@pytest.mark.parametrize(
    ("word", "there"),
    [("handout", "teaching/"), ("slides", "teaching/"), ("KV cache", "lessons/16_serve"),
     ("finetuning", "glossary.html")],
)  # fmt: skip
def test_search_finds_words_of_teachers_and_other_spellings(address, page, word, there):
    page.goto(f"{address}search.html?q={word.replace(' ', '+')}")
    link = page.locator("ul.search > li a")
    link.first.wait_for(timeout=20_000)
    page.wait_for_timeout(1000)
    links = link.evaluate_all("all => all.slice(0, 3).map((one) => one.href)")
    assert any(there in address for address in links), links


@pytest.mark.parametrize("broken", ['{"cells": [', "[]", '{"cells": 3}', "\x00\x01"])
def test_what_is_no_notebook_is_said_to_be_none(doctors, tmp_path, broken):
    page = doctors
    (tmp_path / "x.ipynb").write_text(broken, "utf-8")
    page.set_input_files("#doctor-file", str(tmp_path / "x.ipynb"))
    assert "not a notebook" in answered(page)


def test_the_planner_answers_as_python_does(python, address, page):
    page.goto(f"{address}fits.html")
    page.select_option("#fits-known", label="1.3 B")
    page.locator("#fits button").click()
    page.wait_for_selector("#fits-said table")
    sizes = training.Transformer(24, 2048, 16, 2048, 50257, 1)
    said = page.locator("#fits-said").inner_text()
    for fit in training.fits(sizes):
        row = page.locator(
            "#fits-said tr", has=page.get_by_role("cell", name=fit.menu_name, exact=True)
        )
        assert row.locator("td").first.inner_text() == fit.verdict
        assert row.locator("td").nth(4).inner_text() == str(fit.largest_batch)
    assert sizes.peak_phase in said and f"{100 * training.MAX_PEAK_ERROR:.1f}%" in said


def test_the_server_answers_as_python_does(python, address, page):
    page.goto(f"{address}fits.html")
    page.select_option("#serve-bits", "4")
    page.fill("#serve-users", "12")
    page.locator("#serve button").click()
    page.wait_for_selector("#serve-said table")
    row = page.locator("#serve-said tr", has=page.get_by_role("cell", name="T4 GPU", exact=True))
    found = serving.serve("qwen3-8b", "T4", context=4096, users=12, bits=4)
    assert row.locator("td").first.inner_text() == "fits" and found.fits
    assert row.locator("td").nth(2).inner_text() == str(found.max_users)
    page.fill("#serve-config", '{"num_local_experts": 8}')
    page.locator("#serve button").click()
    page.wait_for_function("document.getElementById('serve-said').innerText.includes('experts')")


def test_the_planner_refuses_what_is_no_network(python, address, page):
    page.goto(f"{address}fits.html")
    page.fill("#fits-n_head", "7")
    page.locator("#fits button").click()
    page.wait_for_function("document.getElementById('fits-said').innerText.includes('heads')")
    assert "evenly" in page.locator("#fits-said").inner_text()


def test_a_site_without_its_python_says_so(address, browser):
    page, _ = opened(browser)
    page.route("**/pyodide/**", lambda route: route.abort())
    page.goto(f"{address}explain.html")
    page.fill("#doctor-text", "RuntimeError: No CUDA GPUs are available")
    page.locator("#doctor button").click()
    assert "Python" in answered(page)
    page.context.close()
