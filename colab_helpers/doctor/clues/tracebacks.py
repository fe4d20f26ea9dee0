"""Which package asks which one for what, in a traceback that came as a text?

Nothing is known of the machine it is from: no versions, and no other packages than those its lines show.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from colab_helpers.doctor import raised as texts
from colab_helpers.doctor.clues.clue import Clue, Raised
from colab_helpers.doctor.imports import distribution, normal

_MODULE = r"(?P<module>[A-Za-z_]\w{0,60}(?:\.\w{1,60}){0,9})"
#: How Python says that a module has no such name, or a package no such part.
_ASKED = (
    re.compile(rf"cannot import name '(?P<name>\w{{1,90}})' from '{_MODULE}'"),
    re.compile(rf"module '{_MODULE}' has no attribute '(?P<name>\w{{1,90}})'"),
    re.compile(rf"No module named '{_MODULE}\.(?P<name>\w{{1,90}})'"),
)
#: A frame's file, as Python, IPython 7 and IPython 9 print it, and of an installed package in it.
_FILE = re.compile(r"[^\s\"'()<>]{1,300}\.py\b")
_PACKAGE = re.compile(r"(?:site|dist)-packages[/\\]{1,2}(\w{1,80})[/\\.]")
_LOOKED_AT = 20_000  # characters above the message
_GENERAL = ("", "library-mismatch")  # what the table says, where it says nothing more exact


def clues(raised: Raised) -> Iterator[Clue]:
    """Yield who asked whom for what in `raised`, a text, if that was over the border of two packages."""
    if raised.chain or raised.known not in _GENERAL:  # packages.py, or the table, says more
        return
    message = next(iter(texts.raised(raised.text)), "")
    asked = next((match for each in _ASKED if (match := each.search(message))), None)
    if asked is None:
        return
    provider = asked["module"].partition(".")[0]
    above = raised.text[: raised.text.rfind(message)][-_LOOKED_AT:]
    inside = [_PACKAGE.search(file) for file in _FILE.findall(above)]
    tops = [match[1] if match else "" for match in inside]
    top = next((top for top in reversed(tops) if top != provider), "")
    if not top or provider in sys.stdlib_module_names:
        return
    asker, other = normal(distribution(top)), normal(distribution(provider))
    yield Clue(
        "library-mismatch",
        f"{asker} asks for `{asked['module']}.{asked['name']}`, which the {other} that is "
        "installed does not have.",
        f"One of them is too old for the other. Update {asker}, {raised.restart}. If its newest "
        f"release fails in the same way, an older {other}: `%pip index versions {other}` lists "
        "them.",
    )
