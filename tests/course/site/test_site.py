"""What the built site holds: pages, links, data for other tools, and nothing that is too heavy."""

import dataclasses
import html.parser
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import tarfile
import urllib.parse
import zipfile

import pytest

import colab_doctor
import colab_helpers
from colab_helpers import platform_facts, published_results
from colab_helpers.hardware import catalog
from course.config import CourseError, Repository, load
from course.site import browser_python, building, chips, glossary, lesson_pages, staging
from course.site import problems as problem_pages

COURSE = load()


class Links(html.parser.HTMLParser):
    """Addresses that a page leads to, what it shows or loads, and the places in it."""

    def __init__(self, text):
        super().__init__()
        self.to, self.loads, self.places = set(), set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.places |= {named[key] for key in ("id", "name") if named.get(key)}
        if tag == "a" and named.get("href"):
            self.to.add(named["href"])
        if tag in ("img", "script", "source") and named.get("src"):
            self.loads.add(named["src"])
        if tag == "link" and named.get("rel") not in ("canonical",) and named.get("href"):
            self.loads.add(named["href"])


@pytest.fixture(scope="module")
def links(site):
    return {path: Links(path.read_text("utf-8")) for path in site.rglob("*.html")}


def test_no_link_inside_the_site_is_broken(site, links):
    broken = []
    for page, found in links.items():
        for address in found.to | found.loads:
            parts = urllib.parse.urlsplit(address)
            if parts.scheme or not (parts.path or parts.fragment):
                continue
            target = (
                page
                if not parts.path
                else (page.parent / urllib.parse.unquote(parts.path)).resolve()
            )
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (
                parts.fragment and target in links and parts.fragment not in links[target].places
            ):
                broken.append((page.name, address))
    assert broken == []


def test_links_to_the_repository_lead_to_its_files_and_not_to_pages_of_the_site(links):
    blob = f"{COURSE.repository.url}/blob/"
    named = {}
    for page, found in links.items():
        for address in found.to:
            if address.startswith(blob):
                branch, _, path = address.removeprefix(blob).partition("/")
                named.setdefault(path.partition("#")[0], []).append((page.name, branch))
    assert [path for path in named if not (COURSE.root / path).exists()] == []
    assert not {path for path in named if path in staging._page_by_file(COURSE)}


def test_the_front_page_leads_to_pages_of_the_site(links, site):
    inside = {address for address in links[site / "index.html"].to if "//" not in address}
    wanted = {
        "lessons/index.html",
        "explain.html",
        "fits.html",
        "machines.html",
        "contributing.html",
    }
    assert wanted <= inside


def test_nothing_is_loaded_from_elsewhere(links):
    outside = {address for found in links.values() for address in found.loads if "//" in address}
    assert outside == set()


def test_each_lesson_has_its_page_with_its_outputs(site):
    for lesson in COURSE.lessons:
        text = (site / "lessons" / f"{lesson.slug}.html").read_text("utf-8")
        assert COURSE.colab_url(lesson) in text and lesson_pages.kaggle(COURSE, lesson) in text
        assert "cell_output" in text and "_images/" in text
        assert "Set up: run this cell first" in text and "Solution (try first)" in text
        assert "vnd.colab-helpers" not in text


def test_each_problem_has_an_address(site, links):
    for id in colab_doctor.known_problems():
        page, _, place = problem_pages.place(id).partition(".md#")
        assert place in links[site / f"{page}.html"].places


def test_machines_find_their_way(site):
    text = (site / "llms.txt").read_text("utf-8")
    named = [line.partition("](")[2].rstrip(")") for line in text.splitlines() if "](" in line]
    assert len(named) > 60
    for address in named:
        assert (site / address.removeprefix(COURSE.repository.site).partition(")")[0]).exists(), (
            address
        )
    lesson = (site / "_sources" / "lessons" / "06_memory_management.ipynb.txt").read_text("utf-8")
    assert "image/png" not in lesson and "torch.cuda.memory_allocated()" in lesson


def test_edit_links_lead_to_files_and_downloads_are_there(site):
    edit = f"{COURSE.repository.url}/edit/{COURSE.repository.branch}/"
    for page in ("planner.html", "teaching/index.html", "lessons/16_serve.html"):
        text = (site / page).read_text("utf-8")
        [file] = re.findall(rf'href="{re.escape(edit)}([^"]*)"', text)
        assert (COURSE.root / file).is_file(), file
    text = (site / "teaching" / "index.html").read_text("utf-8")
    names = re.findall(r'/handouts/([\w-]+\.ipynb)"', text)
    assert len(names) > 20 and all((site / "handouts" / name).is_file() for name in names)


def test_every_public_name_is_described(site):
    rooms = {f"colab_helpers.{one.name}" for one in pkgutil.iter_modules(colab_helpers.__path__)}
    described = {path.stem for path in (site / "api").glob("colab_*.html")}
    assert {room for room in rooms if "._" not in room} | {"colab_doctor"} <= described
    for room in described:
        text = (site / "api" / f"{room}.html").read_text("utf-8")
        module = importlib.import_module(room)
        for name in getattr(module, "__all__", []):
            if inspect.isclass(getattr(module, name)) or inspect.isfunction(getattr(module, name)):
                assert f'id="{room}.{name}"' in text, f"{room}.{name}"


