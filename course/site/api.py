"""The pages that describe the packages: one a module, every public name."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import colab_helpers
from course.write.tables import table


def rooms() -> dict[str, str]:
    """Return the public modules: name -> what it does, in a line."""
    names = [
        f"colab_helpers.{module.name}"
        for module in pkgutil.iter_modules(colab_helpers.__path__)
        if not module.name.startswith("_")
    ]
    names += ["colab_doctor"]
    lessons = "data exercises models predictions reference replay transformer"
    names += [f"colab_lessons.{name}" for name in lessons.split()]
    docs = {name: inspect.getdoc(importlib.import_module(name)) or "" for name in names}
    return {name: text.splitlines()[0] for name, text in docs.items()}


def public(room: str) -> list[str]:
    """Return the public names of a room: those it exports, or those that are its own."""
    module = importlib.import_module(room)
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if not inspect.ismodule(getattr(module, name))]
    return [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", None) == room
    ]


def pages() -> dict[str, str]:
    """Return the pages by name: an index, and a page for each room."""
    found = {room: _page(room) for room in rooms()}
    names = {room.removeprefix("colab_helpers."): text for room, text in found.items()}
    return {"index": _index(), **names}


def _page(room: str) -> str:
    module = importlib.import_module(room)
    about = inspect.getdoc(module) or ""
    lines = [f"# `{room.removeprefix('colab_helpers.')}`", "", "```{eval-rst}", about, ""]
    for name in public(room):
        thing = getattr(module, name)
        if callable(thing):
            kind = "class" if inspect.isclass(thing) else "function"
            lines += [f".. auto{kind}:: {room}.{name}", ""]
        else:  # a constant, whose own description would be that of its type
            lines += [f".. py:data:: {room}.{name}", f"   :type: {type(thing).__name__}", ""]
    return "\n".join([*lines, "```", ""])


def _index() -> str:
    rows = [
        (f"[`{name}`]({name}.md)", does)
        for name, does in ((r.removeprefix("colab_helpers."), q) for r, q in rooms().items())
    ]
    names = "\n".join(room.removeprefix("colab_helpers.") for room in rooms())
    return (
        "# Every public name\n\n"
        "`colab_helpers` is for any notebook, `colab_doctor` explains errors, "
        "`colab_lessons` serves the lessons. "
        "[How to use it in your own notebook](../own.md).\n\n"
        f"{table(('module', 'what it does'), rows)}\n\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"
    )
