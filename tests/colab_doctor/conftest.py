"""A session whose packages a test makes, and what the doctor says of an error in it."""

import importlib
import linecache
import os
import sys
import time

import pytest

import colab_doctor
from colab_helpers import _environment_probes


@pytest.fixture
def session(tmp_path, monkeypatch):
    """A session with two packages, `asker` and `provider`, made anew for each test."""
    site = tmp_path / "site-packages"
    monkeypatch.syspath_prepend(site)

    def package(name, code, version="2.1.3", needs=(), old=True):
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").write_text(code)
        about = site / f"{name}-{version}.dist-info"
        about.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {each}" for each in needs]
        (about / "METADATA").write_text("\n".join(lines))
        (about / "RECORD").write_text(
            f"{name}/__init__.py,,\n{name}-{version}.dist-info/METADATA,,\n"
        )
        if old:
            before = time.time() - _environment_probes.process_uptime() - 3600
            os.utime(about / "METADATA", (before, before))
        importlib.invalidate_caches()

    yield package
    for name in ("asker", "provider"):
        sys.modules.pop(name, None)


def error_of(code):
    """The exception that a cell raises."""
    name = f"<ipython-input-{abs(hash(code))}>"
    lines = code.splitlines(keepends=True)
    linecache.cache[name] = (len(code), None, lines, name)  # as IPython does
    with pytest.raises(Exception) as caught:
        exec(compile(code, name, "exec"), {"__name__": "__main__"})
    return caught.value


def explain_cell(code):
    """What the doctor says of the error of a cell."""
    return colab_doctor.explain_error(error_of(code), "colab")
