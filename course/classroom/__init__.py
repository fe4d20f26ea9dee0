"""What a teacher takes into the room: slides, handouts, and a page on what the class handed in."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment, Template

TEMPLATES = Path(__file__).parent / "templates"


def template(name: str) -> Template:
    """Return a page's template; whatever is filled in is escaped."""
    return _environment().get_template(name)


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # commands start without it

    return Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=FileSystemLoader(TEMPLATES),
        keep_trailing_newline=True,
    )
