"""What does a teacher take into the room: slides, hand-outs, and one page on what the class handed in?"""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

TEMPLATES = Path(__file__).parent / "templates"
_environment = Environment(
    autoescape=True,
    undefined=StrictUndefined,
    loader=FileSystemLoader(TEMPLATES),
    keep_trailing_newline=True,
)


def template(name: str) -> Template:
    """Return a page's template; whatever is filled in is escaped."""
    return _environment.get_template(name)
