"""What search engines read of the site: the course as schema.org data, and a map of the pages."""

from __future__ import annotations

import json
from pathlib import Path
from xml.sax.saxutils import escape

from course.config import Course


def course_data(course: Course) -> str:
    """Return the course as schema.org's Course, with each lesson's minutes and objectives, as JSON."""
    parts = [
        {
            "@type": "LearningResource",
            "name": f"{lesson.number:02d} {lesson.title}",
            "description": lesson.hook,
            "url": f"{course.repository.site}lessons/{lesson.slug}.html",
            "timeRequired": f"PT{lesson.minutes}M",
            "teaches": list(lesson.objectives),
        }
        for lesson in course.lessons
    ]
    data = {
        "@context": "https://schema.org",
        "@type": "Course",
        "name": "Accelerators in Colab, measured",
        "description": "Notebooks on measuring, fixing and explaining GPU and TPU performance.",
        "url": course.repository.site,
        "inLanguage": "en",
        "isAccessibleForFree": True,
        "license": "https://spdx.org/licenses/Apache-2.0",
        "provider": {"@type": "Organization", "name": "The authors", "url": course.repository.url},
        "hasPart": parts,
    }
    return json.dumps(data).replace("</", "<\\/")  # it goes into a script element


def sitemap(course: Course, html: Path) -> str:
    """Return a sitemap with the address of every page below `html`, as sitemaps.org has it."""
    pages = sorted(path.relative_to(html).as_posix() for path in html.rglob("*.html"))
    places = [f"<url><loc>{escape(course.repository.site + page)}</loc></url>" for page in pages]
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    return "\n".join([head, *places, "</urlset>\n"])