def test_facts_and_measurements_are_all_there_with_their_sources(links, site):
    told = links[site / "facts.html"]
    assert {f"fact-{fact.id}" for fact in platform_facts.all_facts()} - told.places == {
        "fact-machines"
    }
    assert {row.url for row in published_results.all_rows().values()} <= links[
        site / "published.html"
    ].to


def test_chips_have_what_their_sheets_say(site):
    text = chips.page()
    for chip in catalog().values():
        row = next(line for line in text.splitlines() if line.startswith(f"| {chip.name} |"))
        assert f"| {chip.memory / 1e9:g} | {chip.bandwidth / 1e9:g} |" in row and chip.url in row
    for machine in platform_facts.machine_table().machines:
        assert f"\n| {machine.menu_name} |" in text


def test_each_term_has_a_number_and_leads_to_where_it_is_measured(site, links):
    text = (site / "glossary.html").read_text("utf-8")
    assert text.count("<dt") == text.count("<strong>") == len(glossary.terms()) > 30
    assert len({term.name for term in glossary.terms()}) == len(glossary.terms())
    for term in glossary.terms():
        assert len(re.findall(r"[.!?](?: |$)", term.text)) == 2, term.name
        assert term.says.count("{}") == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"value": "none"}, "no record of 02_check_hardware has none"),
        ({"section": "X"}, "no section 'X'"),
    ],
)
def test_a_term_whose_number_is_gone_stops_the_site(monkeypatch, change, words):
    term = next(term for term in glossary.terms() if term.name == "ridge")
    monkeypatch.setattr(glossary, "terms", lambda: [dataclasses.replace(term, **change)])
    with pytest.raises(CourseError, match=words):
        glossary.page(COURSE)


def test_machines_that_ran_the_lessons_are_named(site):
    assert "AMD EPYC" in (site / "machines.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("slug", "address"),
    [
        ("Ada/gpu-course", "https://ada.github.io/gpu-course/"),
        ("ada/Ada.github.io", "https://ada.github.io/"),
    ],
)
def test_a_fork_has_an_address_of_its_own(slug, address):
    assert Repository(f"https://github.com/{slug}", "main").site == address


@pytest.mark.parametrize(
    ("page", "link", "there"),
    [
        ("planner.md", "../notebooks/08_plan.ipynb", "lessons/08_plan.ipynb"),
        ("teaching/08_plan.md", "../planner.md", "../planner.md"),
        (
            "teaching/08_plan.md",
            "../../notebooks/08_plan.ipynb#top",
            "../lessons/08_plan.ipynb#top",
        ),
        ("planner.md", "https://example.org/x.md", "https://example.org/x.md"),
        ("planner.md", "#here", "#here"),
        ("planner.md", "../LICENSE", f"{COURSE.repository.url}/blob/main/LICENSE"),
        ("own.md", "docs/planner.md", "planner.md"),
    ],
)
def test_links_lead_to_pages_or_to_the_repository(page, link, there):
    file = staging._pages(COURSE)[page]
    assert staging.relink(COURSE, page, file, f"a [b]({link}) c") == f"a [b]({there}) c"


def test_what_sphinx_warns_of_stops_the_build(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "index.md").write_text("# Title\n\n[gone](gone.md)\n", "utf-8")
    with pytest.raises(CourseError, match=r"gone\.md"):
        building._run_sphinx(COURSE, source, tmp_path / "html", tmp_path / "trees")


def test_the_helper_for_browsers_is_the_same_each_time(tmp_path):
    for name in ("a.zip", "b.zip"):
        browser_python._pack(COURSE, tmp_path / name)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        names = archive.namelist()
    assert {"colab_doctor/problems/tpu.toml", "colab_helpers/formulas/serving.py"} <= {*names}
    assert not [name for name in names if "lessons" in name]
    assert not [name for name in names if "pycache" in name]


def test_in_browser_runs_with_nothing_but_the_standard_library(tmp_path):
    browser_python._pack(COURSE, tmp_path / "helper.zip")
    code = (
        "import sys; sys.path[:0] = sys.argv[1:3]; import json, in_browser;"
        "print(json.loads(in_browser.error('No CUDA GPUs are available'))['card']['id']);"
        "print(json.loads(in_browser.fits('{}'))['refused']);"
        "print(json.loads(in_browser.serve('{}'))['refused'])"
    )
    static = staging.HERE / "static"
    command = [sys.executable, "-I", "-S", "-c", code, str(tmp_path / "helper.zip"), str(static)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.splitlines()[0] == "no-accelerator", done.stderr
    assert "n_layer" in done.stdout.splitlines()[1] and "config" in done.stdout.splitlines()[2]


def fake_npm(folder, command):
    npm = folder / "npm"
    npm.write_text(f"#!/bin/sh\n{command}\n", "utf-8")
    npm.chmod(0o755)


def test_another_file_than_the_tested_one_is_refused(tmp_path, monkeypatch):
    with tarfile.open(tmp_path / "other.tgz", "w:gz"):
        pass
    fake_npm(tmp_path, f"/bin/cp {tmp_path}/other.tgz pyodide.tgz")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CourseError, match="hash differs"):
        browser_python.provide(COURSE, tmp_path / "site", tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.tgz"))
