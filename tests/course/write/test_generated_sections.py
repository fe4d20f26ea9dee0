import re

from colab_lessons import measurements
from course.__main__ import main
from course.check import notebook_lint
from course.config import load
from course.write import generated_sections

PAGES = ["README.md", "CONTRIBUTING.md", "docs/frameworks.md", "docs/teaching/README.md",
         "docs/versions.md"]  # fmt: skip


def test_links_of_the_pages_lead_somewhere(course):
    teaching = [f"docs/teaching/{lesson.slug}.md" for lesson in course.lessons]
    for name in [*PAGES, *teaching]:
        folder, _, _ = name.rpartition("/")
        text = (course.root / name).read_text("utf-8")
        assert notebook_lint.markdown_link_problems(course, text, folder or ".") == []


def test_every_lesson_has_a_teachers_page_that_is_linked(course):
    index = (course.root / "docs/teaching/README.md").read_text("utf-8")
    for lesson in course.lessons:
        text = (course.root / f"docs/teaching/{lesson.slug}.md").read_text("utf-8")
        assert f"({lesson.slug}.md)" in index
        for part in (
            "## Questions for the class",
            "## Common wrong answers",
            "#slideshowMode=true",
        ):
            assert part in text
        assert re.search(r"Run all: \d+ s on ", text)


def test_measured_table_reads_the_records(toy_course):
    lesson = toy_course.lessons[0]
    assert "No full run" in generated_sections.measured_table(toy_course, lesson)
    folder = toy_course.root / "colab_lessons" / "measurements"
    folder.mkdir(parents=True)
    value = measurements.Value(3.5, "×", "faster than before")
    entry = measurements.Record(
        lesson.slug, "A chip", "GPU", "2026-11-01", "local", False, values={"x": value}
    )
    measurements.write(entry, folder)
    assert generated_sections.measured_table(toy_course, lesson).splitlines() == [
        "| measured | A chip, 2026-11-01 |", "|---|---|", f"| faster than before | {value} |",
    ]  # fmt: skip


def test_generated_parts_are_up_to_date(course):
    assert {
        p.name
        for p, text in generated_sections.render(course).items()
        if p.read_text("utf-8") != text
    } == set()


def test_check_names_what_is_out_of_date(toy_course, monkeypatch, capsys):
    monkeypatch.setattr("course.__main__.load", lambda: load(toy_course.root))
    assert main(["build"]) == 0
    assert main(["build", "--check"]) == 0
    (toy_course.root / "README.md").write_text(
        (toy_course.root / "README.md").read_text().replace("A toy", "A boy")
    )
    assert main(["build", "--check"]) == 1
    assert "README.md: its generated part is out of date" in capsys.readouterr().out
